/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox key and glovebox token: create, list and revoke credentials. A
 * token is the short-lived and narrower kind, minted from a key or another
 * token. A secret is printed once, when it is made, to standard output and
 * nowhere else.
 */
#include <string.h>

#include "base/mem.h"
#include "cli/common.h"

struct credential_flags {
    const char *scopes, *tenant, *name;
    const char *pools, *workspaces, *sessions; /* of a key, commas between */
    const char *pool, *workspace, *session;    /* of a token */
    uint64_t expires_s, ttl_s;
};

/* Pools, workspaces and sessions that it is restricted to, or "-". */
static void add_restrictions(const json_t *credential, struct buf *out)
{
    static const char *const kinds[] = {"pools", "workspaces", "sessions"};

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *list = json_object_get(credential, kinds[k]), *one;
        size_t i;

        if (json_array_size(list) && out->len)
            buf_adds(out, " ");
        json_array_foreach (list, i, one)
            buf_addf(out, "%s%s", i ? "," : "", json_string_value(one));
    }
    if (!out->len)
        buf_adds(out, "-");
}

static void add_state(const json_t *key, struct buf *out)
{
    buf_adds(out, cli_json_text(key, "revoked_at", NULL)
                      ? "revoked"
                      : cli_json_text(key, "expires_at", "valid"));
}

/* ---- key ---------------------------------------------------------------- */

static const struct cli_column key_columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"TENANT", .member = "tenant"},
    {"NAME", .member = "name"},
    {"SCOPES", "scopes", .kind = CLI_COLUMN_LIST},
    {"BOUND TO", .cell = add_restrictions},
    {"CREATED", "created_at", .kind = CLI_COLUMN_TIME},
    {"LAST USED", "last_used_at", CLI_COLUMN_TIME, .missing = "never"},
    {"STATE", .cell = add_state},
    {0},
};

static const struct cli_verb key_verbs[] = {
    {"list", "ls", NULL, "List keys", "GET", "/api/keys",
     .columns = key_columns},
    {"create", NULL, NULL, "Create a key and print its secret, once", "POST",
     "/api/keys", .needs = "scopes",
     .body = "scopes={--scopes} tenant={--tenant} name={--name} "
             "pools={--pools} workspaces={--workspaces} "
             "sessions={--sessions} expires_in_s={--expires}",
     .value = "secret", .always = true,
     .sentence = "This is key {id}. Its secret is shown only now and stored "
                 "nowhere: save it."},
    {"narrow", NULL, "KEY", "Rename a key or take rights away from it",
     "PATCH", "/api/keys/{KEY}",
     .body = "scopes={--scopes} name={--name} pools={--pools} "
             "workspaces={--workspaces} sessions={--sessions} "
             "expires_in_s={--expires}",
     .sentence = "Changed the key {KEY}."},
    {"rotate", NULL, "KEY", "Replace the secret of a key and print it, once",
     "POST", "/api/keys/{KEY}/rotate", .value = "secret", .always = true,
     .sentence = "The old secret of {KEY} and its tokens no longer work. The "
                 "new secret is shown only now and stored nowhere: save it."},
    {"delete", "revoke rm", "KEY",
     "Revoke a key and the tokens minted from it", "DELETE", "/api/keys/{KEY}",
     .json = "revoked={KEY}", .sentence = "Revoked the key {KEY}."},
    {0},
};

#define AT(member) offsetof(struct credential_flags, member)

static const struct cli_option key_options[] = {
    {"scopes", 0, CLI_OPT_COMMAS, AT(scopes), "SCOPES",
     "what the key may do, with commas between; see below", "create narrow"},
    {"scope", 0, CLI_OPT_COMMAS, AT(scopes), "SCOPES", "the same",
     "create narrow"},
    {"tenant", 0, CLI_OPT_TEXT, AT(tenant), "T",
     "the key's tenant; else yours", "create"},
    {"name", 'n', CLI_OPT_TEXT, AT(name), "N",
     "what the key is for, to tell keys apart", "create narrow"},
    {"pools", 0, CLI_OPT_COMMAS, AT(pools), "NAMES",
     "only sessions of these pools", "create narrow"},
    {"workspaces", 0, CLI_OPT_COMMAS, AT(workspaces), "IDS",
     "only these workspaces, and sessions on them", "create narrow"},
    {"sessions", 0, CLI_OPT_COMMAS, AT(sessions), "IDS",
     "only these sessions, and their workspaces", "create narrow"},
    {"expires", 0, CLI_OPT_DURATION, AT(expires_s), "TIME",
     "valid for 90, 15m, 2h, 7d; else it never expires", "create narrow"},
    {0},
};

const struct cli_command cli_key = {
    .name = "key",
    .summary = "Create, list, narrow, rotate and revoke keys",
    .notes =
        "Scopes: execute, files:read, files:write, workspaces:admin,\n"
        "audit:read, policy:admin, approve, admin (all of them).\n"
        "These verbs need a key of scope admin. The new key's secret is\n"
        "printed alone on standard output, once; the note about it goes to\n"
        "standard error.\n",
    .online = true,
    .options = key_options,
    .flags_size = sizeof(struct credential_flags),
    .verbs = key_verbs,
};

/* ---- token -------------------------------------------------------------- */

static const struct cli_column token_columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"NAME", .member = "name"},
    {"SCOPES", "scopes", .kind = CLI_COLUMN_LIST},
    {"FOR", .cell = add_restrictions},
    {"PARENT", "parent", .kind = CLI_COLUMN_ID},
    {"EXPIRES", "expires_at", .kind = CLI_COLUMN_TIME},
    {"LAST USED", "last_used_at", CLI_COLUMN_TIME, .missing = "never"},
    {0},
};

static const struct cli_verb token_verbs[] = {
    {"list", "ls", NULL, "List valid tokens that you may revoke", "GET",
     "/api/tokens", .cursor = "id", .columns = token_columns},
    {"create", NULL, NULL, "Mint a token and print its secret, once", "POST",
     "/api/tokens", .needs = "ttl",
     .body = "ttl_s={--ttl} scopes={--scopes} name={--name} "
             "session={--session} workspace={--workspace} pool={--pool}",
     .value = "secret", .always = true,
     .sentence = "This is token {id}. Its secret is shown only now and "
                 "stored nowhere: save it."},
    {"delete", "revoke rm", "TOKEN",
     "Revoke a token and the tokens minted from it", "DELETE",
     "/api/tokens/{TOKEN}", .json = "revoked={TOKEN}",
     .sentence = "Revoked the token {TOKEN}."},
    {0},
};

static const struct cli_option token_options[] = {
    {"ttl", 0, CLI_OPT_DURATION, AT(ttl_s), "TIME",
     "how long the token is valid: 5 seconds to 24h", "create"},
    {"scopes", 0, CLI_OPT_COMMAS, AT(scopes), "SCOPES",
     "some of yours; else all of them but admin", "create"},
    {"session", 's', CLI_OPT_TEXT, AT(session), "SESSION",
     "only for this session (id or name)", "create"},
    {"workspace", 'w', CLI_OPT_TEXT, AT(workspace), "WS",
     "only for this workspace (id or name)", "create"},
    {"pool", 0, CLI_OPT_TEXT, AT(pool), "P", "only for this pool", "create"},
    {"name", 'n', CLI_OPT_TEXT, AT(name), "N",
     "what the token is for, to tell tokens apart", "create"},
    {0},
};

const struct cli_command cli_token = {
    .name = "token",
    .summary = "Mint, list and revoke short-lived tokens",
    .notes =
        "Any key or token can mint a token. The new token has no more rights\n"
        "than the credential it was minted from, expires no later, and is\n"
        "revoked with it. The secret is printed alone on standard output,\n"
        "once; the note about it goes to standard error.\n",
    .online = true,
    .options = token_options,
    .flags_size = sizeof(struct credential_flags),
    .verbs = token_verbs,
};
