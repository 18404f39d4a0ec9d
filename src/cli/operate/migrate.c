/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox migrate: moves the metadata of a data directory to PostgreSQL, or
 * back to SQLite. gloveboxd does the work, started for it as `gloveboxd
 * --migrate-to STORE --data DIR`; its progress is that of a restore.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

struct migrate_flags {
    const char *to, *data, *store;
};

/* "postgres://user:secret@host/db" without the secret; owned by caller. */
static char *without_password(const char *url)
{
    const char *start = strstr(url, "://");
    const char *end = start ? start + 3 + strcspn(start + 3, "/?") : NULL;
    const char *at =
        end ? memrchr(start + 3, '@', (size_t)(end - start - 3)) : NULL;
    const char *colon =
        at ? memchr(start + 3, ':', (size_t)(at - start - 3)) : NULL;

    return colon ? xasprintf("%.*s%s", (int)(colon - url), url, at)
                 : xstrdup(url);
}

static bool names_postgres(const char *to)
{
    return strncmp(to, "postgres://", 11) == 0 ||
           strncmp(to, "postgresql://", 13) == 0;
}

static int run_migrate(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct migrate_flags *f = arg;
    char *program cleanup(mem_free) = NULL;
    char *data cleanup(mem_free) = NULL;
    char *to cleanup(mem_free) = NULL;
    char *store cleanup(mem_free) = NULL;
    char *shown cleanup(mem_free) = NULL;
    char to_flag[] = "--migrate-to", data_flag[] = "--data";
    char store_flag[] = "--store";
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    if (!f->to || (!names_postgres(f->to) && strcmp(f->to, "sqlite") != 0))
        return cli_usage_error(c, "--to is postgres://USER@HOST/DATABASE or "
                                  "sqlite");
    if (f->store && names_postgres(f->to))
        return cli_usage_error(c, "--store belongs to --to sqlite");
    c->data = f->data;
    data = cli_connect_data_dir(c);
    to = xstrdup(f->to);
    store = f->store ? xstrdup(f->store) : NULL;
    if (cli_daemon_find(&program, &err) < 0 ||
        cli_daemon_run(
            c,
            store ? (char *[]){program, to_flag, to, data_flag, data,
                               store_flag, store, NULL}
                  : (char *[]){program, to_flag, to, data_flag, data, NULL},
            "the store was not moved; the service can be started "
            "as before",
            &err) < 0)
        return cli_fail(c, &err);
    shown = without_password(f->to);
    out = json_pack("{s:s, s:s}", "store", shown, "data", data);
    cli_show_done(c, out,
                  "Moved the store of %s, and compared every row. Now set "
                  "this in the configuration%s, then start the service:\n"
                  "\n    store: %s\n",
                  data, strcmp(shown, f->to) ? ", with the password" : "",
                  shown);
    return CLI_EXIT_OK;
}

const struct cli_command cli_migrate = {
    .name = "migrate",
    .summary = "Move the metadata to PostgreSQL, or back to SQLite",
    .notes =
        "Stop the service first: the command refuses a data directory that is\n"
        "in use. Files stay in the data directory; keys, versions, sessions,\n"
        "policies, the audit trail and all other rows are copied, read back\n"
        "and compared, and the audit trail is verified in the copy.\n\n"
        "--to postgres://... needs an empty database, or an empty schema of\n"
        "one. All is one transaction: when it fails or is killed, the database\n"
        "is empty as before. The SQLite database is not changed.\n\n"
        "--to sqlite moves everything back, with what was done meanwhile. The\n"
        "database comes from `store` of the configuration, or from --store. An\n"
        "older glovebox.db is kept as glovebox.db.until-TIME.\n\n"
        "Other users of the machine can see arguments while a program runs:\n"
        "write postgres://user@host/db?passfile=FILE rather than a password.\n",
    .options =
        (const struct cli_option[]){
            {"to", 0, CLI_OPT_TEXT, offsetof(struct migrate_flags, to),
             "STORE", "postgres://USER@HOST/DATABASE, or sqlite", NULL},
            {"data", 0, CLI_OPT_TEXT, offsetof(struct migrate_flags, data),
             "DIR", "the data directory", NULL},
            {"store", 0, CLI_OPT_TEXT, offsetof(struct migrate_flags, store),
             "URL", "with --to sqlite: where the data is now", NULL},
            {0},
        },
    .flags_size = sizeof(struct migrate_flags),
    .verbs =
        (const struct cli_verb[]){
            {"", .run = run_migrate},
            {0},
        },
};
