/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and workspaces at the service, as the commands name them: by id,
 * or by a name that only one has; lists that come in pages; places of files;
 * and the session that `run` and `shell` create for one command.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define PAGE 500u
#define PAGE_SESSIONS 100u /* the most that list gives */
#define PAGES_MAX 200u
#define PREFIX_LEAST 4u
#define CANDIDATES_SHOWN 5u

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
    if (spec->memory_bytes || spec->cores) {
        json_t *limits = json_object();

        if (spec->memory_bytes)
            (void)json_object_set_new(
                limits, "memory_bytes",
                json_integer((json_int_t)spec->memory_bytes));
        if (spec->cores)
            (void)json_object_set_new(limits, "cores",
                                      json_integer((json_int_t)spec->cores));
        (void)json_object_set_new(body, "limits", limits);
    }
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

/* Kinds of objects that a word may name. */
static const struct noun {
    const char *prefix, *path, *word, *hint;
    bool paged; /* the list takes limit and after */
} nouns[] = {
    [CLI_SESSION] = {"sess", "/api/sessions", "session",
                     "`glovebox sessions` lists them.", true},
    [CLI_WORKSPACE] = {"ws", "/api/workspaces", "workspace",
                       "`glovebox workspaces` lists them.", true},
    [CLI_KEY] = {"key", "/api/keys", "key", "`glovebox key` lists them.",
                 false},
    [CLI_TOKEN] = {"tok", "/api/tokens", "token",
                   "`glovebox token` lists them.", true},
    [CLI_APPROVAL] = {"apr", "/api/approvals", "approval",
                      "`glovebox approvals list --all` lists them.", true},
};

/* A container is a session, too. */
static bool is_id(const struct noun *noun, const char *id)
{
    return ids_valid(noun->prefix, id) ||
           (noun == &nouns[CLI_SESSION] && ids_valid_dated("cntr", id));
}

/* Is text the beginning of the id, with its prefix or without? Only from four
 * digits on: fewer may be a name, and what is deleted should not be guessed.
 */
static bool begins_id(const struct noun *noun, const char *id,
                      const char *text)
{
    size_t len = strlen(text), front = strlen(noun->prefix) + 1;

    if (len >= front + PREFIX_LEAST && strncmp(id, text, len) == 0)
        return true;
    return len >= PREFIX_LEAST && strspn(text, "0123456789abcdef") == len &&
           strncmp(id + front, text, len) == 0;
}

int cli_remote_resolve(struct cli *c, enum cli_noun which, const char *text,
                       char ret[ID_MAX], struct error *err)
{
    const struct noun *noun = &nouns[which];
    json_t *all cleanup(json_unref) = NULL;
    struct buf candidates cleanup(buf_done) = {0};
    size_t named = 0, begun = 0;
    char by_prefix[ID_MAX] = "";
    int r;

    if (is_id(noun, text)) {
        (void)snprintf(ret, ID_MAX, "%s", text);
        return 0;
    }
    if (noun->paged) {
        r = cli_remote_list(c, noun->path, "id", 0, &all, err);
    } else {
        json_t *answer cleanup(json_unref) = NULL;

        r = cli_http_json(c, "GET", noun->path, NULL, &answer, err);
        all = json_incref(json_object_get(answer, "data"));
    }
    if (r < 0)
        return r;
    for (size_t i = 0; *text && i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        const char *id = cli_json_text(one, "id", "");
        const char *name = cli_json_text(one, "name", "");

        if (!is_id(noun, id))
            continue;
        if (strcmp(name, text) == 0) {
            named++;
            (void)snprintf(ret, ID_MAX, "%s", id);
        } else if (begins_id(noun, id, text)) {
            if (begun++ < CANDIDATES_SHOWN)
                buf_addf(&candidates, "%s%s%s%s", candidates.len ? ", " : "",
                         id, *name ? " " : "", name);
            (void)snprintf(by_prefix, sizeof(by_prefix), "%s", id);
        }
    }
    if (named == 1)
        return 0;
    if (named > 1)
        return error_set(err, ERR_CONFLICT,
                         "%zu %ss have the name '%.128s'; use an id", named,
                         noun->word, text);
    if (begun == 1) {
        (void)snprintf(ret, ID_MAX, "%s", by_prefix);
        return 0;
    }
    if (begun > 1) {
        (void)error_set(err, ERR_CONFLICT,
                        "%zu %ss have an id that begins with '%.128s'", begun,
                        noun->word, text);
        return error_hint(err, "Add digits: %s%s", candidates.data,
                          begun > CANDIDATES_SHOWN ? ", ..." : "");
    }
    (void)error_set(err, ERR_NOT_FOUND,
                    "there is no %s with the id or name '%.128s'", noun->word,
                    text);
    return error_hint(err, "%s", noun->hint);
}

int cli_remote_find(struct cli *c, const char *id_or_name, char ret[ID_MAX],
                    struct error *err)
{
    return cli_remote_resolve(c, CLI_SESSION, id_or_name, ret, err);
}

int cli_remote_workspace(struct cli *c, const char *id_or_name,
                         char ret[ID_MAX], struct error *err)
{
    return cli_remote_resolve(c, CLI_WORKSPACE, id_or_name, ret, err);
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

/* ---- places ------------------------------------------------------------- */

/*
 * Where a file is: `ws_…:path` or `name:path` in a workspace, `file_…` by its
 * own id, or with --session a path below that session's /mnt/data.
 */

const char *cli_place_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *cli_place_below_data(const char *path)
{
    static const char *const fronts[] = {"sandbox:/mnt/data/", "/mnt/data/",
                                         "./"};

    for (size_t i = 0; i < ARRAY_SIZE(fronts); i++) {
        size_t len = strlen(fronts[i]);

        if (strncmp(path, fronts[i], len) == 0)
            return path + len;
    }
    return path;
}

bool cli_place_is_address(const char *text)
{
    size_t len = strcspn(text, ":/");

    return len > 0 && text[len] == ':';
}

/* A word alone: a session, as it always was, else a workspace. */
static int find_bare(struct cli *c, const char *text, struct cli_place *ret,
                     struct error *err)
{
    struct error second;
    int r;

    ret->path = xstrdup("");
    if (ids_valid("ws", text)) {
        ret->kind = CLI_PLACE_WORKSPACE;
        (void)snprintf(ret->id, sizeof(ret->id), "%s", text);
        return 0;
    }
    ret->kind = CLI_PLACE_SESSION;
    r = cli_remote_find(c, text, ret->id, err);
    if (r == 0 || err->code != ERR_NOT_FOUND)
        return r;
    ret->kind = CLI_PLACE_WORKSPACE;
    r = cli_remote_workspace(c, text, ret->id, &second);
    if (r == 0 || second.code != ERR_NOT_FOUND) {
        *err = second;
        return r;
    }
    (void)error_set(err, ERR_NOT_FOUND,
                    "there is no session or workspace '%.128s'", text);
    return error_hint(err, "A file in a workspace is WORKSPACE:PATH.");
}

int cli_place_find(struct cli *c, const char *text, const char *session,
                   struct cli_place *ret, struct error *err)
{
    char *front cleanup(mem_free) = NULL;
    const char *path;

    *ret = (struct cli_place){0};
    if (session) {
        ret->kind = CLI_PLACE_SESSION;
        ret->path = xstrdup(cli_place_below_data(text));
        return cli_remote_find(c, session, ret->id, err);
    }
    if (ids_valid("file", text)) {
        ret->kind = CLI_PLACE_FILE;
        ret->path = xstrdup("");
        (void)snprintf(ret->id, sizeof(ret->id), "%s", text);
        return 0;
    }
    if (!cli_place_is_address(text))
        return find_bare(c, text, ret, err);
    front = xstrndup(text, strcspn(text, ":"));
    path = strchr(text, ':') + 1;
    ret->kind = CLI_PLACE_WORKSPACE;
    /* "ws:/a/b" is as clear as "ws:a/b". */
    ret->path = xstrdup(path[0] == '/' ? path + 1 : path);
    return cli_remote_workspace(c, front, ret->id, err);
}

void cli_place_done(struct cli_place *p)
{
    free(take_ptr(p->path));
}

/* A file's own id says where it is now. */
static int file_to_workspace(struct cli *c, struct cli_place *p,
                             struct error *err)
{
    char *url cleanup(mem_free) = xasprintf("/api/files/%s", p->id);
    json_t *file cleanup(json_unref) = NULL;
    const char *id, *path;
    int r = cli_http_json(c, "GET", url, NULL, &file, err);

    if (r < 0)
        return r;
    id = cli_json_text(file, "workspace", "");
    path = cli_json_text(file, "path", "");
    if (!ids_valid("ws", id) || !*path)
        return error_set(err, ERR_INTERNAL,
                         "the service did not say where %s is", p->id);
    free(p->path);
    p->path = xstrdup(path);
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    p->kind = CLI_PLACE_WORKSPACE;
    return 0;
}

int cli_place_to_workspace(struct cli *c, struct cli_place *p,
                           struct error *err)
{
    char id[ID_MAX];
    int r;

    switch (p->kind) {
    case CLI_PLACE_WORKSPACE:
        return 0;
    case CLI_PLACE_FILE:
        return file_to_workspace(c, p, err);
    case CLI_PLACE_SESSION:
        break;
    }
    r = cli_remote_session_workspace(c, p->id, id, err);
    if (r < 0)
        return r;
    memcpy(p->id, id, sizeof(p->id));
    p->kind = CLI_PLACE_WORKSPACE;
    return 0;
}

char *cli_place_file_url(const struct cli_place *p)
{
    struct buf url cleanup(buf_done) = {0};

    if (p->kind == CLI_PLACE_FILE)
        return xasprintf("/api/files/%s/content", p->id);
    buf_addf(&url, "/api/%s/%s/files/",
             p->kind == CLI_PLACE_SESSION ? "sessions" : "workspaces", p->id);
    cli_http_escape(&url, p->path, true);
    return buf_take(&url, NULL);
}

char *cli_place_url(const struct cli_place *p, const char *suffix)
{
    return xasprintf("/api/%s/%s/%s",
                     p->kind == CLI_PLACE_SESSION ? "sessions" : "workspaces",
                     p->id, suffix);
}

/* ---- a session for one command ------------------------------------------ */

/*
 * The session that `run` and `shell` work in: the one that is named, or one
 * created for the command and deleted afterwards. Its files stay in its
 * workspace unless it is ephemeral.
 */

int cli_temp_session_open(struct cli *c, const char *session,
                          const struct cli_session_spec *spec,
                          struct cli_temp_session *ret, struct error *err)
{
    json_t *made cleanup(json_unref) = NULL;
    int r;

    if (session) {
        char *path cleanup(mem_free) = NULL;

        r = cli_remote_find(c, session, ret->session, err);
        path = xasprintf("/api/sessions/%s", ret->session);
        if (r == 0)
            r = cli_http_json(c, "GET", path, NULL, &made, err);
        if (r < 0)
            return r;
        ret->asleep = strcmp(cli_json_text(made, "state", ""), "dormant") == 0;
        ret->has_variables = cli_json_number(made, "executions") > 0;
        ret->cooldown_s = cli_json_number(made, "cooldown_s");
        return 0;
    }
    r = cli_remote_create(c, spec, &made, err);
    if (r < 0)
        return r;
    ret->cooldown_s = cli_json_number(made, "cooldown_s");
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

void cli_temp_session_keep_awake(struct cli *c,
                                 const struct cli_temp_session *t)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/keepalive", t->session);
    struct error ignored;

    (void)cli_http_json(c, "POST", path, NULL, NULL, &ignored);
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
