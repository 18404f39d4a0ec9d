/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit trail for others, and what proves it: exports, the public key and
 * signed checkpoints. Runs on a worker of the daemon, which the client's own
 * pace holds back; each page is a short transaction of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "audit/format.h"
#include "audit/proof.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define PAGE 500
#define LIST_MAX 1000
#define LIST_DEFAULT 100

/* ---- the whole of it ---------------------------------------------------- */

enum format {
    FORMAT_JSONL,
    FORMAT_OTLP
};

static int ask_format(struct doors_call *call, enum format *ret,
                      struct error *err)
{
    const char *name = NULL;
    int r = native_ask_text(call, "format", 16, &name, err);

    if (r < 0)
        return r;
    *ret = FORMAT_JSONL;
    if (name && strcmp(name, "otlp") == 0)
        *ret = FORMAT_OTLP;
    else if (name && strcmp(name, "jsonl") != 0)
        return error_set(err, ERR_INVALID,
                         "parameter 'format' must be jsonl or otlp");
    return 0;
}

/* One line an event, or one request for a page of them. */
static void format_page(enum format format, const struct audit_line *lines,
                        size_t count, struct buf *out)
{
    if (format == FORMAT_OTLP && count > 0) {
        audit_format_otlp(out, lines, count);
        buf_adds(out, "\n");
        return;
    }
    for (size_t i = 0; i < count; i++)
        audit_format_jsonl(out, &lines[i]);
}

/* 1: there is more. The answer begins with the first page, so that what goes
 * wrong before is still a refusal. */
static int send_page(struct doors_call *call, enum format format,
                     struct audit_filter *filter, int64_t *left,
                     struct http_pipe **pipe, struct error *err)
{
    struct audit_line *lines = NULL;
    struct buf text cleanup(buf_done) = {0};
    size_t count = 0;
    bool more = false;
    int r;

    filter->limit = (unsigned)MIN(*left, (int64_t)PAGE);
    r = audit_page(call->doors->core->audit, filter, &lines, &count, &more,
                   err);
    if (r < 0)
        return r;
    *left -= (int64_t)count;
    if (count)
        filter->after = lines[count - 1].seq;
    format_page(format, lines, count, &text);
    audit_lines_free(lines, count);
    if (!*pipe)
        *pipe = http_respond_pipe(call->http, "application/x-ndjson");
    if (text.len)
        r = http_pipe_write(*pipe, text.data, text.len, err);
    return r < 0 ? r : more && *left > 0;
}

int native_export_get(struct doors_call *call, struct error *err)
{
    struct audit_filter filter = {.tenant = NULL};
    int64_t left = 0;
    struct http_pipe *pipe = NULL;
    enum format format = FORMAT_JSONL;
    int r = ask_format(call, &format, err);

    if (r == 0)
        r = doors_query_int(call, "limit", 1, INT64_MAX, INT64_MAX, &left,
                            err);
    if (r == 0)
        r = doors_query_int(call, "after", 0, INT64_MAX, 0, &filter.after,
                            err);
    if (r == 0)
        r = native_ask_time(call, "from", &filter.from_ms, err);
    if (r == 0)
        r = native_ask_time(call, "to", &filter.to_ms, err);
    if (r == 0)
        r = native_audit_tenant(call, &filter.tenant, err);
    if (r < 0)
        return r;
    do
        r = send_page(call, format, &filter, &left, &pipe, err);
    while (r == 1);
    if (!pipe)
        return r;
    http_pipe_end(pipe, r == 0);
    /* It is too late to answer with it; the client sees a broken transfer. */
    if (r < 0 && err->code != ERR_INVALID)
        log_event(LOG_ERROR, "export_failed", "id", http_id(call->http),
                  "error", err->message, NULL);
    return 0;
}

/* ---- who signs ---------------------------------------------------------- */

#define KEY_FIELDS(type, key)                                                 \
    {"id", API_STRING, API_AT(type, key id), .help = "akey_…"},               \
        {"public_key", API_STRING, API_AT(type, key pem),                     \
         .help = "Ed25519, PEM"},                                             \
    {                                                                         \
        "since", API_TIME, API_AT(type, key since_ms)                         \
    }

static const struct api_field audit_key_fields[] = {
    KEY_FIELDS(struct audit_key, ),
};
API_OUTPUT(native_audit_key, "AuditKey", struct audit_key, audit_key_fields,
           "A key that has signed checkpoints.");

struct keys {
    struct audit_key now;
    struct audit_key *earlier;
    size_t count;
};

static const struct api_field audit_keys_fields[] = {
    KEY_FIELDS(struct keys, now.),
    {"earlier", API_ARRAY, API_LIST(struct keys, earlier, count),
     .of = &native_audit_key, .help = "keys of checkpoints made before"},
};
API_OUTPUT(native_audit_keys, "AuditKeys", struct keys, audit_keys_fields,
           "Who signs checkpoints.");

int native_export_key(struct doors_call *call, struct error *err)
{
    struct audit_key *keys cleanup(mem_free) = NULL;
    size_t count = 0;
    int r = audit_keys(call->doors->core->audit, &keys, &count, err);

    if (r == 0 && count == 0)
        r = error_set(err, ERR_NOT_FOUND, "there is no key yet");
    if (r < 0)
        return r;
    native_respond(call, 200, &native_audit_keys,
                   &(struct keys){keys[0], keys + 1, count - 1});
    return 0;
}

/* ---- checkpoints -------------------------------------------------------- */

static bool read_checkpoint(const struct audit_line *l,
                            struct audit_checkpoint *ret)
{
    const char *const fields[AUDIT_FIELDS] = {
        [AUDIT_TENANT] = l->tenant, [AUDIT_ACTION] = l->action,
        [AUDIT_OBJECT] = l->object, [AUDIT_BEFORE] = l->before,
        [AUDIT_AFTER] = l->after,   [AUDIT_DETAIL] = l->detail};

    return audit_proof_read(fields, l->at_ms, ret);
}

#define CHECKPOINT(member) API_AT(struct audit_checkpoint, member)

static const struct api_field audit_checkpoint_fields[] = {
    {"tenant", API_STRING, CHECKPOINT(tenant)},
    {"seq", API_INT, CHECKPOINT(seq),
     .help = "the event it signs, in that chain"},
    {"hash", API_STRING, CHECKPOINT(hash), .help = "that event's chain_hash"},
    {"at", API_TIME, CHECKPOINT(at_ms)},
    {"at_ms", API_INT, CHECKPOINT(at_ms),
     .help = "the same, as it was signed"},
    {"key", API_STRING, CHECKPOINT(key), .help = "akey_…"},
    {"signature", API_STRING, CHECKPOINT(signature),
     .help = "Ed25519, in hex"},
};
API_OUTPUT(native_audit_checkpoint, "AuditCheckpoint", struct audit_checkpoint,
           audit_checkpoint_fields, "How far a tenant's chain was, signed.");

int native_export_checkpoints(struct doors_call *call, struct error *err)
{
    struct audit_line *lines = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    const char *tenant = NULL;
    int64_t limit = 0, after = 0;
    size_t count = 0;
    bool more = false;
    int r =
        doors_query_int(call, "limit", 1, LIST_MAX, LIST_DEFAULT, &limit, err);

    if (r == 0)
        r = doors_query_int(call, "after", 0, INT64_MAX, 0, &after, err);
    if (r == 0)
        r = native_audit_tenant(call, &tenant, err);
    if (r == 0)
        r = audit_checkpoints(call->doors->core->audit,
                              tenant ? tenant : call->who.tenant, after,
                              (unsigned)limit, &lines, &count, &more, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++) {
        struct audit_checkpoint c;

        if (read_checkpoint(&lines[i], &c))
            api_write(&w, NULL, &native_audit_checkpoint, &c);
    }
    native_encode_list_end(&w, more);
    audit_lines_free(lines, count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_export_sign(struct doors_call *call, struct error *err)
{
    struct audit *audit = call->doors->core->audit;
    struct audit_line *lines = NULL;
    struct audit_checkpoint c;
    size_t count = 0;
    bool more = false;
    int r = audit_checkpoint(audit, call->who.tenant, err);

    if (r == 0)
        r = audit_checkpoints(audit, call->who.tenant, -1, 1, &lines, &count,
                              &more, err);
    if (r == 0 && (count == 0 || !read_checkpoint(&lines[0], &c)))
        r = error_set(err, ERR_CONFLICT,
                      "there is no event of this tenant to sign yet");
    if (r == 0)
        native_respond(call, 201, &native_audit_checkpoint, &c);
    audit_lines_free(lines, count);
    return r;
}
