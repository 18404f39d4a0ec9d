/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits the files an execution changed. Changed files are read out of the
 * sandbox, stored as blobs, and committed to the workspace before the
 * execution is reported complete. Runs in gloveboxd on the thread that has the
 * turn. Bytes come by descriptor from the sandbox's pid 1; a size is only a
 * claim until the bytes are read. Each inode is read and stored once, however
 * many names it has. Disk space is reserved and quotas are checked before any
 * byte is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "disk/disk.h"
#include "session/session_int.h"

/* A file of the session that was read, by what the kernel says it is. Its
 * other names (hard links) refer to the same bytes. */
struct inode {
    uint64_t dev, ino;
    int64_t born_ns; /* an inode's number may be given away again */
    size_t first;    /* of the changes, plus 1; 0: free */
    bool lost;       /* the disk lost its bytes: no name of it is kept */
};

/* One commit on its way. */
struct commit_job {
    struct session *se;
    struct box *box;
    /* NULL: between executions */
    const struct session_commit_origin *origin;
    struct changes *ch;
    struct workspace_change *set;
    size_t count;
    char (*names)[BLOB_NAME]; /* of the blobs, one a change; "" none */
    bool *alias;              /* of these, not pinned by this commit */
    bool *unstored;           /* of these, hashed but not stored */
    size_t name_count;
    struct inode *inodes; /* inode_mask + 1 of them */
    size_t inode_mask;
    struct blob_hold *hold; /* disk space for what is about to be stored */
    uint64_t stored;        /* so far */
    uint64_t room;          /* by the quotas, once that was asked */
    bool room_known;
    char code[BLOB_NAME];
    char domain[BLOB_OWNER];
    struct blob_batch *batch; /* NULL: few, each synced by itself */
};

#define BATCH_FROM 8u /* so many that one sync of all is quicker */
/* A commit of less is stored before the quotas are looked at: they decide
 * when it is committed. */
#define ROOM_FROM (1u << 20)
#define HOLD_WAIT_MS 30000u

static void commit_job_done(struct commit_job *k)
{
    struct blobs *blobs = k->se->m->core->blobs;

    for (size_t i = 0; i < k->name_count; i++)
        if (k->names[i][0] && !k->alias[i] && !k->unstored[i])
            blob_release(blobs, k->names[i]);
    if (k->code[0])
        blob_release(blobs, k->code);
    blob_batch_abort(&k->batch);
    blob_hold_free(&k->hold);
    free(k->inodes);
    free(k->unstored);
    free(k->alias);
    free(k->names);
    free(k->set);
}

int session_commit_domain(struct session *se, char ret[BLOB_OWNER],
                          struct error *err)
{
    if (se->made)
        return workspace_blob_owner(se->m->workspaces, se->workspace, ret,
                                    err);
    blob_owner(se->tenant->name, ret);
    return 0;
}

/* ---- bytes -------------------------------------------------------------- */

static void skip_change(struct change *c, int why)
{
    c->kind = INIT_ENTRY_SKIPPED;
    c->size = (uint64_t)why;
}

/* A sparse file may claim any size, but only what is really there was ever
 * held by the disk, which is a little larger than it is said to be. */
static bool too_large(const struct commit_job *k, const struct stat *st)
{
    uint64_t size = (uint64_t)st->st_size;

    return size > k->se->m->conf->file_bytes ||
           (size > k->se->limits.scratch_bytes &&
            (uint64_t)st->st_blocks * 512 < size);
}

/* ---- one copy of each inode ----------------------------------------------
 */

/* Where it is in the table, or is to be. */
static struct inode *find_inode(struct commit_job *k, const struct inode *key)
{
    size_t at = (size_t)((key->ino ^ key->dev) * 0x9e3779b97f4a7c15u >> 20);

    for (;; at++) {
        struct inode *n = &k->inodes[at & k->inode_mask];

        if (n->first == 0 || (n->ino == key->ino && n->dev == key->dev &&
                              n->born_ns == key->born_ns))
            return n;
    }
}

/* The kernel's word, not the session's. Without a time of birth the time of
 * the last change stands in: then links that are made meanwhile are read
 * again, which the quota bounds. */
static struct inode identify_inode(int fd, const struct stat *st)
{
    struct inode key = {.dev = st->st_dev, .ino = st->st_ino};
    const struct timespec *changed = &st->st_ctim;
    struct statx sx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &sx) == 0 &&
        (sx.stx_mask & STATX_BTIME))
        key.born_ns = sx.stx_btime.tv_sec * 1000000000 + sx.stx_btime.tv_nsec;
    else
        key.born_ns = (int64_t)changed->tv_sec * 1000000000 + changed->tv_nsec;
    return key;
}

static void make_inodes(struct commit_job *k, size_t changes)
{
    size_t size = 16;

    while (size < 2 * changes)
        size *= 2;
    k->inodes = xcalloc(size, sizeof(*k->inodes));
    k->inode_mask = size - 1;
}

/* Another name of a file that was read for this commit has its bytes: true as
 * of the moment they were read. */
static void share_inode(struct commit_job *k, size_t i, size_t first)
{
    memcpy(k->names[i], k->names[first], sizeof(k->names[i]));
    k->alias[i] = true;
    k->unstored[i] = k->unstored[first];
    k->ch->items[i].size = k->ch->items[first].size;
}

/* ---- bytes, read ---------------------------------------------------------
 */

/* 0 and *ret_fd; or 0 and -1 when the file is not one to keep. */
static int open_changed(struct commit_job *k, struct change *c,
                        const char *path, int *ret_fd, struct inode *ret,
                        struct error *err)
{
    struct broker_request request = {.type = INIT_OPEN, .path = path};
    struct broker_reply reply = {.fd = -1};
    struct stat st;
    int fd cleanup(fd_close) = -1;
    int rc = box_broker_call(k->box, &request, NULL, 0, true, &reply, err);

    if (rc < 0)
        return rc;
    fd = reply.errnum ? -1 : reply.fd;
    *ret_fd = -1;
    if (reply.errnum) {
        skip_change(c, reply.errnum); /* gone again, or not ours to read */
        return 0;
    }
    rc = box_file_check_fd(fd, false, &st, err);
    if (rc < 0)
        return rc;
    if (too_large(k, &st)) {
        skip_change(c, EFBIG);
        return 0;
    }
    c->size = (uint64_t)st.st_size;
    *ret = identify_inode(fd, &st);
    *ret_fd = take_fd(fd);
    return 0;
}

/* Did the disk lose what the session wrote? Its files are on a sparse image
 * on our disk. While that is full, the kernel may drop written pages and, once
 * they have left its memory, show zeros in their place; only a sync tells. */
static bool is_lost(const struct commit_job *k, int fd)
{
    return disk_full_since(k->se->m->disk, box_created_ms(k->box)) &&
           fsync(fd) < 0;
}

static struct actor actor_of(const struct commit_job *k)
{
    return k->origin ? k->origin->author : session_actor(k->se);
}

/* Do the quotas leave room for so much more? Asked before it is stored. */
static int check_room(struct commit_job *k, uint64_t size, bool *ret_fits,
                      struct error *err)
{
    struct session *se = k->se;
    struct actor who = actor_of(k);
    int rc = 0;

    if (!k->room_known && k->stored + size > ROOM_FROM) {
        rc = workspace_room(se->m->workspaces, &who,
                            se->made ? se->workspace : NULL, k->stored + size,
                            &k->room, err);
        k->room_known = rc == 0;
    }
    *ret_fits =
        !k->room_known || (size <= k->room && k->stored <= k->room - size);
    return rc;
}

static int write_blob(struct commit_job *k, size_t i, int fd,
                      struct error *err)
{
    struct blobs *blobs = k->se->m->core->blobs;
    struct change *c = &k->ch->items[i];
    struct blob_writer *w cleanup(blob_abort) = NULL;
    int rc = blob_begin_held(blobs, k->domain, k->hold, &w, err);

    if (rc == 0)
        rc = blob_write_fd(w, fd, c->size, err); /* as of now, if it grows */
    if (rc == 0)
        rc = k->batch
                 ? blob_batch_add(k->batch, &w, k->names[i], &c->size, err)
                 : blob_finish(&w, k->names[i], &c->size, err);
    if (rc == 0)
        k->stored += c->size;
    return rc;
}

/* A file for which there is no room is hashed, not stored: the commit then
 * refuses it by name, or finds that the workspace has its bytes already. */
static int store_file(struct commit_job *k, size_t i, struct error *err)
{
    struct change *c = &k->ch->items[i];
    struct inode key = {0}, *known;
    int fd cleanup(fd_close) = -1;
    bool fits = true;
    int rc = open_changed(k, c, box_changes_path(k->ch, i), &fd, &key, err);

    if (rc < 0 || fd < 0)
        return rc;
    known = find_inode(k, &key);
    if (known->first && !known->lost) {
        share_inode(k, i, known->first - 1);
        return 0;
    }
    if (known->lost || is_lost(k, fd)) {
        skip_change(c, ENOSPC);
        key.first = i + 1;
        key.lost = true; /* a second sync would not tell again */
        *known = key;
        return 0;
    }
    rc = check_room(k, c->size, &fits, err);
    if (rc == 0 && fits)
        rc = write_blob(k, i, fd, err);
    else if (rc == 0)
        rc = blob_hash_fd(fd, c->size, k->names[i], &c->size, err);
    if (rc < 0)
        return rc;
    k->unstored[i] = !fits;
    key.first = i + 1;
    *known = key;
    return 0;
}

/* Disk space for all of it before the first byte is copied. What pid 1 claims
 * is enough for that: a session cannot have more than its disk holds, and
 * what turns out to be more is reserved as it is written. */
static int reserve_disk(struct commit_job *k, struct error *err)
{
    uint64_t sum = 0, most = k->se->limits.scratch_bytes;

    for (size_t i = 0; i < k->ch->count && sum < most; i++) {
        const struct change *c = &k->ch->items[i];
        struct inode key = {.ino = c->inode}, *known;

        if (c->kind != INIT_ENTRY_WROTE || c->inode == 0)
            continue;
        known = find_inode(k, &key);
        if (known->first)
            continue;
        *known = (struct inode){.ino = c->inode, .first = i + 1};
        sum += MIN(c->stored, most - sum);
    }
    memset(k->inodes, 0, (k->inode_mask + 1) * sizeof(*k->inodes));
    if (sum < ROOM_FROM)
        return 0;
    return blob_hold_new(k->se->m->core->blobs, k->domain, sum,
                         clock_mono_ms() + HOLD_WAIT_MS, &k->hold, err);
}

/* The code itself, so that a version can say what made it. */
static int store_code(struct commit_job *k, struct error *err)
{
    struct blob_writer *w cleanup(blob_abort) = NULL;
    uint64_t size;
    int rc;

    if (!k->origin || !k->origin->code)
        return 0;
    rc = blob_begin(k->se->m->core->blobs, k->domain, &w, err);
    if (rc == 0)
        rc = blob_write(w, k->origin->code, k->origin->code_len, err);
    if (rc == 0)
        rc = blob_finish(&w, k->code, &size, err);
    return rc;
}

/* ---- the set ------------------------------------------------------------ */

static void add_to_set(struct commit_job *k, size_t i,
                       enum workspace_change_kind kind)
{
    const struct change *c = &k->ch->items[i];

    k->set[k->count++] = (struct workspace_change){
        .kind = kind,
        .path = box_changes_path(k->ch, i),
        .sha256 = kind == CHANGE_PUT ? k->names[i] : NULL,
        .unstored = kind == CHANGE_PUT && k->unstored[i],
        .size = c->size,
        .executable = c->executable,
    };
}

/* A link or a device in a file's place: the file is gone all the same. */
static bool took_place(const struct change *c)
{
    return c->kind == INIT_ENTRY_SKIPPED &&
           (c->size == ELOOP || c->size == ENODEV);
}

static int build_set(struct commit_job *k, struct error *err)
{
    size_t n = k->ch->count;
    int rc = session_commit_domain(k->se, k->domain, err);

    if (n >= BATCH_FROM)
        k->batch = blob_batch_new(k->se->m->core->blobs);
    k->set = xcalloc(n, sizeof(*k->set));
    k->names = xcalloc(n, sizeof(*k->names));
    k->alias = xcalloc(n, sizeof(*k->alias));
    k->unstored = xcalloc(n, sizeof(*k->unstored));
    k->name_count = n;
    make_inodes(k, n);
    if (rc == 0)
        rc = reserve_disk(k, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct change *c = &k->ch->items[i];

        if (c->kind == INIT_ENTRY_WROTE)
            rc = store_file(k, i, err);
        if (k->names[i][0])
            add_to_set(k, i, CHANGE_PUT);
        else if (c->kind == INIT_ENTRY_GONE || took_place(c))
            add_to_set(k, i, CHANGE_REMOVE);
        else if (c->kind == INIT_ENTRY_CLEARED)
            add_to_set(k, i, CHANGE_CLEAR);
    }
    if (rc == 0 && k->batch)
        rc = blob_batch_finish(&k->batch, err);
    return rc;
}

/* ---- the commit --------------------------------------------------------- */

/* A single run gets its workspace with its first file. */
int session_commit_make_workspace(struct session *se, const struct actor *who,
                                  struct error *err)
{
    struct workspace_spec spec = session_workspace_spec(se);
    struct workspace_info info;
    int rc;

    if (se->made)
        return 0;
    rc = workspace_create(se->m->workspaces, who, &spec, &info, err);
    se->made = rc == 0;
    return rc;
}

static int commit_set(struct commit_job *k, struct workspace_commit *ret,
                      struct error *err)
{
    struct actor who = actor_of(k);
    const struct session_commit_origin *o = k->origin;
    struct workspace_commit_spec spec = {
        .kind = "execution",
        .action = "execution.commit",
        .base = k->se->base,
        .session = k->se->id,
        .fence = atomic_load(&k->se->fence),
        .changes = k->set,
        .count = k->count,
        .governed = true, /* code wrote it */
    };
    int rc = session_commit_make_workspace(k->se, &who, err);

    if (o) {
        spec.execution = o->execution;
        spec.language = o->language;
        spec.code_sha256 = k->code[0] ? k->code : NULL;
        spec.conversation = o->conversation;
        spec.message = o->message;
        spec.lock_tokens = o->lock_tokens;
        spec.lock_count = o->lock_count;
    }
    if (rc == 0)
        rc = workspace_commit(k->se->m->workspaces, &who, k->se->workspace,
                              &spec, ret, err);
    return rc;
}

void session_commit_advance(struct session *se,
                            const struct workspace_commit *done)
{
    mutex_lock(&se->lock);
    if (done->id[0])
        se->own_commit = MAX(se->own_commit, done->seq);
    if (done->id[0] && done->seq == se->base + 1) {
        se->base = done->seq;
        se->base_id_seq = done->seq;
        memcpy(se->base_id, done->id, sizeof(se->base_id));
    }
    mutex_unlock(&se->lock);
}

/* ---- files over quota ---------------------------------------------------
 * Files that exceed the quota of the workspace are not committed. Every
 * execution tries to commit them again. Only the execution that wrote such a
 * file ends with the outcome `limit`; later executions that leave it unchanged
 * only report how many there are.
 */

#define OVER_QUOTA_MAX 20000u /* files beyond it count as new each time */

struct over_quota_file {
    struct idmap_node node;
    char sha256[BLOB_NAME];
    char path[];
};

static void over_quota_clear(struct idmap *m)
{
    for (size_t i = 0; i < m->size; i++)
        while (m->buckets[i]) {
            struct idmap_node *n = m->buckets[i];

            m->buckets[i] = n->next;
            free(container_of(n, struct over_quota_file, node));
        }
    idmap_done(m);
    *m = (struct idmap){0};
}

void session_over_quota_done(struct session *se)
{
    over_quota_clear(&se->over_quota);
}

/* Told before, and the same bytes still. */
static bool was_reported(const struct session *se,
                         const struct workspace_file *f)
{
    struct idmap_node *n = idmap_find(&se->over_quota, f->path);

    return n && strcmp(container_of(n, struct over_quota_file, node)->sha256,
                       f->sha256) == 0;
}

static void over_quota_add(struct idmap *m, const struct workspace_file *f)
{
    size_t len = strlen(f->path) + 1;
    struct over_quota_file *u;

    if (m->count >= OVER_QUOTA_MAX)
        return;
    u = xmalloc(sizeof(*u) + len);
    memcpy(u->path, f->path, len);
    memcpy(u->sha256, f->sha256, sizeof(u->sha256));
    idmap_add(m, &u->node, u->path);
}

static void over_quota_update(struct commit_job *k,
                              struct session_commit_report *ret)
{
    struct session *se = k->se;
    struct idmap now = {0};

    for (size_t i = 0; i < ret->done.count; i++) {
        const struct workspace_result *r = &ret->done.results[i];
        bool old;

        if (r->fate != FATE_QUOTA)
            continue;
        old = was_reported(se, &r->file);
        if (!old && k->origin && ret->over_quota_new++ == 0)
            (void)snprintf(ret->over_quota_path, sizeof(ret->over_quota_path),
                           "%s", r->file.path);
        if (old || k->origin) /* between executions nothing reports it */
            over_quota_add(&now, &r->file);
    }
    over_quota_clear(&se->over_quota);
    se->over_quota = now;
}

/* ---- the whole ---------------------------------------------------------- */

/* What was not kept is looked at again with the next execution. */
static void after_commit(struct commit_job *k,
                         struct session_commit_report *ret)
{
    struct actor who = actor_of(k);
    struct workspace_info info;
    struct error ignored;

    session_commit_advance(k->se, &ret->done);
    for (size_t i = 0; i < ret->done.count; i++) {
        enum workspace_fate fate = ret->done.results[i].fate;

        if (fate == FATE_QUOTA || fate == FATE_LOCKED)
            k->se->rescan = true;
    }
    over_quota_update(k, ret);
    if (ret->over_quota_new &&
        workspace_get(k->se->m->workspaces, &who, k->se->workspace, &info,
                      &ignored) == 0)
        ret->quota_bytes = info.quota_bytes;
}

bool session_commit_changes(struct session *se, struct box *box,
                            const struct session_commit_origin *origin,
                            struct changes *ch,
                            struct session_commit_report *ret)
{
    struct commit_job k cleanup(commit_job_done) = {
        .se = se, .box = box, .origin = origin, .ch = ch};

    *ret = (struct session_commit_report){0};
    if (ch->count == 0 && !ch->cut) {
        if (!se->rescan)
            session_over_quota_done(se); /* all was looked at: none is left */
        return false;
    }
    ret->rc = build_set(&k, &ret->err);
    if (ret->rc == 0 && k.count) {
        ret->rc = store_code(&k, &ret->err);
        if (ret->rc == 0)
            ret->rc = commit_set(&k, &ret->done, &ret->err);
    }
    if (ret->rc == 0) {
        after_commit(&k, ret);
        return true;
    }
    se->rescan = true;
    log_event(LOG_ERROR, "files_not_kept", "session", se->id, "error",
              ret->err.message, NULL);
    return true;
}

bool session_scan_begin(struct session *se, struct box *box)
{
    return box_scan_begin(box, se->rescan);
}

bool session_scan_end(struct session *se, struct box *box, bool begun,
                      char *io, struct changes *ret,
                      struct broker_reply *ret_reply)
{
    bool scanned = begun && box_scan_end(box, io, ret, ret_reply) == 0;

    ret->cut |= !scanned;
    se->rescan = !scanned;
    return scanned;
}

void session_commit_rest(struct session *se, struct box *box)
{
    struct changes ch cleanup(box_changes_done) = {0};
    struct session_commit_report report;
    char *io cleanup(mem_free) = NULL;
    struct broker_reply reply;

    if (se->ephemeral || !box_scan_begin(box, se->rescan))
        return;
    io = xmalloc(SESSION_IO_SIZE);
    if (box_scan_end(box, io, &ch, &reply) < 0)
        return;
    se->rescan = false;
    if (session_commit_changes(se, box, NULL, &ch, &report))
        workspace_commit_done(&report.done);
}

/* ---- what an execution sees --------------------------------------------- */

int64_t session_base(struct session *se, char ret_id[ID_MAX])
{
    int64_t seq = se->ephemeral ? 0 : se->base;

    ret_id[0] = '\0';
    mutex_lock(&se->lock);
    if (seq && se->base_id_seq == seq)
        memcpy(ret_id, se->base_id, ID_MAX);
    mutex_unlock(&se->lock);
    return seq;
}

void session_base_learn(struct session *se, int64_t seq, const char *id)
{
    mutex_lock(&se->lock);
    if (se->base_id_seq < seq) {
        se->base_id_seq = seq;
        (void)snprintf(se->base_id, sizeof(se->base_id), "%s", id);
    }
    mutex_unlock(&se->lock);
}

/* ---- ephemeral: names only, and only in memory -------------------------- */

#define SEEN_MAX 200000u

struct seen {
    struct idmap_node node;
    char path[];
};

void session_seen_done(struct session *se)
{
    for (size_t i = 0; i < se->seen.size; i++)
        while (se->seen.buckets[i]) {
            struct idmap_node *n = se->seen.buckets[i];

            se->seen.buckets[i] = n->next;
            free(container_of(n, struct seen, node));
        }
    idmap_done(&se->seen);
}

bool session_seen_add(struct session *se, const char *path)
{
    struct seen *s;

    if (idmap_find(&se->seen, path))
        return true;
    if (se->seen.count >= SEEN_MAX)
        return false;
    s = xmalloc(sizeof(*s) + strlen(path) + 1);
    memcpy(s->path, path, strlen(path) + 1);
    idmap_add(&se->seen, &s->node, s->path);
    return false;
}

bool session_seen_remove(struct session *se, const char *path)
{
    struct idmap_node *n = idmap_find(&se->seen, path);

    if (!n)
        return false;
    idmap_remove(&se->seen, n);
    free(container_of(n, struct seen, node));
    return true;
}
