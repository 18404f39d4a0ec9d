/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the issuer's keys come from: an address, asked at the start and then
 * every hour, or a file, looked at every few seconds; and at once when a
 * token names a key that is not known, though not as often as anybody can
 * send such tokens. Runs in the daemon on a thread of its own. What was
 * fetched last stays until there is something better: an issuer that is down
 * locks nobody out.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

/* ---- one attempt -------------------------------------------------------- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct buf *b = ctx;

    if (size * count > JWT_SET_MAX - b->len)
        return 0; /* ends the transfer */
    buf_add(b, bytes, size * count);
    return size * count;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                       curl_off_t d)
{
    struct auth_jwt *j = ctx;
    pthread_mutex_t *held cleanup(auth_unlock) = auth_lock(&j->lock);

    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return j->stopping; /* ends the transfer */
}

static void set_options(struct auth_jwt *j, CURL *easy, struct buf *out,
                        char *why)
{
    bool plain = strncmp(j->url, "http:", 5) == 0;

    (void)curl_easy_setopt(easy, CURLOPT_URL, j->url);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
                           plain ? "http" : "https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)JWT_FETCH_MS);
    (void)curl_easy_setopt(easy, CURLOPT_MAXFILESIZE, (long)JWT_SET_MAX);
    (void)curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT,
                           "glovebox/" GLOVEBOX_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, j);
    if (plain) /* our own machine */
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

static int fetch_url(struct auth_jwt *j, struct buf *out, struct error *err)
{
    char why[CURL_ERROR_SIZE] = "";
    CURL *easy = curl_easy_init();
    CURLcode code;
    long status = 0;

    if (!easy)
        return error_set(err, ERR_INTERNAL, "no transfer can be made");
    set_options(j, easy, out, why);
    code = curl_easy_perform(easy);
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    if (code != CURLE_OK)
        return error_set(err, ERR_UNAVAILABLE, "%s",
                         why[0] ? why : curl_easy_strerror(code));
    if (status != 200)
        return error_set(err, ERR_UNAVAILABLE, "the answer has status %ld",
                         status);
    return 0;
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
    (void)pthread_mutex_lock(&j->lock);
    old = j->keys;
    j->keys = keys;
    j->generation++;
    memcpy(j->known, hash, HASH_SIZE);
    (void)pthread_mutex_unlock(&j->lock);
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
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail */
    until.tv_sec += seconds;
    while (!j->stopping && !j->wanted &&
           pthread_cond_timedwait(&j->wake, &j->lock, &until) != ETIMEDOUT)
        ;
}

static void *run(void *arg)
{
    struct auth_jwt *j = arg;
    struct state s = {0};

    (void)pthread_mutex_lock(&j->lock);
    while (!j->stopping) {
        struct error err = {0};
        int r;

        j->wanted = false;
        j->trying = true;
        (void)pthread_mutex_unlock(&j->lock);
        r = attempt(j, &err);
        tell(j, &s, r, &err);
        s.failures = r < 0 ? s.failures + 1 : 0;
        (void)pthread_mutex_lock(&j->lock);
        j->trying = false;
        j->attempts++;
        (void)pthread_cond_broadcast(&j->tried);
        wait_for_turn(j, pause_after(j, &s));
    }
    (void)pthread_cond_broadcast(&j->tried);
    (void)pthread_mutex_unlock(&j->lock);
    return NULL;
}

int auth_jwt_fetch_start(struct auth_jwt *j, struct error *err)
{
    int r;

    j->asks_left = JWT_ASK_MAX;
    j->asks_at_ms = clock_mono_ms();
    if (j->url && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, ERR_INTERNAL, "libcurl does not start");
    j->trying = true; /* the first is; who asks now waits for it */
    r = pthread_create(&j->thread, NULL, run, j);
    if (r != 0)
        return error_errno(err, ERR_INTERNAL, r, "cannot start a thread");
    j->started = true;
    return 0;
}

void auth_jwt_fetch_stop(struct auth_jwt *j)
{
    if (!j->started)
        return;
    (void)pthread_mutex_lock(&j->lock);
    j->stopping = true;
    (void)pthread_cond_signal(&j->wake);
    (void)pthread_mutex_unlock(&j->lock);
    (void)pthread_join(j->thread, NULL); /* it was started and not joined */
    j->started = false;
    if (j->url)
        curl_global_cleanup();
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
    uint64_t seen = j->attempts;
    struct timespec until;

    if (j->stopping || j->waiters == JWT_WAITERS_MAX)
        return false;
    if (!j->trying && !j->wanted) {
        if (!take_ask(j))
            return false;
        j->wanted = true;
        (void)pthread_cond_signal(&j->wake);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail */
    until.tv_sec += JWT_FETCH_MS / 1000 + 1;
    j->waiters++;
    while (j->attempts == seen && !j->stopping &&
           pthread_cond_timedwait(&j->tried, &j->lock, &until) != ETIMEDOUT)
        ;
    j->waiters--;
    return j->attempts != seen;
}
