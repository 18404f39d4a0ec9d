/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/approvals: what waits for a person, and the person's answer. Runs on a
 * worker of the daemon. One approval is shown with its payload, which is what
 * the person has to read; lists are without.
 */
#include <string.h>

#include "approval/approval.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_MAX 1000u
#define LIST_DEFAULT 50u

static void encode_deliveries(struct json_writer *w,
                              const struct approval_delivery *list,
                              size_t count)
{
    json_write_open(w, "deliveries", '[');
    for (size_t i = 0; i < count; i++) {
        const struct approval_delivery *d = &list[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "type", d->type);
        json_write_string(w, "state", d->state);
        json_write_int(w, "attempts", d->attempts);
        if (d->status)
            json_write_int(w, "status", d->status);
        else
            json_write_string(w, "status", NULL);
        native_encode_text(w, "error", d->error);
        json_write_time(w, "at", d->at_ms);
        json_write_time(w, "next_attempt_at", d->next_at_ms);
        json_write_time(w, "ended_at", d->done_at_ms);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

/* Whole: with what is to be read and who was told. */
static int respond(struct doors_call *call, const struct approval_info *info,
                   struct error *err)
{
    struct approval_delivery *list cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r = approval_deliveries(call->doors->core->approvals, &call->actor,
                                info->id, &list, &count, err);

    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    approval_write(&w, info);
    if (info->payload)
        json_write_raw(&w, "payload", info->payload, strlen(info->payload));
    else
        json_write_string(&w, "payload", NULL);
    encode_deliveries(&w, list, count);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

static int ask_state(struct doors_call *call, int *ret, struct error *err)
{
    const char *text = NULL;
    int r = native_ask_text(call, "state", 16, &text, err);

    if (r < 0)
        return r;
    *ret = text ? approval_state_parse(text) : -1;
    if (text && *ret < 0) {
        (void)error_set(err, ERR_INVALID, "there is no such state");
        return error_hint(err, "It is pending, approved, denied, expired or "
                               "withdrawn.");
    }
    return 0;
}

int native_approvals_list(struct doors_call *call, struct error *err)
{
    struct approval_info *list cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    const char *after = NULL;
    unsigned limit = 0;
    size_t count = 0;
    bool more = false;
    int state = -1;
    int r = ask_state(call, &state, err);

    if (r == 0)
        r = native_ask_page(call, LIST_MAX, LIST_DEFAULT, &limit, &after, err);
    if (r == 0)
        r = approval_list(call->doors->core->approvals, &call->actor, state,
                          limit, after, &list, &count, &more, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_open(&w, NULL, '{');
        approval_write(&w, &list[i]);
        json_write_close(&w, '}');
    }
    native_encode_list_end(&w, more);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_approvals_get(struct doors_call *call, struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    int r = approval_get(call->doors->core->approvals, &call->actor,
                         call->params[0], &info, err);

    return r < 0 ? r : respond(call, &info, err);
}

static int decide(struct doors_call *call, bool yes, struct error *err)
{
    static const struct json_field fields[] = {
        {"reason", JSON_KIND_STRING, .max = APPROVAL_REASON_MAX},
    };
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    json_t *json cleanup(json_unref) = NULL;
    const char *reason = NULL;
    int r = native_ask_body_maybe(call, fields, ARRAY_SIZE(fields), &reason,
                                  &json, err);

    if (r == 0)
        r = approval_decide(call->doors->core->approvals, &call->actor,
                            call->params[0], yes, reason, &info, err);
    return r < 0 ? r : respond(call, &info, err);
}

int native_approvals_approve(struct doors_call *call, struct error *err)
{
    return decide(call, true, err);
}

int native_approvals_deny(struct doors_call *call, struct error *err)
{
    return decide(call, false, err);
}

int native_approvals_withdraw(struct doors_call *call, struct error *err)
{
    int r = approval_withdraw(call->doors->core->approvals, &call->actor,
                              call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
