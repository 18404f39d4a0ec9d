/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of executions: for keys with the scope audit:read all of
 * their tenant's, for others what they asked for themselves. Runs on a worker
 * of the daemon.
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

#define ROW(member) API_AT(struct evidence_row, member)

static const struct api_field evidence_row_fields[] = {
    {"execution", API_STRING, ROW(execution)},
    {"session", API_STRING, ROW(session)},
    {"key", API_STRING, ROW(actor), .help = "who asked for it"},
    {"at", API_TIME, ROW(at_ms)},
    {"outcome", API_STRING, ROW(outcome)},
    {"code_sha256", API_STRING, ROW(code_sha256)},
};
API_OUTPUT(native_evidence_row, "EvidenceRow", struct evidence_row,
           evidence_row_fields, "An execution there is evidence of.");

/* As evidence/ wrote it when the execution ended. */
static const struct api_field evidence_fields[] = {
    {"execution", API_STRING, API_ELSEWHERE},
    {"session", API_STRING, API_ELSEWHERE},
    {"pool", API_STRING, API_NULLABLE, API_ELSEWHERE},
    {"runtime", API_STRING, API_NULLABLE, API_ELSEWHERE},
    {"outcome", API_STRING,
     .help = "as of the execution; or pending_approval"},
    {"failure", API_STRING, API_NULLABLE, API_ELSEWHERE},
    {"who", API_OBJECT, .help = "tenant, key, door, tool, request, source"},
    {"trigger", API_OBJECT,
     .help = "conversation, message, metadata: as given"},
    {"code", API_OBJECT, .help = "language, bytes, sha256, kept"},
    {"files", API_OBJECT,
     .help = "mounted, read (as the interpreter told), written"},
    {"artifacts", API_ARRAY, .items = API_OBJECT,
     .help = "what was shown besides text"},
    {"connections", API_OBJECT, .help = "blocked, refused, allowed"},
    {"policy", API_OBJECT, API_NULLABLE,
     .help = "verdict, rule, layer, version, reason"},
    {"approval", API_OBJECT, API_NULLABLE,
     .help = "id, state, by, reason, at"},
    {"escalated", API_BOOL, .help = "somebody was asked"},
    {"retry_of", API_STRING, API_NULLABLE, API_ELSEWHERE},
    {"repeats", API_INT,
     .help = "so often the same code had failed before it"},
    {"isolation", API_STRING, API_NULLABLE, .help = "the walls it ran behind"},
    {"interpreter_fresh", API_BOOL, API_ELSEWHERE},
    {"created_at", API_TIME, API_ELSEWHERE},
    {"started_at", API_TIME, API_NULLABLE, API_ELSEWHERE},
    {"finished_at", API_TIME, API_NULLABLE, API_ELSEWHERE},
    {"usage", API_OBJECT,
     .help = "wall_ms, cpu_ms, peak_memory_bytes, output_bytes"},
    {"code_text", API_STRING, API_NULLABLE,
     .help = "null where code is not kept"},
};
API_SCHEMA(native_evidence, "Evidence", NULL, evidence_fields,
           "What is known of an execution.");

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

/* Decided long after it was asked, so it is looked up now. Who may see the
 * evidence may know who approved it. */
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
    set_text(held, "reason", info.reason);
    set_time(held, "asked_at", info.asked_at_ms);
    set_time(held, "decided_at", info.decided_at_ms);
}

int native_evidence_get(struct doors_call *call, struct error *err)
{
    struct buf text cleanup(buf_done) = {0}, body = {0};
    json_t *page cleanup(json_unref) = NULL;
    char *again cleanup(mem_free) = NULL;
    int r = evidence_get(call->doors->core->evidence, &call->actor,
                         sees_all(call), call->params[0], &text, err);

    if (r < 0)
        return r;
    page = json_loadb(text.data, text.len, 0, NULL);
    if (!page)
        return error_set(err, ERR_CORRUPT, "this evidence is damaged");
    add_approval(call, page);
    again = json_dumps(page, JSON_COMPACT);
    if (!again)
        return error_set(err, ERR_INTERNAL, "this evidence cannot be shown");
    buf_adds(&body, again);
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
    size_t count = 0;
    bool more = false;
    int r = ask(call, &filter, err);

    if (r == 0)
        r = evidence_list(call->doors->core->evidence, &call->actor,
                          sees_all(call), &filter, &rows, &count, &more, err);
    if (r < 0)
        return r;
    native_respond_list(call, &native_evidence_row, rows, count, more);
    return 0;
}
