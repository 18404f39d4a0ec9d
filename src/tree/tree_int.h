/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tree/ and its tests.
 *
 *   DIR/trees/<workspace>/<generation>/…   a layer: folders and links to blobs
 *   DIR/trees/<workspace>/log              the files of the full layer (log.c)
 *   DIR/trees/gone-…                       about to be removed
 *
 * A tree has one full layer and, when a session mounts that at an older
 * commit, one layer with the difference to the head. Mounted layers never
 * change; layers that are neither current nor mounted are removed.
 *
 * Locks: `building` of a tree is held while its layers are made and is the
 * only one held for long; `lock` of the trees guards everything else that
 * more than one thread uses and is held briefly. A layer is pinned only under
 * both, so a thread that holds `building` and finds no pin may change it. A
 * watch has its own lock, below these.
 */
#ifndef GLOVEBOX_TREE_TREE_INT_H
#define GLOVEBOX_TREE_TREE_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/ids.h"
#include "base/path.h"
#include "base/thread.h"
#include "blob/blob.h"
#include "tree/tree.h"

struct arena;
struct error;
struct store;

#define TREE_BUCKETS 256u

/* A file of a layer as it was when it was verified. */
struct tree_file {
    char *path; /* owned */
    uint64_t inode;
    _Atomic int64_t ctime_ns; /* a check may learn a newer one */
    unsigned char sha256[HASH_SIZE];
    bool executable;
    bool gone;    /* in a difference: not there any more */
    bool doubted; /* to be looked at; under the watch's lock */
    int watch;    /* the kernel's number for it, or 0 */
};

/* What inotify reports about a full layer's files. Made and closed under
 * `building`; a check uses it under `lock`, the innermost of all. */
struct tree_watch {
    struct mutex lock;
    int fd;               /* inotify, or -1 */
    bool ready;           /* every file is watched and was looked at since */
    bool whole;           /* more happened than is known: look at every file */
    size_t doubts;        /* files that are doubted */
    _Atomic size_t added; /* watches asked for, */
    size_t needed;        /* and how many of them when it became ready */
    uint64_t looked_ms;   /* at every file, last */
};

struct tree_layer {
    struct tree_layer *next; /* in tree.layers */
    unsigned generation;     /* its folder's name */
    int64_t seq;             /* of the commit it shows */
    char owner[BLOB_OWNER];  /* whose inodes it links to */
    unsigned pins;
    bool doomed;             /* to be removed when unpinned */
    _Atomic bool suspect;    /* a check failed: not to be handed out again */
    struct tree_file *files; /* sorted by path */
    size_t count;
    size_t logged; /* records in the log, if it is the full layer */
    struct tree_watch watch;
};

struct tree {
    struct tree *next; /* in its bucket */
    char workspace[ID_MAX];
    struct mutex building;
    unsigned users;      /* threads that hold or await `building` */
    bool unknown;        /* on disk, the log not read yet */
    bool forgotten;      /* to be removed when unpinned */
    int64_t used_ms;     /* last; by the real clock, which outlives us */
    uint64_t wanted_ms;  /* the watcher is to come then; 0: it need not */
    unsigned generation; /* the newest that was given out */
    struct tree_layer *full, *diff; /* current; also in layers */
    struct tree_layer *layers;
};

struct trees {
    struct store *store; /* borrowed */
    struct blobs *blobs; /* borrowed */
    int dir;             /* DIR/trees */
    char boot[64];
    struct mutex lock;
    struct tree *buckets[TREE_BUCKETS];
    size_t count;
    uint64_t gone;      /* numbers names of what is on its way out */
    size_t count_max;   /* trees kept on disk */
    size_t files_max;   /* tree_files kept in memory for unmounted ones */
    unsigned diff_max;  /* a difference larger than this, and than half of the
                           whole, becomes a new full layer */
    struct cond wanted; /* the watcher is; with `lock` */
    struct thread watcher;
    bool stopping;           /* the watcher is to stop */
    size_t watch_least;      /* files for which it is worth it */
    size_t watch_max;        /* watches of all trees */
    unsigned watch_pause_ms; /* from a check to the watcher's coming */
};

struct tree_pin { /* workspace_tree.pin */
    struct tree *tree;
    struct tree_layer *full, *diff; /* diff: or NULL */
};

/* What the store says of a path. */
struct tree_want {
    const char *path; /* arena */
    unsigned char sha256[HASH_SIZE];
    bool executable;
    bool gone;
};

struct tree_wants {
    struct arena *arena;
    struct tree_want *wants; /* sorted by path; owned */
    size_t count;
    int64_t seq;            /* of the head they show */
    char owner[BLOB_OWNER]; /* of the workspace's tenant */
};

/* ---- build.c: the wanted tree, from the store ---------------------- */

/* All files at the head. */
int tree_rows_all(struct trees *trees, const char *id, struct tree_wants *ret,
                  struct error *err);
/* Every path that a commit after `seq` touched, as it is at the head. */
int tree_rows_since(struct trees *trees, const char *id, int64_t seq,
                    struct tree_wants *ret, struct error *err);

/* ---- build.c: sorted lists of files -------------------------------- */

/* Index of the first file not before path. */
size_t tree_files_lower(const struct tree_file *files, size_t count,
                        const char *path);
struct tree_file *tree_files_find(const struct tree_layer *layer,
                                  const char *path);
/* Is the file there as it is wanted? */
bool tree_files_same(const struct tree_file *file,
                     const struct tree_want *want);
void tree_files_free(struct tree_file *files, size_t count);
size_t tree_wants_lower(const struct tree_wants *wants, const char *path);
void tree_wants_done(struct tree_wants *wants); /* for cleanup() */

/* ---- place.c: at work in a layer ----------------------------------- */

/* Paths come sorted, so the folder changes seldom. */
struct tree_place {
    struct blobs *blobs;
    const char *owner; /* borrowed */
    int root;          /* the layer */
    int folder;        /* -1: none */
    size_t len;        /* of its path, with the "/" at its end; 0: the root */
    size_t known;      /* so much of it was the same at the last watch */
    char path[PATH_BYTES_MAX + 1];
};
void tree_place_done(struct tree_place *p); /* for cleanup() */
int tree_place_open(struct tree_place *p, int dir, unsigned generation,
                    bool make, struct error *err);
/* Folders on the way are made. ret: the file as it was just verified. */
int tree_place_link(struct tree_place *p, const struct tree_want *want,
                    struct tree_file *ret, struct error *err);
int tree_place_unlink(struct tree_place *p, const struct tree_file *file,
                      struct error *err);
int tree_place_hide(struct tree_place *p, const char *path, struct error *err);
/* The folder that holds path, and the name in it; makes nothing. Negative
 * errno. */
int tree_place_find(struct tree_place *p, const char *path,
                    const char **ret_name);
int tree_place_failed(struct error *err, int errnum);

/* ---- build.c: layers ---------------------------------- */

/* dir: the workspace's folder. Each makes or changes the folder of
 * layer->generation below it, layer->files and layer->seq. After a failure
 * what is there is only good to be removed. */
int tree_build_full(struct blobs *b, int dir, struct tree_layer *layer,
                    const struct tree_wants *wants, struct error *err);
int tree_build_forward(struct blobs *b, int dir, struct tree_layer *layer,
                       const struct tree_wants *wants, struct error *err);
int tree_diff_build(struct blobs *b, int dir, struct tree_layer *layer,
                    const struct tree_layer *full,
                    const struct tree_wants *wants, struct error *err);

/* ---- make.c: towards the head ------------------------------------------ */

void tree_make_free(struct tree_layer *layer); /* from memory; accepts NULL */
/* From disk. */
void tree_make_remove(struct blobs *b, int dir, struct tree_layer *layer);
/* Out of t->layers; under `lock`. */
void tree_make_detach(struct tree *t, struct tree_layer *layer);
/* Under `building`: a full layer at or after commit `head` and of that owner,
 * or one with a difference to it. ret_dir: the workspace's folder, owned by
 * caller. */
int tree_make_current(struct trees *trees, struct tree *t, int64_t head,
                      const char *owner, int *ret_dir, struct error *err);

/* ---- tree.c: which there are ------------------------------------------- */

/* One more user; NULL if there is none and it shall not be made. */
struct tree *tree_use(struct trees *trees, const char *id, bool make);
/* One user less; a forgotten tree goes with its last one. */
void tree_unuse(struct trees *trees, struct tree *t);
/* Drops what was not used for longest, as far as there is too much: from
 * memory, its log staying, or from the disk as well. */
void trees_evict(struct trees *trees);

/* ---- check.c: is it still what was verified? ----------------------- */

/* At every file of a full layer, under `building`; what is not as it was is
 * doubted. False when it stopped because another thread wants the
 * tree. */
bool tree_check_look(struct trees *trees, struct tree *t, int dir,
                     struct tree_layer *layer);

/* ---- watch.c: inotify ----------------------- */

/* dir: of the workspace. False: it cannot be watched. */
bool tree_watch_open(struct tree_layer *layer, int dir);
/* From now on; false when the kernel will not. */
bool tree_watch_file(struct tree_layer *layer, struct tree_place *p,
                     struct tree_file *file);
/* After tree_build_forward: what is new is watched, too. */
void tree_watch_forward(int dir, struct tree_layer *layer,
                        const struct tree_wants *wants);
/* Under the watch's lock: doubts files to which something happened since the
 * last call. */
void tree_watch_hear(struct tree_layer *layer);
void tree_watch_doubt(struct tree_layer *layer, struct tree_file *file,
                      bool doubted);
void tree_watch_close(struct tree_layer *layer); /* accepts never opened */

/* ---- watch.c: the watcher thread ------------------------------- */

void tree_watcher_init(struct trees *trees);
void tree_watcher_stop(struct trees *trees);
/* A full layer was checked and is pinned: watch it, if that is worth it. */
void tree_watcher_want(struct trees *trees, struct tree *t,
                       struct tree_layer *layer);
/* Serves a tree on the watcher thread; false: call it again. */
bool tree_watcher_serve(struct trees *trees, struct tree *t);
/* Does another thread want the tree? Looks only once in a number of files. */
bool tree_watcher_yields(struct trees *trees, const struct tree *t,
                         size_t done);

/* ---- log.c: what survives the process, not the machine ------------- */

/* 1 and the full layer, or 0: none, half-done, of another boot, damaged. */
int tree_log_read(int dir, const char *boot, struct tree_layer *ret);
/* A failure to write leaves no log: the tree is built anew after a restart. */
void tree_log_write(int dir, const char *boot, struct tree_layer *layer);
/* Before and after tree_build_forward. */
void tree_log_dirty(int dir, struct tree_layer *layer);
void tree_log_forward(int dir, const char *boot, struct tree_layer *layer,
                      const struct tree_wants *wants);
/* Newer stamps of these files. */
void tree_log_stamps(int dir, struct tree_layer *layer,
                     const struct tree_file *const *files, size_t count);

#endif
