/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branches: new sessions that continue from the memory and the files of
 * another one. The memory is written once, into a file without a name, and
 * each new sandbox starts from it; nothing of it is stored. Each branch has a
 * workspace of its own, made from the same commit, and its own limits, network
 * and random state. Its files can be merged back. Runs in gloveboxd on the
 * caller's thread and a few helpers.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"
#include "store/store.h"

#define THREADS 4u

/* ---- the memory --------------------------------------------------------- */

struct copy {
    struct session *se;
    struct box *box;
    struct session_source *source;
};

static int copy_memory(void *ctx, struct error *err)
{
    struct copy *c = ctx;
    struct box_memory memory = {0};
    uint64_t size;
    int rc = session_memory_file(c->se, c->box, &memory, &c->source->image_fd,
                                 &size, err);

    c->source->uncarried = memory.uncarried;
    memcpy(c->source->zygote, memory.zygote, sizeof(memory.zygote));
    return rc;
}

/* Wakes the session if it sleeps: an image on disk is resumed once, by its
 * own session. */
static int read_source(struct session *se, const char *at,
                       struct session_source *ret, struct error *err)
{
    struct box *box = NULL;
    struct copy copy = {.se = se, .source = ret};
    unsigned back = 0;
    int rc = session_wake(se, &box, err);

    if (rc < 0)
        return rc;
    rc = session_exclusive_begin(se, err);
    if (rc < 0) {
        box_unref(box);
        return rc;
    }
    copy.box = box;
    if (!box_check(box) || !box_kernel_alive(box)) {
        (void)error_set(err, ERR_CONFLICT,
                        "the session's interpreter has ended");
        rc = error_hint(err, "run something in it first");
    }
    if (rc == 0 && at)
        rc = session_state_find(se, at, &back, err);
    if (rc == 0)
        rc = session_keep_own(se, box, err);
    if (rc == 0)
        rc = session_state_visit(se, box, back, &ret->commit, copy_memory,
                                 &copy, err);
    session_exclusive_end(se);
    box_unref(box);
    return rc;
}

/* ---- the sessions ------------------------------------------------------- */

struct making {
    struct sessions *m;
    const struct actor *who;
    struct session *from;
    const struct session_branch_spec *spec;
    const struct session_source *source;
    const struct network_spec *network; /* NULL: the pool's */
    struct mutex lock;
    unsigned next;             /* lock, as the rest */
    struct session_info *made; /* by number; without an id: not made */
    struct error err;
    int rc;
};

static void name_of(const struct making *k, unsigned number, char *ret,
                    size_t size)
{
    const char *name = k->spec->name;

    if (!name)
        name = k->from->name ? k->from->name : "branch";
    if (k->spec->count > 1 || !k->spec->name)
        (void)snprintf(ret, size, "%.110s-%u", name, number + 1);
    else
        (void)snprintf(ret, size, "%s", name);
}

static int make_one(struct making *k, unsigned number,
                    struct session_info *ret, struct error *err)
{
    const struct session *from = k->from;
    const struct warden_limits *l = &from->limits;
    char name[160];
    struct session_spec spec = {.pool = pool_conf(from->pool)->name,
                                .name = name,
                                .runtime = runtime_name(from->runtime),
                                .limits = {.memory_bytes = l->memory_bytes,
                                           .scratch_bytes = l->scratch_bytes,
                                           .scratch_inodes = l->scratch_inodes,
                                           .processes = l->processes,
                                           .cores = l->cores,
                                           .descriptors = l->descriptors},
                                .metadata = from->metadata,
                                .cooldown_s = from->cooldown_s,
                                .network = k->network,
                                .source = k->source};

    name_of(k, number, name, sizeof(name));
    return session_create_or_find(k->m, k->who, &spec, NULL, ret, err);
}

static void make_main(void *arg)
{
    struct making *k = arg;

    for (;;) {
        struct session_info info = {.metadata = NULL};
        struct error err;
        unsigned number;
        int rc;

        mutex_lock(&k->lock);
        number = k->rc < 0 ? k->spec->count : k->next++;
        mutex_unlock(&k->lock);
        if (number >= k->spec->count)
            return;
        rc = make_one(k, number, &info, &err);
        mutex_lock(&k->lock);
        if (rc == 0)
            k->made[number] = info;
        else if (k->rc == 0) {
            k->rc = rc;
            k->err = err;
        }
        mutex_unlock(&k->lock);
    }
}

/* All of them, or none. */
static int make_all(struct making *k, struct error *err)
{
    struct thread threads[THREADS];
    unsigned count = 0, want = MIN(k->spec->count - 1, THREADS - 1);
    struct error ignored;

    memset(threads, 0, sizeof(threads));
    while (count < want && thread_start(&threads[count], "branch", make_main,
                                        k, &ignored) == 0)
        count++;
    make_main(k);
    for (unsigned i = 0; i < count; i++)
        thread_join(&threads[i]);
    if (k->rc == 0)
        return 0;
    for (unsigned i = 0; i < k->spec->count; i++) {
        if (k->made[i].id[0])
            (void)session_delete(k->m, k->who, k->made[i].id, &ignored);
        session_info_done(&k->made[i]);
    }
    *err = k->err;
    return k->rc;
}

static int check_spec(const struct session *se,
                      const struct session_branch_spec *spec,
                      struct error *err)
{
    if (spec->count < 1 || spec->count > SESSION_BRANCHES_MAX)
        return error_set(err, ERR_INVALID, "count must be from 1 to %u",
                         SESSION_BRANCHES_MAX);
    if (se->ephemeral || se->transient) {
        (void)error_set(err, ERR_CONFLICT,
                        "an ephemeral session has no files to branch from");
        return error_hint(err, "make one with a workspace");
    }
    return 0;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_destinations(const struct network_spec *a,
                              const struct network_spec *b)
{
    if (a->destination_count != b->destination_count)
        return false;
    for (size_t i = 0; i < a->destination_count; i++) {
        const struct network_destination *x = &a->destinations[i],
                                         *y = &b->destinations[i];

        if (!same_text(x->host, y->host) ||
            !same_text(x->methods, y->methods) ||
            !same_text(x->path, y->path) || !same_text(x->secret, y->secret) ||
            x->inspect != y->inspect ||
            memcmp(x->ports, y->ports, sizeof(x->ports)) != 0)
            return false;
    }
    return true;
}

/* Is the network of the session another one than its pool gives? The branches
 * then get the same, as if the caller had asked for it: policy decides. */
static bool own_network(struct session *se, const struct actor *who,
                        struct network_info *ret)
{
    struct network_info usual cleanup(network_info_done) = {0};
    struct network *net = NULL;
    struct error ignored;

    if (!se->net)
        return false;
    network_show(se->net, ret);
    if (network_plan(se->m->networks, who, NULL, se->pool,
                     runtime_name(se->runtime), &net, &ignored) < 0)
        return true;
    network_bind(net, &(struct network_owner){
                          .session = se->id,
                          .workspace = se->workspace,
                          .tenant = se->tenant->name,
                          .key = se->owner,
                          .pool = se->pool,
                          .runtime = runtime_name(se->runtime)}); /* to show */
    network_show(net, &usual);
    network_unref(net);
    return ret->net.mode != usual.net.mode ||
           ret->net.packages != usual.net.packages ||
           ret->net.bytes != usual.net.bytes ||
           ret->net.connections != usual.net.connections ||
           ret->net.requests != usual.net.requests ||
           !same_destinations(&ret->net, &usual.net);
}

int session_branch(struct sessions *s, const struct actor *who, const char *id,
                   const struct session_branch_spec *spec,
                   struct session_info **ret, size_t *ret_count,
                   struct error *err)
{
    struct session *se = session_files_begin(s, who, id, err);
    struct session_source source = {.image_fd = -1};
    struct network_info network cleanup(network_info_done) = {0};
    struct making k = {.m = s, .who = who, .spec = spec, .source = &source};
    int rc;

    if (!se)
        return -(int)err->code;
    k.from = se;
    k.network = own_network(se, who, &network) ? &network.net : NULL;
    source.session = se->id;
    source.workspace = se->workspace;
    rc = check_spec(se, spec, err);
    if (rc == 0 && !runtime_forks(se->runtime))
        rc = session_no_zygote(se, "be branched", err);
    if (rc == 0)
        rc = session_admit_memory(se, who, POLICY_BRANCH, err);
    if (rc == 0)
        rc = read_source(se, spec->at, &source, err);
    if (rc == 0) {
        k.made = xcalloc(spec->count, sizeof(*k.made));
        mutex_init(&k.lock);
        rc = make_all(&k, err);
        mutex_done(&k.lock);
    }
    fd_close(&source.image_fd);
    if (rc == 0) {
        *ret = k.made;
        *ret_count = spec->count;
        for (unsigned i = 0; i < spec->count; i++) {
            struct audit_event event = {.action = "session.branch",
                                        .workspace = se->workspace,
                                        .object = se->id,
                                        .after = k.made[i].id};

            audit_later(s->core->audit, who, &event);
            session_metrics_add(s, &s->counters.branched);
        }
    } else {
        free(k.made);
    }
    session_files_end(se);
    return rc;
}

/* ---- what create.c asks ------------------------------------------------- */

int session_branch_files(struct session *se, const struct actor *who,
                         const struct session_source *source,
                         struct error *err)
{
    int64_t seq = 0;
    int rc = session_commit_make_workspace(se, who, err);

    if (rc == 0)
        rc = workspace_branch(se->m->workspaces, who, source->workspace,
                              source->commit, se->workspace, &seq, err);
    se->branched_at = seq;
    return rc;
}

int session_branch_box(struct session *se, const struct session_source *source,
                       struct box **ret, struct error *err)
{
    struct session_origin origin = {.image_fd = source->image_fd,
                                    .zygote = source->zygote};
    uint32_t handle;
    int rc = runtime_handle(se->m->pools, se->runtime, &handle, err);

    if (rc == 0)
        rc = session_sandbox_pin_tree(se, &se->tree, err);
    if (rc == 0)
        rc = session_sandbox_create(se, handle, &se->tree, &origin, ret, err);
    if (rc < 0)
        return rc;
    se->base = se->own_commit = se->tree.seq;
    if (origin.start.how == BOX_STARTED_INSTEAD) {
        box_release(*ret);
        box_unref(take_ptr(*ret));
        return error_set(err, ERR_UNAVAILABLE,
                         "the session cannot be branched: %s",
                         box_image_problem_text(origin.start.problem));
    }
    se->has_cells = se->resumed = se->resumed_new = true;
    se->image.uncarried = source->uncarried;
    return 0;
}

int session_branch_row(struct session *se, const struct session_source *source,
                       struct store_tx *tx, struct error *err)
{
    return MIN(store_exec(tx, err,
                          "INSERT INTO branches (session, origin, workspace,"
                          " base, since) VALUES (?1, ?2, ?3, ?4, ?5)",
                          "tttii", se->id, source->session, source->workspace,
                          source->commit, se->branched_at),
               0);
}

/* ---- merging back ------------------------------------------------------- */

struct branch {
    char workspace[ID_MAX];
    int64_t base, since;
};

static int read_branch(struct session *se, struct branch *ret,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(se->m->core->store, STORE_READ, "reading a branch",
                         &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err,
                       "SELECT workspace, base, since FROM branches"
                       " WHERE session = ?1",
                       "t", se->id);
    if (rc == 0) {
        (void)error_set(err, ERR_CONFLICT, "the session is no branch");
        return error_hint(err, "make one with POST /api/sessions/{id}/branch");
    }
    if (rc < 0)
        return rc;
    store_copy(rows, 0, ret->workspace, sizeof(ret->workspace));
    ret->base = store_int(rows, 1);
    ret->since = store_int(rows, 2);
    return 0;
}

/* The next merge brings what changes from now on. */
static int note_merged(struct session *se, int64_t base, int64_t since,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = store_begin(se->m->core->store, STORE_WRITE, "noting a merge",
                         &tx, err);

    if (rc == 0)
        rc = MIN(store_exec(tx, err,
                            "UPDATE branches SET base = ?2, since = ?3"
                            " WHERE session = ?1",
                            "tii", se->id, base, since),
                 0);
    return rc < 0 ? rc : store_commit(&tx, err);
}

static int merge(struct session *se, const struct actor *who,
                 struct workspace_commit *ret, char ret_workspace[ID_MAX],
                 struct error *err)
{
    struct branch b;
    struct box *box = NULL;
    int64_t head = 0;
    int rc = read_branch(se, &b, err);

    if (rc == 0)
        rc = session_exclusive_begin(se, err);
    if (rc < 0)
        return rc;
    mutex_lock(&se->lock);
    if (se->box)
        box = box_ref(se->box);
    mutex_unlock(&se->lock);
    if (box)
        rc = session_keep_own(se, box, err);
    box_unref(box);
    if (rc == 0)
        rc = workspace_merge(
            se->m->workspaces, who,
            &(struct workspace_merge_spec){.from = se->workspace,
                                           .to = b.workspace,
                                           .since = b.since,
                                           .base = b.base,
                                           .session = se->id,
                                           .fence = atomic_load(&se->fence)},
            ret, &head, err);
    if (rc == 0) {
        struct error later;

        memcpy(ret_workspace, b.workspace, ID_MAX);
        if (note_merged(se, ret->seq, head, &later) < 0)
            log_event(LOG_WARN, "merge_not_noted", "session", se->id, "error",
                      later.message,
                      NULL); /* the same again finds no change */
    }
    session_exclusive_end(se);
    return rc;
}

int session_merge(struct sessions *s, const struct actor *who, const char *id,
                  struct workspace_commit *ret, char ret_workspace[ID_MAX],
                  struct error *err)
{
    struct session *se = session_files_begin(s, who, id, err);
    int rc;

    if (!se)
        return -(int)err->code;
    rc = session_admit_memory(se, who, POLICY_BRANCH, err);
    if (rc == 0)
        rc = merge(se, who, ret, ret_workspace, err);
    session_files_end(se);
    return rc;
}
