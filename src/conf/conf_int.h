/* SPDX-License-Identifier: Apache-2.0 */
/* Private to conf/ and its tests. */
#ifndef GLOVEBOX_CONF_CONF_INT_H
#define GLOVEBOX_CONF_CONF_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "conf/conf.h"

#define CONF_FILE_MAX ((size_t)256 * 1024)
#define CONF_TEXT_MAX 4096 /* one value, from any source */
#define CONF_OPTIONS_MAX 160

enum conf_type {
    CONF_BOOL,
    CONF_U32,
    CONF_SIZE,   /* uint64_t of bytes; "1GiB" */
    CONF_STRING, /* min and max are its length */
    CONF_ENUM,   /* a string, one of `allowed` */
    CONF_PATH,   /* a string; made absolute */
    CONF_LISTEN, /* HOST:PORT; fills two fields */
};

/* One row of the table: all there is to know of an option. */
struct conf_option {
    const char *name; /* of the file's key and of the field */
    enum conf_type type;
    size_t offset;
    uint64_t min;
    uint64_t max;
    const char *standard; /* the default, or words for it when `find` is set */
    char *(*find)(void);  /* a default of this machine; owned by caller */
    const char *allowed;  /* CONF_ENUM: "a|b"; CONF_STRING: "a-z0-9_" */
    const char *help;
};

struct conf_options {
    const struct conf_option *row;
    size_t count;
};

extern const struct conf_options conf_options_top;
extern const struct conf_options conf_options_pool;
extern const struct conf_options conf_options_model;
extern const struct conf_options conf_options_bucket;

/* By exact name, or NULL. */
const struct conf_option *conf_options_find(const struct conf_options *table,
                                            const char *name);
/* The most alike name, or NULL when none is alike. Borrowed. */
const char *conf_options_nearest(const struct conf_options *table,
                                 const char *name);
/* How many single changes lead from a to b; long texts count as far. */
unsigned conf_options_distance(const char *a, const char *b);

/* Where things lie on this machine, for root and for an ordinary user.
 * Owned by caller. */
char *conf_places_data(void);
char *conf_places_runtimes(void);
char *conf_places_backups(void);
char *conf_places_definitions(void);
char *conf_places_config(void);
char *conf_places_cores(void); /* the number of online ones, as text */
char *conf_places_ready(void); /* as conf_ready_for this machine, as text */
unsigned conf_ready_for(uint64_t memory);
char *conf_places_memory(void);     /* of a session, in bytes, as text */
char *conf_places_max_memory(void); /* the most, as conf_max_memory_for */
uint64_t conf_max_memory_for(uint64_t machine);
/* total, or the least limit of the groups (as in /proc/self/cgroup) that a
 * process is in; root: where control groups are mounted. */
uint64_t conf_memory_within(uint64_t total, const char *groups,
                            const char *root);

/* Text to field. base: the struct of the option's table. ERR_INVALID names
 * the option and what is allowed. */
int conf_value_set(void *base, const struct conf_option *o, const char *text,
                   struct error *err);
/* Field to canonical text, appended. */
void conf_value_format(const void *base, const struct conf_option *o,
                       struct buf *out);
void conf_value_free(void *base, const struct conf_option *o);
/* "1 to 1024", "a, b or c"; appended. */
void conf_value_range(const struct conf_option *o, struct buf *out);

/* Sets every option of the table to its default. */
int conf_defaults(void *base, const struct conf_options *table,
                  struct error *err);

int conf_file_load(const char *path, struct conf *c, struct error *err);
/* The same for text in memory; label names it in errors. */
int conf_file_parse(const char *text, size_t len, const char *label,
                    struct conf *c, struct error *err);

/* The flags of one command line, by option; texts borrowed from argv. */
struct conf_flags {
    enum conf_mode mode;
    const char *config; /* --config, or NULL */
    const char *values[CONF_OPTIONS_MAX];
};

int conf_flags_read(int argc, char *const *argv, struct conf_flags *ret,
                    struct error *err);
int conf_flags_apply(const struct conf_flags *flags, struct conf *c,
                     struct error *err);
int conf_env_apply(struct conf *c, struct error *err);

/* Checks that options fit together. */
/* tenant_sharing: false when it is no list; *ret is what it says of the tenant
 * ("principal", "tenant", static), or NULL. tenant NULL: only check. */
bool conf_sharing_read(const char *list, const char *tenant, const char **ret);
int conf_check(const struct conf *c, struct error *err);

#endif
