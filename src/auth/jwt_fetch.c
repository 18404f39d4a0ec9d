/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the issuer's keys come from: an address, asked at the start and then
 * every hour, or a file, looked at every few seconds; and at once when a
 * token names a key that is not known, though not as often as anybody can
 * send such tokens. Runs in the daemon on a thread of its own. What was
 * fetched last stays until there is something better: an issuer that is down
 * locks nobody out.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fetch/fetch.h"

/* ---- one attempt -------------------------------------------------------- */

static int fetch_url(struct auth_jwt *j, struct buf *out, struct error *err)
{
    const struct fetch_request rq = {.url = j->url,
                                     .answer_max = JWT_SET_MAX,
                                     .total_ms = JWT_FETCH_MS,
                                     .cancel = &j->stopping};
    long status = 0;
    int r = fetch(&rq, out, &status, err);

    if (r == 0 && status != 200)
        r = error_set(err, ERR_UNAVAILABLE, "the answer has status %ld",
                      status);
    return r;
}

static int read_file(struct auth_jwt *j, struct buf *out, struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;
    int r = fd_read_file(AT_FDCWD, j->file, JWT_SET_MAX, &text, &len);

    if (r < 0)
        return error_errno(err, ERR_UNAVAILABLE, -r, "cannot read %s",
                           j->file);
    buf_add(out, text, len);
    return 0;
}

/* 1: there are new keys, 0: the same as before. */
static int attempt(struct auth_jwt *j, struct error *err)
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char hash[HASH_SIZE];
    struct jwt_keys *keys = NULL, *old;
    int r = j->url ? fetch_url(j, &text, err) : read_file(j, &text, err);

    if (r < 0)
        return r;
    hash_sha256(text.data, text.len, hash);
    if (j->keys && memcmp(hash, j->known, HASH_SIZE) == 0)
        return 0; /* only this thread writes these two */
    r = auth_jwt_keys_parse(text.data ? text.data : "", text.len, &keys, err);
    if (r < 0)
        return r;
    mutex_lock(&j->lock);
    old = j->keys;
    j->keys = keys;
    j->generation++;
    memcpy(j->known, hash, HASH_SIZE);
    mutex_unlock(&j->lock);
    auth_jwt_keys_free(old); /* who verifies with one has counted it */
    return 1;
}

/* ---- the thread --------------------------------------------------------- */

struct state {
    unsigned failures; /* in a row */
    char told[sizeof(((struct error *)0)->message)];
};

static void tell(const struct auth_jwt *j, struct state *s, int result,
                 const struct error *err)
{
    const char *from = j->url ? j->url : j->file;
    char count[16];

    if (result >= 0) {
        (void)snprintf(count, sizeof(count), "%zu", j->keys->count);
        if (result > 0 || s->failures)
            log_event(LOG_INFO, "jwt_keys_loaded", "from", from, "keys", count,
                      NULL);
        s->told[0] = '\0';
    } else if (strcmp(s->told, err->message) != 0) { /* once for each cause */
        log_event(LOG_WARN, "jwt_keys_not_loaded", "from", from, "error",
                  err->message, "kept", j->keys ? "earlier ones" : "none",
                  NULL);
        (void)snprintf(s->told, sizeof(s->told), "%s", err->message);
    }
}

/* Seconds until the next attempt. */
static unsigned pause_after(const struct auth_jwt *j, const struct state *s)
{
    if (j->file)
        return JWT_FILE_EVERY_S;
    if (s->failures == 0)
        return JWT_FETCH_EVERY_S;
    return MIN(JWT_RETRY_FIRST_S << MIN(s->failures - 1, 10U),
               JWT_RETRY_MAX_S);
}

/* Lock held. */
static void wait_for_turn(struct auth_jwt *j, unsigned seconds)
{
    uint64_t deadline = clock_mono_ms() + 1000u * (uint64_t)seconds;

    while (!j->stopping && !j->wanted &&
           cond_wait_until(&j->wake, &j->lock, deadline))
        ;
}

static void jwt_keys_main(void *arg)
{
    struct auth_jwt *j = arg;
    struct state s = {0};

    mutex_lock(&j->lock);
    while (!j->stopping) {
        struct error err = {0};
        int r;

        j->wanted = false;
        j->trying = true;
        mutex_unlock(&j->lock);
        r = attempt(j, &err);
        tell(j, &s, r, &err);
        s.failures = r < 0 ? s.failures + 1 : 0;
        mutex_lock(&j->lock);
        j->trying = false;
        j->attempts++;
        cond_broadcast(&j->tried);
        wait_for_turn(j, pause_after(j, &s));
    }
    cond_broadcast(&j->tried);
    mutex_unlock(&j->lock);
}

int auth_jwt_fetch_start(struct auth_jwt *j, struct error *err)
{
    j->asks_left = JWT_ASK_MAX;
    j->asks_at_ms = clock_mono_ms();
    if (j->url && fetch_start(err) < 0)
        return -(int)err->code;
    j->trying = true; /* the first attempt; callers wait for it */
    return thread_start(&j->thread, "jwt-keys", jwt_keys_main, j, err);
}

void auth_jwt_fetch_stop(struct auth_jwt *j)
{
    if (!j->thread.started)
        return;
    mutex_lock(&j->lock);
    j->stopping = true;
    cond_signal(&j->wake);
    mutex_unlock(&j->lock);
    thread_join(&j->thread);
    if (j->url)
        fetch_stop();
}

/* ---- for tokens whose key is not known ---------------------------------- */

/* May one more attempt be asked for? Lock held. */
static bool take_ask(struct auth_jwt *j)
{
    uint64_t now = clock_mono_ms();
    uint64_t gained = (now - j->asks_at_ms) / (JWT_ASK_REGAIN_S * 1000u);

    if (gained > 0) {
        j->asks_left =
            (unsigned)MIN(j->asks_left + gained, (uint64_t)JWT_ASK_MAX);
        j->asks_at_ms = now;
    }
    if (j->asks_left == 0)
        return false;
    j->asks_left--;
    return true;
}

bool auth_jwt_fetch_again(struct auth_jwt *j)
{
    uint64_t deadline = clock_mono_ms() + JWT_FETCH_MS + 1000u;
    uint64_t seen = j->attempts;

    if (j->stopping || j->waiters == JWT_WAITERS_MAX)
        return false;
    if (!j->trying && !j->wanted) {
        if (!take_ask(j))
            return false;
        j->wanted = true;
        cond_signal(&j->wake);
    }
    j->waiters++;
    while (j->attempts == seen && !j->stopping &&
           cond_wait_until(&j->tried, &j->lock, deadline))
        ;
    j->waiters--;
    return j->attempts != seen;
}
