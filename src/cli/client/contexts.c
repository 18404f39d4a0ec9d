/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services that a user has logged in to, by name, with their keys: the
 * file contexts.json in the user's configuration folder, which only the user
 * can read. `glovebox login` writes it; cli_connect() reads it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"

#define FILE_MAX (1u << 20)

/* $XDG_CONFIG_HOME/glovebox or ~/.config/glovebox; NULL without a home. */
static char *config_dir(void)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");

    if (config && config[0] == '/')
        return xasprintf("%s/glovebox", config);
    if (home && home[0] == '/')
        return xasprintf("%s/.config/glovebox", home);
    return NULL;
}

char *cli_contexts_path(void)
{
    char *dir cleanup(mem_free) = config_dir();

    return dir ? xasprintf("%s/contexts.json", dir) : NULL;
}

/* Another user could have read the keys, or written the addresses. */
static int check_owner(int fd, const char *path, struct error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot read %.200s",
                           path);
    if (S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN, "other users have access to %.200s",
                    path);
    return error_hint(err, "Run `chmod 600` on it, and replace the keys in it "
                           "if others may have read them.");
}

int cli_contexts_load(json_t **ret, struct error *err)
{
    char *path cleanup(mem_free) = cli_contexts_path();
    char *text cleanup(cli_secret_free) = NULL;
    int fd cleanup(fd_close) =
        path ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    json_t *all;
    ssize_t n;

    if (fd < 0 && (!path || errno == ENOENT || errno == ENOTDIR)) {
        *ret = json_pack("{s:{}}", "contexts");
        return 0;
    }
    if (fd < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot read %.200s",
                           path);
    if (check_owner(fd, path, err) < 0)
        return -(int)err->code;
    text = xcalloc(1, FILE_MAX + 1);
    n = fd_read_all(fd, text, FILE_MAX);
    if (n < 0)
        return error_errno(err, ERR_INVALID, (int)-n, "cannot read %.200s",
                           path);
    all = json_loadb(text, (size_t)n, 0, NULL);
    if (!json_is_object(json_object_get(all, "contexts"))) {
        json_decref(all);
        (void)error_set(err, ERR_INVALID, "%.200s is not a list of contexts",
                        path);
        return error_hint(err, "Remove it and run `glovebox login` again.");
    }
    *ret = all;
    return 0;
}

int cli_contexts_save(const json_t *all, struct error *err)
{
    char *dir cleanup(mem_free) = config_dir();
    char *path cleanup(mem_free) = cli_contexts_path();
    char *spare cleanup(mem_free) = NULL;
    char *text cleanup(cli_secret_free) = json_dumps(all, JSON_INDENT(2));
    int fd cleanup(fd_close) = -1;
    int r;

    if (!dir)
        return error_set(err, ERR_INVALID,
                         "HOME is not set: there is no place for the key");
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        (void)mkdir(dir, 0700); /* mostly there; else opening fails */
        *p = '/';
    }
    (void)mkdir(dir, 0700);
    spare = xasprintf("%s.new", path);
    (void)unlink(spare); /* left by one that was killed */
    fd = open(spare, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
              0600);
    r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    if (r == 0 && (fsync(fd) < 0 || rename(spare, path) < 0))
        r = -errno;
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot write %.200s", path);
    return 0;
}

int cli_contexts_use(struct cli *c, struct error *err)
{
    json_t *all cleanup(json_unref) = NULL;
    const char *name = c->context, *url;
    const json_t *one;
    int r;

    if (!name)
        name = getenv("GLOVEBOX_CONTEXT");
    r = cli_contexts_load(&all, err);
    if (r < 0)
        return r;
    if (!name || !*name)
        name = cli_json_text(all, "current", "");
    else if (!json_object_get(json_object_get(all, "contexts"), name)) {
        (void)error_set(err, ERR_NOT_FOUND, "there is no context '%.128s'",
                        name);
        return error_hint(err,
                          "`glovebox contexts` lists them, `glovebox "
                          "login --name %.64s` makes it.",
                          name);
    }
    one = json_object_get(json_object_get(all, "contexts"), name);
    url = cli_json_text(one, "url", NULL);
    if (!url)
        return 0;
    free(c->context_url);
    c->context_url = xstrdup(url);
    if (!c->key)
        c->key = xstrdup(cli_json_text(one, "key", NULL));
    if (cli_json_text(one, "pin", NULL)) {
        free(c->pin);
        c->pin = xstrdup(cli_json_text(one, "pin", NULL));
    }
    free(c->context_cacert);
    c->context_cacert = xstrdup(cli_json_text(one, "cacert", NULL));
    return 0;
}
