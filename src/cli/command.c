/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command from its description (command.h): binds its options, chooses
 * the verb, and for a verb that is no code of its own fills in the templates,
 * makes the request and prints the answer.
 */
#include "cli/command.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

/* ---- names and lists of names ------------------------------------------- */

bool cli_command_listed(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list ? list : ""; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");

        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n;
    }
    return false;
}

/* Word number `index` of the verb's words without brackets and dots. False
 * when there is none. */
static bool word_name(const struct cli_verb *verb, size_t index, char ret[32],
                      bool *ret_optional, bool *ret_repeated)
{
    const char *p = verb->words ? verb->words : "";

    for (; *p; index--) {
        size_t n = strcspn(p, " ");
        size_t open = p[0] == '[';
        size_t len = strcspn(p + open, " .]");

        if (index == 0) {
            (void)snprintf(ret, 32, "%.*s", (int)len, p + open);
            *ret_optional = open;
            *ret_repeated = strncmp(p + open + len, "...", 3) == 0;
            return true;
        }
        p += n + strspn(p + n, " ");
    }
    return false;
}

/* How many words a line may have after the verb. */
static void count_words(const struct cli_verb *verb, size_t *ret_min,
                        size_t *ret_max)
{
    bool optional, repeated;
    char name[32];

    *ret_min = verb->min;
    *ret_max = verb->max;
    if (verb->max)
        return;
    for (size_t i = 0; word_name(verb, i, name, &optional, &repeated); i++) {
        *ret_min += !optional;
        *ret_max = repeated ? CLI_WORDS_MAX : *ret_max + 1;
    }
}

bool cli_command_given(const struct cli *c, const char *option)
{
    for (size_t i = 0; i < c->given_count; i++)
        if (strcmp(c->given[i].option, option) == 0)
            return true;
    return false;
}

static const struct cli_option *find_option(const struct cli_command *command,
                                            const char *name)
{
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

/* Given by this name, or by another for the same value. */
static bool value_given(const struct cli *c, const struct cli_command *command,
                        const struct cli_option *option)
{
    for (const struct cli_option *o = command->options; o->name; o++)
        if (o->offset == option->offset && cli_command_given(c, o->name))
            return true;
    return false;
}

/* ---- kinds of words ----------------------------------------------------- */

static int resolve_workspace(struct cli *c, const char *text, json_t **ret,
                             struct error *err)
{
    char id[ID_MAX];
    int r = cli_remote_workspace(c, text, id, err);

    if (r == 0)
        *ret = json_string(id);
    return r;
}

static int resolve_session(struct cli *c, const char *text, json_t **ret,
                           struct error *err)
{
    char id[ID_MAX];
    int r = cli_remote_find(c, text, id, err);

    if (r == 0)
        *ret = json_string(id);
    return r;
}

static int resolve_place(struct cli *c, const char *text, json_t **ret,
                         struct error *err)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    int r = cli_place_find(c, text, NULL, &place, err);

    if (r == 0)
        r = cli_place_to_workspace(c, &place, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s}", "workspace", place.id, "path", place.path);
    return *ret ? 0
                : error_set(err, ERR_INVALID, "the path is not valid UTF-8");
}

static bool is_size(const char *text)
{
    uint64_t bytes;

    return cli_values_size(text, &bytes) == 0;
}

static int resolve_size(struct cli *c, const char *text, json_t **ret,
                        struct error *err)
{
    uint64_t bytes = 0;

    (void)c;
    (void)err;
    (void)cli_values_size(text, &bytes); /* has been checked */
    *ret = json_integer((json_int_t)bytes);
    return 0;
}

static bool is_switch(const char *text)
{
    return strcmp(text, "on") == 0 || strcmp(text, "off") == 0;
}

static int resolve_switch(struct cli *c, const char *text, json_t **ret,
                          struct error *err)
{
    (void)c;
    (void)err;
    *ret = json_boolean(strcmp(text, "on") == 0);
    return 0;
}

static const struct cli_word_kind common_kinds[] = {
    {"WS", NULL, NULL, resolve_workspace},
    {"SESSION", NULL, NULL, resolve_session},
    {"PLACE", NULL, NULL, resolve_place},
    {"SIZE", is_size, "a size such as 20g", resolve_size},
    {"on|off", is_switch, "on or off", resolve_switch},
    {NULL, NULL, NULL, NULL},
};

static const struct cli_word_kind *find_kind(const struct cli_command *command,
                                             const char *name)
{
    for (const struct cli_word_kind *k = command->kinds; k && k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    for (const struct cli_word_kind *k = common_kinds; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

/* The text as a value of the kind that name has; looked up once a call. */
static int resolve(struct cli_call *call, const char *name, const char *text,
                   json_t **ret, struct error *err)
{
    const struct cli_word_kind *kind = find_kind(call->command, name);
    char *key cleanup(mem_free) = xasprintf("%s %s", name, text);
    int r;

    *ret = json_incref(json_object_get(call->resolved, key));
    if (*ret)
        return 0;
    if (kind && kind->resolve) {
        r = kind->resolve(call->c, text, ret, err);
        if (r < 0)
            return r;
    } else {
        *ret = json_string(text);
    }
    if (!*ret)
        return error_set(err, ERR_INVALID, "%s is not valid UTF-8", name);
    if (!call->resolved)
        call->resolved = json_object();
    (void)json_object_set(call->resolved, key, *ret);
    return 0;
}

/* ---- sources ------------------------------------------------------------ */

static json_t *words_to_array(const struct cli_words *words)
{
    json_t *array = json_array();

    for (size_t i = 0; i < words->count; i++)
        (void)json_array_append_new(array, json_string(words->items[i]));
    return array;
}

static json_t *commas_to_array(const char *text)
{
    json_t *array = json_array();

    while (*text) {
        size_t len = strcspn(text, ", ");

        if (len)
            (void)json_array_append_new(array, json_stringn(text, len));
        text += len;
        text += strspn(text, ", ");
    }
    return array;
}

/* *ret stays NULL for an option that was not given. */
static int option_value(struct cli_call *call, const char *name, bool resolved,
                        json_t **ret, struct error *err)
{
    const char *choice = strchr(name, ':');
    char *bare cleanup(mem_free) =
        choice ? xstrndup(name, (size_t)(choice - name)) : xstrdup(name);
    const struct cli_option *o = find_option(call->command, bare);
    const void *at = (const char *)call->flags + (o ? o->offset : 0);
    bool given = o && value_given(call->c, call->command, o);
    char time[32];

    /* A text may also be set by the command's own checks. */
    if (o && (o->type == CLI_OPT_TEXT || o->type == CLI_OPT_COMMAS))
        given = *(const char *const *)at != NULL;
    if (choice) {
        size_t len = strcspn(++choice, "|");

        if (!given) {
            choice += len + (choice[len] == '|');
            len = strlen(choice);
        }
        if (len)
            *ret = json_stringn(choice, len);
        return 0;
    }
    if (!given)
        return 0;
    switch (o->type) {
    case CLI_OPT_FLAG:
    case CLI_OPT_SWITCH:
        *ret = json_boolean(*(const bool *)at);
        return 0;
    case CLI_OPT_TEXT:
        if (resolved)
            return resolve(call, o->arg, *(const char *const *)at, ret, err);
        *ret = json_string(*(const char *const *)at);
        return 0;
    case CLI_OPT_COMMAS:
        *ret = commas_to_array(*(const char *const *)at);
        return 0;
    case CLI_OPT_LIST:
        *ret = words_to_array(at);
        return 0;
    case CLI_OPT_SECONDS:
    case CLI_OPT_DURATION:
    case CLI_OPT_COUNT:
    case CLI_OPT_SIZE:
        *ret = json_integer((json_int_t) * (const uint64_t *)at);
        return 0;
    case CLI_OPT_TIME:
        *ret = json_string(clock_format_ms(*(const int64_t *)at, time));
        return 0;
    }
    return 0;
}

/* The word that a template names, as typed; NULL when the verb has no such
 * word or the line left it out. */
static const char *typed_word(const struct cli_call *call, const char *name,
                              bool *ret_known)
{
    bool optional, repeated;
    char own[32];

    *ret_known = false;
    for (size_t i = 0; word_name(call->verb, i, own, &optional, &repeated);
         i++) {
        if (strcmp(own, name) != 0)
            continue;
        *ret_known = true;
        i += repeated ? call->repeat : 0;
        return i < call->words->count ? call->words->items[i] : NULL;
    }
    return NULL;
}

/* What {name} stands for; *ret stays NULL where there is nothing. */
static int source_value(struct cli_call *call, const char *name, bool resolved,
                        json_t **ret, struct error *err)
{
    const char *dot = strchr(name, '.');
    char *bare cleanup(mem_free) = NULL;
    json_t *whole = NULL;
    const char *text;
    bool known;
    int r;

    if (strncmp(name, "--", 2) == 0)
        return option_value(call, name + 2, resolved, ret, err);
    bare = dot ? xstrndup(name, (size_t)(dot - name)) : xstrdup(name);
    text = typed_word(call, bare, &known);
    if (!text)
        return 0;
    if (!resolved) {
        *ret = json_string(text);
        return 0;
    }
    r = resolve(call, bare, text, &whole, err);
    if (r < 0)
        return r;
    if (json_is_object(whole)) {
        *ret = json_incref(json_object_get(whole, dot ? dot + 1 : "id"));
        json_decref(whole);
    } else {
        *ret = whole;
    }
    return 0;
}

/* ---- templates ---------------------------------------------------------- */

/* The text of a value in a path or a query. */
static void value_text(const json_t *value, struct buf *out)
{
    if (json_is_string(value))
        buf_adds(out, json_string_value(value));
    else if (json_is_integer(value))
        buf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_boolean(value))
        buf_adds(out, json_is_true(value) ? "true" : "false");
}

/* The next {name} at *at; text before it goes to out. False at the end. */
static bool next_source(const char **at, struct buf *out, char **ret_name)
{
    size_t len = strcspn(*at, "{");
    const char *end;

    buf_add(out, *at, len);
    *at += len;
    end = strchr(*at, '}');
    if (!end)
        return false;
    *ret_name = xstrndup(*at + 1, (size_t)(end - *at - 1));
    *at = end + 1;
    return true;
}

static int fill_path(struct cli_call *call, const char *template,
                     struct buf *out, struct error *err)
{
    for (;;) {
        struct buf text cleanup(buf_done) = {0};
        json_t *value cleanup(json_unref) = NULL;
        char *name cleanup(mem_free) = NULL;
        int r;

        if (!next_source(&template, out, &name))
            return 0;
        r = source_value(call, name, true, &value, err);
        if (r < 0)
            return r;
        buf_adds(&text, "");
        value_text(value, &text);
        cli_http_escape(out, text.data, false);
    }
}

/* object.a.b = value; value: taken. */
static void set_member(json_t *object, const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    char *first cleanup(mem_free) = NULL;
    json_t *inner;

    if (!dot) {
        (void)json_object_set_new(object, path, value);
        return;
    }
    first = xstrndup(path, (size_t)(dot - path));
    inner = json_object_get(object, first);
    if (!inner) {
        inner = json_object();
        (void)json_object_set_new(object, first, inner);
    }
    set_member(inner, dot + 1, value);
}

/* "member={SOURCE} member=text": adds what there is to object. */
static int fill_members(struct cli_call *call, const char *template,
                        bool resolved, json_t *object, struct error *err)
{
    for (const char *p = template ? template : ""; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, "=");
        char *member cleanup(mem_free) = xstrndup(p, len);
        json_t *value = NULL;

        p += len + 1;
        len = p[0] == '{' ? strcspn(p, "}") + 1 : strcspn(p, " ");
        if (p[0] == '{') {
            char *name cleanup(mem_free) = xstrndup(p + 1, len - 2);
            int r = source_value(call, name, resolved, &value, err);

            if (r < 0)
                return r;
        } else {
            value = json_stringn(p, len);
        }
        p += len;
        if (value)
            set_member(object, member, value);
    }
    return 0;
}

/* A member of the answer, formatted; name may be "member:kind". */
static void add_answer(const struct cli_call *call, const char *name,
                       struct buf *out)
{
    const char *kind = strchr(name, ':');
    char *member cleanup(mem_free) =
        kind ? xstrndup(name, (size_t)(kind - name)) : xstrdup(name);
    uint64_t number = cli_json_number(call->answer, member);
    char size[16];

    kind = kind ? kind + 1 : "";
    if (strcmp(kind, "limit") == 0 && !number)
        buf_adds(out, "none");
    else if (strcmp(kind, "size") == 0 || strcmp(kind, "limit") == 0)
        buf_adds(out, cli_format_size(number, size));
    else if (strncmp(kind, "count ", 6) == 0)
        buf_addf(out, "%llu %s%s", (unsigned long long)number, kind + 6,
                 number == 1 ? "" : "s");
    else
        value_text(json_object_get(call->answer, member), out);
}

static void fill_sentence(struct cli_call *call, struct buf *out)
{
    const char *template = call->verb->sentence;
    struct error ignored;

    for (;;) {
        json_t *value cleanup(json_unref) = NULL;
        char *name cleanup(mem_free) = NULL;
        bool known;

        if (!next_source(&template, out, &name))
            return;
        (void)typed_word(call, name, &known);
        if (!known && strncmp(name, "--", 2) != 0) {
            add_answer(call, name, out);
            continue;
        }
        /* As typed: nothing is looked up, nothing can fail. */
        (void)source_value(call, name, false, &value, &ignored);
        value_text(value, out);
    }
}

/* ---- the request -------------------------------------------------------- */

static int request_path(struct cli_call *call, struct buf *out,
                        struct error *err)
{
    json_t *query cleanup(json_unref) = json_object();
    const char *name;
    json_t *value;
    int r = 0;

    if (call->path)
        buf_adds(out, call->path);
    else
        r = fill_path(call, call->verb->path, out, err);
    if (r == 0)
        r = fill_members(call, call->verb->query, true, query, err);
    json_object_foreach (query, name, value) {
        struct buf text cleanup(buf_done) = {0};

        value_text(value, &text);
        cli_http_query(out, name, text.data);
    }
    return r;
}

static int fetch_list(struct cli_call *call, const char *path,
                      struct error *err)
{
    const struct cli_option *o = find_option(call->command, "limit");
    size_t limit = call->verb->limit;

    if (o && value_given(call->c, call->command, o))
        limit = *(const uint64_t *)((const char *)call->flags + o->offset);
    return cli_remote_list(call->c, path, call->verb->cursor, limit,
                           &call->answer, err);
}

int cli_command_request(struct cli_call *call, struct error *err)
{
    const struct cli_verb *verb = call->verb;
    struct buf path cleanup(buf_done) = {0};
    int r;

    if (verb->body && !call->body)
        call->body = json_object();
    r = fill_members(call, verb->body, true, call->body, err);
    if (r == 0)
        r = request_path(call, &path, err);
    if (r < 0)
        return r;
    json_decref(take_ptr(call->answer));
    if (verb->cursor)
        return fetch_list(call, path.data, err);
    r = cli_http_ask(call->c, verb->method, path.data, call->body,
                     (const char *const[]){call->header, NULL}, &call->answer,
                     err);
    if (r == 0 && verb->columns && !verb->list) {
        json_t *list = json_incref(json_object_get(call->answer, "data"));

        json_decref(call->answer);
        call->answer = list;
    }
    return r;
}

/* ---- the output --------------------------------------------------------- */

/* The sentence, made harmless: words and answers may hold anything. */
static void print_sentence(struct cli_call *call, FILE *out)
{
    struct buf text cleanup(buf_done) = {0};
    struct buf safe cleanup(buf_done) = {0};
    struct cli_guard guard = {.plain = true};

    fill_sentence(call, &text);
    cli_guard_feed(&guard, text.data, text.len, &safe);
    (void)fprintf(out, "%s\n", safe.data ? safe.data : "");
}

/* A path of the service is printed as a URL. */
static void print_value(struct cli_call *call)
{
    const char *text = cli_json_text(call->answer, call->verb->value, "");

    (void)printf("%s%s\n", text[0] == '/' ? call->c->base : "", text);
    (void)fflush(stdout);
    if (call->verb->sentence)
        print_sentence(call, stderr);
}

static int print_answer(struct cli_call *call)
{
    const struct cli_verb *verb = call->verb;
    const json_t *list = call->answer;

    if (call->c->json && !verb->json) {
        cli_print_json(call->answer);
        return CLI_EXIT_OK;
    }
    if (call->c->json)
        return CLI_EXIT_OK; /* printed once, for all words */
    if (verb->print)
        return verb->print(call);
    if (verb->list)
        list = json_object_get(call->answer, verb->list);
    if (verb->columns)
        cli_show_columns(call->c, list, verb->columns);
    else if (verb->value)
        print_value(call);
    else if (!verb->sentence)
        cli_show_object(call->c, call->answer);
    else if (verb->always || call->c->tty_out)
        print_sentence(call, stdout);
    return CLI_EXIT_OK;
}

/* Adds what `json` says of this request: a member of a repeated word is a
 * list of all of them. */
static void add_json(struct cli_call *call, bool repeats, json_t *all)
{
    json_t *one cleanup(json_unref) = json_object();
    struct error ignored;
    const char *name;
    json_t *value;

    (void)fill_members(call, call->verb->json, false, one, &ignored);
    json_object_foreach (one, name, value) {
        if (!repeats) {
            (void)json_object_set(all, name, value);
            continue;
        }
        if (call->repeat == 0)
            (void)json_object_set_new(all, name, json_array());
        (void)json_array_append(json_object_get(all, name), value);
    }
}

static void call_done(struct cli_call *call)
{
    free(call->path);
    cli_secret_free(&call->header);
    json_decref(call->body);
    json_decref(call->resolved);
    json_decref(call->answer);
}

/* How many requests: one for each of a repeated word that the path has. */
static size_t count_requests(const struct cli_verb *verb,
                             const struct cli_words *words)
{
    bool optional, repeated = false;
    char name[32], in_path[40];
    size_t i = 0;

    while (word_name(verb, i, name, &optional, &repeated) && !repeated)
        i++;
    (void)snprintf(in_path, sizeof(in_path), "{%s}", name);
    return repeated && strstr(verb->path, in_path) ? words->count - i : 1;
}

static int run_request(struct cli *c, const struct cli_command *command,
                       const struct cli_verb *verb,
                       const struct cli_words *words, void *flags)
{
    struct cli_call call cleanup(call_done) = {.c = c,
                                               .command = command,
                                               .verb = verb,
                                               .words = words,
                                               .flags = flags};
    json_t *all cleanup(json_unref) = json_object();
    int status = CLI_EXIT_OK;
    struct error err;
    size_t count;

    if (verb->prepare) {
        int r = verb->prepare(&call, &err);

        if (r)
            return r < 0 ? cli_fail(c, &err) : r;
    }
    verb = call.verb;
    count = count_requests(verb, words);
    for (; call.repeat < count && status == CLI_EXIT_OK; call.repeat++) {
        if (cli_command_request(&call, &err) < 0)
            return cli_fail(c, &err);
        status = print_answer(&call);
        if (verb->json)
            add_json(&call, count > 1 || strstr(verb->words, "..."), all);
    }
    if (c->json && verb->json)
        cli_print_json(all);
    return status;
}

/* ---- the line ----------------------------------------------------------- */

/* The verb that words begin with; *ret_used: how many of them name it. */
static const struct cli_verb *find_verb(const struct cli_command *command,
                                        const struct cli_words *words,
                                        size_t *ret_used)
{
    char pair[64] = "";

    *ret_used = 0;
    if (!command->verbs->name[0] || words->count == 0)
        return command->verbs;
    if (words->count > 1)
        (void)snprintf(pair, sizeof(pair), "%s %s", words->items[0],
                       words->items[1]);
    for (const struct cli_verb *v = command->verbs; v->name; v++) {
        *ret_used = strchr(v->name, ' ') ? 2 : 1;
        if (strcmp(v->name, *ret_used == 2 ? pair : words->items[0]) == 0 ||
            cli_command_listed(v->aliases, words->items[0]))
            return v;
    }
    return NULL;
}

static int unknown_verb(const struct cli *c, const struct cli_command *command,
                        const struct cli_words *words)
{
    char pair[64] = "";
    const char *near;
    size_t count = 0;

    while (command->verbs[count].name)
        count++;
    if (words->count > 1)
        (void)snprintf(pair, sizeof(pair), "%s %s", words->items[0],
                       words->items[1]);
    near = cli_format_nearest(pair, &command->verbs[0].name,
                              sizeof(*command->verbs), count);
    if (!near || !strchr(near, ' '))
        near = cli_format_nearest(words->items[0], &command->verbs[0].name,
                                  sizeof(*command->verbs), count);
    if (near)
        return cli_usage_error(c, "there is no '%s'; did you mean '%s'?",
                               strchr(near, ' ') ? pair : words->items[0],
                               near);
    return cli_usage_error(c, "there is no '%s'", words->items[0]);
}

/* Is the line one that the verb takes? CLI_EXIT_OK, or after a complaint
 * CLI_EXIT_USAGE. */
static int check_line(const struct cli *c, const struct cli_command *command,
                      const struct cli_verb *verb,
                      const struct cli_words *words)
{
    const char *front = verb->name, *colon = *verb->name ? ": " : "";
    bool optional, repeated;
    size_t min, max;
    char name[32];

    count_words(verb, &min, &max);
    if (words->count > max)
        return cli_usage_error(c, "%s%sunexpected '%s'", front, colon,
                               words->items[max]);
    if (words->count < min &&
        word_name(verb, words->count, name, &optional, &repeated))
        return cli_usage_error(c, "%s%s%s is missing", front, colon, name);
    for (size_t i = 0; i < c->given_count; i++)
        if (c->given[i].only &&
            !cli_command_listed(c->given[i].only, verb->name))
            return cli_usage_error(c, "--%s is not for '%s'",
                                   c->given[i].option, verb->name);
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (cli_command_listed(verb->needs, o->name) &&
            !value_given(c, command, o))
            return cli_usage_error(c, "%s%sneeds --%s %s", front,
                                   *front ? " " : "", o->name, o->arg);
    for (size_t i = 0;
         i < words->count && word_name(verb, i, name, &optional, &repeated);
         i++) {
        const struct cli_word_kind *kind = find_kind(command, name);

        if (kind && kind->check && !kind->check(words->items[i]))
            return cli_usage_error(c, "%s%s%s must be %s, not '%s'", front,
                                   colon, name, kind->expected,
                                   words->items[i]);
    }
    return CLI_EXIT_OK;
}

static int run_line(struct cli *c, const struct cli_command *command,
                    const struct cli_words *line, void *flags)
{
    struct cli_words words = {0};
    const struct cli_verb *verb;
    size_t used = 0;
    int status;

    verb = find_verb(command, line, &used);
    if (!verb)
        return unknown_verb(c, command, line);
    c->verb = verb;
    for (size_t i = used; i < line->count; i++)
        words.items[words.count++] = line->items[i];
    status = check_line(c, command, verb, &words);
    if (status == CLI_EXIT_OK && command->check)
        status = command->check(c, &words, flags);
    if (status != CLI_EXIT_OK)
        return status;
    return verb->run ? verb->run(c, &words, flags)
                     : run_request(c, command, verb, &words, flags);
}

int cli_command_run(const struct cli_command *command, int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    void *flags cleanup(mem_free) = xcalloc(1, MAX(command->flags_size, 1u));
    struct cli_opt bound[CLI_OPTS_MAX];
    struct cli_opts opts = {bound, 0, command->notes};
    struct cli_words words;
    int status;

    for (const struct cli_option *o = command->options; o && o->name; o++)
        bound[opts.count++] =
            (struct cli_opt){.name = o->name,
                             .letter = o->letter,
                             .type = o->type,
                             .target = (char *)flags + o->offset,
                             .arg = o->arg,
                             .help = o->help,
                             .only = o->verbs};
    cli_init(&c, command->name);
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    status = run_line(&c, command, &words, flags);
    if (command->flags_done)
        command->flags_done(flags);
    return status;
}
