/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of actions and verdicts; a request out of JSON, for dry runs and for
 * tests of a policy. Pure.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/mem.h"
#include "policy/policy_int.h"
#include "json/json.h"

#define TEXT_MAX 1024

const char *const policy_action_names[] = {
    [POLICY_EXECUTE] = "execute",     [POLICY_SESSION] = "session",
    [POLICY_FILE_IN] = "file.in",     [POLICY_FILE_OUT] = "file.out",
    [POLICY_EGRESS] = "egress",       [POLICY_CONNECT] = "connect",
    [POLICY_PACKAGE] = "package",     [POLICY_SHARE] = "share",
    [POLICY_TRANSFER] = "transfer",   [POLICY_SECRET] = "secret",
    [POLICY_SEARCH] = "search",       [POLICY_REPORT] = "report",
    [POLICY_AGENT] = "agent",         [POLICY_TOOL] = "tool",
    [POLICY_HIBERNATE] = "hibernate", [POLICY_UNDO] = "undo",
    [POLICY_BRANCH] = "branch",       [POLICY_ACTIONS] = NULL,
};

const char *const policy_verdict_names[] = {
    [POLICY_ALLOW] = "allow", [POLICY_ASK] = "ask", [POLICY_DENY] = "deny"};

const char *policy_action_name(enum policy_action action)
{
    if (action == POLICY_CHANGE)
        return "change";
    return (unsigned)action < POLICY_ACTIONS ? policy_action_names[action]
                                             : "unknown";
}

const char *policy_verdict_name(enum policy_verdict verdict)
{
    return (unsigned)verdict <= POLICY_DENY ? policy_verdict_names[verdict]
                                            : "deny";
}

/* ---- from JSON ---------------------------------------------------------- */

struct asked {
    int action;
    struct policy_request rq;
    struct actor who;
    json_t *scopes;
    const char *destination, *at;
    int64_t port;
};

#define TEXT(name, member, ...)                                               \
    {                                                                         \
        name, API_STRING, API_AT(struct asked, member), .max = TEXT_MAX,      \
                                                        __VA_ARGS__           \
    }
#define NUMBER(name)                                                          \
    {                                                                         \
#name, API_INT, API_AT(struct asked, rq.name), .max = INT64_MAX       \
    }

static const struct api_field request_fields[] = {
    {"action", API_CHOICE, API_REQUIRED, API_AT(struct asked, action),
     .choices = policy_action_names},
    TEXT("tenant", who.tenant, .help = "yours unless given"),
    TEXT("key", who.key, .help = "key_…; yours unless given"),
    TEXT("door", who.door, .help = "native, openai, azure or mcp"),
    TEXT("tool", who.tool, .help = "the name of an MCP tool"),
    TEXT("trigger", who.trigger, .help = "client or model"),
    {"scopes", API_ARRAY, API_AT(struct asked, scopes), .max = 16},
    TEXT("session", rq.session),
    TEXT("pool", rq.pool),
    TEXT("runtime", rq.runtime),
    TEXT("language", rq.language,
         .help = "python, shell, javascript, r, c, go or java"),
    TEXT("network", rq.network, .help = "none, allowlist or open"),
    TEXT("host", rq.host),
    {"port", API_INT, API_AT(struct asked, port), .max = 65535},
    {"destination", API_STRING, API_AT(struct asked, destination), .min = 1,
     .max = TEXT_MAX, .help = "host:port, instead of the two"},
    TEXT("method", rq.method),
    TEXT("url_path", rq.url_path),
    TEXT("package", rq.package),
    TEXT("package_version", rq.version),
    TEXT("package_sha256", rq.sha256),
    TEXT("file", rq.file, .help = "a path"),
    TEXT("file_type", rq.mime, .help = "by the path unless given"),
    TEXT("secret", rq.secret),
    NUMBER(code_bytes),
    NUMBER(timeout_s),
    NUMBER(output_bytes),
    NUMBER(file_bytes),
    {"at", API_STRING, API_AT(struct asked, at), .min = 1, .max = 40,
     .help = "a time such as 2026-01-31T23:00Z; now unless given"},
};
API_INPUT(policy_request_resource, "PolicyRequest", struct asked,
          request_fields, "What a policy is asked; see docs/POLICY.md.");

/* "2026-01-31T23:00Z", "2026-01-31T23:00:59+02:00". */
static int read_time(const char *text, int64_t *ret, struct error *err)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"};

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        struct tm tm = {0};
        const char *end = strptime(text, forms[i], &tm);
        int hours = 0, minutes = 0, used = 0;

        if (!end)
            continue;
        if (strcmp(end, "Z") != 0 &&
            ((*end != '+' && *end != '-') ||
             sscanf(end + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 ||
             end[1 + used]))
            continue;
        if (*end == '-') {
            hours = -hours;
            minutes = -minutes;
        }
        *ret = ((int64_t)timegm(&tm) - 3600 * hours - 60 * minutes) * 1000;
        return 0;
    }
    return error_set(err, ERR_INVALID,
                     "at must be a time such as 2026-01-31T23:00Z");
}

static int read_scopes(const json_t *list, uint32_t *ret, struct error *err)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        uint32_t bit = 0;

        if (auth_scopes_parse(name, &bit, err) < 0)
            return -(int)err->code;
        bits |= bit;
    }
    /* As keys have it: an admin's has all. */
    *ret = bits & AUTH_ADMIN ? AUTH_SCOPES_ALL : bits;
    return 0;
}

/* The host gets a place of its own in the object, so that it lives as long. */
static int read_destination(json_t *object, struct asked *a, struct error *err)
{
    const char *colon = strrchr(a->destination, ':');
    bool bare = colon && strchr(a->destination, ':') != colon &&
                a->destination[0] != '[';
    size_t len = colon && !bare ? (size_t)(colon - a->destination)
                                : strlen(a->destination);
    const char *host = a->destination;
    char *end = NULL;

    if (a->rq.host)
        return error_set(err, ERR_INVALID,
                         "destination and host are the same thing");
    if (colon && !bare) {
        unsigned long port = strtoul(colon + 1, &end, 10);

        if (!isdigit((unsigned char)colon[1]) || *end || port < 1 ||
            port > 65535)
            return error_set(err, ERR_INVALID,
                             "destination: a port is a number from 1 to "
                             "65535");
        a->port = (int64_t)port;
    }
    if (host[0] == '[' && len > 2 && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    (void)json_object_set_new(object, "host", json_stringn(host, len));
    a->rq.host = json_string_value(json_object_get(object, "host"));
    return 0;
}

int policy_request_read(json_t *object, struct policy_request *ret,
                        struct actor *ret_who, struct error *err)
{
    struct asked a = {.rq = {.code_bytes = -1, .file_bytes = -1},
                      .who = *ret_who};
    int rc = api_read(object, &policy_request_resource, &a, err);

    if (rc == 0 && a.scopes)
        rc = read_scopes(a.scopes, &a.who.scopes, err);
    if (rc == 0 && a.destination)
        rc = read_destination(object, &a, err);
    if (rc == 0 && a.at)
        rc = read_time(a.at, &a.rq.at_ms, err);
    if (rc < 0)
        return rc;
    a.rq.action = (enum policy_action)a.action;
    a.rq.port = (int)a.port;
    a.who.admin = (a.who.scopes & AUTH_ADMIN) != 0;
    *ret_who = a.who;
    *ret = a.rq;
    ret->who = ret_who;
    return 0;
}
