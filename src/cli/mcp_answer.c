/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service says to a message: nothing, one JSON body, or a stream of
 * messages; all of it goes to the host as it comes. Every request gets one
 * answer with its id: the service's, or an error of ours when none could be
 * had.
 */
#include <string.h>

#include "base/mem.h"
#include "cli/mcp.h"

#define ANSWER_MAX (64u << 20)
#define SESSION_HEADER "mcp-session-id:"
#define TYPE_HEADER "content-type:"
#define EVENTS "text/event-stream"

/* ---- messages ----------------------------------------------------------- */

/* Is it the answer the host waits for? */
static bool is_answer(const struct mcp_exchange *x, const json_t *message)
{
    if (x->m.kind == MCP_BATCH)
        return json_is_array(message);
    return x->m.id && !json_object_get(message, "method") &&
           json_equal(json_object_get(message, "id"), x->m.id);
}

static void pass_on(struct mcp_exchange *x, const char *text, size_t len)
{
    json_t *message cleanup(json_unref) = cli_json_load(text, len);
    struct mcp_session *s = &x->b->session;

    if (!message)
        return; /* the end will find that no answer came */
    if (is_answer(x, message))
        x->answered = true;
    if (x->answered && x->role == MCP_HANDSHAKE)
        (void)snprintf(s->version, sizeof(s->version), "%s",
                       cli_json_text(json_object_get(message, "result"),
                                     "protocolVersion", ""));
    if (!x->muted && (!x->ours || x->role == MCP_LISTEN))
        cli_mcp_host_say(x->b, text, len);
}

static int on_event(void *ctx, const struct cli_sse_event *event)
{
    struct mcp_exchange *x = ctx;
    struct mcp_session *s = &x->b->session;

    if (x->role == MCP_LISTEN)
        (void)snprintf(s->event, sizeof(s->event), "%s", event->id);
    if (event->len) {
        x->resumed = 0;
        pass_on(x, event->data, event->len);
    }
    return 0;
}

/* ---- bytes -------------------------------------------------------------- */

size_t cli_mcp_answer_body(char *bytes, size_t one, size_t len, void *ctx)
{
    struct mcp_exchange *x = ctx;

    (void)one; /* always 1 */
    if (x->stream)
        x->too_large = cli_sse_feed(&x->sse, bytes, len, on_event, x) != 0;
    else
        x->too_large = x->answer.len + len > ANSWER_MAX;
    if (x->too_large)
        return 0;
    if (!x->stream)
        buf_add(&x->answer, bytes, len);
    return len;
}

static bool is_header(const char *line, size_t len, const char *name)
{
    return len > strlen(name) && strncasecmp(line, name, strlen(name)) == 0;
}

/* The id of the session that a handshake began. */
static void take_session(struct mcp_session *s, const char *line, size_t len)
{
    size_t at = strlen(SESSION_HEADER);

    while (at < len && line[at] == ' ')
        at++;
    while (len > at && (unsigned char)line[len - 1] <= ' ')
        len--;
    if (len - at >= sizeof(s->id))
        return; /* none of ours is half as long */
    memcpy(s->id, line + at, len - at);
    s->id[len - at] = '\0';
}

size_t cli_mcp_answer_header(char *line, size_t one, size_t len, void *ctx)
{
    struct mcp_exchange *x = ctx;

    (void)one;
    x->heard = true;
    if (is_header(line, len, TYPE_HEADER) &&
        memmem(line, len, EVENTS, strlen(EVENTS)))
        x->stream = true;
    if (x->role == MCP_HANDSHAKE && is_header(line, len, SESSION_HEADER))
        take_session(&x->b->session, line, len);
    return len;
}

/* ---- the whole ---------------------------------------------------------- */

void cli_mcp_answer_complete(struct mcp_exchange *x)
{
    if (!x->stream && x->answer.len)
        pass_on(x, x->answer.data, x->answer.len);
}

/* The error in the service's words, with the id it may not have read. */
static void say_refusal(struct mcp_exchange *x, const json_t *id,
                        const json_t *body, const char *sentence)
{
    char *line cleanup(mem_free) = cli_mcp_message_refusal(id, body);

    if (!line)
        line = cli_mcp_message_error(id, MCP_INTERNAL_ERROR, sentence);
    cli_mcp_host_say(x->b, line, strlen(line));
}

/* Each request of a batch waits for an answer of its own. */
static void refuse_batch(struct mcp_exchange *x, const json_t *body,
                         const char *sentence)
{
    size_t i;
    json_t *value;

    json_array_foreach (x->m.json, i, value) {
        const json_t *id = json_object_get(value, "id");

        if (json_object_get(value, "method") &&
            (json_is_string(id) || json_is_number(id)))
            say_refusal(x, id, body, sentence);
    }
}

static void refuse(struct mcp_exchange *x, const json_t *body,
                   const char *sentence)
{
    if (x->answered || x->muted)
        return;
    if (x->ours || x->m.kind == MCP_NOTIFICATION ||
        x->m.kind ==
            MCP_RESPONSE) { /* nobody waits: people may want to know */
        if (!x->ours)
            (void)fprintf(stderr, "glovebox: %.64s was refused: %s\n",
                          x->m.method[0] ? x->m.method : "an answer",
                          sentence);
    } else if (x->m.kind == MCP_BATCH) {
        refuse_batch(x, body, sentence);
    } else {
        say_refusal(x, x->m.id, body, sentence);
    }
    x->answered = true;
}

void cli_mcp_answer_refused(struct mcp_exchange *x, long status)
{
    json_t *body cleanup(json_unref) =
        x->answer.len ? cli_json_load(x->answer.data, x->answer.len) : NULL;
    char sentence[sizeof(((struct error *)0)->message) * 2 + 4];
    struct error err = {0};

    (void)cli_refused(body, status, x->b->c->base, &err);
    (void)snprintf(sentence, sizeof(sentence), "%s%s%s", err.message,
                   err.hint[0] ? "; " : "", err.hint);
    refuse(x, body, sentence);
}

void cli_mcp_answer_fail(struct mcp_exchange *x, const char *sentence)
{
    refuse(x, NULL, sentence);
}
