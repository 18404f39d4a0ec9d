/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session that `run` and `shell` work in: the one named, or one made for
 * the command and deleted afterwards. Its files stay in its workspace unless
 * it is ephemeral.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

int cli_lease_take(struct cli *c, const char *session,
                   const struct cli_session_spec *spec, struct cli_lease *ret,
                   struct error *err)
{
    json_t *made cleanup(json_unref) = NULL;
    int r;

    if (session)
        return cli_remote_find(c, session, ret->session, err);
    r = cli_remote_create(c, spec, &made, err);
    if (r < 0)
        return r;
    (void)snprintf(ret->session, sizeof(ret->session), "%s",
                   cli_json_text(made, "id", ""));
    (void)snprintf(ret->workspace, sizeof(ret->workspace), "%s",
                   cli_json_text(made, "workspace", ""));
    if (!ids_valid("sess", ret->session))
        return error_set(err, ERR_INTERNAL, "the service named no session");
    ret->made = true;
    return 0;
}

void cli_lease_end(struct cli *c, const struct cli_lease *l)
{
    char *path cleanup(mem_free) = xasprintf("/api/sessions/%s", l->session);
    struct error err;

    /* An embedded service takes its sessions along. */
    if (!l->made || c->service)
        return;
    if (cli_http_json(c, "DELETE", path, NULL, NULL, &err) < 0)
        (void)fprintf(stderr, "glovebox: session %s was not deleted: %s\n",
                      l->session, err.message);
}
