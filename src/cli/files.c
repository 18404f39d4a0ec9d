/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox files: the table of its verbs and flags, and how a line names
 * places. A file is WORKSPACE:PATH, or file_…, or with --session a path in
 * that session; `SESSION PATH` in two words means the same.
 */
#include "cli/files.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

int cli_files_count(const struct cli *c, const char *verb,
                    const struct cli_words *words, size_t least, size_t most)
{
    if (words->count < least)
        return cli_usage_error(c, "%s: something is left out", verb);
    if (words->count > most)
        return cli_usage_error(c, "%s: unexpected '%s'", verb,
                               words->items[most]);
    return CLI_EXIT_OK;
}

static int left_out(const char *what, struct error *err)
{
    (void)error_set(err, ERR_INVALID, "%s: the path is left out", what);
    return error_hint(err, "A file is WORKSPACE:PATH, or with --session "
                           "SESSION a path below /mnt/data.");
}

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
    if (!whole && !ret->path[0] && ret->kind != CLI_PLACE_FILE)
        return left_out(*first ? first : "files", err);
    return 0;
}

int cli_files_workspace(struct cli *c, const struct cli_files *f,
                        const struct cli_words *words, size_t *at, bool whole,
                        struct cli_place *ret, struct error *err)
{
    int r = cli_files_place(c, f, words, at, whole, ret, err);

    return r < 0 ? r : cli_place_to_workspace(c, ret, err);
}

/* ---- for run and shell -------------------------------------------------- */

int cli_files_put(struct cli *c, const char *session, const char *local,
                  const char *remote, json_t **ret, struct error *err)
{
    const char *name = cli_place_base_name(local);
    struct cli_upload what = {.local = local, .label = name};
    struct cli_place place cleanup(cli_place_done) = {0};
    int r = cli_place_find(c, remote ? remote : name, session, &place, err);

    return r < 0 ? r : cli_upload(c, &place, &what, ret, err);
}

int cli_files_get(struct cli *c, const char *session, const char *remote,
                  const char *local, char **ret_local, struct error *err)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    char *url cleanup(mem_free) = NULL;
    struct cli_download what = {.name = cli_place_base_name(remote),
                                .local = local};
    int r = cli_place_find(c, remote, session, &place, err);

    if (r < 0)
        return r;
    what.url = url = cli_place_file_url(&place);
    return cli_download(c, &what, ret_local, err);
}

/* ---- the command -------------------------------------------------------- */

static const struct cli_subverb verbs[] = {
    {"ls", 0, 1, cli_files_ls},
    {"list", 0, 1, cli_files_ls},
    {"get", 1, 3, cli_files_fetch},
    {"put", 1, CLI_WORDS_MAX, cli_files_store},
    {"rm", 1, CLI_WORDS_MAX, cli_files_rm},
    {"mv", 2, 2, cli_files_mv},
    {"cp", 2, 2, cli_files_cp},
    {"info", 1, 2, cli_files_info},
    {"history", 1, 2, cli_files_history},
    {"versions", 1, 2, cli_files_versions},
    {"diff", 1, 4, cli_files_diff},
    {"restore", 1, 2, cli_files_restore},
    {"zip", 1, 2, cli_files_zip},
};

static const char notes[] =
    "PLACE is WORKSPACE:PATH, the workspace by id or by a name only one has;\n"
    "or file_..., whatever it is called now; or with --session a PATH below\n"
    "/mnt/data, which may be spelled out. `SESSION PATH` means the same as\n"
    "`--session SESSION PATH`.\n\n"
    "A download appears whole or not at all; `-` writes it to standard\n"
    "output. `put` keeps a file's own name where PLACE is a whole workspace\n"
    "or ends with a slash, and sends large files in parts: given again after\n"
    "an interruption, it sends what is missing. Whatever is replaced, removed\n"
    "or renamed stays in the history and can be restored.\n";

static void files_done(struct cli_files *f)
{
    cli_secret_free(&f->lock);
}

static int check_line(struct cli *c, const struct cli_files *f)
{
    if (f->if_match && f->create)
        return cli_usage_error(c, "--create wants no file there, --if-match "
                                  "a certain one: one of them");
    if (f->version && f->commit)
        return cli_usage_error(c, "either --version or --commit");
    return CLI_EXIT_OK;
}

int cli_files(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct cli_files f cleanup(files_done) = {0};
    const struct cli_opt table[] = {
        {"session", 's', CLI_OPT_TEXT, &f.session, "S",
         "places are paths in this session", NULL},
        {"output", 'o', CLI_OPT_TEXT, &f.output, "FILE",
         "get, zip: where to; - is standard output", "get zip"},
        {"continue", 0, CLI_OPT_FLAG, &f.go_on, NULL,
         "get: keep a part, and go on with it later", "get"},
        {"version", 0, CLI_OPT_TEXT, &f.version, "V",
         "get, info, restore: this version", "get info restore"},
        {"commit", 0, CLI_OPT_TEXT, &f.commit, "C",
         "restore: as it was after this commit", "restore"},
        {"at", 0, CLI_OPT_TEXT, &f.at, "COMMIT",
         "ls: as it was after this commit", "ls list"},
        {"level", '1', CLI_OPT_FLAG, &f.level, NULL,
         "ls: one level, folders as one line", "ls list"},
        {"limit", 0, CLI_OPT_COUNT, &f.limit, "N",
         "history, versions: at most so many", "history versions"},
        {"recursive", 'r', CLI_OPT_FLAG, &f.recursive, NULL,
         "put, rm: folders with all that is in them", "put rm"},
        {"if-match", 0, CLI_OPT_TEXT, &f.if_match, "V",
         "put, rm: only if this version is there", "put rm"},
        {"create", 0, CLI_OPT_FLAG, &f.create, NULL,
         "put: only if nothing is there", "put"},
        {"lock-file", 0, CLI_OPT_TEXT, &f.lock_file, "FILE",
         "holds the token of a lock to write through", "put rm mv cp restore"},
        {"conversation", 0, CLI_OPT_TEXT, &f.conversation, "ID",
         "put: the conversation it belongs to", "put"},
        {"message", 0, CLI_OPT_TEXT, &f.message, "ID",
         "put: the message that brought it", "put"},
    };
    const struct cli_opts opts = {table, ARRAY_SIZE(table), notes};
    struct cli_words words;
    struct error err;
    int status;

    cli_init(&c, "files");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    status = check_line(&c, &f);
    if (status != CLI_EXIT_OK)
        return status;
    if (f.lock_file &&
        cli_secret_file(f.lock_file, "lock's token", &f.lock, &err) < 0)
        return cli_fail(&c, &err);
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &f);
}
