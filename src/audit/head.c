/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the trail, kept apart from the database: DIR/audit.head holds
 * the store's id and the number and hash of the newest event. A database that
 * lost its last commits (a log that was cut or removed, an older copy put in
 * its place) is consistent in itself; only something outside it can tell that
 * it was longer. Runs in the daemon: the comparison once at a start, the
 * writing on every thread that commits, the sync on a separate thread.
 *
 * When the file is written: after each commit and before the commit is
 * acknowledged, without a sync. So the file is never ahead of the database,
 * and after the end of the process, by whatever signal, it is never behind. It
 * is synced within SYNC_MS; after a loss of power it may be behind by the
 * commits of that time. A commit costs no additional sync.
 *
 * The file has three slots, each in a separate page, and is written in full
 * when it is made, so that a full disk cannot refuse a slot. One slot is
 * written, the one before it is being synced, and the third is on disk: there
 * is always one whole slot. The newest that is whole counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

#define HEAD_FILE "audit.head"
#define SLOTS 3u
#define SLOT_STEP 4096
#define SYNC_MS 1000
#define LABEL "glovebox audit head file 1"
#define TOKEN_HEX 16 /* digits of what an operator has to repeat */

struct slot {
    char magic[8];
    char id[STORE_ID];
    char unused[7];
    uint64_t generation; /* the newest slot has the highest */
    int64_t seq;
    unsigned char hash[HASH_SIZE];
    unsigned char check[HASH_SIZE]; /* SHA-256 of a label and all before */
};

static const char magic[8] = "gbhead1";
_Static_assert(sizeof(struct slot) == 8 + 40 + 16 + 64, "no padding");

struct audit_apart {
    struct store *store;
    const unsigned char *secret;
    int fd;
    struct store_hook hook;
    struct audit_mark next; /* between the two halves of the hook */
    bool has_next;

    struct thread syncer;
    struct mutex lock; /* protects the rest */
    struct cond wake;
    bool stopping;
    bool dirty;   /* written since the last sync began */
    bool failing; /* the last write or sync failed, and was logged */
    unsigned at;  /* the slot to write */
    uint64_t generation;
    struct audit_mark last; /* what the file says */
};

/* ---- one slot ------------------------------------------------------------
 */

static void slot_check(const struct slot *s, unsigned char ret[HASH_SIZE])
{
    unsigned char bytes[sizeof(LABEL) + offsetof(struct slot, check)];

    memcpy(bytes, LABEL, sizeof(LABEL));
    memcpy(bytes + sizeof(LABEL), s, offsetof(struct slot, check));
    hash_sha256(bytes, sizeof(bytes), ret);
}

static void slot_make(struct slot *s, const char *id, uint64_t generation,
                      const struct audit_mark *mark)
{
    *s = (struct slot){.generation = generation, .seq = mark->seq};
    memcpy(s->magic, magic, sizeof(magic));
    (void)snprintf(s->id, sizeof(s->id), "%s", id); /* fits */
    memcpy(s->hash, mark->hash, HASH_SIZE);
    slot_check(s, s->check);
}

static bool slot_good(const struct slot *s)
{
    unsigned char check[HASH_SIZE];

    slot_check(s, check);
    return memcmp(s->magic, magic, sizeof(magic)) == 0 &&
           memcmp(s->check, check, sizeof(check)) == 0 && s->seq >= 0 &&
           strnlen(s->id, sizeof(s->id)) == sizeof(s->id) - 1;
}

/* ---- the file ------------------------------------------------------------
 */

struct file {
    bool there; /* there is one */
    bool good;  /* and a slot of it is whole: */
    struct slot slot;
    unsigned at; /* which */
};

static int open_dir(const char *data_dir, int *ret, struct error *err)
{
    *ret = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                                  data_dir)
                    : 0;
}

static int read_file(int dir, struct file *ret, struct error *err)
{
    int fd cleanup(fd_close) =
        openat(dir, HEAD_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    *ret = (struct file){.there = fd >= 0};
    if (fd < 0 && errno == ENOENT)
        return 0;
    for (unsigned i = 0; fd >= 0 && i < SLOTS; i++) {
        struct slot slot;
        ssize_t n = pread(fd, &slot, sizeof(slot), (off_t)i * SLOT_STEP);

        if (n < 0) {
            fd_close(&fd);
            break;
        }
        if (n != sizeof(slot) || !slot_good(&slot) ||
            (ret->good && slot.generation <= ret->slot.generation))
            continue;
        ret->good = true;
        ret->slot = slot;
        ret->at = i;
    }
    return fd < 0 ? error_errno(err, ERR_INTERNAL, errno,
                                "cannot read " HEAD_FILE)
                  : 0;
}

/* ---- comparing -----------------------------------------------------------
 */

enum verdict {
    FITS,    /* the database has that event, and perhaps later ones */
    NEVER,   /* there is no file, and there has been none */
    GONE,    /* there is no file, but there was one */
    DAMAGED, /* no slot of the file is whole */
    FOREIGN, /* the file is that of another store */
    UNNAMED, /* the database has no id, but the file has one */
    EMPTY,   /* the database has no event at all */
    BEHIND,  /* the database ends before that event */
    OTHER,   /* that event is another one in the database */
    STRANGE, /* the trail is sealed with another secret, and there is no file
                to tell whose it is */
};

struct finding {
    enum verdict verdict;
    struct file file;
    struct audit_mark end; /* of the trail in the database; seq 0: none */
    bool noted;            /* the database says that there is a file */
    char token[TOKEN_HEX + 1];
};

static bool copy_hash(struct store_rows *row, int column,
                      unsigned char ret[HASH_SIZE])
{
    size_t len;
    const void *hash = store_bytes(row, column, &len);

    return hash && len == HASH_SIZE && memcpy(ret, hash, HASH_SIZE);
}

int audit_head_has(struct store_tx *tx, const struct audit_mark *mark,
                   struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    unsigned char hash[HASH_SIZE];
    int r;

    if (mark->seq == 0)
        return 1;
    r = store_one(tx, &row, err, "SELECT hash FROM audit WHERE seq = ?1", "i",
                  mark->seq);
    if (r < 1)
        return r;
    return copy_hash(row, 0, hash) && hash_equal(hash, mark->hash, HASH_SIZE);
}

/* The newest event, found without the head's row; seq 0: there is none. */
static int newest_event(struct store_tx *tx, struct audit_mark *ret,
                        struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r =
        store_one(tx, &row, err,
                  "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", "");

    *ret = (struct audit_mark){.seq = 0};
    if (r == 1) {
        ret->seq = MAX(store_int(row, 0), (int64_t)0);
        (void)copy_hash(row, 1, ret->hash); /* zeroes fit nothing */
    }
    return MIN(r, 0);
}

/* Was there a file when this database was last written? */
static int was_noted(struct store_tx *tx, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT noted FROM audit_head WHERE one = 1", "");

    return r == 1 ? store_int(row, 0) != 0 : r;
}

static struct audit_mark mark_of(const struct file *file)
{
    struct audit_mark mark = {.seq = file->slot.seq};

    memcpy(mark.hash, file->slot.hash, HASH_SIZE);
    return mark;
}

static int judge_head(struct store *store, struct store_tx *tx,
                      struct finding *f, struct error *err)
{
    struct audit_mark mark = mark_of(&f->file);
    int r = newest_event(tx, &f->end, err);

    if (r == 0)
        r = was_noted(tx, err);
    if (r < 0)
        return r;
    f->noted = r > 0;
    /* Daemons that share a database have a file each: one without a file is
     * new, and the others' files still tell of a loss. */
    if (!f->file.there)
        f->verdict = f->noted && !store_shared(store) ? GONE : NEVER;
    else if (!f->file.good)
        f->verdict = DAMAGED;
    else if (strcmp(f->file.slot.id, store_id(store)) != 0)
        f->verdict = FOREIGN;
    else if (mark.seq && !f->end.seq)
        f->verdict = EMPTY;
    else if (mark.seq > f->end.seq)
        f->verdict = BEHIND;
    else if ((r = audit_head_has(tx, &mark, err)) >= 0)
        f->verdict = r ? FITS : OTHER;
    return MIN(r, 0);
}

/* The token that an operator must repeat. It depends on everything that was
 * found, so a token left in a configuration accepts nothing else later. */
static void make_token(struct finding *f)
{
    struct {
        char label[16];
        int64_t verdict;
        struct slot slot;
        struct audit_mark end;
    } all = {.label = "glovebox accept"};
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];

    all.verdict = f->verdict;
    all.slot = f->file.slot;
    all.end = f->end;
    hash_sha256(&all, sizeof(all), hash);
    (void)snprintf(f->token, sizeof(f->token), "%s",
                   ids_hex(hash, sizeof(hash), hex)); /* cut */
}

static int compare_heads(struct store *store, const char *data_dir,
                         struct finding *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int dir cleanup(fd_close) = -1;
    int r = open_dir(data_dir, &dir, err);

    *ret = (struct finding){.verdict = NEVER};
    if (r == 0)
        r = read_file(dir, &ret->file, err);
    /* A database from before there were such files has no id. */
    if (r == 0 && !store_id(store)[0])
        ret->verdict = ret->file.there ? UNNAMED : NEVER;
    if (r < 0 || !store_id(store)[0])
        return r;
    r = store_begin(store, STORE_READ, "comparing the trail's end", &tx, err);
    if (r == 0)
        r = judge_head(store, tx, ret, err);
    make_token(ret);
    return r;
}

/* ---- refusing ------------------------------------------------------------
 */

static int refuse_finding(const struct finding *f, struct error *err)
{
    static const char keep[] =
        "Nothing was changed. Put the files that belong together back, or "
        "restore a backup into an empty directory.";
    long long said = (long long)f->file.slot.seq;
    long long has = (long long)f->end.seq;

    switch (f->verdict) {
    case FOREIGN:
        (void)error_set(err, ERR_CORRUPT,
                        "glovebox.db is the database of another data "
                        "directory: its id is not the one in " HEAD_FILE);
        return error_hint(err, "%s", keep);
    case UNNAMED:
        (void)error_set(err, ERR_CORRUPT,
                        "glovebox.db is older than " HEAD_FILE
                        ": it has no id yet; it is the copy of an earlier "
                        "version, or lost its log glovebox.db-wal");
        return error_hint(err, "%s", keep);
    case EMPTY:
        (void)error_set(err, ERR_CORRUPT,
                        "glovebox.db is empty, but this directory's audit "
                        "trail had %lld events: the database, or its log "
                        "glovebox.db-wal, was lost or replaced",
                        said);
        return error_hint(err, "%s To begin anew, use an empty directory.",
                          keep);
    case BEHIND:
        (void)error_set(err, ERR_CORRUPT,
                        "the database was rolled back: its audit trail ends "
                        "at event %lld, but " HEAD_FILE
                        " says that event %lld was written; what was stored "
                        "after event %lld is lost",
                        has, said, has);
        break;
    case OTHER:
        (void)error_set(err, ERR_CORRUPT,
                        "the database has another history: event %lld of its "
                        "audit trail is not the one that " HEAD_FILE " names",
                        said);
        break;
    case GONE:
        (void)error_set(err, ERR_CORRUPT,
                        HEAD_FILE " is missing, so it cannot be checked "
                                  "whether the database was rolled back");
        break;
    case DAMAGED:
        (void)error_set(err, ERR_CORRUPT,
                        HEAD_FILE " is damaged, so it cannot be checked "
                                  "whether the database was rolled back");
        break;
    case STRANGE:
        (void)error_set(err, ERR_CORRUPT,
                        "the audit trail in glovebox.db is not sealed with "
                        "this directory's audit.secret: one of the two is "
                        "another directory's, or the trail is damaged");
        break;
    case FITS:
    case NEVER:
        return 0;
    }
    if (!f->end.seq)
        return error_hint(err, "%s", keep);
    return error_hint(err,
                      "%s To go on without what is missing, start once with "
                      "--accept-loss %s; this becomes an audit event.",
                      keep, f->token);
}

static bool is_accepted(const struct finding *f, const char *accept)
{
    return f->verdict != FOREIGN && f->verdict != EMPTY && f->end.seq > 0 &&
           strcmp(f->token, accept) == 0;
}

int audit_check_store(struct store *store, void *ctx, struct error *err)
{
    const struct audit_place *place = ctx;
    struct finding found;
    int r = compare_heads(store, place->data_dir, &found, err);

    return r < 0 || is_accepted(&found, place->accept)
               ? r
               : refuse_finding(&found, err);
}

/* ---- accepting -----------------------------------------------------------
 */

static int note_accepted(struct audit *a, const struct finding *f,
                         struct error *err)
{
    static const char *const why[] = {
        [GONE] = "audit.head was missing",
        [DAMAGED] = "audit.head was damaged",
        [BEHIND] = "the database was rolled back",
        [OTHER] = "the database had another history",
        [STRANGE] = "the trail was sealed with another secret",
    };
    int64_t lost = f->verdict == BEHIND ? f->file.slot.seq - f->end.seq : 0;
    char before[32], after[32], detail[160];
    struct audit_event event = {.action = AUDIT_ACCEPT,
                                .object = f->token,
                                .before = f->file.good ? before : NULL,
                                .after = after,
                                .detail = detail};

    (void)snprintf(before, sizeof(before), "%lld",
                   (long long)f->file.slot.seq);
    (void)snprintf(after, sizeof(after), "%lld", (long long)f->end.seq);
    (void)snprintf(detail, sizeof(detail),
                   "an operator accepted a loss: %s; events known to be "
                   "missing: %lld",
                   why[f->verdict], (long long)lost);
    log_event(LOG_WARN, "loss_accepted", "why", why[f->verdict], NULL);
    return audit_note(a, NULL, &event, err);
}

/* ---- writing -------------------------------------------------------------
 */

static void log_failure(struct audit_apart *h, int errnum)
{
    mutex_assert_held(&h->lock);
    if (!h->failing)
        log_event(LOG_WARN, "audit_head_not_written", "error",
                  strerror(errnum), "means",
                  "a rollback of the database may go unnoticed", NULL);
    h->failing = true;
}

/* In the transaction that is about to be committed. Never fails: the commit
 * does not depend on it. */
static int before_commit(struct store_tx *tx, void *ctx, struct error *err)
{
    struct audit_apart *h = ctx;
    struct audit_head head = {.seal = AUDIT_BROKEN};

    h->has_next = false;
    if (audit_chain_head(h->secret, tx, &head, err) < 0 ||
        head.seal == AUDIT_BROKEN)
        return 0;
    h->next.seq = head.seq;
    memcpy(h->next.hash, head.hash, HASH_SIZE);
    /* A sealed trail never gets shorter by what we do. A marked one does,
     * after damage, and says so itself. */
    h->has_next = head.seal == AUDIT_MARKED || head.seq >= h->last.seq;
    return 0;
}

static void after_commit(void *ctx, bool kept)
{
    struct audit_apart *h = ctx;
    struct slot slot;
    ssize_t n;

    if (!kept || !h->has_next || h->next.seq == h->last.seq)
        return;
    mutex_lock(&h->lock);
    slot_make(&slot, store_id(h->store), ++h->generation, &h->next);
    do
        n = pwrite(h->fd, &slot, sizeof(slot), (off_t)h->at * SLOT_STEP);
    while (n < 0 && errno == EINTR);
    if (n != sizeof(slot))
        log_failure(h, n < 0 ? errno : EIO);
    h->last = h->next;
    if (!h->dirty)
        cond_signal(&h->wake);
    h->dirty = true;
    mutex_unlock(&h->lock);
}

static void audit_head_sync_main(void *arg)
{
    struct audit_apart *h = arg;

    mutex_lock(&h->lock);
    while (!h->stopping || h->dirty) {
        uint64_t deadline = clock_mono_ms() + SYNC_MS;
        int r;

        if (!h->dirty) {
            cond_wait(&h->wake, &h->lock);
            continue;
        }
        while (!h->stopping && cond_wait_until(&h->wake, &h->lock, deadline))
            ;
        h->dirty = false;
        h->at = (h->at + 1) % SLOTS; /* never one that is being synced */
        mutex_unlock(&h->lock);
        r = fdatasync(h->fd) < 0 ? errno : 0;
        mutex_lock(&h->lock);
        if (r)
            log_failure(h, r);
        else
            h->failing = false;
    }
    mutex_unlock(&h->lock);
}

/* ---- opening -------------------------------------------------------------
 */

/* Makes the file agree with the database as it is now. */
static int begin_file(struct audit *a, int dir, struct audit_apart *h,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct slot slot;
    int r =
        store_begin(a->store, STORE_READ, "noting the trail's end", &tx, err);

    if (r == 0)
        r = newest_event(tx, &h->last, err);
    if (r < 0)
        return r;
    h->generation = 1;
    h->at = 1;
    slot_make(&slot, store_id(a->store), h->generation, &h->last);

    /* A whole file in place of the one there is, if any; on disk when it
     * returns.
     */
    static const char fresh[] = HEAD_FILE ".new";
    char *bytes cleanup(mem_free) = xcalloc(SLOTS, SLOT_STEP);
    int fd cleanup(fd_close) = -1;

    memcpy(bytes, &slot, sizeof(slot));
    (void)unlinkat(dir, fresh, 0); /* of a start that was cut short */
    fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : fd_write_all(fd, bytes, SLOTS * SLOT_STEP);
    if (r == 0 && (fsync(fd) < 0 || renameat(dir, fresh, dir, HEAD_FILE) < 0 ||
                   fsync(dir) < 0))
        r = -errno;
    if (r == 0)
        return 0;
    if (fd >= 0)
        (void)unlinkat(dir, fresh, 0); /* nothing to add to the failure */
    return error_errno(err, r == -ENOSPC ? ERR_SPACE : ERR_INTERNAL, -r,
                       "cannot write " HEAD_FILE);
}

/* Once the file is on disk; from then on it may not be missing. */
static int set_noted(struct store *store, bool noted, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r =
        store_begin(store, STORE_WRITE, "noting the trail's end", &tx, err);

    if (r == 0)
        r = store_exec(tx, err, "UPDATE audit_head SET noted = ?1", "i",
                       (int64_t)noted);
    return r < 0 ? r : store_commit(&tx, err);
}

/* A trail from before there were such files, in doubt? Its seal then is not
 * that of our secret. */
static int check_seal(struct audit *a, struct finding *f, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_head head = {.seal = AUDIT_BROKEN};
    int r = store_begin(a->store, STORE_READ, "comparing the trail's end", &tx,
                        err);

    if (r == 0)
        r = audit_chain_head(a->secret, tx, &head, err);
    if (r == 0)
        r = newest_event(tx, &f->end, err);
    if (r == 0 && head.seal == AUDIT_BROKEN) {
        f->verdict = STRANGE;
        make_token(f);
    }
    return r;
}

static int start_syncer(struct audit_apart *h, struct error *err)
{
    int r;

    mutex_init(&h->lock);
    cond_init(&h->wake);
    r = thread_start(&h->syncer, "audit-head", audit_head_sync_main, h, err);
    if (r < 0)
        return r;
    h->hook = (struct store_hook){
        .before = before_commit, .after = after_commit, .ctx = h};
    store_hook_add(h->store, &h->hook);
    return 0;
}

int audit_head_open(struct audit *a, const struct audit_place *place,
                    struct error *err)
{
    int dir cleanup(fd_close) = -1;
    struct audit_apart *h;
    struct finding found;
    int r = open_dir(place->data_dir, &dir, err);

    if (r == 0)
        r = compare_heads(a->store, place->data_dir, &found, err);
    if (r == 0 && found.verdict == NEVER)
        r = check_seal(a, &found, err);
    if (r < 0)
        return r;
    h = a->apart = xcalloc(1, sizeof(*h));
    h->store = a->store;
    h->secret = a->secret;
    h->fd = -1;
    if (found.verdict == FITS) {
        h->generation = found.file.slot.generation;
        h->at = (found.file.at + 1) % SLOTS;
        h->last = mark_of(&found.file);
    } else if (found.verdict == NEVER) {
        r = begin_file(a, dir, h, err);
    } else if (!is_accepted(&found, place->accept)) {
        r = refuse_finding(&found, err);
    } else {
        r = note_accepted(a, &found, err);
        if (r == 0)
            r = begin_file(a, dir, h, err);
    }
    if (r == 0 && !found.noted)
        r = set_noted(a->store, true, err);
    if (r < 0)
        return r;
    h->fd = openat(dir, HEAD_FILE, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (h->fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open " HEAD_FILE);
    return start_syncer(h, err);
}

void audit_head_close(struct audit *a)
{
    struct audit_apart *h = take_ptr(a->apart);

    if (!h)
        return;
    if (h->syncer.started) {
        store_hook_remove(h->store, &h->hook);
        mutex_lock(&h->lock);
        h->stopping = true;
        cond_signal(&h->wake);
        mutex_unlock(&h->lock);
        thread_join(&h->syncer);
        cond_done(&h->wake);
        mutex_done(&h->lock);
    }
    fd_close(&h->fd);
    free(h);
}

/* ---- for others ----------------------------------------------------------
 */

int audit_head_forget(struct store *copy, struct error *err)
{
    return set_noted(copy, false, err);
}

struct audit_mark audit_head_last(struct audit *a)
{
    struct audit_mark last;

    mutex_lock(&a->apart->lock);
    last = a->apart->last;
    mutex_unlock(&a->apart->lock);
    return last;
}

/* ---- damage that the trail itself tells of -------------------------------
 */

/* The newest event that records damage or its acceptance: 1; 0: none. */
static int newest_damage(struct store_tx *tx, struct audit_mark *ret,
                         bool *ret_accepted, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT seq, hash, action FROM audit"
                      " WHERE action IN (?1, ?2) ORDER BY seq DESC LIMIT 1",
                      "tt", AUDIT_DAMAGED, AUDIT_ACCEPT);

    if (r < 1)
        return r;
    ret->seq = store_int(row, 0);
    *ret_accepted = strcmp(store_text(row, 2), AUDIT_ACCEPT) == 0;
    return copy_hash(row, 1, ret->hash);
}

/* 0: the trail is whole, or its damage was accepted; 1: it is damaged, and
 * the token accepts it ("": it has not been reported yet). */
static int find_damage(struct audit *a, char ret_token[TOKEN_HEX + 1],
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_head head = {.seal = AUDIT_BROKEN};
    struct finding f = {.verdict = STRANGE};
    bool accepted = false;
    int r = store_begin(a->store, STORE_READ, "looking for damage", &tx, err);

    ret_token[0] = '\0';
    if (r == 0)
        r = audit_chain_head(a->secret, tx, &head, err);
    if (r < 0 || head.seal == AUDIT_SEALED)
        return r;
    r = newest_damage(tx, &f.end, &accepted, err);
    if (r < 0)
        return r;
    if (r == 1 && accepted && head.seal == AUDIT_MARKED)
        return 0;
    if (r == 1 && !accepted) {
        make_token(&f);
        memcpy(ret_token, f.token, sizeof(f.token));
    }
    return 1;
}

int audit_intact(struct audit *a, struct error *err)
{
    char token[TOKEN_HEX + 1];
    int r = find_damage(a, token, err);

    if (r < 1)
        return r;
    (void)error_set(err, ERR_CORRUPT,
                    "the audit trail is damaged, so nothing is removed from "
                    "the disk");
    if (!token[0])
        return error_hint(err, "See `glovebox audit verify`.");
    return error_hint(err,
                      "See `glovebox audit verify`. To go on all the same, "
                      "restart the service once with --accept-loss %s; this "
                      "becomes an audit event.",
                      token);
}

int audit_head_accept_damage(struct audit *a, const char *accept,
                             struct error *err)
{
    static const struct audit_event event = {
        .action = AUDIT_ACCEPT,
        .detail = "an operator accepted that the trail is damaged; events "
                  "known to be missing: 0"};
    char token[TOKEN_HEX + 1];
    int r = accept[0] ? find_damage(a, token, err) : 0;

    if (r < 1 || strcmp(token, accept) != 0)
        return MIN(r, 0);
    log_event(LOG_WARN, "loss_accepted", "why", "the trail is damaged", NULL);
    return audit_note(a, NULL, &event, err);
}

/* ---- what was accepted ---------------------------------------------------
 */

int audit_lost(struct audit *a, int64_t *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(a->store, STORE_READ, "looking for losses", &tx, err);

    *ret = 0;
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT before_id, after_id FROM audit"
                        " WHERE action = ?1",
                        "t", AUDIT_ACCEPT);
    while (r == 0 && (r = store_next(rows, err)) == 1) {
        int64_t said = strtoll(store_text(rows, 0), NULL, 10);
        int64_t had = strtoll(store_text(rows, 1), NULL, 10);

        *ret += MAX(said - had, (int64_t)0);
        r = 0;
    }
    return r;
}
