/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime definitions and the place of their images. Linked into the daemon,
 * which looks up what a pool names, and the command line, which lists and
 * builds. Reads operator's files only; never writes, never starts anything.
 */
#include "conf/runtime.h"

#include <ctype.h>
#include <cyaml/cyaml.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "conf/conf_int.h"

/* --- Schema ------------------------------------------------------------ */

static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 1, 512),
};

static const cyaml_schema_field_t file_fields[] = {
    CYAML_FIELD_STRING_PTR("path", CYAML_FLAG_POINTER,
                           struct conf_runtime_file, path, 2, 255),
    CYAML_FIELD_STRING_PTR("content", CYAML_FLAG_POINTER,
                           struct conf_runtime_file, content, 0, 16384),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t file_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct conf_runtime_file,
                        file_fields),
};

#define WORDS(name, flags, min)                                               \
    CYAML_FIELD_SEQUENCE(#name, CYAML_FLAG_POINTER | (flags),                 \
                         struct conf_runtime_def, name, &word_schema, min,    \
                         500)

static const cyaml_schema_field_t def_fields[] = {
    CYAML_FIELD_STRING_PTR("description",
                           CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct conf_runtime_def, description, 0, 200),
    CYAML_FIELD_STRING_PTR("suite", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct conf_runtime_def, suite, 1, 32),
    WORDS(packages, CYAML_FLAG_DEFAULT, 1),
    WORDS(fonts, CYAML_FLAG_OPTIONAL, 0),
    WORDS(preload, CYAML_FLAG_OPTIONAL, 0),
    WORDS(environment, CYAML_FLAG_OPTIONAL, 0),
    CYAML_FIELD_SEQUENCE("files", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                         struct conf_runtime_def, files, &file_schema, 0, 64),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t def_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct conf_runtime_def,
                        def_fields),
};

/* What libcyaml says of an error: the reason, a heading, then the way from
 * the innermost key outwards. The first few lines are worth showing. */
struct complaint {
    char text[240];
    unsigned lines;
};

__attribute__((format(printf, 3, 0))) static void on_cyaml_log(
    cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
    struct complaint *c = ctx;
    size_t used = strlen(c->text);
    char line[160];
    char *text = line;

    (void)level; /* only errors are asked for */
    (void)vsnprintf(line, sizeof(line), fmt, args); /* cut when too long */
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(text, "Load: ", 6) == 0)
        text += 6;
    text += strspn(text, " ");
    if (strncmp(text, "Backtrace", 9) == 0 || c->lines++ >= 4)
        return;
    snprintf(c->text + used, sizeof(c->text) - used, "%s%s", used ? ", " : "",
             text);
}

static void config_init(cyaml_config_t *config, struct complaint *complaint)
{
    *config = (cyaml_config_t){
        .log_fn = complaint ? on_cyaml_log : NULL,
        .log_ctx = complaint,
        .mem_fn = cyaml_mem,
        .log_level = CYAML_LOG_ERROR,
        /* Without aliases a small file cannot grow large. */
        .flags = CYAML_CFG_NO_ALIAS,
    };
}

/* --- Checks the schema cannot make ------------------------------------- */

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

static bool file_path_valid(const char *s)
{
    return s[0] == '/' && word_has_only(s, "/._+@-") && !strstr(s, "//") &&
           !strstr(s, "/.") && s[strlen(s) - 1] != '/';
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

static int def_check(const struct conf_runtime_def *d, struct error *err)
{
    const struct {
        const char *key;
        char **words;
        unsigned count;
        bool (*valid)(const char *);
        const char *want;
    } rows[] = {
        {"packages", d->packages, d->packages_count, package_valid,
         "the name of a Debian package"},
        {"fonts", d->fonts, d->fonts_count, package_valid,
         "the name of a Debian package"},
        {"preload", d->preload, d->preload_count, module_valid,
         "the name of a Python module"},
        {"environment", d->environment, d->environment_count,
         environment_valid, "of the form NAME=VALUE"},
    };
    int r;

    if (!package_valid(d->suite))
        return error_set(err, ERR_INVALID, "suite: '%.40s' is not a suite",
                         d->suite);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        r = words_check(rows[i].key, rows[i].words, rows[i].count,
                        rows[i].valid, rows[i].want, err);
        if (r < 0)
            return r;
    }
    for (unsigned i = 0; i < d->files_count; i++)
        if (!file_path_valid(d->files[i].path))
            return error_set(err, ERR_INVALID,
                             "files: '%.80s' is not an absolute path of plain "
                             "characters",
                             d->files[i].path);
    return 0;
}

/* --- Reading ----------------------------------------------------------- */

void conf_runtime_def_free(struct conf_runtime_def *def)
{
    cyaml_config_t config;

    config_init(&config, NULL);
    (void)cyaml_free(&config, &def_schema, def, 0); /* fails on our bugs */
}

static void def_done(struct conf_runtime_def **def)
{
    conf_runtime_def_free(*def);
}

int conf_runtime_parse(const char *text, size_t len,
                       struct conf_runtime_def **ret, struct error *err)
{
    struct conf_runtime_def *def cleanup(def_done) = NULL;
    struct complaint complaint = {0};
    cyaml_config_t config;
    cyaml_err_t e;
    int r;

    if (len > CONF_RUNTIME_FILE)
        return error_set(err, ERR_TOO_LARGE,
                         "a runtime definition may have %d bytes",
                         CONF_RUNTIME_FILE);
    config_init(&config, &complaint);
    e = cyaml_load_data((const uint8_t *)text, len, &config, &def_schema,
                        (cyaml_data_t **)&def, NULL);
    if (e != CYAML_OK || !def)
        return error_set(err, ERR_INVALID, "not a runtime definition: %s",
                         complaint.text[0] ? complaint.text
                                           : cyaml_strerror(e));
    /* Freed along with the rest by libcyaml, whose allocator is malloc. */
    if (!def->suite)
        def->suite = xstrdup("trixie");
    if (!def->description)
        def->description = xstrdup("");
    r = def_check(def, err);
    if (r < 0)
        return r;
    *ret = take_ptr(def);
    return 0;
}

static void plan_words(struct buf *b, const char *kind, char **words,
                       unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        buf_addf(b, "%s %s\n", kind, words[i]);
}

char *conf_runtime_plan(const struct conf_runtime_def *def, size_t *ret_len)
{
    struct buf b;

    buf_init(&b);
    buf_addf(&b, "builder %d\nsuite %s\n", CONF_RUNTIME_BUILDER, def->suite);
    plan_words(&b, "package", def->packages, def->packages_count);
    plan_words(&b, "font", def->fonts, def->fonts_count);
    plan_words(&b, "preload", def->preload, def->preload_count);
    plan_words(&b, "environment", def->environment, def->environment_count);
    for (unsigned i = 0; i < def->files_count; i++) {
        buf_addf(&b, "file %s ", def->files[i].path);
        for (const char *p = def->files[i].content; *p; p++) {
            if (*p == '\\')
                buf_adds(&b, "\\\\");
            else if (*p == '\n')
                buf_adds(&b, "\\n");
            else
                buf_add(&b, p, 1);
        }
        buf_adds(&b, "\n");
    }
    return buf_take(&b, ret_len);
}

static void def_hash(const struct conf_runtime_def *def,
                     char ret_hex[CONF_RUNTIME_HASH + 1])
{
    unsigned char digest[HASH_SIZE];
    size_t len;
    char *plan cleanup(mem_free) = conf_runtime_plan(def, &len);

    hash_sha256(plan, len, digest);
    for (int i = 0; i < CONF_RUNTIME_HASH / 2; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}

/* --- Finding ----------------------------------------------------------- */

int conf_runtime_find(const char *defs_dir, const char *cache_dir,
                      const char *name, struct conf_runtime *ret,
                      struct error *err)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    char *text cleanup(mem_free) = NULL;
    size_t len;
    int r;

    if (!conf_runtime_name_valid(name))
        return error_set(err, ERR_INVALID,
                         "a runtime's name has 1 to %d of a-z, 0-9 and '-'",
                         CONF_RUNTIME_NAME);
    snprintf(rt.name, sizeof(rt.name), "%s", name);
    rt.definition_path = xasprintf("%s/%s/runtime.yaml", defs_dir, name);
    r = fd_read_file(AT_FDCWD, rt.definition_path, CONF_RUNTIME_FILE, &text,
                     &len);
    if (r == -ENOENT || r == -ENOTDIR)
        return error_set(err, ERR_NOT_FOUND, "there is no runtime '%s'", name);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read %s",
                           rt.definition_path);
    r = conf_runtime_parse(text, len, &rt.def, err);
    if (r < 0)
        return error_wrap(err, "runtime %s", name);
    def_hash(rt.def, rt.hash);
    rt.image_path = xasprintf("%s/%s-%s", cache_dir, name, rt.hash);
    rt.root_path = xasprintf("%s/root", rt.image_path);
    rt.manifest_path = xasprintf("%s/manifest.json", rt.image_path);
    rt.built = access(rt.manifest_path, R_OK) == 0;
    *ret = rt;
    memset(&rt, 0, sizeof(rt)); /* handed on whole */
    return 0;
}

void conf_runtime_done(struct conf_runtime *rt)
{
    conf_runtime_def_free(rt->def);
    free(rt->definition_path);
    free(rt->image_path);
    free(rt->root_path);
    free(rt->manifest_path);
    memset(rt, 0, sizeof(*rt));
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int conf_runtime_names(const char *defs_dir, char ***ret_names,
                       struct error *err)
{
    char **names cleanup(conf_runtime_names_free) =
        xcalloc(CONF_RUNTIME_COUNT + 1, sizeof(*names));
    DIR *dir cleanup(fd_closedir) = opendir(defs_dir);
    struct dirent *entry;
    size_t count = 0;

    if (!dir)
        return error_errno(err, ERR_NOT_FOUND, errno, "cannot open %s",
                           defs_dir);
    while ((entry = readdir(dir))) {
        char path[CONF_RUNTIME_NAME + sizeof("/runtime.yaml")];

        if (!conf_runtime_name_valid(entry->d_name))
            continue;
        snprintf(path, sizeof(path), "%.*s/runtime.yaml", CONF_RUNTIME_NAME,
                 entry->d_name);
        if (faccessat(dirfd(dir), path, F_OK, 0) < 0)
            continue;
        if (count == CONF_RUNTIME_COUNT)
            return error_set(err, ERR_LIMIT, "%s holds more than %d runtimes",
                             defs_dir, CONF_RUNTIME_COUNT);
        names[count++] = xstrdup(entry->d_name);
    }
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
