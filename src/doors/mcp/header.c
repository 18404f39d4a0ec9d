/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers that repeat what the body says, for whoever routes by them. Values
 * that are not plain ASCII travel as "=?base64?…?=". What a header says and
 * what the body says must be the same (M3). Runs on a worker of the daemon;
 * pure.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "doors/mcp/mcp_int.h"

#define OPENING "=?base64?"
#define CLOSING "?="
#define DEPTH_MAX 8u
#define NAME_MAX_BYTES 100u

static const char *unwrap(struct arena *arena, const char *text, size_t len)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    struct error ignored;
    size_t n;

    if (json_base64_decode(text, len, &bytes, &n, &ignored) < 0 ||
        !utf8_valid((const char *)bytes, n) || memchr(bytes, '\0', n))
        return NULL;
    return arena_strndup(arena, (const char *)bytes, n);
}

const char *mcp_header_decode(struct arena *arena, const char *value)
{
    size_t len;

    value += strspn(value, " \t");
    len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    if (len >= strlen(OPENING) + strlen(CLOSING) &&
        strncmp(value, OPENING, strlen(OPENING)) == 0 &&
        strncmp(value + len - strlen(CLOSING), CLOSING, strlen(CLOSING)) == 0)
        return unwrap(arena, value + strlen(OPENING),
                      len - strlen(OPENING) - strlen(CLOSING));
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 0x20 || (unsigned char)value[i] > 0x7e)
            return NULL;
    return arena_strndup(arena, value, len);
}

/* Does the header's text say what the argument says? */
static bool same(const json_t *argument, const char *text)
{
    char number[32];

    if (json_is_string(argument))
        return strcmp(json_string_value(argument), text) == 0;
    if (json_is_boolean(argument))
        return strcmp(json_is_true(argument) ? "true" : "false", text) == 0;
    if (!json_is_integer(argument))
        return false;
    (void)snprintf(number, sizeof(number), "%lld",
                   (long long)json_integer_value(argument));
    return strcmp(number, text) == 0;
}

static int check_one(const char *name, const json_t *argument,
                     const struct mcp_headers *h, struct arena *arena,
                     struct rpc_fault *f)
{
    char header[NAME_MAX_BYTES + sizeof("Mcp-Param-")];
    const char *value, *text;

    (void)snprintf(header, sizeof(header), "Mcp-Param-%s", name);
    value = h->get(h->ctx, header);
    if (json_is_null(argument))
        argument = NULL;
    if (!value && !argument)
        return 0;
    if (!value)
        return mcp_rpc_fault(f, RPC_HEADER, NULL,
                             "the header %s is missing beside its argument",
                             header);
    text = mcp_header_decode(arena, value);
    if (!text)
        return mcp_rpc_fault(f, RPC_HEADER, NULL, "the header %s is malformed",
                             header);
    if (!argument || !same(argument, text))
        return mcp_rpc_fault(f, RPC_HEADER, NULL,
                             "the header %s is not what its argument says",
                             header);
    return 0;
}

/* Of the schemas that are ours only what is reached by properties counts. */
static int check_schema(const json_t *schema, const json_t *args,
                        const struct mcp_headers *h, struct arena *arena,
                        unsigned depth, struct rpc_fault *f)
{
    json_t *properties = json_object_get(schema, "properties"), *one;
    const char *key;

    if (depth == DEPTH_MAX)
        return 0;
    json_object_foreach (properties, key, one) {
        const json_t *arg = json_object_get(args, key);
        const char *name =
            json_string_value(json_object_get(one, "x-mcp-header"));
        int r = name ? check_one(name, arg, h, arena, f)
                     : check_schema(one, arg, h, arena, depth + 1, f);

        if (r < 0)
            return r;
    }
    return 0;
}

int mcp_header_params(const struct mcp_tool *tool, const json_t *args,
                      const struct mcp_headers *h, struct arena *arena,
                      struct rpc_fault *f)
{
    json_t *schema;
    int r;

    /* No tool of ours has any. */
    if (!tool->schema || !strstr(tool->schema, "\"x-mcp-header\""))
        return 0;
    schema = json_loads(tool->schema, 0, NULL);
    r = check_schema(schema, args, h, arena, 0, f);
    json_decref(schema);
    return r;
}
