/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees that sessions mount: a workspace as of a commit, as folders of
 * links to blobs, below DIR/trees/<workspace>/. Each workspace has one full
 * tree, which is brought forward in place while no session mounts it; while
 * one does, the difference to the head is a second layer over it. Trees are
 * derived data: they are never synced, and rebuilt when in doubt.
 *
 * This module checks no permission; workspace/ does before it calls. Any
 * thread may call.
 */
#ifndef GLOVEBOX_TREE_TREE_H
#define GLOVEBOX_TREE_TREE_H

#include <stdint.h>

#include "base/ids.h"

struct blobs;
struct error;
struct store;
struct trees;

/* A tree to mount; it does not change until it is released. */
struct workspace_tree {
    char workspace[ID_MAX];
    int64_t seq;    /* of the commit it shows */
    int layers[2];  /* folders, O_PATH; the upper one first; owned */
    unsigned count; /* 0: the workspace is empty */
    void *pin;
};

/* Makes DIR/trees; trees of an earlier run are used again if they are whole.
 * store, blobs: borrowed until close. */
int trees_open(const char *data_dir, struct store *store, struct blobs *blobs,
               struct trees **ret, struct error *err);
void trees_close(struct trees *trees); /* accepts NULL */

/* The tree at commit `head` or later, for the inodes of that owner. */
int trees_acquire(struct trees *trees, const char *id, int64_t head,
                  const char *owner, struct workspace_tree *ret,
                  struct error *err);
/* Are all files behind it still what was verified (D3)? By inode and ctime;
 * what differs is hashed. ERR_CORRUPT names the object. A large tree is
 * watched from then on, and the next check costs as much as was touched
 * meanwhile. Meant to run beside the start of the sandbox. */
int trees_check(struct trees *trees, const struct workspace_tree *tree,
                struct error *err);
void trees_release(struct trees *trees, struct workspace_tree *tree);

/* Removes a workspace's tree from the disk: at once, or when the last session
 * that mounts it releases it. Before its rows are removed. */
void trees_forget(struct trees *trees, const char *id);
/* A blob turned out to be damaged: trees that link to it are not handed out
 * again before they were rebuilt, which fails until it is healed. */
void trees_doubt(struct trees *trees, const char *sha256);
/* Removes trees of workspaces that are gone, and what crashes left. */
int trees_tidy(struct trees *trees, struct error *err);

/* Removes a folder and everything in it, following no link. */
void tree_place_remove(int dir, const char *name);

#endif
