/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service and its answers. Each message is one HTTP request
 * of its own, all at once; but nothing of the legacy era overtakes the
 * handshake, because the service would not know whose it is. A message that
 * must wait has no curl handle yet and is sent by the pump.
 *
 * An answer is nothing, one JSON body, or a stream of messages; all of it
 * goes to the host as it comes. Every request gets one answer with its id:
 * the service's, or an error of ours when there is none.
 *
 * Before an exchange fails, a service that has gone away is looked for again,
 * a session it has forgotten is opened anew, a stream that broke is resumed.
 * Each of them a bounded number of times, and a call never twice: how far the
 * first one came is unknown.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/mcp/mcp.h"

#define ANSWER_MAX (64u << 20)
#define SESSION_HEADER "mcp-session-id:"
#define TYPE_HEADER "content-type:"
#define EVENTS "text/event-stream"
#define FIND_AGAIN_MS 5000u /* after it was not found */
#define RESUME_MS 300u
#define RESUMES_MAX 20u

/* ---- answers ------------------------------------------------------------ */

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

size_t cli_mcp_exchange_body(char *bytes, size_t one, size_t len, void *ctx)
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

size_t cli_mcp_exchange_header(char *line, size_t one, size_t len, void *ctx)
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

void cli_mcp_exchange_complete(struct mcp_exchange *x)
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

static void refuse_exchange(struct mcp_exchange *x, const json_t *body,
                            const char *sentence)
{
    if (x->answered || x->muted)
        return;
    if (x->ours || x->m.kind == MCP_NOTIFICATION ||
        x->m.kind ==
            MCP_RESPONSE) { /* no request waits for it: log it for people */
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

void cli_mcp_exchange_refused(struct mcp_exchange *x, long status)
{
    json_t *body cleanup(json_unref) =
        x->answer.len ? cli_json_load(x->answer.data, x->answer.len) : NULL;
    char sentence[sizeof(((struct error *)0)->message) * 2 + 4];
    struct error err = {0};

    (void)cli_refused(body, status, x->b->c->base, &err);
    (void)snprintf(sentence, sizeof(sentence), "%s%s%s", err.message,
                   err.hint[0] ? "; " : "", err.hint);
    refuse_exchange(x, body, sentence);
}

void cli_mcp_exchange_fail(struct mcp_exchange *x, const char *sentence)
{
    refuse_exchange(x, NULL, sentence);
}

/* ---- the list ----------------------------------------------------------- */

static struct mcp_exchange *new_exchange(struct mcp_bridge *b,
                                         const char *text, size_t len,
                                         bool in_front)
{
    struct mcp_exchange *x = xcalloc(1, sizeof(*x)), **at = &b->open;

    x->b = b;
    x->m.method = "";
    cli_sse_init(&x->sse);
    if (text)
        x->text = xstrndup(text, len);
    x->len = len;
    while (*at && !in_front)
        at = &(*at)->next;
    x->next = *at;
    *at = x;
    b->open_count++;
    return x;
}

static void hang_up(struct mcp_exchange *x)
{
    if (x->easy) {
        (void)curl_multi_remove_handle(x->b->multi, x->easy);
        curl_easy_cleanup(take_ptr(x->easy));
    }
}

void cli_mcp_exchange_end(struct mcp_exchange *x)
{
    struct mcp_exchange **at = &x->b->open;

    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    x->b->open_count--;
    hang_up(x);
    curl_slist_free_all(x->headers);
    cli_mcp_message_done(&x->m);
    buf_done(&x->answer);
    cli_sse_done(&x->sse);
    free(x->text);
    free(x);
}

void cli_mcp_exchange_drop(struct mcp_bridge *b)
{
    while (b->open)
        cli_mcp_exchange_end(b->open);
}

/* ---- headers ------------------------------------------------------------ */

static void add_header(struct mcp_exchange *x, const char *line)
{
    struct curl_slist *longer = curl_slist_append(x->headers, line);

    if (!longer)
        abort(); /* as any small allocation of ours */
    x->headers = longer;
}

static void add_value(struct mcp_exchange *x, const char *name,
                      const char *value)
{
    char *line cleanup(mem_free) = xasprintf("%s: %s", name, value);

    if (value[0])
        add_header(x, line);
    explicit_bzero(line, strlen(line)); /* one of them is the key */
}

static void add_session(struct mcp_exchange *x)
{
    const struct mcp_session *s = &x->b->session;

    if (x->m.modern || x->role == MCP_HANDSHAKE)
        return;
    add_value(x, "Mcp-Session-Id", s->id);
    add_value(x, "MCP-Protocol-Version", s->version);
    if (x->role == MCP_LISTEN)
        add_value(x, "Last-Event-ID", s->event);
    else if (x->resume)
        add_value(x, "Last-Event-ID", x->sse.id.data);
    x->session = s->number;
}

static void set_headers(struct mcp_exchange *x, bool post)
{
    char *key cleanup(mem_free) =
        xasprintf("Bearer %s", x->b->c->key ? x->b->c->key : "");

    curl_slist_free_all(take_ptr(x->headers));
    if (x->b->c->key)
        add_value(x, "Authorization", key);
    explicit_bzero(key, strlen(key));
    add_header(x, "Expect:");
    if (post)
        add_header(x, "Content-Type: application/json");
    add_header(x, post ? "Accept: application/json, text/event-stream"
                       : "Accept: text/event-stream");
    /* Calls of one process share a session, in both eras of the protocol. */
    add_value(x, "X-Glovebox-Process", x->b->process);
    x->headers = cli_mcp_message_headers(&x->m, x->headers);
    add_session(x);
}

/* ---- sending ------------------------------------------------------------ */

static void send_off(struct mcp_exchange *x)
{
    char *url cleanup(mem_free) = xasprintf("%s%s", x->b->c->base, x->b->path);
    bool post = x->text && !x->resume;

    x->easy = curl_easy_init();
    if (!x->easy)
        abort(); /* as any small allocation of ours */

    /* Drops what a broken connection left half read; the id of the last event
     * stays. */
    buf_reset(&x->answer);
    buf_reset(&x->sse.line);
    buf_reset(&x->sse.name);
    buf_reset(&x->sse.data);
    x->sse.has_data = x->sse.after_cr = x->sse.began = false;
    x->stream = x->heard = x->too_large = false;

    set_headers(x, post);

    cli_transfer_prepare(x->b->c, x->easy, url);
    (void)curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
    (void)curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
    (void)curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION,
                           cli_mcp_exchange_body);
    (void)curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    (void)curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION,
                           cli_mcp_exchange_header);
    (void)curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);

    if (post) {
        (void)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->text);
        (void)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)x->len);
    }
    (void)curl_multi_add_handle(x->b->multi, x->easy);
}

/* ---- taking turns ------------------------------------------------------- */

/* True if later messages depend on its answer. */
static bool blocks_followers(const struct mcp_exchange *x)
{
    return x->role == MCP_HANDSHAKE || x->role == MCP_READY;
}

int cli_mcp_exchange_pump(struct mcp_bridge *b, int limit)
{
    uint64_t now = clock_mono_ms();
    bool led = false;

    for (struct mcp_exchange *x = b->open; x; x = x->next) {
        if (!x->easy && (x->m.modern || !led)) {
            if (x->at_ms <= now)
                send_off(x);
            else
                limit = (int)MIN((uint64_t)limit, x->at_ms - now);
        }
        led = led || blocks_followers(x);
    }
    return limit;
}

void cli_mcp_exchange_wait(struct mcp_exchange *x, uint64_t ms)
{
    hang_up(x);
    x->at_ms = clock_mono_ms() + ms;
}

void cli_mcp_exchange_start(struct mcp_bridge *b, const char *text, size_t len,
                            struct mcp_message *m)
{
    struct mcp_exchange *x = new_exchange(b, text, len, false);

    x->m = *m;
    *m = (struct mcp_message){.method = ""};
    x->role = cli_mcp_session_role(b, &x->m, text, len);
    if (b->trouble.code != ERR_NONE && !cli_mcp_exchange_find_service(b)) {
        cli_mcp_exchange_fail(x, b->trouble.message);
        cli_mcp_exchange_end(x);
    }
}

void cli_mcp_exchange_start_ours(struct mcp_bridge *b, const char *text,
                                 enum mcp_role role, bool in_front)
{
    struct mcp_exchange *x =
        new_exchange(b, text, text ? strlen(text) : 0, in_front);

    if (text)
        (void)cli_mcp_message_read(text, strlen(text), &x->m);
    x->role = role;
    x->ours = true;
}

void cli_mcp_exchange_cancel(struct mcp_bridge *b, const json_t *id)
{
    for (struct mcp_exchange *x = b->open; x; x = x->next) {
        if (x->ours || x->m.kind != MCP_REQUEST || !x->m.id ||
            !json_equal(x->m.id, id))
            continue;
        x->muted = true;
        /* Hanging up is how the modern era cancels; in the legacy era the
         * notification does it. What was never sent needs neither. */
        if (x->m.modern || !x->easy)
            cli_mcp_exchange_end(x);
        return;
    }
}

/* ---- the end of an exchange --------------------------------------------- */

bool cli_mcp_exchange_find_service(struct mcp_bridge *b)
{
    struct error err = {0};

    if (b->trouble.code != ERR_NONE &&
        clock_mono_ms() < b->trouble_ms + FIND_AGAIN_MS)
        return false;
    if (cli_connect(b->c, CLI_NEED_DATA, NULL, NULL, &err) == 0) {
        b->trouble = (struct error){0};
        return true;
    }
    b->trouble = err;
    b->trouble_ms = clock_mono_ms();
    if (err.errnum == EINTR)
        b->ended = true; /* a signal, or the host hung up */
    else
        (void)cli_fail(b->c, &err);
    return false;
}

/* No status at all: the service may have been replaced, and its address with
 * it. */
static bool find_again(struct mcp_exchange *x, CURLcode result)
{
    bool unsent = result == CURLE_COULDNT_CONNECT;

    if (x->moved || x->muted || x->heard ||
        (!unsent && !cli_mcp_message_repeatable(&x->m)))
        return false;
    x->moved = true;
    if (!cli_mcp_exchange_find_service(x->b)) {
        cli_mcp_exchange_fail(x, x->b->trouble.message);
        return false;
    }
    cli_mcp_exchange_wait(x, 0);
    return true;
}

static void fail_unreached(struct mcp_exchange *x, CURLcode result)
{
    char *sentence cleanup(mem_free) = NULL;
    struct error err;

    if (cli_transfer_explain(x->b->c, result, "", &err))
        sentence = xasprintf("%s. %s", err.message, err.hint);
    else if (result == CURLE_COULDNT_CONNECT)
        sentence =
            xasprintf("the service at %s cannot be reached", x->b->c->base);
    else
        sentence = xasprintf("the service went away before it answered (%s)",
                             curl_easy_strerror(result));
    cli_mcp_exchange_fail(x, sentence);
}

/* A stream of the legacy era can be taken up again: the work goes on. */
static bool resume_stream(struct mcp_exchange *x)
{
    if (x->m.modern || !x->stream || !x->sse.id.len || x->muted ||
        x->session != x->b->session.number || x->resumed >= RESUMES_MAX)
        return false;
    x->resume = true;
    x->resumed++;
    cli_mcp_exchange_wait(x, RESUME_MS);
    return true;
}

/* True: it goes on. */
static bool end_answered(struct mcp_exchange *x)
{
    bool wanted = x->m.kind != MCP_NOTIFICATION && x->m.kind != MCP_RESPONSE;

    cli_mcp_exchange_complete(x);
    if (!x->m.modern)
        cli_mcp_session_alive(x->b);
    if (!wanted || x->answered)
        return false;
    if (x->too_large)
        cli_mcp_exchange_fail(
            x, "the answer is larger than this bridge passes on");
    else if (resume_stream(x))
        return true;
    else
        cli_mcp_exchange_fail(x, "the service ended the answer before it was "
                                 "complete");
    return false;
}

static bool continue_exchange(struct mcp_exchange *x, long status,
                              CURLcode result)
{
    if (status == 0 && find_again(x, result))
        return true;
    if (status == 404 && cli_mcp_session_again(x))
        return true;
    if (status == 0)
        fail_unreached(x, result);
    else if (status / 100 == 2)
        return end_answered(x);
    else if (x->resume)
        cli_mcp_exchange_fail(x,
                              "the connection to the service broke, and the "
                              "answer was lost with it");
    else
        cli_mcp_exchange_refused(x, status);
    return false;
}

static void end_transfer(struct mcp_exchange *x, CURLcode result)
{
    long status = 0;

    (void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (x->role == MCP_LISTEN)
        cli_mcp_session_unheard(x, status);
    else if (continue_exchange(x, status, result))
        return;
    if (x->role == MCP_HANDSHAKE)
        cli_mcp_session_shaken(x);
    if (x->role == MCP_READY)
        cli_mcp_session_ready(x, status / 100 == 2);
    cli_mcp_exchange_end(x);
}

void cli_mcp_exchange_reap(struct mcp_bridge *b)
{
    struct CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(b->multi, &left))) {
        CURLcode result = msg->data.result;
        char *x = NULL;

        if (msg->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &x);
        end_transfer((void *)x, result);
    }
}
