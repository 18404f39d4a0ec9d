/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of audit/ share; nobody else includes this but its tests.
 *
 * How the pieces work together: record.c makes bounded, printable text of an
 * event; chain.c numbers it, hashes it with the hash of the one before and
 * moves the head; later.c does that for queued ones on a thread of its own;
 * query.c reads; verify.c computes everything again; secret.c keeps the key
 * of the hashes in a file; audit.c opens and closes.
 */
#ifndef GLOVEBOX_AUDIT_AUDIT_INT_H
#define GLOVEBOX_AUDIT_AUDIT_INT_H

#include <pthread.h>

#include "audit/audit.h"
#include "base/hash.h"
#include "store/store.h"

#define AUDIT_TEXT_MAX 1100  /* bytes of a field */
#define AUDIT_DETAIL_MAX 500 /* bytes of the detail */
#define AUDIT_QUEUE_MAX 4096 /* events that wait */
#define AUDIT_QUEUE_BYTES (8u << 20)
#define AUDIT_LINES 100      /* of a query that names no limit */
#define AUDIT_LINES_MAX 1000 /* of any query */

/* ---- record.c: an event as it is kept ----------------------------------- */

/* In the order of the columns, which is also that of the hash. */
enum audit_field {
    AUDIT_TENANT,
    AUDIT_ACTOR,
    AUDIT_ACTION,
    AUDIT_WORKSPACE,
    AUDIT_OBJECT,
    AUDIT_PATH,
    AUDIT_BEFORE,
    AUDIT_AFTER,
    AUDIT_RESULT,
    AUDIT_DETAIL,
    AUDIT_REQUEST,
    AUDIT_SOURCE,
    AUDIT_FIELDS
};

#define AUDIT_COLUMNS                                                         \
    "seq, at_ms, tenant, actor, action, workspace, object, path, before_id,"  \
    " after_id, result, detail, request, source, hash"
#define AUDIT_FIRST_FIELD 2 /* columns before the fields */
#define AUDIT_HASH_COLUMN (AUDIT_FIRST_FIELD + AUDIT_FIELDS)

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

struct audit_bytes {
    const void *data;
    size_t len;
};

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

#define AUDIT_DAMAGED "audit.damaged" /* the event that tells of damage */

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

/* ---- secret.c: the file ------------------------------------------------- */

/* Reads DIR/audit.secret; for an empty trail makes it and the first head.
 * Fails if it is missing or damaged while there is a trail. */
int audit_secret_open(struct store *store, const char *data_dir,
                      unsigned char ret[HASH_SIZE], struct error *err);

/* ---- later.c: the queue ------------------------------------------------- */

struct audit_waiting {
    struct audit_waiting *next;
    struct audit_record record;
    size_t bytes;
};

struct audit {
    struct store *store;
    unsigned char secret[HASH_SIZE];

    pthread_mutex_t lock; /* around what follows, never across I/O */
    pthread_cond_t wake;
    pthread_t thread;
    bool started, stopping;
    struct audit_waiting *first, **end;
    size_t count, bytes;
    uint64_t dropped; /* and not told yet */
    bool failing;     /* the last write was, and was logged */
};

int audit_later_start(struct audit *a, struct error *err);
void audit_later_stop(struct audit *a); /* writes what waits */

#endif
