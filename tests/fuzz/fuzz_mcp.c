/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what /mcp reads from outside: lines of headers, an empty line, a
 * body. A message that is read must keep its invariants, belong to one era,
 * and pass or fail the envelope's checks with a code of its own; a header
 * that decodes must be text; a name of a file that parses must come out the
 * same when it is made again.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/utf8.h"
#include "doors/mcp/mcp_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES_MAX 16

struct input {
    char *lines[LINES_MAX]; /* "Name: value" */
    size_t count;
};

static const char *get(void *ctx, const char *name)
{
    const struct input *in = ctx;

    for (size_t i = 0; i < in->count; i++) {
        size_t n = strlen(name);

        if (strncasecmp(in->lines[i], name, n) == 0 && in->lines[i][n] == ':')
            return in->lines[i] + n + 1;
    }
    return NULL;
}

/* Cuts the head into lines; returns the body. */
static char *cut(char *text, struct input *ret)
{
    while (ret->count < LINES_MAX) {
        char *end = strchr(text, '\n');

        if (!end)
            return text;
        *end = '\0';
        if (end == text)
            return end + 1;
        ret->lines[ret->count++] = text;
        text = end + 1;
    }
    return text;
}

static void try_header(struct arena *arena, const char *value)
{
    const char *text = mcp_header_decode(arena, value);

    assert(!text || utf8_valid(text, strlen(text)));
}

static void try_uri(struct arena *arena, const char *uri)
{
    const char *workspace, *path, *again_workspace, *again_path;
    char *made;

    if (!mcp_uri_parse(arena, uri, &workspace, &path))
        return;
    made = mcp_uri_make(arena, workspace, path);
    assert(mcp_uri_parse(arena, made, &again_workspace, &again_path));
    assert(strcmp(workspace, again_workspace) == 0);
    assert(strcmp(path, again_path) == 0);
    assert(strcmp(made, mcp_uri_make(arena, again_workspace, again_path)) ==
           0);
}

static int never(struct mcp_call *call, const json_t *args,
                 struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)ret;
    (void)err;
    abort();
}

static void try_message(struct arena *arena, const json_t *value,
                        struct input *in)
{
    static const struct mcp_tool tool = {
        .name = "x",
        .schema = "{\"properties\":{\"a\":{\"x-mcp-header\":\"A\"},\"b\":{"
                  "\"properties\":{\"c\":{\"x-mcp-header\":\"C\"}}}}}",
        .run = never,
    };
    struct mcp_headers h = {get, in};
    struct rpc_fault f = {0};
    struct rpc_message m;
    struct buf out = {0};
    struct error err;

    if (mcp_rpc_read(value, &m))
        return;
    assert(m.kind == RPC_RESPONSE || m.method);
    assert((m.kind == RPC_NOTIFICATION) == (m.id == NULL));
    if (m.kind != RPC_REQUEST ||
        mcp_rpc_era(&m, get(in, "MCP-Protocol-Version")) == MCP_LEGACY)
        return;
    if (mcp_modern_check(&m, &h, arena, &f) == 0)
        (void)mcp_header_params(&tool, json_object_get(m.params, "arguments"),
                                &h, arena, &f);
    if (f.code) {
        assert(f.message[0]);
        mcp_rpc_write_error(&out, m.id, &f);
        assert(json_check(out.data, out.len, &json_limits_any, &err) == 0);
    }
    buf_done(&out);
    mcp_rpc_fault_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *body;
    struct arena *arena = arena_new();
    struct input in = {.count = 0};
    json_t *value = NULL;
    struct error err;

    memcpy(text, data, size);
    text[size] = '\0';
    body = cut(text, &in);
    for (size_t i = 0; i < in.count; i++)
        try_header(arena, in.lines[i]);
    try_uri(arena, body);
    if (json_parse(body, strlen(body), &value, &err) == 0)
        try_message(arena, value, &in);
    json_decref(value);
    arena_free(arena);
    free(text);
    return 0;
}
