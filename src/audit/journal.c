/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of acts that have begun (O3): a note in DATA/begun.journal
 * before the act runs. The file has fixed slots and is written in full when it
 * is made, so that a full disk cannot refuse a note and no note costs a sync.
 * A note is cleared once the event that records the end of the act is on disk.
 * A note found at a start belongs to an act whose end is not in the trail,
 * because the service was killed or could not write; it becomes an event
 * then. Runs in the daemon on any thread.
 *
 * A slot is one sector: magic, time, texts each ended by NUL, and an HMAC of
 * all that under the trail's secret. A slot with a wrong HMAC is torn or
 * foreign, and is ignored.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define JOURNAL_FILE "begun.journal"
#define JOURNAL_SLOTS (AUDIT_QUEUE_MAX + 1024) /* that wait, and that run */
#define SLOT 512
#define TEXTS (SLOT - 16 - HASH_SIZE)
#define LABEL "glovebox audit begun 1"

static const char magic[8] = "gbbegun1";
_Static_assert(6 * ID_MAX <= TEXTS, "every note has room");

struct audit_journal {
    int fd;
    struct mutex lock; /* of what follows */
    uint16_t free[JOURNAL_SLOTS];
    size_t free_count;
};

enum {
    TENANT,
    ACTOR,
    TOKEN,
    OBJECT,
    SESSION,
    NOTES
};

struct note {
    int64_t at_ms;
    char texts[NOTES][ID_MAX];
};

/* ---- one slot ----------------------------------------------------------- */

static void seal_slot(const unsigned char secret[HASH_SIZE],
                      const unsigned char slot[SLOT],
                      unsigned char ret[HASH_SIZE])
{
    unsigned char bytes[sizeof(LABEL) + SLOT - HASH_SIZE];

    memcpy(bytes, LABEL, sizeof(LABEL));
    memcpy(bytes + sizeof(LABEL), slot, SLOT - HASH_SIZE);
    hash_hmac(secret, HASH_SIZE, bytes, sizeof(bytes), ret);
}

static void encode_slot(const unsigned char secret[HASH_SIZE],
                        const struct note *note, unsigned char ret[SLOT])
{
    size_t at = 16;

    memset(ret, 0, SLOT);
    memcpy(ret, magic, sizeof(magic));
    memcpy(ret + 8, &note->at_ms, sizeof(note->at_ms));
    for (size_t i = 0; i < NOTES; i++) {
        size_t len = strlen(note->texts[i]) + 1;

        memcpy(ret + at, note->texts[i], len);
        at += len;
    }
    seal_slot(secret, ret, ret + SLOT - HASH_SIZE);
}

static bool decode_slot(const unsigned char secret[HASH_SIZE],
                        const unsigned char slot[SLOT], struct note *ret)
{
    unsigned char expected[HASH_SIZE];
    size_t at = 16;

    if (memcmp(slot, magic, sizeof(magic)) != 0)
        return false;
    seal_slot(secret, slot, expected);
    if (!hash_equal(slot + SLOT - HASH_SIZE, expected, HASH_SIZE))
        return false;
    memcpy(&ret->at_ms, slot + 8, sizeof(ret->at_ms));
    for (size_t i = 0; i < NOTES; i++) {
        size_t len = strnlen((const char *)slot + at, ID_MAX);

        if (len == ID_MAX)
            return false;
        memcpy(ret->texts[i], slot + at, len + 1);
        at += len + 1;
    }
    return true;
}

/* ---- what a start finds ------------------------------------------------- */

/* The act's end was recorded, and only the note was not cleared. */
static int is_recorded(struct store_tx *tx, const struct note *n,
                       struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;

    return store_one(tx, &row, err,
                     "SELECT seq FROM audit WHERE at_ms >= ?1 AND object = ?2"
                     " AND action IN ('execution.run', 'execution.lost')"
                     " LIMIT 1",
                     "it", n->at_ms, n->texts[OBJECT]);
}

static int note_lost(struct audit *a, struct store_tx *tx,
                     const struct note *n, struct error *err)
{
    const struct actor who = {.tenant = n->texts[TENANT],
                              .key = n->texts[ACTOR],
                              .token = n->texts[TOKEN]};
    char at[32], detail[128];
    const struct audit_event event = {.action = "execution.lost",
                                      .object = n->texts[OBJECT],
                                      .before = n->texts[SESSION],
                                      .result = "unavailable",
                                      .detail = detail};
    int r = is_recorded(tx, n, err);

    if (r != 0)
        return MIN(r, 0);
    (void)snprintf(detail, sizeof(detail),
                   "begun at %s; the service ended before its end was written",
                   clock_format_ms(n->at_ms, at));
    return audit_add(a, tx, &who, &event, err);
}

static int record_lost(struct audit *a, const unsigned char *slots,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct note n;
    int r = 0;

    for (size_t i = 0; i < JOURNAL_SLOTS && r == 0; i++) {
        if (!decode_slot(a->secret, slots + i * SLOT, &n))
            continue;
        if (!tx)
            r = store_begin(a->store, STORE_WRITE, "noting what was begun",
                            &tx, err);
        if (r == 0)
            r = note_lost(a, tx, &n, err);
    }
    if (r == 0 && tx)
        r = store_commit(&tx, err);
    return r;
}

/* ---- the file ----------------------------------------------------------- */

static int journal_failed(struct error *err)
{
    return error_errno(err, ERR_INTERNAL, errno, "cannot use " JOURNAL_FILE);
}

/* All of it written through: its blocks are there from now on. */
static int write_empty(int fd, unsigned char *slots, struct error *err)
{
    memset(slots, 0, (size_t)JOURNAL_SLOTS * SLOT);
    if (lseek(fd, 0, SEEK_SET) < 0 ||
        fd_write_all(fd, slots, (size_t)JOURNAL_SLOTS * SLOT) < 0 ||
        fsync(fd) < 0)
        return journal_failed(err);
    return 0;
}

int audit_journal_open(struct audit *a, const char *data_dir,
                       struct error *err)
{
    const size_t size = (size_t)JOURNAL_SLOTS * SLOT;
    char *path cleanup(mem_free) = xasprintf("%s/" JOURNAL_FILE, data_dir);
    unsigned char *slots cleanup(mem_free) = xcalloc(1, size);
    int fd cleanup(fd_close) =
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct audit_journal *j;
    ssize_t n;

    if (fd < 0)
        return journal_failed(err);
    n = pread(fd, slots, size, 0);
    if (n < 0)
        return journal_failed(err);
    if (n > 0 && record_lost(a, slots, err) < 0)
        return -(int)err->code;
    /* Where nothing is in it there is nothing to write, which is nearly
     * always. */
    if ((size_t)n != size || slots[0] ||
        memcmp(slots, slots + 1, size - 1) != 0)
        if (write_empty(fd, slots, err) < 0)
            return -(int)err->code;
    j = a->journal = xcalloc(1, sizeof(*j));
    j->fd = take_fd(fd);
    mutex_init(&j->lock);
    while (j->free_count < JOURNAL_SLOTS) {
        j->free[j->free_count] = (uint16_t)(JOURNAL_SLOTS - 1 - j->free_count);
        j->free_count++;
    }
    return 0;
}

void audit_journal_close(struct audit *a)
{
    struct audit_journal *j = take_ptr(a->journal);

    if (!j)
        return;
    fd_close(&j->fd);
    mutex_done(&j->lock); /* unlocked */
    free(j);
}

/* ---- public functions ------------------------------------------------------
 */

static int write_slot(struct audit_journal *j, uint32_t slot,
                      const unsigned char bytes[SLOT])
{
    ssize_t n;

    do
        n = pwrite(j->fd, bytes, SLOT, (off_t)(slot - 1) * SLOT);
    while (n < 0 && errno == EINTR);
    return n == SLOT ? 0 : n < 0 ? -errno : -EIO;
}

static void free_slot(struct audit_journal *j, uint32_t slot)
{
    mutex_lock(&j->lock);
    j->free[j->free_count++] = (uint16_t)(slot - 1);
    mutex_unlock(&j->lock);
}

int audit_begin(struct audit *a, const struct actor *who, const char *object,
                const char *session, uint32_t *ret, struct error *err)
{
    struct audit_journal *j = a->journal;
    const char *const texts[NOTES] = {
        who->tenant, who->key, who->token ? who->token : "", object, session};
    struct note note = {.at_ms = clock_real_ms()};
    unsigned char bytes[SLOT];
    uint32_t slot = 0;
    int r = audit_writable(a, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < NOTES; i++)
        (void)snprintf(note.texts[i], sizeof(note.texts[i]), "%s", texts[i]);
    encode_slot(a->secret, &note, bytes);
    mutex_lock(&j->lock);
    if (j->free_count)
        slot = j->free[--j->free_count] + 1u;
    mutex_unlock(&j->lock);
    r = slot ? write_slot(j, slot, bytes) : -EAGAIN;
    if (r == 0) {
        *ret = slot;
        return 0;
    }
    if (slot)
        free_slot(j, slot);
    (void)error_errno(err, ERR_UNAVAILABLE, -r,
                      "the audit trail cannot be written, so nothing may be "
                      "run");
    return error_retry(err, 1);
}

void audit_journal_release(struct audit *a, const uint32_t *slots,
                           size_t count)
{
    static const unsigned char nothing[SLOT];

    for (size_t i = 0; i < count; i++) {
        /* It would only be looked up in vain at the next start. */
        if (write_slot(a->journal, slots[i], nothing) < 0)
            log_event(LOG_WARN, "audit_note_not_taken_back", NULL);
        free_slot(a->journal, slots[i]);
    }
}
