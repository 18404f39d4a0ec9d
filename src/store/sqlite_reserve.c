/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disk space reserved for the store; see store_reserve in store.h and
 * sqlite_int.h. Runs in the daemon on any thread.
 *
 * The space is reserved in the files that need it, as allocated blocks that
 * are not used yet. A separate file, deleted when the disk is full, would be
 * simpler, but whatever filled the disk would take its space too. Three
 * quarters belong to the log, through which every commit goes first; the rest
 * is behind the end of the database, where a checkpoint extends it. The log is
 * checkpointed before it outgrows its share, so that it can always restart.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "store/sqlite_int.h"

#define FRAME_HEADER 24u /* of the log, before each page */
#define FOLD_LEAST 100u

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

    /* Restored when a quarter of it is used, not at every commit. */
    if (bytes > 0 && db_spare(s) < bytes - bytes / 4 &&
        fstat(s->db_fd, &st) == 0)
        /* The next call tries again. */
        (void)fallocate(s->db_fd, FALLOC_FL_KEEP_SIZE, st.st_size,
                        (off_t)bytes);
    return MIN(db_spare(s), bytes);
}

uint64_t store_sqlite_reserve(struct store *base, uint64_t bytes)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    uint64_t log = bytes / 4 * 3;

    if (!s->log_file) {
        int persist = bytes > 0;

        /* Keeps the log file when the last connection closes: on a full disk
         * the next start could not create it. Both calls fail only for a
         * database that does not exist. */
        (void)sqlite3_file_control(s->writer->db, "main",
                                   SQLITE_FCNTL_PERSIST_WAL, &persist);
        (void)sqlite3_file_control(s->writer->db, "main",
                                   SQLITE_FCNTL_JOURNAL_POINTER, &s->log_file);
        if (bytes > 0) {
            /* Checkpoint at two thirds of the share, so that one more commit
             * fits. */
            char text[16];
            uint64_t page = 0, frames;

            if (store_sqlite_conn_text(s->writer, "PRAGMA page_size", text,
                                       sizeof(text)) == SQLITE_OK)
                page = strtoull(text, NULL, 10);
            frames =
                MAX(log / (page + FRAME_HEADER) * 2 / 3, (uint64_t)FOLD_LEAST);
            s->checkpoint_frames =
                (int)MIN((uint64_t)s->checkpoint_frames, frames);
        }
    }
    if (!s->log_file)
        return 0;
    return store_sqlite_log_reserve(s->log_file, log) +
           reserve_db(s, bytes - log);
}
