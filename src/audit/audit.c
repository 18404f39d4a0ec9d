/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the audit trail and adds to it; see audit.h. Runs in the daemon on
 * the thread of the act.
 */
#include "audit/audit.h"

#include <string.h>

#include "audit/audit_int.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"

static void closep(struct audit **a)
{
    audit_close(*a);
}

int audit_open(struct store *store, const char *data_dir, struct audit **ret,
               struct error *err)
{
    struct audit_place place = {.data_dir = data_dir, .accept = ""};

    return audit_open_at(store, &place, ret, err);
}

/* The end is compared before anything is written or made but the secret of an
 * empty trail. */
int audit_open_at(struct store *store, const struct audit_place *place,
                  struct audit **ret, struct error *err)
{
    struct audit *a cleanup(closep) = xcalloc(1, sizeof(*a));
    const char *data_dir = place->data_dir;

    a->store = store;
    a->end = &a->first;
    mutex_init(&a->lock);
    mutex_init(&a->listener_lock);
    if (audit_secret_open(store, data_dir, a->secret, err) < 0 ||
        audit_head_open(a, place, err) < 0 ||
        audit_head_accept_damage(a, place->accept, err) < 0 ||
        audit_sign_open(a, data_dir, err) < 0 ||
        audit_journal_open(a, data_dir, err) < 0 ||
        audit_writer_start(a, err) < 0)
        return -(int)err->code;
    *ret = take_ptr(a);
    return 0;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    audit_send_close(a);
    audit_writer_stop(a);
    audit_journal_close(a);
    audit_sign_close(a);
    audit_head_close(a);
    mutex_done(&a->lock); /* unlocked */
    mutex_done(&a->listener_lock);
    explicit_bzero(a->secret, sizeof(a->secret));
    free(a);
}

void audit_on_event(struct audit *a, void (*fn)(void *ctx), void *ctx)
{
    mutex_lock(&a->listener_lock);
    a->on_event = fn;
    a->on_event_ctx = ctx;
    mutex_unlock(&a->listener_lock);
}

void audit_announce(struct audit *a)
{
    mutex_lock(&a->listener_lock);
    if (a->on_event)
        a->on_event(a->on_event_ctx);
    mutex_unlock(&a->listener_lock);
}

int audit_add(struct audit *a, struct store_tx *tx, const struct actor *who,
              const struct audit_event *event, struct error *err)
{
    struct audit_record record cleanup(audit_record_done) = {0};

    audit_record_init(&record, who, event);
    audit_announce(a);
    return audit_chain_add(a->secret, tx, &record, err);
}

int audit_note(struct audit *a, const struct actor *who,
               const struct audit_event *event, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(a->store, STORE_WRITE, "noting an act", &tx, err) < 0 ||
        audit_add(a, tx, who, event, err) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}
