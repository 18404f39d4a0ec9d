/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox pool: list, show, create, update and delete pools. Those of the
 * configuration are only shown.
 */
#include "cli/pool.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

/* By word or by --name, not two different ones; NULL after having
 * complained. */
static const char *name_of(const struct cli *c, const struct cli_words *words,
                           const struct pool_flags *flags)
{
    const char *word = words->count ? words->items[0] : NULL;

    if (word && flags->name && strcmp(word, flags->name) != 0) {
        cli_usage_error(c, "two names, '%s' and '%s': one of them", word,
                        flags->name);
        return NULL;
    }
    if (!word && !flags->name)
        cli_usage_error(c, "the pool's name is left out");
    return word ? word : flags->name;
}

static int ask(struct cli *c, const char *method, const char *name,
               const json_t *body, json_t **ret, struct error *err)
{
    struct buf path cleanup(buf_done) = {0};

    buf_adds(&path, "/api/pools/");
    cli_http_escape(&path, name, false);
    return cli_http_json(c, method, path.data, body, ret, err);
}

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"NAME", "name", .kind = CLI_COLUMN_TEXT},
        {"KIND", "kind", .kind = CLI_COLUMN_TEXT},
        {"RUNTIME", "runtime", .kind = CLI_COLUMN_TEXT},
        {"PERSISTENCE", "persistence", .kind = CLI_COLUMN_TEXT},
        {"SOURCE", "source", .kind = CLI_COLUMN_TEXT},
        {"SESSIONS", "sessions", .kind = CLI_COLUMN_NUMBER},
        {"MOST", "max_sessions", .kind = CLI_COLUMN_NUMBER},
        {"READY", "ready", .kind = CLI_COLUMN_NUMBER},
        {"WANTED", "ready_wanted", .kind = CLI_COLUMN_NUMBER},
        {"COOLDOWN", "cooldown_s", .kind = CLI_COLUMN_NUMBER},
    };
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "GET", "/api/pools", NULL, &answer, &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, json_object_get(answer, "data"), columns,
                  ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    const char *name = name_of(c, words, arg);
    json_t *pool cleanup(json_unref) = NULL;
    struct error err;

    if (!name)
        return CLI_EXIT_USAGE;
    if (ask(c, "GET", name, NULL, &pool, &err) < 0)
        return cli_fail(c, &err);
    cli_show_object(c, pool);
    return CLI_EXIT_OK;
}

static int create(struct cli *c, const struct cli_words *words, void *arg)
{
    const char *name = name_of(c, words, arg);
    json_t *body cleanup(json_unref) = name ? cli_pool_body(c, arg) : NULL;
    json_t *pool cleanup(json_unref) = NULL;
    struct error err;

    if (!body)
        return CLI_EXIT_USAGE;
    (void)json_object_set_new(body, "name", json_string(name));
    if (cli_http_json(c, "POST", "/api/pools", body, &pool, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, pool, "made the pool %s", name);
    return CLI_EXIT_OK;
}

static int update(struct cli *c, const struct cli_words *words, void *arg)
{
    const char *name = name_of(c, words, arg);
    json_t *body cleanup(json_unref) = name ? cli_pool_body(c, arg) : NULL;
    json_t *pool cleanup(json_unref) = NULL;
    struct error err;

    if (!body)
        return CLI_EXIT_USAGE;
    if (ask(c, "PATCH", name, body, &pool, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, pool, "changed the pool %s, for sessions from now on",
                  name);
    return CLI_EXIT_OK;
}

/* Yes, by a line that begins with y; a signal is a no. */
static bool confirmed(struct cli *c, const char *name)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = c->signal_fd, .events = POLLIN}};
    char line[16] = "";

    (void)fprintf(stderr, "Delete the pool %s and end its sessions? [y/N] ",
                  name);
    while (poll(fds, 2, -1) < 0)
        ; /* interrupted by something that is not for us */
    if (fds[1].revents || !fgets(line, sizeof(line), stdin)) {
        (void)fputc('\n', stderr);
        c->interrupted = fds[1].revents != 0;
        return false;
    }
    return line[0] == 'y' || line[0] == 'Y';
}

static int delete (struct cli *c, const struct cli_words *words, void *arg)
{
    const struct pool_flags *flags = arg;
    const char *name = name_of(c, words, flags);
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    if (!name)
        return CLI_EXIT_USAGE;
    if (!flags->yes && !isatty(STDIN_FILENO))
        return cli_usage_error(c, "delete ends the pool's sessions: say --yes "
                                  "where nobody can be asked");
    if (!flags->yes && !confirmed(c, name))
        return CLI_EXIT_CANCELLED;
    if (ask(c, "DELETE", name, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    out = json_pack("{s:s}", "deleted", name);
    cli_show_done(c, out, "deleted the pool %s; workspaces stay", name);
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"list", 0, 0, list},     {"ls", 0, 0, list},
    {"show", 0, 1, show},     {"create", 0, 1, create},
    {"update", 0, 1, update}, {"delete", 0, 1, delete},
};

int cli_pool(int argc, char **argv)
{
    static const char both[] = "create update";
    struct cli c cleanup(cli_done);
    struct pool_flags flags = {.max_sessions = POOL_NOT_SAID,
                               .cooldown_s = POOL_NOT_SAID,
                               .ready = POOL_NOT_SAID,
                               .memory_bytes = POOL_NOT_SAID};
    const struct cli_opt table[] = {
        {"name", 'n', CLI_OPT_TEXT, &flags.name, "NAME",
         "the pool, where no word names it", "show create update delete"},
        {"container-type", 0, CLI_OPT_TEXT, &flags.container_type, "TYPE",
         "PythonLTS or Shell", both},
        {"max-sessions", 0, CLI_OPT_COUNT, &flags.max_sessions, "N",
         "sessions awake at once", both},
        {"cooldown-period", 0, CLI_OPT_DURATION, &flags.cooldown_s, "TIME",
         "idle seconds, or 5m, until a session expires", both},
        {"ready-sessions", 0, CLI_OPT_COUNT, &flags.ready, "N",
         "sandboxes kept ready", both},
        {"network-status", 0, CLI_OPT_TEXT, &flags.network_status, "STATUS",
         "EgressDisabled, or EgressEnabled: open", both},
        {"egress", 0, CLI_OPT_TEXT, &flags.egress, "MODE",
         "none, allowlist or open: what sessions may reach", both},
        {"egress-allow", 0, CLI_OPT_TEXT, &flags.egress_allow, "HOSTS",
         "of the allowlist: host[:port],...", both},
        {"packages", 0, CLI_OPT_TEXT, &flags.packages, "on|off",
         "let pip install what policy allows", both},
        {"lifecycle-type", 0, CLI_OPT_TEXT, &flags.lifecycle_type, "TYPE",
         "Timed", both},
        {"runtime", 0, CLI_OPT_TEXT, &flags.runtime, "R",
         "runtime image; one that a configured pool has", both},
        {"memory", 'm', CLI_OPT_SIZE, &flags.memory_bytes, "SIZE",
         "of a session that asks for nothing else", both},
        {"persistence", 0, CLI_OPT_TEXT, &flags.persistence, "P",
         "workspace or ephemeral", both},
        {"yes", 'y', CLI_OPT_FLAG, &flags.yes, NULL, "delete: do not ask",
         "delete"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "What is left out is as the first pool of the configuration has it,\n"
        "or as it was. A change holds for sandboxes made from now on. Making,\n"
        "changing and deleting need a key of scope admin; the pools of the\n"
        "configuration are changed there.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "pool");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &flags);
}
