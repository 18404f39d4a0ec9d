/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence of executions. Keys with the scope audit:read see all executions of
 * their tenant, other keys only their own. Runs on a worker of the daemon.
 */
#include "evidence/evidence.h"

#include <string.h>

#include "api/api.h"
#include "approval/approval.h"
#include "base/clock.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_MAX 1000
#define LIST_DEFAULT 100

/* ---- resources ---------------------------------------------------------- */

/* A row of the list, and the name of its key. */
struct named_row {
    struct evidence_row row;
    char key_name[AUTH_NAME_MAX];
};

#define ROW(member) API_AT(struct named_row, row.member)

static const struct api_field evidence_row_fields[] = {
    {"execution", API_STRING, ROW(execution)},
    {"session", API_STRING, ROW(session)},
    {"key", API_STRING, ROW(actor), .help = "of the requester"},
    {"key_name", API_STRING, API_NULLABLE, API_AT(struct named_row, key_name)},
    {"at", API_TIME, ROW(at_ms)},
    {"outcome", API_STRING, ROW(outcome)},
    {"code_sha256", API_STRING, ROW(code_sha256)},
};
API_OUTPUT(native_evidence_row, "EvidenceRow", struct named_row,
           evidence_row_fields, "An execution there is evidence of.");

/* evidence/ wrote the document when the execution ended. */
static const struct api_field evidence_fields[] = {
    {"execution", API_STRING, API_MEMBER},
    {"session", API_STRING, API_MEMBER},
    {"pool", API_STRING, API_NULLABLE, API_MEMBER},
    {"runtime", API_STRING, API_NULLABLE, API_MEMBER},
    {"outcome", API_STRING,
     .help = "as of the execution; or pending_approval"},
    {"failure", API_STRING, API_NULLABLE, API_MEMBER},
    {"who", API_OBJECT,
     .help = "tenant, key, name, door, tool, request, source"},
    {"trigger", API_OBJECT,
     .help = "conversation, message, metadata: as given; by: client or model; "
             "prompt: what a person asked the model"},
    {"code", API_OBJECT, .help = "language, bytes, sha256, kept"},
    {"files", API_OBJECT,
     .help = "mounted, read (as the interpreter told), written"},
    {"artifacts", API_ARRAY, .items = API_OBJECT,
     .help = "what was shown besides text"},
    {"connections", API_OBJECT, .help = "blocked, refused, allowed"},
    {"policy", API_OBJECT, API_NULLABLE,
     .help = "the deciding check: verdict, rule, layer, version, reason"},
    {"checks", API_ARRAY, .items = API_OBJECT,
     .help = "every check of policy, of the code and of connections: action, "
             "about, verdict, rule, layer, version"},
    {"checks_truncated", API_BOOL, .help = "there were more than 64"},
    {"output", API_OBJECT, API_NULLABLE,
     .help = "text, truncated; null unless evidence_output_bytes is set"},
    {"approval", API_OBJECT, API_NULLABLE,
     .help = "id, state, by, by_name, reason, asked_at, decided_at"},
    {"escalated", API_BOOL, .help = "a person was asked to approve"},
    {"retry_of", API_STRING, API_NULLABLE, API_MEMBER},
    {"repeats", API_INT, .help = "how often the same code had failed before"},
    {"isolation", API_STRING, API_NULLABLE, .help = "the walls it ran behind"},
    {"interpreter_fresh", API_BOOL, API_MEMBER},
    {"created_at", API_TIME, API_MEMBER},
    {"started_at", API_TIME, API_NULLABLE, API_MEMBER},
    {"finished_at", API_TIME, API_NULLABLE, API_MEMBER},
    {"usage", API_OBJECT,
     .help = "wall_ms, cpu_ms, peak_memory_bytes, output_bytes"},
    {"code_text", API_STRING, API_NULLABLE,
     .help = "null if code is not stored"},
};
API_DOCUMENT(native_evidence, "Evidence", evidence_fields,
             "The evidence of an execution.");

static bool sees_all(const struct doors_call *call)
{
    return call->who.scopes & (AUTH_AUDIT_READ | AUTH_ADMIN);
}

/* ---- one of them -------------------------------------------------------- */

static void set_text(json_t *object, const char *key, const char *text)
{
    (void)json_object_set_new(object, key,
                              text[0] ? json_string(text) : json_null());
}

static void set_time(json_t *object, const char *key, int64_t at_ms)
{
    char text[32];

    set_text(object, key, at_ms ? clock_format_ms(at_ms, text) : "");
}

/* The decision may come long after the request, so it is looked up now. A
 * reader of the evidence may know who approved it. */
static void add_approval(struct doors_call *call, const json_t *page)
{
    json_t *held = json_object_get(page, "approval");
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct actor who = call->actor;
    struct error ignored;

    who.admin = true;
    who.scopes |= AUTH_APPROVE;
    if (!json_is_object(held) ||
        approval_of(call->doors->core->approvals, &who, call->params[0], &info,
                    &ignored) < 0)
        return;
    set_text(held, "state", approval_state_name(info.state));
    set_text(held, "by", info.decided_by);
    set_text(held, "by_name", info.decided_by_name);
    set_text(held, "reason", info.reason);
    set_time(held, "asked_at", info.asked_at_ms);
    set_time(held, "decided_at", info.decided_at_ms);
}

int native_evidence_get(struct doors_call *call, struct error *err)
{
    struct buf text cleanup(buf_done) = {0}, body = {0};
    json_t *page cleanup(json_unref) = NULL;
    struct json_writer w = {.out = &body};
    int r = evidence_get(call->doors->core->evidence, &call->actor,
                         sees_all(call), call->params[0], &text, err);

    if (r < 0)
        return r;
    page = json_loadb(text.data, text.len, 0, NULL);
    if (!page)
        return error_set(err, ERR_CORRUPT, "this evidence is damaged");
    add_approval(call, page);
    api_write_json(&w, NULL, &native_evidence, page);
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* ---- lists -------------------------------------------------------------- */

static int ask(struct doors_call *call, struct evidence_filter *ret,
               struct error *err)
{
    int64_t limit = 0;
    int r =
        doors_query_int(call, "limit", 1, LIST_MAX, LIST_DEFAULT, &limit, err);

    if (r == 0)
        r = native_ask_text(call, "session", ID_MAX, &ret->session, err);
    if (r == 0)
        r = native_ask_text(call, "outcome", 31, &ret->outcome, err);
    if (r == 0)
        r = native_ask_text(call, "after", ID_MAX, &ret->after, err);
    if (r == 0)
        r = native_ask_time(call, "from", &ret->from_ms, err);
    if (r == 0)
        r = native_ask_time(call, "to", &ret->to_ms, err);
    ret->limit = (unsigned)limit;
    return r;
}

int native_evidence_list(struct doors_call *call, struct error *err)
{
    struct evidence_filter filter = {.session = NULL};
    struct evidence_row *rows cleanup(mem_free) = NULL;
    struct named_row *named cleanup(mem_free) = NULL;
    size_t count = 0;
    bool more = false;
    int r = ask(call, &filter, err);

    if (r == 0)
        r = evidence_list(call->doors->core->evidence, &call->actor,
                          sees_all(call), &filter, &rows, &count, &more, err);
    if (r < 0)
        return r;
    named = xcalloc(count + 1, sizeof(*named));
    for (size_t i = 0; i < count; i++) {
        named[i].row = rows[i];
        if (i && strcmp(rows[i].actor, rows[i - 1].actor) == 0)
            memcpy(named[i].key_name, named[i - 1].key_name, AUTH_NAME_MAX);
        else
            auth_key_name(call->doors->auth, rows[i].actor, named[i].key_name);
    }
    native_respond_list(call, &native_evidence_row, named, count, more);
    return 0;
}
