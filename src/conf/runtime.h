/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime images. A definition is runtimes/NAME/runtime.yaml; an image is
 * CACHE/NAME-HASH/, where HASH comes from the definition, those it is derived
 * from and the builder's number, so that a changed definition is another image
 * and an unchanged one is found by every data directory:
 *
 *     root/           the root file system
 *     manifest.json   what is in it, and what could not be installed
 *     packages.tsv    every Debian package: name, version, architecture,
 *                     source package and its version
 *     sbom.spdx.json  the bill of materials, SPDX 2.3
 *     security.json   open vulnerabilities, once they were looked up
 *     runtime.yaml    the definition it was built from
 *     build.log
 *
 * `glovebox runtime import` makes an image without a definition of ours; it
 * writes one to CACHE/imported/NAME/runtime.yaml, which counts where the
 * folder of definitions has none of that name.
 *
 * A folder of that name exists only when it is complete: tools/runtime-build
 * works beside it and renames. An image that was built again is
 * CACHE/NAME-HASH-N/, and the link CACHE/NAME-HASH.current names the one in
 * use, so that sessions of the earlier image keep their files. A definition
 * that `glovebox runtime build FOLDER` was given is kept in
 * CACHE/definitions/NAME/. Nothing here writes or builds.
 */
#ifndef GLOVEBOX_CONF_RUNTIME_H
#define GLOVEBOX_CONF_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;

/* Raise together with BUILDER in tools/runtime-build whenever a change there
 * makes a different image of the same definition. */
#define CONF_RUNTIME_BUILDER 2
#define CONF_RUNTIME_NAME 32      /* longest name */
#define CONF_RUNTIME_HASH 16      /* hex digits */
#define CONF_RUNTIME_COUNT 128    /* definitions in one folder */
#define CONF_RUNTIME_FILE 65536   /* bytes of a definition */
#define CONF_RUNTIME_DEPTH 4      /* definitions that `from` leads through */
#define CONF_RUNTIME_SOURCES 4096 /* files of a folder beside a definition */

/* A file put into the image, root's; either content or source is set. */
struct conf_runtime_file {
    char *path;
    char *content;
    char *source; /* beside the definition */
    char *mode;   /* octal; "0644" when not given */
};

/* An entry of packages, fonts, pip, npm or preload. */
struct conf_runtime_item {
    char *name;
    char *suite; /* take it from this suite; NULL: the definition's */
    bool optional;
};

/* A definition as written. */
struct conf_runtime_def {
    struct arena *room; /* owned; all that the others point to */
    char *description;  /* "" when not given */
    char *from;         /* the runtime it adds to; NULL: none */
    char *suite;        /* of Debian; once found, that of the base */
    char **also;        /* suites for what `suite` does not have */
    unsigned also_count;
    char *image; /* digest of an imported image; "" for others */
    struct conf_runtime_item *packages;
    unsigned packages_count;
    struct conf_runtime_item *fonts; /* packages, named apart for people */
    unsigned fonts_count;
    struct conf_runtime_item *pip; /* requirements */
    unsigned pip_count;
    char *wheels;                  /* folder of wheels; NULL: none */
    struct conf_runtime_item *npm; /* packages, or ./folders */
    unsigned npm_count;
    struct conf_runtime_item *imports; /* preload, as written */
    unsigned imports_count;
    /* Modules that the zygote imports and its environment, NAME=VALUE. Once
     * found, those of the base come first. */
    char **preload;
    unsigned preload_count;
    char **environment;
    unsigned environment_count;
    struct conf_runtime_file *files;
    unsigned files_count;
};

/* A definition and where its image is, or would be. */
struct conf_runtime {
    char name[CONF_RUNTIME_NAME + 1];
    char hash[CONF_RUNTIME_HASH + 1];
    struct conf_runtime_def *def;
    char *plan;            /* see conf_runtime_plan */
    char *definition_path; /* of runtime.yaml */
    char *base_image_path; /* of the runtime it adds to; NULL: none */
    char *image_path;      /* the image in use, or the first one to be built */
    char *root_path;
    char *manifest_path;
    bool built;
};

/* The folder of the cache with definitions that are not in the folder of
 * definitions: of folders given to `runtime build`, and of imported images. */
#define CONF_RUNTIME_KEPT "definitions"

/* Is this value fit for a definition's environment? NAME=VALUE */
bool conf_runtime_environment_valid(const char *text);

/* [a-z0-9-]{1,32}, not starting with '-'. */
bool conf_runtime_name_valid(const char *name);

/*
 * Reads a definition. ERR_INVALID names the key and the reason; text need not
 * be NUL-terminated. Owned by caller.
 */
int conf_runtime_parse(const char *text, size_t len,
                       struct conf_runtime_def **ret, struct error *err);
void conf_runtime_def_free(struct conf_runtime_def *def);

/*
 * The builder's input, which is also what the hash is taken of: one item a
 * line. base: name and hash of the runtime it adds to, or NULL. folder: where
 * the definition's files, wheels and npm folders are; their names, sizes and
 * times are part of the plan. NULL leaves them out. Owned by caller.
 */
int conf_runtime_plan(const struct conf_runtime_def *def, const char *base,
                      const char *folder, char **ret, struct error *err);

/*
 * Finds runtime `name` in defs_dir, or among the definitions of the cache.
 * ERR_INVALID on a bad name or definition, ERR_NOT_FOUND when there is no such
 * definition. Not being built is no error. Safe from any thread.
 */
int conf_runtime_find(const char *defs_dir, const char *cache_dir,
                      const char *name, struct conf_runtime *ret,
                      struct error *err);
void conf_runtime_done(struct conf_runtime *rt); /* usable with cleanup() */
/* The folder of definitions that the cache keeps. Owned by caller. */
char *conf_runtime_kept_dir(const char *cache_dir);

/* Names of all definitions, sorted, ended by NULL; cache_dir may be NULL.
 * Owned by caller. */
int conf_runtime_names(const char *defs_dir, const char *cache_dir,
                       char ***ret_names, struct error *err);
void conf_runtime_names_free(char ***names); /* usable with cleanup() */

/*
 * Where things are for who does not load a whole configuration: the options
 * runtime_defs and runtime_dir by environment or default. The builder is
 * looked for beside the running program, in a clone or an installed tree;
 * GLOVEBOX_RUNTIME_BUILD wins. Owned by caller.
 */
char *conf_runtime_defs_dir(void);
char *conf_runtime_cache_dir(void);
int conf_runtime_builder(char **ret_path, struct error *err);

#endif
