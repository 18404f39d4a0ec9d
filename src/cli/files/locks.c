/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox locks: leases on paths of a workspace. The token of a new lock is
 * printed once, alone, so that it can go into a file; the other verbs and
 * `files` read it from there.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define LOCK "/api/workspaces/{LOCK.workspace}/locks/{LOCK}"

struct lock_flags {
    const char *session, *label, *lock_file;
    uint64_t ttl_s;
};

static int resolve_path(struct cli *c, const char *text,
                        struct cli_place *place, struct error *err)
{
    int r;

    if (!cli_place_is_address(text) && !ids_valid("file", text)) {
        (void)error_set(err, ERR_INVALID,
                        "'%.200s' is not a path in a "
                        "workspace",
                        text);
        return error_hint(err, "Write WORKSPACE:PATH.");
    }
    r = cli_place_find(c, text, NULL, place, err);
    return r < 0 ? r : cli_place_to_workspace(c, place, err);
}

/* {PATH.workspace}, {PATH.path} */
static int resolve_new(struct cli *c, const char *text, json_t **ret,
                       struct error *err)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    int r = resolve_path(c, text, &place, err);

    if (r == 0)
        *ret =
            json_pack("{s:s, s:s}", "workspace", place.id, "path", place.path);
    return r;
}

/* {LOCK.workspace}, {LOCK}: WORKSPACE:lock_… as it is, or the id of the lock
 * on WORKSPACE:PATH. */
static int resolve_lock(struct cli *c, const char *text, json_t **ret,
                        struct error *err)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *answer cleanup(json_unref) = NULL;
    char *url cleanup(mem_free) = NULL;
    const char *id = NULL;
    const json_t *lock;
    size_t i;
    int r = resolve_path(c, text, &place, err);

    if (r < 0)
        return r;
    if (ids_valid("lock", place.path)) {
        id = place.path;
    } else {
        url = cli_place_url(&place, "locks");
        r = cli_http_json(c, "GET", url, NULL, &answer, err);
        if (r < 0)
            return r;
    }
    json_array_foreach (json_object_get(answer, "data"), i, lock)
        if (strcmp(cli_json_text(lock, "path", ""), place.path) == 0)
            id = cli_json_text(lock, "id", "");
    if (!id)
        return error_set(err, ERR_NOT_FOUND, "there is no lock on %.200s",
                         place.path);
    *ret = json_pack("{s:s, s:s}", "workspace", place.id, "id", id);
    return 0;
}

static int send_token(struct cli_call *call, struct error *err)
{
    const struct lock_flags *flags = call->flags;

    return cli_secret_header(flags->lock_file, &call->header, err);
}

static const struct cli_column columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"PATH", .member = "path"},
    {"HOLDER", "holder", .kind = CLI_COLUMN_ID},
    {"SESSION", "session", .kind = CLI_COLUMN_ID},
    {"LABEL", .member = "label"},
    {"FENCE", "fence", .kind = CLI_COLUMN_NUMBER},
    {"UNTIL", "expires_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", "WS", "List the locks of a workspace", "GET",
     "/api/workspaces/{WS}/locks", .columns = columns},
    {"take", NULL, "PLACE", "Lock a path and print the lock's token, once",
     "POST", "/api/workspaces/{PLACE.workspace}/locks",
     .body = "path={PLACE.path} ttl_s={--ttl} session={--session} "
             "label={--label}",
     .value = "token", .always = true,
     .sentence = "This is {id}, fence {fence}, until {expires_at}. Its token "
                 "is shown only now."},
    {"renew", NULL, "LOCK", "Extend a lock", "POST", LOCK "/renew",
     .needs = "lock-file", .body = "ttl_s={--ttl}", .prepare = send_token,
     .sentence = "Renewed the lock on {LOCK} until {expires_at}."},
    {"release", NULL, "LOCK", "Release a lock", "DELETE", LOCK,
     .needs = "lock-file", .prepare = send_token, .json = "released={LOCK}",
     .sentence = "Released the lock on {LOCK}."},
    {"break", NULL, "LOCK", "Remove a lock without its token; for owners",
     "DELETE", LOCK, .query = "force=true", .json = "broken={LOCK}",
     .sentence = "Broke the lock on {LOCK}. Its holder can no longer write "
                 "with it."},
    {0},
};

#define AT(member) offsetof(struct lock_flags, member)

static const struct cli_option options[] = {
    {"ttl", 0, CLI_OPT_DURATION, AT(ttl_s), "TIME",
     "how long it holds, up to 24h; else 5m", "take renew"},
    {"session", 's', CLI_OPT_TEXT, AT(session), "SESSION",
     "executions of this session may write too", "take"},
    {"label", 0, CLI_OPT_TEXT, AT(label), "TEXT",
     "what the lock is for, shown to others", "take"},
    {"lock-file", 0, CLI_OPT_TEXT, AT(lock_file), "FILE",
     "file that holds the lock's token", "renew release"},
    {0},
};

const struct cli_command cli_locks = {
    .name = "locks",
    .summary = "Leases on paths: take, renew, release, break",
    .notes =
        "PLACE is WORKSPACE:PATH; the path need not exist yet. LOCK is the\n"
        "same, or WORKSPACE:lock_... While a lock holds, only writes with\n"
        "its token succeed: `locks take` prints the token once, for example\n"
        "into a file that `files put --lock-file` reads. `break` is for\n"
        "owners and is recorded in the audit trail.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct lock_flags),
    .verbs = verbs,
    .kinds =
        (const struct cli_word_kind[]){
            {"PLACE", .resolve = resolve_new},
            {"LOCK", .resolve = resolve_lock},
            {0},
        },
};
