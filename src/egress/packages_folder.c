/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of wheels an operator fills: which of its files are a project's,
 * and their hashes, read in pieces so that no other connection waits. Runs
 * in glovebox-egress, in steps of the connection.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "egress/packages_int.h"

#define HASH_AT_ONCE ((size_t)16 << 20) /* between two looks at the others */

int egress_packages_open(const struct conn *c, const char *name)
{
    int dir cleanup(fd_close) =
        open(c->e->setup.wheels_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static void add_file(struct package_job *j, const char *name,
                     const char *version)
{
    struct package_file *f;

    if (j->count == PACKAGE_FILES_MAX)
        return;
    if (!j->files)
        j->files = xcalloc(PACKAGE_FILES_MAX, sizeof(*j->files));
    f = &j->files[j->count++];
    (void)snprintf(f->name, sizeof(f->name), "%.199s", name);
    (void)snprintf(f->version, sizeof(f->version), "%s", version);
}

void egress_packages_scan(struct conn *c)
{
    struct package_job *j = c->job;
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;

    if (!c->e->setup.wheels_dir[0])
        return;
    dir = opendir(c->e->setup.wheels_dir);
    while (dir && (entry = readdir(dir))) {
        char project[PACKAGE_NAME_MAX], version[PACKAGE_VERSION_MAX];

        if (egress_packages_file(entry->d_name, project, version) &&
            strcmp(project, j->project) == 0 &&
            (j->listing || strcmp(entry->d_name, j->wanted) == 0))
            add_file(j, entry->d_name, version);
    }
}

/* Some of the open file. 1: all of it is hashed, 0: not yet, -1: failed. */
int egress_packages_hash(struct package_job *j, char ret[HASH_HEX])
{
    static char bytes[1 << 18];
    unsigned char sum[HASH_SIZE];

    if (!j->hash)
        j->hash = hash_stream_new();
    for (size_t done = 0; done < HASH_AT_ONCE;) {
        ssize_t n = read(j->fd, bytes, sizeof(bytes));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0) {
            hash_stream_end(take_ptr(j->hash), sum);
            (void)ids_hex(sum, sizeof(sum), ret);
            return 1;
        }
        hash_stream_add(j->hash, bytes, (size_t)n);
        done += (size_t)n;
    }
    return 0;
}

bool egress_packages_step_hash(struct conn *c)
{
    struct package_job *j = c->job;
    struct package_file *f = &j->files[j->at];
    int r;

    if (j->at == j->count) {
        j->at = 0;
        j->phase = JOB_ASK;
        return true;
    }
    if (j->fd < 0)
        j->fd = egress_packages_open(c, f->name);
    r = j->fd < 0 ? -1 : egress_packages_hash(j, f->sha256);
    c->deadline_ms = clock_mono_ms() + c->e->setup.idle_ms;
    if (r == 0)
        return false; /* the tick goes on, after the others had a turn */
    if (r < 0) {      /* unreadable: as if it were not there */
        hash_stream_free(take_ptr(j->hash));
        f->sha256[0] = '\0';
    }
    fd_close(&j->fd);
    j->fd = -1;
    j->at++;
    return true;
}
