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

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/mime.h"
#include "conf/conf.h"
#include "core/core.h"
#include "doors/native/native.h"
#include "govern/govern.h"
#include "posture/posture.h"
#include "json/json.h"

#define LIST_MAX 1000
#define LIST_DEFAULT 100
#define BODY_MAX ((size_t)2 << 20) /* a policy as JSON, escapes and all */

/* It holds for all tenants. */
#define SET_POLICY "see and set the policy of all tenants"

/* ---- what comes in ------------------------------------------------------ */

struct text_body {
    const char *text, *note;
};

static const struct api_field policy_text_fields[] = {
    {"text", API_STRING, API_REQUIRED, API_AT(struct text_body, text),
     .max = POLICY_TEXT_MAX, .help = "YAML"},
    {"note", API_STRING, API_AT(struct text_body, note), .max = 128,
     .help = "for the list of versions"},
};
API_INPUT(native_policy_text, "PolicyText", struct text_body,
          policy_text_fields, "A policy; docs/POLICY.md.");

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
        r = api_read(ret->json, &native_policy_text, &ret->b, err);
    if (r == 0)
        ret->len = strlen(ret->b.text);
    return r;
}

/* ---- what goes out ------------------------------------------------------ */

struct named_version {
    struct policy_version v;
    char by_name[AUTH_NAME_MAX];
};

static struct named_version name_version(const struct doors_call *call,
                                         const struct policy_version *v)
{
    struct named_version named = {.v = *v};

    auth_key_name(call->doors->auth, v->by, named.by_name);
    return named;
}

static bool has_text(const void *object)
{
    return ((const struct named_version *)object)->v.text != NULL;
}

#define VERSION(member) API_AT(struct named_version, v.member)

static const struct api_field policy_version_fields[] = {
    {"version", API_INT, VERSION(number)},
    {"at", API_TIME, VERSION(at_ms)},
    {"by", API_STRING, API_NULLABLE, VERSION(by), .help = "a key, or file"},
    {"by_name", API_STRING, API_NULLABLE,
     API_AT(struct named_version, by_name), .help = "the name of that key"},
    {"note", API_STRING, API_NULLABLE, VERSION(note)},
    {"sha256", API_STRING, API_NULLABLE, VERSION(sha256)},
    {"text", API_STRING, API_OPTIONAL, VERSION(text), .when = has_text,
     .help = "not in lists"},
};
API_OUTPUT(native_policy_record, "PolicyVersion", struct named_version,
           policy_version_fields, "A policy that is or was in force.");

struct state {
    struct policy_state in_force;
    struct named_version version; /* empty if the caller may not see it */
};

static void write_text(struct json_writer *w, const char *key,
                       const void *object)
{
    json_write_string(w, key, ((const struct state *)object)->version.v.text);
}

#define STATE(member) API_AT(struct state, member)

static const struct api_field policy_state_fields[] = {
    {"loaded", API_BOOL, STATE(in_force.loaded),
     .help = "false: everything is denied"},
    {"problem", API_STRING, API_NULLABLE, STATE(in_force.problem),
     .help = "why it could not be loaded"},
    {"version", API_INT, STATE(in_force.version),
     .help = "0: none was ever put"},
    {"at", API_TIME, API_NULLABLE, STATE(version.v.at_ms)},
    {"by", API_STRING, API_NULLABLE, STATE(version.v.by)},
    {"by_name", API_STRING, API_NULLABLE, STATE(version.by_name)},
    {"note", API_STRING, API_NULLABLE, STATE(version.v.note)},
    {"sha256", API_STRING, API_NULLABLE, STATE(version.v.sha256)},
    {"text", API_STRING, API_NULLABLE, .write = write_text,
     .help = "for keys of the tenant default"},
};
API_OUTPUT(native_policy_state, "PolicyState", struct state,
           policy_state_fields, "What is in force.");

static void respond_version(struct doors_call *call,
                            const struct policy_version *v)
{
    const struct named_version named = name_version(call, v);

    native_respond(call, 200, &native_policy_record, &named);
}

/* ---- the routes --------------------------------------------------------- */

int native_policy_get(struct doors_call *call, struct error *err)
{
    struct policy_version v cleanup(policy_version_done) = {0};
    int r = native_operates(call)
                ? policy_get(call->doors->core->policy, 0, &v, err)
                : -ERR_NOT_FOUND;
    struct state state = {0};

    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    policy_state(call->doors->core->policy, &state.in_force);
    if (!native_operates(call))
        state.in_force.problem[0] = '\0';
    if (r == 0)
        state.version = name_version(call, &v);
    native_respond(call, 200, &native_policy_state, &state);
    return 0;
}

/* An invalid text is refused before an approval is requested. */
static int hold_policy(struct doors_call *call, const struct sent *sent,
                       struct error *err)
{
    const struct core *core = call->doors->core;
    struct govern_request rq = govern_change(&call->actor);
    char *summary cleanup(mem_free) = NULL;
    char *text cleanup(mem_free) = NULL;
    int r;

    if (!core->four_eyes || call->doors->posture->conf->policy_file[0])
        return 0; /* a file is changed on the host, not here */
    r = policy_check(sent->b.text, sent->len, err);
    if (r < 0)
        return r;
    text = xstrndup(sent->b.text, sent->len);
    summary = xasprintf("replace the policy of the whole service, version "
                        "%lld, by another of %zu bytes",
                        (long long)policy_current(core->policy), sent->len);
    rq.object = "policy";
    rq.summary = summary;
    govern_add(&rq, "change", "policy");
    govern_add(&rq, "text", text);
    govern_add(&rq, "note", sent->b.note);
    return doors_need_second(call, &rq, err);
}

int native_policy_put(struct doors_call *call, struct error *err)
{
    struct sent sent cleanup(sent_done) = {0};
    struct policy_version v cleanup(policy_version_done) = {0};
    int r = native_operators_only(call, SET_POLICY, err);

    if (r == 0)
        r = read_text(call, &sent, err);
    if (r == 0)
        r = hold_policy(call, &sent, err);
    if (r == 0)
        r = policy_put(call->doors->core->policy, &call->actor, sent.b.text,
                       sent.len, sent.b.note, &v, err);
    if (r == 0)
        respond_version(call, &v);
    return r;
}

int native_policy_versions(struct doors_call *call, struct error *err)
{
    struct policy_version *list cleanup(mem_free) = NULL;
    struct named_version *named cleanup(mem_free) = NULL;
    int64_t limit = 0, after = 0;
    size_t count = 0;
    bool more = false;
    int r = native_operators_only(call, SET_POLICY, err);

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
    named = xcalloc(count + 1, sizeof(*named));
    for (size_t i = 0; i < count; i++)
        named[i] = name_version(call, &list[i]);
    native_respond_list(call, &native_policy_record, named, count, more);
    return 0;
}

int native_policy_version(struct doors_call *call, struct error *err)
{
    struct policy_version v cleanup(policy_version_done) = {0};
    char *end = NULL;
    long long number = strtoll(call->params[0], &end, 10);
    int r = native_operators_only(call, SET_POLICY, err);

    if (r == 0 && (*end || number < 1))
        r = error_set(err, ERR_NOT_FOUND, "no such version of the policy");
    if (r == 0)
        r = policy_get(call->doors->core->policy, number, &v, err);
    if (r == 0)
        respond_version(call, &v);
    return r;
}

struct check {
    bool ok;
    const char *problem, *hint;
};

#define CHECK(member) API_AT(struct check, member)

static const struct api_field policy_check_fields[] = {
    {"ok", API_BOOL, CHECK(ok)},
    {"problem", API_STRING, API_NULLABLE, CHECK(problem),
     .help = "with its line"},
    {"hint", API_STRING, API_NULLABLE, CHECK(hint)},
};
API_OUTPUT(native_policy_checked, "PolicyCheck", struct check,
           policy_check_fields, "Whether a text is a policy.");

int native_policy_check(struct doors_call *call, struct error *err)
{
    struct sent sent cleanup(sent_done) = {0};
    struct error fault = {0};
    int r = read_text(call, &sent, err);

    if (r < 0)
        return r;
    r = policy_check(sent.b.text, sent.len, &fault);
    if (r == 0)
        fault = (struct error){0};
    native_respond(call, 200, &native_policy_checked,
                   &(struct check){r == 0, fault.message, fault.hint});
    return 0;
}

struct cases_body {
    const char *text, *cases;
};

static const struct api_field policy_cases_fields[] = {
    {"cases", API_STRING, API_REQUIRED, API_AT(struct cases_body, cases),
     .max = POLICY_TEXT_MAX, .help = "YAML: docs/POLICY.md"},
    {"text", API_STRING, API_AT(struct cases_body, text),
     .max = POLICY_TEXT_MAX,
     .help = "the policy to test; else the one in the cases"},
};
API_INPUT(native_policy_cases, "PolicyCases", struct cases_body,
          policy_cases_fields, "Test cases of a policy.");

struct case_result {
    char *name, *problem; /* owned */
    int64_t line;
    bool ok;
};

static const struct api_field policy_case_fields[] = {
    {"name", API_STRING, API_AT(struct case_result, name)},
    {"line", API_INT, API_AT(struct case_result, line)},
    {"ok", API_BOOL, API_AT(struct case_result, ok)},
    {"problem", API_STRING, API_NULLABLE, API_AT(struct case_result, problem),
     .help = "what differs from the expectation"},
};
API_OUTPUT(native_policy_case, "PolicyCase", struct case_result,
           policy_case_fields, "The result of one test case.");

struct cases_result {
    bool ok;
    int64_t passed, failed;
    struct case_result *cases;
    size_t count;
};

#define CASES(member) API_AT(struct cases_result, member)

static const struct api_field policy_tested_fields[] = {
    {"ok", API_BOOL, CASES(ok)},
    {"passed", API_INT, CASES(passed)},
    {"failed", API_INT, CASES(failed)},
    {"cases", API_ARRAY, API_LIST(struct cases_result, cases, count),
     .of = &native_policy_case},
};
API_OUTPUT(native_policy_tested, "PolicyTested", struct cases_result,
           policy_tested_fields, "The results of test cases, in their order.");

static void on_policy_case(void *ctx, unsigned line, const char *name,
                           const char *why)
{
    struct cases_result *all = ctx;

    all->cases = xrealloc(all->cases, (all->count + 1) * sizeof(*all->cases));
    all->cases[all->count++] =
        (struct case_result){.name = xstrdup(name),
                             .problem = why ? xstrdup(why) : NULL,
                             .line = line,
                             .ok = !why};
    all->passed += !why;
    all->failed += why != NULL;
}

static void cases_result_done(struct cases_result *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->cases[i].name);
        free(all->cases[i].problem);
    }
    free(all->cases);
}

int native_policy_test(struct doors_call *call, struct error *err)
{
    struct cases_result all cleanup(cases_result_done) = {0};
    json_t *json cleanup(json_unref) = NULL;
    struct cases_body b = {0};
    int r = http_body_json(call->http, 2 * BODY_MAX, &json, err);

    if (r == 0)
        r = api_read(json, &native_policy_cases, &b, err);
    if (r == 0)
        r = policy_cases_run(b.text, b.text ? strlen(b.text) : 0, b.cases,
                             strlen(b.cases), on_policy_case, &all, err);
    if (r < 0)
        return r;
    all.ok = all.failed == 0;
    native_respond(call, 200, &native_policy_tested, &all);
    return 0;
}

int native_policy_reload(struct doors_call *call, struct error *err)
{
    int r = native_operators_only(call, SET_POLICY, err);

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

#define EXPLAIN(member) API_AT(struct explain_body, member)

static const struct api_field policy_explain_fields[] = {
    {"request", API_OBJECT, API_REQUIRED, EXPLAIN(request),
     .of = &policy_request_resource},
    {"text", API_STRING, EXPLAIN(text), .max = POLICY_TEXT_MAX,
     .help = "a policy to try; else the one in force"},
    {"session", API_STRING, EXPLAIN(session), .max = ID_MAX - 1,
     .help = "whose pool, runtime and version count"},
    {"pinned", API_INT, EXPLAIN(pinned), .max = INT64_MAX,
     .help = "a version a session would be held to"},
};
API_INPUT(native_policy_explain_body, "PolicyExplain", struct explain_body,
          policy_explain_fields, "A dry run.");

static const char *const verdicts[] = {"allow", "ask", "deny", NULL};

/* policy/explain.c makes the document. */
static const struct api_field policy_explained_fields[] = {
    {"action", API_STRING, API_MEMBER},
    {"verdict", API_CHOICE, .choices = verdicts},
    {"rule", API_STRING, .help = "its name, default, or unloadable"},
    {"layer", API_STRING, .help = "global, pool:x or tenant:x"},
    {"reason", API_STRING, API_NULLABLE, API_MEMBER},
    {"version", API_INT, API_MEMBER},
    {"limit", API_OBJECT,
     .help = "timeout_s, output_bytes; caps of rules that match"},
    {"expires_s", API_INT, API_OPTIONAL, .help = "of an ask"},
    {"versions", API_ARRAY, .items = API_OBJECT,
     .help = "each layer, rule and condition, and its value"},
};
API_DOCUMENT(native_policy_explained, "PolicyExplained",
             policy_explained_fields, "What would happen, and why.");

/* Takes defaults from the session. */
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
    if (!native_operates(call) &&
        strcmp(ret_who->tenant, call->who.tenant) != 0)
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
    struct buf text cleanup(buf_done) = {0}, body = {0};
    struct json_writer w = {.out = &body};
    json_t *explained cleanup(json_unref) = NULL;
    int r = http_body_json(call->http, BODY_MAX, &json, err);

    if (r == 0)
        r = api_read(json, &native_policy_explain_body, &b, err);
    if (r == 0 && b.session)
        r = fill_session(call, &b, err);
    if (r == 0)
        r = read_request(call, &b, &rq, &who, err);
    if (r == 0)
        r = policy_explain(call->doors->core->policy, b.pinned, b.text,
                           b.text ? strlen(b.text) : 0, &rq, &text, err);
    if (r < 0)
        return r;
    explained = json_loadb(text.data, text.len, 0, NULL);
    api_write_json(&w, NULL, &native_policy_explained, explained);
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* ---- of a session ------------------------------------------------------- */

int native_policy_adopt(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_policy_adopt(call->doors->sessions, &call->actor,
                                 call->params[0], err);

    if (r == 0)
        r = session_get(call->doors->sessions, &call->actor, call->params[0],
                        &info, err);
    if (r < 0)
        return r;
    native_respond(call, 200, &native_session, &info);
    return 0;
}
