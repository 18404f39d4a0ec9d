/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands events on as they come: to syslog, and to a collector of
 * OpenTelemetry. Runs in the daemon, a thread for each. Where it got to is in
 * the store, and moves only once the other side has taken them; so after a
 * failure, a restart or a kill some come twice, and none is left out.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "audit/audit_int.h"
#include "audit/format.h"
#include "audit/syslog_addr.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fetch/fetch.h"

#define POLL_MS 500
#define AGAIN_MS 1000 /* after a failure, twice as long each time */
#define AGAIN_MOST_MS 60000
#define BATCH 200
#define OTLP_MS 10000u
#define SYSLOG_S 5 /* for a full socket */

struct audit_sender {
    struct audit *a;
    const char *name; /* "syslog" or "otlp": its row, and for the log */
    int (*send)(struct audit_sender *s, const struct audit_line *lines,
                size_t count, struct error *err);
    char *url;                       /* OTLP */
    struct audit_syslog_addr target; /* syslog */
    char host[256];

    struct worker worker;
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
    const struct audit_syslog_addr *t = &s->target;
    const struct timeval most = {.tv_sec = SYSLOG_S};
    int fd cleanup(fd_close) =
        socket(t->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) < 0 ||
        connect(fd, (const struct sockaddr *)&t->address, t->len) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno,
                           "the syslog receiver does not accept messages");
    for (size_t i = 0; i < count; i++) {
        struct buf text cleanup(buf_done) = {0};

        audit_format_syslog(&text, &lines[i], s->host);
        if (send(fd, text.data, text.len, MSG_NOSIGNAL) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno,
                               "the syslog receiver does not accept messages");
    }
    return 0;
}

/* ---- OpenTelemetry ------------------------------------------------------ */

static int send_otlp(struct audit_sender *s, const struct audit_line *lines,
                     size_t count, struct error *err)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          NULL};
    struct buf body cleanup(buf_done) = {0};
    struct fetch_request rq = {.url = s->url,
                               .headers = headers,
                               .total_ms = OTLP_MS,
                               .cancel = &s->worker.stopping};
    long status = 0;
    int r;

    audit_format_otlp(&body, lines, count);
    rq.body = body.data;
    rq.body_len = body.len;
    r = fetch(&rq, NULL, &status, err);
    if (r == 0 && (status < 200 || status > 299))
        r = error_set(err, ERR_UNAVAILABLE, "the answer has status %ld",
                      status);
    return r;
}

/* ---- the thread --------------------------------------------------------- */

/* 1: there is more, 0: that was all. */
static int send_batch(struct audit_sender *s, int64_t *cursor,
                      struct error *err)
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

static void audit_sender_main(void *arg)
{
    struct audit_sender *s = arg;
    struct error err = {0};
    int64_t cursor = -1;
    unsigned wait_ms = 0;
    int r;

    do {
        r = cursor < 0 ? read_cursor(s, &cursor, &err) : 1;
        if (r >= 0)
            r = send_batch(s, &cursor, &err);
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
    } while (worker_wait(&s->worker, r < 0 ? wait_ms : r ? 0 : POLL_MS));
}

static void sender_free(struct audit_sender *s)
{
    worker_stop(&s->worker);
    worker_done(&s->worker);
    free(s->url);
    free(s);
}

/* s: taken. */
static int start_sender(struct audit *a, struct audit_sender *s, size_t place,
                        struct error *err)
{
    char name[THREAD_NAME_MAX + 1];
    int r;

    s->a = a;
    worker_init(&s->worker);
    (void)snprintf(name, sizeof(name), "audit-%s", s->name);
    r = worker_start(&s->worker, name, audit_sender_main, s, err);
    if (r < 0)
        sender_free(s);
    else
        a->senders[place] = s;
    return r;
}

static int start_syslog(struct audit *a, const char *target, struct error *err)
{
    struct audit_sender *s cleanup(mem_free) = xcalloc(1, sizeof(*s));
    int r = audit_syslog_addr_parse(target, &s->target, err);

    if (r < 0)
        return r;
    s->name = "syslog";
    s->send = send_syslog;
    if (gethostname(s->host, sizeof(s->host) - 1) < 0 || !s->host[0])
        (void)snprintf(s->host, sizeof(s->host), "-");
    return start_sender(a, take_ptr(s), 0, err);
}

int audit_send_open(struct audit *a,
                    const struct audit_send_settings *settings,
                    struct error *err)
{
    int r = 0;

    if (settings->syslog && settings->syslog[0])
        r = start_syslog(a, settings->syslog, err);
    if (r == 0 && settings->otlp_url && settings->otlp_url[0]) {
        struct audit_sender *s = xcalloc(1, sizeof(*s));

        s->name = "otlp";
        s->send = send_otlp;
        s->url = xstrdup(settings->otlp_url);
        r = start_sender(a, s, 1, err);
    }
    return r;
}

void audit_send_close(struct audit *a)
{
    for (size_t i = 0; i < AUDIT_SENDERS; i++) {
        struct audit_sender *s = take_ptr(a->senders[i]);

        if (s)
            sender_free(s);
    }
}
