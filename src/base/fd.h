/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: closed by attribute, handed on by take_fd, close-on-exec from
 * birth. Helpers return a negative errno.
 */
#ifndef GLOVEBOX_BASE_FD_H
#define GLOVEBOX_BASE_FD_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

/* For `int fd cleanup(fd_close) = -1;`; ignores negative, keeps errno. */
void fd_close(int *fd);
/* For `DIR *d cleanup(fd_closedir) = NULL;` */
void fd_closedir(DIR **dir);

#define take_fd(fd)                                                           \
    ({                                                                        \
        int taken_ = (fd);                                                    \
        (fd) = -1;                                                            \
        taken_;                                                               \
    })

/* Reads or writes all of it, restarting on EINTR. Reading returns the number
 * of bytes (less than len only at end of file). Not for non-blocking fds. */
ssize_t fd_read_all(int fd, void *buf, size_t len);
int fd_write_all(int fd, const void *buf, size_t len);

/* Reads a whole small file, at most cap bytes, NUL-terminated; owned by
 * caller. -EFBIG when it is longer. */
int fd_read_file(int dirfd, const char *path, size_t cap, char **ret_text,
                 size_t *ret_len);
/* A new file that only its owner can read (0600), whole and on disk with its
 * name when this returns 0; -EEXIST, and all stays as it is, where there is
 * one of that name. For keys: none is ever replaced. */
int fd_write_new(int dirfd, const char *name, const void *bytes, size_t len);
/* Gives a file another name that is not taken: -EEXIST. Not synced. */
int fd_rename_new(int dirfd, const char *from, const char *to);
/* Writes text to an existing file (a kernel knob) in one write. */
int fd_write_file(int dirfd, const char *path, const char *text);

int fd_set_nonblock(int fd, int on);
int fd_dup(int fd, int lowest); /* close-on-exec */
/* Connected AF_UNIX pair, close-on-exec; type SOCK_STREAM or SOCK_SEQPACKET */
int fd_socketpair(int type, int ret_pair[2]);
int fd_pipe(int ret_pair[2]);

/* A part of this process's table of descriptors that modules which open many
 * leave free for the others. Set once, at the start; at most half of the table
 * counts. */
void fd_reserve_set(uint64_t descriptors);
/* True: the reserve is still free after fd was opened. The kernel returns the
 * lowest free number, so all below it are in use. */
bool fd_reserve_holds(int fd);

#endif
