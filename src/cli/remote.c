/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and workspaces at the service, as the commands name them: by id,
 * or by a name that only one has; and lists that come in pages.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define PAGE 500u
#define PAGE_SESSIONS 100u /* the most that list gives */
#define PAGES_MAX 200u

int cli_remote_create(struct cli *c, const struct cli_session_spec *spec,
                      json_t **ret, struct error *err)
{
    json_t *body cleanup(json_unref) =
        json_pack("{s:s*, s:s*, s:s*}", "pool", spec->pool, "runtime",
                  spec->runtime, "name", spec->name);

    if (!body)
        return error_set(err, ERR_INVALID, "a name is not valid UTF-8");
    if (spec->workspace) {
        char id[ID_MAX];
        int r = cli_remote_workspace(c, spec->workspace, id, err);

        if (r < 0)
            return r;
        (void)json_object_set_new(body, "workspace", json_string(id));
    }
    if (spec->ephemeral)
        (void)json_object_set_new(body, "persistence",
                                  json_string("ephemeral"));
    if (spec->share)
        (void)json_object_set_new(body, "sharing", json_string("tenant"));
    if (spec->memory_bytes)
        (void)json_object_set_new(body, "limits",
                                  json_pack("{s:I}", "memory_bytes",
                                            (json_int_t)spec->memory_bytes));
    if (spec->allow && spec->allow->count) {
        json_t *list = cli_network_allow(c, spec->allow, NULL, false);

        if (!list)
            return error_set(err, ERR_INVALID, "--allow names no host");
        (void)json_object_set_new(body, "network",
                                  json_pack("{s:s, s:o}", "mode", "allowlist",
                                            "destinations", list));
    }
    return cli_http_json(c, "POST", "/api/sessions", body, ret, err);
}

/* ---- lists -------------------------------------------------------------- */

/* One page behind `after`, added to all; ret_after: owned, NULL at the end. */
static int next_page(struct cli *c, const char *path, const char *cursor,
                     size_t limit, json_t *all, char **after,
                     struct error *err)
{
    struct buf url cleanup(buf_done) = {0};
    json_t *answer cleanup(json_unref) = NULL;
    const json_t *data, *last, *mark;
    int r;

    buf_adds(&url, path);
    cli_http_query_number(&url, "limit", limit);
    cli_http_query(&url, "after", *after);
    free(take_ptr(*after));
    r = cli_http_json(c, "GET", url.data, NULL, &answer, err);
    if (r < 0)
        return r;
    data = json_object_get(answer, "data");
    if (!json_is_array(data))
        return error_set(err, ERR_INTERNAL,
                         "the service answered no list for %.200s", path);
    (void)json_array_extend(all, (json_t *)data);
    last = json_array_get(data, json_array_size(data) - 1);
    mark = json_object_get(last, cursor);
    if (!json_is_true(json_object_get(answer, "has_more")))
        return 0;
    if (json_is_string(mark))
        *after = xstrdup(json_string_value(mark));
    else if (json_is_integer(mark))
        *after = xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(mark));
    return 0;
}

int cli_remote_list(struct cli *c, const char *path, const char *cursor,
                    size_t most, json_t **ret, struct error *err)
{
    json_t *all cleanup(json_unref) = json_array();
    char *after cleanup(mem_free) = NULL;
    size_t full = strcmp(path, "/api/sessions") ? PAGE : PAGE_SESSIONS;

    for (unsigned page = 0; page < PAGES_MAX; page++) {
        size_t have = json_array_size(all);
        size_t limit = most ? MIN(most - have, full) : full;
        int r = next_page(c, path, cursor, limit, all, &after, err);

        if (r < 0)
            return r;
        if (!after || (most && json_array_size(all) >= most))
            break;
    }
    *ret = json_incref(all);
    return 0;
}

/* ---- names -------------------------------------------------------------- */

struct noun {
    const char *prefix, *path, *word, *hint;
};

static const struct noun session_noun = {"sess", "/api/sessions", "session",
                                         "`glovebox sessions` lists them."};
static const struct noun workspace_noun = {
    "ws", "/api/workspaces", "workspace", "`glovebox workspaces` lists them."};

/* A container is a session, too. */
static bool is_id(const struct noun *noun, const char *id)
{
    return ids_valid(noun->prefix, id) ||
           (noun == &session_noun && ids_valid_dated("cntr", id));
}

static int find(struct cli *c, const struct noun *noun, const char *name,
                char ret[ID_MAX], struct error *err)
{
    json_t *all cleanup(json_unref) = NULL;
    size_t found = 0;
    int r;

    if (is_id(noun, name)) {
        (void)snprintf(ret, ID_MAX, "%s", name);
        return 0;
    }
    r = cli_remote_list(c, noun->path, "id", 0, &all, err);
    if (r < 0)
        return r;
    for (size_t i = 0; *name && i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        const char *id = cli_json_text(one, "id", "");

        if (strcmp(cli_json_text(one, "name", ""), name) != 0 ||
            !is_id(noun, id))
            continue;
        found++;
        (void)snprintf(ret, ID_MAX, "%s", id);
    }
    if (found == 1)
        return 0;
    if (found == 0) {
        (void)error_set(err, ERR_NOT_FOUND,
                        "there is no %s with the id or name '%.128s'",
                        noun->word, name);
        return error_hint(err, "%s", noun->hint);
    }
    return error_set(err, ERR_CONFLICT,
                     "%zu %ss have the name '%.128s'; use an id", found,
                     noun->word, name);
}

int cli_remote_find(struct cli *c, const char *id_or_name, char ret[ID_MAX],
                    struct error *err)
{
    return find(c, &session_noun, id_or_name, ret, err);
}

int cli_remote_workspace(struct cli *c, const char *id_or_name,
                         char ret[ID_MAX], struct error *err)
{
    return find(c, &workspace_noun, id_or_name, ret, err);
}

int cli_remote_session_workspace(struct cli *c, const char *session,
                                 char ret[ID_MAX], struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("/api/sessions/%s", session);
    json_t *answer cleanup(json_unref) = NULL;
    const char *id;
    int r = cli_http_json(c, "GET", path, NULL, &answer, err);

    if (r < 0)
        return r;
    id = cli_json_text(answer, "workspace", "");
    if (!ids_valid("ws", id))
        return error_set(err, ERR_CONFLICT,
                         "session %s keeps nothing: it has no workspace",
                         session);
    (void)snprintf(ret, ID_MAX, "%s", id);
    return 0;
}

void cli_remote_split(const char *text, bool left_is_file, char **ret_left,
                      const char **ret_right)
{
    const char *colon = strrchr(text, ':');
    struct stat st;

    if (colon == text || (colon && !colon[1]))
        colon = NULL;
    if (colon && left_is_file && stat(text, &st) == 0)
        colon = NULL;
    /* "sandbox:/mnt/data/x" is a path, not a pair. */
    if (colon && !left_is_file && strncmp(text, "sandbox:", 8) == 0 &&
        colon == text + 7)
        colon = NULL;
    *ret_left = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
    *ret_right = colon ? colon + 1 : NULL;
}
