/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a message of MCP is, as far as a bridge must know: which side waits for
 * an answer, which era it belongs to, which headers repeat its body. No I/O.
 */
#include <string.h>

#include "base/mem.h"
#include "cli/mcp/mcp.h"

#define VERSION_KEY "io.modelcontextprotocol/protocolVersion"

static enum mcp_message_kind kind_of(const json_t *json)
{
    if (json_is_array(json))
        return MCP_BATCH;
    if (json_is_string(json_object_get(json, "method")))
        return json_object_get(json, "id") ? MCP_REQUEST : MCP_NOTIFICATION;
    if (json_object_get(json, "result") || json_object_get(json, "error"))
        return MCP_RESPONSE;
    return MCP_OTHER;
}

bool cli_mcp_message_read(const char *text, size_t len,
                          struct mcp_message *ret)
{
    const json_t *id, *meta;

    *ret = (struct mcp_message){.kind = MCP_OTHER, .method = ""};
    ret->json = cli_json_load(text, len);
    if (!ret->json)
        return false;
    ret->kind = kind_of(ret->json);
    ret->method = cli_json_text(ret->json, "method", "");
    id = json_object_get(ret->json, "id");
    if (json_is_string(id) || json_is_number(id))
        ret->id = id;
    meta = json_object_get(json_object_get(ret->json, "params"), "_meta");
    if (json_object_get(meta, VERSION_KEY)) {
        ret->modern = true;
        ret->version = cli_json_text(meta, VERSION_KEY, NULL);
    }
    return true;
}

void cli_mcp_message_done(struct mcp_message *m)
{
    json_decref(m->json);
    m->json = NULL;
}

/* ---- headers ------------------------------------------------------------ */

/* Which parameter Mcp-Name repeats. */
static const struct {
    const char *method, *param;
} names[] = {
    {"tools/call", "name"},     {"prompts/get", "name"},
    {"resources/read", "uri"},  {"tasks/get", "taskId"},
    {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
};

/* Visible ASCII without outer blanks goes as it is; but what looks like the
 * wrapper must be wrapped itself. */
static bool is_plain_header(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || text[0] == ' ' || text[len - 1] == ' ' ||
        strncmp(text, "=?base64?", 9) == 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name,
                                     const char *value)
{
    struct buf line cleanup(buf_done) = {0};
    struct curl_slist *longer;

    buf_addf(&line, "%s: ", name);
    if (is_plain_header(value)) {
        buf_adds(&line, value);
    } else {
        struct json_writer w = {.out = &line};
        size_t at;

        buf_adds(&line, "=?base64?");
        at = line.len;
        json_write_base64(&w, NULL, value, strlen(value));
        /* It came in quotes. */
        memmove(line.data + at, line.data + at + 1, line.len - at - 2);
        line.len -= 2;
        line.data[line.len] = '\0';
        buf_adds(&line, "?=");
    }
    longer = curl_slist_append(list, line.data);
    if (!longer)
        abort(); /* as any small allocation of ours */
    return longer;
}

struct curl_slist *cli_mcp_message_headers(const struct mcp_message *m,
                                           struct curl_slist *list)
{
    const json_t *params = json_object_get(m->json, "params");

    if (!m->modern)
        return list;
    if (m->version)
        list = add_header(list, "MCP-Protocol-Version", m->version);
    if (m->method[0])
        list = add_header(list, "Mcp-Method", m->method);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = cli_json_text(params, names[i].param, NULL);

        if (value && strcmp(m->method, names[i].method) == 0)
            list = add_header(list, "Mcp-Name", value);
    }
    return list;
}

/* ---- answers of our own ------------------------------------------------- */

/* error: taken. */
static char *write_error(const json_t *id, json_t *error)
{
    json_t *line cleanup(json_unref) =
        json_pack("{s:s, s:o}", "jsonrpc", "2.0", "error", error);
    char *text;

    if (line && id) /* jansson counts its references, nothing else changes */
        (void)json_object_set(line, "id", (json_t *)(uintptr_t)id);
    text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (!text)
        abort(); /* as any small allocation of ours */
    return text;
}

char *cli_mcp_message_error(const json_t *id, int code, const char *sentence)
{
    return write_error(
        id, json_pack("{s:i, s:s+}", "code", code, "message", sentence, ""));
}

char *cli_mcp_message_refusal(const json_t *id, const json_t *body)
{
    json_t *error = json_object_get(body, "error");

    if (!json_object_get(body, "jsonrpc") || !json_is_object(error))
        return NULL;
    return write_error(id, json_incref(error));
}

const json_t *cli_mcp_message_cancels(const struct mcp_message *m)
{
    if (strcmp(m->method, "notifications/cancelled") != 0)
        return NULL;
    return json_object_get(json_object_get(m->json, "params"), "requestId");
}

bool cli_mcp_message_repeatable(const struct mcp_message *m)
{
    return m->kind != MCP_BATCH && m->kind != MCP_RESPONSE &&
           strcmp(m->method, "tools/call") != 0 &&
           strncmp(m->method, "tasks/", strlen("tasks/")) != 0;
}
