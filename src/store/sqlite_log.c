/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VFS through which the writing connection writes its log; see
 * sqlite_int.h. SQLite appends a page to the log with two writes, frame header
 * and page: a hundred pairs for a group of commits. This VFS collects
 * consecutive writes and passes them to SQLite's own file as one: before a
 * sync, before any other operation on the file, and when the buffer is full.
 * Runs in the daemon on the thread that has the connection.
 *
 * Writing later is safe: no caller learns of a commit, and no reader finds its
 * pages in the log's index, before the sync has returned; and a write that
 * failed makes that sync fail.
 *
 * The log also keeps its reserved blocks (sqlite_reserve.c). SQLite empties it
 * by truncation, which would return them to a disk that may be full; this VFS
 * overwrites it with zeroes. The header comes first, with a sync: a log with a
 * valid header and a missing end would bring old pages back.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/sqlite_int.h"

#define LOG_HEADER 32u /* bytes, by the format of the file */

/* SQLite's own file writes no more than 0x1ffff bytes at once. */
#define GATHER_BYTES (124u << 10)

struct log_file {
    sqlite3_file base; /* first: what SQLite sees */
    char *gathered;
    size_t len;
    sqlite3_int64 at; /* where it goes */
    int fd;           /* the same file, for fallocate */
    /* Bytes whose blocks stay; LOG_KEEP_ALL until store_reserve. */
    _Atomic uint64_t keep;
};

/* The reservation of an earlier run stays until store_reserve is called. */
#define LOG_KEEP_ALL UINT64_MAX

/* SQLite's own file, stored behind ours. */
static sqlite3_file *real_of(sqlite3_file *f)
{
    return (sqlite3_file *)((struct log_file *)f + 1);
}

/* A failed write is not repeated: SQLite rolls the commit back. */
static int log_flush(sqlite3_file *f)
{
    struct log_file *log = (struct log_file *)f;
    size_t len = log->len;

    log->len = 0;
    if (!len)
        return SQLITE_OK;
    return real_of(f)->pMethods->xWrite(real_of(f), log->gathered, (int)len,
                                        log->at);
}

static int log_write(sqlite3_file *f, const void *bytes, int len,
                     sqlite3_int64 at)
{
    struct log_file *log = (struct log_file *)f;
    int code = SQLITE_OK;

    if (log->len && (at != log->at + (sqlite3_int64)log->len ||
                     log->len + (size_t)len > GATHER_BYTES))
        code = log_flush(f);
    if (code != SQLITE_OK)
        return code;
    if ((size_t)len > GATHER_BYTES)
        return real_of(f)->pMethods->xWrite(real_of(f), bytes, len, at);
    if (!log->len)
        log->at = at;
    memcpy(log->gathered + log->len, bytes, (size_t)len);
    log->len += (size_t)len;
    return SQLITE_OK;
}

/* ---- other operations flush first --------------------------------------- */

static int log_close(sqlite3_file *f)
{
    int flushed = log_flush(f);
    int code = real_of(f)->pMethods->xClose(real_of(f));

    free(((struct log_file *)f)->gathered);
    fd_close(&((struct log_file *)f)->fd);
    return flushed == SQLITE_OK ? code : flushed;
}

static int log_read(sqlite3_file *f, void *ret, int len, sqlite3_int64 at)
{
    int code = log_flush(f);

    return code == SQLITE_OK
               ? real_of(f)->pMethods->xRead(real_of(f), ret, len, at)
               : code;
}

/* Overwrites with zeroes, keeping the blocks. 1: not supported here. */
static int empty_in_place(struct log_file *log, uint64_t keep)
{
    static const char nothing[LOG_HEADER];
    struct stat st;

    if (fstat(log->fd, &st) < 0)
        return 1;
    if (st.st_size == 0)
        return SQLITE_OK;
    if (pwrite(log->fd, nothing, sizeof(nothing), 0) != sizeof(nothing))
        return 1;
    if (fdatasync(log->fd) < 0)
        return SQLITE_IOERR_FSYNC;
    if ((uint64_t)st.st_size > keep) {
        if (ftruncate(log->fd, (off_t)keep) < 0)
            return 1;
        st.st_size = (off_t)keep;
    }
    return fallocate(log->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0,
                     st.st_size) == 0
               ? SQLITE_OK
               : 1;
}

static int log_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct log_file *log = (struct log_file *)f;
    uint64_t keep = log->keep;
    int code = log_flush(f);

    if (code != SQLITE_OK)
        return code;
    if (size == 0 && keep > 0 && log->fd >= 0)
        code = empty_in_place(log, keep);
    else
        code = 1;
    if (code != 1)
        return code;
    code = real_of(f)->pMethods->xTruncate(real_of(f), size);
    if (code == SQLITE_OK && keep > 0 && keep != LOG_KEEP_ALL)
        (void)store_sqlite_log_reserve(f, keep);
    return code;
}

uint64_t store_sqlite_log_reserve(sqlite3_file *f, uint64_t bytes)
{
    struct log_file *log = (struct log_file *)f;
    struct stat st;

    log->keep = bytes;
    if (log->fd < 0 || fstat(log->fd, &st) < 0)
        return 0;
    if (bytes > 0 && (uint64_t)st.st_blocks * 512 < bytes) {
        /* The next call tries again. */
        (void)fallocate(log->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
        if (fstat(log->fd, &st) < 0)
            return 0;
    }
    return MIN((uint64_t)st.st_blocks * 512, bytes);
}

static int log_sync(sqlite3_file *f, int flags)
{
    int code = log_flush(f);

    return code == SQLITE_OK ? real_of(f)->pMethods->xSync(real_of(f), flags)
                             : code;
}

static int log_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    int code = log_flush(f);

    return code == SQLITE_OK ? real_of(f)->pMethods->xFileSize(real_of(f), ret)
                             : code;
}

static int log_lock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int log_unlock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int log_reserved(sqlite3_file *f, int *ret)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), ret);
}

static int log_control(sqlite3_file *f, int what, void *arg)
{
    int code = log_flush(f);

    return code == SQLITE_OK
               ? real_of(f)->pMethods->xFileControl(real_of(f), what, arg)
               : code;
}

static int log_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int log_device(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

/* Version 1 suffices for a log: shared memory and mapped pages belong to the
 * database. */
static const sqlite3_io_methods log_methods = {
    .iVersion = 1,
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_reserved,
    .xFileControl = log_control,
    .xSectorSize = log_sector,
    .xDeviceCharacteristics = log_device,
};

/* ---- the database keeps its reserve too --------------------------------- */

/* After every checkpoint SQLite truncates the database to its current size,
 * which would free the blocks reserved behind its end. */
static int truncate_unless_same(int fd, off_t size)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && st.st_size == size)
        return 0;
    return ftruncate(fd, size);
}

/* ---- the VFS ------------------------------------------------------------ */

static int layer_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f,
                      int flags, int *ret_flags)
{
    sqlite3_vfs *real = sqlite3_vfs_find(STORE_SQLITE_VFS);
    struct log_file *log = (struct log_file *)f;
    int code;

    (void)vfs;
    if (!(flags & SQLITE_OPEN_WAL))
        return real->xOpen(real, name, f, flags, ret_flags);
    memset(log, 0, sizeof(*log));
    log->fd = -1;
    log->keep = LOG_KEEP_ALL;
    code = real->xOpen(real, name, real_of(f), flags, ret_flags);
    if (code == SQLITE_OK) {
        /* SQLite holds no lock on this file that closing could drop. */
        log->fd = open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        log->gathered = xmalloc(GATHER_BYTES);
        log->base.pMethods = &log_methods;
    } else if (real_of(f)->pMethods) {
        (void)real_of(f)->pMethods->xClose(real_of(f)); /* it never was open */
    }
    return code;
}

/* Everything but open is the real VFS's. It identifies files by inode, so
 * connections through it and through this one share locks and the index. */
static void layer_register(void)
{
    static sqlite3_vfs layer;
    sqlite3_vfs *real = sqlite3_vfs_find(STORE_SQLITE_VFS);

    if (!real)
        return;
    /* If refused, less stays reserved. */
    (void)real->xSetSystemCall(real, "ftruncate",
                               (sqlite3_syscall_ptr)truncate_unless_same);
    layer = *real;
    layer.pNext = NULL;
    layer.zName = STORE_SQLITE_LOG_VFS;
    layer.szOsFile += (int)sizeof(struct log_file);
    layer.xOpen = layer_open;
    (void)sqlite3_vfs_register(&layer, 0); /* else opening by its name fails */
}

const char *store_sqlite_log_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, layer_register); /* fails only on misuse */
    return STORE_SQLITE_LOG_VFS;
}
