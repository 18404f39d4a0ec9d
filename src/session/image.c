/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of sessions: files below DIR/images, each named by a row. Runs in
 * gloveboxd on the thread that puts a session to sleep or wakes it.
 *
 * A file is whole and on disk before its row is (D1); its row is gone before
 * the file is (D2). What a crash leaves between the two, a file without a row,
 * is removed by the next start.
 */
#include <dirent.h>
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
#include "session/image.h"
#include "session/session_int.h"
#include "store/store.h"
#include "vault/vault.h"

#define FOLDER "images"
#define PART ".part" /* of a file that is being written */
#define SWEEP_MAX 64u

struct images {
    int dir;
    char run[ID_MAX]; /* of the service, for S2 */
    unsigned char key[IMAGE_KEY];
};

_Static_assert(IMAGE_KEY == VAULT_DERIVED, "the vault makes the key");

bool session_image_possible(const struct session *se)
{
    return se->m->images && se->stored && !se->ephemeral;
}

bool session_image_there(const struct session_image *image)
{
    return image->state == IMAGE_READY ||
           (image->state == IMAGE_WOKEN && image->left_over);
}

/* As text, 32 digits; anything else is unknown. */
static void read_zygote(const char *text, unsigned char ret[WARDEN_ZYGOTE_ID])
{
    memset(ret, 0, WARDEN_ZYGOTE_ID);
    if (text && strlen(text) == 2 * WARDEN_ZYGOTE_ID)
        for (size_t i = 0; i < WARDEN_ZYGOTE_ID; i++)
            if (sscanf(text + 2 * i, "%2hhx", &ret[i]) != 1)
                ret[i] = 0;
}

static const char *write_zygote(const unsigned char id[WARDEN_ZYGOTE_ID],
                                char ret[2 * WARDEN_ZYGOTE_ID + 1])
{
    for (size_t i = 0; i < WARDEN_ZYGOTE_ID; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", id[i]);
    return ret;
}

void session_image_read(const struct sessions *m, struct store_rows *rows,
                        int column, struct session_image *ret)
{
    const char *run = store_text(rows, column + 8);

    *ret = (struct session_image){
        .state = (enum image_state)store_int(rows, column),
        .why = (enum session_loss)store_int(rows, column + 1),
        .generation = store_int(rows, column + 2),
        .bytes = (uint64_t)store_int(rows, column + 4),
        .uncarried = (uint32_t)store_int(rows, column + 5),
        .cells = (uint32_t)store_int(rows, column + 6),
        .made_at_ms = store_int(rows, column + 7),
        .left_over =
            run && run[0] && m->images && strcmp(run, m->images->run) != 0};
    store_copy(rows, column + 3, ret->id, sizeof(ret->id));
    read_zygote(store_text(rows, column + 9), ret->zygote);
    if ((unsigned)ret->why >= SESSION_LOSSES)
        ret->why = SESSION_LOSS_NONE;
}

/* ---- files -------------------------------------------------------------- */

static void remove_file(struct sessions *m, const char *id)
{
    if (!m->images || !id[0])
        return;
    if (unlinkat(m->images->dir, id, 0) < 0 && errno != ENOENT)
        log_event(LOG_WARN, "image_not_removed", "image", id, "error",
                  strerror(errno), NULL);
}

static int disk_failed(int errnum, struct error *err)
{
    if (errnum == ENOSPC || errnum == EDQUOT)
        return error_set(err, ERR_SPACE, "no room left to store an image");
    return error_errno(err, ERR_INTERNAL, errnum, "cannot store an image");
}

/* On disk under its name when it returns 0; else nothing is left. */
static int write_file(struct session *se, const struct image_bound *bound,
                      int from, uint64_t size, struct error *err)
{
    struct images *im = se->m->images;
    int fd cleanup(fd_close) = -1;
    char part[ID_MAX + sizeof(PART)];
    int rc;

    (void)snprintf(part, sizeof(part), "%s" PART, bound->id);
    fd = openat(im->dir, part,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return disk_failed(errno, err);
    rc = image_seal(im->key, bound, from, size, fd, err);
    if (rc == 0 &&
        (fsync(fd) < 0 || renameat(im->dir, part, im->dir, bound->id) < 0 ||
         fsync(im->dir) < 0))
        rc = disk_failed(errno, err);
    if (rc < 0) {
        (void)unlinkat(im->dir, part, 0); /* or under its name: */
        (void)unlinkat(im->dir, bound->id, 0);
    }
    return rc;
}

/* ---- storing ------------------------------------------------------------ */

static int put_row(struct session *se, const struct actor *who,
                   const struct session_image *image, struct error *err)
{
    const struct core *core = se->m->core;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char detail[64], zygote[2 * WARDEN_ZYGOTE_ID + 1];
    struct audit_event event = {.action = "session.hibernate",
                                .workspace = se->workspace,
                                .object = se->id,
                                .after = image->id,
                                .detail = detail};
    int rc =
        store_begin(core->store, STORE_WRITE, "storing an image", &tx, err);

    (void)snprintf(detail, sizeof(detail), "%llu bytes",
                   (unsigned long long)image->bytes);
    if (rc == 0)
        rc = workspace_storage_take(se->m->workspaces, tx, se->tenant->name,
                                    se->id, image->bytes, err);
    if (rc == 0) /* none without its session, which may have been deleted */
        rc = store_exec(
            tx, err,
            "INSERT INTO images (session, id, tenant, workspace, generation,"
            " state, why, run, bytes, uncarried, cells, made_at_ms, zygote)"
            " SELECT s.id, ?2, ?3, ?4, ?5, ?6, 0, '', ?7, ?8, ?9, ?10, ?11"
            " FROM sessions AS s WHERE s.id = ?1"
            " ON CONFLICT (session) DO UPDATE SET id = excluded.id,"
            " generation = excluded.generation, state = excluded.state,"
            " why = 0, run = '', bytes = excluded.bytes,"
            " uncarried = excluded.uncarried, cells = excluded.cells,"
            " made_at_ms = excluded.made_at_ms, zygote = excluded.zygote"
            " WHERE images.generation < excluded.generation",
            "ttttiiiiiit", se->id, image->id, se->tenant->name, se->workspace,
            image->generation, (int64_t)IMAGE_READY, (int64_t)image->bytes,
            (int64_t)image->uncarried, (int64_t)image->cells,
            image->made_at_ms, write_zygote(image->zygote, zygote));
    if (rc == 0)
        rc = error_set(err, ERR_NOT_FOUND, "no such session");
    else
        rc = MIN(rc, 0);
    if (rc == 0)
        rc = audit_add(core->audit, tx, who, &event, err);
    if (rc == 0)
        rc = store_commit(&tx, err);
    return rc;
}

int session_image_store(struct session *se, const struct actor *who, int fd,
                        uint64_t size, const struct box_memory *memory,
                        struct error *err)
{
    struct session_image image = {.state = IMAGE_READY,
                                  .bytes = image_sealed_size(size),
                                  .uncarried = memory->uncarried,
                                  .made_at_ms = clock_real_ms()};
    char old[ID_MAX];
    int rc = disk_admit(se->m->disk, image.bytes, err);

    if (rc < 0)
        return rc;
    ids_make("img", image.id);
    memcpy(image.zygote, memory->zygote, sizeof(image.zygote));
    mutex_lock(&se->lock);
    image.generation = se->image.generation + 1;
    image.cells = se->executions;
    memcpy(old, se->image.id, sizeof(old));
    mutex_unlock(&se->lock);
    rc = write_file(se,
                    &(struct image_bound){.tenant = se->tenant->name,
                                          .session = se->id,
                                          .id = image.id,
                                          .generation = image.generation},
                    fd, size, err);
    if (rc < 0)
        return rc;
    rc = put_row(se, who, &image, err);
    if (rc < 0) {
        remove_file(se->m, image.id);
        return rc;
    }
    mutex_lock(&se->lock);
    se->image = image;
    mutex_unlock(&se->lock);
    remove_file(se->m, old);
    return 0;
}

/* ---- taking ------------------------------------------------------------- */

static struct session_image copy_image(struct session *se)
{
    struct session_image image;

    mutex_lock(&se->lock);
    image = se->image;
    mutex_unlock(&se->lock);
    return image;
}

/* The generation is consumed here, or not at all (S2). 1, 0, -code. */
static int consume(struct session *se, const struct session_image *image,
                   struct error *err)
{
    const struct core *core = se->m->core;
    const char *run = se->m->images->run;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct actor who = session_actor(se);
    struct audit_event event = {.action = "session.wake",
                                .workspace = se->workspace,
                                .object = se->id,
                                .before = image->id};
    int rc =
        store_begin(core->store, STORE_WRITE, "waking a session", &tx, err);

    if (rc == 0)
        rc = store_exec(tx, err,
                        "UPDATE images SET state = ?4, run = ?5"
                        " WHERE session = ?1 AND id = ?2 AND generation = ?3"
                        " AND (state = ?6 OR (state = ?4 AND run <> ?5))",
                        "ttiiti", se->id, image->id, image->generation,
                        (int64_t)IMAGE_WOKEN, run, (int64_t)IMAGE_READY);
    if (rc <= 0)
        return rc;
    rc = audit_add(core->audit, tx, &who, &event, err);
    if (rc == 0)
        rc = store_commit(&tx, err);
    return rc < 0 ? rc : 1;
}

/* The plain bytes, or -1 and why there are none. Fails where a later try may
 * succeed. */
static int open_image(struct session *se, const struct session_image *image,
                      int *ret_fd, enum session_loss *ret_why,
                      struct error *err)
{
    const struct image_bound bound = {.tenant = se->tenant->name,
                                      .session = se->id,
                                      .id = image->id,
                                      .generation = image->generation};
    int fd cleanup(fd_close) =
        openat(se->m->images->dir, image->id,
               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            return error_errno(err, ERR_BUSY, errno, "cannot open an image");
        *ret_why = errno != ENOENT ? SESSION_LOSS_DAMAGED
                   : se->m->nodes  ? SESSION_LOSS_NODE
                                   : SESSION_LOSS_MISSING;
        return 0;
    }
    rc = image_unseal(se->m->images->key, &bound, fd, session_image_most(se),
                      ret_fd, err);
    if (rc == 0 || rc == -ERR_BUSY)
        return rc;
    log_event(LOG_WARN, "image_unusable", "session", se->id, "error",
              err->message, NULL);
    *ret_why =
        rc == -ERR_TOO_LARGE ? SESSION_LOSS_LIMIT : SESSION_LOSS_DAMAGED;
    return 0;
}

int session_image_take(struct session *se, int *ret_fd,
                       enum session_loss *ret_why, struct error *err)
{
    struct session_image image = copy_image(se);
    int fd cleanup(fd_close) = -1;
    int rc;

    *ret_fd = -1;
    *ret_why = SESSION_LOSS_NONE;
    rc = open_image(se, &image, &fd, ret_why, err);
    if (rc < 0)
        return rc;
    if (fd >= 0) {
        rc = consume(se, &image, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            *ret_why = SESSION_LOSS_TAKEN;
    }
    if (*ret_why) {
        session_image_lose(se, *ret_why);
        return 0;
    }
    mutex_lock(&se->lock);
    se->image.state = IMAGE_WOKEN;
    se->image.left_over = false;
    mutex_unlock(&se->lock);
    *ret_fd = take_fd(fd);
    return 0;
}

void session_image_put_back(struct session *se)
{
    struct session_image image = copy_image(se);
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;
    int rc = store_begin(se->m->core->store, STORE_WRITE,
                         "putting an image back", &tx, &err);

    if (rc == 0)
        rc = store_exec(tx, &err,
                        "UPDATE images SET state = ?3, run = ''"
                        " WHERE session = ?1 AND generation = ?2"
                        " AND state = ?4",
                        "tiii", se->id, image.generation, (int64_t)IMAGE_READY,
                        (int64_t)IMAGE_WOKEN);
    if (rc > 0)
        rc = store_commit(&tx, &err);
    if (rc < 0) {
        /* It stays taken by this run; the next start can take it. */
        log_event(LOG_WARN, "image_not_put_back", "session", se->id, "error",
                  err.message, NULL);
        return;
    }
    mutex_lock(&se->lock);
    if (se->image.generation == image.generation)
        se->image.state = IMAGE_READY;
    mutex_unlock(&se->lock);
}

/* ---- losing ------------------------------------------------------------- */

static int lose_row(struct sessions *m, const char *session,
                    int64_t generation, enum session_loss why,
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = store_begin(m->core->store, STORE_WRITE,
                         "removing a session's image", &tx, err);

    if (rc == 0)
        rc = MIN(store_exec(tx, err,
                            "UPDATE images SET state = 0, id = '', bytes = 0,"
                            " run = '', why = ?3"
                            " WHERE session = ?1 AND generation = ?2",
                            "tii", session, generation, (int64_t)why),
                 0);
    return rc < 0 ? rc : store_commit(&tx, err);
}

/* A session that never had an image gets a row for the reason alone. */
static int note_loss(struct session *se, enum session_loss why,
                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = store_begin(se->m->core->store, STORE_WRITE,
                         "noting a session's state", &tx, err);

    if (rc == 0)
        rc = MIN(store_exec(tx, err,
                            "INSERT INTO images (session, id, tenant,"
                            " workspace, generation, state, why, run, bytes,"
                            " uncarried, cells, made_at_ms)"
                            " SELECT s.id, '', ?2, ?3, 0, 0, ?4, '', 0, 0, 0,"
                            " ?5 FROM sessions AS s WHERE s.id = ?1"
                            " ON CONFLICT (session) DO NOTHING",
                            "tttii", se->id, se->tenant->name, se->workspace,
                            (int64_t)why, clock_real_ms()),
                 0);
    return rc < 0 ? rc : store_commit(&tx, err);
}

void session_image_lose(struct session *se, enum session_loss why)
{
    struct session_image image = copy_image(se);
    struct error err;
    int rc = 0;

    if (image.generation)
        rc = lose_row(se->m, se->id, image.generation, why, &err);
    else if (why != SESSION_LOSS_NONE && session_image_possible(se))
        rc = note_loss(se, why, &err);
    if (rc < 0) /* a row that names it keeps it from the sweep */
        log_event(LOG_WARN, "image_not_removed", "session", se->id, "error",
                  err.message, NULL);
    else
        remove_file(se->m, image.id);
    mutex_lock(&se->lock);
    if (se->image.generation == image.generation) {
        se->image.state = IMAGE_NONE;
        se->image.why = why;
        se->image.id[0] = '\0';
        se->image.bytes = 0;
    }
    mutex_unlock(&se->lock);
}

void session_image_told(struct session *se)
{
    struct session_image image = copy_image(se);
    struct error err;

    if (image.why == SESSION_LOSS_NONE || !session_image_possible(se))
        return;
    if (lose_row(se->m, se->id, image.generation, SESSION_LOSS_NONE, &err) < 0)
        log_event(LOG_WARN, "sessions_not_noted", "session", se->id, "error",
                  err.message, NULL);
}

/* ---- deletion ----------------------------------------------------------- */

/* A legal hold on the workspace keeps what it has. */
#define NOT_HELD                                                              \
    " NOT EXISTS (SELECT 1 FROM workspaces AS w WHERE w.id ="                 \
    " images.workspace AND w.legal_hold <> 0)"

int session_image_delete(struct session *se, struct store_tx *tx,
                         struct error *err)
{
    int rc = store_exec(tx, err,
                        "DELETE FROM images WHERE session = ?1 AND" NOT_HELD,
                        "t", se->id);

    return MIN(rc, 0);
}

void session_image_removed(struct session *se)
{
    struct session_image image = copy_image(se);
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;
    int rc;

    if (!image.id[0])
        return;
    rc = store_begin(se->m->core->store, STORE_READ, "looking for an image",
                     &tx, &err);
    if (rc == 0)
        rc = store_one(tx, &rows, &err, "SELECT 1 FROM images WHERE id = ?1",
                       "t", image.id);
    if (rc == 0) /* else it is held, or the next start looks again */
        remove_file(se->m, image.id);
}

struct swept {
    char session[ID_MAX], id[ID_MAX], tenant[160];
    int64_t generation;
    bool orphan; /* no session, or no workspace */
};

#define GONE                                                                  \
    " NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = images.session)"   \
    " OR NOT EXISTS (SELECT 1 FROM workspaces AS w WHERE w.id ="              \
    " images.workspace)"

static size_t find_swept(struct sessions *m, struct swept *ret,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    uint32_t days = m->conf->hibernated_days;
    int64_t before = days ? clock_real_ms() - days * INT64_C(86400000) : 0;
    size_t count = 0;
    int rc = store_begin(m->core->store, STORE_READ, "looking for old images",
                         &tx, err);

    if (rc == 0)
        rc = store_query(tx, &rows, err,
                         "SELECT session, id, tenant, generation,"
                         " CASE WHEN" GONE " THEN 1 ELSE 0 END FROM images"
                         " WHERE (" GONE " OR (id <> '' AND state = 1"
                         "  AND made_at_ms < ?1)) AND" NOT_HELD " LIMIT 64",
                         "i", before);
    while (rc == 0 && count < SWEEP_MAX && store_next(rows, err) > 0) {
        struct swept *s = &ret[count++];

        store_copy(rows, 0, s->session, sizeof(s->session));
        store_copy(rows, 1, s->id, sizeof(s->id));
        store_copy(rows, 2, s->tenant, sizeof(s->tenant));
        s->generation = store_int(rows, 3);
        s->orphan = store_int(rows, 4) != 0;
    }
    return count;
}

static void sweep_orphan(struct sessions *m, const struct swept *s)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;
    int rc = store_begin(m->core->store, STORE_WRITE, "removing an image", &tx,
                         &err);

    if (rc == 0)
        rc = store_exec(tx, &err,
                        "DELETE FROM images WHERE session = ?1"
                        " AND generation = ?2",
                        "ti", s->session, s->generation);
    if (rc > 0)
        rc = store_commit(&tx, &err);
    if (rc == 0)
        remove_file(m, s->id);
}

/* One in memory changes its phase, too; one that is in use stays. */
static void sweep_old(struct sessions *m, const struct swept *s)
{
    struct session *se;
    struct error err;
    bool asleep = true;

    mutex_lock(&m->lock);
    se = session_at_hand(m, s->tenant, s->session);
    mutex_unlock(&m->lock);
    if (se) {
        mutex_lock(&se->lock);
        asleep = se->phase == PHASE_HIBERNATED &&
                 se->image.generation == s->generation &&
                 session_state_may(se, EV_LOSE);
        if (asleep)
            session_state_event(se, EV_LOSE);
        mutex_unlock(&se->lock);
        if (asleep)
            session_image_lose(se, SESSION_LOSS_AGE);
        session_unref(se);
    } else if (lose_row(m, s->session, s->generation, SESSION_LOSS_AGE,
                        &err) == 0) {
        remove_file(m, s->id);
    }
}

/* The warden keeps the images of zygotes that stored memory is of. */
static void tell_zygotes(struct sessions *m)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct warden_zygotes used = {0};
    struct error err;
    int rc = store_begin(m->core->store, STORE_READ, "looking for zygotes",
                         &tx, &err);

    if (rc == 0)
        rc = store_query(tx, &rows, &err,
                         "SELECT zygote FROM images WHERE id <> ''"
                         " AND zygote <> '' GROUP BY zygote"
                         " ORDER BY MAX(made_at_ms) DESC LIMIT 64",
                         "");
    while (rc == 0 && used.count < WARDEN_ZYGOTES_MAX &&
           (rc = store_next(rows, &err)) > 0) {
        read_zygote(store_text(rows, 0), used.ids[used.count++]);
        rc = 0;
    }
    if (rc == 0)
        (void)warden_call_zygotes(m->link, &used, &err); /* or next time */
}

void images_sweep(struct sessions *m)
{
    struct swept list[SWEEP_MAX];
    struct error err;
    size_t count = m->images ? find_swept(m, list, &err) : 0;

    if (m->images)
        tell_zygotes(m);
    for (size_t i = 0; i < count; i++)
        if (list[i].orphan)
            sweep_orphan(m, &list[i]);
        else
            sweep_old(m, &list[i]);
    if (count)
        log_event(LOG_INFO, "images_removed", NULL);
}

/* ---- opening ------------------------------------------------------------ */

static bool has_row(struct store_tx *tx, const char *id)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct error err;

    /* What cannot be looked up stays. */
    return store_one(tx, &rows, &err, "SELECT 1 FROM images WHERE id = ?1",
                     "t", id) != 0;
}

/* Before any session is used, so no file is being written. */
static int remove_orphans(struct sessions *m, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int fd = openat(m->images->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d cleanup(fd_closedir) = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    int rc;

    if (!d) {
        rc = error_errno(err, ERR_INTERNAL, errno, "cannot read " FOLDER);
        fd_close(&fd);
        return rc;
    }
    rc = store_begin(m->core->store, STORE_READ, "looking for images", &tx,
                     err);
    while (rc == 0 && (e = readdir(d)))
        if (e->d_name[0] != '.' && !has_row(tx, e->d_name))
            remove_file(m, e->d_name);
    return rc;
}

int images_open(struct sessions *m, struct error *err)
{
    int data cleanup(fd_close) = -1;
    struct images *im;
    int rc = 0;

    if (!m->conf->data_dir || !m->core->vault)
        return 0;
    data = open(m->conf->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data < 0 || (mkdirat(data, FOLDER, 0700) < 0 && errno != EEXIST))
        return error_errno(err, ERR_INTERNAL, errno, "cannot make %s/" FOLDER,
                           m->conf->data_dir);
    im = m->images = xcalloc(1, sizeof(*im));
    ids_make("run", im->run);
    im->dir =
        openat(data, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (im->dir < 0)
        rc = error_errno(err, ERR_INTERNAL, errno, "cannot open " FOLDER);
    if (rc == 0)
        rc = vault_derive(m->core->vault, "glovebox images of sessions",
                          im->key, err);
    if (rc == 0)
        rc = remove_orphans(m, err);
    if (rc < 0)
        images_close(m);
    return rc;
}

void images_close(struct sessions *m)
{
    struct images *im = take_ptr(m->images);

    if (!im)
        return;
    explicit_bzero(im->key, sizeof(im->key));
    fd_close(&im->dir);
    free(im);
}
