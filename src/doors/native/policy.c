/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/policy: what is in force, its versions, changing it, and dry runs.
 * Runs on a worker of the daemon. The policy is the whole service's, so only
 * keys of the tenant "default" see its text or change it; others may ask what
 * it says about their own tenant.
 */
#include "policy/policy.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/mime.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_MAX 1000
#define LIST_DEFAULT 100
#define BODY_MAX ((size_t)2 << 20) /* a policy as JSON, escapes and all */

static bool operates(const struct doors_call *call)
{
    return strcmp(call->who.tenant, OPERATORS) == 0;
}

static int operators_only(const struct doors_call *call, struct error *err)
{
    return operates(call) ? 0
                          : error_set(err, ERR_FORBIDDEN,
                                      "the policy is for all tenants: only "
                                      "keys of '%s' may do this",
                                      OPERATORS);
}

/* ---- what comes in ------------------------------------------------------ */

struct text_body {
    const char *text, *note;
};

static const struct json_field text_fields[] = {
    {"text", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct text_body, text), .max = POLICY_TEXT_MAX},
    {"note", JSON_KIND_STRING, .offset = offsetof(struct text_body, note),
     .max = 128},
};

/* A policy as it is, or in JSON. */
struct sent {
    struct buf raw;
    json_t *json;
    struct text_body b;
    size_t len;
};

static void sent_done(struct sent *s)
{
    buf_done(&s->raw);
    json_unref(&s->json);
}

static int read_raw(struct doors_call *call, struct sent *ret,
                    struct error *err)
{
    ssize_t n;

    do {
        buf_reserve(&ret->raw, NATIVE_CHUNK);
        n = http_body_read(call->http, ret->raw.data + ret->raw.len,
                           NATIVE_CHUNK, POLICY_TEXT_MAX, err);
        if (n > 0)
            ret->raw.len += (size_t)n;
    } while (n > 0);
    if (n < 0)
        return (int)n;
    buf_add(&ret->raw, "", 0); /* ends it */
    ret->b.text = ret->raw.data;
    ret->len = ret->raw.len;
    return http_query(call->http, "note", &ret->b.note, err);
}

static int read_text(struct doors_call *call, struct sent *ret,
                     struct error *err)
{
    const char *type = http_header(call->http, "Content-Type");
    int r;

    if (type && strncasecmp(type, "application/json", 16) != 0)
        return read_raw(call, ret, err);
    r = http_body_json(call->http, BODY_MAX, &ret->json, err);
    if (r == 0)
        r = json_read(ret->json, text_fields, ARRAY_SIZE(text_fields), &ret->b,
                      err);
    if (r == 0)
        ret->len = strlen(ret->b.text);
    return r;
}

/* ---- what goes out ------------------------------------------------------ */

static void encode_version(struct json_writer *w,
                           const struct policy_version *v)
{
    json_write_int(w, "version", v->number);
    json_write_time(w, "at", v->at_ms);
    native_encode_text(w, "by", v->by);
    native_encode_text(w, "note", v->note);
    native_encode_text(w, "sha256", v->sha256);
    if (v->text)
        json_write_string(w, "text", v->text);
}

static void respond_version(struct doors_call *call, int status,
                            const struct policy_version *v)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    encode_version(&w, v);
    json_write_close(&w, '}');
    http_respond_json(call->http, status, &body);
}

static void respond_state(struct doors_call *call,
                          const struct policy_version *v)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct policy_state state;

    policy_state(call->doors->core->policy, &state);
    json_write_open(&w, NULL, '{');
    json_write_bool(&w, "loaded", state.loaded);
    native_encode_text(&w, "problem", operates(call) ? state.problem : "");
    json_write_int(&w, "version", state.version);
    if (v) {
        json_write_time(&w, "at", v->at_ms);
        native_encode_text(&w, "by", v->by);
        native_encode_text(&w, "note", v->note);
        native_encode_text(&w, "sha256", v->sha256);
        json_write_string(&w, "text", v->text);
    } else {
        static const char *const names[] = {"at", "by", "note", "sha256",
                                            "text"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            json_write_string(&w, names[i], NULL);
    }
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
}

/* ---- the routes --------------------------------------------------------- */

int native_policy_get(struct doors_call *call, struct error *err)
{
    struct policy_version v cleanup(policy_version_done) = {0};
    int r = operates(call) ? policy_get(call->doors->core->policy, 0, &v, err)
                           : -ERR_NOT_FOUND;

    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    respond_state(call, r == 0 ? &v : NULL);
    return 0;
}

int native_policy_put(struct doors_call *call, struct error *err)
{
    struct sent sent cleanup(sent_done) = {0};
    struct policy_version v cleanup(policy_version_done) = {0};
    int r = operators_only(call, err);

    if (r == 0)
        r = read_text(call, &sent, err);
    if (r == 0)
        r = policy_put(call->doors->core->policy, &call->actor, sent.b.text,
                       sent.len, sent.b.note, &v, err);
    if (r == 0)
        respond_version(call, 200, &v);
    return r;
}

int native_policy_versions(struct doors_call *call, struct error *err)
{
    struct policy_version *list cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int64_t limit = 0, after = 0;
    size_t count = 0;
    bool more = false;
    int r = operators_only(call, err);

    if (r == 0)
        r = doors_query_int(call, "limit", 1, LIST_MAX, LIST_DEFAULT, &limit,
                            err);
    if (r == 0)
        r = doors_query_int(call, "after", 0, INT64_MAX, 0, &after, err);
    if (r == 0)
        r = policy_list(call->doors->core->policy, (unsigned)limit, after,
                        &list, &count, &more, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_open(&w, NULL, '{');
        encode_version(&w, &list[i]);
        json_write_close(&w, '}');
    }
    native_encode_list_end(&w, more);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_policy_version(struct doors_call *call, struct error *err)
{
    struct policy_version v cleanup(policy_version_done) = {0};
    char *end = NULL;
    long long number = strtoll(call->params[0], &end, 10);
    int r = operators_only(call, err);

    if (r == 0 && (*end || number < 1))
        r = error_set(err, ERR_NOT_FOUND, "no such version of the policy");
    if (r == 0)
        r = policy_get(call->doors->core->policy, number, &v, err);
    if (r == 0)
        respond_version(call, 200, &v);
    return r;
}

int native_policy_check(struct doors_call *call, struct error *err)
{
    struct sent sent cleanup(sent_done) = {0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct error fault = {0};
    int r = read_text(call, &sent, err);

    if (r < 0)
        return r;
    r = policy_check(sent.b.text, sent.len, &fault);
    json_write_open(&w, NULL, '{');
    json_write_bool(&w, "ok", r == 0);
    native_encode_text(&w, "problem", r < 0 ? fault.message : "");
    native_encode_text(&w, "hint", r < 0 ? fault.hint : "");
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_policy_reload(struct doors_call *call, struct error *err)
{
    int r = operators_only(call, err);

    if (r == 0)
        r = policy_reload(call->doors->core->policy, err);
    return r < 0 ? r : native_policy_get(call, err);
}

/* ---- a dry run ---------------------------------------------------------- */

struct explain_body {
    json_t *request;
    const char *text, *session;
    int64_t pinned;
};

static const struct json_field explain_fields[] = {
    {"request", JSON_KIND_OBJECT, .required = true,
     .offset = offsetof(struct explain_body, request)},
    {"text", JSON_KIND_STRING, .offset = offsetof(struct explain_body, text),
     .max = POLICY_TEXT_MAX},
    {"session", JSON_KIND_STRING,
     .offset = offsetof(struct explain_body, session), .max = ID_MAX - 1},
    {"pinned", JSON_KIND_INT, .offset = offsetof(struct explain_body, pinned),
     .max = INT64_MAX},
};

/* What a session has already need not be said. */
static int fill_session(struct doors_call *call, struct explain_body *b,
                        struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_get(call->doors->sessions, &call->actor, b->session, &info,
                        err);

    if (r < 0)
        return r;
    b->pinned = info.policy_version;
    if (!json_object_get(b->request, "pool"))
        (void)json_object_set_new(b->request, "pool", json_string(info.pool));
    if (!json_object_get(b->request, "runtime"))
        (void)json_object_set_new(b->request, "runtime",
                                  json_string(info.runtime));
    if (!json_object_get(b->request, "network"))
        (void)json_object_set_new(
            b->request, "network",
            json_string(session_egress_name(info.egress)));
    return 0;
}

static int read_request(struct doors_call *call, struct explain_body *b,
                        struct policy_request *ret, struct actor *ret_who,
                        struct error *err)
{
    int r;

    *ret_who = call->actor;
    r = policy_request_read(b->request, ret, ret_who, err);
    if (r < 0)
        return error_wrap(err, "request");
    if (!operates(call) && strcmp(ret_who->tenant, call->who.tenant) != 0)
        return error_set(err, ERR_FORBIDDEN,
                         "only keys of '%s' may ask about other tenants",
                         OPERATORS);
    if (ret->file && !ret->mime)
        ret->mime = mime_of_path(ret->file);
    return 0;
}

int native_policy_explain(struct doors_call *call, struct error *err)
{
    struct explain_body b = {0};
    json_t *json cleanup(json_unref) = NULL;
    struct policy_request rq;
    struct actor who;
    struct buf body = {0};
    int r = http_body_json(call->http, BODY_MAX, &json, err);

    if (r == 0)
        r = json_read(json, explain_fields, ARRAY_SIZE(explain_fields), &b,
                      err);
    if (r == 0 && b.session)
        r = fill_session(call, &b, err);
    if (r == 0)
        r = read_request(call, &b, &rq, &who, err);
    if (r == 0)
        r = policy_explain(call->doors->core->policy, b.pinned, b.text,
                           b.text ? strlen(b.text) : 0, &rq, &body, err);
    if (r == 0)
        http_respond_json(call->http, 200, &body);
    else
        buf_done(&body);
    return r;
}

/* ---- of a session ------------------------------------------------------- */

int native_policy_adopt(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = session_policy_adopt(call->doors->sessions, &call->actor,
                                 call->params[0], err);

    if (r == 0)
        r = session_get(call->doors->sessions, &call->actor, call->params[0],
                        &info, err);
    if (r < 0)
        return r;
    native_encode_session(&w, NULL, &info);
    http_respond_json(call->http, 200, &body);
    return 0;
}
