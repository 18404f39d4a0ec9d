/* SPDX-License-Identifier: Apache-2.0 */
/* What key.c and token.c share: both are credentials, made and shown alike. */
#ifndef GLOVEBOX_CLI_KEY_H
#define GLOVEBOX_CLI_KEY_H

#include "cli/cli_int.h"

/* "execute,files:read" as an array; NULL for NULL. Owned by caller. */
json_t *cli_key_words(const char *text);
/* The other way round; "" for none. */
void cli_key_join(const json_t *list, struct buf *out);
/* What it is bound to, for a cell of a table: "pool default, ws_…", "-". */
void cli_key_bounds(const json_t *key, struct buf *out);
/* The secret alone on standard output, the note about it on standard error;
 * what: "key". */
void cli_key_show(const struct cli *c, const char *what, const json_t *made);
/* DELETE prefix and the id. Returns the exit status. */
int cli_key_revoke(struct cli *c, const char *prefix, const char *id);

#endif
