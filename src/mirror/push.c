/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that copies workspaces to their mirrors. What is to be done is
 * read from the rows (mirror.c), so that there is no queue to overflow or to
 * lose: a mirror is behind if its workspace's head is a later commit than the
 * one it has. Each mirror gets a slice of files at a time, and its row says
 * how far it is, so that a restart continues there.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/core.h"
#include "mirror/mirror_int.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define BATCH 16         /* mirrors looked at in one round */
#define SLICE_FILES 200u /* of one mirror in one round */
#define SLICE_MS 20000u  /* the same */
#define POLL_MS 300u     /* how late a commit is noticed */
#define RETRY_LEAST_MS 2000
#define RETRY_MOST_MS 300000

struct job {
    char workspace[ID_MAX], tenant[64];
    char destination[MIRROR_DESTINATION_MAX + 2];
    bool remove;
    int64_t seq;    /* copied up to this commit */
    int64_t to_seq; /* a copy up to this one was begun, and is at `cursor` */
    char *cursor;   /* path; "" : none; owned */
    int64_t failures;
    uint64_t files, bytes; /* copied in this slice */
};

static void jobs_free(struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(jobs[i].cursor);
    free(jobs);
}

static int find_jobs(struct mirrors *m, struct job **ret, size_t *ret_count,
                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct job *jobs = xcalloc(BATCH, sizeof(*jobs));
    size_t count = 0;
    int r = store_begin(m->core->store, STORE_READ, "looking for mirrors", &tx,
                        err);

    if (r == 0)
        r = store_query(
            tx, &rows, err,
            "SELECT m.workspace, w.tenant, m.destination, m.removes, m.seq,"
            " m.to_seq, m.place, m.failures"
            " FROM mirrors AS m JOIN workspaces AS w ON w.id = m.workspace"
            " WHERE w.head > m.seq AND w.deleted_at_ms = 0"
            " AND m.retry_at_ms <= ?1"
            " ORDER BY m.touched_at_ms, m.workspace LIMIT ?2",
            "ii", clock_real_ms(), (int64_t)BATCH);
    while (r == 0 && count < BATCH && (r = store_next(rows, err)) > 0) {
        struct job *j = &jobs[count++];

        (void)snprintf(j->workspace, sizeof(j->workspace), "%s",
                       store_text(rows, 0));
        (void)snprintf(j->tenant, sizeof(j->tenant), "%s",
                       store_text(rows, 1));
        (void)snprintf(j->destination, sizeof(j->destination), "%s",
                       store_text(rows, 2));
        j->remove = store_int(rows, 3) != 0;
        j->seq = store_int(rows, 4);
        j->to_seq = store_int(rows, 5);
        j->cursor = xstrdup(store_text(rows, 6));
        j->failures = store_int(rows, 7);
        r = 0;
    }
    if (r < 0) {
        jobs_free(jobs, count);
        return r;
    }
    *ret = jobs;
    *ret_count = count;
    return 0;
}

/* ---- one mirror --------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct workspace_file *)a)->path,
                  ((const struct workspace_file *)b)->path);
}

/* Was it copied before the copy was interrupted? A removal cannot tell when it
 * happened, and is done again. */
static bool is_done(const struct job *j, const struct workspace_file *f)
{
    return j->cursor[0] && f->sha256[0] && f->seq <= j->to_seq &&
           strcmp(f->path, j->cursor) <= 0;
}

static int copy_file(struct mirrors *m, struct job *j,
                     const struct mirror_place *place,
                     const struct workspace_file *f, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    int r;

    if (!f->sha256[0]) {
        /* A first copy has nothing to remove. */
        if (!j->remove || (j->seq == 0 && !j->cursor[0]))
            return 0;
        return mirror_place_remove(place, f->path, err);
    }
    r = workspace_file_open(m->workspaces, NULL, f, &fd, err);
    if (r == 0)
        r = mirror_place_put(place, f, fd, err);
    if (r == 0) {
        j->files++;
        j->bytes += f->size;
    }
    return r;
}

/* 1: the slice is over before the work is. */
static int copy_slice(struct mirrors *m, struct job *j, int64_t head,
                      struct workspace_file *files, size_t count,
                      struct error *err)
{
    uint64_t until_ms = clock_mono_ms() + SLICE_MS;
    struct mirror_place place;
    unsigned done = 0;
    int r =
        mirror_place_find(m, j->tenant, j->destination, "mirror", &place, err);

    if (count)
        qsort(files, count, sizeof(*files), by_path);
    for (size_t i = 0; i < count && r == 0; i++) {
        if (is_done(j, &files[i]))
            continue;
        if (done++ == SLICE_FILES || clock_mono_ms() > until_ms ||
            atomic_load(&m->worker.stopping))
            return 1;
        r = copy_file(m, j, &place, &files[i], err);
        if (r == 0) {
            j->to_seq = head;
            free(j->cursor);
            j->cursor = xstrdup(files[i].path);
        }
    }
    return r;
}

/* Writes down how far it is. head: of a copy that is complete, else 0. The
 * row may have been replaced meanwhile: then nothing of it is changed. */
static int save_job(struct mirrors *m, struct job *j, int64_t head,
                    const char *failure, struct error *err)
{
    struct actor service = {.tenant = j->tenant, .key = "glovebox"};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char commit[ID_MAX] = "", detail[128];
    int64_t now_ms = clock_real_ms();
    int64_t pause_ms =
        MIN((int64_t)RETRY_LEAST_MS << MIN(j->failures, (int64_t)10),
            (int64_t)RETRY_MOST_MS);
    int r = head ? workspace_commit_id(m->workspaces, j->workspace, head,
                                       commit, err)
                 : 0;

    if (r >= 0)
        r = store_begin(m->core->store, STORE_WRITE, "mirroring", &tx, err);
    if (r == 0)
        r = store_exec(
            tx, err,
            "UPDATE mirrors SET files = files + ?1, bytes = bytes + ?2,"
            " to_seq = CASE WHEN ?3 > 0 THEN 0 ELSE ?4 END,"
            " place = CASE WHEN ?3 > 0 THEN '' ELSE ?5 END,"
            " seq = CASE WHEN ?3 > 0 THEN ?3 ELSE seq END,"
            " commit_id = CASE WHEN ?3 > 0 THEN ?6 ELSE commit_id END,"
            " mirrored_at_ms = CASE WHEN ?3 > 0 THEN ?7"
            "  ELSE mirrored_at_ms END,"
            " error = ?8, failures = ?9, retry_at_ms = ?10,"
            " touched_at_ms = ?7"
            " WHERE workspace = ?11 AND destination = ?12 AND seq = ?13",
            "iiiittitiitti", (int64_t)j->files, (int64_t)j->bytes, head,
            j->to_seq, j->cursor, commit, now_ms, failure ? failure : "",
            failure ? j->failures + 1 : 0, failure ? now_ms + pause_ms : 0,
            j->workspace, j->destination, j->seq);
    if (r >= 0 && head) {
        (void)snprintf(
            detail, sizeof(detail), "%llu files, %llu bytes in the last step",
            (unsigned long long)j->files, (unsigned long long)j->bytes);
        r = audit_add(m->core->audit, tx, &service,
                      &(struct audit_event){.action = "mirror.push",
                                            .workspace = j->workspace,
                                            .after = commit,
                                            .path = j->destination,
                                            .detail = detail},
                      err);
    }
    return r < 0 ? r : store_commit(&tx, err);
}

/* 1: there is more to do. */
static int push_job(struct mirrors *m, struct job *j, struct error *err)
{
    struct actor service = {
        .tenant = j->tenant, .key = "glovebox", .admin = true};
    struct workspace_file *files = NULL;
    struct error why;
    size_t count = 0;
    int64_t head = 0;
    int r = workspace_changes(m->workspaces, &service, j->workspace, j->seq,
                              NULL, &files, &count, &head, &why);

    if (r == 0)
        r = copy_slice(m, j, head, files, count, &why);
    workspace_files_free(files, count);
    if (r < 0) {
        if (j->failures == 0)
            log_event(LOG_WARN, "mirror_failed", "workspace", j->workspace,
                      "error", why.message, NULL);
        return save_job(m, j, 0, why.message, err);
    }
    if (r > 0)
        return save_job(m, j, 0, NULL, err) < 0 ? -(int)err->code : 1;
    r = save_job(m, j, head, NULL, err);
    return r;
}

bool mirror_push_round(struct mirrors *m)
{
    struct job *jobs = NULL;
    struct error err;
    size_t count = 0;
    bool more;
    int r = find_jobs(m, &jobs, &count, &err);

    more = r == 0 && count == BATCH;
    for (size_t i = 0; i < count && !atomic_load(&m->worker.stopping); i++) {
        int one = push_job(m, &jobs[i], &err);

        if (one < 0)
            r = one;
        more = more || one > 0;
    }
    if (r < 0)
        log_event(LOG_WARN, "mirror_rows_failed", "error", err.message, NULL);
    jobs_free(jobs, count);
    return more && r == 0;
}

/* The time at which a mirror that failed is due, or a commit that this thread
 * has not seen: both are cheap to look for. */
void mirror_push_main(void *arg)
{
    struct mirrors *m = arg;
    uint64_t seen = UINT64_MAX, look_ms = 0;

    do {
        uint64_t commits = workspaces_commits(m->workspaces);
        uint64_t now_ms = clock_mono_ms();

        if (commits == seen && now_ms < look_ms)
            continue;
        seen = commits;
        look_ms = now_ms + RETRY_LEAST_MS;
        if (mirror_push_round(m))
            look_ms = 0;
    } while (worker_wait(&m->worker, POLL_MS));
}
