/* SPDX-License-Identifier: Apache-2.0 */
/* The history of files and restoring them, for `files` and `workspaces`. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

const struct cli_column cli_history_columns[] = {
    {"AT", "at", .kind = CLI_COLUMN_TIME},
    {"COMMIT", "commit", .kind = CLI_COLUMN_ID},
    {"CHANGE", .member = "change"},
    {"PATH", .member = "path"},
    {"BY", "author", .kind = CLI_COLUMN_ID},
    {"EXECUTION", "execution", .kind = CLI_COLUMN_ID},
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

int cli_history_print(struct cli *c, const struct cli_place *place,
                      bool versions, uint64_t limit, struct error *err)
{
    char *base cleanup(mem_free) = cli_place_url(place, "history");
    struct buf url cleanup(buf_done) = {0};
    json_t *all cleanup(json_unref) = NULL;
    int r;

    buf_adds(&url, base);
    cli_http_query(&url, "path", place->path);
    r = cli_remote_list(c, url.data, "version",
                        limit ? limit : CLI_HISTORY_LIMIT, &all, err);
    if (r < 0)
        return r;
    cli_show_list(c, all, versions ? version_columns : cli_history_columns);
    return 0;
}

int cli_history_restore(struct cli *c, const struct cli_place *place,
                        const char *commit, const char *version,
                        const char *lock, json_t **ret, struct error *err)
{
    char *url cleanup(mem_free) = cli_place_url(place, "restore");
    struct cli_upload what = {.lock = lock};
    struct buf room cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    char *path cleanup(mem_free) = xstrdup(place->path);
    json_t *body cleanup(json_unref) = NULL;

    while (*path && path[strlen(path) - 1] == '/') /* a folder, as written */
        path[strlen(path) - 1] = '\0';
    body = json_pack("{s:s*, s:s*, s:s*}", "commit", commit, "version",
                     version, "path", *path ? path : NULL);
    if (!body)
        return error_set(err, ERR_INVALID, "the path is not valid UTF-8");
    cli_upload_headers(&what, &room, headers);
    return cli_http_ask(c, "POST", url, body, headers, ret, err);
}

void cli_history_print_restored(const struct cli *c, const json_t *commit)
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
