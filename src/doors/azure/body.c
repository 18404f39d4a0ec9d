/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that ask for a run, of all three families and both kinds of pool.
 * Pure; runs on a worker of the daemon. Fields nobody knows are let pass:
 * clients send more than the service reads, and the service grows.
 */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
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

static int read_python(const json_t *object, enum azure_family family,
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
    ret->language = EXEC_PYTHON;
    ret->code_len = strlen(ret->code);
    ret->async = type == 1;
    return input == 2 ? decode_base64(ret, arena, err) : 0;
}

/* ---- shell -------------------------------------------------------------- */

/* One word to the shell, whatever is in it. */
static void add_quoted(struct buf *out, const char *text)
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

static int join_args(const json_t *args, struct buf *out, struct error *err)
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
        add_quoted(out, text);
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
        r = join_args(args, &line, err);
    else if (shell == 1)
        add_quoted(&line, command);
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
    int r;

    *ret_code = AZURE_INVALID;
    /* Family C refuses the wrapper by not looking into it. */
    if (family != AZURE_C && json_is_object(wrapped))
        body = wrapped;
    r = kind == POOL_SHELL
            ? read_shell(body, arena, &run, ret_code, err)
            : read_python(body, family, arena, &run, ret_code, err);
    if (r == 0)
        r = get_number(body, "timeoutInSeconds", 1, &timeout_s, err);
    if (r == 0)
        r = get_number(body, "outputStreamsMaxLength", 0, &run.output_max,
                       err);
    if (r == 0)
        r = get_text(body, "identifier", &run.identifier, err);
    run.fresh = kind != POOL_SHELL &&
                json_is_true(json_object_get(body, "useEmptyKernel"));
    if (r < 0)
        return r;
    run.timeout_s = timeout_s > 0 ? (uint32_t)timeout_s : 0;
    *ret = run;
    return 0;
}
