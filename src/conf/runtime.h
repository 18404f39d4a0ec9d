/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime images. A definition is runtimes/NAME/runtime.yaml; an image is
 * CACHE/NAME-HASH/, where HASH comes from the definition and the builder's
 * number, so that a changed definition is another image and an unchanged one
 * is found by every data directory:
 *
 *     root/           the root file system
 *     manifest.json   what is in it, and what could not be installed
 *     packages.tsv    every Debian package: name, version, architecture
 *     runtime.yaml    the definition it was built from
 *     build.log
 *
 * A folder of that name exists only when it is complete: tools/runtime-build
 * works beside it and renames. Nothing here writes or builds.
 */
#ifndef GLOVEBOX_CONF_RUNTIME_H
#define GLOVEBOX_CONF_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

struct error;

/* Raise together with BUILDER in tools/runtime-build whenever a change there
 * makes a different image of the same definition. */
#define CONF_RUNTIME_BUILDER 1
#define CONF_RUNTIME_NAME 32    /* longest name */
#define CONF_RUNTIME_HASH 16    /* hex digits */
#define CONF_RUNTIME_COUNT 128  /* definitions in one folder */
#define CONF_RUNTIME_FILE 65536 /* bytes of a definition */

/* A file put into the image, root's and mode 0644. */
struct conf_runtime_file {
    char *path;
    char *content;
};

/* A definition as written. Strings are owned by the structure. */
struct conf_runtime_def {
    char *description; /* "" when not given */
    char *suite;       /* of Debian */
    char **packages;
    unsigned packages_count;
    char **fonts; /* packages too, named apart for people */
    unsigned fonts_count;
    char **preload; /* modules the zygote imports, in order */
    unsigned preload_count;
    char **environment; /* NAME=VALUE */
    unsigned environment_count;
    struct conf_runtime_file *files;
    unsigned files_count;
};

/* A definition and where its image is, or would be. */
struct conf_runtime {
    char name[CONF_RUNTIME_NAME + 1];
    char hash[CONF_RUNTIME_HASH + 1];
    struct conf_runtime_def *def;
    char *definition_path;
    char *image_path;
    char *root_path;
    char *manifest_path;
    bool built;
};

/* [a-z0-9-]{1,32}, not starting with '-'. */
bool conf_runtime_name_valid(const char *name);

/*
 * Reads a definition. ERR_INVALID names the key and the reason; text need not
 * be NUL-terminated. Owned by caller.
 */
int conf_runtime_parse(const char *text, size_t len,
                       struct conf_runtime_def **ret, struct error *err);
void conf_runtime_def_free(struct conf_runtime_def *def);

/* The builder's input, which is also what the hash is taken of: one item a
 * line. Owned by caller. */
char *conf_runtime_plan(const struct conf_runtime_def *def, size_t *ret_len);

/*
 * Finds runtime `name`. ERR_INVALID on a bad name or definition,
 * ERR_NOT_FOUND when there is no such definition. Not being built is no
 * error. Safe from any thread.
 */
int conf_runtime_find(const char *defs_dir, const char *cache_dir,
                      const char *name, struct conf_runtime *ret,
                      struct error *err);
void conf_runtime_done(struct conf_runtime *rt); /* usable with cleanup() */

/* Names of all definitions, sorted, ended by NULL. Owned by caller. */
int conf_runtime_names(const char *defs_dir, char ***ret_names,
                       struct error *err);
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
