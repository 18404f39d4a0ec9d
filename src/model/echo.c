/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in model "echo", for trials and tests: deterministic, without a
 * server, with a little language in the user's message that makes it call
 * functions, fail, wait or answer at length. docs/MODELS.md describes the
 * language. Runs in gloveboxd on the thread of the call. Tokens are words.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/utf8.h"
#include "model/model_int.h"

#define COMMANDS_MAX 64u
#define PIECE_MAX 64u /* bytes of one event */
#define WORDS_MAX 200000u
#define SLOW_MAX_MS 60000u

enum command_kind {
    COMMAND_RUN,  /* code for the code tool */
    COMMAND_CALL, /* "NAME {json}" */
    COMMAND_RAW,  /* arguments for the code tool, as they are */
    COMMAND_LOOP  /* as RUN, in every round */
};

struct command {
    enum command_kind kind;
    char *text;
};

struct echo {
    struct model_call_state *call;
    struct buf user; /* text of the last message of the user */
    size_t rounds;   /* outputs of functions since that message */
    struct command commands[COMMANDS_MAX];
    size_t count;
    char *fail, *say, *think, *show;
    uint64_t slow_ms, words; /* words: of a long answer; 0: none asked for */
    bool parallel;
    unsigned item; /* index of the next one */
};

static void echo_done(struct echo *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->commands[i].text);
    free(e->fail);
    free(e->say);
    free(e->think);
    free(e->show);
    buf_done(&e->user);
}

/* ---- reading the message ------------------------------------------------ */

static void add_command(struct echo *e, enum command_kind kind,
                        const char *text, size_t len)
{
    if (e->count < COMMANDS_MAX)
        e->commands[e->count++] = (struct command){kind, xstrndup(text, len)};
}

static void set_text(char **field, const char *text, size_t len)
{
    free(*field);
    *field = xstrndup(text, len);
}

/* A line "word: rest"; false: it is plain text. */
static bool read_line(struct echo *e, const char *line, size_t len)
{
    static const char *const words[] = {"run", "call", "raw", "loop"};
    const char *colon = memchr(line, ':', MIN(len, (size_t)10));
    const char *rest = colon ? colon + 1 : NULL;
    const char *end = line + len;
    size_t word = colon ? (size_t)(colon - line) : 0;

    if (len == 8 && memcmp(line, "parallel", 8) == 0)
        return e->parallel = true;
    if (!colon)
        return false;
    while (rest < end && *rest == ' ')
        rest++;
    len = (size_t)(end - rest);
#define IS(name) (word == strlen(name) && memcmp(line, name, word) == 0)
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (IS(words[i])) {
            add_command(e, (enum command_kind)i, rest, len);
            return true;
        }
    if (IS("fail"))
        set_text(&e->fail, rest, len);
    else if (IS("say"))
        set_text(&e->say, rest, len);
    else if (IS("think"))
        set_text(&e->think, rest, len);
    else if (IS("show"))
        set_text(&e->show, rest, len);
    else if (IS("slow"))
        e->slow_ms = MIN(strtoull(rest, NULL, 10), SLOW_MAX_MS);
    else if (IS("long"))
        e->words = MIN(strtoull(rest, NULL, 10), WORDS_MAX);
    else
        return false;
#undef IS
    return true;
}

static size_t line_length(const char *text)
{
    return strcspn(text, "\n");
}

/* The lines after an opening fence, up to the closing one. */
static const char *read_fence(struct echo *e, const char *text)
{
    const char *start = text, *end;

    for (end = text; *end && strncmp(end, "```", 3) != 0;) {
        end += line_length(end);
        end += *end == '\n';
    }
    add_command(e, COMMAND_RUN, start,
                (size_t)(end - start) - (end > start && end[-1] == '\n'));
    end += line_length(end);
    return end + (*end == '\n');
}

static void read_message(struct echo *e)
{
    const char *at = e->user.data ? e->user.data : "";

    while (*at) {
        size_t len = line_length(at);
        size_t text = len && at[len - 1] == '\r' ? len - 1 : len;

        if ((text == 9 && memcmp(at, "```python", 9) == 0) ||
            (text == 5 && memcmp(at, "```py", 5) == 0)) {
            at = read_fence(e, at + len + (at[len] == '\n'));
            continue;
        }
        (void)read_line(e, at, text);
        at += len + (at[len] == '\n');
    }
}

/* The last message of the user, and what happened since. */
static void read_input(struct echo *e)
{
    const json_t *input = e->call->request->input, *item;
    size_t i;

    json_array_foreach (input, i, item) {
        const char *type = model_item_type(item);
        const char *role = json_string_value(json_object_get(item, "role"));

        if (strcmp(type, "message") == 0 && role &&
            strcmp(role, "user") == 0) {
            buf_reset(&e->user);
            model_item_text(json_object_get(item, "content"), &e->user);
            e->rounds = 0;
        } else if (strcmp(type, "function_call_output") == 0) {
            e->rounds++;
        }
    }
    read_message(e);
}

/* ---- tools -------------------------------------------------------------- */

static const json_t *find_tool(const struct echo *e, const char *name)
{
    const json_t *tool;
    size_t i;

    json_array_foreach (e->call->request->tools, i, tool) {
        const char *its = json_string_value(json_object_get(tool, "name"));

        if (its && strcmp(its, name) == 0)
            return tool;
    }
    return NULL;
}

/* The function that runs Python: called "python", or with a suffix where the
 * caller has a function of that name. */
static const char *code_tool(const struct echo *e)
{
    const json_t *tool;
    const char *found = NULL;
    size_t i;

    json_array_foreach (e->call->request->tools, i, tool) {
        const char *name = json_string_value(json_object_get(tool, "name"));
        const json_t *properties =
            json_object_get(json_object_get(tool, "parameters"), "properties");

        if (name && strncmp(name, "python", 6) == 0 &&
            json_object_get(properties, "code"))
            found = name;
    }
    return found ? found : find_tool(e, "python") ? "python" : NULL;
}

static bool may_call(const struct echo *e)
{
    const char *choice = json_string_value(e->call->request->tool_choice);

    return json_array_size(e->call->request->tools) > 0 &&
           !(choice && strcmp(choice, "none") == 0);
}

/* The function that the caller insists on, while it was not called yet. */
static const json_t *forced_tool(const struct echo *e)
{
    const json_t *choice = e->call->request->tool_choice;
    const char *word = json_string_value(choice);
    const char *name = json_string_value(json_object_get(choice, "name"));

    if (e->rounds > 0)
        return NULL;
    if (word && strcmp(word, "required") == 0)
        return json_array_get(e->call->request->tools, 0);
    return name ? find_tool(e, name) : NULL;
}

/* ---- output ------------------------------------------------------------- */

static uint64_t count_words(const char *text)
{
    uint64_t n = 0;

    for (; *text; n++) {
        text += strspn(text, " \t\r\n");
        if (!*text)
            break;
        text += strcspn(text, " \t\r\n");
    }
    return n;
}

/* The next piece of a text: a word and the blanks after it, or a part. */
static size_t piece_length(const char *text, size_t len)
{
    size_t n = strcspn(text, " \n");

    n += strspn(text + n, " \n");
    return n <= PIECE_MAX ? MIN(n, len) : utf8_cut(text, len, PIECE_MAX);
}

/* Sends at most `most` words of a text; returns the bytes sent. */
static int send_pieces(struct echo *e, enum model_event_kind kind,
                       const char *text, uint64_t most, size_t *ret_sent,
                       struct error *err)
{
    struct model_usage *u = &e->call->result->usage;
    size_t len = strlen(text), at = 0;
    uint64_t words = 0;
    int r = 0;

    while (r == 0 && at < len) {
        size_t n = piece_length(text + at, len - at);
        struct model_event event = {
            .kind = kind, .item = e->item, .text = text + at, .len = n};

        if (words++ == most)
            break;
        r = e->slow_ms ? model_call_sleep(e->call, e->slow_ms, err)
                       : model_call_check(e->call, err);
        if (r == 0)
            r = model_call_event(e->call, &event, err);
        at += n;
        u->output++;
        if (kind == MODEL_EVENT_REASONING)
            u->reasoning++;
    }
    *ret_sent = at;
    return r;
}

static int finish_item(struct echo *e, json_t *item, struct error *err)
{
    struct model_event event = {
        .kind = MODEL_EVENT_ITEM, .item = e->item++, .done = item};
    int r = model_call_event(e->call, &event, err);

    json_decref(item);
    return r;
}

static int send_reasoning(struct echo *e, struct error *err)
{
    size_t sent;
    int r =
        send_pieces(e, MODEL_EVENT_REASONING, e->think, WORDS_MAX, &sent, err);

    return r < 0 ? r
                 : finish_item(e,
                               json_pack("{s:s, s:[{s:s, s:s}]}", "type",
                                         "reasoning", "summary", "type",
                                         "summary_text", "text", e->think),
                               err);
}

static int send_call(struct echo *e, const char *name, const char *arguments,
                     struct error *err)
{
    struct model_event event = {.kind = MODEL_EVENT_CALL, .item = e->item};
    char id[ID_MAX];
    size_t sent;
    int r;

    /* The same prompt gives the same id, a longer one another. */
    (void)snprintf(id, sizeof(id), "call_echo_%zu_%u",
                   json_array_size(e->call->request->input), e->item);
    event.call_id = id;
    event.name = name;
    r = model_call_event(e->call, &event, err);
    if (r == 0)
        r = send_pieces(e, MODEL_EVENT_ARGUMENTS, arguments, WORDS_MAX, &sent,
                        err);
    return r < 0 ? r
                 : finish_item(e,
                               json_pack("{s:s, s:s, s:s, s:s, s:s}", "type",
                                         "function_call", "call_id", id,
                                         "name", name, "arguments", arguments,
                                         "status", "completed"),
                               err);
}

static uint64_t output_limit(const struct echo *e)
{
    const json_t *most =
        json_object_get(e->call->request->options, "max_output_tokens");

    return json_is_integer(most) && json_integer_value(most) > 0
               ? (uint64_t)json_integer_value(most)
               : WORDS_MAX * 2;
}

static int send_message(struct echo *e, const char *text, bool refusal,
                        struct error *err)
{
    enum model_event_kind kind =
        refusal ? MODEL_EVENT_REFUSAL : MODEL_EVENT_TEXT;
    json_t *part, *item;
    size_t sent = 0;
    int r = send_pieces(e, kind, text, output_limit(e), &sent, err);

    if (r < 0)
        return r;
    if (sent < strlen(text))
        e->call->result->finish = MODEL_FINISH_LENGTH;
    part = refusal ? json_pack("{s:s, s:s%}", "type", "refusal", "refusal",
                               text, sent)
                   : json_pack("{s:s, s:s%, s:[]}", "type", "output_text",
                               "text", text, sent, "annotations");
    item = json_pack("{s:s, s:s, s:[o], s:s}", "type", "message", "role",
                     "assistant", "content", part, "status",
                     sent < strlen(text) ? "incomplete" : "completed");
    return finish_item(e, item, err);
}

/* ---- answers ------------------------------------------------------------ */

/* Files that a text names: after /mnt/data/, or by a usual ending. */
static bool is_file_name(const char *word, size_t len)
{
    static const char *const endings[] = {
        "csv",     "tsv",   "txt",    "json", "md",   "png",  "jpg",
        "jpeg",    "gif",   "svg",    "pdf",  "webp", "xlsx", "xls",
        "docx",    "pptx",  "html",   "xml",  "zip",  "py",   "db",
        "parquet", "ipynb", "sqlite", "yaml", "bin"};
    const char *dot = memrchr(word, '.', len);
    size_t tail = dot ? (size_t)(word + len - dot) - 1 : 0;

    if (!dot || dot == word)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
        if (strlen(endings[i]) == tail &&
            strncasecmp(dot + 1, endings[i], tail) == 0)
            return true;
    return false;
}

static bool in_file_name(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-' ||
           c == '/' || (unsigned char)c >= 0x80;
}

static void add_links(const char *output, struct buf *answer)
{
    static const char folder[] = "/mnt/data/";

    for (const char *at = output; *at;) {
        size_t len = 0;
        bool stored;
        char *link;

        while (in_file_name(at[len]))
            len++;
        if (len == 0) {
            at++;
            continue;
        }
        stored = strncmp(at, folder, strlen(folder)) == 0;
        while (len && (at[len - 1] == '.' || at[len - 1] == '/'))
            len--;
        if (stored && len > strlen(folder)) {
            at += strlen(folder);
            len -= strlen(folder);
        }
        if ((stored && len) || is_file_name(at, len)) {
            link = xasprintf("[%.*s](sandbox:/mnt/data/%.*s)", (int)len, at,
                             (int)len, at);
            if (!strstr(answer->data, link))
                buf_addf(answer, "\n%s", link);
            free(link);
        }
        at += len ? len : 1;
    }
}

/* After functions were called: their outputs, quoted, and links to the files
 * that these name. */
static void quote_outputs(const struct echo *e, struct buf *answer)
{
    const json_t *input = e->call->request->input;
    size_t count = json_array_size(input), first = count;
    struct buf all cleanup(buf_done) = {0};

    while (first > 0) {
        const json_t *item = json_array_get(input, first - 1);
        const char *role = json_string_value(json_object_get(item, "role"));

        if (role && strcmp(role, "user") == 0)
            break;
        first--;
    }
    buf_adds(answer, "The output was:\n");
    buf_adds(&all, "");
    for (size_t i = first; i < count; i++) {
        const json_t *item = json_array_get(input, i);
        struct buf text cleanup(buf_done) = {0};

        if (strcmp(model_item_type(item), "function_call_output") != 0)
            continue;
        buf_adds(&text, "");
        model_item_text(json_object_get(item, "output"), &text);
        for (const char *line = text.data; *line;) {
            size_t len = line_length(line);

            buf_addf(answer, "> %.*s\n", (int)len, line);
            line += len + (line[len] == '\n');
        }
        buf_add(&all, text.data, text.len);
        buf_adds(&all, "\n");
    }
    add_links(all.data, answer);
}

static void add_shown(const struct echo *e, struct buf *answer)
{
    const struct model_request *rq = e->call->request;
    const json_t *value = rq->input;
    char *text cleanup(mem_free) = NULL;

    if (strcmp(e->show, "instructions") == 0) {
        buf_adds(answer, rq->instructions ? rq->instructions : "(none)");
        return;
    }
    if (strcmp(e->show, "tools") == 0)
        value = rq->tools;
    else if (strcmp(e->show, "options") == 0)
        value = rq->options;
    text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    buf_adds(answer, text ? text : "(none)");
}

/* The schema of a structured answer; NULL: the answer is text. */
static bool answer_as_json(const struct echo *e, struct buf *answer)
{
    const json_t *format = json_object_get(
        json_object_get(e->call->request->options, "text"), "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    char *text cleanup(mem_free) = NULL;
    json_t *value;

    if (!type || strcmp(type, "text") == 0)
        return false;
    value = strcmp(type, "json_schema") == 0
                ? model_echo_instance(json_object_get(format, "schema"),
                                      e->user.data)
                : json_pack("{s:s}", "echo", e->user.data);
    text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(value);
    buf_adds(answer, text ? text : "null");
    return true;
}

static void make_answer(const struct echo *e, struct buf *answer)
{
    buf_adds(answer, "");
    if (e->say) {
        buf_adds(answer, e->say);
    } else if (e->show) {
        add_shown(e, answer);
    } else if (e->words) {
        for (uint64_t i = 0; i < e->words; i++)
            buf_addf(answer, "%sword%llu", i ? " " : "",
                     (unsigned long long)i + 1);
    } else if (!answer_as_json(e, answer)) {
        if (e->rounds)
            quote_outputs(e, answer);
        else
            buf_add(answer, e->user.data, e->user.len);
    }
    if (answer->len == 0)
        buf_adds(answer, "(echo, a built-in model for trials: the message "
                         "has no text)");
}

/* ---- failures ----------------------------------------------------------- */

static int fail_timeout(struct echo *e, struct error *err)
{
    int r;

    do
        r = model_call_sleep(e->call, 1000, err);
    while (r == 0);
    return r;
}

static int fail(struct echo *e, struct error *err)
{
    const char *how = e->fail;
    size_t sent;

    if (strcmp(how, "rate") == 0) {
        (void)error_set(err, ERR_LIMIT,
                        "model echo: the server's rate limit is reached");
        return error_retry(err, 1);
    }
    if (strcmp(how, "overload") == 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "model echo: the server is overloaded");
    if (strcmp(how, "key") == 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "model echo: the server refuses the key");
    if (strcmp(how, "context") == 0)
        return error_set(err, ERR_TOO_LARGE,
                         "model echo: the prompt does not fit the context");
    if (strcmp(how, "timeout") == 0)
        return fail_timeout(e, err);
    if (strcmp(how, "refuse") == 0)
        return send_message(e, "I cannot help with that.", true, err);
    if (strcmp(how, "filter") == 0) {
        e->call->result->finish = MODEL_FINISH_FILTER;
        return send_message(e, "This answer was", false, err);
    }
    if (strcmp(how, "cut") == 0) {
        int r = send_pieces(e, MODEL_EVENT_TEXT, "This answer is cut",
                            WORDS_MAX, &sent, err);

        return r < 0 ? r
                     : error_set(err, ERR_UNAVAILABLE,
                                 "model echo: the stream ended before the "
                                 "answer was complete");
    }
    (void)error_set(err, ERR_INVALID, "model echo: no failure '%.40s'", how);
    return error_hint(err, "Use rate, overload, key, context, timeout, "
                           "refuse, filter or cut.");
}

/* ---- the turn ----------------------------------------------------------- */

static int send_code(struct echo *e, const char *code, struct error *err)
{
    const char *tool = code_tool(e);
    json_t *arguments = json_pack("{s:s}", "code", code);
    char *text cleanup(mem_free) = json_dumps(arguments, JSON_COMPACT);

    json_decref(arguments);
    return send_call(e, tool, text ? text : "{}", err);
}

static bool can_obey(const struct echo *e, const struct command *c)
{
    return c->kind == COMMAND_CALL || code_tool(e);
}

static int obey(struct echo *e, const struct command *c, struct error *err)
{
    size_t name;

    if (c->kind == COMMAND_RAW)
        return send_call(e, code_tool(e), c->text, err);
    if (c->kind != COMMAND_CALL)
        return send_code(e, c->text, err);
    name = strcspn(c->text, " ");
    {
        char *called cleanup(mem_free) = xstrndup(c->text, name);
        const char *arguments = c->text + name + strspn(c->text + name, " ");

        return send_call(e, called, *arguments ? arguments : "{}", err);
    }
}

/* Calls the functions that are due; *ret_called: there were any. */
static int make_calls(struct echo *e, bool *ret_called, struct error *err)
{
    size_t due = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && may_call(e) && i < e->count; i++) {
        const struct command *c = &e->commands[i];

        if (!can_obey(e, c))
            continue;
        if (c->kind != COMMAND_LOOP && due++ < e->rounds)
            continue;
        r = obey(e, c, err);
        *ret_called = true;
        if (!e->parallel)
            break;
    }
    if (r == 0 && !*ret_called && may_call(e) && forced_tool(e)) {
        const json_t *tool = forced_tool(e);
        json_t *value =
            model_echo_instance(json_object_get(tool, "parameters"), "echo");
        char *text cleanup(mem_free) =
            json_is_object(value) ? json_dumps(value, JSON_COMPACT) : NULL;

        json_decref(value);
        *ret_called = true;
        r = send_call(e, json_string_value(json_object_get(tool, "name")),
                      text ? text : "{}", err);
    }
    return r;
}

static void count_input(struct echo *e)
{
    const struct model_request *rq = e->call->request;
    struct model_usage *u = &e->call->result->usage;
    const json_t *item;
    size_t i;

    if (rq->instructions)
        u->input += count_words(rq->instructions);
    json_array_foreach (rq->input, i, item) {
        static const char *const fields[] = {"content", "output", "arguments"};
        struct buf text cleanup(buf_done) = {0};

        buf_adds(&text, "");
        for (size_t k = 0; k < ARRAY_SIZE(fields); k++)
            model_item_text(json_object_get(item, fields[k]), &text);
        u->input += count_words(text.data);
    }
}

int model_echo(struct model_call_state *c, struct error *err)
{
    struct echo e cleanup(echo_done) = {.call = c};
    struct buf answer cleanup(buf_done) = {0};
    bool called = false;
    int r = 0;

    buf_adds(&e.user, "");
    count_input(&e);
    if (c->entry->spec.context_tokens &&
        c->result->usage.input > c->entry->spec.context_tokens)
        return error_set(err, ERR_TOO_LARGE,
                         "model %s: the prompt has %llu tokens, and its "
                         "context has room for %llu",
                         c->entry->spec.name,
                         (unsigned long long)c->result->usage.input,
                         (unsigned long long)c->entry->spec.context_tokens);
    read_input(&e);
    if (e.think)
        r = send_reasoning(&e, err);
    if (r == 0)
        r = make_calls(&e, &called, err);
    if (r < 0 || called)
        return r;
    if (e.fail)
        return fail(&e, err);
    make_answer(&e, &answer);
    return send_message(&e, answer.data, false, err);
}

/* ---- embeddings --------------------------------------------------------- */

void model_echo_embed(const char *text, float *ret)
{
    static const unsigned char key[SIPHASH_KEY] = "echo embeddings";
    double length = 0;

    memset(ret, 0, MODEL_ECHO_DIMENSIONS * sizeof(*ret));
    while (*text) {
        char word[64];
        size_t n = 0;
        uint64_t h;

        for (; *text &&
               (isalnum((unsigned char)*text) || (unsigned char)*text >= 0x80);
             text++)
            if (n < sizeof(word))
                word[n++] = (char)tolower((unsigned char)*text);
        if (n == 0) {
            text++;
            continue;
        }
        h = siphash(key, word, n);
        ret[h % MODEL_ECHO_DIMENSIONS] += (h >> 32) & 1 ? 1.0f : -1.0f;
    }
    for (size_t i = 0; i < MODEL_ECHO_DIMENSIONS; i++)
        length += (double)ret[i] * ret[i];
    if (length == 0)
        ret[0] = 1;
    else
        for (size_t i = 0; i < MODEL_ECHO_DIMENSIONS; i++)
            ret[i] = (float)(ret[i] / sqrt(length));
}
