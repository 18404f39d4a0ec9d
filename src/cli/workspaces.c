/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox workspaces: create, list, rename, delete and undelete; members,
 * ownership and offers; history; retention, legal hold and quota. The token
 * of an offer is printed once, alone, and read from a file or the terminal,
 * never from the command line.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/files.h"

#define WORKSPACE "/api/workspaces/{WS}"

struct workspace_flags {
    bool deleted, is_private;
    const char *commit, *revoke, *token_file, *lock_file;
    uint64_t ttl_s, limit, versions, days;
};

/* ---- lists -------------------------------------------------------------- */

static const struct cli_column workspace_columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"NAME", .member = "name"},
    {"ROLE", .member = "role"},
    {"FILES", "files", .kind = CLI_COLUMN_NUMBER},
    {"SIZE", "bytes", .kind = CLI_COLUMN_SIZE},
    {"STORED", "stored_bytes", .kind = CLI_COLUMN_SIZE},
    {"HOLD", "legal_hold", .kind = CLI_COLUMN_BOOL},
    {"UPDATED", "updated_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static const struct cli_column deleted_columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"NAME", .member = "name"},
    {"STORED", "stored_bytes", .kind = CLI_COLUMN_SIZE},
    {"DELETED", "deleted_at", .kind = CLI_COLUMN_TIME},
    {"PURGED", "purge_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static const struct cli_column member_columns[] = {
    {"KEY", "principal", .kind = CLI_COLUMN_ID},
    {"ROLE", .member = "role"},
    {"ADDED", "added_at", .kind = CLI_COLUMN_TIME},
    {"BY", "added_by", .kind = CLI_COLUMN_ID},
    {0},
};

static const struct cli_column offer_columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"BY", "offered_by", .kind = CLI_COLUMN_ID},
    {"MADE", "created_at", .kind = CLI_COLUMN_TIME},
    {"UNTIL", "expires_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static int print_workspaces(struct cli_call *call)
{
    const struct workspace_flags *flags = call->flags;

    cli_show_list(call->c, call->answer,
                  flags->deleted ? deleted_columns : workspace_columns);
    return CLI_EXIT_OK;
}

/* ---- deleted workspaces ------------------------------------------------- */

/* By id, or by the name it had. */
static int resolve_deleted(struct cli *c, const char *text, json_t **ret,
                           struct error *err)
{
    json_t *deleted cleanup(json_unref) = NULL;
    const json_t *one;
    size_t i, count = 0;
    int r;

    if (ids_valid("ws", text)) {
        *ret = json_string(text);
        return 0;
    }
    r = cli_remote_list(c, "/api/workspaces?deleted=true", "id", 0, &deleted,
                        err);
    if (r < 0)
        return r;
    json_array_foreach (deleted, i, one)
        if (strcmp(cli_json_text(one, "name", ""), text) == 0 && !count++)
            *ret = json_incref(json_object_get(one, "id"));
    if (count == 1)
        return 0;
    json_decref(take_ptr(*ret));
    (void)error_set(err, count ? ERR_CONFLICT : ERR_NOT_FOUND,
                    "%zu deleted workspaces had the name '%.128s'", count,
                    text);
    return error_hint(err, "`glovebox workspaces ls --deleted` lists them.");
}

static const struct cli_verb purge_deleted = {
    .name = "purge",
    .words = "WS-ID",
    .method = "POST",
    .path = "/api/workspaces/{WS-ID}/purge",
    .sentence = "Freed {bytes:size}.",
};

static int choose_purge(struct cli_call *call, struct error *err)
{
    const struct workspace_flags *flags = call->flags;

    (void)err;
    if (!flags->deleted)
        return 0;
    if (call->words->count > 1)
        return cli_usage_error(call->c, "--deleted purges a whole workspace");
    call->verb = &purge_deleted;
    return 0;
}

/* ---- ownership ---------------------------------------------------------- */

static const struct cli_verb revoke_offer = {
    .name = "offer",
    .words = "WS",
    .method = "DELETE",
    .path = WORKSPACE "/offers/{--revoke}",
    .json = "revoked={--revoke}",
    .sentence = "Revoked the offer {--revoke}.",
};

static int choose_offer(struct cli_call *call, struct error *err)
{
    const struct workspace_flags *flags = call->flags;

    (void)err;
    if (flags->revoke)
        call->verb = &revoke_offer;
    return 0;
}

static int add_token(struct cli_call *call, struct error *err)
{
    const struct workspace_flags *flags = call->flags;
    char *token cleanup(cli_secret_free) = NULL;
    int r = flags->token_file
                ? cli_secret_file(flags->token_file, "token", &token, err)
                : cli_secret_ask(call->c, "token", false, &token, err);

    if (r < 0)
        return r;
    call->body = json_pack("{s:s}", "token", token);
    return call->body
               ? 0
               : error_set(err, ERR_INVALID, "the token is not valid UTF-8");
}

/* ---- history ------------------------------------------------------------ */

static int send_lock(struct cli_call *call, struct error *err)
{
    const struct workspace_flags *flags = call->flags;

    return cli_secret_header(flags->lock_file, &call->header, err);
}

static int print_restored(struct cli_call *call)
{
    cli_files_print_restored(call->c, call->answer);
    return CLI_EXIT_OK;
}

/* ---- settings ----------------------------------------------------------- */

static int print_retention(struct cli_call *call)
{
    const json_t *rules = json_object_get(call->answer, "retention");
    uint64_t versions = cli_json_number(rules, "keep_versions");
    uint64_t days = cli_json_number(rules, "keep_days");

    if (versions)
        (void)printf("versions of a file kept: %llu\n",
                     (unsigned long long)versions);
    else
        (void)puts("versions of a file kept: all");
    if (days)
        (void)printf("days a version is kept: %llu\n",
                     (unsigned long long)days);
    else
        (void)puts("days a version is kept: no limit");
    if (json_is_true(json_object_get(call->answer, "legal_hold")))
        (void)puts("under legal hold: nothing is deleted");
    return CLI_EXIT_OK;
}

static const struct cli_verb show_retention = {
    .name = "retention",
    .words = "WS",
    .method = "GET",
    .path = WORKSPACE,
    .print = print_retention,
};

static int choose_retention(struct cli_call *call, struct error *err)
{
    (void)err;
    if (!cli_command_given(call->c, "versions") &&
        !cli_command_given(call->c, "days"))
        call->verb = &show_retention;
    return 0;
}

static int print_usage(struct cli_call *call)
{
    uint64_t quota = cli_json_number(call->answer, "quota_bytes");
    uint64_t max = cli_json_number(call->answer, "max_workspaces");
    char stored[16], limit[16];

    (void)printf("workspaces: %llu", (unsigned long long)cli_json_number(
                                         call->answer, "workspaces"));
    if (max)
        (void)printf(" of %llu", (unsigned long long)max);
    (void)printf("\nstored: %s",
                 cli_format_size(cli_json_number(call->answer, "stored_bytes"),
                                 stored));
    if (quota)
        (void)printf(" of %s", cli_format_size(quota, limit));
    (void)puts("");
    return CLI_EXIT_OK;
}

/* ---- the command -------------------------------------------------------- */

static const struct cli_verb verbs[] = {
    {"ls", "list", NULL, "List workspaces", "GET", "/api/workspaces",
     .query = "deleted={--deleted:true}", .cursor = "id",
     .columns = workspace_columns, .print = print_workspaces},
    {"new", "create", "NAME", "Create a workspace and print its id", "POST",
     "/api/workspaces", .body = "name={NAME} private={--private}",
     .value = "id"},
    {"show", NULL, "WS", "Show a workspace", "GET", .path = WORKSPACE},
    {"rename", NULL, "WS NAME", "Give a workspace another name", "PATCH",
     WORKSPACE, .body = "name={NAME}", .sentence = "Renamed {WS} to {name}."},
    {"rm", "delete", "WS...",
     "Delete workspaces; `undelete` works for a while", "DELETE", WORKSPACE,
     .json = "deleted={WS}",
     .sentence = "Deleted the workspace {WS}. `glovebox workspaces ls "
                 "--deleted` shows until when it can be undeleted."},
    {"undelete", NULL, "WS-ID",
     "Undelete a workspace, by its id or the name it had", "POST",
     "/api/workspaces/{WS-ID}/undelete",
     .sentence = "Undeleted the workspace {id}."},
    {"purge", NULL, "WS [PATH]",
     "Delete old versions and deleted files for good, now", "POST",
     WORKSPACE "/purge", .body = "path={PATH}", .prepare = choose_purge,
     .sentence = "Freed {bytes:size}."},
    {"members", NULL, "WS", "List who may use a workspace", "GET",
     WORKSPACE "/members", .columns = member_columns},
    {"member add", NULL, "WS KEY-ID ROLE", "Give a key a role in a workspace",
     "PUT", WORKSPACE "/members/{KEY-ID}", .body = "role={ROLE}",
     .json = "principal={KEY-ID} role={ROLE}",
     .sentence = "{KEY-ID} now has the role {ROLE} in {WS}."},
    {"member rm", NULL, "WS KEY-ID", "Remove a key from a workspace", "DELETE",
     WORKSPACE "/members/{KEY-ID}", .json = "removed={KEY-ID}",
     .sentence = "Removed {KEY-ID} from {WS}."},
    {"transfer", NULL, "WS KEY-ID", "Make another key the owner", "POST",
     WORKSPACE "/transfer", .body = "to={KEY-ID}",
     .sentence = "{WS} now belongs to {owner}. You remain an editor."},
    {"offer", NULL, "WS",
     "Print a token, once, that makes its bearer the owner", "POST",
     WORKSPACE "/offers", .body = "expires_in_s={--ttl}",
     .prepare = choose_offer, .value = "token",
     .sentence = "This is offer {id}, valid until {expires_at}. Its token is "
                 "shown only now; `glovebox workspaces claim` accepts it."},
    {"offers", NULL, "WS", "List open offers", "GET", WORKSPACE "/offers",
     .columns = offer_columns},
    {"claim", NULL, NULL, "Accept an offer and print the workspace's id",
     "POST", "/api/workspaces/claim", .prepare = add_token, .value = "id"},
    {"history", NULL, "WS", "List changes, newest first", "GET",
     WORKSPACE "/history", .cursor = "version", .limit = CLI_HISTORY_LIMIT,
     .columns = cli_files_history},
    {"restore", NULL, "WS",
     "Restore all files as of a commit, in a new commit", "POST",
     WORKSPACE "/restore", .needs = "commit", .body = "commit={--commit}",
     .prepare = send_lock, .print = print_restored},
    {"retention", NULL, "WS",
     "Show or set how many versions are kept, and how long", "PATCH",
     WORKSPACE,
     .body = "retention.keep_versions={--versions} "
             "retention.keep_days={--days}",
     .prepare = choose_retention, .print = print_retention},
    {"hold", NULL, "WS on|off", "Set or lift a legal hold (admin)", "PATCH",
     WORKSPACE, .body = "legal_hold={on|off}",
     .sentence = "The legal hold on {WS} is {on|off}."},
    {"quota", NULL, "WS SIZE",
     "Limit the storage of a workspace; 0: no limit (admin)", "PATCH",
     WORKSPACE, .body = "quota_bytes={SIZE}",
     .sentence = "The quota of {WS} is {quota_bytes:limit}."},
    {"usage", NULL, NULL, "Show how much storage your tenant uses", "GET",
     "/api/usage", .print = print_usage},
    {0},
};

#define AT(member) offsetof(struct workspace_flags, member)

static const struct cli_option options[] = {
    {"deleted", 0, CLI_OPT_FLAG, AT(deleted), NULL,
     "ls: deleted workspaces; purge: a deleted one, whole", "ls purge"},
    {"private", 0, CLI_OPT_FLAG, AT(is_private), NULL,
     "only for you, not for your tenant", "new"},
    {"commit", 0, CLI_OPT_TEXT, AT(commit), "C",
     "restore the files of this commit", "restore"},
    {"lock-file", 0, CLI_OPT_TEXT, AT(lock_file), "FILE",
     "file that holds the token of a lock", "restore"},
    {"limit", 0, CLI_OPT_COUNT, AT(limit), "N", "list at most N changes",
     "history"},
    {"ttl", 0, CLI_OPT_DURATION, AT(ttl_s), "TIME",
     "how long the offer is valid; else 72h", "offer"},
    {"revoke", 0, CLI_OPT_TEXT, AT(revoke), "OFFER", "revoke this offer",
     "offer"},
    {"token-file", 0, CLI_OPT_TEXT, AT(token_file), "FILE",
     "file that holds the token; else it is asked for", "claim"},
    {"versions", 0, CLI_OPT_COUNT, AT(versions), "N",
     "versions of a file to keep; 0: all", "retention"},
    {"days", 0, CLI_OPT_COUNT, AT(days), "D",
     "days to keep a version; 0: no limit", "retention"},
    {0},
};

const struct cli_command cli_workspaces = {
    .name = "workspaces",
    .summary = "Durable, versioned folders: members, rules, history",
    .notes =
        "WS is an id or, if only one workspace has it, a name. ROLE is\n"
        "viewer, editor or owner; KEY-ID may be a key's name, and '*' stands\n"
        "for every key of the tenant. A token that `offer` prints lets\n"
        "whoever has it `claim` the workspace. Under a legal hold nothing is\n"
        "deleted.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct workspace_flags),
    .verbs = verbs,
    .kinds =
        (const struct cli_word_kind[]){
            {"WS-ID", .resolve = resolve_deleted},
            {0},
        },
};
