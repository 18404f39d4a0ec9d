/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection attempts and file reads of an execution. Runs in gloveboxd: the
 * thread that has the turn fetches attempts from pid 1, and the proxy's thread
 * adds others, hence e->lock. All input from a sandbox is hostile: malformed
 * or excessive entries are left out. The lists become visible when the
 * execution is finished and do not change afterwards.
 */
#include <string.h>

#include "audit/audit.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread.h"
#include "execution/execution_int.h"

#define TEXT_MAX 512u /* of one string that is kept */
#define DETAIL_MAX 400u

struct watched {
    struct arena *strings;
    struct network_connection connections[WATCH_CONNECTIONS_MAX];
    size_t count;
    bool cut;
    const char *reads[KERNEL_READS_MAX];
    size_t read_count;
    bool reads_cut;
    size_t bytes;
};

/* e->lock is held. */
static struct watched *watched_of(struct execution *e)
{
    if (!e->watched) {
        e->watched = xcalloc(1, sizeof(*e->watched));
        e->watched->strings = arena_new();
        e->watched->bytes = sizeof(*e->watched);
    }
    return e->watched;
}

static const char *keep_text(struct watched *w, const char *text)
{
    size_t len = text ? strnlen(text, TEXT_MAX) : 0;

    if (len == 0)
        return "";
    w->bytes += len + 1;
    return arena_strndup(w->strings, text, len);
}

/* ---- connections ---------------------------------------------------------
 */

static bool same_text(const char *kept, const char *text)
{
    return strncmp(kept, text ? text : "", TEXT_MAX) == 0;
}

static struct network_connection *find_same(struct watched *w,
                                            const struct network_connection *c)
{
    for (size_t i = 0; i < w->count; i++) {
        struct network_connection *have = &w->connections[i];

        if (have->port == c->port && have->allowed == c->allowed &&
            same_text(have->what, c->what) && same_text(have->host, c->host) &&
            same_text(have->method, c->method) &&
            same_text(have->path, c->path) &&
            same_text(have->reason, c->reason))
            return have;
    }
    return NULL;
}

static void watched_add(struct watched *w, const struct network_connection *c)
{
    struct network_connection *have = find_same(w, c);

    if (have) {
        have->count = have->count > UINT32_MAX - c->count
                          ? UINT32_MAX
                          : have->count + c->count;
        have->bytes_out += c->bytes_out;
        have->bytes_in += c->bytes_in;
        return;
    }
    if (w->count == WATCH_CONNECTIONS_MAX) {
        w->cut = true;
        return;
    }
    have = &w->connections[w->count++];
    *have = *c;
    have->what = keep_text(w, c->what);
    have->host = keep_text(w, c->host);
    have->method = keep_text(w, c->method);
    have->path = keep_text(w, c->path);
    have->reason = keep_text(w, c->reason);
}

bool execution_watch_add(void *ctx, const struct network_connection *c)
{
    struct execution *e = ctx;
    bool open;

    mutex_lock(&e->lock);
    open = e->info.status != EXEC_COMPLETED;
    if (open)
        watched_add(watched_of(e), c);
    mutex_unlock(&e->lock);
    return open;
}

void execution_watch_checks(void *ctx, const struct policy_check *checks,
                            size_t count)
{
    struct execution *e = ctx;
    size_t room;

    if (!count)
        return;
    mutex_lock(&e->lock);
    /* The evidence is written once it is completed. */
    room = e->info.status == EXEC_COMPLETED ? 0
                                            : EXEC_CHECKS_MAX - e->check_count;
    e->checks_cut = e->checks_cut || count > room;
    count = MIN(count, room);
    e->checks =
        xrealloc(e->checks, (e->check_count + count + 1) * sizeof(*e->checks));
    memcpy(e->checks + e->check_count, checks, count * sizeof(*checks));
    e->check_count += count;
    mutex_unlock(&e->lock);
}

/* ---- from pid 1 ----------------------------------------------------------
 */

static bool printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len > 0;
}

/* False: pid 1 never says such a thing. */
static bool add_blocked(struct execution *e, const struct init_blocked *b)
{
    size_t len = strnlen(b->host, sizeof(b->host));
    int64_t now = clock_real_ms();
    struct network_connection c = {
        .at_ms = b->at_ms > 0 && b->at_ms <= now ? b->at_ms : now,
        .what = b->kind == INIT_BLOCKED_RESOLVE ? "resolve" : "connect",
        .host = b->host,
        .port = b->port,
        .count = b->count,
        .reason = "this session has no network",
    };

    if (len == sizeof(b->host) || !printable(b->host, len) || b->count == 0 ||
        (b->kind != INIT_BLOCKED_RESOLVE && b->kind != INIT_BLOCKED_CONNECT))
        return false;
    if (e->session &&
        network_mode(session_facts(e->session).network) != SESSION_EGRESS_NONE)
        c.reason = "only the session's proxy leads out";
    (void)execution_watch_add(e,
                              &c); /* it is not finished: we have its turn */
    return true;
}

static bool add_all(struct execution *e, const struct broker_reply *reply)
{
    struct init_blocked b;

    if (reply->payload_len % sizeof(b))
        return false;
    for (size_t pos = 0; pos < reply->payload_len; pos += sizeof(b)) {
        memcpy(&b, reply->payload + pos, sizeof(b));
        if (!add_blocked(e, &b))
            return false;
    }
    if (reply->arg) {
        mutex_lock(&e->lock);
        watched_of(e)->cut = true;
        mutex_unlock(&e->lock);
    }
    return true;
}

void execution_watch_fetch(struct box *box, struct execution *e, char *io)
{
    struct broker_request ask = {.type = INIT_NETWORK,
                                 .arg = INIT_NETWORK_BLOCKED};
    struct broker_reply reply;
    struct error err;

    /* A box that does not answer was killed, which its end shows. */
    if (box_broker_call(box, &ask, io, SESSION_IO_SIZE, false, &reply, &err) <
            0 ||
        reply.errnum)
        return;
    if (!add_all(e, &reply))
        box_break(box);
}

/* ---- what was read -------------------------------------------------------
 */

static bool known(const struct watched *w, const char *path)
{
    for (size_t i = 0; i < w->read_count; i++)
        if (strcmp(w->reads[i], path) == 0)
            return true;
    return false;
}

/* A path that could not be ours is left out, as one too many is. */
static void add_read(struct watched *w, const char *path, size_t len)
{
    if (path_fault(path, len) || w->read_count == KERNEL_READS_MAX) {
        w->reads_cut = true;
        return;
    }
    if (known(w, path))
        return;
    w->bytes += len + 1;
    w->reads[w->read_count++] = arena_strndup(w->strings, path, len);
}

bool execution_watch_reads(struct execution *e, const char *payload,
                           size_t len)
{
    struct watched *w;
    size_t pos = 1;

    if (len < 1 || (unsigned char)payload[0] > 1 || payload[len - 1] != '\0')
        return len == 1 && (unsigned char)payload[0] <= 1;
    mutex_lock(&e->lock);
    w = watched_of(e);
    w->reads_cut |= payload[0] == 1;
    while (pos < len) { /* each is ended, because the last byte is */
        size_t n = strlen(payload + pos);

        add_read(w, payload + pos, n);
        pos += n + 1;
    }
    mutex_unlock(&e->lock);
    return true;
}

/* ---- the end -------------------------------------------------------------
 */

size_t execution_watch_publish(struct execution *e)
{
    const struct watched *w = e->watched;
    struct exec_info *info = &e->info;

    if (!w)
        return 0;
    info->connections = w->connections;
    info->connection_count = w->count;
    info->connections_truncated = w->cut;
    info->reads = w->reads;
    info->read_count = w->read_count;
    info->reads_truncated = w->reads_cut;
    return w->bytes;
}

void execution_watch_audit(struct executions *x, const char *workspace,
                           const struct actor *who,
                           const struct exec_info *info)
{
    struct buf detail cleanup(buf_done) = {0};
    struct audit_event event = {.action = "network.blocked",
                                .workspace = workspace,
                                .object = info->id,
                                .before = info->session,
                                .result = "denied"};

    for (size_t i = 0; i < info->connection_count; i++) {
        const struct network_connection *c = &info->connections[i];

        if (c->allowed)
            continue;
        if (detail.len > DETAIL_MAX - 160) {
            buf_adds(&detail, ", …");
            break;
        }
        buf_addf(&detail, "%s%s %.80s", detail.len ? ", " : "", c->what,
                 c->host);
        if (c->port)
            buf_addf(&detail, " port %u", c->port);
        if (c->count > 1)
            buf_addf(&detail, " (%u times)", c->count);
    }
    if (detail.len == 0)
        return;
    event.detail = detail.data;
    audit_later(x->core->audit, who, &event);
}

void execution_watch_done(struct execution *e)
{
    if (!e->watched)
        return;
    arena_free(e->watched->strings);
    free(e->watched);
}
