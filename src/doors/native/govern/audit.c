/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/audit: the trail, and whether it is whole. Runs on a worker of the
 * daemon. An administrator of the tenant "default" sees every tenant's events,
 * the others their own, and can check their own chain without the rest.
 */
#include "audit/audit.h"
#include "api/api.h"

#include <string.h>

#include "audit/format.h"

#include "base/mem.h"
#include "doors/native/native.h"

#define LIST_MAX 1000
#define LIST_DEFAULT 100

int native_audit_tenant(struct doors_call *call, const char **ret,
                        struct error *err)
{
    bool all = strcmp(call->who.tenant, OPERATORS) == 0 &&
               (call->who.scopes & AUTH_ADMIN);
    int r = native_ask_text(call, "tenant", AUTH_TENANT_MAX, ret, err);

    if (r < 0)
        return r;
    if (!all && *ret && strcmp(*ret, call->who.tenant) != 0)
        return error_set(err, ERR_FORBIDDEN,
                         "only administrators of the tenant '%s' see other "
                         "tenants' events",
                         OPERATORS);
    if (!all)
        *ret = call->who.tenant;
    return 0;
}

static int ask(struct doors_call *call, struct audit_filter *ret,
               struct error *err)
{
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"actor", &ret->actor},
        {"action", &ret->action},
        {"object", &ret->object},
        {"workspace", &ret->workspace},
    };
    int64_t limit = 0;
    int r =
        doors_query_int(call, "limit", 1, LIST_MAX, LIST_DEFAULT, &limit, err);

    if (r == 0)
        r = doors_query_int(call, "after", 0, INT64_MAX, 0, &ret->after, err);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
        r = native_ask_text(call, texts[i].name, 1024, texts[i].to, err);
    if (r == 0)
        r = native_ask_time(call, "from", &ret->from_ms, err);
    if (r == 0)
        r = native_ask_time(call, "to", &ret->to_ms, err);
    if (r == 0)
        r = native_audit_tenant(call, &ret->tenant, err);
    ret->limit = (unsigned)limit;
    return r;
}

int native_audit_query(struct doors_call *call, struct error *err)
{
    struct audit_filter filter = {.tenant = NULL};
    struct audit_line *lines = NULL;
    size_t count = 0;
    bool more = false;
    int r = ask(call, &filter, err);

    if (r == 0)
        r = audit_query(call->doors->core->audit, &filter, &lines, &count,
                        &more, err);
    if (r < 0)
        return r;

    /* Neighbouring events are mostly of the same key. */
    char name[AUTH_NAME_MAX] = "";

    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(lines[i].actor, lines[i - 1].actor) != 0)
            auth_key_name(call->doors->auth, lines[i].actor, name);
        if (name[0])
            lines[i].actor_name = xstrdup(name);
    }

    native_respond_list(call, &audit_event_resource, lines, count, more);
    audit_lines_free(lines, count);
    return 0;
}

struct report {
    bool ok;
    struct audit_report found;
    const char *tenant;
};

#define REPORT(member) API_AT(struct report, member)

static const struct api_field audit_report_fields[] = {
    {"ok", API_BOOL, REPORT(ok)},
    {"events", API_INT, REPORT(found.events)},
    {"first_bad", API_INT, API_NULLABLE, REPORT(found.first_bad)},
    {"fault", API_STRING, API_NULLABLE, REPORT(found.fault)},
    {"lost", API_INT, REPORT(found.lost),
     .help = "events whose loss an operator has accepted; 0 in a tenant's "
             "own"},
    {"head", API_STRING, API_NULLABLE, REPORT(found.head),
     .help = "note it down elsewhere"},
    {"tenant", API_STRING, API_NULLABLE, REPORT(tenant),
     .help = "whose chain; null: every tenant's, and all in one"},
};
API_OUTPUT(native_audit_report, "AuditReport", struct report,
           audit_report_fields, "Whether the chain holds.");

int native_audit_verify(struct doors_call *call, struct error *err)
{
    struct audit_report report = {.events = 0};
    const char *tenant = NULL;
    int r = native_audit_tenant(call, &tenant, err);

    if (r == 0 && tenant)
        r = audit_verify_tenant(call->doors->core->audit, tenant, &report,
                                err);
    else if (r == 0)
        r = audit_verify(call->doors->core->audit, NULL, NULL, &report, err);
    if (r < 0)
        return r;
    native_respond(call, 200, &native_audit_report,
                   &(struct report){report.first_bad == 0, report, tenant});
    return 0;
}
