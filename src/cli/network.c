/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox network: what a session's code may reach, shown and changed while
 * it lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define FILE_MAX (1u << 20)

struct network_flags {
    const char *mode, *file;
    struct cli_words allow, secrets;
    bool inspect, packages;
    uint64_t bytes, connections, requests;
};

/* ---- destinations ------------------------------------------------------- */

/* The digits behind the last colon; an address with colons is in brackets. */
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
        cli_usage_error(c, "--allow wants HOST or HOST:PORT, not '%s'", word);
        return false;
    }
    d = find_host(list, word, len);
    if (!d) {
        d = json_pack("{s:s%}", "host", word, len);
        if (!d || json_array_append_new(list, d) < 0) {
            cli_usage_error(c, "--allow wants a name in UTF-8");
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
        cli_usage_error(c, "--secret wants NAME=HOST, not '%s'", word);
        return false;
    }
    d = find_host(list, equals + 1, strlen(equals + 1));
    if (!d && !add_allowed(c, list, equals + 1, inspect))
        return false;
    d = find_host(list, equals + 1, strlen(equals + 1));
    if (!d) {
        cli_usage_error(c, "--secret wants a host without a port");
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

/* ---- the body ----------------------------------------------------------- */

static int read_input(char **ret, size_t *ret_len)
{
    char *text cleanup(mem_free) = xmalloc(FILE_MAX + 1);
    ssize_t n = fd_read_all(STDIN_FILENO, text, FILE_MAX + 1);

    if (n < 0 || n > (ssize_t)FILE_MAX)
        return n < 0 ? (int)n : -EFBIG;
    *ret = take_ptr(text);
    *ret_len = (size_t)n;
    return 0;
}

static json_t *from_file(const struct cli *c, const char *file)
{
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;
    json_t *body = NULL;
    int r = strcmp(file, "-") == 0
                ? read_input(&text, &len)
                : fd_read_file(AT_FDCWD, file, FILE_MAX, &text, &len);

    if (r == 0)
        body = cli_json_load(text, len);
    if (!body)
        cli_usage_error(
            c, r < 0 ? "cannot read %s" : "%s holds no JSON object", file);
    return body;
}

static void set_number(json_t *body, const char *member, uint64_t value)
{
    if (value)
        (void)json_object_set_new(body, member,
                                  json_integer((json_int_t)value));
}

static json_t *make_body(const struct cli *c, const struct network_flags *f)
{
    bool any = f->allow.count || f->secrets.count;
    json_t *list, *body;

    if (f->file)
        return from_file(c, f->file);
    if (!f->mode && !any && !f->packages) {
        cli_usage_error(c, "set wants --mode, --allow or --file");
        return NULL;
    }
    list = cli_network_allow(c, &f->allow, &f->secrets, f->inspect);
    if (!list)
        return NULL;
    body = json_pack("{s:s, s:o, s:b}", "mode",
                     f->mode ? f->mode
                     : any   ? "allowlist"
                             : "none",
                     "destinations", list, "packages", f->packages);
    set_number(body, "bytes", f->bytes);
    set_number(body, "connections", f->connections);
    set_number(body, "requests", f->requests);
    return body;
}

/* ---- verbs -------------------------------------------------------------- */

static int ask(struct cli *c, const char *method, const char *session,
               const json_t *body, json_t **ret, struct error *err)
{
    struct buf path cleanup(buf_done) = {0};
    char id[ID_MAX];
    int r = cli_remote_find(c, session, id, err);

    if (r < 0)
        return r;
    buf_addf(&path, "/api/sessions/%s/network", id);
    return cli_http_json(c, method, path.data, body, ret, err);
}

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *network cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (ask(c, "GET", words->items[0], NULL, &network, &err) < 0)
        return cli_fail(c, &err);
    cli_show_object(c, network);
    return CLI_EXIT_OK;
}

static int set(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *body cleanup(json_unref) = make_body(c, arg);
    json_t *network cleanup(json_unref) = NULL;
    const char *warning;
    struct error err;

    if (!body)
        return CLI_EXIT_USAGE;
    if (ask(c, "PUT", words->items[0], body, &network, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, network, "%s has the network '%s' now", words->items[0],
                  cli_json_text(network, "mode", ""));
    warning = cli_json_text(network, "warning", NULL);
    if (warning)
        (void)fprintf(stderr, "warning: %s\n", warning);
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"show", 1, 1, show},
    {"set", 1, 1, set},
};

int cli_network(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct network_flags flags = {0};
    const struct cli_opt table[] = {
        {"mode", 0, CLI_OPT_TEXT, &flags.mode, "MODE",
         "none, allowlist, or open: every public address", "set"},
        {"allow", 0, CLI_OPT_LIST, &flags.allow, "HOST[:PORT]",
         "a destination; may be repeated", "set"},
        {"secret", 0, CLI_OPT_LIST, &flags.secrets, "NAME=HOST",
         "the proxy adds this secret there; may be repeated", "set"},
        {"inspect", 0, CLI_OPT_FLAG, &flags.inspect, NULL,
         "take TLS to these destinations apart", "set"},
        {"packages", 0, CLI_OPT_FLAG, &flags.packages, NULL,
         "let pip install what policy allows", "set"},
        {"bytes", 0, CLI_OPT_SIZE, &flags.bytes, "SIZE",
         "both ways together; at most the pool's", "set"},
        {"connections", 0, CLI_OPT_COUNT, &flags.connections, "N",
         "at once; at most the pool's", "set"},
        {"requests", 0, CLI_OPT_COUNT, &flags.requests, "N",
         "at most the pool's", "set"},
        {"file", 'f', CLI_OPT_TEXT, &flags.file, "FILE",
         "all of it as JSON; - is standard input", "set"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "A change holds at once, for what runs too. What is not listed is\n"
        "gone. More than the pool has takes a rule of the policy, or a key\n"
        "with policy:admin; loopback, private and metadata addresses are\n"
        "never reached. Methods and paths are for --file.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "network");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &flags);
}
