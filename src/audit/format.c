/* SPDX-License-Identifier: Apache-2.0 */
/* Events as others read them; see format.h. */
#include "audit/format.h"
#include "api/api.h"

#include <stdio.h>
#include <string.h>

#include "audit/proof.h"
#include "base/clock.h"
#include "base/mem.h"
#include "json/json.h"

/* A field, by its place. */
static const char *line_field(const struct audit_line *l, size_t i)
{
    const char *const fields[AUDIT_FIELDS] = {
        [AUDIT_TENANT] = l->tenant,   [AUDIT_ACTOR] = l->actor,
        [AUDIT_ACTION] = l->action,   [AUDIT_WORKSPACE] = l->workspace,
        [AUDIT_OBJECT] = l->object,   [AUDIT_PATH] = l->path,
        [AUDIT_BEFORE] = l->before,   [AUDIT_AFTER] = l->after,
        [AUDIT_RESULT] = l->result,   [AUDIT_DETAIL] = l->detail,
        [AUDIT_REQUEST] = l->request, [AUDIT_SOURCE] = l->source,
        [AUDIT_TOKEN] = l->token,
    };

    return fields[i] ? fields[i] : "";
}

static bool went_well(const struct audit_line *l)
{
    return strcmp(l->result, "ok") == 0;
}

/* ---- JSON --------------------------------------------------------------- */

#define LINE(member) API_AT(struct audit_line, member)

static bool has_actor_name(const void *object)
{
    return ((const struct audit_line *)object)->actor_name != NULL;
}

static const struct api_field audit_event_fields[] = {
    {"seq", API_INT, LINE(seq)},
    {"at", API_TIME, LINE(at_ms)},
    {"tenant", API_STRING, API_NULLABLE, LINE(tenant)},
    {"actor", API_STRING, API_NULLABLE, LINE(actor)},
    {"actor_name", API_STRING, API_OPTIONAL, LINE(actor_name),
     .when = has_actor_name,
     .help = "the key's name, in lists; no part of the event itself"},
    {"action", API_STRING, LINE(action)},
    {"workspace", API_STRING, API_NULLABLE, LINE(workspace)},
    {"object", API_STRING, API_NULLABLE, LINE(object)},
    {"path", API_STRING, API_NULLABLE, LINE(path)},
    {"before", API_STRING, API_NULLABLE, LINE(before)},
    {"after", API_STRING, API_NULLABLE, LINE(after)},
    {"result", API_STRING, LINE(result)},
    {"detail", API_STRING, API_NULLABLE, LINE(detail)},
    {"request", API_STRING, API_NULLABLE, LINE(request)},
    {"source", API_STRING, API_NULLABLE, LINE(source)},
    {"token", API_STRING, API_NULLABLE, LINE(token),
     .help = "the token that was shown, where the key was not"},
    {"hash", API_STRING, LINE(hash)},
    {"chain_seq", API_INT, LINE(chain_seq),
     .help = "its number in the tenant's own chain; 0 none"},
    {"chain_hash", API_STRING, API_NULLABLE, LINE(chain_hash),
     .help = "SHA-256, in that chain"},
};
API_OUTPUT(audit_event_resource, "AuditEvent", struct audit_line,
           audit_event_fields, "One line of the trail.");

/* With what checking the chain takes. */
static const struct api_field exported_fields[] = {
    {"chain_previous", API_STRING, API_NULLABLE, LINE(chain_previous)},
    {"at_ms", API_INT, LINE(at_ms)},
};
static API_OUTPUT_OF(exported, "ExportedEvent", &audit_event_resource,
                     struct audit_line, exported_fields, NULL);

void audit_format_jsonl(struct buf *out, const struct audit_line *l)
{
    struct json_writer w = {.out = out};

    api_write(&w, NULL, &exported, l);
    buf_adds(out, "\n");
}

/* ---- OpenTelemetry ------------------------------------------------------ */

/* Numbers of 64 bits are strings there. */
static void write_attribute(struct json_writer *w, const char *key,
                            const char *kind, const char *value)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "key", key);
    json_write_open(w, "value", '{');
    json_write_string(w, kind, value);
    json_write_close(w, '}');
    json_write_close(w, '}');
}

static void write_number(struct json_writer *w, const char *key, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    write_attribute(w, key, "intValue", text);
}

static void write_record(struct json_writer *w, const struct audit_line *l)
{
    struct buf said cleanup(buf_done) = {0};
    char nanos[32];

    (void)snprintf(nanos, sizeof(nanos), "%lld000000", (long long)l->at_ms);
    buf_addf(&said, "%s %s", l->action, l->result);
    json_write_open(w, NULL, '{');
    json_write_string(w, "timeUnixNano", nanos);
    json_write_string(w, "observedTimeUnixNano", nanos);
    json_write_int(w, "severityNumber", went_well(l) ? 9 : 13);
    json_write_string(w, "severityText", went_well(l) ? "INFO" : "WARN");
    json_write_string(w, "eventName", l->action);
    json_write_open(w, "body", '{');
    json_write_string(w, "stringValue", said.data);
    json_write_close(w, '}');

    json_write_open(w, "attributes", '[');
    write_number(w, "glovebox.audit.seq", l->seq);
    for (size_t i = 0; i < AUDIT_FIELDS; i++) {
        char key[48];

        (void)snprintf(key, sizeof(key), "glovebox.audit.%s",
                       audit_field_names[i]);
        if (*line_field(l, i))
            write_attribute(w, key, "stringValue", line_field(l, i));
    }
    if (l->chain_seq) {
        write_number(w, "glovebox.audit.chain_seq", l->chain_seq);
        write_attribute(w, "glovebox.audit.chain_hash", "stringValue",
                        l->chain_hash);
        write_attribute(w, "glovebox.audit.chain_previous", "stringValue",
                        l->chain_previous);
    }
    json_write_close(w, ']');

    json_write_close(w, '}');
}

void audit_format_otlp(struct buf *out, const struct audit_line *lines,
                       size_t count)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "resourceLogs", '[');
    json_write_open(&w, NULL, '{');

    json_write_open(&w, "resource", '{');
    json_write_open(&w, "attributes", '[');
    write_attribute(&w, "service.name", "stringValue", "glovebox");
    write_attribute(&w, "service.version", "stringValue", GLOVEBOX_VERSION);
    json_write_close(&w, ']');
    json_write_close(&w, '}');

    json_write_open(&w, "scopeLogs", '[');
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "scope", '{');
    json_write_string(&w, "name", "glovebox.audit");
    json_write_close(&w, '}');
    json_write_open(&w, "logRecords", '[');
    for (size_t i = 0; i < count; i++)
        write_record(&w, &lines[i]);
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    json_write_close(&w, ']');
    json_write_close(&w, '}');
}

/* ---- syslog ------------------------------------------------------------- */

#define AUDIT_FACILITY 13 /* "log audit" */
#define SYSLOG_INFO 6
#define SYSLOG_WARNING 4
/* There is no number of ours; this one is set aside for examples. */
#define SYSLOG_ELEMENT "glovebox@32473"
#define SYSLOG_NAME_MAX 32

static void add_param(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, " %s=\"", name);
    for (const char *at = value; *at; at++) {
        if (*at == '"' || *at == '\\' || *at == ']')
            buf_adds(out, "\\");
        buf_add(out, at, 1);
    }
    buf_adds(out, "\"");
}

static void add_number(struct buf *out, const char *name, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    add_param(out, name, text);
}

void audit_format_syslog(struct buf *out, const struct audit_line *l,
                         const char *host)
{
    char at[32];
    unsigned level = went_well(l) ? SYSLOG_INFO : SYSLOG_WARNING;

    buf_addf(out, "<%u>1 %s %s glovebox - %.*s [" SYSLOG_ELEMENT,
             AUDIT_FACILITY * 8 + level, clock_format_ms(l->at_ms, at), host,
             SYSLOG_NAME_MAX, *l->action ? l->action : "-");
    add_number(out, "seq", l->seq);
    for (size_t i = 0; i < AUDIT_FIELDS; i++)
        if (*line_field(l, i))
            add_param(out, audit_field_names[i], line_field(l, i));
    if (l->chain_seq) {
        add_number(out, "chain_seq", l->chain_seq);
        add_param(out, "chain_hash", l->chain_hash);
    }
    buf_addf(out, "] %s %s", l->action, l->result);
}
