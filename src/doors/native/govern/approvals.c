/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/approvals: what waits for a person, and the person's answer. Runs on a
 * worker of the daemon. One approval is shown with its payload, which is what
 * the person has to read; lists are without.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "approval/approval.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "session/session.h"
#include "workspace/workspace.h"
#include "json/json.h"

#define LIST_MAX 1000u
#define LIST_DEFAULT 50u

/* ---- resources ---------------------------------------------------------- */

static const char *const delivery_states[] = {"waiting", "delivered",
                                              "given_up", NULL};

#define DELIVERY(member) API_AT(struct approval_delivery, member)

static const struct api_field delivery_fields[] = {
    {"type", API_STRING, DELIVERY(type),
     .help = "approval.asked, approval.approved, …"},
    {"state", API_CHOICE, DELIVERY(state), .choices = delivery_states},
    {"attempts", API_INT, DELIVERY(attempts)},
    {"status", API_INT, API_NULLABLE, DELIVERY(status),
     .help = "of the receiver's last answer"},
    {"error", API_STRING, API_NULLABLE, DELIVERY(error)},
    {"at", API_TIME, DELIVERY(at_ms)},
    {"next_attempt_at", API_TIME, API_NULLABLE, DELIVERY(next_at_ms)},
    {"ended_at", API_TIME, API_NULLABLE, DELIVERY(done_at_ms)},
};
API_OUTPUT(native_delivery, "Delivery", struct approval_delivery,
           delivery_fields, "A webhook about an approval.");

/* What the code of a request could reach: of its session. */
struct reach {
    struct session_info session;
    struct network_info network;
    char workspace_name[WORKSPACE_NAME_MAX + 4];
};

#define REACH(member) API_AT(struct reach, member)

static const struct api_field reach_network_fields[] = {
    {"mode", API_CHOICE, REACH(network.net.mode),
     .choices = session_egress_names},
    {"destinations", API_ARRAY,
     API_LIST(struct reach, network.net.destinations,
              network.net.destination_count),
     .of = &native_destination},
    {"packages", API_BOOL, REACH(network.net.packages)},
};
API_OUTPUT(native_reach_network, "ReachNetwork", struct reach,
           reach_network_fields, "Where code of a session may connect to.");

static const struct api_field reach_fields[] = {
    {"session_name", API_STRING, API_NULLABLE, REACH(session.name)},
    {"pool", API_STRING, REACH(session.pool)},
    {"workspace_name", API_STRING, API_NULLABLE, REACH(workspace_name)},
    {"network", API_OBJECT, API_MEMBER, .of = &native_reach_network},
};
API_OUTPUT(native_reach, "Reach", struct reach, reach_fields,
           "What the session of a request could reach when this was read.");

struct whole {
    struct approval_info info;
    const struct reach *reach; /* NULL: of no session, or it is gone */
    struct approval_delivery *deliveries;
    size_t count;
};

static const struct api_field approval_whole_fields[] = {
    {"payload", API_OBJECT, API_NULLABLE, API_AT(struct whole, info.payload),
     .help = "what was asked, the code of an execution"},
    {"deliveries", API_ARRAY, API_LIST(struct whole, deliveries, count),
     .of = &native_delivery},
    {"reach", API_OBJECT, API_NULLABLE, API_POINTER(struct whole, reach),
     .of = &native_reach,
     .help = "what its session could reach when this was read; null: it has "
             "no session any more"},
};
API_OUTPUT_OF(native_approval_whole, "ApprovalWhole", &approval_resource,
              struct whole, approval_whole_fields,
              "An approval with its request and its notifications.");

struct reason_body {
    const char *reason;
};

static const struct api_field approval_reason_fields[] = {
    {"reason", API_STRING, API_AT(struct reason_body, reason),
     .max = APPROVAL_REASON_MAX},
};
API_INPUT(native_approval_reason, "ApprovalReason", struct reason_body,
          approval_reason_fields, "Why; needed for a no.");

/* ---- routes ------------------------------------------------------------- */

static void forget_reach(struct reach *reach)
{
    session_info_done(&reach->session);
    network_info_done(&reach->network);
}

/* An actor who may read a request sees what approving it would open, even if
 * the session itself is not shared with them. */
static bool find_reach(struct doors_call *call,
                       const struct approval_info *info, struct reach *ret)
{
    struct actor owner = call->actor;
    struct workspace_info workspace;
    struct error ignored = {0};

    if (!info->session[0] ||
        session_reach(call->doors->sessions, &call->actor, info->session,
                      &ret->session, &ret->network, &ignored) < 0)
        return false;
    owner.admin = true;
    if (ret->session.workspace[0] &&
        workspace_get(call->doors->workspaces, &owner, ret->session.workspace,
                      &workspace, &ignored) == 0)
        (void)snprintf(ret->workspace_name, sizeof(ret->workspace_name), "%s",
                       workspace.name);
    return true;
}

static int respond(struct doors_call *call, const struct approval_info *info,
                   struct error *err)
{
    struct reach reach cleanup(forget_reach) = {.network = {.room = NULL}};
    struct approval_delivery *list cleanup(mem_free) = NULL;
    size_t count = 0;
    int r = approval_deliveries(call->doors->core->approvals, &call->actor,
                                info->id, &list, &count, err);

    if (r == 0)
        native_respond(call, 200, &native_approval_whole,
                       &(struct whole){.info = *info,
                                       .reach = find_reach(call, info, &reach)
                                                    ? &reach
                                                    : NULL,
                                       .deliveries = list,
                                       .count = count});
    return r;
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
    native_respond_list(call, &approval_resource, list, count, more);
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
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct reason_body b = {0};
    int r = native_read_maybe(call, &native_approval_reason, &b, &json, err);

    if (r == 0)
        r = approval_decide(call->doors->core->approvals, &call->actor,
                            call->params[0], yes, b.reason, &info, err);
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
