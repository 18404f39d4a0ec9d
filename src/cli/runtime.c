/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox runtime`: builds, lists, shows and removes runtime images. Works
 * on this machine's cache without a service. tools/runtime-build does the
 * building, with the plan on its standard input; this file never runs
 * anything of an image.
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

#define MANIFEST_MAX (8u << 20)
#define IMAGES_MAX 1024
#define DEPTH_MAX 128 /* folders within folders of an image */

extern char **environ;

/* What the options said. */
struct runtime_flags {
    const char *defs_flag, *cache_flag;
    char *defs, *cache; /* owned */
    bool force, stale;
};

static int find_folders(struct cli *c, const struct cli_words *words,
                        void *arg)
{
    struct runtime_flags *p = arg;

    (void)c;
    (void)words;
    p->defs = p->defs_flag ? xstrdup(p->defs_flag) : conf_runtime_defs_dir();
    p->cache =
        p->cache_flag ? xstrdup(p->cache_flag) : conf_runtime_cache_dir();
    return CLI_EXIT_OK;
}

static void folders_done(void *flags)
{
    struct runtime_flags *p = flags;

    free(p->defs);
    free(p->cache);
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

static void print_missing(const json_t *manifest, FILE *out)
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

/* --- list, show -------------------------------------------------------- */

static void add_state(const json_t *runtime, struct buf *out)
{
    if (json_is_string(json_object_get(runtime, "error")))
        buf_adds(out, "broken definition");
    else
        buf_adds(out, json_is_true(json_object_get(runtime, "built"))
                          ? "built"
                          : "not built");
}

static void add_python(const json_t *runtime, struct buf *out)
{
    buf_adds(out, cli_json_text(json_object_get(runtime, "manifest"), "python",
                                ""));
}

static void add_size(const json_t *runtime, struct buf *out)
{
    const json_t *size =
        json_object_get(json_object_get(runtime, "manifest"), "size_bytes");
    char text[16];

    if (json_is_integer(size))
        buf_adds(out,
                 cli_format_size((uint64_t)json_integer_value(size), text));
}

static void add_built(const json_t *runtime, struct buf *out)
{
    buf_adds(out, cli_json_text(json_object_get(runtime, "manifest"),
                                "built_at", ""));
}

static void add_description(const json_t *runtime, struct buf *out)
{
    buf_adds(out, cli_json_text(runtime, "description",
                                cli_json_text(runtime, "error", "")));
}

static const struct cli_column columns[] = {
    {"NAME", .member = "name"},
    {"STATE", .cell = add_state},
    {"SUITE", .member = "suite"},
    {"PYTHON", .cell = add_python},
    {"SIZE", .cell = add_size},
    {"BUILT", .cell = add_built},
    {"DESCRIPTION", .cell = add_description},
    {0},
};

static int list_runtimes(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    json_t *data cleanup(json_unref) = NULL;
    char **names cleanup(conf_runtime_names_free) = NULL;
    struct runtime_flags *p = arg;
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
    cli_show_list(c, data, columns);
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
    print_missing(manifest, stdout);
    names_print("Debian packages asked for",
                json_object_get(manifest, "packages"));
    names_print("Python distributions",
                json_object_get(manifest, "distributions"));
}

static int show_runtime(struct cli *c, const struct cli_words *words,
                        void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    struct runtime_flags *p = arg;
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

static int builder_run(const struct runtime_flags *p,
                       const struct conf_runtime *rt, struct error *err)
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

static int build_runtime(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    struct runtime_flags *p = arg;
    struct error err = {0};

    if (conf_runtime_find(p->defs, p->cache, words->items[0], &rt, &err) < 0 ||
        builder_run(p, &rt, &err) < 0)
        return cli_fail(c, &err);
    rt.built = true;
    object = runtime_json(&rt);
    if (c->json)
        cli_print_json(object);
    else
        print_missing(json_object_get(object, "manifest"), stderr);
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

static int remove_images(const struct runtime_flags *p, const char *name,
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

static int remove_runtime(struct cli *c, const struct cli_words *words,
                          void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    const char *name = words->items[0];
    struct runtime_flags *p = arg;
    struct error err = {0};
    size_t count;

    if (!conf_runtime_name_valid(name))
        return cli_usage_error(c, "'%s' is not a runtime's name", name);
    /* The image of a definition that is gone can still be removed. */
    if (p->stale &&
        conf_runtime_find(p->defs, p->cache, name, &rt, &err) < 0 &&
        err.code != ERR_NOT_FOUND)
        return cli_fail(c, &err);
    if (remove_images(p, name, p->stale ? rt.hash : NULL, &count, &err) < 0)
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

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List runtimes", .run = list_runtimes},
    {"show", NULL, "NAME", "Show a runtime and what its image contains",
     .run = show_runtime},
    {"build", NULL, "NAME", "Build an image", .run = build_runtime},
    {"remove", "rm", "NAME", "Remove the images of a runtime",
     .run = remove_runtime},
    {0},
};

#define AT(member) offsetof(struct runtime_flags, member)

static const struct cli_option options[] = {
    {"cache", 0, CLI_OPT_TEXT, AT(cache_flag), "DIR",
     "where images are (GLOVEBOX_RUNTIME_DIR)", NULL},
    {"defs", 0, CLI_OPT_TEXT, AT(defs_flag), "DIR",
     "where definitions are (GLOVEBOX_RUNTIME_DEFS)", NULL},
    {"force", 0, CLI_OPT_FLAG, AT(force), NULL,
     "build again, with today's packages", "build"},
    {"stale", 0, CLI_OPT_FLAG, AT(stale), NULL,
     "only images of earlier definitions", "remove"},
    {0},
};

const struct cli_command cli_runtime = {
    .name = "runtime",
    .summary = "Build, list, show and remove runtime images",
    .notes =
        "A runtime is a folder with a runtime.yaml: suite, packages, fonts,\n"
        "preload, environment, files. `build` makes its image of Debian's\n"
        "packages, from the archive that this machine's own apt uses, and\n"
        "does nothing when the image exists. Sessions running on an image\n"
        "break when it is removed or rebuilt by force: stop the service\n"
        "first.\n",
    .options = options,
    .flags_size = sizeof(struct runtime_flags),
    .verbs = verbs,
    .check = find_folders,
    .flags_done = folders_done,
};
