/* SPDX-License-Identifier: Apache-2.0 */
/* The service's errors as ours: {"error":{"code","message","hint"}}. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static enum error_code code_named(const char *name, long status)
{
    for (int i = ERR_NONE + 1; i < ERR_MAX; i++)
        if (strcmp(error_code_name((enum error_code)i), name) == 0)
            return (enum error_code)i;
    if (status == 401)
        return ERR_UNAUTHENTICATED;
    if (status == 404)
        return ERR_NOT_FOUND;
    return status >= 500 ? ERR_INTERNAL : ERR_INVALID;
}

int cli_refused(const json_t *body, long status, const char *base,
                struct error *err)
{
    const json_t *e = json_object_get(body, "error");
    const char *message = cli_json_text(e, "message", NULL);
    const char *hint = cli_json_text(e, "hint", "");

    if (message)
        (void)error_set(err, code_named(cli_json_text(e, "code", ""), status),
                        "%s", message);
    else
        (void)error_set(err, code_named("", status),
                        "the service at %s answered %ld", base, status);
    if (*hint)
        return error_hint(err, "%s", hint);
    if (status == 401)
        return error_hint(err,
                          "Set GLOVEBOX_KEY to a valid key, or name a file "
                          "that holds one with --key-file.");
    return -(int)err->code;
}
