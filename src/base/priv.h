/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up privilege: which account to become, which directory becomes its
 * own, and becoming it for good. Used by gloveboxd at its start, as root or
 * as an ordinary user, before it reads a byte from outside. Returns a
 * negative errno.
 */
#ifndef GLOVEBOX_BASE_PRIV_H
#define GLOVEBOX_BASE_PRIV_H

#include <sys/types.h>

struct priv_user {
    uid_t uid;
    gid_t gid;
};

/* -ENOENT when there is no such account, -EINVAL when it is root. */
int priv_find(const char *name, struct priv_user *ret_user);

/*
 * Makes the directory with its missing parents, and the user's own (0700).
 * One that exists must be ours or the user's and closed to others, or empty:
 * -ENOTEMPTY otherwise, so that a mistyped path never changes hands.
 * ret_fd: owned by caller.
 */
int priv_claim_dir(const char *path, const struct priv_user *user,
                   int *ret_fd);

/* Becomes the user (if we are root), drops every capability and group, and
 * makes sure that there is no way back. */
int priv_drop(const struct priv_user *user);

#endif
