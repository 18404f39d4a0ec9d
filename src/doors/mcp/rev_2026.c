/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Revision 2026-07-28. Every message is self-contained, and its headers repeat
 * parts of it for proxies that route by them: header and body must agree (M3).
 * Header values beyond plain ASCII are encoded as "=?base64?…?=". The checks
 * run in the order of the specification; the first failure is the response.
 * Runs on a worker of the daemon; the checks are pure. Also discovery, and the
 * description of the server for both eras.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "doors/mcp/mcp_int.h"

#define HOUR_MS ((int64_t)3600 * 1000)

const char mcp_instructions[] =
    "Glovebox runs Python and shell code in an isolated session and keeps the "
    "files that the code creates. Files below /mnt/data persist between calls, "
    "also after the session was idle; Python variables persist while the "
    "session is live. Pass the session_id of an answer to continue in the same "
    "session. " MCP_NETWORK " Show files to the user by the links in an "
    "answer. A failed call says what went wrong and what to do: read it before "
    "trying again.";

/* ---- the envelope ------------------------------------------------------- */

/* Which member of params a method's Mcp-Name repeats. */
static const struct {
    const char *method, *member;
} names[] = {
    {"tools/call", "name"},     {"prompts/get", "name"},
    {"resources/read", "uri"},  {"tasks/get", "taskId"},
    {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
};

static int check_meta(const struct rpc_message *m, struct rpc_fault *f)
{
    const json_t *version = json_object_get(m->meta, META_VERSION);
    const json_t *caps = json_object_get(m->meta, META_CAPABILITIES);

    if (!version || !caps)
        return mcp_rpc_fault(f, RPC_PARAMS, NULL, "params._meta lacks %s%s%s",
                             version ? "" : META_VERSION,
                             version || caps ? "" : " and ",
                             caps ? "" : META_CAPABILITIES);
    if (!json_is_string(version))
        return mcp_rpc_fault(f, RPC_PARAMS, NULL,
                             "params._meta: %s must be a string",
                             META_VERSION);
    if (!json_is_object(caps))
        return mcp_rpc_fault(f, RPC_PARAMS, NULL,
                             "params._meta: %s must be an object",
                             META_CAPABILITIES);
    return 0;
}

/* A header that is there must say what the body says; required: it must be
 * there. */
static int check_header(const char *name, const char *body, bool required,
                        const struct mcp_headers *h, struct arena *arena,
                        struct rpc_fault *f)
{
    const char *value = h->get(h->ctx, name), *text;

    if (!value)
        return required ? mcp_rpc_fault(f, RPC_HEADER, NULL,
                                        "the header %s is missing", name)
                        : 0;
    text = mcp_header_decode(arena, value);
    if (!text)
        return mcp_rpc_fault(f, RPC_HEADER, NULL, "the header %s is malformed",
                             name);
    if (!body || strcmp(text, body) != 0)
        return mcp_rpc_fault(f, RPC_HEADER, NULL,
                             "the header %s is not what the body says", name);
    return 0;
}

static int check_version(const char *version, struct rpc_fault *f)
{
    if (strcmp(version, MCP_VERSION) == 0)
        return 0;
    return mcp_rpc_fault(f, RPC_VERSION,
                         json_pack("{s:[s],s:s}", "supported", MCP_VERSION,
                                   "requested", version),
                         "this revision of the protocol is not served");
}

static int check_name(const struct rpc_message *m, const struct mcp_headers *h,
                      struct arena *arena, struct rpc_fault *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(m->method, names[i].method) == 0) {
            const char *value =
                json_string_value(json_object_get(m->params, names[i].member));

            return check_header("Mcp-Name", value, value != NULL, h, arena, f);
        }
    return 0;
}

static bool has_tasks(const struct rpc_message *m)
{
    const json_t *caps = json_object_get(m->meta, META_CAPABILITIES);

    return json_object_get(json_object_get(caps, "extensions"), META_TASKS) !=
           NULL;
}

static int check_capability(const struct rpc_message *m, struct rpc_fault *f)
{
    bool tasks = strcmp(m->method, "tasks/get") == 0 ||
                 strcmp(m->method, "tasks/update") == 0 ||
                 strcmp(m->method, "tasks/cancel") == 0;
    const json_t *wanted = json_object_get(m->params, "notifications");

    if (strcmp(m->method, "subscriptions/listen") == 0)
        tasks = json_object_get(wanted, "taskIds") != NULL;
    if (!tasks || has_tasks(m))
        return 0;
    return mcp_rpc_fault(f, RPC_CAPABILITY,
                         json_pack("{s:{s:{s:{}}}}", "requiredCapabilities",
                                   "extensions", META_TASKS),
                         "the client did not declare the tasks extension");
}

int mcp_modern_check(const struct rpc_message *m, const struct mcp_headers *h,
                     struct arena *arena, struct rpc_fault *f)
{
    const char *version =
        json_string_value(json_object_get(m->meta, META_VERSION));
    int r = check_meta(m, f);

    if (r == 0)
        r = check_header("MCP-Protocol-Version", version, false, h, arena, f);
    if (r == 0)
        r = check_header("Mcp-Method", m->method, false, h, arena, f);
    if (r == 0)
        r = check_version(version, f);
    if (r == 0)
        r = check_header("MCP-Protocol-Version", version, true, h, arena, f);
    if (r == 0)
        r = check_header("Mcp-Method", m->method, true, h, arena, f);
    if (r == 0)
        r = check_name(m, h, arena, f);
    if (r == 0)
        r = check_capability(m, f);
    return r;
}

void mcp_modern_read(struct mcp_exchange *x)
{
    const char *level =
        json_string_value(json_object_get(x->msg.meta, META_LOG));
    int wanted = level ? mcp_log_level(level) : -1;

    x->version = MCP_VERSION;
    x->caps = json_object_get(x->msg.meta, META_CAPABILITIES);
    x->log_level = wanted < 0 ? LOG_NONE : wanted;
}

/* ---- what the server is ------------------------------------------------- */

void mcp_write_server(struct mcp_exchange *x, struct json_writer *w,
                      const char *key)
{
    json_write_open(w, key, '{');
    if (x->azure) {
        json_write_string(w, "name", "Microsoft Container Apps MCP Server");
    } else {
        json_write_string(w, "name", "glovebox");
        json_write_string(w, "title", "Glovebox");
    }
    json_write_string(w, "version", GLOVEBOX_VERSION);
    json_write_close(w, '}');
}

static void write_flags(struct json_writer *w, const char *key, const char *a,
                        const char *b)
{
    json_write_open(w, key, '{');
    if (a)
        json_write_bool(w, a, true);
    if (b)
        json_write_bool(w, b, true);
    json_write_close(w, '}');
}

void mcp_write_capabilities(struct mcp_exchange *x)
{
    struct json_writer *w = &x->w;

    json_write_open(w, "capabilities", '{');
    if (x->azure) {
        write_flags(w, "tools", "call", "list");
        json_write_close(w, '}');
        return;
    }
    write_flags(w, "tools", "listChanged", NULL);
    write_flags(w, "resources", "subscribe", "listChanged");
    write_flags(w, "prompts", "listChanged", NULL);
    write_flags(w, "completions", NULL, NULL);
    write_flags(w, "logging", NULL, NULL);
    if (x->era == MCP_MODERN) {
        json_write_open(w, "extensions", '{');
        write_flags(w, META_TASKS, NULL, NULL);
        json_write_close(w, '}');
    }
    json_write_close(w, '}');
}

int mcp_modern_discover(struct mcp_exchange *x)
{
    json_write_open(&x->w, "supportedVersions", '[');
    json_write_string(&x->w, NULL, MCP_VERSION);
    json_write_close(&x->w, ']');
    mcp_write_capabilities(x);
    if (!x->azure)
        json_write_string(&x->w, "instructions",
                          mcp_network_words(x, mcp_instructions));
    mcp_write_caching(x, false, HOUR_MS);
    return 0;
}

/* ---- headers that repeat the body --------------------------------------- */

#define OPENING "=?base64?"
#define CLOSING "?="
#define DEPTH_MAX 8u
#define NAME_MAX_BYTES 100u

static const char *decode_base64_word(struct arena *arena, const char *text,
                                      size_t len)
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
        return decode_base64_word(arena, value + strlen(OPENING),
                                  len - strlen(OPENING) - strlen(CLOSING));
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 0x20 || (unsigned char)value[i] > 0x7e)
            return NULL;
    return arena_strndup(arena, value, len);
}

/* Does the header's text say what the argument says? */
static bool argument_equals(const json_t *argument, const char *text)
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

static int check_param_header(const char *name, const json_t *argument,
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
    if (!argument || !argument_equals(argument, text))
        return mcp_rpc_fault(f, RPC_HEADER, NULL,
                             "the header %s is not what its argument says",
                             header);
    return 0;
}

/* Of the schemas that are ours only what is reached by properties counts. */
static int check_schema_headers(const json_t *schema, const json_t *args,
                                const struct mcp_headers *h,
                                struct arena *arena, unsigned depth,
                                struct rpc_fault *f)
{
    json_t *properties = json_object_get(schema, "properties"), *one;
    const char *key;

    if (depth == DEPTH_MAX)
        return 0;
    json_object_foreach (properties, key, one) {
        const json_t *arg = json_object_get(args, key);
        const char *name =
            json_string_value(json_object_get(one, "x-mcp-header"));
        int r = name ? check_param_header(name, arg, h, arena, f)
                     : check_schema_headers(one, arg, h, arena, depth + 1, f);

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
    r = check_schema_headers(schema, args, h, arena, 0, f);
    json_decref(schema);
    return r;
}
