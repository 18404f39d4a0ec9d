/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox login, logout, contexts, whoami and version: which services the
 * user has a key for, and which one commands use. A key is read from a file,
 * from standard input or from the terminal without being shown; it is checked
 * with the service before it is stored.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define KEY_MAX 512u

struct login_flags {
    const char *name;
    bool all;
};

/* ---- login ---------------------------------------------------------------
 */

/* From --key-file, standard input, or the terminal. */
static int read_key(struct cli *c, char **ret, struct error *err)
{
    bool typed = isatty(STDIN_FILENO) == 1;
    char *text cleanup(cli_secret_free) = NULL;
    size_t len = 0;
    int r;

    if (!c->key_file && typed)
        return cli_secret_ask(c, "key", false, ret, err);
    r = cli_input_read(c->key_file ? c->key_file : "-", KEY_MAX, &text, &len,
                       err);
    if (r < 0)
        return r;
    len = strcspn(text, "\r\n");
    text[len] = '\0';
    if (!len || strpbrk(text, " \t"))
        return error_set(err, ERR_INVALID, "%s holds no key",
                         c->key_file ? c->key_file : "standard input");
    *ret = take_ptr(text);
    return 0;
}

/* "host:port" of an address. */
static char *context_name(const char *url)
{
    const char *host = strstr(url, "://");

    host = host ? host + 3 : url;
    return xstrndup(host, strcspn(host, "/"));
}

static int store_context(struct cli *c, const char *name, struct error *err)
{
    json_t *all cleanup(json_unref) = NULL;
    json_t *one;
    int r = cli_contexts_load(&all, err);

    if (r < 0)
        return r;
    one = json_pack("{s:s, s:s, s:s*, s:s*}", "url", c->base, "key", c->key,
                    "pin", c->pin, "cacert", c->cacert);
    if (!one)
        return error_set(err, ERR_INVALID, "the key is not valid UTF-8");
    (void)json_object_set_new(json_object_get(all, "contexts"), name, one);
    (void)json_object_set_new(all, "current", json_string(name));
    return cli_contexts_save(all, err);
}

static int run_login(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct login_flags *flags = arg;
    json_t *who cleanup(json_unref) = NULL;
    char *name cleanup(mem_free) = NULL;
    char *key cleanup(cli_secret_free) = NULL;
    char *path cleanup(mem_free) = cli_contexts_path();
    const char *key_file = c->key_file;
    struct error err;
    int r;

    if (words->count)
        c->url = words->items[0];
    c->logging_in = true;
    c->key_file = NULL; /* the key is not for finding the service */
    r = cli_connect(c, CLI_NEED_RUNNING, NULL, NULL, &err);
    c->key_file = key_file;
    if (r == 0)
        r = read_key(c, &key, &err);
    if (r == 0) {
        cli_secret_free(&c->key);
        c->key = take_ptr(key);
        r = cli_http_json(c, "GET", "/api/whoami", NULL, &who, &err);
    }
    name = flags->name ? xstrdup(flags->name)
                       : context_name(c->base ? c->base : "");
    if (r == 0)
        r = store_context(c, name, &err);
    if (r < 0)
        return cli_fail(c, &err);
    cli_show_done(c, who, "Logged in to %s as %s of the tenant %s.", c->base,
                  cli_json_text(who, "id", "?"),
                  cli_json_text(who, "tenant", "?"));
    if (c->tty_err && !c->json)
        (void)fprintf(stderr, "The key is in %s, readable by you alone.\n",
                      path);
    return CLI_EXIT_OK;
}

static const struct cli_option login_options[] = {
    {"name", 'n', CLI_OPT_TEXT, offsetof(struct login_flags, name), "NAME",
     "name of the context; else the host of the service", NULL},
    {0},
};

const struct cli_command cli_login = {
    .name = "login",
    .summary = "Store a key for a service, and use that service from now on",
    .notes =
        "The key is read from --key-file, from standard input if that is no\n"
        "terminal, or typed without being shown. It is checked with the\n"
        "service and stored in ~/.config/glovebox/contexts.json, which only\n"
        "you can read. URL is needed unless a service runs on this machine.\n"
        "For a service that you started with sudo:\n\n"
        "  sudo cat /var/lib/glovebox/admin.key | glovebox login\n",
    .online = true,
    .options = login_options,
    .flags_size = sizeof(struct login_flags),
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "[URL]", .run = run_login},
            {0},
        },
};

/* ---- logout and contexts ---------------------------------------------------
 */

/* Removes one, or all of them, and says what is used next. */
static int run_logout(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct login_flags *flags = arg;
    json_t *all cleanup(json_unref) = NULL;
    json_t *contexts;
    char *name cleanup(mem_free) = NULL;
    struct error err;

    if (cli_contexts_load(&all, &err) < 0)
        return cli_fail(c, &err);
    contexts = json_object_get(all, "contexts");
    name = xstrdup(words->count ? words->items[0]
                                : cli_json_text(all, "current", ""));
    if (flags->all) {
        (void)json_object_clear(contexts);
        (void)json_object_del(all, "current");
    } else if (json_object_del(contexts, name) < 0) {
        (void)(*name
                   ? error_set(&err, ERR_NOT_FOUND,
                               "there is no context '%.128s'", name)
                   : error_set(&err, ERR_NOT_FOUND, "you are not logged in"));
        (void)error_hint(&err, "`glovebox contexts` lists what there is.");
        return cli_fail(c, &err);
    } else if (strcmp(cli_json_text(all, "current", ""), name) == 0) {
        (void)json_object_del(all, "current");
    }
    if (cli_contexts_save(all, &err) < 0)
        return cli_fail(c, &err);
    if (flags->all)
        cli_show_done(c, NULL, "Removed every stored key.");
    else
        cli_show_done(c, NULL, "Removed the stored key of %s.", name);
    return CLI_EXIT_OK;
}

static const struct cli_option logout_options[] = {
    {"all", 0, CLI_OPT_FLAG, offsetof(struct login_flags, all), NULL,
     "of every context", NULL},
    {0},
};

const struct cli_command cli_logout = {
    .name = "logout",
    .summary = "Remove a stored key",
    .notes =
        "Without NAME, that of the current context. The key itself stays\n"
        "valid; `glovebox key delete` revokes it.\n",
    .options = logout_options,
    .flags_size = sizeof(struct login_flags),
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "[NAME]", .run = run_logout},
            {0},
        },
};

static const struct cli_column context_columns[] = {
    {"CURRENT", "current", .kind = CLI_COLUMN_BOOL, .yes = "*"},
    {"NAME", .member = "name"},
    {"URL", .member = "url"},
    {0},
};

static int list_contexts(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    json_t *all cleanup(json_unref) = NULL;
    json_t *rows cleanup(json_unref) = json_array();
    const char *name;
    struct error err;
    json_t *one;

    (void)words;
    (void)arg;
    if (cli_contexts_load(&all, &err) < 0)
        return cli_fail(c, &err);
    json_object_foreach (json_object_get(all, "contexts"), name, one)
        (void)json_array_append_new(
            rows,
            json_pack("{s:b, s:s, s:s}", "current",
                      strcmp(cli_json_text(all, "current", ""), name) == 0,
                      "name", name, "url", cli_json_text(one, "url", "")));
    cli_show_list(c, rows, context_columns);
    return CLI_EXIT_OK;
}

static int use_context(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *all cleanup(json_unref) = NULL;
    const json_t *one;
    struct error err;

    (void)arg;
    if (cli_contexts_load(&all, &err) < 0)
        return cli_fail(c, &err);
    one = json_object_get(json_object_get(all, "contexts"), words->items[0]);
    if (!one) {
        (void)error_set(&err, ERR_NOT_FOUND, "there is no context '%.128s'",
                        words->items[0]);
        (void)error_hint(&err, "`glovebox contexts` lists them.");
        return cli_fail(c, &err);
    }
    (void)json_object_set_new(all, "current", json_string(words->items[0]));
    if (cli_contexts_save(all, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, NULL, "Commands use %s from now on.",
                  cli_json_text(one, "url", ""));
    return CLI_EXIT_OK;
}

const struct cli_command cli_contexts = {
    .name = "contexts",
    .summary = "List the services you are logged in to, and choose one",
    .notes =
        "Every command that talks to a service uses, in this order: --url,\n"
        "--context, GLOVEBOX_URL, GLOVEBOX_CONTEXT, a data directory that is\n"
        "named, the current context, a service of this machine.\n",
    .flags_size = sizeof(struct login_flags),
    .verbs =
        (const struct cli_verb[]){
            {"list", "ls", NULL, "List contexts", .run = list_contexts},
            {"use", NULL, "NAME", "Use this service from now on",
             .run = use_context},
            {"delete", "rm", "NAME", "Remove a context and its key",
             .run = run_logout},
            {0},
        },
};

/* ---- whoami and version --------------------------------------------------
 */

static int print_caller(struct cli_call *call)
{
    struct buf scopes cleanup(buf_done) = {0};
    const json_t *list = json_object_get(call->answer, "scopes"), *one;
    const char *token = cli_json_text(call->answer, "token", NULL);
    size_t i;

    json_array_foreach (list, i, one)
        buf_addf(&scopes, "%s%s", i ? ", " : "", json_string_value(one));
    (void)printf("service  %s\n", call->c->base);
    (void)printf("key      %s\n", cli_json_text(call->answer, "id", ""));
    if (token)
        (void)printf("token    %s\n", token);
    (void)printf("tenant   %s\n", cli_json_text(call->answer, "tenant", ""));
    (void)printf("scopes   %s\n", scopes.data ? scopes.data : "none");
    (void)printf("expires  %s\n",
                 cli_json_text(call->answer, "expires_at", "never"));
    return CLI_EXIT_OK;
}

const struct cli_command cli_whoami = {
    .name = "whoami",
    .summary = "Show the service and the key that commands use",
    .online = true,
    .verbs =
        (const struct cli_verb[]){
            {"", .method = "GET", .path = "/api/whoami",
             .print = print_caller},
            {0},
        },
};

static int run_version(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *openapi cleanup(json_unref) = NULL;
    json_t *out cleanup(json_unref) =
        json_pack("{s:s}", "version", GLOVEBOX_VERSION);
    const char *service;
    struct error ignored;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "GET", "/openapi.json", NULL, &openapi, &ignored) < 0)
        openapi = NULL; /* no service is no failure here */
    service = cli_json_text(json_object_get(openapi, "info"), "version", NULL);
    if (c->json) {
        if (service) {
            (void)json_object_set_new(out, "service", json_string(service));
            (void)json_object_set_new(out, "url", json_string(c->base));
        }
        cli_print_json(c, out);
        return CLI_EXIT_OK;
    }
    (void)printf("glovebox %s\n", GLOVEBOX_VERSION);
    if (service)
        (void)printf("service %s at %s\n", service, c->base);
    return CLI_EXIT_OK;
}

const struct cli_command cli_version = {
    .name = "version",
    .summary = "Print the version of this program and of the service",
    .online = true,
    .verbs =
        (const struct cli_verb[]){
            {"", .run = run_version},
            {0},
        },
};
