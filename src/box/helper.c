/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of a sandbox: one process per language, beside the kernel, which
 * keeps the variables of that language between executions. Runs in gloveboxd
 * on the thread that has the turn. Nothing here waits but for pid 1's reply.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "box/box_int.h"

/* Node has eleven threads when idle, R three processes. */
#define REST_MAX 24u

void box_helpers_init(struct box *b)
{
    for (size_t i = 0; i < INIT_HELPERS_MAX; i++)
        b->helpers[i].frames = -1;
}

void box_helpers_done(struct box *b)
{
    for (size_t i = 0; i < INIT_HELPERS_MAX; i++) {
        fd_close(&b->helpers[i].frames);
        buf_done(&b->helpers[i].pending);
    }
}

struct box_helper *box_helper_active(struct box *b)
{
    return b->active ? &b->helpers[b->active - 1] : NULL;
}

int box_helper_start(struct box *b, uint32_t number, const char *command,
                     int driver_fd, struct broker_reply *ret,
                     struct error *err)
{
    struct box_helper *h = &b->helpers[number - 1];
    int pair[2] = {-1, -1};
    int ours cleanup(fd_close) = -1;
    int theirs cleanup(fd_close) = -1;
    int rc = fd_socketpair(SOCK_STREAM, pair);

    ours = pair[0];
    theirs = pair[1];
    if (rc == 0)
        rc = fd_set_nonblock(ours, 1);
    if (rc < 0) {
        (void)error_errno(err, ERR_BUSY, -rc, "no descriptors for a sandbox");
        return error_retry(err, 1);
    }

    int fds[4] = {theirs, b->writers[0], b->writers[1], driver_fd};
    struct broker_request request = {.type = INIT_HELPER,
                                     .arg = number,
                                     .path = command,
                                     .fds = fds,
                                     .fd_count = 4};

    /* It inherits the environment as it is now. */
    mutex_lock(&b->guest_env_lock);
    h->environment = b->environment_changes;
    mutex_unlock(&b->guest_env_lock);
    rc = box_broker_call(b, &request, NULL, 0, false, ret, err);
    if (rc < 0 || ret->errnum)
        return rc;
    fd_close(&h->frames);
    h->frames = take_fd(ours);
    buf_done(&h->pending);
    h->pid = ret->arg;
    h->alive = true;
    h->cells = 0;
    return 0;
}

bool box_helper_alive(const struct box *b, uint32_t number)
{
    return b->helpers[number - 1].alive;
}

uint32_t box_helper_cells(const struct box *b, uint32_t number)
{
    const struct box_helper *h = &b->helpers[number - 1];

    return h->alive ? h->cells : 0;
}

void box_helper_lost(struct box *b, uint32_t number)
{
    b->helpers[number - 1].alive = false;
}

bool box_helper_ended(struct box *b, uint32_t pid)
{
    for (uint32_t i = 0; i < INIT_HELPERS_MAX; i++)
        if (b->helpers[i].alive && b->helpers[i].pid == pid) {
            b->helpers[i].alive = false;
            return b->active == i + 1;
        }
    return false;
}

void box_helpers_lost(struct box *b)
{
    for (uint32_t i = 1; i <= INIT_HELPERS_MAX; i++)
        box_helper_lost(b, i);
}

bool box_helpers_ran(const struct box *b)
{
    for (size_t i = 0; i < INIT_HELPERS_MAX; i++)
        if (b->helpers[i].alive)
            return true;
    return false;
}

uint32_t box_helpers_rest(const struct box *b)
{
    uint32_t count = 0;

    for (size_t i = 0; i < INIT_HELPERS_MAX; i++)
        count += b->helpers[i].alive ? REST_MAX : 0;
    return count;
}

void box_helper_use(struct box *b, uint32_t number)
{
    b->active = number;
}
