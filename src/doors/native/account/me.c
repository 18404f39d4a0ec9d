/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/me: everything a client needs to know about its caller in one
 * answer. Runs on a worker of the daemon. GET /api/whoami has the first part
 * of it, from the same table.
 */
#include <string.h>

#include "api/api.h"
#include "doors/native/native.h"
#include "quota/quota.h"

struct me {
    struct native_caller caller;
    const char *kind;
    bool console, operator;
    struct quota_use *quotas;
    size_t quota_count;
};

#define ME(member) API_AT(struct me, member)

static const char *const kinds[] = {"key", "token", "subject", NULL};

static const struct api_field me_fields[] = {
    {"kind", API_CHOICE, ME(kind), .choices = kinds,
     .help = "what was sent: a key, a token of the service, or a token of "
             "the issuer"},
    {"console", API_BOOL, ME(console), .help = "signed in by the cookie"},
    {"operator", API_BOOL, ME(operator),
     .help = "of the tenant that sees and sets what concerns the whole "
             "service"},
    {"quotas", API_ARRAY, API_LIST(struct me, quotas, quota_count),
     .of = &native_quota, .help = "limits of the tenant and their use"},
};
API_OUTPUT_OF(native_me, "Me", &native_caller, struct me, me_fields,
              "The caller: name, tenant, rights, limits.");

bool native_operates(const struct doors_call *call)
{
    return strcmp(call->who.tenant, OPERATORS) == 0;
}

int native_operators_only(const struct doors_call *call, const char *what,
                          struct error *err)
{
    if (native_operates(call))
        return 0;
    return error_set(err, ERR_FORBIDDEN, "only keys of the tenant '%s' may %s",
                     OPERATORS, what);
}

int native_me_respond(struct doors_call *call, const struct principal *who,
                      struct error *err)
{
    struct quota_use uses[QUOTA_KINDS];
    struct me me = {.console = call->console,
                    .operator= strcmp(who->tenant, OPERATORS) == 0,
                    .quotas = uses,
                    .quota_count = QUOTA_KINDS};
    int r = native_quotas_uses(call, who->tenant, uses, err);

    if (r < 0)
        return r;
    native_keys_caller(who, &me.caller);
    if (who->token[0])
        me.kind = "token";
    else
        me.kind = strncmp(who->key_id, "jwt_", 4) == 0 ? "subject" : "key";
    native_respond(call, 200, &native_me, &me);
    return 0;
}

int native_me_get(struct doors_call *call, struct error *err)
{
    return native_me_respond(call, &call->who, err);
}
