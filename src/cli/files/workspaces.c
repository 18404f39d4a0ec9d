/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox workspaces: create, list, rename, delete and undelete; members,
 * ownership and offers; history; retention, legal hold and quota. The token
 * of an offer is printed once, alone, and read from a file or the terminal,
 * never from the command line.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/files/files.h"

#define WORKSPACE "/api/workspaces/{WS}"

struct workspace_flags {
    bool deleted, is_private, dry_run, stop;
    const char *delete_there;
    const char *commit, *revoke, *token_file, *lock_file, *intelligence;
    uint64_t ttl_s, limit, versions, days, older_s;
};

/* ---- lists -------------------------------------------------------------- */

static const struct cli_column workspace_columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"NAME", .member = "name"},
    {"ROLE", .member = "role"},
    {"FILES", "files", .kind = CLI_COLUMN_NUMBER},
    {"SIZE", "bytes", .kind = CLI_COLUMN_SIZE},
    {"STORED", "stored_bytes", .kind = CLI_COLUMN_SIZE, .wide = true},
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
    return error_hint(err, "`glovebox workspaces list --deleted` lists them.");
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

/* ---- mirrors ------------------------------------------------------------ */

static int print_mirror(struct cli_call *call)
{
    const json_t *m = call->answer;
    const char *error = json_string_value(json_object_get(m, "error"));
    const char *at = json_string_value(json_object_get(m, "mirrored_at"));
    uint64_t lag = cli_json_number(m, "lag");
    char bytes[16];

    (void)printf("destination: %s\n",
                 json_string_value(json_object_get(m, "destination")));
    if (at)
        (void)printf("last commit: %s, copied at %s\n",
                     json_string_value(json_object_get(m, "commit")), at);
    else
        (void)puts("last commit: none yet");
    (void)printf("copied: %llu files, %s\n",
                 (unsigned long long)cli_json_number(m, "files"),
                 size_format(cli_json_number(m, "bytes"), bytes));
    (void)printf("commits to copy: %llu\n", (unsigned long long)lag);
    (void)printf("deletes there: %s\n",
                 json_is_true(json_object_get(m, "delete")) ? "yes" : "no");
    if (error && *error)
        (void)printf("error: %s\n", error);
    return CLI_EXIT_OK;
}

static const struct cli_verb show_mirror = {
    .name = "mirror",
    .words = "WS",
    .method = "GET",
    .path = WORKSPACE "/mirror",
    .print = print_mirror,
};

static const struct cli_verb stop_mirror = {
    .name = "mirror",
    .words = "WS",
    .method = "DELETE",
    .path = WORKSPACE "/mirror",
    .json = "stopped={WS}",
    .sentence = "{WS} is no longer mirrored. What was copied stays.",
};

static int choose_mirror(struct cli_call *call, struct error *err)
{
    const struct workspace_flags *flags = call->flags;

    (void)err;
    if (flags->stop && call->words->count > 1)
        return cli_usage_error(call->c, "--stop takes no destination");
    if (flags->stop)
        call->verb = &stop_mirror;
    else if (call->words->count < 2)
        call->verb = &show_mirror;
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
    (void)printf(
        "\nstored: %s",
        size_format(cli_json_number(call->answer, "stored_bytes"), stored));
    if (quota)
        (void)printf(" of %s", size_format(quota, limit));
    (void)puts("");
    return CLI_EXIT_OK;
}

/* ---- prune ----------------------------------------------------------------
 */

#define PRUNE_AGE_S (7u * 86400) /* unless --older says */

/* Left by a one-off run of this key: it has no name, no hold, no session, and
 * has not changed for a while. */
static bool is_leftover(const json_t *workspace, const json_t *sessions,
                        int64_t before_ms)
{
    const char *id = cli_json_text(workspace, "id", "");
    const json_t *one;
    int64_t changed;
    size_t i;

    if (*cli_json_text(workspace, "name", "") || !ids_valid("ws", id) ||
        strcmp(cli_json_text(workspace, "role", ""), "owner") != 0 ||
        json_is_true(json_object_get(workspace, "legal_hold")) ||
        cli_values_time(cli_json_text(workspace, "updated_at", ""), 0,
                        &changed) < 0 ||
        changed > before_ms)
        return false;
    json_array_foreach (sessions, i, one)
        if (strcmp(cli_json_text(one, "workspace", ""), id) == 0)
            return false;
    return true;
}

static int prune_workspaces(struct cli *c, const struct cli_words *words,
                            void *arg)
{
    const struct workspace_flags *flags = arg;
    uint64_t age_s = flags->older_s ? flags->older_s : PRUNE_AGE_S;
    json_t *all cleanup(json_unref) = NULL;
    json_t *sessions cleanup(json_unref) = NULL;
    json_t *pruned cleanup(json_unref) = json_array();
    int64_t before_ms = clock_real_ms() - (int64_t)age_s * 1000;
    uint64_t bytes = 0;
    struct error err;
    const json_t *one;
    char size[16];
    size_t i;

    (void)words;
    if (cli_remote_list(c, "/api/workspaces", "id", 0, &all, &err) < 0 ||
        cli_remote_list(c, "/api/sessions", "id", 0, &sessions, &err) < 0)
        return cli_fail(c, &err);
    json_array_foreach (all, i, one) {
        char *path cleanup(mem_free) =
            xasprintf("/api/workspaces/%s", cli_json_text(one, "id", ""));

        if (!is_leftover(one, sessions, before_ms))
            continue;
        if (!flags->dry_run &&
            cli_http_json(c, "DELETE", path, NULL, NULL, &err) < 0)
            return cli_fail(c, &err);
        bytes += cli_json_number(one, "stored_bytes");
        (void)json_array_append(pruned, (json_t *)one);
    }
    if (c->json || flags->dry_run)
        cli_show_list(c, pruned, workspace_columns);
    if (!c->json)
        (void)printf("%s %zu unnamed workspace%s with %s.%s\n",
                     flags->dry_run ? "Would delete" : "Deleted",
                     json_array_size(pruned),
                     json_array_size(pruned) == 1 ? "" : "s",
                     size_format(bytes, size),
                     json_array_size(pruned) && !flags->dry_run
                         ? " `glovebox workspaces undelete` works for a while."
                         : "");
    return CLI_EXIT_OK;
}

/* ---- the command -------------------------------------------------------- */

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List workspaces", "GET", "/api/workspaces",
     .query = "deleted={--deleted:true}", .cursor = "id",
     .columns = workspace_columns, .print = print_workspaces},
    {"create", "new", "NAME", "Create a workspace and print its id", "POST",
     "/api/workspaces", .body = "name={NAME} private={--private}",
     .value = "id", .sentence = "Created the workspace {NAME}."},
    {"show", NULL, "WS", "Show a workspace", "GET", .path = WORKSPACE},
    {"rename", NULL, "WS NAME", "Give a workspace another name", "PATCH",
     WORKSPACE, .body = "name={NAME}", .sentence = "Renamed {WS} to {name}."},
    {"delete", "rm", "WS...",
     "Delete workspaces; `undelete` works for a while", "DELETE", WORKSPACE,
     .json = "deleted={WS}",
     .sentence = "Deleted the workspace {WS}. `glovebox workspaces list "
                 "--deleted` shows until when it can be undeleted."},
    {"prune", NULL, NULL,
     "Delete unnamed workspaces that one-off runs have left",
     .run = prune_workspaces},
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
     .prepare = choose_offer, .value = "token", .always = true,
     .sentence = "This is offer {id}, valid until {expires_at}. Its token is "
                 "shown only now; `glovebox workspaces claim` accepts it."},
    {"offers", NULL, "WS", "List open offers", "GET", WORKSPACE "/offers",
     .columns = offer_columns},
    {"mirror", NULL, "WS [DESTINATION]",
     "Copy a workspace elsewhere after each commit, or show how far", "PUT",
     WORKSPACE "/mirror",
     .body = "destination={DESTINATION} delete={--delete}",
     .prepare = choose_mirror,
     .sentence = "{WS} is mirrored to {destination} after each commit."},
    {"attach", NULL, "WS SOURCE [FOLDER]",
     "Copy the objects below s3://… into a workspace", "POST",
     WORKSPACE "/attach", .body = "source={SOURCE} folder={FOLDER}",
     .sentence = "Copied {files} files, {bytes:size}, into {WS}."},
    {"claim", NULL, NULL, "Accept an offer and print the workspace's id",
     "POST", "/api/workspaces/claim", .prepare = add_token, .value = "id",
     .sentence = "The workspace {id} is yours now."},
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
    {"set", NULL, "WS", "Switch search by meaning and questions on or off",
     "PATCH", WORKSPACE, .needs = "intelligence",
     .body = "intelligence={--intelligence}",
     .sentence = "Intelligence of {WS} is {--intelligence}."},
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
     "list: deleted workspaces; purge: a deleted one, whole", "list purge"},
    {"older", 0, CLI_OPT_DURATION, AT(older_s), "TIME",
     "not changed for this long; else 7d", "prune"},
    {"dry-run", 0, CLI_OPT_FLAG, AT(dry_run), NULL,
     "list them and delete nothing", "prune"},
    {"private", 0, CLI_OPT_FLAG, AT(is_private), NULL,
     "only for you, not for your tenant", "create"},
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
    {"intelligence", 0, CLI_OPT_TEXT, AT(intelligence), "on|off",
     "search by meaning, and questions about files", "set"},
    {"delete", 0, CLI_OPT_TEXT, AT(delete_there), "on|off",
     "delete there what is deleted here; else on", "mirror"},
    {"stop", 0, CLI_OPT_FLAG, AT(stop), NULL, "end the mirror", "mirror"},
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
        "for every key of the tenant. With a token that `offer` prints, another\n"
        "key can `claim` the workspace. Under a legal hold nothing is deleted. A\n"
        "DESTINATION is s3://NAME/prefix or file:///folder, a SOURCE\n"
        "s3://NAME/prefix, NAME being a bucket that the operator configured.\n",
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
