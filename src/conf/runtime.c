/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime definitions and the place of their images. Linked into the daemon,
 * which looks up what a pool names, and the command line, which lists and
 * builds. Reads operator's files only; never writes, never starts anything.
 */
#include "conf/runtime.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "conf/conf_int.h"
#include "yaml/yaml.h"

/* --- The shape ---------------------------------------------------------- */

enum shape_kind {
    SHAPE_TEXT,
    SHAPE_WORDS, /* a list of texts */
    SHAPE_ITEMS, /* a list of texts or struct conf_runtime_item */
    SHAPE_FILES, /* a list of struct conf_runtime_file */
    SHAPE_BOOL,
};

/* A key, where its value goes, and how long it may be: of a text in bytes, of
 * a list in entries. */
struct shape {
    const char *key;
    enum shape_kind kind;
    size_t at, count_at;
    size_t min, max;
    bool needed;
};

#define WORD_MAX 512u

#define TEXT(type, member)                                                    \
#member, SHAPE_TEXT, offsetof(struct type, member), 0
#define LIST(member, kind)                                                    \
#member, kind, offsetof(struct conf_runtime_def, member),                 \
        offsetof(struct conf_runtime_def, member##_count)

static const struct shape def_shape[] = {
    {TEXT(conf_runtime_def, description), 0, 200, false},
    {TEXT(conf_runtime_def, from), 1, CONF_RUNTIME_NAME, false},
    {TEXT(conf_runtime_def, suite), 1, 32, false},
    {TEXT(conf_runtime_def, image), 71, 71, false},
    {LIST(also, SHAPE_WORDS), 0, 4, false},
    {LIST(packages, SHAPE_ITEMS), 0, 2000, false},
    {LIST(fonts, SHAPE_ITEMS), 0, 500, false},
    {LIST(pip, SHAPE_ITEMS), 0, 500, false},
    {TEXT(conf_runtime_def, wheels), 1, 255, false},
    {LIST(npm, SHAPE_ITEMS), 0, 500, false},
    {"preload", SHAPE_ITEMS, offsetof(struct conf_runtime_def, imports),
     offsetof(struct conf_runtime_def, imports_count), 0, 500, false},
    {LIST(environment, SHAPE_WORDS), 0, 500, false},
    {LIST(files, SHAPE_FILES), 0, 64, false},
};

static const struct shape item_shape[] = {
    {TEXT(conf_runtime_item, name), 1, WORD_MAX, true},
    {TEXT(conf_runtime_item, suite), 1, 32, false},
    {"optional", SHAPE_BOOL, offsetof(struct conf_runtime_item, optional), 0,
     0, 0, false},
};

static const struct shape file_shape[] = {
    {TEXT(conf_runtime_file, path), 2, 255, true},
    {TEXT(conf_runtime_file, content), 0, 16384, false},
    {TEXT(conf_runtime_file, source), 1, 255, false},
    {TEXT(conf_runtime_file, mode), 3, 4, false},
};

/* Arguments of read_map that stay the same. */
struct shape_reader {
    struct arena *room;
    struct error *err;
};

__attribute__((format(printf, 3, 4))) static int shape_fault(
    const struct shape_reader *r, unsigned line, const char *fmt, ...)
{
    char text[160];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args); /* may cut */
    va_end(args);
    return error_set(r->err, ERR_INVALID,
                     "not a runtime definition: line %u: %s", line, text);
}

static int read_text(const struct shape_reader *r, const struct yaml_node *n,
                     const char *key, size_t min, size_t max, char **ret)
{
    if (n->kind != NODE_SCALAR)
        return shape_fault(r, n->line, "%s must be text", key);
    if (n->len < min || n->len > max)
        return shape_fault(r, n->line, "%s must have %zu to %zu bytes", key,
                           min, max);
    *ret = arena_strndup(r->room, n->text, n->len);
    return 0;
}

static int read_map(const struct shape_reader *r, const struct yaml_node *map,
                    const struct shape *shapes, size_t count, void *base);

static size_t element_size(enum shape_kind kind)
{
    return kind == SHAPE_FILES   ? sizeof(struct conf_runtime_file)
           : kind == SHAPE_ITEMS ? sizeof(struct conf_runtime_item)
                                 : sizeof(char *);
}

static int read_element(const struct shape_reader *r,
                        const struct yaml_node *n, const struct shape *s,
                        void *element)
{
    if (s->kind == SHAPE_FILES)
        return read_map(r, n, file_shape, ARRAY_SIZE(file_shape), element);
    if (s->kind == SHAPE_ITEMS && n->kind == NODE_MAP)
        return read_map(r, n, item_shape, ARRAY_SIZE(item_shape), element);
    /* The name of an item is its first member. */
    return read_text(r, n, s->key, 1, WORD_MAX, (char **)element);
}

static int read_list(const struct shape_reader *r, const struct yaml_node *n,
                     const struct shape *s, void *base)
{
    size_t size = element_size(s->kind);
    char *element;
    int rc = 0;

    if (n->kind != NODE_LIST || n->count < s->min || n->count > s->max)
        return shape_fault(r, n->line, "%s must be a list of %zu to %zu",
                           s->key, s->min, s->max);
    element = arena_alloc(r->room, (n->count + 1) * size);
    memcpy((char *)base + s->at, &(void *){element}, sizeof(void *));
    *(unsigned *)(void *)((char *)base + s->count_at) = (unsigned)n->count;
    for (const struct yaml_node *i = n->first; rc == 0 && i; i = i->next) {
        rc = read_element(r, i, s, element);
        element += size;
    }
    return rc;
}

static int read_bool(const struct shape_reader *r, const struct yaml_node *n,
                     const char *key, bool *ret)
{
    bool yes = n->kind == NODE_SCALAR && strcmp(n->text, "true") == 0;

    if (!yes && (n->kind != NODE_SCALAR || strcmp(n->text, "false") != 0))
        return shape_fault(r, n->line, "%s must be true or false", key);
    *ret = yes;
    return 0;
}

static int read_map(const struct shape_reader *r, const struct yaml_node *map,
                    const struct shape *shapes, size_t count, void *base)
{
    int rc = 0;

    if (map->kind != NODE_MAP)
        return shape_fault(r, map->line, "a mapping is expected here");
    for (const struct yaml_node *n = map->first; rc == 0 && n; n = n->next) {
        const struct shape *s = shapes;

        while (s < shapes + count && strcmp(s->key, n->key) != 0)
            s++;
        if (s == shapes + count)
            rc = shape_fault(r, n->key_line, "unknown key \"%.64s\"", n->key);
        else if (s->kind == SHAPE_TEXT)
            rc = read_text(r, n, s->key, s->min, s->max,
                           (char **)(void *)((char *)base + s->at));
        else if (s->kind == SHAPE_BOOL)
            rc = read_bool(r, n, s->key,
                           (bool *)(void *)((char *)base + s->at));
        else
            rc = read_list(r, n, s, base);
    }
    for (size_t i = 0; rc == 0 && i < count; i++)
        if (shapes[i].needed && !yaml_get(map, shapes[i].key))
            rc = shape_fault(r, map->line, "%s is missing", shapes[i].key);
    return rc;
}

/* --- The values -------------------------------------------------------- */

static bool word_has_only(const char *s, const char *extra)
{
    for (; *s; s++)
        if (!isascii(*s) || (!isalnum(*s) && !strchr(extra, *s)))
            return false;
    return true;
}

bool conf_runtime_name_valid(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return len >= 1 && len <= CONF_RUNTIME_NAME && !name[len] &&
           name[0] != '-';
}

static bool package_valid(const char *s)
{
    return (islower(*s) || isdigit(*s)) && strlen(s) <= 100 &&
           word_has_only(s, "+.-");
}

static bool module_valid(const char *s)
{
    bool start = true; /* of a part between dots */

    for (; *s; s++) {
        if (!isascii(*s) || (!isalnum(*s) && *s != '_' && *s != '.'))
            return false;
        if (start && (*s == '.' || isdigit(*s)))
            return false;
        start = *s == '.';
    }
    return !start;
}

static bool environment_valid(const char *s)
{
    const char *value = strchr(s, '=');

    if (!value || value == s || isdigit(*s))
        return false;
    for (const char *p = s; p < value; p++)
        if (!isascii(*p) || (!isalnum(*p) && *p != '_'))
            return false;
    for (const char *p = value; *p; p++)
        if (iscntrl((unsigned char)*p))
            return false;
    return true;
}

bool conf_runtime_environment_valid(const char *text)
{
    return strlen(text) <= WORD_MAX && environment_valid(text);
}

static bool file_path_valid(const char *s)
{
    return s[0] == '/' && word_has_only(s, "/._+@-") && !strstr(s, "//") &&
           !strstr(s, "/.") && s[strlen(s) - 1] != '/';
}

/* Of a folder or file beside the definition. */
static bool source_valid(const char *s)
{
    return *s != '/' && *s != '.' && word_has_only(s, "/._+@-") &&
           !strstr(s, "//") && !strstr(s, "/.") && s[strlen(s) - 1] != '/';
}

/* NAME, NAME[EXTRA] and a version, as pip reads it, without addresses. */
static bool requirement_valid(const char *s)
{
    return isascii(*s) && isalnum(*s) && strlen(s) <= 200 &&
           word_has_only(s, "._-[],=<>!~+*");
}

/* NAME@VERSION, @SCOPE/NAME, or a folder beside the definition: ./NAME. */
static bool npm_valid(const char *s)
{
    if (strncmp(s, "./", 2) == 0)
        return source_valid(s + 2);
    return isascii(*s) && (isalnum(*s) || *s == '@') && strlen(s) <= 214 &&
           word_has_only(s, "@/._^~-") && !strstr(s, "//") && !strstr(s, "..");
}

static bool mode_valid(const char *s)
{
    return strspn(s, "01234567") == strlen(s) &&
           (strlen(s) == 3 || s[0] == '0');
}

static int items_check(const char *key, const struct conf_runtime_item *items,
                       unsigned count, bool (*valid)(const char *),
                       const char *want, bool suites, struct error *err)
{
    for (unsigned i = 0; i < count; i++) {
        if (!valid(items[i].name))
            return error_set(err, ERR_INVALID, "%s: '%.80s' is not %s", key,
                             items[i].name, want);
        if (items[i].suite && (!suites || !package_valid(items[i].suite)))
            return error_set(err, ERR_INVALID, "%s: '%.80s' %s", key,
                             items[i].name,
                             suites ? "names something that is not a suite"
                                    : "has no suite: only packages have");
    }
    return 0;
}

static int words_check(const char *key, char **words, unsigned count,
                       bool (*valid)(const char *), const char *want,
                       struct error *err)
{
    for (unsigned i = 0; i < count; i++)
        if (!valid(words[i]))
            return error_set(err, ERR_INVALID, "%s: '%.80s' is not %s", key,
                             words[i], want);
    return 0;
}

static int file_check(const struct conf_runtime_file *f, struct error *err)
{
    if (!file_path_valid(f->path))
        return error_set(err, ERR_INVALID,
                         "files: '%.80s' is not an absolute path of plain "
                         "characters",
                         f->path);
    if (!f->content == !f->source)
        return error_set(err, ERR_INVALID,
                         "files: '%.80s' must have content or source, one of "
                         "the two",
                         f->path);
    if (f->source && !source_valid(f->source))
        return error_set(err, ERR_INVALID,
                         "files: '%.80s' is not a file beside the definition",
                         f->source);
    if (!mode_valid(f->mode))
        return error_set(err, ERR_INVALID,
                         "files: '%.8s' is not a mode of three octal digits",
                         f->mode);
    return 0;
}

static int def_check(const struct conf_runtime_def *d, struct error *err)
{
    static const char package[] = "the name of a Debian package";
    const struct {
        const char *key;
        const struct conf_runtime_item *items;
        unsigned count;
        bool (*valid)(const char *);
        const char *want;
        bool suites;
    } rows[] = {
        {"packages", d->packages, d->packages_count, package_valid, package,
         true},
        {"fonts", d->fonts, d->fonts_count, package_valid, package, true},
        {"pip", d->pip, d->pip_count, requirement_valid,
         "a Python requirement without an address", false},
        {"npm", d->npm, d->npm_count, npm_valid,
         "an npm package without an address, or ./FOLDER", false},
        {"preload", d->imports, d->imports_count, module_valid,
         "the name of a Python module", false},
    };
    int r;

    if (!package_valid(d->suite))
        return error_set(err, ERR_INVALID, "suite: '%.40s' is not a suite",
                         d->suite);
    if (d->from && !conf_runtime_name_valid(d->from))
        return error_set(err, ERR_INVALID, "from: '%.40s' is not a runtime",
                         d->from);
    if (!d->from && !d->image[0] && d->packages_count == 0)
        return error_set(err, ERR_INVALID,
                         "packages: a runtime without `from` needs some");
    if (d->wheels && !source_valid(d->wheels))
        return error_set(err, ERR_INVALID,
                         "wheels: '%.80s' is not a folder beside the "
                         "definition",
                         d->wheels);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        r = items_check(rows[i].key, rows[i].items, rows[i].count,
                        rows[i].valid, rows[i].want, rows[i].suites, err);
        if (r < 0)
            return r;
    }
    r = words_check("also", d->also, d->also_count, package_valid, "a suite",
                    err);
    if (r == 0)
        r = words_check("environment", d->environment, d->environment_count,
                        environment_valid, "of the form NAME=VALUE", err);
    for (unsigned i = 0; r == 0 && i < d->files_count; i++)
        r = file_check(&d->files[i], err);
    return r;
}

/* --- Reading ----------------------------------------------------------- */

void conf_runtime_def_free(struct conf_runtime_def *def)
{
    if (!def)
        return;
    arena_free(def->room);
    free(def);
}

static void def_done(struct conf_runtime_def **def)
{
    conf_runtime_def_free(*def);
}

static void set_defaults(struct conf_runtime_def *def)
{
    if (!def->suite)
        def->suite = arena_strdup(def->room, "trixie");
    for (unsigned i = 0; i < def->files_count; i++)
        if (!def->files[i].mode)
            def->files[i].mode = arena_strdup(def->room, "0644");
    def->preload =
        arena_alloc(def->room, (def->imports_count + 1) * sizeof(char *));
    for (unsigned i = 0; i < def->imports_count; i++)
        def->preload[i] = def->imports[i].name;
    def->preload_count = def->imports_count;
}

int conf_runtime_parse(const char *text, size_t len,
                       struct conf_runtime_def **ret, struct error *err)
{
    struct conf_runtime_def *def cleanup(def_done) = NULL;
    struct shape_reader reader = {.err = err};
    struct yaml_node *root = NULL;
    unsigned line = 1;
    int r;

    if (len > CONF_RUNTIME_FILE)
        return error_set(err, ERR_TOO_LARGE,
                         "a runtime definition may have %d bytes",
                         CONF_RUNTIME_FILE);
    def = xcalloc(1, sizeof(*def));
    reader.room = def->room = arena_new();
    def->description = arena_strdup(def->room, "");
    def->image = arena_strdup(def->room, "");
    if (yaml_read(def->room, text, len, &root, &line, err) < 0)
        return error_wrap(err, "not a runtime definition: line %u", line);
    if (!root)
        return shape_fault(&reader, 1, "there is nothing in it");
    r = read_map(&reader, root, def_shape, ARRAY_SIZE(def_shape), def);
    if (r == 0 && def->from && (def->suite || def->also_count))
        r = error_set(err, ERR_INVALID,
                      "suite, also: a runtime with `from` has those of '%s'",
                      def->from);
    if (r == 0) {
        set_defaults(def);
        r = def_check(def, err);
    }
    if (r < 0)
        return r;
    *ret = take_ptr(def);
    return 0;
}

/* --- The plan ---------------------------------------------------------- */

static void short_hash(const void *data, size_t len,
                       char ret_hex[CONF_RUNTIME_HASH + 1])
{
    unsigned char digest[HASH_SIZE];

    hash_sha256(data, len, digest);
    for (int i = 0; i < CONF_RUNTIME_HASH / 2; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}

static void plan_items(struct buf *b, const char *kind,
                       const struct conf_runtime_item *items, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        buf_addf(b, "%s %s%s%s%s\n", kind, items[i].name,
                 items[i].suite ? " suite=" : "",
                 items[i].suite ? items[i].suite : "",
                 items[i].optional ? " optional" : "");
}

static void plan_words(struct buf *b, const char *kind, char **words,
                       unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        buf_addf(b, "%s %s\n", kind, words[i]);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Names, sizes and times of what is at folder/source: reading all contents
 * would take too long for who only looks a runtime up. */
static int source_digest(const char *folder, const char *source,
                         char ret_hex[CONF_RUNTIME_HASH + 1],
                         struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", folder, source);
    struct buf seen cleanup(buf_done) = {0};
    FTS *walk = fts_open((char *[]){path, NULL},
                         FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, by_name);
    unsigned count = 0;
    FTSENT *e;
    int r = 0;

    if (!walk)
        return error_errno(err, ERR_INVALID, errno, "cannot read %s", path);
    while (r == 0 && (e = fts_read(walk))) {
        if (e->fts_info == FTS_D || e->fts_info == FTS_DP)
            continue;
        if (e->fts_info != FTS_F)
            r = error_set(err, ERR_INVALID, "%s: %s", e->fts_path,
                          e->fts_info == FTS_NS || e->fts_info == FTS_DNR
                              ? strerror(e->fts_errno)
                              : "neither a file nor a folder");
        else if (++count > CONF_RUNTIME_SOURCES)
            r = error_set(err, ERR_LIMIT, "%s has more than %d files", path,
                          CONF_RUNTIME_SOURCES);
        else
            buf_addf(&seen, "%s %lld %lld\n", e->fts_path + strlen(folder),
                     (long long)e->fts_statp->st_size,
                     (long long)e->fts_statp->st_mtime);
    }
    (void)fts_close(walk);
    if (r == 0)
        short_hash(seen.data, seen.len, ret_hex);
    return r;
}

/* A line for each thing beside the definition: KIND SOURCE DIGEST. */
static int plan_source(struct buf *b, const char *kind, const char *source,
                       const char *folder, struct error *err)
{
    char hex[CONF_RUNTIME_HASH + 1] = "";
    int r = folder ? source_digest(folder, source, hex, err) : 0;

    if (r == 0)
        buf_addf(b, "%s %s %s\n", kind, source, hex);
    return r;
}

static void plan_file(struct buf *b, const struct conf_runtime_file *f)
{
    if (f->source) {
        buf_addf(b, "copy %s %s %s\n", f->mode, f->path, f->source);
        return;
    }
    buf_addf(b, "file %s %s ", f->mode, f->path);
    for (const char *p = f->content; *p; p++) {
        if (*p == '\\')
            buf_adds(b, "\\\\");
        else if (*p == '\n')
            buf_adds(b, "\\n");
        else
            buf_add(b, p, 1);
    }
    buf_adds(b, "\n");
}

int conf_runtime_plan(const struct conf_runtime_def *def, const char *base,
                      const char *folder, char **ret, struct error *err)
{
    struct buf b cleanup(buf_done) = {0};
    int r = 0;

    buf_addf(&b, "builder %d\nsuite %s\n", CONF_RUNTIME_BUILDER, def->suite);
    if (base)
        buf_addf(&b, "from %s\n", base);
    if (def->image[0])
        buf_addf(&b, "image %s\n", def->image);
    plan_words(&b, "also", def->also, def->also_count);
    plan_items(&b, "package", def->packages, def->packages_count);
    plan_items(&b, "font", def->fonts, def->fonts_count);
    plan_items(&b, "pip", def->pip, def->pip_count);
    plan_items(&b, "npm", def->npm, def->npm_count);
    plan_items(&b, "preload", def->imports, def->imports_count);
    plan_words(&b, "environment", def->environment, def->environment_count);
    for (unsigned i = 0; i < def->files_count; i++)
        plan_file(&b, &def->files[i]);
    if (def->wheels)
        r = plan_source(&b, "wheels", def->wheels, folder, err);
    for (unsigned i = 0; r == 0 && i < def->files_count; i++)
        if (def->files[i].source)
            r = plan_source(&b, "source", def->files[i].source, folder, err);
    for (unsigned i = 0; r == 0 && i < def->npm_count; i++)
        if (strncmp(def->npm[i].name, "./", 2) == 0)
            r = plan_source(&b, "source", def->npm[i].name + 2, folder, err);
    if (r == 0)
        *ret = buf_take(&b, NULL);
    return r;
}

/* --- Finding ----------------------------------------------------------- */

char *conf_runtime_kept_dir(const char *cache_dir)
{
    return xasprintf("%s/" CONF_RUNTIME_KEPT, cache_dir);
}

/* Reads the definition of rt->name into rt->def and rt->definition_path. */
static int read_definition(const char *defs_dir, const char *cache_dir,
                           struct conf_runtime *rt, struct error *err)
{
    char *kept cleanup(mem_free) = conf_runtime_kept_dir(cache_dir);
    const char *const places[] = {defs_dir, kept};
    char *text cleanup(mem_free) = NULL;
    size_t len;
    int r = -ENOENT;

    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        free(rt->definition_path);
        rt->definition_path =
            xasprintf("%s/%s/runtime.yaml", places[i], rt->name);
        r = fd_read_file(AT_FDCWD, rt->definition_path, CONF_RUNTIME_FILE,
                         &text, &len);
        if (r != -ENOENT && r != -ENOTDIR)
            break;
    }
    if (r == -ENOENT || r == -ENOTDIR)
        return error_set(err, ERR_NOT_FOUND, "there is no runtime '%s'",
                         rt->name);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read %s",
                           rt->definition_path);
    r = conf_runtime_parse(text, len, &rt->def, err);
    if (r < 0)
        return error_wrap(err, "runtime %s", rt->name);
    return 0;
}

static bool same_variable(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");

    return strncmp(a, b, len + 1) == 0;
}

/* The zygote's environment: that of the base, then our own. */
static void inherit(struct conf_runtime_def *def,
                    const struct conf_runtime_def *base)
{
    unsigned total = base->preload_count + def->preload_count;
    char **preload = arena_alloc(def->room, (total + 1) * sizeof(char *));
    char **environment;
    unsigned count = 0;

    for (unsigned i = 0; i < base->preload_count; i++)
        preload[count++] = arena_strdup(def->room, base->preload[i]);
    for (unsigned i = 0; i < def->preload_count; i++)
        preload[count++] = def->preload[i];
    def->preload = preload;
    def->preload_count = count;

    total = base->environment_count + def->environment_count;
    environment = arena_alloc(def->room, (total + 1) * sizeof(char *));
    count = 0;
    for (unsigned i = 0; i < base->environment_count; i++) {
        bool replaced = false;

        for (unsigned k = 0; k < def->environment_count; k++)
            replaced |=
                same_variable(base->environment[i], def->environment[k]);
        if (!replaced)
            environment[count++] =
                arena_strdup(def->room, base->environment[i]);
    }
    for (unsigned i = 0; i < def->environment_count; i++)
        environment[count++] = def->environment[i];
    def->environment = environment;
    def->environment_count = count;
    def->suite = arena_strdup(def->room, base->suite);
    def->also_count = base->also_count;
    def->also = arena_alloc(def->room, (def->also_count + 1) * sizeof(char *));
    for (unsigned i = 0; i < def->also_count; i++)
        def->also[i] = arena_strdup(def->room, base->also[i]);
}

static int find_at(const char *defs_dir, const char *cache_dir,
                   const char *name, unsigned depth, struct conf_runtime *ret,
                   struct error *err);

/* Also makes the plan: it has what the definition itself says, and of the
 * base the hash. */
static int find_base(const char *defs_dir, const char *cache_dir,
                     unsigned depth, struct conf_runtime *rt,
                     struct error *err)
{
    struct conf_runtime base cleanup(conf_runtime_done) = {.built = false};
    char *folder cleanup(mem_free) = xstrdup(rt->definition_path);
    char *id cleanup(mem_free) = NULL;
    int r;

    *strrchr(folder, '/') = '\0';
    if (rt->def->from) {
        if (depth == CONF_RUNTIME_DEPTH)
            return error_set(err, ERR_INVALID,
                             "runtime %s: `from` leads through more than %d "
                             "definitions, or back to itself",
                             rt->name, CONF_RUNTIME_DEPTH);
        r = find_at(defs_dir, cache_dir, rt->def->from, depth + 1, &base, err);
        if (r < 0)
            return error_wrap(err, "runtime %s: from", rt->name);
        id = xasprintf("%s-%s", base.name, base.hash);
        rt->base_image_path = take_ptr(base.image_path);
        rt->def->suite = arena_strdup(rt->def->room, base.def->suite);
    }
    r = conf_runtime_plan(rt->def, id, folder, &rt->plan, err);
    if (r < 0)
        return error_wrap(err, "runtime %s", rt->name);
    if (base.def)
        inherit(rt->def, base.def);
    return 0;
}

/* The image in use: the one that NAME-HASH.current names, else NAME-HASH. */
static char *image_of(const char *cache_dir, const struct conf_runtime *rt)
{
    char *plain cleanup(mem_free) = xasprintf("%s-%s", rt->name, rt->hash);
    char *link cleanup(mem_free) =
        xasprintf("%s/%s.current", cache_dir, plain);
    char named[CONF_RUNTIME_NAME + CONF_RUNTIME_HASH + 16];
    size_t len = strlen(plain);
    ssize_t n = readlink(link, named, sizeof(named) - 1);

    if (n > (ssize_t)len + 1) {
        named[n] = '\0';
        if (strncmp(named, plain, len) == 0 && named[len] == '-' &&
            strspn(named + len + 1, "0123456789") == (size_t)n - len - 1)
            return xasprintf("%s/%s", cache_dir, named);
    }
    return xasprintf("%s/%s", cache_dir, plain);
}

static int find_at(const char *defs_dir, const char *cache_dir,
                   const char *name, unsigned depth, struct conf_runtime *ret,
                   struct error *err)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    int r;

    if (!conf_runtime_name_valid(name))
        return error_set(err, ERR_INVALID,
                         "a runtime's name has 1 to %d of a-z, 0-9 and '-'",
                         CONF_RUNTIME_NAME);
    snprintf(rt.name, sizeof(rt.name), "%s", name);
    r = read_definition(defs_dir, cache_dir, &rt, err);
    if (r == 0)
        r = find_base(defs_dir, cache_dir, depth, &rt, err);
    if (r < 0)
        return r;
    short_hash(rt.plan, strlen(rt.plan), rt.hash);
    rt.image_path = image_of(cache_dir, &rt);
    rt.root_path = xasprintf("%s/root", rt.image_path);
    rt.manifest_path = xasprintf("%s/manifest.json", rt.image_path);
    rt.built = access(rt.manifest_path, R_OK) == 0;
    *ret = rt;
    memset(&rt, 0, sizeof(rt)); /* handed on whole */
    return 0;
}

int conf_runtime_find(const char *defs_dir, const char *cache_dir,
                      const char *name, struct conf_runtime *ret,
                      struct error *err)
{
    return find_at(defs_dir, cache_dir, name, 0, ret, err);
}

void conf_runtime_done(struct conf_runtime *rt)
{
    conf_runtime_def_free(rt->def);
    free(rt->plan);
    free(rt->definition_path);
    free(rt->base_image_path);
    free(rt->image_path);
    free(rt->root_path);
    free(rt->manifest_path);
    memset(rt, 0, sizeof(*rt));
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_name(char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* -errno when the folder cannot be opened. */
static int add_names(const char *folder, char **names, size_t *count,
                     struct error *err)
{
    DIR *dir cleanup(fd_closedir) = opendir(folder);
    struct dirent *entry;

    if (!dir)
        return error_errno(err, ERR_NOT_FOUND, errno, "cannot open %s",
                           folder);
    while ((entry = readdir(dir))) {
        char path[CONF_RUNTIME_NAME + sizeof("/runtime.yaml")];

        if (!conf_runtime_name_valid(entry->d_name) ||
            has_name(names, *count, entry->d_name))
            continue;
        snprintf(path, sizeof(path), "%.*s/runtime.yaml", CONF_RUNTIME_NAME,
                 entry->d_name);
        if (faccessat(dirfd(dir), path, F_OK, 0) < 0)
            continue;
        if (*count == CONF_RUNTIME_COUNT)
            return error_set(err, ERR_LIMIT, "there are more than %d runtimes",
                             CONF_RUNTIME_COUNT);
        names[(*count)++] = xstrdup(entry->d_name);
    }
    return 0;
}

int conf_runtime_names(const char *defs_dir, const char *cache_dir,
                       char ***ret_names, struct error *err)
{
    char **names cleanup(conf_runtime_names_free) =
        xcalloc(CONF_RUNTIME_COUNT + 1, sizeof(*names));
    size_t count = 0;
    int r = add_names(defs_dir, names, &count, err);

    if (r == 0 && cache_dir) {
        char *kept cleanup(mem_free) = conf_runtime_kept_dir(cache_dir);
        struct error ignored;

        /* A cache without definitions has no such folder. */
        if (access(kept, F_OK) == 0)
            (void)add_names(kept, names, &count, &ignored);
    }
    if (r < 0)
        return r;
    qsort(names, count, sizeof(*names), name_compare);
    *ret_names = take_ptr(names);
    return 0;
}

void conf_runtime_names_free(char ***names)
{
    for (char **p = *names; p && *p; p++)
        free(*p);
    free(*names);
}

/* --- Places ------------------------------------------------------------ */

/* The option's own variable, as the daemon reads it, or its default. */
static char *place(const char *variable, char *(*otherwise)(void))
{
    const char *told = getenv(variable);

    return told && *told ? xstrdup(told) : otherwise();
}

char *conf_runtime_defs_dir(void)
{
    return place("GLOVEBOX_RUNTIME_DEFS", conf_places_definitions);
}

char *conf_runtime_cache_dir(void)
{
    return place("GLOVEBOX_RUNTIME_DIR", conf_places_runtimes);
}

int conf_runtime_builder(char **ret_path, struct error *err)
{
    static const char *const beside[] = {
        "../libexec/glovebox/runtime-build", /* PREFIX/bin */
        "../../tools/runtime-build",         /* build/bin of a clone */
    };
    const char *told = getenv("GLOVEBOX_RUNTIME_BUILD");
    char exe[PATH_MAX];
    ssize_t n;

    if (told && *told) {
        *ret_path = xstrdup(told);
        return 0;
    }
    n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n < 0)
        return error_errno(err, ERR_INTERNAL, errno, "/proc/self/exe");
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", exe, beside[i]);
        char *real cleanup(mem_free) = realpath(path, NULL);

        if (real && access(real, X_OK) == 0) {
            *ret_path = take_ptr(real);
            return 0;
        }
    }
    error_set(err, ERR_NOT_FOUND, "runtime-build is not beside %s", exe);
    return error_hint(err, "set GLOVEBOX_RUNTIME_BUILD to its path");
}
