/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of executions: for keys with the scope audit:read all of
 * their tenant's, for others what they asked for themselves. Runs on a worker
 * of the daemon.
 */
#include "evidence/evidence.h"

#include <string.h>

#include "approval/approval.h"
#include "base/clock.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_MAX 1000
#define LIST_DEFAULT 100

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
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    bool more = false;
    int r = ask(call, &filter, err);

    if (r == 0)
        r = evidence_list(call->doors->core->evidence, &call->actor,
                          sees_all(call), &filter, &rows, &count, &more, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_open(&w, NULL, '{');
        json_write_string(&w, "execution", rows[i].execution);
        json_write_string(&w, "session", rows[i].session);
        json_write_string(&w, "key", rows[i].actor);
        json_write_time(&w, "at", rows[i].at_ms);
        json_write_string(&w, "outcome", rows[i].outcome);
        json_write_string(&w, "code_sha256", rows[i].code_sha256);
        json_write_close(&w, '}');
    }
    native_encode_list_end(&w, more);
    http_respond_json(call->http, 200, &body);
    return 0;
}
