/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox files: list, remove, move and copy files; their history, versions,
 * differences and origin. Downloads and uploads are files_transfer.c. A file
 * is WORKSPACE:PATH, or file_…, or with --session a path in that session;
 * `SESSION PATH` in two words means the same.
 */
#include "cli/files/files.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* ---- places ------------------------------------------------------------- */

int cli_files_place(struct cli *c, const struct cli_files *f,
                    const struct cli_words *words, size_t *at, bool whole,
                    struct cli_place *ret, struct error *err)
{
    const char *first = *at < words->count ? words->items[*at] : "";
    const char *session = f->session;
    int r;

    if (!session && !cli_place_is_address(first) &&
        !ids_valid("file", first) && *at + 1 < words->count) {
        session = first; /* SESSION PATH */
        first = words->items[++*at];
    }
    ++*at;
    r = cli_place_find(c, first, session, ret, err);
    if (r < 0)
        return r;
    if (whole || ret->path[0] || ret->kind == CLI_PLACE_FILE)
        return 0;
    (void)error_set(err, ERR_INVALID, "%s: the path is missing",
                    *first ? first : "files");
    return error_hint(err, "A file is WORKSPACE:PATH, or with --session "
                           "SESSION a path below /mnt/data.");
}

/* The same, in a workspace. */
static int workspace_place(struct cli *c, const struct cli_files *f,
                           const struct cli_words *words, size_t *at,
                           bool whole, struct cli_place *ret,
                           struct error *err)
{
    int r = cli_files_place(c, f, words, at, whole, ret, err);

    return r < 0 ? r : cli_place_to_workspace(c, ret, err);
}

/* ---- ls ----------------------------------------------------------------- */

/* A session's list has no prefix parameter: the files that begin with it. */
static json_t *files_below(const json_t *all, const char *prefix)
{
    json_t *some = json_array();
    size_t len = strlen(prefix);

    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *one = json_array_get(all, i);

        if (strncmp(cli_json_text(one, "path", ""), prefix, len) == 0)
            (void)json_array_append(some, one);
    }
    return some;
}

static int fetch_list(struct cli *c, const struct cli_place *place,
                      const char *at, bool level, json_t **ret,
                      struct error *err)
{
    char *base cleanup(mem_free) = cli_place_url(place, "files");
    json_t *all cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    int r;

    buf_adds(&url, base);
    if (place->kind == CLI_PLACE_WORKSPACE) {
        cli_http_query(&url, "prefix", place->path);
        cli_http_query(&url, "commit", at);
        cli_http_query(&url, "delimiter", level ? "/" : NULL);
    }
    r = cli_remote_list(c, url.data, "path", 0, &all, err);
    if (r < 0)
        return r;
    *ret = place->kind == CLI_PLACE_WORKSPACE ? json_incref(all)
                                              : files_below(all, place->path);
    return 0;
}

static const struct cli_column file_columns[] = {
    {"PATH", .member = "path"},
    {"SIZE", "size", .kind = CLI_COLUMN_SIZE},
    {"MODIFIED", "modified_at", .kind = CLI_COLUMN_TIME},
    {"VERSION", "version", .kind = CLI_COLUMN_ID},
    {0},
};

static const struct cli_column session_columns[] = {
    {"PATH", .member = "path"},
    {"SIZE", "size", .kind = CLI_COLUMN_SIZE},
    {"MODIFIED", "modified_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static void print_list(struct cli *c, const json_t *files, bool versions)
{
    /* A session's files have no versions. */
    cli_show_list(c, files, versions ? file_columns : session_columns);
}

int cli_files_list(struct cli *c, const struct cli_place *place,
                   struct error *err)
{
    json_t *files cleanup(json_unref) = NULL;
    int r = fetch_list(c, place, NULL, false, &files, err);

    if (r == 0)
        print_list(c, files, place->kind == CLI_PLACE_WORKSPACE);
    return r;
}

static int list_files(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *files cleanup(json_unref) = NULL;
    const struct cli_files *f = arg;
    struct error err;
    size_t at = 0;

    if (!words->count && !f->session)
        return cli_usage_error(c, "list: PLACE is missing");
    if (cli_files_place(c, f, words, &at, true, &place, &err) < 0)
        return cli_fail(c, &err);
    if ((f->at || f->level) && cli_place_to_workspace(c, &place, &err) < 0)
        return cli_fail(c, &err);
    if (fetch_list(c, &place, f->at, f->level, &files, &err) < 0)
        return cli_fail(c, &err);
    print_list(c, files, place.kind == CLI_PLACE_WORKSPACE);
    return CLI_EXIT_OK;
}

/* ---- rm ----------------------------------------------------------------- */

static int remove_one(struct cli *c, const struct cli_files *f,
                      const struct cli_place *place, struct error *err)
{
    char *base cleanup(mem_free) = cli_place_file_url(place);
    struct cli_upload what = {.if_match = f->if_match, .lock = f->lock};
    struct buf room cleanup(buf_done) = {0};
    struct buf url cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    int r;

    buf_adds(&url, base);
    if (url.data[url.len - 1] == '/') /* a folder, as people write it */
        url.data[--url.len] = '\0';
    cli_http_query(&url, "recursive", f->recursive ? "true" : NULL);
    cli_upload_headers(&what, &room, headers);
    r = cli_http_ask(c, "DELETE", url.data, NULL, headers, NULL, err);
    if (r < 0 && err->code == ERR_CONFLICT && !f->recursive)
        return error_hint(err, "-r removes a folder with all that is in it.");
    return r;
}

static int remove_files(struct cli *c, const struct cli_words *words,
                        void *arg)
{
    json_t *removed cleanup(json_unref) = json_array();
    struct cli_files f = *(const struct cli_files *)arg;
    struct error err;
    size_t at = 0;

    /* SESSION PATH PATH...: the session is said once. */
    if (!f.session && !cli_place_is_address(words->items[0]) &&
        !ids_valid("file", words->items[0])) {
        f.session = words->items[0];
        at = 1;
        if (words->count < 2)
            return cli_usage_error(c, "rm: PLACE is missing");
    }
    while (at < words->count) {
        struct cli_place place cleanup(cli_place_done) = {0};
        const char *word = words->items[at];

        if (cli_files_place(c, &f, words, &at, false, &place, &err) < 0)
            return cli_fail(c, &err);
        if (place.kind == CLI_PLACE_FILE &&
            cli_place_to_workspace(c, &place, &err) < 0)
            return cli_fail(c, &err);
        if (remove_one(c, &f, &place, &err) < 0)
            return cli_fail(c, &err);
        (void)json_array_append_new(removed, json_string(word));
    }
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:O}", "removed", removed);

        cli_print_json(c, out);
    }
    return CLI_EXIT_OK;
}

/* ---- mv, cp ------------------------------------------------------------- */

/* Where it goes: a place in the same workspace, or just a path in it. A
 * folder, which ends with a slash, keeps the name. */
static int target_of(struct cli *c, const struct cli_files *f,
                     const char *word, const struct cli_place *from,
                     char **ret, struct error *err)
{
    struct cli_place to cleanup(cli_place_done) = {0};
    bool address = !f->session && cli_place_is_address(word);
    int r;

    if (address) {
        r = cli_place_find(c, word, NULL, &to, err);
        if (r < 0)
            return r;
        if (strcmp(to.id, from->id) != 0)
            return error_set(err, ERR_INVALID,
                             "the two places are not in one workspace");
    } else {
        to.path = xstrdup(cli_place_below_data(word));
    }
    if (to.path[0] && to.path[strlen(to.path) - 1] != '/')
        *ret = take_ptr(to.path);
    else
        *ret = xasprintf("%s%s", to.path, cli_place_base_name(from->path));
    return 0;
}

static int relocate_file(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    const struct cli_files *f = arg;
    bool copies = strcmp(c->verb->name, "cp") == 0;
    struct cli_place from cleanup(cli_place_done) = {0};
    json_t *body cleanup(json_unref) = NULL;
    json_t *commit cleanup(json_unref) = NULL;
    struct cli_upload what = {.lock = f->lock};
    struct buf room cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    char *to cleanup(mem_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    struct cli_words first = {.items = {words->items[0]}, .count = 1};
    struct error err;
    size_t at = 0;

    if (workspace_place(c, f, &first, &at, false, &from, &err) < 0 ||
        target_of(c, f, words->items[1], &from, &to, &err) < 0)
        return cli_fail(c, &err);
    body = json_pack("{s:s, s:s}", "from", from.path, "to", to);
    if (!body)
        return cli_usage_error(c, "a path is not valid UTF-8");
    url = cli_place_url(&from, copies ? "copy" : "move");
    cli_upload_headers(&what, &room, headers);
    if (cli_http_ask(c, "POST", url, body, headers, &commit, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, commit, "%s %s to %s.", copies ? "Copied" : "Moved",
                  from.path, to);
    return CLI_EXIT_OK;
}

/* ---- history, versions -------------------------------------------------- */

const struct cli_column cli_files_history[] = {
    {"AT", "at", .kind = CLI_COLUMN_TIME},
    {"COMMIT", "commit", .kind = CLI_COLUMN_ID},
    {"CHANGE", .member = "change"},
    {"PATH", .member = "path"},
    {"BY", "author", .kind = CLI_COLUMN_ID},
    {"EXECUTION", "execution", .kind = CLI_COLUMN_ID, .wide = true},
    {0},
};

static const struct cli_column version_columns[] = {
    {"NO", "version_number", .kind = CLI_COLUMN_NUMBER},
    {"VERSION", "version", .kind = CLI_COLUMN_ID},
    {"AT", "at", .kind = CLI_COLUMN_TIME},
    {"SIZE", "size", .kind = CLI_COLUMN_SIZE},
    {"CHANGE", .member = "change"},
    {"KEPT", "available", .kind = CLI_COLUMN_BOOL},
    {"BY", "author", .kind = CLI_COLUMN_ID},
    {0},
};

static int print_history(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *all cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    char *base cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    bool versions = strcmp(c->verb->name, "versions") == 0;
    struct error err;
    size_t at = 0;

    if (workspace_place(c, f, words, &at, !versions, &place, &err) < 0)
        return cli_fail(c, &err);
    if (at < words->count)
        return cli_usage_error(c, "unexpected '%s'", words->items[at]);
    base = cli_place_url(&place, "history");
    buf_adds(&url, base);
    cli_http_query(&url, "path", place.path);
    if (cli_remote_list(c, url.data, "version",
                        f->limit ? f->limit : CLI_HISTORY_LIMIT, &all,
                        &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, all, versions ? version_columns : cli_files_history);
    return CLI_EXIT_OK;
}

/* ---- diff --------------------------------------------------------------- */

/* Line by line, so that nothing in the file can colour what follows. */
static void show_diff(const struct cli *c, const char *text)
{
    static const char *const colors[] = {
        ['+'] = "\033[32m", ['-'] = "\033[31m", ['@'] = "\033[36m"};

    while (*text) {
        size_t len = strcspn(text, "\n"), first = (unsigned char)*text;
        const char *color =
            c->color_out && first < ARRAY_SIZE(colors) ? colors[first] : NULL;

        (void)fputs(color ? color : "", stdout);
        cli_show_text(c, text, len);
        (void)puts(color ? "\033[0m" : "");
        text += len + (text[len] == '\n');
    }
}

static int diff_file(struct cli *c, const struct cli_words *words, void *arg)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *answer cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    char *base cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    const char *from = NULL, *to = NULL;
    struct error err;
    size_t at = 0;

    if (workspace_place(c, f, words, &at, false, &place, &err) < 0)
        return cli_fail(c, &err);
    if (words->count > at + 2)
        return cli_usage_error(c, "diff: unexpected '%s'",
                               words->items[at + 2]);
    if (words->count > at)
        from = words->items[at];
    if (words->count > at + 1)
        to = words->items[at + 1];
    base = cli_place_url(&place, "diff");
    buf_adds(&url, base);
    cli_http_query(&url, "path", place.path);
    cli_http_query(&url, "from", from);
    cli_http_query(&url, "to", to);
    if (cli_http_ask(c, "GET", url.data, NULL, headers, &answer, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(c, answer);
    else
        show_diff(c, cli_json_text(answer, "diff", ""));
    return CLI_EXIT_OK;
}

/* ---- restore ------------------------------------------------------------ */

void cli_files_print_restored(const struct cli *c, const json_t *commit)
{
    size_t count = json_array_size(json_object_get(commit, "changes"));
    const char *id = cli_json_text(commit, "commit", NULL);

    if (id)
        cli_show_done(c, commit, "Restored %zu file%s in commit %s.", count,
                      count == 1 ? "" : "s", id);
    else
        cli_show_done(
            c, commit,
            "Nothing changed: the files are already as they were then.");
}

static int restore_file(struct cli *c, const struct cli_words *words,
                        void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *body cleanup(json_unref) = NULL;
    json_t *commit cleanup(json_unref) = NULL;
    struct buf room cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    char *url cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    struct error err;
    size_t at = 0;

    if (!f->version && !f->commit)
        return cli_usage_error(c, "restore needs --version V or --commit C; "
                                  "`files versions` and `files history` list "
                                  "them");
    if (workspace_place(c, f, words, &at, f->commit != NULL, &place, &err) < 0)
        return cli_fail(c, &err);
    while (*place.path && place.path[strlen(place.path) - 1] == '/')
        place.path[strlen(place.path) - 1] = '\0'; /* a folder, as written */
    body = json_pack("{s:s*, s:s*, s:s*}", "commit", f->commit, "version",
                     f->version, "path", *place.path ? place.path : NULL);
    if (!body)
        return cli_usage_error(c, "the path is not valid UTF-8");
    url = cli_place_url(&place, "restore");
    cli_upload_headers(&(struct cli_upload){.lock = f->lock}, &room, headers);
    if (cli_http_ask(c, "POST", url, body, headers, &commit, &err) < 0)
        return cli_fail(c, &err);
    cli_files_print_restored(c, commit);
    return CLI_EXIT_OK;
}

/* ---- info --------------------------------------------------------------- */

/* The facts of a file, or of one of its versions. */
static int get_facts(struct cli *c, const struct cli_place *place,
                     const char *version, json_t **ret, struct error *err)
{
    struct buf url cleanup(buf_done) = {0};

    if (place->kind == CLI_PLACE_FILE) {
        buf_addf(&url, "/api/files/%s", place->id);
    } else {
        buf_addf(&url, "/api/workspaces/%s/info/", place->id);
        cli_http_escape(&url, place->path, true);
    }
    cli_http_query(&url, "version", version);
    return cli_http_json(c, "GET", url.data, NULL, ret, err);
}

static int show_info(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *facts cleanup(json_unref) = NULL;
    json_t *origin cleanup(json_unref) = NULL;
    char *url cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    struct error err;
    size_t at = 0;

    if (cli_files_place(c, f, words, &at, false, &place, &err) < 0 ||
        (place.kind == CLI_PLACE_SESSION &&
         cli_place_to_workspace(c, &place, &err) < 0) ||
        get_facts(c, &place, f->version, &facts, &err) < 0)
        return cli_fail(c, &err);
    url = xasprintf("/api/versions/%s/provenance",
                    cli_json_text(facts, "version", ""));
    if (cli_http_json(c, "GET", url, NULL, &origin, &err) < 0)
        return cli_fail(c, &err);
    /* One object: what it is, then where it comes from. */
    (void)json_object_del(origin, "number");
    (void)json_object_update_missing(facts, origin);
    cli_show_object(c, facts);
    return CLI_EXIT_OK;
}

/* ---- the command -------------------------------------------------------- */

static int files_check(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_files *f = arg;
    struct error err;

    (void)words;
    if (f->if_match && f->create)
        return cli_usage_error(c, "--create needs no file there, --if-match "
                                  "a certain version: use one of them");
    if (f->version && f->commit)
        return cli_usage_error(c, "use either --version or --commit");
    if (f->lock_file &&
        cli_secret_file(f->lock_file, "lock's token", &f->lock, &err) < 0)
        return cli_fail(c, &err);
    return CLI_EXIT_OK;
}

static void files_done(void *flags)
{
    struct cli_files *f = flags;

    cli_secret_free(&f->lock);
}

/* A line may name a session before the path, so that verbs take a word more
 * than their forms show. */
static const struct cli_verb verbs[] = {
    {"list", "ls", "PLACE", "List files", .max = 1, .run = list_files},
    {"get", NULL, "PLACE [FILE]", "Download a file; FILE - is standard output",
     .min = 1, .max = 3, .run = cli_files_download},
    {"put", NULL, "FILE... PLACE", "Upload files; - is standard input",
     .min = 1, .max = CLI_WORDS_MAX, .run = cli_files_upload},
    {"delete", "rm", "PLACE...", "Delete files; they stay in the history",
     .run = remove_files},
    {"mv", NULL, "PLACE TARGET", "Rename a file", .run = relocate_file},
    {"cp", NULL, "PLACE TARGET", "Copy a file within its workspace",
     .run = relocate_file},
    {"show", "info", "PLACE", "Show a file and where it comes from", .min = 1,
     .max = 2, .run = show_info},
    {"history", NULL, "PLACE", "List changes, newest first", .min = 1,
     .max = 2, .run = print_history},
    {"versions", NULL, "PLACE", "List the versions of a file", .min = 1,
     .max = 2, .run = print_history},
    {"diff", NULL, "PLACE [VERSION [VERSION]]",
     "Compare two versions of a text file", .min = 1, .max = 4,
     .run = diff_file},
    {"restore", NULL, "PLACE", "Restore a file or folder, in a new commit",
     .min = 1, .max = 2, .run = restore_file},
    {"zip", NULL, "PLACE [FILE]", "Download a folder as a zip file",
     .run = cli_files_zip},
    {0},
};

#define AT(member) offsetof(struct cli_files, member)

static const struct cli_option options[] = {
    {"session", 's', CLI_OPT_TEXT, AT(session), "S",
     "places are paths in this session", NULL},
    {"output", 'o', CLI_OPT_TEXT, AT(output), "FILE",
     "where to write; - is standard output", "get zip"},
    {"continue", 0, CLI_OPT_FLAG, AT(go_on), NULL,
     "keep an unfinished download, and resume it", "get"},
    {"version", 0, CLI_OPT_TEXT, AT(version), "V", "this version",
     "get show restore"},
    {"commit", 0, CLI_OPT_TEXT, AT(commit), "C", "as it was after this commit",
     "restore"},
    {"at", 0, CLI_OPT_TEXT, AT(at), "COMMIT",
     "the files as they were after this commit", "list"},
    {"level", '1', CLI_OPT_FLAG, AT(level), NULL,
     "one level, each folder as one line", "list"},
    {"limit", 0, CLI_OPT_COUNT, AT(limit), "N", "list at most N",
     "history versions"},
    {"recursive", 'r', CLI_OPT_FLAG, AT(recursive), NULL,
     "folders with everything in them", "put delete"},
    {"if-match", 0, CLI_OPT_TEXT, AT(if_match), "V",
     "only if the file has this version", "put delete"},
    {"create", 0, CLI_OPT_FLAG, AT(create), NULL,
     "only if there is no such file", "put"},
    {"lock-file", 0, CLI_OPT_TEXT, AT(lock_file), "FILE",
     "file that holds the token of a lock", "put delete mv cp restore"},
    {"conversation", 0, CLI_OPT_TEXT, AT(conversation), "ID",
     "the conversation that the file belongs to", "put"},
    {"message", 0, CLI_OPT_TEXT, AT(message), "ID",
     "the message that brought the file", "put"},
    {0},
};

const struct cli_command cli_files = {
    .name = "files",
    .summary = "Files of a workspace or of a session",
    .notes =
        "PLACE is WORKSPACE:PATH, the workspace by id or by a name that only\n"
        "one has; or file_..., wherever the file is now; or with --session a\n"
        "PATH below /mnt/data, which may be spelled out. `SESSION PATH` means\n"
        "the same as `--session SESSION PATH`.\n\n"
        "A download appears whole or not at all. `put` keeps a file's own\n"
        "name where PLACE is a whole workspace or ends with a slash, and\n"
        "sends a large file in parts: repeated after an interruption, it\n"
        "sends what is missing. Files that are replaced, removed or renamed\n"
        "stay in the history and can be restored.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct cli_files),
    .verbs = verbs,
    .check = files_check,
    .flags_done = files_done,
};
