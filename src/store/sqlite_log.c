/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the writing connection writes its log; see sqlite_int.h. SQLite adds a
 * page to the log in two calls, its header and the page, a hundred pairs for a
 * group of commits. Here what follows on what was just written is gathered,
 * and given to SQLite's own file as one piece: before a sync, before anything
 * else is done with the file, and when there is enough of it. Runs in the
 * daemon on the thread that has the connection.
 *
 * Nothing depends on it being written sooner: a commit is told to nobody, nor
 * put into the index of the log by which others find its pages, before the
 * sync has returned, and what could not be written is what that sync answers.
 */
#include <string.h>

#include "base/mem.h"
#include "store/sqlite_int.h"

/* SQLite's own file writes no more than 0x1ffff bytes at once. */
#define GATHER_BYTES (124u << 10)

struct log_file {
    sqlite3_file base; /* first: what SQLite sees */
    char *gathered;
    size_t len;
    sqlite3_int64 at; /* where it goes */
};

/* SQLite's own file, in the room we asked for behind ours. */
static sqlite3_file *real_of(sqlite3_file *f)
{
    return (sqlite3_file *)((struct log_file *)f + 1);
}

/* What fails is not tried again: SQLite takes the whole commit back. */
static int flush(sqlite3_file *f)
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
        code = flush(f);
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

/* ---- everything else, behind what was gathered -------------------------- */

static int log_close(sqlite3_file *f)
{
    int flushed = flush(f);
    int code = real_of(f)->pMethods->xClose(real_of(f));

    free(((struct log_file *)f)->gathered);
    return flushed == SQLITE_OK ? code : flushed;
}

static int log_read(sqlite3_file *f, void *ret, int len, sqlite3_int64 at)
{
    int code = flush(f);

    return code == SQLITE_OK
               ? real_of(f)->pMethods->xRead(real_of(f), ret, len, at)
               : code;
}

static int log_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int code = flush(f);

    return code == SQLITE_OK
               ? real_of(f)->pMethods->xTruncate(real_of(f), size)
               : code;
}

static int log_sync(sqlite3_file *f, int flags)
{
    int code = flush(f);

    return code == SQLITE_OK ? real_of(f)->pMethods->xSync(real_of(f), flags)
                             : code;
}

static int log_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    int code = flush(f);

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
    int code = flush(f);

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

/* What version 1 has is all that is asked of a log: shared memory and mapped
 * pages are the database's. */
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

/* ---- the layer ---------------------------------------------------------- */

static int layer_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f,
                      int flags, int *ret_flags)
{
    sqlite3_vfs *real = sqlite3_vfs_find(STORE_SQLITE_LAYER);
    struct log_file *log = (struct log_file *)f;
    int code;

    (void)vfs;
    if (!(flags & SQLITE_OPEN_WAL))
        return real->xOpen(real, name, f, flags, ret_flags);
    memset(log, 0, sizeof(*log));
    code = real->xOpen(real, name, real_of(f), flags, ret_flags);
    if (code == SQLITE_OK) {
        log->gathered = xmalloc(GATHER_BYTES);
        log->base.pMethods = &log_methods;
    } else if (real_of(f)->pMethods) {
        (void)real_of(f)->pMethods->xClose(real_of(f)); /* never was open */
    }
    return code;
}

/* All but opening is the real layer's, which knows files by their inodes: a
 * connection through it and one through this share locks and the index. */
static void layer_register(void)
{
    static sqlite3_vfs layer;
    const sqlite3_vfs *real = sqlite3_vfs_find(STORE_SQLITE_LAYER);

    if (!real)
        return;
    layer = *real;
    layer.pNext = NULL;
    layer.zName = STORE_SQLITE_LOG_LAYER;
    layer.szOsFile += (int)sizeof(struct log_file);
    layer.xOpen = layer_open;
    (void)sqlite3_vfs_register(&layer, 0); /* opening by its name fails */
}

const char *store_sqlite_log_layer(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, layer_register); /* fails only on misuse */
    return STORE_SQLITE_LOG_LAYER;
}
