/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of S3: signed, sent, retried; and what is known of the store: is it
 * down, how far ahead is its clock. Runs in gloveboxd on the caller's thread.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "fetch/fetch.h"
#include "s3/s3_int.h"

#define BACKOFF_LEAST_MS 100u
#define BACKOFF_MOST_MS 5000u
#define RETRY_AFTER_MOST_MS 60000u
#define BYTES_PER_MS 256u /* so slow a transfer is still waited for */
#define DOWN_FAILURES 4u
#define DOWN_AFTER_MS 5000u
#define PROBE_EVERY_MS 1000u
#define WHY_MAX 260
#define SKEW_MS                                                               \
    300000 /* a clock less wrong than this is no cause of a 403               \
            */

/* ---- open and close ----------------------------------------------------- */

int s3_open(const struct s3_settings *settings, struct s3 **ret,
            struct error *err)
{
    struct s3 *s = xcalloc(1, sizeof(*s));
    const char *slashes = strstr(settings->endpoint, "://");
    const char *host = slashes ? slashes + 3 : "";
    size_t len = strcspn(host, "/");
    int n, r;

    mutex_init(&s->lock);
    cond_init(&s->stopped);
    s->name = xstrdup(settings->name);
    s->scheme = xstrndup(settings->endpoint,
                         slashes ? (size_t)(host - settings->endpoint) : 0);
    s->region = xstrdup(settings->region);
    s->bucket = xstrdup(settings->bucket);
    s->prefix = xstrdup(settings->prefix);
    s->key_file = xstrdup(settings->key_file);
    s->host_style = settings->host_style;
    s->deadline_ms = settings->deadline_ms;
    s->part_bytes = settings->part_bytes;
    n = settings->host_style
            ? snprintf(s->host, sizeof(s->host), "%s.%.*s", s->bucket,
                       (int)len, host)
            : snprintf(s->host, sizeof(s->host), "%.*s", (int)len, host);
    s->client = fetch_client_new(&(struct fetch_client_settings){
        .ca_file = settings->ca_file,
        .connections = settings->connections,
        .connect_ms = MIN(settings->deadline_ms, 10000u),
        .stall_ms = settings->stall_ms});
    if (!len || n >= (int)sizeof(s->host) || host[len + (host[len] == '/')])
        r = error_set(err, ERR_INVALID,
                      "the endpoint must be a scheme, a host and perhaps a "
                      "port");
    else
        r = s3_keys_read(s->key_file, &s->keys, err);
    if (r < 0) {
        r = error_wrap(err, "bucket %s", s->name);
        s3_close(s);
        return r;
    }
    *ret = s;
    return 0;
}

void s3_close(struct s3 *s)
{
    if (!s)
        return;
    fetch_client_free(s->client);
    s3_keys_wipe(&s->keys);
    cond_done(&s->stopped);
    mutex_done(&s->lock);
    free(s->name);
    free(s->scheme);
    free(s->region);
    free(s->bucket);
    free(s->prefix);
    free(s->key_file);
    free(s);
}

void s3_stop(struct s3 *s)
{
    atomic_store(&s->stopping, true);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);
    cond_broadcast(&s->stopped);
}

const char *s3_name(const struct s3 *s)
{
    return s->name;
}

int64_t s3_clock_ahead_ms(struct s3 *s)
{
    return atomic_load(&s->ahead_ms);
}

void s3_counts(struct s3 *s, struct s3_counts *ret)
{
    *ret = (struct s3_counts){.requests = atomic_load(&s->requests),
                              .retries = atomic_load(&s->retries),
                              .failures = atomic_load(&s->failures),
                              .throttled = atomic_load(&s->throttled),
                              .sent = atomic_load(&s->sent),
                              .received = atomic_load(&s->received)};
}

/* ---- down or up --------------------------------------------------------- */

static int unavailable(const struct s3 *s, const char *why, struct error *err)
{
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the object store %s cannot be used: %.180s", s->name,
                    why);
    (void)error_hint(err, "What is cached can be read. The service tries "
                          "again by itself.");
    return error_retry(err, 5);
}

bool s3_is_down(struct s3 *s, struct error *why)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);

    if (s->down && why)
        (void)unavailable(s, s->why, why);
    return s->down;
}

/* While it is down one call a second gets through, as *ret_probe. */
static int admit(struct s3 *s, bool *ret_probe, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);

    if (atomic_load(&s->stopping))
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    *ret_probe = false;
    if (!s->down)
        return 0;
    if (s->probing || clock_mono_ms() < s->probe_at)
        return unavailable(s, s->why, err);
    s->probing = *ret_probe = true;
    return 0;
}

static void note_answer(struct s3 *s)
{
    bool back;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);

        back = s->down;
        s->failed = 0;
        s->down = s->probing = false;
    }
    if (back)
        log_event(LOG_INFO, "object_store_back", "bucket", s->name, NULL);
}

/* True if it counts as down now. */
static bool note_failure(struct s3 *s, const char *why)
{
    uint64_t now_ms = clock_mono_ms();
    bool fell = false, down;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);

        if (s->failed++ == 0)
            s->failing_since = now_ms;
        (void)snprintf(s->why, sizeof(s->why), "%.180s", why);
        if (!s->down && s->failed >= DOWN_FAILURES &&
            now_ms - s->failing_since >= DOWN_AFTER_MS)
            s->down = fell = true;
        s->probing = false;
        s->probe_at = now_ms + PROBE_EVERY_MS;
        down = s->down;
    }
    if (fell)
        log_event(LOG_ERROR, "object_store_down", "bucket", s->name, "why",
                  why, NULL);
    return down;
}

/* ---- times -------------------------------------------------------------- */

bool s3_http_date(const char *text, int64_t *ret_ms)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {0};
    char month[4];
    const char *at;

    if (sscanf(text, "%*3s, %2d %3s %4d %2d:%2d:%2d GMT", &tm.tm_mday, month,
               &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
        return false;
    at = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (!at || (at - months) % 3)
        return false;
    tm.tm_mon = (int)(at - months) / 3;
    tm.tm_year -= 1900;
    *ret_ms = (int64_t)timegm(&tm) * 1000;
    return true;
}

unsigned s3_retry_after_ms(const char *value, int64_t now_ms)
{
    char *end;
    unsigned long seconds = strtoul(value, &end, 10);
    int64_t at_ms;

    if (isdigit((unsigned char)*value) && !*end)
        return seconds >= RETRY_AFTER_MOST_MS / 1000
                   ? RETRY_AFTER_MOST_MS
                   : (unsigned)seconds * 1000;
    if (!s3_http_date(value, &at_ms) || at_ms <= now_ms)
        return 0;
    return (unsigned)MIN(at_ms - now_ms, (int64_t)RETRY_AFTER_MOST_MS);
}

unsigned s3_backoff_ms(unsigned n)
{
    return n > 6 ? BACKOFF_MOST_MS
                 : MIN(BACKOFF_LEAST_MS << (n - 1), BACKOFF_MOST_MS);
}

/* Random, so that callers that failed together do not return together. */
static unsigned jittered(unsigned most_ms)
{
    uint32_t random;

    ids_random(&random, sizeof(random));
    return most_ms / 2 + random % (most_ms / 2 + 1);
}

/* False if the service is stopping or the deadline comes first. */
static bool wait_ms(struct s3 *s, unsigned ms, uint64_t deadline_ms)
{
    uint64_t until_ms = clock_mono_ms() + ms;

    if (until_ms >= deadline_ms)
        return false;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);
    while (!atomic_load(&s->stopping) &&
           cond_wait_until(&s->stopped, &s->lock, until_ms))
        ;
    return !atomic_load(&s->stopping);
}

/* ---- one attempt -------------------------------------------------------- */

void s3_call_done(struct s3_call *call)
{
    buf_done(&call->head);
    buf_done(&call->answer);
}

void s3_call_reset(struct s3_call *call)
{
    call->status = 0;
    call->code[0] = call->text[0] = '\0';
    buf_reset(&call->head);
    buf_reset(&call->answer);
}

static int on_bytes(void *ctx, long status, const void *bytes, size_t len)
{
    struct s3_call *call = ctx;

    if (call->sink && status >= 200 && status < 300) {
        /* A large object has the time that its bytes take. */
        call->deadline_ms +=
            (call->got + len) / BYTES_PER_MS - call->got / BYTES_PER_MS;
        call->got += len;
        call->x->deadline_ms = call->deadline_ms;
        call->ended = call->sink(call, bytes, len);
        return call->ended;
    }
    if (call->answer.len + len > S3_ANSWER_MAX)
        return 1;
    buf_add(&call->answer, bytes, len);
    return 0;
}

static void add_path(const struct s3 *s, const struct s3_call *call,
                     struct buf *out)
{
    buf_adds(out, "/");
    if (!s->host_style) {
        s3_sign_encode(s->bucket, false, out);
        if (call->key)
            buf_adds(out, "/");
    }
    if (call->key) {
        s3_sign_encode(s->prefix, true, out);
        s3_sign_encode(call->key, true, out);
    }
}

/* Signed headers as lines; owned by caller, ended by NULL. */
static char **sign_call(struct s3 *s, struct s3_call *call, const char *path,
                        const char *query)
{
    struct s3_param headers[S3_PARAMS + 4];
    struct buf line cleanup(buf_done) = {0};
    struct s3_keys keys cleanup(s3_keys_wipe) = {0};
    char payload[HASH_HEX], now[32];
    time_t seconds =
        (time_t)((clock_real_ms() + atomic_load(&s->ahead_ms)) / 1000);
    char **lines = xcalloc(S3_PARAMS + 6, sizeof(*lines));
    size_t count = 0, n = 0;
    struct tm tm;

    if (!call->has_body)
        hash_sha256("", 0, call->sha256);
    (void)ids_hex(call->sha256, HASH_SIZE, payload);
    (void)strftime(now, sizeof(now), "%Y%m%dT%H%M%SZ",
                   gmtime_r(&seconds, &tm));
    mutex_lock(&s->lock);
    keys = s->keys;
    mutex_unlock(&s->lock);
    headers[count++] = (struct s3_param){"host", s->host};
    headers[count++] = (struct s3_param){"x-amz-content-sha256", payload};
    headers[count++] = (struct s3_param){"x-amz-date", now};
    if (keys.token[0])
        headers[count++] =
            (struct s3_param){"x-amz-security-token", keys.token};
    for (size_t i = 0; i < call->header_count; i++)
        headers[count++] = call->headers[i];
    buf_adds(&line, "Authorization: ");
    s3_sign(&(struct s3_to_sign){.method = call->method,
                                 .path = path,
                                 .query = query,
                                 .headers = headers,
                                 .header_count = count,
                                 .payload = payload,
                                 .time = now,
                                 .region = s->region},
            &keys, &line);
    buf_add(&line, "", 1);
    lines[n++] = buf_take(&line, NULL);
    for (size_t i = 0; i < count; i++)
        lines[n++] = xasprintf("%s: %s", headers[i].name, headers[i].value);
    return lines;
}

static void lines_free(char ***lines)
{
    for (size_t i = 0; *lines && (*lines)[i]; i++) {
        /* One of them may be a session token. */
        memset((*lines)[i], 0, strlen((*lines)[i]));
        free((*lines)[i]);
    }
    free(*lines);
}

static int send_once(struct s3 *s, struct s3_call *call, struct error *err)
{
    struct buf path cleanup(buf_done) = {0}, query cleanup(buf_done) = {0};
    char **lines cleanup(lines_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    struct fetch_exchange x = {.method = call->method,
                               .has_body = call->has_body,
                               .body = call->body,
                               .body_fd = call->body_fd,
                               .body_at = call->body_at,
                               .body_len = call->body_len,
                               .deadline_ms = call->deadline_ms,
                               .cancel = &s->stopping,
                               .on_bytes = on_bytes,
                               .ctx = call,
                               .head = &call->head};
    int r;

    add_path(s, call, &path);
    buf_add(&path, "", 1);
    s3_sign_query(call->query, call->query_count, &query);
    buf_add(&query, "", 1);
    lines = sign_call(s, call, path.data, query.data);
    url = xasprintf("%s%s%s%s%s", s->scheme, s->host, path.data,
                    query.data[0] ? "?" : "", query.data);
    /* cppcheck-suppress autoVariables ; reset below */
    call->x = &x;
    x.url = url;
    x.headers = (const char *const *)lines;
    s3_call_reset(call);
    r = fetch_client_run(s->client, &x, err);
    call->x = NULL;
    call->status = x.status;
    atomic_fetch_add(&s->requests, 1);
    atomic_fetch_add(&s->sent, x.sent);
    atomic_fetch_add(&s->received, x.received);
    return r;
}

/* ---- what an answer means ----------------------------------------------- */

/* What the server says becomes part of a message: one line of plain text. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t n = 0;

    for (; *from && n + 1 < size; from++)
        to[n++] = *from >= ' ' && *from <= '~' ? *from : ' ';
    to[n] = '\0';
}

static int on_error_element(void *ctx, const char *path, const char *text)
{
    struct s3_call *call = ctx;

    if (strcmp(path, "Error/Code") == 0)
        copy_text(call->code, sizeof(call->code), text);
    else if (strcmp(path, "Error/Message") == 0)
        copy_text(call->text, sizeof(call->text), text);
    return 0;
}

static bool is_transient(const struct s3_call *call)
{
    return call->status == 408 || call->status == 429 || call->status == 500 ||
           call->status == 502 || call->status == 503 || call->status == 504 ||
           strcmp(call->code, "RequestTimeout") == 0 ||
           strcmp(call->code, "OperationAborted") == 0;
}

static bool is_throttled(const struct s3_call *call)
{
    return call->status == 429 || strcmp(call->code, "SlowDown") == 0;
}

/* Takes the server's clock if a wrong clock of ours explains the refusal. */
static bool correct_clock(struct s3 *s, const struct s3_call *call)
{
    char date[64], text[24];
    int64_t theirs_ms, ahead_ms;

    if (call->status != 403 ||
        !fetch_head_find(&call->head, "date", date, sizeof(date)) ||
        !s3_http_date(date, &theirs_ms))
        return false;
    ahead_ms = theirs_ms - clock_real_ms();
    /* A HEAD has no code; then the difference decides. */
    if (strcmp(call->code, "RequestTimeTooSkewed") != 0 &&
        (call->code[0] ||
         llabs(ahead_ms - atomic_load(&s->ahead_ms)) < SKEW_MS))
        return false;
    atomic_store(&s->ahead_ms, ahead_ms);
    (void)snprintf(text, sizeof(text), "%" PRId64, ahead_ms / 1000);
    log_event(LOG_WARN, "object_store_clock", "bucket", s->name,
              "ahead_seconds", text, NULL);
    return true;
}

/* Reads the key file again if that helps. */
static bool renew_keys(struct s3 *s, const struct s3_call *call)
{
    struct s3_keys keys cleanup(s3_keys_wipe) = {0};
    struct error unsaid;
    bool differ;

    if (call->status != 403 && strcmp(call->code, "ExpiredToken") != 0 &&
        strcmp(call->code, "InvalidAccessKeyId") != 0)
        return false;
    if (s3_keys_read(s->key_file, &keys, &unsaid) < 0)
        return false;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);
    differ = memcmp(&keys, &s->keys, sizeof(keys)) != 0;
    s->keys = keys;
    return differ;
}

/* In words; why has room for WHY_MAX bytes. */
static void describe(const struct s3_call *call, char *why)
{
    (void)snprintf(why, WHY_MAX, "%s %s answered %ld%s%s%s%.90s", call->method,
                   call->key ? "of an object" : "of the bucket", call->status,
                   call->code[0] ? " " : "", call->code,
                   call->text[0] ? ": " : "", call->text);
}

static int refused(const struct s3 *s, const struct s3_call *call,
                   struct error *err)
{
    char why[WHY_MAX];

    describe(call, why);
    if (call->status == 412 || call->status == 416)
        return error_set(err, ERR_CORRUPT, "the object changed: %s", why);
    return unavailable(s, why, err);
}

/* Waits before the next attempt. False: there is none. */
static bool wait_for_retry(struct s3 *s, const struct s3_call *call,
                           unsigned attempt)
{
    unsigned ms = jittered(s3_backoff_ms(attempt));
    char value[64];

    if (call->status &&
        fetch_head_find(&call->head, "retry-after", value, sizeof(value)))
        ms = MAX(ms, s3_retry_after_ms(value, clock_real_ms()));
    atomic_fetch_add(&s->retries, 1);
    return wait_ms(s, ms, call->deadline_ms);
}

int s3_call_run(struct s3 *s, struct s3_call *call, struct error *err)
{
    bool probe = false, clock_tried = false, keys_tried = false;
    struct error unsaid;
    char why[WHY_MAX];

    if (!call->deadline_ms)
        call->deadline_ms =
            clock_mono_ms() + s->deadline_ms + call->body_len / BYTES_PER_MS;
    for (unsigned attempt = 1;; attempt++) {
        int r = admit(s, &probe, err);

        if (r < 0)
            return r;
        if (call->before)
            call->before(call);
        r = send_once(s, call, err);
        if (r > 0 && call->ended) {
            note_answer(s);
            return call->ended;
        }
        if (r == 0 && call->status >= 200 && call->status < 300) {
            note_answer(s);
            return 0;
        }
        if (r == 0) /* says nothing where it is no XML */
            (void)s3_xml_parse(call->answer.data ? call->answer.data : "",
                               call->answer.len, on_error_element, call,
                               &unsaid);
        if (r == 0 && !is_transient(call)) {
            note_answer(s);
            if (call->status == 404 && strcmp(call->code, "NoSuchBucket") != 0)
                return 1;
            if (!clock_tried && correct_clock(s, call)) {
                clock_tried = true;
                continue;
            }
            if (!keys_tried && renew_keys(s, call)) {
                keys_tried = true;
                continue;
            }
            atomic_fetch_add(&s->failures, 1);
            return refused(s, call, err);
        }
        if (r == 0)
            describe(call, why);
        else
            (void)snprintf(why, sizeof(why), "%.180s",
                           r > 0 ? "its answer is too large" : err->message);
        (void)unavailable(s, why, err);
        if (r == 0 && is_throttled(call)) {
            atomic_fetch_add(&s->throttled, 1);
            note_answer(s); /* it works, and has enough to do */
        } else if (note_failure(s, why) || probe) {
            atomic_fetch_add(&s->failures, 1);
            return -(int)err->code;
        }
        if (!wait_for_retry(s, call, attempt)) {
            atomic_fetch_add(&s->failures, 1);
            return -(int)err->code;
        }
    }
}
