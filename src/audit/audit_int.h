/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of audit/ share. Only they and their tests include this.
 *
 * How the pieces work together: record.c makes bounded, printable text of an
 * event; chain.c numbers it, hashes it with the hash of the one before and
 * moves the head; async_writer.c does that for queued events on its own
 * thread; query.c reads; verify.c computes everything again; secret.c keeps
 * the key of the hashes in a file; audit.c opens and closes. Beside the chain
 * of all events each tenant has its own (tenant_chain.c, proof.c), whose head
 * sign.c signs from time to time; journal.c keeps what was begun and not
 * ended; head.c keeps the trail's end in a file beside the database; send.c
 * forwards events in the formats of format.c.
 */
#ifndef GLOVEBOX_AUDIT_AUDIT_INT_H
#define GLOVEBOX_AUDIT_AUDIT_INT_H

#include "audit/audit.h"
#include "audit/proof.h"
#include "base/hash.h"
#include "base/thread.h"
#include "store/store.h"

#define AUDIT_TEXT_MAX 1100  /* bytes of a field */
#define AUDIT_DETAIL_MAX 500 /* bytes of the detail */
#define AUDIT_QUEUE_MAX 4096 /* events that wait */
#define AUDIT_QUEUE_BYTES (8u << 20)
#define AUDIT_QUEUE_FULL                                                      \
    (AUDIT_QUEUE_MAX / 8 * 7) /* nothing new is let in                        \
                               */
#define AUDIT_SENDERS 2
#define AUDIT_LINES 100      /* of a query that names no limit */
#define AUDIT_LINES_MAX 1000 /* of any query */

/* ---- record.c: an event as it is kept ----------------------------------- */

#define AUDIT_COLUMNS                                                         \
    "seq, at_ms, tenant, actor, action, workspace, object, path, before_id,"  \
    " after_id, result, detail, request, source, token, hash, chain_seq,"     \
    " chain_hash"
#define AUDIT_FIRST_FIELD 2 /* columns before the fields */
#define AUDIT_HASH_COLUMN (AUDIT_FIRST_FIELD + AUDIT_FIELDS)
#define AUDIT_CHAIN_COLUMN (AUDIT_HASH_COLUMN + 1)

struct audit_record {
    int64_t at_ms;
    char *fields[AUDIT_FIELDS]; /* owned, never NULL */
};

/* who NULL: the service itself. */
void audit_record_init(struct audit_record *r, const struct actor *who,
                       const struct audit_event *event);
void audit_record_done(struct audit_record *r);
size_t audit_record_bytes(const struct audit_record *r);
/* At most max bytes; control characters, line separators, what turns the
 * direction of writing and what is not UTF-8 become \xHH. Owned by caller. */
char *audit_record_text(const char *text, size_t max);

/* ---- chain.c: numbers and hashes ---------------------------------------- */

enum audit_seal {
    AUDIT_SEALED, /* as we left it */
    AUDIT_MARKED, /* as we left it, after damage had been found */
    AUDIT_BROKEN, /* changed by someone else, or not there */
};

struct audit_head {
    int64_t seq; /* of the newest event; 0: there is none */
    unsigned char hash[HASH_SIZE];
    enum audit_seal seal;
    bool there;
};

#define AUDIT_DAMAGED "audit.damaged" /* the event that records damage */
#define AUDIT_ACCEPT "audit.accept"   /* and of its acceptance; or of a loss */

void audit_chain_hash(const unsigned char secret[HASH_SIZE],
                      const unsigned char before[HASH_SIZE], int64_t seq,
                      int64_t at_ms,
                      const struct audit_bytes fields[AUDIT_FIELDS],
                      unsigned char ret[HASH_SIZE]);
int audit_chain_head(const unsigned char secret[HASH_SIZE],
                     struct store_tx *tx, struct audit_head *ret,
                     struct error *err);
/* Puts the first head of an empty trail. */
int audit_chain_start(const unsigned char secret[HASH_SIZE],
                      struct store_tx *tx, struct error *err);
int audit_chain_add(const unsigned char secret[HASH_SIZE], struct store_tx *tx,
                    const struct audit_record *record, struct error *err);

/* ---- tenant_chain.c: the head of a tenant's own chain --------------------
 */

struct audit_tenant_chain {
    int64_t seq; /* of the tenant's newest event; 0: there is none */
    unsigned char hash[HASH_SIZE];
    enum audit_seal seal; /* never BROKEN: mended when it is read */
    int64_t signed_seq, signed_at_ms;
};

int audit_tenant_chain_read(const unsigned char secret[HASH_SIZE],
                            struct store_tx *tx, const char *tenant,
                            struct audit_tenant_chain *ret, struct error *err);
int audit_tenant_chain_write(const unsigned char secret[HASH_SIZE],
                             struct store_tx *tx, const char *tenant,
                             const struct audit_tenant_chain *link,
                             struct error *err);

/* ---- sign.c: checkpoints ------------------------------------------------ */

struct audit_signer;

/* Reads or makes DIR/audit.sign.key and notes its public half in the store;
 * a new one while there are others is an event. */
int audit_sign_open(struct audit *a, const char *data_dir, struct error *err);
void audit_sign_close(struct audit *a);
/* Signs the chains that are due: so many events after the last time, or one
 * and so long. In a separate transaction. */
int audit_sign_due(struct audit *a, struct error *err);

/* ---- secret.c: the file ------------------------------------------------- */

/* Reads DIR/audit.secret; for an empty trail makes it and the first head.
 * Fails if it is missing or damaged while there is a trail. */
int audit_secret_open(struct store *store, const char *data_dir,
                      unsigned char ret[HASH_SIZE], struct error *err);

/* ---- head.c: the trail's end, kept apart from the database -------------- */

struct audit_mark { /* an event */
    int64_t seq;    /* 0: before the first */
    unsigned char hash[HASH_SIZE];
};
struct audit_apart;

/* Compares DIR/audit.head with the database, makes it if there never was one,
 * and from then on notes each commit in it. accept: see audit_place. */
int audit_head_open(struct audit *a, const struct audit_place *place,
                    struct error *err);
void audit_head_close(struct audit *a);
/* The newest event on disk. */
struct audit_mark audit_head_last(struct audit *a);
/* Does the database have exactly that event? 1, 0, -code. */
int audit_head_has(struct store_tx *tx, const struct audit_mark *mark,
                   struct error *err);
/* If the operator accepted the damage that is known of, notes it. */
int audit_head_accept_damage(struct audit *a, const char *accept,
                             struct error *err);

/* ---- journal.c: what was begun ------------------------------------------ */

/* Makes DIR/begun.journal, or records the acts still noted in it. */
int audit_journal_open(struct audit *a, const char *data_dir,
                       struct error *err);
void audit_journal_close(struct audit *a);
/* Their events are on disk. */
void audit_journal_release(struct audit *a, const uint32_t *slots,
                           size_t count);

/* ---- async_writer.c: queued events -------------------------------------- */

struct audit_queued {
    struct audit_queued *next;
    struct audit_record record;
    size_t bytes;
    uint32_t slot; /* of journal.c; 0: none */
};

struct audit {
    struct store *store;
    unsigned char secret[HASH_SIZE];
    struct audit_signer *signer;
    struct audit_journal *journal;
    struct audit_apart *apart;
    struct audit_sender *senders[AUDIT_SENDERS]; /* send.c; or NULL */

    struct mutex listener_lock; /* of the next two; a leaf */
    void (*on_event)(void *ctx);
    void *on_event_ctx;

    struct thread writer;
    struct mutex lock; /* protects the rest; never held during I/O */
    struct cond wake;  /* the writer has work, or must stop */
    struct cond idle;  /* `writing` became false */
    _Atomic bool stopping;
    struct audit_queued *first, **end;
    size_t count, bytes;
    uint64_t dropped;     /* and not reported yet */
    bool failing;         /* the last write failed, and that was logged */
    int64_t failed_at_ms; /* since when */
    bool flush_soon;      /* write even if no event is queued */
    bool writing;         /* the writer has a batch, without the lock */
    struct audit_piggyback piggyback;
};

/* audit.c: calls audit_on_event's. */
void audit_announce(struct audit *a);

int audit_writer_start(struct audit *a, struct error *err);
void audit_writer_stop(struct audit *a); /* writes what is queued */

/* ---- send.c ------------------------------------------------------------- */

void audit_send_close(struct audit *a);

#endif
