/* SPDX-License-Identifier: Apache-2.0 */
/* Names of scopes; see auth.h. Daemon. */
#include <stdio.h>
#include <string.h>

#include "auth/auth.h"
#include "base/error.h"
#include "base/mem.h"

static const struct {
    const char *name;
    enum auth_scope bit;
} scopes_table[] = {
    {"execute", AUTH_EXECUTE},
    {"files:read", AUTH_FILES_READ},
    {"files:write", AUTH_FILES_WRITE},
    {"workspaces:admin", AUTH_WORKSPACES_ADMIN},
    {"audit:read", AUTH_AUDIT_READ},
    {"policy:admin", AUTH_POLICY_ADMIN},
    {"approve", AUTH_APPROVE},
    {"admin", AUTH_ADMIN},
};

int auth_scopes_parse(const char *text, uint32_t *ret, struct error *err)
{
    uint32_t scopes = 0;

    for (;;) {
        size_t len = strcspn(text, ",");
        uint32_t bit = 0;

        for (size_t i = 0; i < ARRAY_SIZE(scopes_table); i++)
            if (strlen(scopes_table[i].name) == len &&
                strncmp(scopes_table[i].name, text, len) == 0)
                bit = scopes_table[i].bit;
        if (!bit) {
            (void)error_set(err, ERR_INVALID, "unknown scope \"%.*s\"",
                            (int)MIN(len, (size_t)32), text);
            return error_hint(err, "scopes are execute, files:read, "
                                   "files:write, workspaces:admin, "
                                   "audit:read, policy:admin, approve and "
                                   "admin, with commas between");
        }
        scopes |= bit;
        if (!text[len])
            break;
        text += len + 1;
    }
    *ret = scopes;
    return 0;
}

char *auth_scopes_format(uint32_t scopes, char ret[96])
{
    size_t used = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(scopes_table); i++)
        if (scopes & scopes_table[i].bit)
            used += (size_t)snprintf(ret + used, 96 - used, "%s%s",
                                     used ? "," : "", scopes_table[i].name);
    return ret;
}
