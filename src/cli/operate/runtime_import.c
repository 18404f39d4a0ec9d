/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox runtime import`: a container image becomes a runtime. image/ reads
 * the image in a process of its own; here the result gets its place in the
 * cache, a definition and a manifest, as a built runtime has them. Works on
 * this machine's cache without a service.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"
#include "conf/runtime.h"
#include "image/image.h"

#define EXTENSION "_glovebox.abi3.so"
#define WALK_FDS 32
#define EXTENSION_MAX (16u << 20)

/* One import, from its lock to its end. */
struct import {
    char *name, *cache;
    char *work; /* CACHE/.build.NAME.import */
    int lock;
    json_t *found; /* of image_import */
    uint64_t size;
    time_t began;
};

/* ---- names -------------------------------------------------------------- */

/* "dir/My_Image.tar.gz" is the runtime my-image. */
static char *name_of_source(const char *source)
{
    char *name, *dot;
    size_t len = strlen(source);

    while (len > 1 && source[len - 1] == '/')
        len--;
    name = xstrndup(source, len);
    if (strrchr(name, '/'))
        memmove(name, strrchr(name, '/') + 1, strlen(strrchr(name, '/')));
    dot = strchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    for (char *p = name; *p; p++)
        *p = isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p)
                                        : '-';
    return name;
}

static int choose_name(const char *source, const char *asked,
                       const char *defs_dir, char **ret, struct error *err)
{
    char *name cleanup(mem_free) =
        asked ? xstrdup(asked) : name_of_source(source);
    char *path cleanup(mem_free) =
        xasprintf("%s/%s/runtime.yaml", defs_dir, name);

    if (!conf_runtime_name_valid(name)) {
        (void)error_set(err, ERR_INVALID,
                        "'%.80s' is no name of a runtime: 1 to %d of a-z, 0-9 "
                        "and '-'",
                        name, CONF_RUNTIME_NAME);
        return error_hint(err, "choose one with --name");
    }
    if (strcmp(name, CONF_RUNTIME_KEPT) == 0 || access(path, F_OK) == 0) {
        (void)error_set(err, ERR_CONFLICT, "there is a runtime '%s' already",
                        name);
        return error_hint(err, "choose another name with --name");
    }
    *ret = take_ptr(name);
    return 0;
}

/* ---- what the kernel extension needs ------------------------------------ */

/* The highest GLIBC_2.N that the extension beside this program was linked
 * against. */
static int needed_glibc(char ret[16], struct error *err)
{
    static const char *const beside[] = {"../lib/kernel", "kernel",
                                         "../libexec/glovebox/kernel"};
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    unsigned most = 0;

    if (n < 0)
        return error_errno(err, ERR_INTERNAL, errno, "/proc/self/exe");
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(beside) && !most; i++) {
        char *path cleanup(mem_free) =
            xasprintf("%s/%s/" EXTENSION, exe, beside[i]);
        char *text cleanup(mem_free) = NULL;
        size_t len;

        if (fd_read_file(AT_FDCWD, path, EXTENSION_MAX, &text, &len) < 0)
            continue;
        for (char *at = text;
             (at = memmem(at, len - (size_t)(at - text), "GLIBC_2.", 8));
             at += 8)
            most = MAX(most, (unsigned)strtoul(at + 8, NULL, 10));
    }
    if (!most)
        return error_set(err, ERR_NOT_FOUND,
                         "the kernel extension is not beside %.200s", exe);
    (void)snprintf(ret, 16, "2.%u", most);
    return 0;
}

/* ---- the tree ----------------------------------------------------------- */

static int on_remove(const char *path, const struct stat *st, int type,
                     struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

/* A failure leaves a hidden folder, which the next import removes. */
static void remove_folder(const char *path)
{
    (void)nftw(path, on_remove, WALK_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* nftw has no argument for its callback; one import runs at a time. */
static uint64_t walked_bytes;

/* The child that unpacked it owns all files; in a session they are nobody's to
 * change. */
static int on_adopt(const char *path, const struct stat *st, int type,
                    struct FTW *where)
{
    (void)type;
    (void)where;
    walked_bytes += (uint64_t)st->st_blocks * 512u;
    return geteuid() == 0 ? lchown(path, 0, 0) : 0;
}

static int adopt_tree(struct import *m, struct error *err)
{
    char *root cleanup(mem_free) = xasprintf("%s/root", m->work);

    walked_bytes = 0;
    if (nftw(root, on_adopt, WALK_FDS, FTW_PHYS | FTW_MOUNT) != 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot own %s", root);
    m->size = walked_bytes;
    return 0;
}

static int make_folders(struct import *m, struct error *err)
{
    static const char *const names[] = {"", "/root", "/in"};

    remove_folder(m->work);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char *path cleanup(mem_free) = xasprintf("%s%s", m->work, names[i]);

        if (mkdir(path, 0755) < 0)
            return error_errno(err, ERR_INTERNAL, errno, "cannot make %s",
                               path);
    }
    return 0;
}

/* ---- the definition and the manifest ------------------------------------ */

static const char *found_text(const struct import *m, const char *key)
{
    return cli_json_text(m->found, key, "");
}

/* Variables that belong to the session, not to an image. */
static bool is_ours(const char *variable)
{
    static const char *const names[] = {
        "HOME=", "USER=", "LOGNAME=", "HOSTNAME=", "PWD=", "SHELL="};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static json_t *choose_environment(const struct import *m)
{
    static const char *const usual[] = {
        "LANG=C.UTF-8", "PYTHONUNBUFFERED=1",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
    json_t *list = json_array();
    const json_t *variable;
    size_t i;

    for (size_t k = 0; k < ARRAY_SIZE(usual); k++) {
        size_t name = strcspn(usual[k], "=") + 1;
        bool there = false;

        json_array_foreach (json_object_get(m->found, "environment"), i,
                            variable)
            there |= strncmp(json_string_value(variable) ?: "", usual[k],
                             name) == 0;
        if (!there)
            json_array_append_new(list, json_string(usual[k]));
    }
    json_array_foreach (json_object_get(m->found, "environment"), i,
                        variable) {
        const char *text = json_string_value(variable);

        if (text && !is_ours(text) && conf_runtime_environment_valid(text) &&
            json_array_size(list) < 400)
            json_array_append(list, (json_t *)(uintptr_t)variable);
    }
    return list;
}

/* JSON is YAML. Owned by caller. */
static char *definition_text(const struct import *m)
{
    char *described cleanup(mem_free) = xasprintf(
        "Imported image %.100s",
        found_text(m, "reference")[0] ? found_text(m, "reference") : m->name);
    json_t *object cleanup(json_unref) =
        json_pack("{s:s, s:s, s:s, s:o}", "description", described, "suite",
                  "image", "image", found_text(m, "digest"), "environment",
                  choose_environment(m));

    return object ? json_dumps(object, JSON_INDENT(1)) : NULL;
}

static int write_file(const char *path, const char *text, struct error *err)
{
    char *spare cleanup(mem_free) = xasprintf("%s.new", path);
    int fd cleanup(fd_close) = open(
        spare, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

    if (r == 0 && rename(spare, path) < 0)
        r = -errno;
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r, "cannot write %s", path)
                 : 0;
}

static json_t *or_empty(const struct import *m, const char *key)
{
    json_t *value = json_object_get(m->found, key);

    return value ? json_incref(value) : json_array();
}

static int write_manifest(const struct import *m, const char *hash,
                          struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("%s/manifest.json", m->work);
    char *text cleanup(mem_free) = NULL;
    json_t *manifest cleanup(json_unref) = NULL;
    const char *python = cli_json_text(m->found, "python", NULL);
    char when[32];
    time_t now = time(NULL);
    struct tm tm;

    (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ",
                   gmtime_r(&now, &tm));
    manifest = json_pack(
        "{s:s, s:s, s:i, s:s, s:s, s:s?, s:s, s:I, s:I, s:i, s:[], s:o, "
        "s:[], s:{s:[],s:[],s:[]}, s:s, s:s, s:s, s:s, s:s, s:O, s:O, s:O}",
        "name", m->name, "hash", hash, "builder", CONF_RUNTIME_BUILDER,
        "suite", "image", "architecture", found_text(m, "architecture"),
        "python", python, "built_at", when, "build_seconds",
        (json_int_t)(now - m->began), "size_bytes", (json_int_t)m->size,
        "packages_installed", 0, "packages", "distributions",
        or_empty(m, "distributions"), "stubs", "missing", "packages", "fonts",
        "modules", "image", found_text(m, "digest"), "format",
        found_text(m, "format"), "reference", found_text(m, "reference"),
        "libc", found_text(m, "libc"), "mode", found_text(m, "mode"), "layers",
        json_object_get(m->found, "layers"), "entries",
        json_object_get(m->found, "entries"), "skipped",
        json_object_get(m->found, "skipped"));
    if (manifest && json_object_get(m->found, "reason"))
        (void)json_object_set(manifest, "reason",
                              json_object_get(m->found, "reason"));
    text = manifest ? json_dumps(manifest, JSON_INDENT(1)) : NULL;
    if (!text)
        return error_set(err, ERR_INTERNAL, "cannot describe the image");
    return write_file(path, text, err);
}

/* ---- the import --------------------------------------------------------- */

static int lock_cache(struct import *m, struct error *err)
{
    char *lock cleanup(mem_free) = xasprintf("%s/.lock-%s", m->cache, m->name);

    if (mkdir(m->cache, 0755) < 0 && errno != EEXIST)
        return error_errno(err, ERR_INTERNAL, errno, "cannot make %s",
                           m->cache);
    m->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (m->lock < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot lock %s",
                           m->cache);
    if (flock(m->lock, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, ERR_CONFLICT, "%s is being built or imported",
                         m->name);
    return 0;
}

/* The definition last: with it the runtime exists. */
static int publish(struct import *m, bool force, struct error *err)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    char *folder cleanup(mem_free) =
        xasprintf("%s/" CONF_RUNTIME_KEPT, m->cache);
    char *own cleanup(mem_free) = xasprintf("%s/%s", folder, m->name);
    char *path cleanup(mem_free) = xasprintf("%s/runtime.yaml", own);
    char *copy cleanup(mem_free) = xasprintf("%s/runtime.yaml", m->work);
    char *staged cleanup(mem_free) = xasprintf("%s/in", m->work);
    char *text cleanup(mem_free) = definition_text(m);
    char *old cleanup(mem_free) = NULL;
    int r = text ? 0 : error_set(err, ERR_INTERNAL, "out of memory");

    if (r == 0 && ((mkdir(folder, 0755) < 0 && errno != EEXIST) ||
                   (mkdir(own, 0755) < 0 && errno != EEXIST)))
        r = error_errno(err, ERR_INTERNAL, errno, "cannot make %s", own);
    if (r == 0)
        r = write_file(copy, text, err);
    if (r == 0)
        r = write_file(path, text, err);
    /* Its hash and its place follow from the definition. */
    if (r == 0)
        r = conf_runtime_find(folder, m->cache, m->name, &rt, err);
    if (r == 0)
        r = write_manifest(m, rt.hash, err);
    if (r < 0)
        return r;
    remove_folder(staged);
    if (rt.built && !force)
        return 0; /* the same image under the same name */
    old = xasprintf("%s/.build.%s.old", m->cache, m->name);
    remove_folder(old);
    if (rename(rt.image_path, old) < 0 && errno != ENOENT)
        return error_errno(err, ERR_INTERNAL, errno, "cannot replace %s",
                           rt.image_path);
    if (rename(m->work, rt.image_path) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot name %s",
                           rt.image_path);
    remove_folder(old);
    return 0;
}

static void import_done(struct import *m)
{
    if (m->work)
        remove_folder(m->work);
    fd_close(&m->lock);
    json_decref(m->found);
    free(m->name);
    free(m->cache);
    free(m->work);
}

int cli_runtime_import(const char *source, const char *name,
                       const char *defs_dir, const char *cache_dir, bool force,
                       char **ret_name, struct error *err)
{
    struct import m cleanup(import_done) = {
        .cache = xstrdup(cache_dir), .lock = -1, .began = time(NULL)};
    char *root cleanup(mem_free) = NULL;
    char *work cleanup(mem_free) = NULL;
    char glibc[16];
    int r = choose_name(source, name, defs_dir, &m.name, err);

    if (r == 0)
        r = needed_glibc(glibc, err);
    if (r == 0)
        r = lock_cache(&m, err);
    if (r < 0)
        return r;
    m.work = xasprintf("%s/.build.%s.import", m.cache, m.name);
    root = xasprintf("%s/root", m.work);
    work = xasprintf("%s/in", m.work);
    r = make_folders(&m, err);
    if (r == 0)
        r = image_import(&(struct image_job){.source = source,
                                             .root = root,
                                             .work = work,
                                             .limits = &image_limits,
                                             .glibc = glibc},
                         &m.found, err);
    if (r == 0)
        r = adopt_tree(&m, err);
    if (r == 0)
        r = publish(&m, force, err);
    if (r < 0)
        return error_wrap(err, "the image was not imported");
    *ret_name = xstrdup(m.name);
    return 0;
}

void cli_runtime_import_forget(const char *cache_dir, const char *name)
{
    char *path cleanup(mem_free) =
        xasprintf("%s/" CONF_RUNTIME_KEPT "/%s", cache_dir, name);

    remove_folder(path); /* most runtimes were not imported */
}
