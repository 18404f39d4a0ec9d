/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of the legacy era: begun by the host's handshake, named in a
 * header from then on, listened to by a standing GET, and deleted at the end.
 * The host knows nothing of it, and need not know when the service forgets
 * it: it is begun again with the same handshake, and what the host had asked
 * of it (a log level, subscriptions) is asked again.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/mcp/mcp.h"

#define LISTEN_AGAIN_MS 1000u
#define LISTEN_REFUSED_MS 10000u
#define GOODBYE_MS 1000L

/* ---- what the host asked ------------------------------------------------ */

static void forget_kept(struct mcp_session *s, size_t at)
{
    free(s->kept[at].key);
    free(s->kept[at].text);
    s->kept[at] = s->kept[--s->kept_count];
}

static void keep_request(struct mcp_session *s, const char *key,
                         const char *text, size_t len)
{
    for (size_t i = 0; i < s->kept_count; i++)
        if (strcmp(s->kept[i].key, key) == 0)
            forget_kept(s, i--);
    if (!text || s->kept_count == MCP_SESSION_KEPT)
        return;
    s->kept[s->kept_count].key = xstrdup(key);
    s->kept[s->kept_count++].text = xstrndup(text, len);
}

static void note_request(struct mcp_session *s, const struct mcp_message *m,
                         const char *text, size_t len)
{
    const char *uri =
        cli_json_text(json_object_get(m->json, "params"), "uri", "");

    if (strcmp(m->method, "logging/setLevel") == 0)
        keep_request(s, m->method, text, len);
    else if (strcmp(m->method, "resources/subscribe") == 0)
        keep_request(s, uri, text, len);
    else if (strcmp(m->method, "resources/unsubscribe") == 0)
        keep_request(s, uri, NULL, 0);
}

static void forget_requests(struct mcp_session *s)
{
    s->id[0] = s->version[0] = s->event[0] = '\0';
    s->listen_at_ms = 0;
    s->listen_lost = false;
    s->number++;
}

enum mcp_role cli_mcp_session_role(struct mcp_bridge *b,
                                   const struct mcp_message *m,
                                   const char *text, size_t len)
{
    struct mcp_session *s = &b->session;

    if (m->modern)
        return MCP_PLAIN;
    if (m->kind == MCP_REQUEST && strcmp(m->method, "initialize") == 0) {
        while (s->kept_count > 0)
            forget_kept(s, 0);
        free(s->handshake);
        s->handshake = xstrndup(text, len);
        forget_requests(s);
        return MCP_HANDSHAKE;
    }
    note_request(s, m, text, len);
    return strcmp(m->method, "notifications/initialized") == 0 ? MCP_READY
                                                               : MCP_PLAIN;
}

/* ---- beginning again ---------------------------------------------------- */

static struct mcp_exchange *find_role(struct mcp_bridge *b, enum mcp_role role)
{
    struct mcp_exchange *x = b->open;

    while (x && x->role != role)
        x = x->next;
    return x;
}

bool cli_mcp_session_again(struct mcp_exchange *x)
{
    struct mcp_bridge *b = x->b;
    struct mcp_session *s = &b->session;
    struct mcp_exchange *get;

    if (x->m.modern || x->role == MCP_HANDSHAKE || x->resume || x->shaken ||
        !s->handshake)
        return false;
    if (x->session == s->number) { /* the first to find out */
        if (!s->id[0])
            return false; /* it keeps none: this is about something else */
        get = find_role(b, MCP_LISTEN);
        if (get)
            cli_mcp_exchange_end(get);
        forget_requests(s);
        cli_mcp_exchange_start_ours(b, s->handshake, MCP_HANDSHAKE, true);
    }
    x->shaken = true;
    cli_mcp_exchange_wait(x, 0);
    return true;
}

void cli_mcp_session_shaken(struct mcp_exchange *x)
{
    static const char ready[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

    /* The host says it itself, once. */
    if (x->ours && x->b->session.version[0])
        cli_mcp_exchange_start_ours(x->b, ready, MCP_READY, true);
}

void cli_mcp_session_ready(struct mcp_exchange *x, bool good)
{
    struct mcp_session *s = &x->b->session;

    if (!good)
        return;
    s->listen_at_ms = clock_mono_ms();
    for (size_t i = s->kept_count; x->ours && i > 0; i--)
        cli_mcp_exchange_start_ours(x->b, s->kept[i - 1].text, MCP_PLAIN,
                                    true);
}

/* ---- listening ---------------------------------------------------------- */

void cli_mcp_session_unheard(struct mcp_exchange *x, long status)
{
    struct mcp_session *s = &x->b->session;
    uint64_t now = clock_mono_ms();

    if (x->session != s->number)
        return; /* of one that is no more */
    if (status == 0) {
        s->listen_lost = true;
    } else if (status == 404 && s->event[0]) {
        s->event[0] = '\0'; /* what it missed is not kept */
        s->listen_at_ms = now;
    } else if (status == 200 || status == 409) {
        s->listen_at_ms = now + LISTEN_AGAIN_MS;
    } else if (status != 404 && status != 405) {
        s->listen_at_ms = now + LISTEN_REFUSED_MS;
    }
    /* 405: it has nothing to tell; 404: a request will find out. */
}

void cli_mcp_session_alive(struct mcp_bridge *b)
{
    if (b->session.listen_lost) {
        b->session.listen_lost = false;
        b->session.listen_at_ms = clock_mono_ms();
    }
}

int cli_mcp_session_listen(struct mcp_bridge *b, int limit)
{
    struct mcp_session *s = &b->session;
    uint64_t now = clock_mono_ms();

    if (!s->id[0] || !s->listen_at_ms || find_role(b, MCP_LISTEN))
        return limit;
    if (s->listen_at_ms > now)
        return (int)MIN((uint64_t)limit, s->listen_at_ms - now);
    s->listen_at_ms = 0;
    cli_mcp_exchange_start_ours(b, NULL, MCP_LISTEN, false);
    return 0;
}

/* ---- the end ------------------------------------------------------------ */

static size_t discard_body(char *bytes, size_t one, size_t len, void *ctx)
{
    (void)bytes;
    (void)ctx;
    return one * len;
}

static void say_goodbye(struct mcp_bridge *b)
{
    char *url cleanup(mem_free) = xasprintf("%s%s", b->c->base, b->path);
    char *line cleanup(mem_free) =
        xasprintf("Mcp-Session-Id: %s", b->session.id);
    struct curl_slist *headers = curl_slist_append(NULL, line);
    CURL *easy = curl_easy_init();

    if (!easy || !headers)
        abort(); /* as any small allocation of ours */
    cli_transfer_prepare(b->c, easy, url);
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, GOODBYE_MS);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    (void)curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER,
                           b->c->key ? b->c->key : "");
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, discard_body);
    (void)curl_easy_perform(easy); /* it would expire anyway */
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
}

void cli_mcp_session_close(struct mcp_bridge *b)
{
    struct mcp_session *s = &b->session;

    if (s->id[0] && b->c->base)
        say_goodbye(b);
    while (s->kept_count > 0)
        forget_kept(s, 0);
    free(take_ptr(s->handshake));
}
