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
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/common.h"
#include "conf/runtime.h"
#include "language/language.h"

#define MANIFEST_MAX (8u << 20)
#define IMAGES_MAX 1024
#define DEPTH_MAX 128 /* folders within folders of an image */

extern char **environ;

/* What the options said. */
struct runtime_flags {
    const char *defs_flag, *cache_flag;
    char *defs, *cache; /* owned */
    const char *pip_index, *wheels, *security_data;
    bool force, stale, check;
    const char *name; /* of an image to import */
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

static json_t *items_json(const struct conf_runtime_item *items,
                          unsigned count)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < count; i++)
        json_array_append_new(array, json_string(items[i].name));
    return array;
}

static json_t *words_json(char **words, unsigned count)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < count; i++)
        json_array_append_new(array, json_string(words[i]));
    return array;
}

static json_t *languages_json(const struct conf_runtime *rt)
{
    uint32_t set = rt->built ? language_offered(rt->root_path) : 0;
    json_t *array = json_array();

    for (unsigned i = 0; i < EXEC_LANGUAGES; i++)
        if (set & LANGUAGE_BIT(i))
            json_array_append_new(
                array, json_string(language_get((enum exec_language)i)->name));
    return array;
}

/* A file of the image's folder. Owned by caller. */
static char *image_file(const struct conf_runtime *rt, const char *name)
{
    return xasprintf("%s/%s", rt->image_path, name);
}

static json_t *or_null(json_t *value)
{
    return value ? value : json_null();
}

static json_t *runtime_json(const struct conf_runtime *rt)
{
    const struct conf_runtime_def *d = rt->def;
    char *security cleanup(mem_free) = image_file(rt, "security.json");
    char *sbom cleanup(mem_free) = image_file(rt, "sbom.spdx.json");
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:s?}",
                               "name", rt->name, "description", d->description,
                               "suite", d->suite, "hash", rt->hash, "built",
                               rt->built, "definition", rt->definition_path,
                               "image", rt->image_path, "from", d->from);
    const struct {
        const char *key;
        json_t *value;
    } rest[] = {
        {"languages", languages_json(rt)},
        {"packages", items_json(d->packages, d->packages_count)},
        {"fonts", items_json(d->fonts, d->fonts_count)},
        {"pip", items_json(d->pip, d->pip_count)},
        {"npm", items_json(d->npm, d->npm_count)},
        {"preload", words_json(d->preload, d->preload_count)},
        {"environment", words_json(d->environment, d->environment_count)},
        {"manifest",
         or_null(rt->built ? manifest_load(rt->manifest_path) : NULL)},
        {"security", or_null(rt->built ? manifest_load(security) : NULL)},
        {"sbom", or_null(access(sbom, R_OK) == 0 ? json_string(sbom) : NULL)},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rest); i++)
        json_object_set_new(object, rest[i].key, rest[i].value);
    return object;
}

static void print_missing(const json_t *manifest, FILE *out)
{
    static const char *const kinds[] = {"packages", "fonts", "pip", "npm",
                                        "modules"};
    const json_t *missing = json_object_get(manifest, "missing");

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(missing, kinds[k]), i, item) {
            fprintf(out, "left out     %s (%s)\n",
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
        buf_adds(out, size_format((uint64_t)json_integer_value(size), text));
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
    if (conf_runtime_names(p->defs, p->cache, &names, &err) < 0)
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

static void show_languages(const struct conf_runtime *rt,
                           const json_t *manifest)
{
    const char *mode = cli_json_text(manifest, "mode", NULL);
    char *list cleanup(mem_free) =
        language_list(language_offered(rt->root_path));

    printf("languages    %s\n", list);
    if (mode)
        printf("mode         %s%s%s\n", mode,
               json_object_get(manifest, "reason") ? ": " : "",
               cli_json_text(manifest, "reason", ""));
}

/* Days since an image was built, for people. */
static void print_age(const json_t *manifest)
{
    const char *built = cli_json_text(manifest, "built_at", "");
    struct tm tm = {.tm_isdst = 0};
    double days;

    if (!strptime(built, "%Y-%m-%dT%H:%M:%SZ", &tm))
        return;
    days = difftime(time(NULL), timegm(&tm)) / 86400;
    printf("built        %s, %.0f day%s ago\n", built, days,
           days >= 0.5 && days < 1.5 ? "" : "s");
}

static size_t count_security(const json_t *upgrades)
{
    const json_t *one;
    size_t i, count = 0;

    json_array_foreach (upgrades, i, one)
        count += json_is_true(json_object_get(one, "security"));
    return count;
}

static void print_security(const json_t *security)
{
    const json_t *open = json_object_get(security, "open"), *one;
    const json_t *upgrades = json_object_get(security, "upgrades");
    size_t i;

    if (!json_is_object(security)) {
        printf("open CVEs    unknown: never looked up; run `glovebox runtime "
               "update --check`\n");
        return;
    }
    if (json_is_array(open))
        printf("open CVEs    %zu\n", json_array_size(open));
    else
        printf("open CVEs    unknown: no data of Debian's security tracker "
               "was given (--security-data)\n");
    printf("upgrades     %zu, %zu of them for security; looked up %s\n",
           json_array_size(upgrades), count_security(upgrades),
           cli_json_text(security, "checked_at", "?"));
    json_array_foreach (open, i, one) {
        printf("  %s %s %s, %s, %s%s\n", cli_json_text(one, "id", "?"),
               cli_json_text(one, "source", "?"),
               cli_json_text(one, "installed", "?"),
               cli_json_text(one, "urgency", "?"),
               json_is_string(json_object_get(one, "fixed")) ? "fixed in "
                                                             : "not fixed",
               cli_json_text(one, "fixed", ""));
    }
}

static void show_print(const struct conf_runtime *rt, const json_t *object)
{
    const json_t *manifest = json_object_get(object, "manifest");
    char size[16];

    printf("name         %s\n", rt->name);
    printf("description  %s\n", rt->def->description);
    if (rt->def->image[0])
        printf("imported     %s\n", rt->def->image);
    if (rt->def->from)
        printf("from         %s\n", rt->def->from);
    if (!rt->def->image[0]) {
        printf("suite        Debian %s", rt->def->suite);
        for (unsigned i = 0; i < rt->def->also_count; i++)
            printf("%s %s", i ? "," : ", also", rt->def->also[i]);
        printf("\n");
    }
    printf("definition   %s\n", rt->definition_path);
    printf("image        %s%s\n", rt->image_path,
           rt->built ? "" : " (not built)");
    printf("preload     ");
    for (unsigned i = 0; i < rt->def->preload_count; i++)
        printf(" %s", rt->def->preload[i]);
    printf("\n");
    if (!json_is_object(manifest))
        return;
    show_languages(rt, manifest);
    printf("python       %s\n", cli_json_text(manifest, "python", "?"));
    print_age(manifest);
    printf("size         %s\n",
           size_format((uint64_t)json_integer_value(
                           json_object_get(manifest, "size_bytes")),
                       size));
    printf("contains     %zu Python distributions and %zu type stubs, %lld "
           "Debian packages\n",
           json_array_size(json_object_get(manifest, "distributions")),
           json_array_size(json_object_get(manifest, "stubs")),
           (long long)json_integer_value(
               json_object_get(manifest, "packages_installed")));
    printf("SBOM         %s\n", cli_json_text(object, "sbom", "none"));
    print_security(json_object_get(object, "security"));
    print_missing(manifest, stdout);
    names_print("Debian packages asked for",
                json_object_get(manifest, "packages"));
    names_print("Python distributions",
                json_object_get(manifest, "distributions"));
    names_print("npm packages", json_object_get(manifest, "npm"));
}

static int show_runtime(struct cli *c, const struct cli_words *words,
                        void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    struct runtime_flags *p = arg;
    struct error err = {0};

    if (conf_runtime_find(p->defs, p->cache, words->items[0], &rt, &err) < 0)
        return cli_fail(c, &err);
    object = runtime_json(&rt);
    if (c->json)
        cli_print_json(c, object);
    else
        show_print(&rt, object);
    return CLI_EXIT_OK;
}

/* --- build ------------------------------------------------------------- */

/* The plan as a file of its own, for the builder's standard input. */
static int plan_open(const struct conf_runtime *rt, int *ret_fd,
                     struct error *err)
{
    int fd cleanup(fd_close) = memfd_create("plan", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, rt->plan, strlen(rt->plan));

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

/* Runs the builder to its end. plan: -1 when it needs none. */
static int builder_run(char *const argv[], int plan, const char *what,
                       struct error *err)
{
    int null cleanup(fd_close) = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t pid;
    int status, r;

    r = builder_start(argv, plan < 0 ? null : plan, &pid);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot start %s", argv[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, ERR_INTERNAL, errno, "waitpid");
    if (status != 0)
        return error_set(err, ERR_INTERNAL, "%s", what);
    return 0;
}

/* mode: NULL, "--force", "--update" or "--look". */
static int image_run(const struct runtime_flags *p,
                     const struct conf_runtime *rt, const char *mode,
                     struct error *err)
{
    char *what cleanup(mem_free) =
        xasprintf("%s was not %s", rt->name,
                  !mode || strcmp(mode, "--force") == 0 ? "built"
                  : strcmp(mode, "--update") == 0       ? "updated"
                                                        : "checked");
    char *builder cleanup(mem_free) = NULL;
    int plan cleanup(fd_close) = -1;
    int r = conf_runtime_builder(&builder, err);

    if (r == 0)
        r = plan_open(rt, &plan, err);
    if (r < 0)
        return r;
    return builder_run((char *[]){builder, (char *)rt->name, (char *)rt->hash,
                                  p->cache, rt->definition_path, (char *)mode,
                                  NULL},
                       plan, what, err);
}

/* Builds the image of `name`, and before that those it is derived from. */
static int build_chain(const struct runtime_flags *p, const char *name,
                       const char *mode, struct conf_runtime *ret,
                       struct error *err)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    int r = conf_runtime_find(p->defs, p->cache, name, &rt, err);

    if (r == 0 && rt.def->from) {
        struct conf_runtime base cleanup(conf_runtime_done) = {.built = false};

        r = build_chain(p, rt.def->from, NULL, &base, err);
    }
    if (r == 0)
        r = image_run(p, &rt, mode, err);
    conf_runtime_done(&rt);
    if (r == 0) /* once more: the image in use is another one now */
        r = conf_runtime_find(p->defs, p->cache, name, ret, err);
    return r;
}

/* A folder becomes a definition of the cache, under its own name. */
static int keep_folder(const struct runtime_flags *p, const char *folder,
                       char ret_name[CONF_RUNTIME_NAME + 1], struct error *err)
{
    char *real cleanup(mem_free) = realpath(folder, NULL);
    char *builder cleanup(mem_free) = NULL;
    char *shipped cleanup(mem_free) = NULL;
    const char *name;
    int r;

    if (!real)
        return error_errno(err, ERR_NOT_FOUND, errno, "cannot open %s",
                           folder);
    name = strrchr(real, '/') + 1;
    if (!conf_runtime_name_valid(name))
        return error_set(err, ERR_INVALID,
                         "a runtime is named like its folder: '%s' is no "
                         "name of 1 to %d of a-z, 0-9 and '-'",
                         name, CONF_RUNTIME_NAME);
    shipped = xasprintf("%s/%s/runtime.yaml", p->defs, name);
    (void)snprintf(ret_name, CONF_RUNTIME_NAME + 1, "%s", name);
    if (access(shipped, F_OK) == 0) {
        char *theirs cleanup(mem_free) = xasprintf("%s/%s", p->defs, name);
        char *same cleanup(mem_free) = realpath(theirs, NULL);

        if (same && strcmp(same, real) == 0)
            return 0;
        (void)error_set(err, ERR_CONFLICT, "'%s' is a runtime of %s", name,
                        p->defs);
        return error_hint(err, "Rename the folder.");
    }
    r = conf_runtime_builder(&builder, err);
    if (r < 0)
        return r;
    return builder_run((char *[]){builder, (char *)"--keep", (char *)name,
                                  real, p->cache, NULL},
                       -1, "the definition cannot be kept", err);
}

static void set_sources(const struct runtime_flags *p)
{
    if (p->pip_index)
        (void)setenv("GLOVEBOX_PIP_INDEX", p->pip_index, 1);
    if (p->wheels)
        (void)setenv("GLOVEBOX_PIP_WHEELS", p->wheels, 1);
    if (p->security_data)
        (void)setenv("GLOVEBOX_SECURITY_DATA", p->security_data, 1);
}

static int print_built(struct cli *c, const struct conf_runtime *rt)
{
    json_t *object cleanup(json_unref) = runtime_json(rt);

    if (c->json)
        cli_print_json(c, object);
    else
        print_missing(json_object_get(object, "manifest"), stderr);
    return CLI_EXIT_OK;
}

static int build_runtime(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    char kept[CONF_RUNTIME_NAME + 1];
    const char *name = words->items[0];
    struct runtime_flags *p = arg;
    struct error err = {0};

    set_sources(p);
    if (strchr(name, '/') || strcmp(name, ".") == 0) {
        if (keep_folder(p, name, kept, &err) < 0)
            return cli_fail(c, &err);
        name = kept;
    }
    if (build_chain(p, name, p->force ? "--force" : NULL, &rt, &err) < 0)
        return cli_fail(c, &err);
    return print_built(c, &rt);
}

/* --- update ------------------------------------------------------------ */

/* Whether apt has newer versions, as the last look found. */
static bool is_outdated(const struct conf_runtime *rt)
{
    char *path cleanup(mem_free) = image_file(rt, "security.json");
    json_t *security cleanup(json_unref) = manifest_load(path);

    return json_array_size(json_object_get(security, "upgrades")) > 0;
}

static int update_runtime(struct cli *c, const struct cli_words *words,
                          void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    struct runtime_flags *p = arg;
    struct error err = {0};

    set_sources(p);
    if (conf_runtime_find(p->defs, p->cache, words->items[0], &rt, &err) < 0 ||
        image_run(p, &rt, "--look", &err) < 0)
        return cli_fail(c, &err);
    if (!p->check && is_outdated(&rt)) {
        conf_runtime_done(&rt);
        if (build_chain(p, words->items[0], "--update", &rt, &err) < 0)
            return cli_fail(c, &err);
    }
    if (c->json)
        return print_built(c, &rt);
    json_t *object cleanup(json_unref) = runtime_json(&rt);

    print_security(json_object_get(object, "security"));
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
    if (strlen(hash) < CONF_RUNTIME_HASH ||
        strspn(hash, "0123456789abcdef") < CONF_RUNTIME_HASH)
        return NULL;
    /* An image that was built again has a number behind. */
    folder = hash + CONF_RUNTIME_HASH;
    if (*folder && (*folder != '-' || !folder[1] ||
                    strspn(folder + 1, "0123456789") != strlen(folder + 1)))
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

/* Folders of that runtime: images but the one to keep (NAME-HASH or
 * NAME-HASH-N), and, as nobody else holds the lock, what builds and removals
 * left. Owned by caller. */
static size_t images_find(DIR *dir, const char *name, const char *keep,
                          char *ret_found[IMAGES_MAX])
{
    char *left cleanup(mem_free) = xasprintf(".build.%s.", name);
    struct dirent *entry;
    size_t count = 0;

    while (count < IMAGES_MAX && (entry = readdir(dir))) {
        const char *hash = image_hash(entry->d_name, name);

        if (hash ? !keep || strcmp(entry->d_name, keep) != 0
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

/* Links to images of that runtime, which are gone. */
static void remove_links(const struct runtime_flags *p, const char *name)
{
    DIR *dir cleanup(fd_closedir) = opendir(p->cache);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char *dot = strrchr(entry->d_name, '.');

        if (!dot || strcmp(dot, ".current") != 0)
            continue;
        *dot = '\0';
        if (image_hash(entry->d_name, name)) {
            *dot = '.';
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
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
    if (remove_images(
            p, name,
            p->stale && rt.image_path ? strrchr(rt.image_path, '/') + 1 : NULL,
            &count, &err) < 0)
        return cli_fail(c, &err);
    if (!p->stale) {
        cli_runtime_import_forget(p->cache, name);
        remove_links(p, name);
    }
    if (c->json) {
        json_t *answer cleanup(json_unref) = json_pack(
            "{s:s, s:I}", "name", name, "removed", (json_int_t)count);
        cli_print_json(c, answer);
    } else if (count == 0) {
        fprintf(stderr, "%s has no %simage in %s\n", name,
                p->stale ? "outdated " : "", p->cache);
    } else {
        fprintf(stderr, "removed %zu image%s of %s\n", count,
                count == 1 ? "" : "s", name);
    }
    return CLI_EXIT_OK;
}

/* --- import ------------------------------------------------------------ */

static int import_runtime(struct cli *c, const struct cli_words *words,
                          void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    char *name cleanup(mem_free) = NULL;
    struct runtime_flags *p = arg;
    struct error err = {0};

    if (cli_runtime_import(words->items[0], p->name, p->defs, p->cache,
                           p->force, &name, &err) < 0 ||
        conf_runtime_find(p->defs, p->cache, name, &rt, &err) < 0)
        return cli_fail(c, &err);
    object = runtime_json(&rt);
    if (c->json)
        cli_print_json(c, object);
    else
        show_print(&rt, object);
    return CLI_EXIT_OK;
}

/* --- The command ------------------------------------------------------- */

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List runtimes", .run = list_runtimes},
    {"show", NULL, "NAME", "Show a runtime and what its image contains",
     .run = show_runtime},
    {"build", NULL, "NAME|FOLDER", "Build an image", .run = build_runtime},
    {"update", NULL, "NAME", "Build an image again with newer packages",
     .run = update_runtime},
    {"import", NULL, "FILE|DIR", "Make a runtime of a container image",
     .run = import_runtime},
    {"delete", "remove rm", "NAME", "Delete the images of a runtime",
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
     "build again, with today's packages", "build import"},
    {"name", 0, CLI_OPT_TEXT, AT(name), "NAME",
     "name of the runtime; else that of the file or folder", "import"},
    {"stale", 0, CLI_OPT_FLAG, AT(stale), NULL,
     "only images that are no longer in use by new sessions", "delete"},
    {"pip-index", 0, CLI_OPT_TEXT, AT(pip_index), "URL",
     "package index for `pip:` (GLOVEBOX_PIP_INDEX)", "build update"},
    {"wheels", 0, CLI_OPT_TEXT, AT(wheels), "DIR",
     "folder of wheels for `pip:` (GLOVEBOX_PIP_WHEELS)", "build update"},
    {"security-data", 0, CLI_OPT_TEXT, AT(security_data), "FILE",
     "JSON of Debian's security tracker", "build update"},
    {"check", 0, CLI_OPT_FLAG, AT(check), NULL,
     "only look up what is newer and which CVEs are open", "update"},
    {0},
};

const struct cli_command cli_runtime = {
    .name = "runtime",
    .summary = "Build, update, list, show and remove runtime images",
    .notes =
        "A runtime is a folder with a runtime.yaml; docs/RUNTIMES.md\n"
        "describes it. `build` makes its image of Debian's packages, from the\n"
        "archive that this machine's own apt uses, and does nothing when the\n"
        "image exists. A folder given to `build` is kept in the cache, so that\n"
        "pools can name it. An image that is built again (--force, `update`)\n"
        "stands beside the earlier one: a running service takes it for new\n"
        "sessions within seconds, and sessions that run keep theirs. Delete\n"
        "the earlier one with `delete --stale` when they have ended.\n"
        "`import` makes an image of a container image: a tar file of\n"
        "`docker save`, or an OCI layout as a folder or a tar file.\n",
    .options = options,
    .flags_size = sizeof(struct runtime_flags),
    .verbs = verbs,
    .check = find_folders,
    .flags_done = folders_done,
};
