/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free space and health of the data directory's disk; see disk.h. Runs in the
 * daemon: disk_admit on the thread that wants to write, the rest on the thread
 * disk-watch.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "disk/disk_int.h"

#define PROBE_BYTES 512u
#define STOP_MS 2000u /* a thread that a dead disk holds is left behind */

/* ---- room ----------------------------------------------------------------
 */

bool disk_has_room(const struct disk_room *room, uint64_t keep, uint64_t want)
{
    if (keep == 0)
        return true;
    return room->files >= DISK_FREE_FILES && room->bytes >= keep &&
           room->bytes - keep >= want;
}

bool disk_is_full(const struct disk_room *room, uint64_t keep, bool was)
{
    return !disk_has_room(room, keep, was ? keep / 8 : 0);
}

static int read_free_space(struct disk *d, struct disk_room *ret)
{
    struct statvfs fs;

    if (fstatvfs(d->dir, &fs) < 0)
        return -errno;
    ret->bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    ret->files = fs.f_files ? fs.f_favail : UINT64_MAX;
    return 0;
}

static void log_room(enum log_level level, const char *event,
                     const struct disk *d)
{
    char bytes[24], files[24], keep[24];

    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, d->room.bytes);
    (void)snprintf(files, sizeof(files), "%" PRIu64, d->room.files);
    (void)snprintf(keep, sizeof(keep), "%" PRIu64, d->keep);
    log_event(level, event, "free_bytes", bytes, "free_files",
              d->room.files == UINT64_MAX ? NULL : files, "kept_bytes", keep,
              NULL);
}

/* refused: a write failed for lack of space. */
static void note_room(struct disk *d, const struct disk_room *room,
                      bool refused)
{
    bool was = d->full;

    mutex_assert_held(&d->lock);
    d->room = *room;
    d->full = refused || disk_is_full(room, d->keep, was);
    if (d->full || was)
        d->was_full_ms = clock_mono_ms();
    if (d->full && !was)
        log_room(LOG_ERROR, "disk_full", d);
    else if (was && !d->full)
        log_room(LOG_INFO, "disk_has_room_again", d);
}

int disk_refuse(struct error *err)
{
    (void)error_set(err, ERR_SPACE, "the service's disk is full");
    return error_hint(
        err, "Nothing was stored. Reading and deleting still work. To free "
             "space, delete files, then give up what was deleted for good: "
             "`glovebox workspaces purge WORKSPACE` (POST "
             "/api/workspaces/{id}/purge). Or ask the operator for more "
             "space.");
}

int disk_admit(struct disk *d, uint64_t bytes, struct error *err)
{
    struct disk_room room;
    bool refused;

    /* If the disk cannot be examined, the write itself will report it. */
    if (!d || d->look(d, &room) < 0)
        return 0;
    mutex_lock(&d->lock);
    refused = disk_is_full(&room, d->keep, d->full) ||
              !disk_has_room(&room, d->keep, bytes);
    note_room(d, &room, refused);
    d->refused += refused;
    mutex_unlock(&d->lock);
    return refused ? disk_refuse(err) : 0;
}

bool disk_full_since(struct disk *d, uint64_t mono_ms)
{
    bool full;

    if (!d)
        return false;
    mutex_lock(&d->lock);
    full = d->full || (d->was_full_ms && d->was_full_ms >= mono_ms);
    mutex_unlock(&d->lock);
    return full;
}

uint64_t disk_share(const struct disk *d, uint64_t bytes)
{
    return MIN(bytes, d->total / 4);
}

/* ---- health --------------------------------------------------------------
 */

/* Overwrites a block that the file already has, so that a disk that is only
 * full is not taken for a broken one. */
static int probe(struct disk *d)
{
    static const char bytes[PROBE_BYTES] =
        "Written and synced every few seconds to see whether the disk "
        "works.\n";
    int fd cleanup(fd_close) =
        openat(d->dir, DISK_PROBE_FILE,
               O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t n;

    if (fd < 0)
        return -errno;
    do
        n = pwrite(fd, bytes, sizeof(bytes), 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 || fdatasync(fd) < 0)
        return -errno;
    return n == (ssize_t)sizeof(bytes) ? 0 : -ENOSPC;
}

static bool is_space(int errnum)
{
    return errnum == ENOSPC || errnum == EDQUOT;
}

static void note_fault(struct disk *d, int errnum)
{
    int before = d->fault;

    mutex_assert_held(&d->lock);
    d->fault = errnum;
    if (errnum && !before)
        log_event(LOG_ERROR, "disk_probe_failed", "error",
                  strerrordesc_np(errnum), NULL);
    else if (before && !errnum)
        log_event(LOG_INFO, "disk_works_again", NULL);
}

void disk_turn(struct disk *d, uint64_t now_ms)
{
    bool due = !d->probed_ms || now_ms - d->probed_ms >= DISK_PROBE_MS;
    struct disk_room room;
    int r, probed = 0;

    mutex_lock(&d->lock);
    d->begun_ms = now_ms;
    mutex_unlock(&d->lock);
    r = d->look(d, &room);
    if (due)
        probed = d->probe(d);
    mutex_lock(&d->lock);
    d->begun_ms = 0;
    if (r == 0)
        note_room(d, &room, false);
    if (due)
        d->probed_ms = now_ms;
    if (r < 0 || due)
        note_fault(d, r < 0 ? -r : -probed);
    mutex_unlock(&d->lock);
}

/* Releases the lock during the call. */
static void refill(struct disk *d)
{
    uint64_t (*fn)(void *ctx) = d->refill;
    void *ctx = d->refill_ctx;
    uint64_t held;

    mutex_assert_held(&d->lock);
    if (!fn || d->full || d->fault)
        return;
    d->refilling = true;
    mutex_unlock(&d->lock);
    held = fn(ctx);
    mutex_lock(&d->lock);
    d->refilling = false;
    d->reserve = held;
    cond_broadcast(&d->changed);
}

static void disk_watch_main(void *arg)
{
    struct disk *d = arg;

    mutex_lock(&d->lock);
    while (!d->stopping) {
        uint64_t deadline = clock_mono_ms() + DISK_LOOK_MS;

        refill(d);
        while (!d->stopping &&
               cond_wait_until(&d->changed, &d->lock, deadline))
            ;
        if (d->stopping)
            break;
        mutex_unlock(&d->lock);
        disk_turn(d, clock_mono_ms());
        mutex_lock(&d->lock);
    }
    d->ended = true;
    cond_broadcast(&d->changed);
    mutex_unlock(&d->lock);
}

/* ---- status --------------------------------------------------------------
 */

const char *disk_mode_name(enum disk_mode mode)
{
    static const char *const names[] = {[DISK_WORKS] = "works",
                                        [DISK_FULL] = "full",
                                        [DISK_FAILED] = "failed"};

    return names[mode];
}

static void explain(const struct disk *d, uint64_t stalled_ms,
                    struct disk_state *ret)
{
    if (stalled_ms)
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "no answer for %" PRIu64 " seconds", stalled_ms / 1000);
    else if (ret->mode == DISK_FAILED)
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "it cannot be written: %s", strerrordesc_np(d->fault));
    else if (ret->mode == DISK_FULL && d->room.files < DISK_FREE_FILES)
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "full: %" PRIu64 " files can still be "
                       "made, new work needs %u; reading and deleting go on",
                       d->room.files, DISK_FREE_FILES);
    else if (ret->mode == DISK_FULL)
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "full: %" PRIu64 " MiB are free, new work "
                       "needs %" PRIu64 " MiB; reading and deleting go on",
                       d->room.bytes >> 20, (d->keep + d->keep / 8) >> 20);
}

void disk_state_at(struct disk *d, uint64_t now_ms, struct disk_state *ret)
{
    uint64_t stalled_ms;

    mutex_lock(&d->lock);
    stalled_ms =
        d->begun_ms && now_ms > d->begun_ms ? now_ms - d->begun_ms : 0;
    if (stalled_ms < DISK_STALL_MS)
        stalled_ms = 0;
    *ret = (struct disk_state){.free_bytes = d->room.bytes,
                               .kept_bytes = d->keep,
                               .reserve_bytes = d->reserve,
                               .refused = d->refused};
    if (stalled_ms || (d->fault && !is_space(d->fault)))
        ret->mode = DISK_FAILED;
    else if (d->full || d->fault)
        ret->mode = DISK_FULL;
    explain(d, stalled_ms, ret);
    mutex_unlock(&d->lock);
}

void disk_state(struct disk *d, struct disk_state *ret)
{
    disk_state_at(d, clock_mono_ms(), ret);
}

/* ---- begin and end -------------------------------------------------------
 */

void disk_refill(struct disk *d, uint64_t (*fn)(void *ctx), void *ctx)
{
    mutex_lock(&d->lock);
    d->refill = fn;
    d->refill_ctx = ctx;
    while (!fn && d->refilling)
        cond_wait(&d->changed, &d->lock);
    mutex_unlock(&d->lock);
}

int disk_open(const struct disk_settings *settings, struct disk **ret,
              struct error *err)
{
    struct disk *d = xcalloc(1, sizeof(*d));
    struct statvfs fs;
    int r;

    d->total = UINT64_MAX;
    d->look = read_free_space;
    d->probe = probe;
    d->room.files = UINT64_MAX;
    mutex_init(&d->lock);
    cond_init(&d->changed);
    d->dir = open(settings->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir < 0) {
        r = error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                        settings->data_dir);
        disk_close(d);
        return r;
    }
    if (fstatvfs(d->dir, &fs) == 0)
        d->total = (uint64_t)fs.f_blocks * fs.f_frsize;
    d->keep = disk_share(d, settings->free_bytes);
    disk_turn(d, clock_mono_ms());
    r = thread_start(&d->thread, "disk-watch", disk_watch_main, d, err);
    if (r < 0) {
        disk_close(d);
        return r;
    }
    *ret = d;
    return 0;
}

/* False: the disk holds it. */
static bool stop_thread(struct disk *d)
{
    uint64_t deadline = clock_mono_ms() + STOP_MS;
    bool ended;

    mutex_lock(&d->lock);
    d->stopping = true;
    cond_broadcast(&d->changed);
    while (!d->ended && cond_wait_until(&d->changed, &d->lock, deadline))
        ;
    ended = d->ended;
    mutex_unlock(&d->lock);
    if (ended)
        thread_join(&d->thread); /* at once: it is about to return */
    return ended;
}

void disk_close(struct disk *d)
{
    if (!d)
        return;
    if (d->thread.started && !stop_thread(d))
        return; /* it still uses the struct; the process ends soon */
    fd_close(&d->dir);
    cond_done(&d->changed);
    mutex_done(&d->lock);
    free(d);
}
