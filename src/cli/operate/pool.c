/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox pool: list, show, create, update and delete pools. Options have
 * the names that people script the cloud tool with. A value that is not
 * available here is refused with the reason; an option that only says where in
 * the cloud a pool is has no effect, and the command says so. Pools of the
 * configuration can only be shown.
 */
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

struct pool_flags {
    const char *name; /* or the word after the verb */
    const char *container_type, *network_status, *lifecycle_type;
    const char *runtime, *persistence, *sharing, *egress, *egress_allow;
    uint64_t max_sessions, cooldown_s, ready, memory_bytes, max_timeout_s;
    bool packages, yes;
    /* Without effect; see ignored_options. */
    const char *resource_group, *location, *subscription, *environment, *cpu;
    bool no_wait, only_show_errors;
};

/* ---- words of the cloud tool -------------------------------------------- */

/* A word of theirs: a value of ours, or why it is not available. The last
 * row has what is expected. */
struct word {
    const char *word, *value, *why;
};

static const struct word container_types[] = {
    {"PythonLTS", "python", NULL},
    {"Shell", "shell", NULL},
    {"NodeLTS", "javascript", NULL},
    {"CustomContainer", "custom", NULL},
    {NULL, "PythonLTS, NodeLTS, Shell or CustomContainer", NULL},
};

static const struct word network_statuses[] = {
    {"EgressDisabled", "none", NULL},
    {"EgressEnabled", "open", NULL},
    {NULL, "EgressDisabled or EgressEnabled", NULL},
};

static const struct word lifecycle_types[] = {
    {"Timed", "", NULL},
    {"OnContainerExit", NULL, "sessions end by their cooldown"},
    {NULL, "Timed", NULL},
};

/* Replaces *word, which may be NULL. 0, or after a complaint the exit
 * status. */
static int translate_az_name(const struct cli *c, const char *option,
                             const struct word *words, const char **word)
{
    const struct word *w = words;

    if (!*word)
        return 0;
    while (w->word && strcasecmp(w->word, *word) != 0)
        w++;
    if (w->word && !w->value)
        return cli_usage_error(c, "--%s %s is not available: %s", option,
                               w->word, w->why);
    if (!w->word)
        return cli_usage_error(c, "--%s must be %s, not '%s'", option,
                               w->value, *word);
    *word = w->value;
    return 0;
}

#define AT(member) offsetof(struct pool_flags, member)

/* Options of the cloud tool that mean nothing here. */
static const struct {
    const char *name;
    size_t at;
    const char *why;
} ignored_options[] = {
    {"resource-group", AT(resource_group), "there are no resource groups"},
    {"location", AT(location), "pools are on this service's machine"},
    {"subscription", AT(subscription), "the key names the tenant"},
    {"environment", AT(environment), "there are no environments"},
    {"cpu", AT(cpu), "cores are a setting of the configuration"},
};

/* ---- verbs -------------------------------------------------------------- */

/* The pool's name is a word or --name, not two different ones. */
static int pool_check(struct cli *c, const struct cli_words *words, void *arg)
{
    struct pool_flags *flags = arg;

    if (words->count && flags->name &&
        strcmp(words->items[0], flags->name) != 0)
        return cli_usage_error(c, "two names, '%s' and '%s': use one",
                               words->items[0], flags->name);
    if (!words->count && !flags->name && c->verb->words)
        return cli_usage_error(c, "%s: NAME is missing", c->verb->name);
    if (words->count)
        flags->name = words->items[0];

    for (size_t i = 0; i < ARRAY_SIZE(ignored_options); i++) {
        const char *const *value =
            (const void *)((const char *)flags + ignored_options[i].at);

        if (*value)
            (void)fprintf(stderr, "glovebox: --%s is ignored: %s\n",
                          ignored_options[i].name, ignored_options[i].why);
    }

    return CLI_EXIT_OK;
}

/* The members that are not options by another name. */
static int add_fields(struct cli_call *call, struct error *err)
{
    struct pool_flags *flags = call->flags;
    bool creates = strcmp(call->verb->method, "POST") == 0;
    int status = translate_az_name(call->c, "container-type", container_types,
                                   &flags->container_type);

    (void)err;
    if (!status)
        status = translate_az_name(call->c, "network-status", network_statuses,
                                   &flags->network_status);
    if (!status)
        status = translate_az_name(call->c, "lifecycle-type", lifecycle_types,
                                   &flags->lifecycle_type);
    if (status)
        return status;
    if (flags->network_status)
        flags->egress = flags->network_status;
    call->body = json_pack("{s:s*}", "name", creates ? flags->name : NULL);
    return 0;
}

/* True for a line that begins with y; a signal means no. */
static bool ask_to_confirm(struct cli *c, const char *name)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = c->signal_fd, .events = POLLIN}};
    char line[16] = "";

    (void)fprintf(stderr, "Delete the pool %s and end its sessions? [y/N] ",
                  name);
    while (poll(fds, 2, -1) < 0)
        ; /* interrupted by another signal */
    if (fds[1].revents || !fgets(line, sizeof(line), stdin)) {
        (void)fputc('\n', stderr);
        c->interrupted = fds[1].revents != 0;
        return false;
    }
    return line[0] == 'y' || line[0] == 'Y';
}

static int confirm_delete(struct cli_call *call, struct error *err)
{
    const struct pool_flags *flags = call->flags;

    (void)err;
    if (flags->yes)
        return 0;
    if (!isatty(STDIN_FILENO))
        return cli_usage_error(call->c, "delete ends the pool's sessions: "
                                        "without a terminal to confirm it, "
                                        "use --yes");
    return ask_to_confirm(call->c, flags->name) ? 0 : CLI_EXIT_CANCELLED;
}

static const struct cli_column columns[] = {
    {"NAME", .member = "name"},
    {"KIND", .member = "kind", .wide = true},
    {"RUNTIME", .member = "runtime"},
    {"PERSISTENCE", .member = "persistence"},
    {"SOURCE", .member = "source", .wide = true},
    {"SESSIONS", "sessions", .kind = CLI_COLUMN_NUMBER},
    {"MOST", "max_sessions", .kind = CLI_COLUMN_NUMBER},
    {"READY", "ready", .kind = CLI_COLUMN_NUMBER},
    {"WANTED", "ready_wanted", .kind = CLI_COLUMN_NUMBER},
    {"COOLDOWN", "cooldown_s", .kind = CLI_COLUMN_NUMBER},
    {0},
};

#define POOL "/api/pools/{--name}"
#define FIELDS                                                                \
    "kind={--container-type} runtime={--runtime} "                            \
    "persistence={--persistence} sharing={--sharing} egress={--egress} "      \
    "egress_allow={--egress-allow} packages={--packages} "                    \
    "max_sessions={--max-sessions} cooldown_s={--cooldown-period} "           \
    "ready_wanted={--ready-sessions} memory_bytes={--memory} "                \
    "max_timeout_s={--max-timeout}"

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List pools", "GET", "/api/pools",
     .columns = columns},
    {"show", NULL, "NAME", "Show a pool", "GET", POOL, .max = 1},
    {"create", NULL, "NAME", "Create a pool", "POST", "/api/pools", .max = 1,
     .body = FIELDS, .prepare = add_fields,
     .sentence = "Created the pool {name}."},
    {"update", NULL, "NAME", "Change a pool, for sandboxes made from now on",
     "PATCH", POOL, .max = 1, .body = FIELDS, .prepare = add_fields,
     .sentence = "Changed the pool {name}. New sessions use the change."},
    {"delete", "rm", "NAME",
     "Delete a pool and end its sessions; workspaces stay", "DELETE", POOL,
     .max = 1, .prepare = confirm_delete, .json = "deleted={--name}",
     .sentence = "Deleted the pool {--name}. Workspaces were kept."},
    {0},
};

#define SET "create update"
#define EVERY "list show create update delete"

static const struct cli_option options[] = {
    {"name", 'n', CLI_OPT_TEXT, AT(name), "NAME",
     "the pool, instead of a word", "show create update delete"},
    {"container-type", 0, CLI_OPT_TEXT, AT(container_type), "TYPE",
     "PythonLTS or Shell", SET},
    {"max-sessions", 0, CLI_OPT_COUNT, AT(max_sessions), "N",
     "sessions awake at the same time", SET},
    {"cooldown-period", 0, CLI_OPT_DURATION, AT(cooldown_s), "TIME",
     "idle seconds, or 5m, until a session expires", SET},
    {"ready-sessions", 0, CLI_OPT_COUNT, AT(ready), "N",
     "sandboxes kept ready", SET},
    {"network-status", 0, CLI_OPT_TEXT, AT(network_status), "STATUS",
     "EgressDisabled, or EgressEnabled: open", SET},
    {"egress", 0, CLI_OPT_TEXT, AT(egress), "MODE",
     "none, allowlist or open: what sessions may reach", SET},
    {"egress-allow", 0, CLI_OPT_TEXT, AT(egress_allow), "HOSTS",
     "the allowlist: host[:port],...", SET},
    {"packages", 0, CLI_OPT_SWITCH, AT(packages), "on|off",
     "let pip install what policy allows", SET},
    {"lifecycle-type", 0, CLI_OPT_TEXT, AT(lifecycle_type), "TYPE", "Timed",
     SET},
    {"runtime", 0, CLI_OPT_TEXT, AT(runtime), "R",
     "runtime image; one that a configured pool has", SET},
    {"memory", 'm', CLI_OPT_SIZE, AT(memory_bytes), "SIZE",
     "of a session that asks for no other", SET},
    {"max-timeout", 0, CLI_OPT_DURATION, AT(max_timeout_s), "TIME",
     "longest that an execution may ask for, up to 24h", SET},
    {"persistence", 0, CLI_OPT_TEXT, AT(persistence), "P",
     "workspace or ephemeral", SET},
    {"sharing", 0, CLI_OPT_TEXT, AT(sharing), "S",
     "default, principal or tenant: who sees new sessions", SET},
    {"resource-group", 'g', CLI_OPT_TEXT, AT(resource_group), "NAME",
     "accepted for scripts, without effect", EVERY},
    {"location", 'l', CLI_OPT_TEXT, AT(location), "NAME",
     "accepted for scripts, without effect", SET},
    {"subscription", 0, CLI_OPT_TEXT, AT(subscription), "NAME",
     "accepted for scripts, without effect", EVERY},
    {"environment", 0, CLI_OPT_TEXT, AT(environment), "NAME",
     "accepted for scripts, without effect", "create"},
    {"cpu", 0, CLI_OPT_TEXT, AT(cpu), "N",
     "accepted for scripts, without effect", SET},
    {"no-wait", 0, CLI_OPT_FLAG, AT(no_wait), NULL,
     "accepted for scripts: no command waits for a pool",
     "create update delete"},
    {"only-show-errors", 0, CLI_OPT_FLAG, AT(only_show_errors), NULL,
     "accepted for scripts, without effect", EVERY},
    {"yes", 'y', CLI_OPT_FLAG, AT(yes), NULL, "do not ask for confirmation",
     "delete"},
    {0},
};

const struct cli_command cli_pool = {
    .name = "pool",
    .summary = "List, create, change and delete pools of sessions",
    .notes =
        "For what `create` leaves out, the first pool of the configuration\n"
        "applies; what `update` leaves out stays. A change applies to\n"
        "sandboxes made from now on. Creating, changing and deleting need a\n"
        "key of scope admin; pools of the configuration are changed there.\n"
        "Arguments of `az containerapp sessionpool` that have no meaning\n"
        "here are accepted; a note says that they are ignored.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct pool_flags),
    .verbs = verbs,
    .check = pool_check,
};
