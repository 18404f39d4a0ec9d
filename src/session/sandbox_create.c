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
#include "quota/quota.h"
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

/* Looking at ten thousand files that nobody watches yet takes as long as
 * starting a sandbox, and the two do not need each other. */
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

static int mount_box(struct session *se, uint32_t runtime,
                     const struct workspace_tree *tree, bool background,
                     struct box **ret, struct error *err)
{
    struct check check = {.w = se->m->workspaces, .tree = tree};
    struct thread thread = {0};
    struct error ignored;
    struct box *box = NULL;
    bool beside = thread_start(&thread, "tree-check", tree_check_main, &check,
                               &ignored) == 0;
    int rc = box_open(se->m->link, runtime, &se->limits, tree->layers,
                      tree->count, background, &se->m->stopping, &box, err);

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
                    struct box **ret, struct error *err)
{
    struct box *box = NULL;
    int rc = -ERR_INVALID;

    if (tree->count && session_sandbox_layers(se->m))
        rc = mount_box(se, runtime, tree, background, ret, err);
    /* The walls stand, but this kernel or file system cannot map ids. */
    if (rc != -ERR_INVALID)
        return rc;
    rc = box_open(se->m->link, runtime, &se->limits, NULL, 0, background,
                  &se->m->stopping, &box, err);
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

/* Tenants make theirs in turn, and one that makes many, one at a time. Who
 * has gone when its turn comes is spared it, and so are the others. */
int session_sandbox_create(struct session *se, uint32_t runtime,
                           const struct workspace_tree *tree, struct box **ret,
                           struct error *err)
{
    const char *tenant = se->tenant->name;
    uint64_t deadline = clock_mono_ms() + BOX_SPAWN_MS;
    bool background = session_sched_charge_create(se->tenant);
    /* Nobody is in anybody's way where only one tenant runs anything. */
    bool crowd = background && atomic_load(&se->m->active) !=
                                   atomic_load(&se->tenant->active);
    struct fair_queue *alone = crowd ? se->m->crowd : NULL;
    struct fair_queue *making =
        session_sched_alone(se->tenant) ? se->m->making_alone : se->m->making;
    int rc;

    if (fair_queue_enter(alone, tenant, deadline)) {
        bool in = fair_queue_enter(making, tenant, deadline);

        if (in) {
            rc = session_still_wanted(se, err);
            if (rc == 0) {
                session_sched_create_begin(se->tenant, background);
                rc = make_box(se, runtime, tree, background, ret, err);
                session_sched_create_end(se->tenant, background);
            }
            fair_queue_leave(making, tenant);
        }
        fair_queue_leave(alone, tenant);
        if (in)
            return rc;
    }
    (void)error_set(err, ERR_BUSY, "too many sandboxes are being made");
    return error_retry(err, 1);
}
