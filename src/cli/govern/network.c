/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox network: what a session's code may reach, shown and changed while
 * the session lives.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define FILE_MAX (1u << 20)

struct network_flags {
    const char *mode, *file;
    struct cli_words allow, secrets;
    bool inspect, packages;
    uint64_t bytes, connections, requests;
};

/* ---- destinations ------------------------------------------------------- */

/* The port behind the last colon; an IPv6 address is in brackets. */
static bool split_port(const char *word, size_t *ret_len, uint64_t *ret_port)
{
    const char *colon = strrchr(word, ':');

    *ret_len = strlen(word);
    *ret_port = 0;
    if (!colon || (strchr(word, ':') != colon && colon[-1] != ']'))
        return true;
    *ret_len = (size_t)(colon - word);
    return cli_values_count(colon + 1, ret_port) == 0 && *ret_port >= 1 &&
           *ret_port <= 65535;
}

static json_t *find_host(json_t *list, const char *host, size_t len)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *d = json_array_get(list, i);
        const char *have = cli_json_text(d, "host", "");

        if (strlen(have) == len && memcmp(have, host, len) == 0)
            return d;
    }
    return NULL;
}

/* Ports of one host are one destination. */
static bool add_allowed(const struct cli *c, json_t *list, const char *word,
                        bool inspect)
{
    json_t *d, *ports;
    uint64_t port;
    size_t len;

    if (!split_port(word, &len, &port) || len == 0) {
        cli_usage_error(c, "--allow needs HOST or HOST:PORT, not '%s'", word);
        return false;
    }
    d = find_host(list, word, len);
    if (!d) {
        d = json_pack("{s:s%}", "host", word, len);
        if (!d || json_array_append_new(list, d) < 0) {
            cli_usage_error(c, "--allow needs a name in UTF-8");
            return false;
        }
        if (inspect)
            (void)json_object_set_new(d, "inspect", json_true());
    }
    if (!port)
        return true;
    ports = json_object_get(d, "ports");
    if (!ports) {
        ports = json_array();
        (void)json_object_set_new(d, "ports", ports);
    }
    (void)json_array_append_new(ports, json_integer((json_int_t)port));
    return true;
}

static bool add_secret(const struct cli *c, json_t *list, const char *word,
                       bool inspect)
{
    const char *equals = strchr(word, '=');
    json_t *d;

    if (!equals || equals == word || !equals[1]) {
        cli_usage_error(c, "--secret needs NAME=HOST, not '%s'", word);
        return false;
    }
    d = find_host(list, equals + 1, strlen(equals + 1));
    if (!d && !add_allowed(c, list, equals + 1, inspect))
        return false;
    d = find_host(list, equals + 1, strlen(equals + 1));
    if (!d) {
        cli_usage_error(c, "--secret needs a host without a port");
        return false;
    }
    (void)json_object_set_new(d, "secret",
                              json_stringn(word, (size_t)(equals - word)));
    return true;
}

json_t *cli_network_allow(const struct cli *c, const struct cli_words *allow,
                          const struct cli_words *secrets, bool inspect)
{
    json_t *list = json_array();
    bool good = true;

    for (size_t i = 0; i < allow->count && good; i++)
        good = add_allowed(c, list, allow->items[i], inspect);
    for (size_t i = 0; secrets && i < secrets->count && good; i++)
        good = add_secret(c, list, secrets->items[i], inspect);
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- the request -------------------------------------------------------- */

/* The settings from --file, or those that the options do not say by
 * themselves. */
static int add_settings(struct cli_call *call, struct error *err)
{
    const struct network_flags *f = call->flags;
    bool any = f->allow.count || f->secrets.count;
    char *text cleanup(mem_free) = NULL;
    json_t *list;
    size_t len = 0;

    if (f->file) {
        if (cli_input_read(f->file, FILE_MAX, &text, &len, err) < 0)
            return cli_usage_error(call->c, "%s", err->message);
        call->body = cli_json_load(text, len);
        return call->body ? 0
                          : cli_usage_error(call->c, "%s holds no JSON object",
                                            f->file);
    }
    if (!f->mode && !any && !f->packages)
        return cli_usage_error(call->c, "set needs --mode, --allow or --file");
    list = cli_network_allow(call->c, &f->allow, &f->secrets, f->inspect);
    if (!list)
        return CLI_EXIT_USAGE;
    call->body =
        json_pack("{s:s, s:o, s:b}", "mode", any ? "allowlist" : "none",
                  "destinations", list, "packages", f->packages);
    return 0;
}

static int print_network(struct cli_call *call)
{
    const char *warning = cli_json_text(call->answer, "warning", NULL);

    cli_show_done(call->c, call->answer, "The network of %s is now '%s'.",
                  call->words->items[0],
                  cli_json_text(call->answer, "mode", ""));
    if (warning)
        (void)fprintf(stderr, "warning: %s\n", warning);
    return CLI_EXIT_OK;
}

/* ---- the command -------------------------------------------------------- */

static const struct cli_verb verbs[] = {
    {"show", NULL, "SESSION", "Show what a session's code may reach", "GET",
     .path = "/api/sessions/{SESSION}/network"},
    {"set", NULL, "SESSION", "Replace what a session's code may reach", "PUT",
     "/api/sessions/{SESSION}/network",
     .body = "mode={--mode} bytes={--bytes} connections={--connections} "
             "requests={--requests}",
     .prepare = add_settings, .print = print_network},
    {0},
};

#define AT(member) offsetof(struct network_flags, member)

static const struct cli_option options[] = {
    {"mode", 0, CLI_OPT_TEXT, AT(mode), "MODE",
     "none, allowlist, or open: every public address", "set"},
    {"allow", 0, CLI_OPT_LIST, AT(allow), "HOST[:PORT]",
     "a destination; may be repeated", "set"},
    {"secret", 0, CLI_OPT_LIST, AT(secrets), "NAME=HOST",
     "the proxy adds this secret there; may be repeated", "set"},
    {"inspect", 0, CLI_OPT_FLAG, AT(inspect), NULL,
     "decrypt and inspect TLS to these destinations", "set"},
    {"packages", 0, CLI_OPT_FLAG, AT(packages), NULL,
     "let pip install what policy allows", "set"},
    {"bytes", 0, CLI_OPT_SIZE, AT(bytes), "SIZE",
     "in both directions together; at most the pool's", "set"},
    {"connections", 0, CLI_OPT_COUNT, AT(connections), "N",
     "at the same time; at most the pool's", "set"},
    {"requests", 0, CLI_OPT_COUNT, AT(requests), "N", "at most the pool's",
     "set"},
    {"file", 'f', CLI_OPT_TEXT, AT(file), "FILE",
     "all settings as JSON; - is standard input", "set"},
    {0},
};

const struct cli_command cli_network = {
    .name = "network",
    .summary = "Show and change what the code of a session may reach",
    .notes =
        "A change takes effect at once, for running code too, and replaces\n"
        "all earlier settings. More than the pool allows needs a rule of the\n"
        "policy or a key with policy:admin; loopback, private and metadata\n"
        "addresses are never reachable. Methods and paths need --file.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct network_flags),
    .verbs = verbs,
};
