/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/audit: the trail, and whether it is whole. Runs on a worker of the
 * daemon. An administrator of the tenant "default" sees every tenant's events,
 * the others their own, and can check their own chain without the rest.
 */
#include "audit/audit.h"

#include <string.h>

#include "audit/format.h"

#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

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
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    bool more = false;
    int r = ask(call, &filter, err);

    if (r == 0)
        r = audit_query(call->doors->core->audit, &filter, &lines, &count,
                        &more, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_open(&w, NULL, '{');
        audit_format_members(&w, &lines[i]);
        json_write_close(&w, '}');
    }
    native_encode_list_end(&w, more);
    audit_lines_free(lines, count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_audit_verify(struct doors_call *call, struct error *err)
{
    struct audit_report report = {.events = 0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    const char *tenant = NULL;
    int r = native_audit_tenant(call, &tenant, err);

    if (r == 0 && tenant)
        r = audit_verify_tenant(call->doors->core->audit, tenant, &report,
                                err);
    else if (r == 0)
        r = audit_verify(call->doors->core->audit, NULL, NULL, &report, err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_bool(&w, "ok", report.first_bad == 0);
    json_write_int(&w, "events", report.events);
    if (report.first_bad)
        json_write_int(&w, "first_bad", report.first_bad);
    else
        json_write_string(&w, "first_bad", NULL);
    native_encode_text(&w, "fault", report.fault);
    json_write_int(&w, "lost", report.lost);
    native_encode_text(&w, "head", report.head);
    json_write_string(&w, "tenant", tenant);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}
