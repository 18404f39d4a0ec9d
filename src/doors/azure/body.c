/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of executions, of all three families and both kinds of pool, and the
 * value of the last expression in JSON. Unknown fields are ignored: clients
 * send more than the service reads.
 *
 * The value follows one rule that fits everything known of the hosted service:
 * what the interpreter shows is a number if it reads as one, the content if it
 * is a quoted text, otherwise itself. The hosted service has numpy 1, which
 * shows its numbers bare; numpy 2 shows np.float64(1.5), and clients compare
 * with a number all the same. Pure; the text may be anything.
 */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define ARGS_MAX 1024u

/* ---- fields ------------------------------------------------------------- */

/* A text, or NULL when it is absent. */
static int get_text(const json_t *object, const char *name, const char **ret,
                    struct error *err)
{
    const json_t *value = json_object_get(object, name);

    *ret = NULL;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_string(value))
        return error_set(err, ERR_INVALID, "field '%s' must be a text", name);
    *ret = json_string_value(value);
    return 0;
}

/* A whole number from min on; -1 when it is absent. */
static int get_number(const json_t *object, const char *name, int64_t min,
                      int64_t *ret, struct error *err)
{
    const json_t *value = json_object_get(object, name);
    double number;

    *ret = -1;
    if (!value || json_is_null(value))
        return 0;
    number = json_number_value(value); /* 0 for what is none */
    if (!json_is_number(value) || !(number >= (double)min))
        return error_set(err, ERR_INVALID,
                         "field '%s' must be a number, at least %lld", name,
                         (long long)min);
    *ret = number >= (double)INT32_MAX ? INT32_MAX : (int64_t)number;
    *ret += (double)*ret < number; /* rounded up */
    return 0;
}

/* One of the words, in any case; ret: its index, as it was when absent. */
static int get_word(const json_t *object, const char *name,
                    const char *const *words, int *ret, struct error *err)
{
    const char *text;
    int r = get_text(object, name, &text, err);

    if (r < 0 || !text)
        return r;
    for (int i = 0; words[i]; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *ret = i;
            return 0;
        }
    return error_set(err, ERR_INVALID, "field '%s' is not a word known here",
                     name);
}

/* ---- Python ------------------------------------------------------------- */

static int decode_base64(struct azure_run *run, struct arena *arena,
                         struct error *err)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    size_t len;
    int r = json_base64_decode(run->code, run->code_len, &bytes, &len, err);
    char *copy;

    if (r < 0)
        return error_wrap(err, "field 'code'");
    copy = arena_alloc(arena, len + 1); /* may hold anything; the core looks */
    memcpy(copy, bytes, len);
    run->code = copy;
    run->code_len = len;
    return 0;
}

/* Code of the pool's language. */
static int read_code(const json_t *object, enum azure_family family,
                     struct arena *arena, struct azure_run *ret,
                     const char **ret_code, struct error *err)
{
    static const char *const inputs[] = {"Inline", "InlineText",
                                         "InlineBase64", NULL};
    static const char *const types[] = {"Synchronous", "Asynchronous", NULL};
    int input = 0, type = 0;
    int r = 0;

    if (family == AZURE_A)
        r = get_text(object, "pythonCode", &ret->code, err);
    if (r == 0 && !ret->code)
        r = get_text(object, "code", &ret->code, err);
    if (r == 0 && !ret->code) {
        *ret_code = AZURE_MISSING;
        return error_set(
            err, ERR_INVALID, "the required property 'code' is missing%s",
            family == AZURE_C ? " at the top level of the body" : "");
    }
    if (r == 0)
        r = get_word(object, "codeInputType", inputs, &input, err);
    if (r == 0)
        r = get_word(object, "executionType", types, &type, err);
    if (r == 0)
        r = get_text(object, "executionType", &ret->type_text, err);
    if (r < 0)
        return r;
    ret->code_len = strlen(ret->code);
    ret->async = type == 1;
    return input == 2 ? decode_base64(ret, arena, err) : 0;
}

/* ---- shell -------------------------------------------------------------- */

/* One word to the shell, whatever is in it. */
static void add_quoted_argument(struct buf *out, const char *text)
{
    buf_adds(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            buf_adds(out, "'\\''");
        else
            buf_add(out, text, 1);
    }
    buf_adds(out, "'");
}

static int join_arguments(const json_t *args, struct buf *out,
                          struct error *err)
{
    size_t count = json_array_size(args); /* 0 for what is no array */

    if (count == 0 || count > ARGS_MAX)
        return error_set(err, ERR_INVALID,
                         "field 'execCommandAndArgs' must be an array of 1 "
                         "to %u texts",
                         ARGS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(args, i));

        if (!text)
            return error_set(err, ERR_INVALID,
                             "field 'execCommandAndArgs' must hold texts");
        if (i)
            buf_adds(out, " ");
        add_quoted_argument(out, text);
    }
    return 0;
}

static int read_shell(const json_t *object, struct arena *arena,
                      struct azure_run *ret, const char **ret_code,
                      struct error *err)
{
    static const char *const shells[] = {"bash", "sh", NULL};
    const json_t *args = json_object_get(object, "execCommandAndArgs");
    struct buf line cleanup(buf_done) = {0};
    const char *command = NULL;
    int shell = 0;
    int r = get_text(object, "shellCommand", &command, err);

    if (json_is_null(args))
        args = NULL;
    if (r == 0)
        r = get_word(object, "shellType", shells, &shell, err);
    if (r < 0)
        return r;
    if (command && args)
        return error_set(err, ERR_INVALID,
                         "only one of 'shellCommand' and "
                         "'execCommandAndArgs' may be given");
    if (!command && !args) {
        *ret_code = AZURE_MISSING;
        return error_set(err, ERR_INVALID,
                         "the required property 'shellCommand' or "
                         "'execCommandAndArgs' is missing");
    }
    if (args)
        r = join_arguments(args, &line, err);
    else if (shell == 1)
        add_quoted_argument(&line, command);
    if (r < 0)
        return r;
    ret->language = EXEC_SHELL;
    ret->code = args ? arena_strdup(arena, line.data)
                : shell == 1
                    ? arena_printf(arena, "exec /bin/sh -c %s", line.data)
                    : command;
    ret->code_len = strlen(ret->code);
    return 0;
}

/* ---- both --------------------------------------------------------------- */

int azure_body_run(const json_t *body, enum azure_family family,
                   enum pool_kind kind, struct arena *arena,
                   struct azure_run *ret, const char **ret_code,
                   struct error *err)
{
    const json_t *wrapped = json_object_get(body, "properties");
    struct azure_run run = {.output_max = -1};
    int64_t timeout_s = 0;
    bool shell;
    int r;

    *ret_code = AZURE_INVALID;
    /* Family C refuses the wrapper by not looking into it. */
    if (family != AZURE_C && json_is_object(wrapped))
        body = wrapped;
    /* A custom image takes both. */
    shell =
        kind == POOL_SHELL ||
        (kind == POOL_CUSTOM && (json_object_get(body, "shellCommand") ||
                                 json_object_get(body, "execCommandAndArgs")));
    run.language = kind == POOL_JAVASCRIPT ? EXEC_JAVASCRIPT : EXEC_PYTHON;
    r = shell ? read_shell(body, arena, &run, ret_code, err)
              : read_code(body, family, arena, &run, ret_code, err);
    if (r == 0)
        r = get_number(body, "timeoutInSeconds", 1, &timeout_s, err);
    if (r == 0)
        r = get_number(body, "outputStreamsMaxLength", 0, &run.output_max,
                       err);
    if (r == 0)
        r = get_text(body, "identifier", &run.identifier, err);
    run.fresh =
        !shell && json_is_true(json_object_get(body, "useEmptyKernel"));
    if (r < 0)
        return r;
    run.timeout_s = timeout_s > 0 ? (uint32_t)timeout_s : 0;
    *ret = run;
    return 0;
}

/* ---- values ------------------------------------------------------------- */

#define NUMBER_MAX 4300u /* digits; clients refuse to read longer ones */

/* ---- numbers ------------------------------------------------------------ */

static size_t count_digits(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool is_json_number(const char *text, size_t len)
{
    size_t at = len && text[0] == '-', n;

    if (len > NUMBER_MAX)
        return false;
    n = count_digits(text + at, len - at);
    if (n == 0 || (n > 1 && text[at] == '0'))
        return false;
    at += n;
    if (at < len && text[at] == '.') {
        n = count_digits(text + at + 1, len - at - 1);
        if (n == 0)
            return false;
        at += n + 1;
    }
    if (at < len && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        at += at < len && (text[at] == '+' || text[at] == '-');
        n = count_digits(text + at, len - at);
        if (n == 0)
            return false;
        at += n;
    }
    return at == len;
}

/* Unwraps np.int64(…), np.float32(…) and similar. */
static void unwrap_number(const char **text, size_t *len)
{
    static const char *const types[] = {"np.int", "np.uint", "np.float"};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        size_t at = strlen(types[i]);

        if (*len <= at || memcmp(*text, types[i], at) != 0)
            continue;
        at += count_digits(*text + at, *len - at);
        if (at + 2 < *len && (*text)[at] == '(' && (*text)[*len - 1] == ')' &&
            is_json_number(*text + at + 1, *len - at - 2)) {
            *text += at + 1;
            *len -= at + 2;
        }
        return;
    }
}

/* ---- quoted texts ------------------------------------------------------- */

static void add_character(struct buf *out, uint32_t c)
{
    char bytes[4];

    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd; /* half a pair has no UTF-8 */
    if (c < 0x80) {
        bytes[0] = (char)c;
        buf_add(out, bytes, 1);
    } else if (c < 0x800) {
        bytes[0] = (char)(0xc0 | c >> 6);
        bytes[1] = (char)(0x80 | (c & 0x3f));
        buf_add(out, bytes, 2);
    } else if (c < 0x10000) {
        bytes[0] = (char)(0xe0 | c >> 12);
        bytes[1] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (c & 0x3f));
        buf_add(out, bytes, 3);
    } else {
        bytes[0] = (char)(0xf0 | c >> 18);
        bytes[1] = (char)(0x80 | (c >> 12 & 0x3f));
        bytes[2] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[3] = (char)(0x80 | (c & 0x3f));
        buf_add(out, bytes, 4);
    }
}

/* Reads `count` hex digits; false if they are missing. */
static bool take_hex(const char *text, size_t len, size_t count, uint32_t *ret)
{
    uint32_t value = 0;

    if (len < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        char c = text[i];

        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            value = value << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return false;
    }
    *ret = value;
    return true;
}

/* Decodes an escape after a backslash; returns its length, 0 for one that
 * Python's repr() never writes. */
static size_t take_escape(const char *text, size_t len, struct buf *out)
{
    static const char names[] = "\\'\"nrt", values[] = "\\'\"\n\r\t";
    const char *at = len && text[0] ? strchr(names, text[0]) : NULL;
    size_t count = 0;
    uint32_t c;

    if (at) {
        buf_add(out, &values[at - names], 1);
        return 1;
    }
    if (len)
        count = text[0] == 'x'   ? 2
                : text[0] == 'u' ? 4
                : text[0] == 'U' ? 8
                                 : 0;
    if (!count || !take_hex(text + 1, len - 1, count, &c))
        return 0;
    add_character(out, c);
    return count + 1;
}

/* One quoted text and nothing else? */
static bool take_quoted(const char *text, size_t len, struct buf *out)
{
    char quote = len >= 2 ? text[0] : '\0';

    if ((quote != '\'' && quote != '"') || text[len - 1] != quote)
        return false;
    for (size_t i = 1; i < len - 1;) {
        size_t n;

        if (text[i] == quote)
            return false;
        if (text[i] != '\\') {
            buf_add(out, text + i++, 1);
            continue;
        }
        /* The last quote must not be the escaped one. */
        n = take_escape(text + i + 1, len - 1 - (i + 1), out);
        if (n == 0)
            return false;
        i += n + 1;
    }
    return true;
}

void azure_value_write(struct json_writer *w, const char *key,
                       const char *text, size_t len)
{
    struct buf content cleanup(buf_done) = {0};

    unwrap_number(&text, &len);
    if (is_json_number(text, len))
        json_write_raw(w, key, text, len);
    else if (take_quoted(text, len, &content))
        json_write_text(w, key, content.data ? content.data : "", content.len);
    else
        json_write_text(w, key, text, len);
}

size_t azure_value_cut(const char *text, size_t len, int64_t max)
{
    size_t at = 0;

    if (max < 0)
        return len;
    while (at < len && max-- > 0) {
        size_t n = utf8_length(text + at, len - at);

        at += n ? n : 1;
    }
    return at;
}
