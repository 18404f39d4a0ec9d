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
#include "base/size.h"
#include "cli/common.h"

/* ---- names -------------------------------------------------------------- */

bool cli_command_listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    const char *p = list;

    while (p && len && (p = strstr(p, word))) {
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return true;
        p++;
    }
    return false;
}

/* A word that a verb takes. */
struct word {
    char name[32]; /* without brackets and dots */
    bool optional, repeated;
};

static bool find_word(const struct cli_verb *verb, size_t index,
                      struct word *ret)
{
    for (const char *p = verb->words ? verb->words : ""; *p; index--) {
        size_t open = p[0] == '[', len = strcspn(p + open, " .]");

        *ret =
            (struct word){.optional = open, .repeated = p[open + len] == '.'};
        (void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)len,
                       p + open);
        if (index == 0)
            return true;
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    return false;
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
static bool is_given(const struct cli *c, const struct cli_command *command,
                     const struct cli_option *option)
{
    for (const struct cli_option *o = command->options; o->name; o++)
        if (o->offset == option->offset && cli_command_given(c, o->name))
            return true;
    return false;
}

/* ---- kinds of words ----------------------------------------------------- */

/* The id of the object that the word names. */
static int resolve_noun(struct cli *c, enum cli_noun noun, const char *text,
                        json_t **ret, struct error *err)
{
    char id[ID_MAX];
    int r = cli_remote_resolve(c, noun, text, id, err);

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
    if (r == 0)
        *ret =
            json_pack("{s:s, s:s}", "workspace", place.id, "path", place.path);
    return r;
}

static json_t *parse_size(const char *text)
{
    uint64_t bytes;

    return cli_values_size(text, &bytes) < 0 ? NULL
                                             : json_integer((json_int_t)bytes);
}

static json_t *parse_switch(const char *text)
{
    if (strcmp(text, "on") == 0)
        return json_true();
    return strcmp(text, "off") == 0 ? json_false() : NULL;
}

static const struct cli_word_kind common_kinds[] = {
    {"WS", .noun = CLI_WORKSPACE, .is_noun = true},
    {"SESSION", .noun = CLI_SESSION, .is_noun = true},
    {"KEY", .noun = CLI_KEY, .is_noun = true},
    {"TOKEN", .noun = CLI_TOKEN, .is_noun = true},
    {"APPROVAL", .noun = CLI_APPROVAL, .is_noun = true},
    {"PLACE", .resolve = resolve_place},
    {"SIZE", .parse = parse_size, .expected = "a size such as 20g"},
    {"on|off", .parse = parse_switch, .expected = "on or off"},
    {0},
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
static int resolve_text(struct cli_call *call, const char *name,
                        const char *text, json_t **ret, struct error *err)
{
    const struct cli_word_kind *kind = find_kind(call->command, name);
    char *key cleanup(mem_free) = xasprintf("%s %s", name, text);
    int r = 0;

    *ret = json_incref(json_object_get(call->resolved, key));
    if (*ret)
        return 0;
    if (kind && kind->is_noun)
        r = resolve_noun(call->c, kind->noun, text, ret, err);
    else if (kind && kind->resolve)
        r = kind->resolve(call->c, text, ret, err);
    else
        *ret = kind ? kind->parse(text) : json_string(text);
    if (r == 0 && !*ret)
        r = error_set(err, ERR_INVALID, "%s is not valid UTF-8", name);
    if (r == 0)
        (void)json_object_set(call->resolved, key, *ret);
    return r;
}

/* ---- sources ------------------------------------------------------------ */

/* name: "ttl", or "flag:yes|no". *ret stays NULL for one that was not given.
 */
static int option_value(struct cli_call *call, const char *name, bool resolved,
                        json_t **ret, struct error *err)
{
    size_t len = strcspn(name, ":");
    char *bare cleanup(mem_free) = xstrndup(name, len);
    const struct cli_option *o = find_option(call->command, bare);
    const void *at = (const char *)call->flags + (o ? o->offset : 0);
    bool given = o && is_given(call->c, call->command, o);
    char time[32];

    if (name[len]) {
        const char *text = name + len + 1;

        if (!given)
            text += strcspn(text, "|") + (strchr(text, '|') != NULL);
        len = strcspn(text, "|");
        *ret = len ? json_stringn(text, len) : NULL;
        return 0;
    }
    /* A text may also have been set by the command's own checks. */
    if (o && (o->type == CLI_OPT_TEXT || o->type == CLI_OPT_COMMAS))
        given = *(const char *const *)at != NULL;
    if (!given)
        return 0;
    switch (o->type) {
    case CLI_OPT_TEXT:
        if (resolved)
            return resolve_text(call, o->arg, *(const char *const *)at, ret,
                                err);
        *ret = json_string(*(const char *const *)at);
        return 0;
    case CLI_OPT_FLAG:
    case CLI_OPT_SWITCH:
        *ret = json_boolean(*(const bool *)at);
        return 0;
    case CLI_OPT_COMMAS:
        *ret = cli_json_commas(*(const char *const *)at);
        return 0;
    case CLI_OPT_LIST:
        *ret = json_array();
        for (size_t i = 0; i < ((const struct cli_words *)at)->count; i++)
            (void)json_array_append_new(
                *ret, json_string(((const struct cli_words *)at)->items[i]));
        return 0;
    case CLI_OPT_SECONDS:
    case CLI_OPT_DURATION:
    case CLI_OPT_COUNT:
    case CLI_OPT_SIZE:
        *ret = json_integer((json_int_t) * (const uint64_t *)at);
        return 0;
    case CLI_OPT_FORMAT: /* of struct cli, never of a request */
        return 0;
    case CLI_OPT_TIME:
        *ret = json_string(clock_format_ms(*(const int64_t *)at, time));
        return 0;
    }
    return 0;
}

/* *ret: the word of that name, or NULL when the line left it out. False when
 * the verb takes no such word. */
static bool typed_word(const struct cli_call *call, const char *name,
                       size_t len, const char **ret)
{
    struct word word;

    for (size_t i = 0; find_word(call->verb, i, &word); i++)
        if (strlen(word.name) == len && memcmp(word.name, name, len) == 0) {
            i += word.repeated ? call->repeat : 0;
            *ret = i < call->words->count ? call->words->items[i] : NULL;
            return true;
        }
    return false;
}

/* A member of the answer as text; name may be "member:kind". */
static json_t *answer_value(const struct cli_call *call, const char *name)
{
    size_t len = strcspn(name, ":");
    const char *kind = name[len] ? name + len + 1 : "";
    char *member cleanup(mem_free) = xstrndup(name, len);
    unsigned long long number = cli_json_number(call->answer, member);
    char size[16];

    if (strcmp(kind, "limit") == 0 && !number)
        return json_string("none");
    if (strcmp(kind, "size") == 0 || strcmp(kind, "limit") == 0)
        return json_string(size_format(number, size));
    if (strncmp(kind, "count ", 6) == 0)
        return json_sprintf("%llu %s%s", number, kind + 6,
                            number == 1 ? "" : "s");
    return json_incref(json_object_get(call->answer, member));
}

/* The value of {name}, owned; *ret is NULL if there is none. */
static int source_value(struct cli_call *call, const char *name, bool resolved,
                        json_t **ret, struct error *err)
{
    size_t len = strcspn(name, ".:");
    char *bare cleanup(mem_free) = xstrndup(name, len);
    json_t *whole cleanup(json_unref) = NULL;
    const char *text;
    int r;

    *ret = NULL;
    if (strncmp(name, "--", 2) == 0)
        return option_value(call, name + 2, resolved, ret, err);
    if (!typed_word(call, name, len, &text)) {
        *ret = answer_value(call, name);
        return 0;
    }
    if (!text)
        return 0;
    if (!resolved) {
        *ret = json_string(text);
        return 0;
    }
    r = resolve_text(call, bare, text, &whole, err);
    if (r == 0 && json_is_object(whole))
        *ret = json_incref(
            json_object_get(whole, name[len] ? name + len + 1 : "id"));
    else if (r == 0)
        *ret = json_incref(whole);
    return r;
}

/* ---- templates ---------------------------------------------------------- */

static void add_text(const json_t *value, struct buf *out)
{
    buf_adds(out, json_is_string(value) ? json_string_value(value) : "");
    if (json_is_integer(value))
        buf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_boolean(value))
        buf_adds(out, json_is_true(value) ? "true" : "false");
}

/* A path, with values resolved and escaped, or a sentence, with words as they
 * were typed. */
static int fill_text(struct cli_call *call, const char *template, bool is_path,
                     struct buf *out, struct error *err)
{
    while (*template) {
        size_t len = strcspn(template, "{");
        struct buf text cleanup(buf_done) = {0};
        json_t *value cleanup(json_unref) = NULL;
        char *name cleanup(mem_free) = NULL;
        int r;

        buf_add(out, template, len);
        template += len;
        if (!*template)
            break;
        len = strcspn(template, "}");
        name = xstrndup(template + 1, len - 1);
        template += len + 1;
        r = source_value(call, name, is_path, &value, err);
        if (r < 0)
            return r;
        add_text(value, &text);
        if (is_path)
            cli_http_escape(out, text.data, false);
        else
            buf_adds(out, text.data);
    }
    return 0;
}

/* "member={SOURCE} member=text": adds the members that have a value. */
static int fill_members(struct cli_call *call, const char *template,
                        bool resolved, json_t *object, struct error *err)
{
    for (const char *p = template ? template : ""; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, "="), dot = strcspn(p, ".=");
        char *first cleanup(mem_free) = xstrndup(p, dot);
        const char *text = p + len + 1;
        size_t end = *text == '{' ? strcspn(text, "}") : strcspn(text, " ");
        json_t *value = NULL;

        if (*text == '{') {
            char *name cleanup(mem_free) = xstrndup(text + 1, end - 1);
            int r = source_value(call, name, resolved, &value, err);

            if (r < 0)
                return r;
        } else {
            value = json_stringn(text, end);
        }
        if (value && dot < len) { /* outer.inner */
            char *inner cleanup(mem_free) =
                xstrndup(p + dot + 1, len - dot - 1);

            if (!json_object_get(object, first))
                (void)json_object_set_new(object, first, json_object());
            (void)json_object_set_new(json_object_get(object, first), inner,
                                      value);
        } else if (value) {
            (void)json_object_set_new(object, first, value);
        }
        p = text + end + (*text == '{');
    }
    return 0;
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
        r = fill_text(call, call->verb->path, true, out, err);
    if (r == 0)
        r = fill_members(call, call->verb->query, true, query, err);
    json_object_foreach (query, name, value) {
        struct buf text cleanup(buf_done) = {0};

        add_text(value, &text);
        cli_http_query(out, name, text.data);
    }
    return r;
}

/* Makes the request; call->answer is what came. */
static int send_request(struct cli_call *call, struct error *err)
{
    const struct cli_option *limit = find_option(call->command, "limit");
    const struct cli_verb *verb = call->verb;
    struct buf path cleanup(buf_done) = {0};
    size_t most = verb->limit;
    json_t *answer = NULL;
    int r;

    if (verb->body && !call->body)
        call->body = json_object();
    r = fill_members(call, verb->body, true, call->body, err);
    if (r == 0)
        r = request_path(call, &path, err);
    if (r < 0)
        return r;
    if (limit && is_given(call->c, call->command, limit))
        most = *(const uint64_t *)((const char *)call->flags + limit->offset);
    if (verb->cursor)
        r = cli_remote_list(call->c, path.data, verb->cursor, most, &answer,
                            err);
    else
        r = cli_http_ask(call->c, verb->method, path.data, call->body,
                         (const char *const[]){call->header, NULL}, &answer,
                         err);
    json_decref(call->answer);
    call->answer = answer;
    if (r == 0 && verb->columns && !verb->list && !verb->cursor) {
        call->answer = json_incref(json_object_get(answer, "data"));
        json_decref(answer);
    }
    return r;
}

/* ---- the output --------------------------------------------------------- */

/* Words and answers may hold anything: nothing of the sentence may control
 * the terminal. */
static void print_sentence(struct cli_call *call, FILE *out)
{
    struct cli_filter filter = {.plain = true};
    struct buf text cleanup(buf_done) = {0};
    struct buf safe cleanup(buf_done) = {0};
    struct error ignored; /* words as typed need no look-up */

    (void)fill_text(call, call->verb->sentence, false, &text, &ignored);
    cli_filter_feed(&filter, text.data, text.len, &safe);
    (void)fprintf(out, "%s\n", safe.data ? safe.data : "");
}

static int print_answer(struct cli_call *call)
{
    const struct cli_verb *verb = call->verb;
    const json_t *answer = call->answer;

    if (call->c->json) {
        if (!verb->json)
            cli_print_json(call->c, answer);
        return CLI_EXIT_OK;
    }
    if (verb->print)
        return verb->print(call);
    if (verb->columns) {
        cli_show_list(
            call->c, verb->list ? json_object_get(answer, verb->list) : answer,
            verb->columns);
    } else if (verb->value) {
        (void)printf("%s\n", cli_json_text(answer, verb->value, ""));
        (void)fflush(stdout);
        if (verb->sentence && (verb->always || call->c->tty_err))
            print_sentence(call, stderr);
    } else if (!verb->sentence) {
        cli_show_object(call->c, answer);
    } else if (verb->always || call->c->tty_out) {
        print_sentence(call, stdout);
    }
    return CLI_EXIT_OK;
}

/* Adds what `json` says of one request; with a repeated word, to lists. */
static void add_json(struct cli_call *call, bool repeated, json_t *all)
{
    json_t *one cleanup(json_unref) = json_object();
    struct error ignored;
    const char *name;
    json_t *value;

    (void)fill_members(call, call->verb->json, false, one, &ignored);
    json_object_foreach (one, name, value) {
        if (!repeated) {
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

/* One request, or one for each of a repeated word that the path has. */
static int run_requests(struct cli_call *call)
{
    json_t *all cleanup(json_unref) = json_object();
    size_t count = 1, i = 0;
    int status = CLI_EXIT_OK;
    struct word word = {0};
    struct error err;

    if (call->verb->prepare) {
        int r = call->verb->prepare(call, &err);

        if (r)
            return r < 0 ? cli_fail(call->c, &err) : r;
    }
    while (!word.repeated && find_word(call->verb, i, &word))
        i++;
    if (word.repeated && strstr(call->verb->path, word.name))
        count = call->words->count - (i - 1);
    else
        word.repeated = false;
    for (; call->repeat < count && status == CLI_EXIT_OK; call->repeat++) {
        if (send_request(call, &err) < 0)
            return cli_fail(call->c, &err);
        status = print_answer(call);
        add_json(call, word.repeated, all);
    }
    if (call->c->json && call->verb->json)
        cli_print_json(call->c, all);
    return status;
}

/* ---- the line ----------------------------------------------------------- */

/* The verb that a line begins with; *ret_used: how many words name it. */
static const struct cli_verb *find_verb(const struct cli_command *command,
                                        const struct cli_words *line,
                                        const char *pair, size_t *ret_used)
{
    *ret_used = 0;
    if (!command->verbs->name[0] || line->count == 0)
        return command->verbs;
    for (const struct cli_verb *v = command->verbs; v->name; v++) {
        *ret_used = strchr(v->name, ' ') ? 2 : 1;
        if (strcmp(v->name, *ret_used == 2 ? pair : line->items[0]) == 0 ||
            cli_command_listed(v->aliases, line->items[0]))
            return v;
    }
    return NULL;
}

static int unknown_verb(const struct cli *c, const struct cli_command *command,
                        const char *word, const char *pair)
{
    const struct cli_verb *verbs = command->verbs;
    const char *near;
    size_t count = 0;

    while (verbs[count].name)
        count++;
    near = cli_format_nearest(pair, &verbs[0].name, sizeof(*verbs), count);
    if (near && strchr(near, ' '))
        word = pair;
    else
        near = cli_format_nearest(word, &verbs[0].name, sizeof(*verbs), count);
    return near ? cli_usage_error(c, "there is no '%s'; did you mean '%s'?",
                                  word, near)
                : cli_usage_error(c, "there is no '%s'", word);
}

/* A command whose --output is a file for some verbs: `-o json` of the others
 * is the format of all commands. */
static bool is_format(struct cli *c, const struct cli_command *command,
                      const char *option, const void *flags)
{
    const struct cli_option *o = find_option(command, option);

    return o && strcmp(option, "output") == 0 &&
           cli_opts_format(
               c, *(const char *const *)((const char *)flags + o->offset));
}

/* Does the line fit the verb? CLI_EXIT_OK, or after a complaint
 * CLI_EXIT_USAGE. */
static int check_line(struct cli *c, const struct cli_command *command,
                      const struct cli_verb *verb,
                      const struct cli_words *words, const void *flags)
{
    const char *name = verb->name, *colon = *name ? ": " : "";
    size_t min = verb->min, max = verb->max;
    struct word word;

    for (size_t i = 0; !verb->max && find_word(verb, i, &word); i++) {
        min += !word.optional;
        max = word.repeated ? CLI_WORDS_MAX : max + 1;
    }
    if (words->count > max)
        return cli_usage_error(c, "%s%sunexpected '%s'", name, colon,
                               words->items[max]);
    if (words->count < min && find_word(verb, words->count, &word))
        return cli_usage_error(c, "%s%s%s is missing", name, colon, word.name);
    for (size_t i = 0; i < c->given_count; i++)
        if (c->given[i].only && !cli_command_listed(c->given[i].only, name) &&
            !is_format(c, command, c->given[i].option, flags))
            return cli_usage_error(c, "--%s is not for '%s'",
                                   c->given[i].option, name);
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (cli_command_listed(verb->needs, o->name) &&
            !is_given(c, command, o))
            return cli_usage_error(c, "%s needs --%s %s", name, o->name,
                                   o->arg);
    for (size_t i = 0; i < words->count && find_word(verb, i, &word); i++) {
        const struct cli_word_kind *kind = find_kind(command, word.name);
        json_t *value =
            kind && kind->parse ? kind->parse(words->items[i]) : json_null();

        json_decref(value);
        if (!value)
            return cli_usage_error(c, "%s%s%s must be %s, not '%s'", name,
                                   colon, word.name, kind->expected,
                                   words->items[i]);
    }
    return CLI_EXIT_OK;
}

static int run_line(struct cli *c, const struct cli_command *command,
                    const struct cli_words *line, void *flags)
{
    struct cli_words words = {0};
    char pair[64] = "";
    size_t used;
    int status;

    if (line->count > 1)
        (void)snprintf(pair, sizeof(pair), "%s %s", line->items[0],
                       line->items[1]);
    c->verb = find_verb(command, line, pair, &used);
    if (!c->verb)
        return unknown_verb(c, command, line->items[0], pair);
    for (size_t i = used; i < line->count; i++)
        words.items[words.count++] = line->items[i];
    status = check_line(c, command, c->verb, &words, flags);
    if (status == CLI_EXIT_OK && command->check)
        status = command->check(c, &words, flags);
    if (status == CLI_EXIT_OK && c->verb->run)
        status = c->verb->run(c, &words, flags);
    else if (status == CLI_EXIT_OK) {
        struct cli_call call cleanup(call_done) = {
            c, command, c->verb, &words, flags, .resolved = json_object()};

        status = run_requests(&call);
    }
    return status;
}

int cli_command_run(const struct cli_command *command, int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    char *flags cleanup(mem_free) = xcalloc(1, command->flags_size + 1);
    struct cli_opt bound[CLI_OPTS_MAX];
    struct cli_opts opts = {bound, 0, command->notes};
    struct cli_words words;
    int status;

    for (const struct cli_option *o = command->options; o && o->name; o++)
        bound[opts.count++] =
            (struct cli_opt){o->name, o->letter, o->type, flags + o->offset,
                             o->arg,  o->help,   o->verbs};
    cli_init(&c, command->name);
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    status = run_line(&c, command, &words, flags);
    if (command->flags_done)
        command->flags_done(flags);
    return status;
}
