/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and files at the service, as the commands name them: a session by
 * id or by name, a file by its path below /mnt/data with or without that in
 * front. Downloads are written beside their place and renamed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define PAGE 100
#define PAGES_MAX 100

int cli_remote_create(struct cli *c, const struct cli_session_spec *spec,
                      json_t **ret, struct error *err)
{
    json_t *body cleanup(json_unref) =
        json_pack("{s:s*, s:s*, s:s*}", "pool", spec->pool, "runtime",
                  spec->runtime, "name", spec->name);

    if (!body)
        return error_set(err, ERR_INVALID, "a name is not valid UTF-8");
    if (spec->memory_bytes)
        (void)json_object_set_new(body, "limits",
                                  json_pack("{s:I}", "memory_bytes",
                                            (json_int_t)spec->memory_bytes));
    return cli_http_json(c, "POST", "/api/sessions", body, ret, err);
}

int cli_remote_list(struct cli *c, const char *path, const char *cursor,
                    json_t **ret, struct error *err)
{
    json_t *all cleanup(json_unref) = json_array();
    char *after cleanup(mem_free) = NULL;

    for (int page = 0; page < PAGES_MAX; page++) {
        struct buf url cleanup(buf_done) = {0};
        json_t *answer cleanup(json_unref) = NULL;
        const json_t *data, *last;
        int r;

        buf_addf(&url, "%s?limit=%d", path, PAGE);
        if (after) {
            buf_adds(&url, "&after=");
            cli_http_escape(&url, after, false);
        }
        r = cli_http_json(c, "GET", url.data, NULL, &answer, err);
        if (r < 0)
            return r;
        data = json_object_get(answer, "data");
        if (!json_is_array(data))
            return error_set(err, ERR_INTERNAL,
                             "the service answered no list for %s", path);
        (void)json_array_extend(all, (json_t *)data);
        last = json_array_get(data, json_array_size(data) - 1);
        if (!json_is_true(json_object_get(answer, "has_more")) || !last ||
            !cli_json_text(last, cursor, NULL))
            break;
        free(after);
        after = xstrdup(cli_json_text(last, cursor, NULL));
    }
    *ret = json_incref(all);
    return 0;
}

int cli_remote_find(struct cli *c, const char *id_or_name, char ret[ID_MAX],
                    struct error *err)
{
    json_t *all cleanup(json_unref) = NULL;
    size_t found = 0;
    int r;

    if (ids_valid("sess", id_or_name)) {
        (void)snprintf(ret, ID_MAX, "%s", id_or_name);
        return 0;
    }
    r = cli_remote_list(c, "/api/sessions", "id", &all, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        const char *id = cli_json_text(one, "id", "");

        if (strcmp(cli_json_text(one, "name", ""), id_or_name) != 0 ||
            !ids_valid("sess", id))
            continue;
        found++;
        (void)snprintf(ret, ID_MAX, "%s", id);
    }
    if (found == 1)
        return 0;
    if (found == 0) {
        (void)error_set(err, ERR_NOT_FOUND,
                        "there is no session with the id or name '%.128s'",
                        id_or_name);
        return error_hint(err, "`glovebox sessions` lists them.");
    }
    return error_set(err, ERR_CONFLICT,
                     "%zu sessions have the name '%.128s'; use an id", found,
                     id_or_name);
}

/* ---- files -------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static const char *below_data(const char *path)
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

char *cli_remote_file_path(const char *session, const char *remote)
{
    struct buf path cleanup(buf_done) = {0};

    buf_addf(&path, "/api/sessions/%s/files/", session);
    cli_http_escape(&path, below_data(remote), true);
    return buf_take(&path, NULL);
}

int cli_remote_put(struct cli *c, const char *session, const char *local,
                   const char *remote, json_t **ret, struct error *err)
{
    int fd cleanup(fd_close) = open(local, O_RDONLY | O_CLOEXEC);
    char *path cleanup(mem_free) = NULL;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot open %s", local);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERR_INVALID, "%s is not a regular file", local);
    path = cli_remote_file_path(session, remote ? remote : base_name(local));
    r = cli_http_put(c, path, fd, (uint64_t)st.st_size, base_name(local), ret,
                     err);
    return r < 0 ? error_wrap(err, "%s", local) : 0;
}

/* The name of a new file beside `local`, to be renamed to it; owned. NULL:
 * err says why. */
static char *open_beside(const char *local, int *ret_fd, struct error *err)
{
    char *name cleanup(mem_free) = xasprintf("%s.XXXXXX", local);
    mode_t mask = umask(0);
    int fd = mkostemp(name, O_CLOEXEC);

    (void)umask(mask);
    if (fd < 0) {
        (void)error_errno(err, ERR_INVALID, errno, "cannot write %s", local);
        return NULL;
    }
    (void)fchmod(fd, 0666 & ~mask); /* as any new file of the user's */
    *ret_fd = fd;
    return take_ptr(name);
}

/* Where a download goes: local, or inside it when it is a folder. */
static char *destination(const char *remote, const char *local)
{
    struct stat st;

    if (!local)
        return xstrdup(base_name(remote));
    if (stat(local, &st) == 0 && S_ISDIR(st.st_mode))
        return xasprintf("%s/%s", local, base_name(remote));
    return xstrdup(local);
}

int cli_remote_get(struct cli *c, const char *session, const char *remote,
                   const char *local, char **ret_local, struct error *err)
{
    char *path cleanup(mem_free) = cli_remote_file_path(session, remote);
    char *to cleanup(mem_free) = destination(remote, local);
    char *beside cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    int r;

    if (strcmp(to, "-") == 0) {
        (void)fflush(stdout);
        return cli_http_get(c, path, STDOUT_FILENO, NULL, err);
    }
    beside = open_beside(to, &fd, err);
    if (!beside)
        return -(int)err->code;
    r = cli_http_get(c, path, fd, base_name(remote), err);
    if (r == 0 && rename(beside, to) < 0)
        r = error_errno(err, ERR_INTERNAL, errno, "cannot write %s", to);
    if (r < 0) {
        (void)unlink(beside); /* ours alone; nothing to do if it fails */
        return error_wrap(err, "%s", remote);
    }
    if (ret_local)
        *ret_local = take_ptr(to);
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
