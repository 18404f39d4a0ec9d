/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a commit. A plan is the part of the tree that a set of changes
 * touches: a node for each path, known by its parent and by name. The steps,
 * in the order commit.c takes them:
 *
 *   conflict.c       reads the locks: which paths they cover, and which of
 *                    them admit this author
 *   commit_plan.c    takes the changes in order and sets what each path shall
 *                    be (`want`); commit_tree.c keeps the nodes
 *   govern.c         checks the policy for files copied from stored versions
 *   conflict.c       decides which changes may be made (`fate`)
 *   commit_plan.c    decides which file each path becomes: the same, a moved
 *                    one, one that comes back, or a new one
 *   commit_write.c   writes rows and results
 *
 * Everything here is in the plan's arena and is freed with it. The work is
 * linear in changes and files touched: `live` lets a walk skip files that are
 * gone already, so that no set of changes makes it walk the same files twice.
 */
#ifndef GLOVEBOX_WORKSPACE_COMMIT_PLAN_H
#define GLOVEBOX_WORKSPACE_COMMIT_PLAN_H

#include "base/arena.h"
#include "workspace/workspace_int.h"

#define PLAN_NODES_MAX 2000000u

/* A row of files. */
struct plan_file {
    char file[ID_MAX], version[ID_MAX], sha256[BLOB_NAME];
    int64_t number, seq;
    uint64_t size;
    bool executable;
    const char *mime;
    int64_t modified_at_ms;
};

struct plan_lock {
    const char *path;
    char holder[ID_MAX];
    int64_t fence, expires_at_ms;
    bool open; /* to this commit */
};

struct plan_node;

/* The bytes a path shall have. */
struct plan_put {
    const char *sha256;
    bool unstored; /* see workspace_change */
    uint64_t size;
    bool executable;
    bool as_was; /* executable if what it replaces is */
    const char *mime;
    const char *from;         /* path, for history, or NULL */
    const char *from_version; /* or NULL */
    const char *file_id;      /* whose identity it must be, or NULL */
    bool copied, restored;
    struct plan_node *origin; /* whose file moves here, or NULL */
    struct plan_node *wanted; /* a conflict copy: of what was asked for */
};

enum plan_want {
    WANT_NOTHING, /* as it is */
    WANT_GONE,
    WANT_BYTES,
};

struct plan_node {
    struct plan_node *parent, *child, *sibling;
    struct plan_node *live_first, *live_last; /* children with live files */
    struct plan_node *live_next, *live_before;
    struct plan_node *chain; /* of the hash table */
    struct plan_node *next;  /* of those touched, in order */
    const char *path;
    uint64_t hash;
    bool known;       /* head and past were looked up */
    bool below_known; /* all files of the head below it have nodes */
    bool listed;
    bool moved;                   /* its file goes to another path */
    bool unchanged;               /* a conflict copy that is so already */
    enum plan_want want;          /* what the set says */
    enum workspace_fate fate;     /* what becomes of that */
    const struct plan_file *head; /* the file that is here, or NULL */
    const struct plan_file *past; /* none is, but this one was; or NULL */
    struct plan_put *put;         /* WANT_BYTES */
    struct plan_lock *lock;       /* on exactly this path, or NULL */
    struct plan_lock *refused_by; /* FATE_LOCKED */
    uint32_t live;                /* files here and below, as wanted so far */
    uint32_t shut;                /* locks here and below that do not open */
    uint32_t stays;               /* removals here and below not done */
    /* which file it will be */
    const struct plan_file *same; /* of whom this is the next version */
    char file[ID_MAX];
    uint64_t cost; /* bytes it adds to what is stored */
};

/* Ids to come, in order: rows that are added in the order of an index are
 * added much faster, and no id tells more for it. */
struct plan_ids {
    const char *prefix;
    char (*made)[ID_MAX];
    size_t next, count;
};

struct commit_plan {
    struct workspaces *w;
    struct store_tx *tx;
    const struct actor *who;
    struct workspace_row *row;
    const struct workspace_commit_spec *spec;
    bool session; /* refuse path by path instead of the whole */
    bool locked;  /* there are locks to look at */
    int64_t now_ms;
    struct arena *arena;
    struct plan_node root, **table;
    size_t size, count; /* of the table */
    struct plan_node *first, *last;
    size_t listed;
    /* whose commits came after the base; see conflict.c */
    int64_t asked_seq;
    bool asked_mine;
    uint64_t stored; /* bytes let in so far */
    struct plan_ids file_ids, version_ids;
};

/* ---- commit_tree.c ----------------------------------------------------- */

void plan_init(struct commit_plan *p);
void plan_done(struct commit_plan *p);
/* Makes it, and the folders above it, if need be. ERR_TOO_LARGE. */
int plan_node_get(struct commit_plan *p, const char *path,
                  struct plan_node **ret, struct error *err);
/* Looks it up in the head. */
int plan_load(struct commit_plan *p, struct plan_node *n, struct error *err);
/* Makes nodes of all files of the head below it. */
int plan_load_below(struct commit_plan *p, struct plan_node *n,
                    struct error *err);
/* A file is here, as wanted so far. */
bool plan_is_file(const struct plan_node *n);
void plan_list(struct commit_plan *p, struct plan_node *n);
void plan_want_gone(struct commit_plan *p, struct plan_node *n);
void plan_want_bytes(struct commit_plan *p, struct plan_node *n,
                     struct plan_put *put);
/* The files at and below n as wanted so far; ret: owned by caller. */
size_t plan_files(struct plan_node *n, struct plan_node ***ret);

/* ---- the steps --------------------------------------------------------- */

int commit_locks_load(struct commit_plan *p, struct error *err);
/* The lock that keeps this commit from changing n, or NULL. below: also those
 * on something below it. */
struct plan_lock *commit_lock_over(struct plan_node *n, bool below);
int commit_lock_error(struct commit_plan *p, const struct plan_lock *lock,
                      const char *path, struct error *err);

int commit_plan_changes(struct commit_plan *p, struct error *err);
/* ERR_FORBIDDEN; ERR_APPROVAL: spec->policy says what needs approval. */
int commit_policy_check(struct commit_plan *p, struct error *err);
int commit_conflicts(struct commit_plan *p, struct error *err);
int commit_ids(struct commit_plan *p, struct error *err);
typedef void plan_ids_maker(const char *prefix, char ret[ID_MAX]);
void plan_ids_make(struct commit_plan *p, struct plan_ids *ids,
                   const char *prefix, plan_ids_maker *make, size_t count);
void plan_ids_take(struct plan_ids *ids, char ret[ID_MAX]);
/* Its file is taken away (or goes elsewhere); it gets bytes. */
bool plan_is_removal(const struct plan_node *n);
bool plan_is_write(const struct plan_node *n);
/* ret: id "" when there was nothing to do. */
int commit_write(struct commit_plan *p, struct workspace_commit *ret,
                 struct error *err);

#endif
