/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to pid 1 of a sandbox over ctl: one at a time, each with a
 * deadline. Runs in gloveboxd. pid 1 is our program, but everything that comes
 * out of a sandbox is treated as hostile: a reply that is late, short,
 * misnumbered or carries unexpected descriptors breaks the box, and a broken
 * box is killed.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "box/box_int.h"
#include "wire/wire.h"

#define ERRNO_MAX 4095

static int broker_broken(struct box *b, const char *why, struct error *err)
{
    log_event(LOG_WARN, "sandbox_broken", "why", why, NULL);
    atomic_store(&b->broken, true);
    box_kill(b);
    return error_set(err, ERR_GUEST, "the sandbox is gone: %s", why);
}

/* pid 1 is our program and runs apart from the session's code, so a late reply
 * is probably the machine's fault. The sandbox is abandoned nevertheless: a
 * reply that came now would be taken for the reply to the next request. */
static int broker_late(struct box *b, struct error *err)
{
    struct error ignored;

    (void)broker_broken(b, "it does not answer", &ignored);
    return box_late("a sandbox did not answer", b->ctl_patience_ms, err);
}

static bool wait_for(int fd, short events, uint64_t deadline_ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do
        n = poll(&p, 1, clock_left_ms(deadline_ms));
    while (n < 0 && errno == EINTR);
    return n > 0;
}

static int send_request(struct box *b, const struct broker_request *request,
                        uint64_t deadline_ms)
{
    struct init_request msg = {
        .type = request->type, .seq = ++b->seq, .arg = request->arg};
    int rc;

    if (request->path) {
        size_t len = strlen(request->path);

        memcpy(msg.path, request->path, len); /* at most INIT_PATH_MAX (F5) */
        msg.path_len = (uint32_t)len;
    }
    for (;;) {
        rc = wire_send(b->ctl, &msg, sizeof(msg), request->fds,
                       request->fd_count);
        if (rc != -EAGAIN || !wait_for(b->ctl, POLLOUT, deadline_ms))
            return rc;
    }
}

static bool changes_files(uint32_t type)
{
    return type == INIT_SHELL || type == INIT_CREATE || type == INIT_PUBLISH ||
           type == INIT_REMOVE || type == INIT_ENVIRONMENT || type == INIT_CA;
}

int box_broker_begin(struct box *b, const struct broker_request *request,
                     struct error *err)
{
    uint32_t ms = request->timeout_ms ? request->timeout_ms : BOX_CALL_MS;
    uint64_t deadline = clock_mono_ms() + ms;
    int rc;

    if (changes_files(request->type))
        atomic_store(&b->touched, true);
    if (!mutex_lock_until(&b->ctl_lock, deadline))
        return error_set(err, ERR_BUSY, "the session is busy with its files");
    if (atomic_load(&b->broken))
        rc = error_set(err, ERR_GUEST, "the sandbox is gone");
    else if (send_request(b, request, deadline) < 0)
        rc = broker_broken(b, "it cannot be reached", err);
    else {
        b->ctl_deadline_ms = deadline;
        b->ctl_patience_ms = ms;
        return 0;
    }
    mutex_unlock(&b->ctl_lock);
    return rc;
}

/* NULL, or what is wrong with the reply of n bytes. */
static const char *reply_fault(const struct box *b,
                               const struct init_reply *head, ssize_t n,
                               size_t fd_count, bool want_fd)
{
    if (n == 0)
        return "it ended";
    if (n < 0 || (size_t)n < sizeof(*head))
        return "a reply has the wrong size";
    if (head->seq != b->seq)
        return "a reply is out of order";
    if (head->payload_len != (size_t)n - sizeof(*head))
        return "a reply's length is wrong";
    if (head->errnum < 0 || head->errnum > ERRNO_MAX)
        return "a reply's error is wrong";
    if (fd_count != (want_fd && head->errnum == 0 ? 1u : 0u))
        return "a reply has the wrong descriptors";
    return NULL;
}

static int receive_reply(struct box *b, char *room, size_t room_len,
                         bool want_fd, struct broker_reply *ret,
                         struct error *err)
{
    struct init_reply head;
    int fds[WIRE_FDS_MAX];
    size_t fd_count = 0;
    const char *fault;
    ssize_t n;

    if (!wait_for(b->ctl, POLLIN, b->ctl_deadline_ms))
        return broker_late(b, err);
    n = wire_recv(b->ctl, room ? room : (char *)&head,
                  room ? room_len : sizeof(head), fds, &fd_count);
    if (n == -EMFILE) { /* ours is full; that is no fault of the session */
        *ret = (struct broker_reply){.errnum = EMFILE, .fd = -1};
        return 0;
    }
    if (room && n >= (ssize_t)sizeof(head))
        memcpy(&head, room, sizeof(head));
    fault = reply_fault(b, &head, n, fd_count, want_fd);
    if (fault) {
        for (size_t i = 0; i < fd_count; i++)
            fd_close(&fds[i]);
        return broker_broken(b, fault, err);
    }
    *ret = (struct broker_reply){.errnum = head.errnum,
                                 .arg = head.arg,
                                 .fd = fd_count ? fds[0] : -1,
                                 .payload = room ? room + sizeof(head) : NULL,
                                 .payload_len = head.payload_len,
                                 .free_bytes = head.scratch_free_bytes,
                                 .free_inodes = head.scratch_free_inodes,
                                 .blocked = head.blocked};
    return 0;
}

int box_broker_end(struct box *b, char *room, size_t room_len, bool want_fd,
                   struct broker_reply *ret, struct error *err)
{
    int rc = receive_reply(b, room, room_len, want_fd, ret, err);

    mutex_unlock(&b->ctl_lock);
    return rc;
}

int box_broker_call(struct box *b, const struct broker_request *request,
                    char *room, size_t room_len, bool want_fd,
                    struct broker_reply *ret, struct error *err)
{
    int rc = box_broker_begin(b, request, err);

    if (rc < 0)
        return rc;
    return box_broker_end(b, room, room_len, want_fd, ret, err);
}

int box_broker_signal(struct box *b, enum init_signal sig, uint32_t timeout_ms,
                      struct error *err)
{
    struct broker_request request = {
        .type = INIT_SIGNAL, .arg = sig, .timeout_ms = timeout_ms};
    struct broker_reply reply;

    /* A refusal means that no process was left to signal, which is success. */
    return box_broker_call(b, &request, NULL, 0, false, &reply, err);
}

int box_broker_entry(const char *payload, size_t len, size_t *pos,
                     struct init_entry *ret, const char **ret_path)
{
    size_t left = len - *pos;

    if (left == 0)
        return 0;
    if (left < sizeof(*ret))
        return -EBADMSG;
    memcpy(ret, payload + *pos, sizeof(*ret));
    left -= sizeof(*ret);
    if (ret->path_len > left || ret->kind < INIT_ENTRY_FILE ||
        ret->kind > INIT_ENTRY_SKIPPED)
        return -EBADMSG;
    *ret_path = payload + *pos + sizeof(*ret);
    *pos += sizeof(*ret) + ret->path_len;
    return 1;
}
