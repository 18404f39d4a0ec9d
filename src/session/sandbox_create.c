/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the sandbox of a session with its workspace at /mnt/data. If the
 * host supports it, the workspace is mounted, which costs the same for ten
 * files or ten thousand; otherwise its files are copied. Runs in gloveboxd on
 * the thread that needs the sandbox.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "fair/fair.h"
#include "session/session_int.h"

#define PAGE 500u

int session_sandbox_pin_tree(struct session *se, struct workspace_tree *ret,
                             struct error *err)
{
    struct actor who = session_actor(se);

    *ret = (struct workspace_tree){0};
    if (se->ephemeral || !se->made)
        return 0;
    return workspace_tree_acquire(se->m->workspaces, &who, se->workspace, ret,
                                  err);
}

void session_sandbox_unpin_tree(struct session *se)
{
    if (se->tree.count || se->tree.pin)
        workspace_tree_release(se->m->workspaces, &se->tree);
    se->tree = (struct workspace_tree){0};
}

bool session_sandbox_layers(const struct sessions *m)
{
    uint32_t needed = WARDEN_WALL_SCRATCH | WARDEN_WALL_UIDS;

    return (warden_call_walls(m->link) & needed) == needed;
}

/* ---- mounted ------------------------------------------------------------ */

/* Verifying ten thousand unwatched files takes as long as starting a sandbox,
 * so both run at the same time. */
struct check {
    struct workspaces *w;
    const struct workspace_tree *tree;
    struct error err;
    int rc;
};

static void tree_check_main(void *arg)
{
    struct check *c = arg;

    c->rc = workspace_tree_check(c->w, c->tree, &c->err);
}

static struct box_origin box_origin_of(const struct session *se,
                                       const struct session_origin *origin)
{
    if (origin->image_fd < 0 && !origin->image_wait)
        return (struct box_origin){.kind = BOX_ORIGIN_FRESH};
    return (struct box_origin){.kind = BOX_ORIGIN_SNAPSHOT,
                               .image_fd = origin->image_fd,
                               .zygote = origin->zygote,
                               .image_wait = origin->image_wait,
                               .image_ctx = origin->image_ctx,
                               .starter = se->m->memory->starter};
}

static int mount_box(struct session *se, uint32_t runtime,
                     const struct workspace_tree *tree, bool background,
                     struct session_origin *origin, struct box **ret,
                     struct error *err)
{
    struct check check = {.w = se->m->workspaces, .tree = tree};
    struct thread thread = {0};
    struct error ignored;
    struct box *box = NULL;
    bool beside = thread_start(&thread, "tree-check", tree_check_main, &check,
                               &ignored) == 0;
    const struct box_spec spec = {.runtime = runtime,
                                  .tier = pool_conf(se->pool)->isolation,
                                  .limits = &se->limits,
                                  .layers = tree->layers,
                                  .layer_count = tree->count,
                                  .background = background,
                                  .origin = box_origin_of(se, origin)};
    int rc = box_open(se->m->link, &spec, &se->m->stopping, &box,
                      &origin->start, err);

    if (beside)
        thread_join(&thread);
    else
        tree_check_main(&check);
    if (rc == 0 && check.rc < 0) { /* never shown to any code */
        box_release(box);
        box_unref(box);
        *err = check.err;
        return check.rc;
    }
    *ret = box;
    return rc;
}

/* ---- copied ------------------------------------------------------------- */

int session_sandbox_put(struct session *se, struct box *box,
                        const struct workspace_file *f, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    uint32_t handle;
    int rc = workspace_file_open(se->m->workspaces, NULL, f, &fd, err);

    if (rc < 0)
        return rc;
    rc = box_file_stage(box, fd, f->size, f->executable, &handle, err);
    return rc < 0 ? rc : box_file_publish(box, handle, f->path, err);
}

static int copy_page(struct session *se, struct box *box,
                     const struct workspace_file *files, size_t count,
                     struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = session_sandbox_put(se, box, &files[i], err);
    return rc;
}

static int copy_all(struct session *se, struct box *box, int64_t seq,
                    struct error *err)
{
    struct actor who = session_actor(se);
    char *after cleanup(mem_free) = NULL;
    bool more = true;
    int rc = 0;

    while (rc == 0 && more) {
        struct workspace_file *files = NULL;
        struct page_result got = {0};

        rc =
            workspace_files_list(se->m->workspaces, &who, se->workspace,
                                 &(struct workspace_files_spec){
                                     .at = seq, .limit = PAGE, .after = after},
                                 &files, &got, err);
        if (rc == 0)
            rc = copy_page(se, box, files, got.count, err);
        if (rc == 0 && got.count) {
            free(after);
            after = xstrdup(files[got.count - 1].path);
        }
        workspace_files_free(files, got.count);
        more = got.has_more;
    }
    return rc;
}

static int make_box(struct session *se, uint32_t runtime,
                    const struct workspace_tree *tree, bool background,
                    struct session_origin *origin, struct box **ret,
                    struct error *err)
{
    const struct box_spec spec = {.runtime = runtime,
                                  .tier = pool_conf(se->pool)->isolation,
                                  .limits = &se->limits,
                                  .background = background,
                                  .origin = box_origin_of(se, origin)};
    struct box *box = NULL;
    int rc = -ERR_INVALID;

    origin->tried = origin->image_fd >= 0 || origin->image_wait;
    if (tree->count && session_sandbox_layers(se->m))
        rc = mount_box(se, runtime, tree, background, origin, ret, err);
    /* The walls stand, but this kernel or file system cannot map ids. */
    if (rc != -ERR_INVALID)
        return rc;
    rc = box_open(se->m->link, &spec, &se->m->stopping, &box, &origin->start,
                  err);
    if (rc == 0 && tree->count) {
        rc = copy_all(se, box, tree->seq, err);
        if (rc < 0) {
            box_release(box);
            box_unref(box);
            return rc;
        }
    }
    *ret = box;
    return rc;
}

int session_sandbox_ready(struct session *se, struct session_origin *origin,
                          struct box **ret, struct error *err)
{
    struct box_origin from = box_origin_of(se, origin);
    struct box *box = se->tree.count == 0 ? pool_take(se->m->pools, se->pool,
                                                      se->runtime, &se->limits)
                                          : NULL;
    int rc = 0;

    if (!box)
        return 0;
    /* Memory of another zygote needs a sandbox of that one. */
    if (memcmp(box_zygote(box), origin->zygote, WARDEN_ZYGOTE_ID) == 0) {
        origin->tried = true;
        rc = box_begin(box, &from, &origin->start, err);
        if (rc == 0) {
            *ret = box;
            return 1;
        }
    }
    box_release(box);
    box_unref(box);
    return rc;
}

/* Tenants create sandboxes in turn. A session that ended while it waited for
 * its turn creates none. */
int session_sandbox_create(struct session *se, uint32_t runtime,
                           const struct workspace_tree *tree,
                           struct session_origin *origin, struct box **ret,
                           struct error *err)
{
    struct session_origin fresh = {.image_fd = -1};
    const char *tenant = se->tenant->name;
    uint64_t deadline = clock_mono_ms() + BOX_SPAWN_MS;
    bool background = fair_cpu_charge_create(&se->tenant->fair);
    struct fair_queue *queue =
        fair_cpu_alone(&se->tenant->fair) && fair_enabled(FAIR_CREATE_WIDE)
            ? se->m->create_alone_queue
            : se->m->create_queue;
    int rc;

    if (!fair_enabled(FAIR_CREATE_QUEUE))
        queue = NULL;
    if (!fair_queue_enter(queue, tenant, deadline)) {
        (void)error_set(err, ERR_BUSY, "too many sandboxes are being made");
        return error_retry(err, 1);
    }
    rc = session_still_wanted(se, err);
    if (rc == 0) {
        session_sched_create_begin(se->tenant, background);
        rc = make_box(se, runtime, tree, background, origin ? origin : &fresh,
                      ret, err);
        session_sched_create_end(se->tenant, background);
    }
    fair_queue_leave(queue, tenant);
    return rc;
}

int session_sandbox_first(struct session *se, struct box **ret,
                          struct error *err)
{
    struct sessions *m = se->m;
    uint32_t handle;
    int rc = session_sandbox_pin_tree(se, &se->tree, err);

    if (rc < 0)
        return rc;
    se->base = se->own_commit = se->tree.seq;
    /* Ready ones have nothing mounted. */
    *ret = se->tree.count == 0
               ? pool_take(m->pools, se->pool, se->runtime, &se->limits)
               : NULL;
    session_metrics_add(m, *ret ? &m->counters.ready_taken
                                : &m->counters.ready_missed);
    if (*ret)
        return 0;
    rc = runtime_handle(m->pools, se->runtime, &handle, err);
    if (rc == 0)
        rc = session_sandbox_create(se, handle, &se->tree, NULL, ret, err);
    if (rc == 0)
        runtime_set_up(se->runtime);
    return rc;
}
