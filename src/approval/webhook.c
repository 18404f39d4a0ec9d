/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries of webhooks as rows: queued with the act they tell of, so that
 * neither is without the other; those of one approval in order, tried with
 * growing pauses for a day. Runs in gloveboxd; sends nothing itself.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "approval/approval_int.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "json/json.h"

#define IDLE_MS 60000

/* ---- the secret --------------------------------------------------------- */

int approval_webhook_open(struct approvals *a, struct error *err)
{
    const char *file = a->set.webhook_secret_file;
    int r;

    if (!a->set.webhook_url || !a->set.webhook_url[0])
        return 0;
    if (!file || !file[0])
        return error_set(err, ERR_INVALID,
                         "webhook_url needs webhook_secret_file: without a "
                         "signature the receiver cannot verify a webhook");
    r = fd_read_file(AT_FDCWD, file, WEBHOOK_SECRET_MAX, &a->secret,
                     &a->secret_len);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read %s", file);
    while (a->secret_len && strchr("\r\n", a->secret[a->secret_len - 1]))
        a->secret_len--;
    if (a->secret_len < WEBHOOK_SECRET_MIN)
        return error_set(err, ERR_INVALID,
                         "the secret in %s is under %u bytes", file,
                         WEBHOOK_SECRET_MIN);
    a->url = xstrdup(a->set.webhook_url);
    return 0;
}

void approval_webhook_done(struct approvals *a)
{
    if (a->secret)
        explicit_bzero(a->secret, a->secret_len);
    free(a->secret);
    free(a->url);
}

void approval_webhook_sign(const char *secret, size_t secret_len, int64_t at_s,
                           const char *body, char ret[96])
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char mac[HASH_SIZE];
    char hex[HASH_HEX];

    buf_addf(&text, "%lld.%s", (long long)at_s, body);
    hash_hmac(secret, secret_len, text.data, text.len, mac);
    (void)snprintf(ret, 96, "t=%lld,v1=%s", (long long)at_s,
                   ids_hex(mac, sizeof(mac), hex));
}

/* ---- queueing ----------------------------------------------------------- */

static void write_url(struct json_writer *w, const char *public_url,
                      const char *id)
{
    struct buf url cleanup(buf_done) = {0};
    size_t len = strlen(public_url);

    while (len && public_url[len - 1] == '/')
        len--;
    buf_addf(&url, "%.*s/api/approvals/%s", (int)len, public_url, id);
    json_write_string(w, "url", url.data);
}

/* How many wait in all, and the number the next of this approval gets. */
static int count_deliveries(struct store_tx *tx, const char *approval,
                            int64_t *ret_waiting, int64_t *ret_number,
                            struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc =
        store_one(tx, &rows, err,
                  "SELECT (SELECT COUNT(*) FROM webhook_deliveries"
                  "  WHERE " SQL_UNDELIVERED "),"
                  " (SELECT COALESCE(MAX(number), 0) FROM webhook_deliveries"
                  "  WHERE approval = ?1)",
                  "t", approval);

    if (rc <= 0)
        return rc < 0 ? rc : error_set(err, ERR_INTERNAL, "no count");
    *ret_waiting = store_int(rows, 0);
    *ret_number = store_int(rows, 1) + 1;
    return 0;
}

int approval_webhook_queue(struct approvals *a, struct store_tx *tx,
                           const struct approval_info *info, const char *type,
                           struct error *err)
{
    struct buf body cleanup(buf_done) = {0};
    int64_t waiting = 0, number = 0, now = approval_now(a);
    char name[32];
    bool full;
    int rc;

    if (!a->url)
        return 0;
    rc = count_deliveries(tx, info->id, &waiting, &number, err);
    if (rc < 0)
        return rc;
    /* A receiver that is away for long must not fill the store. */
    full = waiting >= WEBHOOK_WAITING_MAX;
    (void)snprintf(name, sizeof(name), "approval.%s", type);

    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "type", name);
    json_write_open(&w, "approval", '{');
    json_write_string(&w, "tenant", info->tenant);
    api_write_members(&w, &approval_resource, info);
    if (a->set.public_url && a->set.public_url[0])
        write_url(&w, a->set.public_url, info->id);
    json_write_close(&w, '}');
    json_write_time(&w, "at", approval_now(a));
    json_write_close(&w, '}');
    buf_add(&body, "", 1);

    return MIN(
        store_exec(tx, err,
                   "INSERT INTO webhook_deliveries (approval, number, type,"
                   " body, at_ms, next_at_ms, state, error, done_at_ms)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8)",
                   "titti"
                   "iti",
                   info->id, number, name, full ? "" : body.data, now,
                   (int64_t)(full ? DELIVERY_GIVEN_UP : DELIVERY_WAITING),
                   full ? "too many wait already" : "", full ? now : 0),
        0);
}

/* ---- sending ------------------------------------------------------------ */

int approval_webhook_next(struct approvals *a, struct webhook_job *ret,
                          int64_t *ret_wait_ms, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t now = approval_now(a), due;
    int rc =
        store_begin(a->store, STORE_READ, "looking for webhooks", &tx, err);

    *ret_wait_ms = IDLE_MS;
    if (rc == 0)
        rc = store_one(
            tx, &rows, err,
            "SELECT approval, number, type, attempts, at_ms, body, next_at_ms"
            " FROM webhook_deliveries AS d"
            " WHERE " SQL_UNDELIVERED " AND NOT EXISTS"
            " (SELECT 1 FROM webhook_deliveries AS e"
            "  WHERE e.approval = d.approval AND e.number < d.number"
            "  AND e." SQL_UNDELIVERED ")"
            " ORDER BY next_at_ms, approval LIMIT 1",
            "");
    if (rc <= 0)
        return rc;
    due = store_int(rows, 6);
    if (due > now) {
        *ret_wait_ms = MIN(due - now, IDLE_MS);
        return 0;
    }
    store_copy(rows, 0, ret->approval, sizeof(ret->approval));
    ret->number = store_int(rows, 1);
    store_copy(rows, 2, ret->type, sizeof(ret->type));
    ret->attempts = store_int(rows, 3);
    ret->at_ms = store_int(rows, 4);
    ret->body = xstrdup(store_text(rows, 5));
    return 1;
}

int64_t approval_webhook_pause(int64_t attempts)
{
    int64_t ms = WEBHOOK_PAUSE_FIRST_MS;

    for (int64_t i = 1; i < attempts && ms < WEBHOOK_PAUSE_MOST_MS; i++)
        ms *= 2;
    return MIN(ms, WEBHOOK_PAUSE_MOST_MS);
}

int approval_webhook_note(struct approvals *a, const struct webhook_job *job,
                          long status, const char *error, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t now = approval_now(a);
    bool ok = status >= 200 && status < 300;
    enum approval_delivered state = ok ? DELIVERY_DONE
                                    : now - job->at_ms >= WEBHOOK_FOR_MS
                                        ? DELIVERY_GIVEN_UP
                                        : DELIVERY_WAITING;
    int rc = store_begin(a->store, STORE_WRITE, "noting a webhook", &tx, err);

    if (rc == 0)
        rc = MIN(
            store_exec(tx, err,
                       "UPDATE webhook_deliveries SET attempts = attempts + 1,"
                       " state = ?3, status = ?4, error = ?5, next_at_ms = ?6,"
                       " done_at_ms = ?7 WHERE approval = ?1 AND number = ?2",
                       "tiiitii", job->approval, job->number, (int64_t)state,
                       (int64_t)status, ok ? "" : error,
                       now + approval_webhook_pause(job->attempts + 1),
                       state == DELIVERY_WAITING ? 0 : now),
            0);
    return rc < 0 ? rc : store_commit(&tx, err);
}

/* ---- showing ------------------------------------------------------------ */

int approval_deliveries(struct approvals *a, const struct actor *who,
                        const char *id, struct approval_delivery **ret,
                        size_t *ret_count, struct error *err)
{
    static const char *const states[] = {"waiting", "delivered", "given_up"};
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct approval_delivery *list cleanup(mem_free) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    size_t n = 0;
    int rc = approval_get(a, who, id, &info, err);

    if (rc == 0)
        rc =
            store_begin(a->store, STORE_READ, "looking at webhooks", &tx, err);
    if (rc == 0)
        rc = store_query(
            tx, &rows, err,
            "SELECT number, type, state, attempts, status, error, at_ms,"
            " next_at_ms, done_at_ms FROM webhook_deliveries"
            " WHERE approval = ?1 ORDER BY number",
            "t", id);
    while (rc == 0 && (rc = store_next(rows, err)) > 0) {
        struct approval_delivery *d;
        int64_t state = store_int(rows, 2);

        list = xrealloc(list, (n + 1) * sizeof(*list));
        d = &list[n++];
        *d = (struct approval_delivery){
            .number = (unsigned)store_int(rows, 0),
            .state = states[state],
            .attempts = (unsigned)store_int(rows, 3),
            .status = (unsigned)store_int(rows, 4),
            .at_ms = store_int(rows, 6),
            .next_at_ms = state == DELIVERY_WAITING ? store_int(rows, 7) : 0,
            .done_at_ms = store_int(rows, 8),
        };
        store_copy(rows, 1, d->type, sizeof(d->type));
        store_copy(rows, 5, d->error, sizeof(d->error));
        rc = 0;
    }
    if (rc < 0)
        return rc;
    *ret = take_ptr(list);
    *ret_count = n;
    return 0;
}
