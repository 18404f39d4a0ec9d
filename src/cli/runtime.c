/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox runtime`: builds, lists, shows and removes runtime images. Works
 * on this machine's cache without a service. Building is the job of
 * tools/runtime-build, which gets the plan on standard input; this file never
 * runs anything of an image, and removes nothing but images.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"
#include "conf/runtime.h"
#include "json/json.h"

#define MANIFEST_MAX (8u << 20)
#define IMAGES_MAX 1024
#define DEPTH_MAX 128 /* folders within folders of an image */

extern char **environ;

/* What the flags said. */
struct places {
    const char *defs_flag, *cache_flag;
    char *defs, *cache; /* owned */
    bool force, stale;
};

static void places_done(struct places *p)
{
    free(p->defs);
    free(p->cache);
}

static void places_find(struct places *p)
{
    p->defs = p->defs_flag ? xstrdup(p->defs_flag) : conf_runtime_defs_dir();
    p->cache =
        p->cache_flag ? xstrdup(p->cache_flag) : conf_runtime_cache_dir();
}

/* --- Objects ----------------------------------------------------------- */

/* NULL when there is none or it cannot be read; owned by caller. */
static json_t *manifest_load(const char *path)
{
    char *text cleanup(mem_free) = NULL;
    size_t len;

    if (fd_read_file(AT_FDCWD, path, MANIFEST_MAX, &text, &len) < 0)
        return NULL;
    return json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
}

static json_t *words_json(char **words, unsigned count)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < count; i++)
        json_array_append_new(array, json_string(words[i]));
    return array;
}

static json_t *runtime_json(const struct conf_runtime *rt)
{
    const struct conf_runtime_def *d = rt->def;
    json_t *manifest = rt->built ? manifest_load(rt->manifest_path) : NULL;

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
        rt->name, "description", d->description, "suite", d->suite, "hash",
        rt->hash, "built", rt->built, "definition", rt->definition_path,
        "image", rt->image_path, "packages",
        words_json(d->packages, d->packages_count), "fonts",
        words_json(d->fonts, d->fonts_count), "preload",
        words_json(d->preload, d->preload_count), "environment",
        words_json(d->environment, d->environment_count), "manifest",
        manifest ? manifest : json_null());
}

/* --- build ------------------------------------------------------------- */

/* The plan as a file of its own, for the builder's standard input. */
static int plan_open(const struct conf_runtime *rt, int *ret_fd,
                     struct error *err)
{
    size_t len;
    char *plan cleanup(mem_free) = conf_runtime_plan(rt->def, &len);
    int fd cleanup(fd_close) = memfd_create("plan", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, plan, len);

    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot hand on the plan");
    *ret_fd = take_fd(fd);
    return 0;
}

/* Signals that this program blocks must reach the builder. */
static int builder_start(char *const argv[], int plan, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, plan, STDIN_FILENO);
    r = posix_spawn(ret_pid, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return -r;
}

static int builder_run(const struct places *p, const struct conf_runtime *rt,
                       struct error *err)
{
    char *builder cleanup(mem_free) = NULL;
    int plan cleanup(fd_close) = -1;
    pid_t pid;
    int status, r;

    r = conf_runtime_builder(&builder, err);
    if (r < 0)
        return r;
    r = plan_open(rt, &plan, err);
    if (r < 0)
        return r;
    r = builder_start((char *[]){builder, (char *)rt->name, (char *)rt->hash,
                                 p->cache, rt->definition_path,
                                 p->force ? (char *)"--force" : NULL, NULL},
                      plan, &pid);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot start %s", builder);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, ERR_INTERNAL, errno, "waitpid");
    if (status != 0)
        return error_set(err, ERR_INTERNAL, "%s was not built", rt->name);
    return 0;
}

static void missing_print(const json_t *manifest, FILE *out)
{
    static const char *const kinds[] = {"packages", "fonts", "modules"};
    const json_t *missing = json_object_get(manifest, "missing");

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(missing, kinds[k]), i, item) {
            fprintf(out, "not available: %s (%s)\n",
                    cli_json_text(item, "name", "?"),
                    cli_json_text(item, "reason", "unknown"));
        }
    }
}

static int verb_build(struct cli *c, const struct cli_words *words, void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    struct places *p = arg;
    struct error err = {0};

    if (conf_runtime_find(p->defs, p->cache, words->items[0], &rt, &err) < 0 ||
        builder_run(p, &rt, &err) < 0)
        return cli_fail(c, &err);
    rt.built = true;
    object = runtime_json(&rt);
    if (c->json)
        cli_print_json(object);
    else
        missing_print(json_object_get(object, "manifest"), stderr);
    return CLI_EXIT_OK;
}

/* --- list, show -------------------------------------------------------- */

static const char *state_of(const json_t *object)
{
    if (json_is_string(json_object_get(object, "error")))
        return "broken definition";
    return json_is_true(json_object_get(object, "built")) ? "built"
                                                          : "not built";
}

static void list_print(const json_t *data)
{
    static const char *const headings[] = {
        "NAME", "STATE", "SUITE", "PYTHON", "SIZE", "BUILT", "DESCRIPTION"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf out cleanup(buf_done) = {0};
    const json_t *object;
    size_t i;

    json_array_foreach (data, i, object) {
        const json_t *manifest = json_object_get(object, "manifest");
        const json_t *size = json_object_get(manifest, "size_bytes");
        char bytes[16] = "";

        if (json_is_integer(size))
            cli_format_size((uint64_t)json_integer_value(size), bytes);
        cli_table_row(table,
                      (const char *[]){
                          cli_json_text(object, "name", ""), state_of(object),
                          cli_json_text(object, "suite", ""),
                          cli_json_text(manifest, "python", ""), bytes,
                          cli_json_text(manifest, "built_at", ""),
                          cli_json_text(object, "description",
                                        cli_json_text(object, "error", ""))});
    }
    cli_table_print(table, &out);
    fwrite(out.data, 1, out.len, stdout);
}

static int verb_list(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *data cleanup(json_unref) = NULL;
    char **names cleanup(conf_runtime_names_free) = NULL;
    struct places *p = arg;
    struct error err = {0};

    (void)words;
    if (conf_runtime_names(p->defs, &names, &err) < 0)
        return cli_fail(c, &err);
    data = json_array();
    for (char **name = names; *name; name++) {
        struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};

        /* One bad definition does not hide the others. */
        if (conf_runtime_find(p->defs, p->cache, *name, &rt, &err) == 0)
            json_array_append_new(data, runtime_json(&rt));
        else
            json_array_append_new(data,
                                  json_pack("{s:s, s:b, s:s}", "name", *name,
                                            "built", 0, "error", err.message));
    }
    if (c->json)
        cli_print_json(data);
    else
        list_print(data);
    return CLI_EXIT_OK;
}

static void names_print(const char *title, const json_t *items)
{
    const json_t *item;
    size_t i;

    printf("\n%s (%zu)\n", title, json_array_size(items));
    json_array_foreach (items, i, item) {
        printf("  %s %s\n", cli_json_text(item, "name", "?"),
               cli_json_text(item, "version", ""));
    }
}

static void show_print(const struct conf_runtime *rt, const json_t *manifest)
{
    char size[16];

    printf("name         %s\n", rt->name);
    printf("description  %s\n", rt->def->description);
    printf("suite        Debian %s\n", rt->def->suite);
    printf("definition   %s\n", rt->definition_path);
    printf("image        %s%s\n", rt->image_path,
           rt->built ? "" : " (not built)");
    printf("preload     ");
    for (unsigned i = 0; i < rt->def->preload_count; i++)
        printf(" %s", rt->def->preload[i]);
    printf("\n");
    if (!manifest)
        return;
    printf("python       %s\n", cli_json_text(manifest, "python", "?"));
    printf("built        %s\n", cli_json_text(manifest, "built_at", "?"));
    printf("size         %s\n",
           cli_format_size((uint64_t)json_integer_value(
                               json_object_get(manifest, "size_bytes")),
                           size));
    missing_print(manifest, stdout);
    names_print("Debian packages asked for",
                json_object_get(manifest, "packages"));
    names_print("Python distributions",
                json_object_get(manifest, "distributions"));
}

static int verb_show(struct cli *c, const struct cli_words *words, void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    struct places *p = arg;
    struct error err = {0};
    const json_t *manifest;

    if (conf_runtime_find(p->defs, p->cache, words->items[0], &rt, &err) < 0)
        return cli_fail(c, &err);
    object = runtime_json(&rt);
    manifest = json_object_get(object, "manifest");
    if (c->json)
        cli_print_json(object);
    else
        show_print(&rt, json_is_object(manifest) ? manifest : NULL);
    return CLI_EXIT_OK;
}

/* --- remove ------------------------------------------------------------ */

/* Removes a folder and all in it, by descriptors, following no link and
 * entering no other file system. -errno */
static int tree_remove(int parent, const char *name, dev_t dev, int depth)
{
    int fd cleanup(fd_close) =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != dev)
        return -EXDEV;
    if (depth > DEPTH_MAX)
        return -ELOOP;
    /* An ordinary user's own folders may lack the right to empty them. */
    if (geteuid() != 0 && fchmod(fd, 0700) < 0)
        return -errno;
    dir = fdopendir(fd);
    if (!dir)
        return -errno;
    fd = -1; /* the stream's now */
    while ((entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM)
            return -errno;
        r = tree_remove(dirfd(dir), entry->d_name, dev, depth + 1);
        if (r < 0)
            return r;
    }
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Whether a folder of the cache is an image of that runtime; its hash. */
static const char *image_hash(const char *folder, const char *name)
{
    size_t len = strlen(name);
    const char *hash = folder + len + 1;

    if (strncmp(folder, name, len) != 0 || folder[len] != '-')
        return NULL;
    if (strlen(hash) != CONF_RUNTIME_HASH ||
        strspn(hash, "0123456789abcdef") != CONF_RUNTIME_HASH)
        return NULL;
    return hash;
}

/* Renamed first, so that an image is never found half removed. What a crash
 * leaves behind the next removal or build of that name clears. */
static int image_remove(int cache, const char *folder, const char *name,
                        struct error *err)
{
    const char *hash = image_hash(folder, name);
    char *doomed cleanup(mem_free) =
        hash ? xasprintf(".build.%s.%s.removed", name, hash) : xstrdup(folder);
    struct stat st;
    int r = 0;

    if (fstatat(cache, folder, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (hash && renameat(cache, folder, cache, doomed) < 0))
        r = -errno;
    if (r == 0)
        r = tree_remove(cache, doomed, st.st_dev, 0);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot remove %s", doomed);
    return 0;
}

/* Folders of that runtime: images but the one to keep, and, as nobody else
 * holds the lock, what builds and removals left. Owned by caller. */
static size_t images_find(DIR *dir, const char *name, const char *keep,
                          char *ret_found[IMAGES_MAX])
{
    char *left cleanup(mem_free) = xasprintf(".build.%s.", name);
    struct dirent *entry;
    size_t count = 0;

    while (count < IMAGES_MAX && (entry = readdir(dir))) {
        const char *hash = image_hash(entry->d_name, name);

        if (hash ? !keep || strcmp(hash, keep) != 0
                 : strncmp(entry->d_name, left, strlen(left)) == 0)
            ret_found[count++] = xstrdup(entry->d_name);
    }
    return count;
}

/* Under the builder's own lock. ret_count: how many images were removed. */
static int images_remove(const struct places *p, const char *name,
                         const char *keep, size_t *ret_count,
                         struct error *err)
{
    char *lock cleanup(mem_free) = xasprintf(".lock-%s", name);
    DIR *dir cleanup(fd_closedir) = opendir(p->cache);
    int fd cleanup(fd_close) = -1;
    char *found[IMAGES_MAX];
    size_t count, images = 0;
    int r = 0;

    *ret_count = 0;
    if (!dir)
        return errno == ENOENT ? 0
                               : error_errno(err, ERR_INTERNAL, errno,
                                             "cannot open %s", p->cache);
    fd = openat(dirfd(dir), lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                0644);
    if (fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot lock %s",
                           p->cache);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, ERR_CONFLICT, "%s is being built", name);
    count = images_find(dir, name, keep, found);
    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = image_remove(dirfd(dir), found[i], name, err);
        if (r == 0 && image_hash(found[i], name))
            images++;
        free(found[i]);
    }
    *ret_count = images;
    return r;
}

static int verb_remove(struct cli *c, const struct cli_words *words, void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    const char *name = words->items[0];
    struct places *p = arg;
    struct error err = {0};
    size_t count;

    if (!conf_runtime_name_valid(name))
        return cli_usage_error(c, "'%s' is not a runtime's name", name);
    /* The image of a definition that is gone can still be removed. */
    if (p->stale &&
        conf_runtime_find(p->defs, p->cache, name, &rt, &err) < 0 &&
        err.code != ERR_NOT_FOUND)
        return cli_fail(c, &err);
    if (images_remove(p, name, p->stale ? rt.hash : NULL, &count, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        json_t *answer cleanup(json_unref) = json_pack(
            "{s:s, s:I}", "name", name, "removed", (json_int_t)count);
        cli_print_json(answer);
    } else if (count == 0) {
        fprintf(stderr, "%s has no %simage in %s\n", name,
                p->stale ? "outdated " : "", p->cache);
    } else {
        fprintf(stderr, "removed %zu image%s of %s\n", count,
                count == 1 ? "" : "s", name);
    }
    return CLI_EXIT_OK;
}

/* --- The command ------------------------------------------------------- */

static const char notes[] =
    "A runtime is a folder with a runtime.yaml: suite, packages, fonts,\n"
    "preload, environment, files. `build` makes its image of Debian's\n"
    "packages, from the archive this machine's own apt uses, and does nothing\n"
    "when the image is there already. Sessions running on an image break when\n"
    "it is removed or rebuilt by force: stop the service first.\n";

int cli_runtime(int argc, char **argv)
{
    static const struct cli_verb verbs[] = {
        {"list", 0, 0, verb_list},
        {"show", 1, 1, verb_show},
        {"build", 1, 1, verb_build},
        {"remove", 1, 1, verb_remove},
    };
    struct places p cleanup(places_done) = {0};
    const struct cli_opt table[] = {
        {"cache", 0, CLI_OPT_TEXT, &p.cache_flag, "DIR",
         "where images are (GLOVEBOX_RUNTIME_DIR)"},
        {"defs", 0, CLI_OPT_TEXT, &p.defs_flag, "DIR",
         "where definitions are (GLOVEBOX_RUNTIME_DEFS)"},
        {"force", 0, CLI_OPT_FLAG, &p.force, NULL,
         "build: again, with today's packages"},
        {"stale", 0, CLI_OPT_FLAG, &p.stale, NULL,
         "remove: only images of earlier definitions"},
    };
    const struct cli_opts opts = {table, ARRAY_SIZE(table), notes};
    struct cli c cleanup(cli_done) = {.signal_fd = -1};
    struct cli_words words = {.count = 0};
    int status;

    cli_init(&c, "runtime");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    places_find(&p);
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &p);
}
