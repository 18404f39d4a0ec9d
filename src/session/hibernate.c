/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting a session to sleep with its memory: its files are committed, the
 * kernel writes its memory into a file without a name, the file is stored
 * encrypted (image.c), and only then the sandbox is released. Runs in
 * gloveboxd on the thread that wants it: the reaper, a thread that needs room,
 * a client's request, or the stop of the service.
 *
 * If no image can be made, a session that a client told to hibernate stays
 * up. One that must go, goes without its memory: its files are safe, and its
 * next answer says why the variables are gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/image.h"
#include "session/session_int.h"

#define WAIT_MS 10000u       /* for what runs, when a client asks */
#define TABLES (64ull << 20) /* of an image, beside the memory */
#define STOP_THREADS 4u      /* that write at once when the service stops */
#define STOP_NAP_NS 5000000  /* between looks for sessions that got idle */

const struct session_memory session_memory_of_box = {
    .look = box_memory_look,
    .save = box_memory_save,
    .point_add = box_point_add,
    .point_undo = box_point_undo,
    .point_redo = box_point_redo,
    .points_drop = box_points_drop,
};

uint64_t session_image_most(const struct session *se)
{
    return se->limits.memory_bytes + TABLES;
}

enum session_loss session_memory_off(const struct session *se)
{
    if (se->transient || !session_image_possible(se))
        return SESSION_LOSS_EPHEMERAL;
    if (!pool_conf(se->pool)->hibernate)
        return SESSION_LOSS_OFF;
    /* An image holds what differs from the zygote. An interpreter that was
     * started for one session ends with it, and no other has its layout. */
    return runtime_forks(se->runtime) ? SESSION_LOSS_NONE
                                      : SESSION_LOSS_NO_ZYGOTE;
}

bool session_hibernates(const struct session *se)
{
    return session_memory_off(se) == SESSION_LOSS_NONE;
}

/* ---- the image ---------------------------------------------------------- */

static enum session_loss loss_of(const struct error *err)
{
    static const struct {
        enum error_code code;
        enum session_loss why;
    } table[] = {
        {ERR_CONFLICT, SESSION_LOSS_UNCARRIED},
        {ERR_SPACE, SESSION_LOSS_SPACE},
        {ERR_LIMIT, SESSION_LOSS_SPACE},
        {ERR_TOO_LARGE, SESSION_LOSS_LARGE},
        {ERR_UNSUPPORTED, SESSION_LOSS_BUILD},
        {ERR_GUEST, SESSION_LOSS_KERNEL},
        {ERR_TIMEOUT, SESSION_LOSS_KERNEL},
        {ERR_BUSY, SESSION_LOSS_KERNEL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (table[i].code == err->code)
            return table[i].why;
    return SESSION_LOSS_WRITE;
}

int session_uncarried_refuse(const struct box_memory *memory,
                             struct error *err)
{
    (void)error_set(err, ERR_CONFLICT,
                    "the memory of the session cannot be copied now: %s",
                    memory->uncarried & BOX_UNCARRIED_THREADS
                        ? "a thread of its code is running"
                    : memory->uncarried & BOX_UNCARRIED_CHILDREN
                        ? "a child process of its code is running"
                        : "its code holds something that cannot be copied");
    return error_hint(err, "end it, or close what it uses; `memory.uncarried` "
                           "of the session lists what stands in the way");
}

int session_memory_file(struct session *se, struct box *box,
                        struct box_memory *ret, int *ret_fd,
                        uint64_t *ret_size, struct error *err)
{
    const struct session_memory *memory = se->m->memory;
    uint64_t most = session_image_most(se);
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int rc = memory->look(box, ret, err);

    if (rc < 0)
        return rc;
    session_memory_seen(se, ret);
    if (ret->refused)
        return session_uncarried_refuse(ret, err);
    if (ret->bytes > most)
        return error_set(err, ERR_TOO_LARGE,
                         "the memory of the session is larger than its limit");
    fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* Allocated first: without memory it fails here and not in the middle.
     * Only this process has the descriptor; the bytes come over a pipe. */
    if (fd < 0 || ftruncate(fd, (off_t)most) < 0 ||
        fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)ret->bytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return error_errno(err, ERR_BUSY, errno, "no memory for an image");
    rc = memory->save(box, fd, most, ret, err);
    if (rc < 0)
        return rc;
    session_memory_seen(se, ret);
    if (ret->refused)
        return session_uncarried_refuse(ret, err);
    /* Branches map this file, so it must not change any more. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot seal an image");
    if (fstat(fd, &st) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot read an image");
    if (ret->bytes == 0 || ret->bytes > (uint64_t)st.st_size)
        return error_set(err, ERR_GUEST,
                         "the interpreter wrote no complete image");
    *ret_size = ret->bytes;
    *ret_fd = take_fd(fd);
    return 0;
}

void session_memory_seen(struct session *se, const struct box_memory *memory)
{
    mutex_lock(&se->lock);
    se->uncarried = memory->uncarried;
    se->memory_refused = memory->refused;
    se->memory_bytes = memory->bytes;
    mutex_unlock(&se->lock);
}

static int make_image(struct session *se, const struct actor *who,
                      struct box *box, struct error *err)
{
    struct box_memory memory = {0};
    int fd cleanup(fd_close) = -1;
    uint64_t size = 0;
    int rc = session_memory_file(se, box, &memory, &fd, &size, err);

    /* Copies of the interpreter would end with the sandbox anyway. */
    if (rc == 0)
        rc = session_image_store(se, who, fd, size, &memory, err);
    return rc;
}

/* ---- the session -------------------------------------------------------- */

static void release_box(struct session *se, struct box *box)
{
    box_release(box);
    box_unref(box);
    session_sandbox_unpin_tree(se);
}

/* An interpreter that has run nothing is as good as a new one. */
static bool has_memory(struct session *se, struct box *box)
{
    bool has;

    mutex_lock(&se->lock);
    has = se->has_cells;
    mutex_unlock(&se->lock);
    return has && box_check(box) && box_kernel_alive(box);
}

/* The lock is not held. Returns 0, or -code with the session as it was
 * (must_stay) or dormant. */
static int finish(struct session *se, struct box *box, int rc, bool must_stay,
                  enum session_loss why)
{
    bool stays = rc < 0 && must_stay && !box_is_broken(box);
    bool ended;

    mutex_lock(&se->lock);
    ended = se->phase == PHASE_ENDED;
    if (!ended && stays) {
        se->box = box;
        session_state_event(se, EV_STAY);
        session_state_check(se);
    }
    mutex_unlock(&se->lock);
    if (!ended && stays)
        return rc;
    release_box(se, box);
    if (ended) { /* deleted meanwhile, with its row */
        session_image_removed(se);
        return -ERR_NOT_FOUND;
    }
    if (rc < 0)
        session_image_lose(se, why);
    mutex_lock(&se->lock);
    if (rc < 0)
        se->cells_lost = NULL; /* the reason is the image's */
    session_points_forget(se);
    if (se->phase != PHASE_ENDED)
        session_state_event(se, rc < 0 ? EV_DROPPED : EV_HIBERNATED);
    session_state_check(se);
    mutex_unlock(&se->lock);
    session_lease_sleep(se);
    session_persist_note(se);
    return rc;
}

/* 1: hibernated, or dormant since there was nothing to keep. 0: it is in use
 * by now. */
static int hibernate_box(struct session *se, const struct actor *who,
                         struct box *box, bool must_stay, struct error *err)
{
    enum session_loss why = SESSION_LOSS_NONE;
    bool mine;
    int rc;

    mutex_lock(&se->lock);
    mine = se->box == box && session_state_may(se, EV_HIBERNATE);
    if (mine) {
        session_state_event(se, EV_HIBERNATE);
        se->box = NULL;
        session_state_check(se);
    }
    mutex_unlock(&se->lock);
    if (!mine)
        return 0;
    session_commit_rest(se, box);
    rc = make_image(se, who, box, err);
    if (rc < 0) {
        /* Refused for no reason of its code: there is no zygote behind it, as
         * in a guest kernel or an image without a usable Python. */
        mutex_lock(&se->lock);
        why = se->memory_refused && !se->uncarried ? SESSION_LOSS_BUILD
                                                   : loss_of(err);
        mutex_unlock(&se->lock);
        log_event(LOG_WARN, "session_not_hibernated", "session", se->id,
                  "error", err->message, NULL);
        session_metrics_add(se->m, &se->m->counters.hibernate_failed);
    } else {
        session_metrics_add(se->m, &se->m->counters.hibernated);
        log_event(LOG_INFO, "session_hibernated", "session", se->id, NULL);
    }
    rc = finish(se, box, rc, must_stay, why);
    return rc < 0 ? rc : 1;
}

bool session_sleep(struct session *se, struct box *box)
{
    struct actor who = session_actor(se);
    struct error err;
    int rc;

    if (!session_hibernates(se) || !has_memory(se, box))
        return session_wake_drop(se, box, true);
    rc = hibernate_box(se, &who, box, false, &err);
    return rc != 0;
}

/* ---- told to ------------------------------------------------------------ */

int session_no_zygote(const struct session *se, const char *what,
                      struct error *err)
{
    (void)error_set(err, ERR_CONFLICT,
                    "sessions of the pool '%s' cannot %s, because each has an "
                    "interpreter of its own (`zygote: false`)",
                    pool_conf(se->pool)->name, what);
    return error_hint(err, "the operator can set `zygote: true` for it");
}

static int cannot(const struct session *se, struct error *err)
{
    if (se->ephemeral || se->transient) {
        (void)error_set(err, ERR_CONFLICT,
                        "an ephemeral session is never written to the disk");
        return error_hint(err, "delete it, or make one with a workspace");
    }
    if (session_memory_off(se) == SESSION_LOSS_NO_ZYGOTE)
        return session_no_zygote(se, "hibernate", err);
    (void)error_set(err, ERR_CONFLICT,
                    "sessions of the pool '%s' do not hibernate",
                    pool_conf(se->pool)->name);
    return error_hint(err, "the operator can set `hibernate: true` for it");
}

/* Waits for what runs; NULL: it sleeps already. */
static int wait_unused(struct session *se, struct box **ret, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + WAIT_MS;
    bool in_time = true;
    int rc = 0;

    mutex_lock(&se->lock);
    while (in_time && se->phase != PHASE_ENDED && !session_asleep(se) &&
           !session_state_may(se, EV_HIBERNATE))
        in_time = cond_wait_until(&se->cond, &se->lock, deadline);
    if (se->phase == PHASE_ENDED) {
        rc = session_error_ended(se, err);
    } else if (!in_time) {
        (void)error_set(err, ERR_CONFLICT, "the session is in use");
        rc = error_hint(err, "wait for the execution or the upload to finish, "
                             "or cancel it");
    } else if (se->box) {
        *ret = box_ref(se->box);
    }
    mutex_unlock(&se->lock);
    return rc;
}

static int hibernate(struct session *se, const struct actor *who,
                     struct error *err)
{
    struct box *box = NULL;
    int rc;

    if (!session_hibernates(se))
        return cannot(se, err);
    rc = wait_unused(se, &box, err);
    if (rc == 0 && box) {
        if (has_memory(se, box))
            rc = hibernate_box(se, who, box, true, err);
        else
            rc = session_wake_drop(se, box, true);
        if (rc == 0)
            rc = error_set(err, ERR_CONFLICT, "the session is in use");
    }
    box_unref(box);
    return MIN(rc, 0);
}

int session_hibernate(struct sessions *s, const struct actor *who,
                      const char *id, struct session_info *ret,
                      struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);
    int rc;

    if (!se)
        return -(int)err->code;
    mutex_lock(&se->lock);
    rc = session_expiry_check(se, err);
    mutex_unlock(&se->lock);
    if (rc == 0)
        rc = session_admit_memory(se, who, POLICY_HIBERNATE, err);
    if (rc == 0)
        rc = hibernate(se, who, err);
    if (rc == 0)
        session_fill_info(se, ret);
    session_release(se);
    return rc;
}

/* ---- when the service stops --------------------------------------------- */

struct stop {
    struct sessions *m;
    uint64_t deadline_ms;
};

/* One that can hibernate now; its box is referenced. *ret_more: others are in
 * use and may become idle. */
static struct session *find_idle(struct sessions *m, struct box **ret,
                                 bool *ret_more)
{
    struct session *found = NULL;

    *ret_more = false;
    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size && !found; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n && !found;
             n = n->next) {
            struct session *se = container_of(n, struct session, node);

            mutex_lock(&se->lock);
            if (session_hibernates(se) && se->has_cells) {
                if (session_state_may(se, EV_HIBERNATE)) {
                    found = session_ref(se);
                    *ret = box_ref(se->box);
                } else if (!session_asleep(se) && se->phase != PHASE_ENDED) {
                    *ret_more = true;
                }
            }
            mutex_unlock(&se->lock);
        }
    mutex_unlock(&m->lock);
    return found;
}

static void stop_main(void *arg)
{
    struct stop *stop = arg;

    while (clock_mono_ms() < stop->deadline_ms) {
        struct box *box = NULL;
        bool more;
        struct session *se = find_idle(stop->m, &box, &more);

        if (se) {
            (void)session_sleep(se, box);
            box_unref(box);
            session_unref(se);
        } else if (!more) {
            return;
        } else {
            (void)nanosleep(&(struct timespec){.tv_nsec = STOP_NAP_NS}, NULL);
        }
    }
}

void session_hibernate_all(struct sessions *m, uint64_t deadline_ms)
{
    struct stop stop = {.m = m, .deadline_ms = deadline_ms};
    struct thread threads[STOP_THREADS];
    unsigned want = MIN((unsigned)get_nprocs(), STOP_THREADS), count = 0;
    struct error ignored;

    if (!m->images)
        return;
    memset(threads, 0, sizeof(threads));
    while (count < want && thread_start(&threads[count], "hibernate",
                                        stop_main, &stop, &ignored) == 0)
        count++;
    if (count == 0)
        stop_main(&stop);
    for (unsigned i = 0; i < count; i++)
        thread_join(&threads[i]);
}
