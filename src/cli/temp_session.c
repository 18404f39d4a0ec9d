/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session that `run` and `shell` work in: the one that is named, or one
 * created for the command and deleted afterwards. Its files stay in its
 * workspace unless it is ephemeral.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

int cli_temp_session_open(struct cli *c, const char *session,
                          const struct cli_session_spec *spec,
                          struct cli_temp_session *ret, struct error *err)
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
        return error_set(err, ERR_INTERNAL,
                         "the service did not return a session id");
    ret->is_new = true;
    return 0;
}

void cli_temp_session_close(struct cli *c, const struct cli_temp_session *t)
{
    char *path cleanup(mem_free) = xasprintf("/api/sessions/%s", t->session);
    struct error err;

    /* An embedded service ends with its sessions. */
    if (!t->is_new || c->service)
        return;
    if (cli_http_json(c, "DELETE", path, NULL, NULL, &err) < 0)
        (void)fprintf(stderr, "glovebox: session %s was not deleted: %s\n",
                      t->session, err.message);
}
