/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands events on as they come: to syslog, and to a collector of
 * OpenTelemetry. Runs in the daemon, a thread for each. Where it got to is in
 * the store, and moves only once the other side has taken them; so after a
 * failure, a restart or a kill some come twice, and none is left out.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "audit/audit_int.h"
#include "audit/format.h"
#include "audit/target.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#define POLL_MS 500
#define AGAIN_MS 1000 /* after a failure, twice as long each time */
#define AGAIN_MOST_MS 60000
#define BATCH 200
#define OTLP_MS 10000L
#define SYSLOG_S 5 /* for a full socket */

struct audit_sender {
    struct audit *a;
    const char *name; /* "syslog" or "otlp": its row, and for the log */
    int (*send)(struct audit_sender *s, const struct audit_line *lines,
                size_t count, struct error *err);
    char *url;                  /* OTLP */
    struct audit_target target; /* syslog */
    char host[256];

    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool stopping; /* lock */
};

/* ---- where it got to ---------------------------------------------------- */

static int read_cursor(struct audit_sender *s, int64_t *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r =
        store_begin(s->a->store, STORE_WRITE, "reading a cursor", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO audit_cursors (name, seq) VALUES (?1,"
                       " (SELECT coalesce(max(seq), 0) FROM audit))"
                       " ON CONFLICT (name) DO NOTHING",
                       "t", s->name);
    if (r >= 0)
        r = store_one(tx, &row, err,
                      "SELECT seq FROM audit_cursors WHERE name = ?1", "t",
                      s->name);
    if (r < 0)
        return r;
    *ret = store_int(row, 0);
    return store_commit(&tx, err);
}

static int write_cursor(struct audit_sender *s, int64_t seq, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(s->a->store, STORE_WRITE, "moving a cursor", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE audit_cursors SET seq = ?2 WHERE name = ?1",
                       "ti", s->name, seq);
    return r < 0 ? r : store_commit(&tx, err);
}

/* ---- syslog ------------------------------------------------------------- */

static int send_syslog(struct audit_sender *s, const struct audit_line *lines,
                       size_t count, struct error *err)
{
    const struct audit_target *t = &s->target;
    const struct timeval most = {.tv_sec = SYSLOG_S};
    int fd cleanup(fd_close) =
        socket(t->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) < 0 ||
        connect(fd, (const struct sockaddr *)&t->address, t->len) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno,
                           "nobody takes what is sent");
    for (size_t i = 0; i < count; i++) {
        struct buf text cleanup(buf_done) = {0};

        audit_format_syslog(&text, &lines[i], s->host);
        if (send(fd, text.data, text.len, MSG_NOSIGNAL) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno,
                               "nobody takes what is sent");
    }
    return 0;
}

/* ---- OpenTelemetry ------------------------------------------------------ */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    (void)bytes;
    (void)ctx;
    return size * count; /* what it says is of no use to us */
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                       curl_off_t d)
{
    struct audit_sender *s = ctx;
    bool stop;

    (void)a;
    (void)b;
    (void)c;
    (void)d;
    (void)pthread_mutex_lock(&s->lock);
    stop = s->stopping;
    (void)pthread_mutex_unlock(&s->lock);
    return stop; /* ends the transfer */
}

static void set_options(struct audit_sender *s, CURL *easy,
                        struct curl_slist *headers, const struct buf *body,
                        char *why)
{
    bool plain = strncmp(s->url, "http:", 5) == 0;

    (void)curl_easy_setopt(easy, CURLOPT_URL, s->url);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
                           plain ? "http" : "https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, OTLP_MS);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT,
                           "glovebox/" GLOVEBOX_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                           (curl_off_t)body->len);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body->data);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, s);
    if (plain) /* our own machine */
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

static int send_otlp(struct audit_sender *s, const struct audit_line *lines,
                     size_t count, struct error *err)
{
    struct buf body cleanup(buf_done) = {0};
    struct curl_slist *headers =
        curl_slist_append(NULL, "Content-Type: application/json");
    char why[CURL_ERROR_SIZE] = "";
    CURL *easy = curl_easy_init();
    CURLcode code = CURLE_FAILED_INIT;
    long status = 0;

    audit_format_otlp(&body, lines, count);
    if (easy && headers) {
        set_options(s, easy, headers, &body, why);
        code = curl_easy_perform(easy);
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    if (code != CURLE_OK)
        return error_set(err, ERR_UNAVAILABLE, "%.200s",
                         why[0] ? why : curl_easy_strerror(code));
    if (status < 200 || status > 299)
        return error_set(err, ERR_UNAVAILABLE, "the answer has status %ld",
                         status);
    return 0;
}

/* ---- the thread --------------------------------------------------------- */

/* False when it is time to end. */
static bool rest(struct audit_sender *s, unsigned ms)
{
    struct timespec until;
    bool go;

    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail */
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&s->lock); /* fails only on misuse */
    while (!s->stopping &&
           pthread_cond_timedwait(&s->wake, &s->lock, &until) == 0)
        continue;
    go = !s->stopping;
    (void)pthread_mutex_unlock(&s->lock);
    return go;
}

/* 1: there is more, 0: that was all. */
static int step(struct audit_sender *s, int64_t *cursor, struct error *err)
{
    const struct audit_filter filter = {.after = *cursor, .limit = BATCH};
    struct audit_line *lines = NULL;
    size_t count = 0;
    bool more = false;
    int r = audit_page(s->a, &filter, &lines, &count, &more, err);

    if (r == 0 && count)
        r = s->send(s, lines, count, err);
    if (r == 0 && count) {
        *cursor = lines[count - 1].seq;
        r = write_cursor(s, *cursor, err);
    }
    audit_lines_free(lines, count);
    return r < 0 ? r : more;
}

static void *run(void *arg)
{
    struct audit_sender *s = arg;
    struct error err = {0};
    int64_t cursor = -1;
    unsigned wait_ms = 0;
    int r;

    do {
        r = cursor < 0 ? read_cursor(s, &cursor, &err) : 1;
        if (r >= 0)
            r = step(s, &cursor, &err);
        if (r < 0 && !wait_ms)
            log_event(LOG_WARN, "audit_events_not_sent", "to", s->name,
                      "error", err.message, NULL);
        else if (r >= 0 && wait_ms)
            log_event(LOG_INFO, "audit_events_sent_again", "to", s->name,
                      NULL);
        if (r < 0)
            wait_ms = MIN(MAX(2 * wait_ms, (unsigned)AGAIN_MS),
                          (unsigned)AGAIN_MOST_MS);
        else
            wait_ms = 0;
    } while (rest(s, r < 0 ? wait_ms : r ? 0 : POLL_MS));
    return NULL;
}

static int start(struct audit *a, struct audit_sender *s, size_t place,
                 struct error *err)
{
    pthread_condattr_t attr;
    int r;

    s->a = a;
    (void)pthread_mutex_init(&s->lock, NULL); /* these cannot fail on Linux */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    r = pthread_create(&s->thread, NULL, run, s);
    if (r == 0) {
        a->senders[place] = s;
        return 0;
    }
    free(s->url);
    free(s);
    return error_errno(err, ERR_INTERNAL, r, "cannot start a thread");
}

static int start_syslog(struct audit *a, const char *target, struct error *err)
{
    struct audit_sender *s cleanup(mem_free) = xcalloc(1, sizeof(*s));
    int r = audit_target_parse(target, &s->target, err);

    if (r < 0)
        return r;
    s->name = "syslog";
    s->send = send_syslog;
    if (gethostname(s->host, sizeof(s->host) - 1) < 0 || !s->host[0])
        (void)snprintf(s->host, sizeof(s->host), "-");
    return start(a, take_ptr(s), 0, err);
}

static int start_otlp(struct audit *a, const char *url, struct error *err)
{
    struct audit_sender *s = xcalloc(1, sizeof(*s));

    s->name = "otlp";
    s->send = send_otlp;
    s->url = xstrdup(url);
    return start(a, s, 1, err);
}

int audit_send_open(struct audit *a,
                    const struct audit_send_settings *settings,
                    struct error *err)
{
    int r = 0;

    if (settings->syslog && settings->syslog[0])
        r = start_syslog(a, settings->syslog, err);
    if (r == 0 && settings->otlp_url && settings->otlp_url[0])
        r = start_otlp(a, settings->otlp_url, err);
    return r;
}

void audit_send_close(struct audit *a)
{
    for (size_t i = 0; i < AUDIT_SENDERS; i++) {
        struct audit_sender *s = take_ptr(a->senders[i]);

        if (!s)
            continue;
        (void)pthread_mutex_lock(&s->lock); /* fails only on misuse */
        s->stopping = true;
        (void)pthread_cond_signal(&s->wake);
        (void)pthread_mutex_unlock(&s->lock);
        (void)pthread_join(s->thread, NULL); /* started and not joined */
        (void)pthread_cond_destroy(&s->wake);
        (void)pthread_mutex_destroy(&s->lock);
        free(s->url);
        free(s);
    }
}
