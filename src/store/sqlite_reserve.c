/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disk space that is the store's even when the disk is full; see store_reserve
 * in store.h and sqlite_int.h. Runs in the daemon on any thread.
 *
 * The space is set aside in the files that need it, as blocks that the file
 * has and does not use yet. A separate file that is given up when the disk is
 * full would be simpler, but whatever filled the disk would take that space,
 * too. Three quarters are the log's, which every commit goes through first;
 * the rest is behind the database's end, where a checkpoint lets it grow. The
 * log is folded before it outgrows its share, so it can always start over.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "store/sqlite_int.h"

#define FRAME_HEADER 24u /* of the log, before each page */
#define FOLD_LEAST 100u

/* Keeps the log when the last connection closes, or the next start on a full
 * disk had none. */
static void keep_log(struct sqlite_store *s, bool keep)
{
    int persist = keep;

    /* Fails only for a database that is not there. */
    (void)sqlite3_file_control(s->writer->db, "main", SQLITE_FCNTL_PERSIST_WAL,
                               &persist);
    (void)sqlite3_file_control(s->writer->db, "main",
                               SQLITE_FCNTL_JOURNAL_POINTER, &s->log_file);
}

/* Two thirds of its share, so that a commit still fits when it is time. */
static void bound_log(struct sqlite_store *s, uint64_t bytes)
{
    char text[16];
    uint64_t page = 0, frames;

    if (store_sqlite_conn_ask(s->writer, "PRAGMA page_size", text,
                              sizeof(text)) == SQLITE_OK)
        page = strtoull(text, NULL, 10);
    frames = MAX(bytes / (page + FRAME_HEADER) * 2 / 3, (uint64_t)FOLD_LEAST);
    s->fold_frames = (int)MIN((uint64_t)s->fold_frames, frames);
}

/* Bytes behind the database's end. */
static uint64_t db_spare(const struct sqlite_store *s)
{
    struct stat st;
    uint64_t has;

    if (fstat(s->db_fd, &st) < 0)
        return 0;
    has = (uint64_t)st.st_blocks * 512;
    return has > (uint64_t)st.st_size ? has - (uint64_t)st.st_size : 0;
}

static uint64_t reserve_db(struct sqlite_store *s, uint64_t bytes)
{
    struct stat st;

    /* Restored once a quarter of it is used, not at every commit. */
    if (bytes > 0 && db_spare(s) < bytes - bytes / 4 &&
        fstat(s->db_fd, &st) == 0)
        /* What cannot be had now is tried again. */
        (void)fallocate(s->db_fd, FALLOC_FL_KEEP_SIZE, st.st_size,
                        (off_t)bytes);
    return MIN(db_spare(s), bytes);
}

uint64_t store_sqlite_reserve(struct store *base, uint64_t bytes)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    uint64_t log = bytes / 4 * 3;

    if (!s->log_file) {
        keep_log(s, bytes > 0);
        if (bytes > 0)
            bound_log(s, log);
    }
    if (!s->log_file)
        return 0;
    return store_sqlite_log_reserve(s->log_file, log) +
           reserve_db(s, bytes - log);
}
