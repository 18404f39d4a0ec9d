/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of the legacy era: what initialize agreed on, the streams that can
 * be resumed, the running requests and the open questions. A session belongs
 * to the key that created it; its id grants nothing by itself. Kept in memory,
 * bounded per key and in total, and dropped after an hour without use. Any
 * worker may call.
 *
 * Lock order: mcp->lock, then a session's, then a stream's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "doors/mcp/mcp_int.h"

#define PREFIX "mcp"

static struct mcp_session **session_bucket(struct mcp *m, const char *id)
{
    unsigned n = 0;

    for (const char *at = id + strlen(PREFIX) + 1; *at; at++)
        n = n * 31 + (unsigned char)*at;
    return &m->sessions[n % MCP_SESSION_BUCKETS];
}

static bool same_key(const struct mcp_session *s, const struct principal *who)
{
    return strcmp(s->tenant, who->tenant) == 0 &&
           strcmp(s->key, who->key_id) == 0;
}

/* A key's tokens have sessions of their own, or one could do by way of its
 * parent's what it may not do itself. */
static bool owned_by(const struct mcp_session *s, const struct principal *who)
{
    return same_key(s, who) && strcmp(s->token, who->token) == 0;
}

struct mcp_session *mcp_session_ref(struct mcp_session *s)
{
    s->refs++;
    return s;
}

void mcp_session_unref(struct mcp_session *s)
{
    if (!s || --s->refs > 0)
        return;
    for (size_t i = 0; i < MCP_SESSION_STREAMS; i++)
        mcp_stream_unref(s->streams[i]);
    mcp_stream_unref(s->get);
    json_decref(s->caps);
    json_decref(s->open);
    cond_done(&s->answer);
    mutex_done(&s->lock);
    free(s);
}

/* ---- the table ---------------------------------------------------------- */

/* Removes s from the table; the caller takes over the table's reference. */
static void unlink_session(struct mcp *m, struct mcp_session *s)
{
    struct mcp_session **at = session_bucket(m, s->id);

    mutex_assert_held(&m->lock);
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at) {
        *at = s->next;
        m->session_count--;
    }
}

/* Everything that waits for it is let go. */
static void close_session(struct mcp *m, struct mcp_session *s)
{
    struct mcp_listener *l;
    struct mcp_stream *get;

    mutex_lock(&s->lock);
    s->ended = true;
    l = take_ptr(s->listener);
    get = take_ptr(s->get);
    for (size_t i = 0; i < MCP_SESSION_STREAMS; i++)
        if (s->streams[i])
            mcp_stream_end(s->streams[i]);
    cond_broadcast(&s->answer);
    mutex_unlock(&s->lock);
    if (get) {
        mcp_stream_end(get);
        mcp_stream_unref(get);
    }
    if (l) {
        mcp_listen_remove(m, l);
        mcp_listen_unref(l);
    }
}

/* The number of sessions of the key; *ret_oldest: the longest unused one
 * without a request in progress. */
static size_t count_sessions_of_key(struct mcp *m, const struct principal *who,
                                    struct mcp_session **ret_oldest)
{
    size_t count = 0;

    mutex_assert_held(&m->lock);
    *ret_oldest = NULL;
    for (size_t i = 0; i < MCP_SESSION_BUCKETS; i++)
        for (struct mcp_session *s = m->sessions[i]; s; s = s->next) {
            if (!same_key(s, who))
                continue;
            count++;
            if (s->refs == 1 &&
                (!*ret_oldest || s->used_ms < (*ret_oldest)->used_ms))
                *ret_oldest = s;
        }
    return count;
}

int mcp_session_create(struct mcp *m, const struct principal *who,
                       const char *version, const json_t *caps,
                       struct mcp_session **ret, struct error *err)
{
    struct mcp_session *s = xcalloc(1, sizeof(*s)), *oldest, **at;
    bool full;

    s->refs = 2; /* the table's and the caller's */
    ids_make(PREFIX, s->id);
    (void)snprintf(s->tenant, sizeof(s->tenant), "%s", who->tenant);
    (void)snprintf(s->key, sizeof(s->key), "%s", who->key_id);
    (void)snprintf(s->token, sizeof(s->token), "%s", who->token);
    s->version = version;
    s->caps = caps ? json_deep_copy(caps) : NULL;
    s->open = json_object();
    s->log_level = mcp_log_level("info");
    s->used_ms = clock_mono_ms();
    mutex_init(&s->lock); /* these cannot fail on Linux */
    cond_init(&s->answer);

    mutex_lock(&m->lock);
    full = count_sessions_of_key(m, who, &oldest) >= MCP_SESSIONS_PER_KEY ||
           m->session_count >= MCP_SESSIONS_MAX;
    if (full && oldest)
        unlink_session(m, oldest);
    if (!full || oldest) {
        at = session_bucket(m, s->id);
        s->next = *at;
        *at = s;
        m->session_count++;
    }
    mutex_unlock(&m->lock);
    if (full && !oldest) {
        s->refs = 1;
        mcp_session_unref(s);
        (void)error_set(err, ERR_LIMIT, "too many MCP sessions are open");
        return error_retry(err, 60);
    }
    if (full) {
        close_session(m, oldest);
        mcp_session_unref(oldest);
    }
    *ret = s;
    return 0;
}

struct mcp_session *mcp_session_find(struct mcp *m, const char *id,
                                     const struct principal *who)
{
    struct mcp_session *s;

    if (!ids_valid(PREFIX, id))
        return NULL;
    mutex_lock(&m->lock);
    for (s = *session_bucket(m, id); s; s = s->next)
        if (strcmp(s->id, id) == 0 && owned_by(s, who))
            break;
    if (s) {
        s->used_ms = clock_mono_ms();
        (void)mcp_session_ref(s);
    }
    mutex_unlock(&m->lock);
    return s;
}

void mcp_session_end(struct mcp *m, struct mcp_session *s)
{
    bool mine;

    mutex_lock(&m->lock);
    mine = !s->ended;
    if (mine) {
        s->ended = true;
        unlink_session(m, s);
    }
    mutex_unlock(&m->lock);
    if (!mine)
        return;
    close_session(m, s);
    mcp_session_unref(s);
}

static bool has_standing_reader(struct mcp_session *s)
{
    bool read;

    mutex_lock(&s->lock);
    read = s->get && mcp_stream_read(s->get);
    mutex_unlock(&s->lock);
    return read;
}

void mcp_session_sweep(struct mcp *m, bool all)
{
    uint64_t now = clock_mono_ms();

    for (size_t i = 0; i < MCP_SESSION_BUCKETS; i++)
        for (;;) {
            struct mcp_session *s;

            mutex_lock(&m->lock);
            for (s = m->sessions[i]; s; s = s->next)
                if (all ||
                    (s->refs == 1 && now > s->used_ms + MCP_SESSION_IDLE_MS &&
                     !has_standing_reader(s)))
                    break;
            if (s)
                (void)mcp_session_ref(s);
            mutex_unlock(&m->lock);
            if (!s)
                break;
            mcp_session_end(m, s);
            mcp_session_unref(s);
        }
}

/* Requests go on; a standing stream would wait for ever. */
void mcp_session_stop(struct mcp *m)
{
    mutex_lock(&m->lock);
    for (size_t i = 0; i < MCP_SESSION_BUCKETS; i++)
        for (struct mcp_session *s = m->sessions[i]; s; s = s->next) {
            mutex_lock(&s->lock);
            if (s->get)
                mcp_stream_end(s->get);
            cond_broadcast(&s->answer);
            mutex_unlock(&s->lock);
        }
    mutex_unlock(&m->lock);
}

/* ---- streams ------------------------------------------------------------ */

/* Drops the oldest ended streams until the rest fits; a running one is kept
 * whatever its size, because it is bounded by itself. */
static void drop_ended_streams(struct mcp_session *s)
{
    size_t bytes = 0, last = MCP_SESSION_STREAMS - 1;

    mutex_assert_held(&s->lock);
    for (size_t i = 0; i < MCP_SESSION_STREAMS; i++) {
        if (!s->streams[i])
            continue;
        bytes += mcp_stream_bytes(s->streams[i]);
        if (bytes > MCP_SESSION_BYTES && mcp_stream_over(s->streams[i])) {
            mcp_stream_unref(s->streams[i]);
            s->streams[i] = NULL;
        }
    }
    mcp_stream_unref(s->streams[last]);
    memmove(s->streams + 1, s->streams, last * sizeof(s->streams[0]));
    s->streams[0] = NULL;
}

static struct mcp_stream *new_stream(struct mcp_session *s)
{
    bool prime = strcmp(s->version, MCP_LEGACY_NEWEST) >= 0;

    return mcp_stream_new(++s->streams_made, prime);
}

struct mcp_stream *mcp_session_stream(struct mcp_session *s)
{
    struct mcp_stream *stream;

    mutex_lock(&s->lock);
    drop_ended_streams(s);
    stream = s->streams[0] = new_stream(s);
    (void)mcp_stream_ref(stream);
    mutex_unlock(&s->lock);
    return stream;
}

struct mcp_stream *mcp_session_standing(struct mcp_session *s)
{
    struct mcp_stream *stream = NULL;

    mutex_lock(&s->lock);
    if (!s->ended) {
        if (!s->get)
            s->get = new_stream(s);
        if (!mcp_stream_read(s->get))
            stream = mcp_stream_ref(s->get);
    }
    mutex_unlock(&s->lock);
    return stream;
}

struct mcp_stream *mcp_session_resume(struct mcp_session *s, const char *event,
                                      uint64_t *ret_after)
{
    struct mcp_stream *found = NULL;
    char *end;
    uint64_t number = strtoull(event, &end, 10);

    if (event[0] < '0' || event[0] > '9' || *end != '-' || end[1] < '0' ||
        end[1] > '9')
        return NULL;
    *ret_after = strtoull(end + 1, &end, 10);
    if (*end)
        return NULL;
    mutex_lock(&s->lock);
    if (s->get && mcp_stream_number(s->get) == number)
        found = s->get;
    for (size_t i = 0; i < MCP_SESSION_STREAMS && !found; i++)
        if (s->streams[i] && mcp_stream_number(s->streams[i]) == number)
            found = s->streams[i];
    if (found)
        (void)mcp_stream_ref(found);
    mutex_unlock(&s->lock);
    return found;
}

struct mcp_listener *mcp_session_listener(struct mcp_session *s)
{
    struct mcp_listener *l;

    mutex_lock(&s->lock);
    l = s->listener ? mcp_listen_ref(s->listener) : NULL;
    mutex_unlock(&s->lock);
    return l;
}

bool mcp_session_left(struct mcp_session *s)
{
    bool left;

    mutex_lock(&s->lock);
    left = !s->get || mcp_stream_gone(s->get);
    mutex_unlock(&s->lock);
    return left;
}

void mcp_session_tell(struct mcp_session *s, const struct buf *message)
{
    mutex_lock(&s->lock);
    if (s->get)
        mcp_stream_add(s->get, message, false);
    mutex_unlock(&s->lock);
}

/* ---- requests ----------------------------------------------------------- */

void mcp_session_begin(struct mcp_session *s, struct mcp_exchange *x)
{
    mutex_lock(&s->lock);
    x->next = s->running;
    s->running = x;
    mutex_unlock(&s->lock);
}

void mcp_session_finish(struct mcp_session *s, struct mcp_exchange *x)
{
    struct mcp_exchange **at;

    mutex_lock(&s->lock);
    for (at = &s->running; *at && *at != x; at = &(*at)->next)
        ;
    if (*at)
        *at = x->next;
    mutex_unlock(&s->lock);
}

void mcp_session_cancel(struct mcp_session *s, const json_t *id)
{
    mutex_lock(&s->lock);
    for (struct mcp_exchange *x = s->running; x; x = x->next)
        if (json_equal(x->msg.id, id))
            x->cancelled = true;
    cond_broadcast(&s->answer);
    mutex_unlock(&s->lock);
}

void mcp_session_take(struct mcp_session *s, const struct rpc_message *m)
{
    const char *id = json_string_value(m->id);

    mutex_lock(&s->lock);
    /* One we did not ask for, or have already, is nothing to us. */
    if (id && json_is_null(json_object_get(s->open, id))) {
        json_t *kept = m->result ? json_pack("{s:O}", "result", m->result)
                                 : json_pack("{s:O}", "error", m->error);

        (void)json_object_set_new(s->open, id, kept);
        cond_broadcast(&s->answer);
    }
    mutex_unlock(&s->lock);
}
