/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on their way to the service. Each is one HTTP request of its own,
 * all at once; but nothing of the legacy era overtakes the handshake, because
 * the service would not know whose it is. What must wait has no curl handle
 * yet and is sent by the pump.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/mcp.h"

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
    x->headers = cli_mcp_message_headers(&x->m, x->headers);
    add_session(x);
}

/* ---- sending ------------------------------------------------------------ */

static void set_options(struct mcp_exchange *x, const char *url)
{
    cli_transfer_prepare(x->b->c, x->easy, url);
    (void)curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
    (void)curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
    (void)curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION,
                           cli_mcp_answer_body);
    (void)curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    (void)curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION,
                           cli_mcp_answer_header);
    (void)curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
}

/* What a broken connection left half read; the id of the last event stays. */
static void reset_answer(struct mcp_exchange *x)
{
    buf_reset(&x->answer);
    buf_reset(&x->sse.line);
    buf_reset(&x->sse.name);
    buf_reset(&x->sse.data);
    x->sse.has_data = x->sse.after_cr = x->sse.began = false;
    x->stream = x->heard = x->too_large = false;
}

static void send_off(struct mcp_exchange *x)
{
    char *url cleanup(mem_free) = xasprintf("%s%s", x->b->c->base, x->b->path);
    bool post = x->text && !x->resume;

    x->easy = curl_easy_init();
    if (!x->easy)
        abort(); /* as any small allocation of ours */
    reset_answer(x);
    set_headers(x, post);
    set_options(x, url);
    if (post) {
        (void)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->text);
        (void)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)x->len);
    }
    (void)curl_multi_add_handle(x->b->multi, x->easy);
}

/* ---- taking turns ------------------------------------------------------- */

/* Those behind it need what it brings. */
static bool leads(const struct mcp_exchange *x)
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
        led = led || leads(x);
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
    if (b->trouble.code != ERR_NONE && !cli_mcp_finish_find(b)) {
        cli_mcp_answer_fail(x, b->trouble.message);
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
