/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/session/: images, the memory of sessions that sleep.
 *
 *   image_seal.c  the bytes of one at rest: encrypted, authenticated
 *   image.c       files below DIR/images and rows that refer to them
 *
 * One session has at most one image. Its life, as its row has it:
 *
 *   NONE ──stored──▶ READY ──taken──▶ WOKEN ──stored──▶ READY (a new file)
 *                      ▲                │
 *                      ╰────put back────╯   the sandbox did not come up
 *
 *   any ──lost──▶ NONE, with the reason
 *
 * An image resumes once (S2): taking it is one transaction, which only
 * succeeds from READY, or from WOKEN if an earlier run of the service took it.
 * The sandboxes of that run are gone, so this is the way back to the last
 * image after a crash. The file is kept until the next image is stored, or
 * the memory is lost: no crash between taking it and the first answer loses
 * it.
 */
#ifndef GLOVEBOX_SESSION_IMAGE_H
#define GLOVEBOX_SESSION_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ids.h"
#include "session/session.h"
#include "wire/warden_msg.h"

struct actor;
struct box_memory;
struct error;
struct images;
struct session;
struct sessions;

/* ---- image_seal.c ------------------------------------------------------- */

#define IMAGE_KEY 32u
#define IMAGE_HEADER 64u
#define IMAGE_MOST (1ull << 44) /* plain bytes */

/* What an image is bound to (S1). */
struct image_bound {
    const char *tenant, *session, *id;
    int64_t generation;
};

/* from: read from offset 0; to: written from where it is, not synced. */
int image_seal(const unsigned char master[IMAGE_KEY],
               const struct image_bound *bound, int from, uint64_t size,
               int to, struct error *err);
uint64_t image_sealed_size(uint64_t size);
/* ret_fd: the plain bytes in a sealed memfd, all of them authenticated; owned
 * by caller. ERR_CORRUPT: they are not those that were sealed for `bound`.
 * ERR_TOO_LARGE: more than `most`. ERR_BUSY: no memory now. */
int image_unseal(const unsigned char master[IMAGE_KEY],
                 const struct image_bound *bound, int from, uint64_t most,
                 int *ret_fd, struct error *err);

/* ---- image.c ------------------------------------------------------------ */

enum image_state { /* as stored */
    IMAGE_NONE,
    IMAGE_READY,
    IMAGE_WOKEN,
};

/* The row of a session; session.lock. */
struct session_image {
    enum image_state state;
    enum session_loss why; /* NONE: why there is none */
    int64_t generation;
    char id[ID_MAX]; /* "" : no file */
    uint64_t bytes;
    uint32_t uncarried; /* enum box_uncarried: was not carried */
    uint32_t cells;     /* executions of the session when it was made */
    int64_t made_at_ms;
    unsigned char zygote[WARDEN_ZYGOTE_ID]; /* whose forks can continue it */
    bool left_over; /* WOKEN by an earlier run of the service */
};

/* Without a data directory or a vault there are no images (unit tests). Then,
 * and after close, session_image_possible is false. Removes files without a
 * row, and rows without a file. */
int images_open(struct sessions *m, struct error *err);
void images_close(struct sessions *m);
bool session_image_possible(const struct session *se);
/* Does the row say that there is something to wake from? */
bool session_image_there(const struct session_image *image);
/* Columns of `sessions` that session_image_read reads, from `column` on. */
#define SESSION_IMAGE_SQL(name)                                               \
    "(SELECT i." name " FROM images AS i WHERE i.session = sessions.id)"
#define SESSION_IMAGE_COLUMNS                                                                                                                               \
    SESSION_IMAGE_SQL("state")                                                                                                                              \
    ", " SESSION_IMAGE_SQL("why") ", " SESSION_IMAGE_SQL("generation") ", " SESSION_IMAGE_SQL("id") ", " SESSION_IMAGE_SQL("bytes") ", " SESSION_IMAGE_SQL( \
        "uncarried") ", " SESSION_IMAGE_SQL("cells") ", " SESSION_IMAGE_SQL("made_at_ms") ", " SESSION_IMAGE_SQL("run") ", " SESSION_IMAGE_SQL("zygote")
struct store_rows;
void session_image_read(const struct sessions *m, struct store_rows *rows,
                        int column, struct session_image *ret);

/* Stores `size` bytes of fd as the image of the session, in place of the one
 * before; on disk when it returns 0. ERR_SPACE: quota or disk. The caller has
 * the session in phase HIBERNATING. */
int session_image_store(struct session *se, const struct actor *who, int fd,
                        uint64_t size, const struct box_memory *memory,
                        struct error *err);
/* Opens the image and takes it. *ret_fd: the plain bytes; -1: it cannot be
 * used, *ret_why says why, and it is lost. Fails where a later try may
 * succeed; then the image is as it was. Phase WAKING, as the next. */
int session_image_take(struct session *se, int *ret_fd,
                       enum session_loss *ret_why, struct error *err);
/* No sandbox came up with it: it can be taken again. */
void session_image_put_back(struct session *se);
/* Gives up the memory that is stored, if any, and notes why: any phase. */
void session_image_lose(struct session *se, enum session_loss why);
/* The session has an interpreter again and its next answer says why it is a
 * new one: after that the reason is of no use. */
void session_image_told(struct session *se);
/* In the transaction that deletes the session; then, after its commit,
 * removed: deletes the file. */
struct store_tx;
int session_image_delete(struct session *se, struct store_tx *tx,
                         struct error *err);
void session_image_removed(struct session *se);
/* Removes images that are older than they may be, or whose session or
 * workspace is gone. Called by the reaper now and then. */
void images_sweep(struct sessions *m);

#endif
