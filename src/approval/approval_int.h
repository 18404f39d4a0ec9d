/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of approval/; approval.h says how they fit together. */
#ifndef GLOVEBOX_APPROVAL_APPROVAL_INT_H
#define GLOVEBOX_APPROVAL_APPROVAL_INT_H

#include <stdatomic.h>

#include "approval/approval.h"
#include "base/buf.h"
#include "base/thread.h"
#include "store/store.h"

#define APPROVAL_DENIED_FOR_MS 3600000 /* a no holds for repeats so long */
#define APPROVAL_TRY_EVERY_MS 5000
#define APPROVAL_TRY_FOR_MS 3600000
#define WEBHOOK_WAITING_MAX 10000
#define WEBHOOK_PAUSE_FIRST_MS 1000
#define WEBHOOK_PAUSE_MOST_MS 3600000
#define WEBHOOK_FOR_MS 86400000
#define WEBHOOK_WHY_MAX 320
#define WEBHOOK_SECRET_MIN 32u
#define WEBHOOK_SECRET_MAX 4096u

enum approval_delivered {
    DELIVERY_WAITING,
    DELIVERY_DONE,
    DELIVERY_GIVEN_UP
};

struct approvals {
    struct store *store;
    struct audit *audit; /* NULL in tests */
    struct approval_settings set;
    struct worker worker, poster;
    struct mutex lock; /* of the next three */
    approvals_fn *fn;
    approvals_mine_fn *mine;
    void *ctx;
    int64_t prune_at_ms; /* tend's own */
    char *url;           /* NULL: no webhook */
    char *secret;
    size_t secret_len;
};

/* approval.c */
/* The name of the one that decided, else its id; "" before a decision. */
const char *approval_decider(const struct approval_info *info);
int64_t approval_now(const struct approvals *a);
/* In the trail, with the act; without a trail nothing. */
int approval_note(struct approvals *a, struct store_tx *tx,
                  const struct actor *who, const char *action,
                  const struct approval_info *info, const char *detail,
                  struct error *err);

/* ---- rows.c ------------------------------------------------------------- */

/* Conditions on enum values, for SQL. They are text and not parameters because
 * the partial indexes (store/schema.h) serve literal conditions only.
 * rows.c asserts that the numbers are those of the enums. */
#define SQL_PENDING "state = 0"
#define SQL_APPROVED "state = 1"
#define SQL_DENIED "state = 2"
#define SQL_SETTLED "state <> 0"
#define SQL_EXECUTION "action IN (0, 10, 11)"
#define SQL_NOT_EXECUTION "action NOT IN (0, 10, 11)"
#define SQL_NOT_RUN "run = 0"
#define SQL_RUNNING "run = 1"
#define SQL_RUN_OPEN "run < 2"
#define SQL_RUN_ENDED "run >= 2"
#define SQL_UNDELIVERED "state = 0" /* of webhook_deliveries */
#define SQL_DELIVERY_OVER "state <> 0"

#define APPROVAL_COLUMNS                                                        \
    "id, tenant, action, state, asked_by, session, object, "                    \
    "pool, workspace, summary, rule, policy_version, asked_at_ms, "             \
    "expires_at_ms, decided_at_ms, decided_by, reason, run, outcome, payload, " \
    "asked_by_name, decided_by_name"

/* The row rows are on; payload: also that. */
void approval_rows_read(const struct approvals *a, struct store_rows *rows,
                        bool payload, struct approval_info *ret);
int approval_rows_insert(struct approvals *a, struct store_tx *tx,
                         const struct actor *who,
                         const struct approval_info *info,
                         const char *fingerprint, struct error *err);
/* 1 and *ret, 0: there is none of this tenant, or -code. */
int approval_rows_find(struct approvals *a, struct store_tx *tx,
                       const char *tenant, const char *id,
                       struct approval_info *ret, struct error *err);
/* The one place where a state changes: from pending to what info says, with
 * decided_at, decided_by, reason; in the trail, and announced. who NULL: the
 * service. ERR_CONFLICT: it was no longer pending. */
int approval_rows_settle(struct approvals *a, struct store_tx *tx,
                         const struct actor *who,
                         const struct approval_info *info, struct error *err);

/* ---- forget.c ----------------------------------------------------------- */

#define APPROVAL_GONE "its session ended with the service"

/* Removes the code from the payload of an approval that is settled and carried
 * out; with set.forget_payload, the whole payload. */
int approval_forget_code(struct approvals *a, struct store_tx *tx,
                         const char *id, struct error *err);
/* Once an hour: deletes old rows and payloads. */
int approval_prune(struct approvals *a, struct error *err);

/* ---- list.c ------------------------------------------------------------- */

bool approval_same(const struct actor *who, const struct approval_info *info);
bool approval_may_decide(const struct actor *who);
/* In its tenant, within its bounds, and either its own or with the scope. */
bool approval_visible(const struct actor *who,
                      const struct approval_info *info);

/* ---- webhook.c, post.c -------------------------------------------------- */

int approval_webhook_open(struct approvals *a, struct error *err);
void approval_webhook_done(struct approvals *a);
/* Within the act's transaction. type: "asked", or a state's name. */
int approval_webhook_queue(struct approvals *a, struct store_tx *tx,
                           const struct approval_info *info, const char *type,
                           struct error *err);

struct webhook_job {
    char approval[ID_MAX], type[32];
    int64_t number, attempts, at_ms;
    char *body; /* owned */
};
/* 1: the next that is due; 0: none, and *ret_wait_ms until one is. */
int approval_webhook_next(struct approvals *a, struct webhook_job *ret,
                          int64_t *ret_wait_ms, struct error *err);
/* Records the result of an attempt; status 0: no answer, error says why. */
int approval_webhook_note(struct approvals *a, const struct webhook_job *job,
                          long status, const char *error, struct error *err);
/* Pure: milliseconds after so many attempts. */
int64_t approval_webhook_pause(int64_t attempts);
/* "t=…,v1=…"; ret: 96 bytes. */
void approval_webhook_sign(const char *secret, size_t secret_len, int64_t at_s,
                           const char *body, char ret[96]);
int approval_post_start(struct approvals *a, struct error *err);

/* ---- worker.c -------------------------------------------------------------
 */

int approval_worker_start(struct approvals *a, struct error *err);
/* At the start: what was begun and not ended. */
int approval_worker_lost(struct approvals *a, bool shared, struct error *err);
/* One round; returns milliseconds until the next is due. */
int64_t approvals_work(struct approvals *a);

#endif
