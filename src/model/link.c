/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloveboxd's side of glovebox-model: starts it, gives calls to it, and starts
 * it again, at the next call, when it has died. Any thread may call.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/priv.h"
#include "helper/helper.h"
#include "model/model_int.h"
#include "wire/wire.h"

#define SETUP_MS 10000
#define PAUSE_LEAST_MS 200u
#define PAUSE_MOST_MS 30000u
#define STEADY_MS 60000u /* after that a death is the first again */

struct model_link {
    struct mutex lock; /* held while a process is started or ordered */
    struct helper helper;
    int ctl; /* lock; -1: there is no process */
    char ca_file[MODEL_PATH_MAX];
    uint64_t pause_ms, started_ms, not_before_ms; /* lock */
    uint64_t starts;                              /* lock */
};

/* ---- one process -------------------------------------------------------- */

static int set_up(struct model_link *l, struct error *err)
{
    struct model_order order = {.type = MODEL_ORDER_SETUP};
    struct model_setup_reply reply = {0};
    struct pollfd p = {.fd = l->ctl, .events = POLLIN};

    memcpy(order.ca_file, l->ca_file, sizeof(order.ca_file));
    if (wire_send(l->ctl, &order, sizeof(order), NULL, 0) < 0 ||
        poll(&p, 1, SETUP_MS) != 1 ||
        wire_recv(l->ctl, &reply, sizeof(reply), NULL, NULL) !=
            (ssize_t)sizeof(reply))
        return error_set(err, ERR_UNAVAILABLE,
                         "glovebox-model does not answer");
    reply.text[sizeof(reply.text) - 1] = '\0';
    return reply.errnum ? error_set(err, ERR_UNAVAILABLE, "glovebox-model: %s",
                                    reply.text)
                        : 0;
}

static int start_process(struct model_link *l, struct error *err)
{
    uint64_t now = clock_mono_ms();
    int pair[2];
    int r = fd_socketpair(SOCK_SEQPACKET, pair);

    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot make a socket");
    fd_close(&l->ctl);
    if (now - l->started_ms > STEADY_MS)
        l->pause_ms = PAUSE_LEAST_MS;
    l->started_ms = now;
    l->not_before_ms = now + l->pause_ms;
    l->pause_ms = MIN(l->pause_ms * 2, PAUSE_MOST_MS);
    r = helper_order(&l->helper, &pair[1], 1, err);
    fd_close(&pair[1]);
    l->ctl = pair[0];
    if (r == 0)
        r = set_up(l, err);
    if (r < 0)
        fd_close(&l->ctl);
    else
        l->starts++;
    return r;
}

static bool is_alive(const struct model_link *l)
{
    struct pollfd p = {.fd = l->ctl, .events = POLLIN};

    return l->ctl >= 0 && poll(&p, 1, 0) == 0;
}

/* A process that dies at once is not started again at once. */
static int need_process(struct model_link *l, struct error *err)
{
    int r;

    mutex_assert_held(&l->lock);
    if (is_alive(l))
        return 0;
    log_event(LOG_ERROR, "model_process_died", NULL);
    if (clock_mono_ms() < l->not_before_ms) {
        struct pollfd none = {.fd = -1};

        (void)poll(&none, 1, MIN(clock_left_ms(l->not_before_ms), 2000));
    }
    r = start_process(l, err);
    if (r == 0)
        log_event(LOG_INFO, "model_process_started_again", NULL);
    return r;
}

/* ---- the link ----------------------------------------------------------- */

int model_link_open(const char *program, const struct priv_user *user,
                    const char *ca_file, struct model_link **ret,
                    struct error *err)
{
    struct model_link *l = xcalloc(1, sizeof(*l));
    int r;

    mutex_init(&l->lock);
    l->ctl = -1;
    l->helper = HELPER_NONE;
    l->pause_ms = PAUSE_LEAST_MS;
    (void)snprintf(l->ca_file, sizeof(l->ca_file), "%s", ca_file);
    r = helper_open(&l->helper, program, "glovebox-model", user, err);
    if (r == 0)
        r = start_process(l, err);
    if (r < 0) {
        model_link_close(l);
        return error_wrap(err, "cannot start glovebox-model");
    }
    *ret = l;
    return 0;
}

void model_link_close(struct model_link *l)
{
    if (!l)
        return;
    fd_close(&l->ctl);
    helper_close(&l->helper);
    mutex_done(&l->lock);
    free(l);
}

void model_link_fell(struct model_link *l)
{
    log_event(LOG_ERROR, "model_process_lost_a_call", NULL);
    (void)l; /* the next call finds the socket closed */
}

bool model_link_alive(struct models *m, uint64_t *ret_restarts)
{
    struct model_link *l = m->parts.link;
    bool alive;

    *ret_restarts = 0;
    if (!l)
        return false;
    mutex_lock(&l->lock);
    alive = is_alive(l);
    *ret_restarts = l->starts ? l->starts - 1 : 0;
    mutex_unlock(&l->lock);
    return alive;
}

/* ---- a call ------------------------------------------------------------- */

static int pack_call(const struct model_call_msg *call, const char *prompt,
                     int *ret, struct error *err)
{
    int fd cleanup(fd_close) = memfd_create("model-call", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, call, sizeof(*call));

    if (r == 0)
        r = fd_write_all(fd, prompt, call->prompt_len);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot store a request");
    *ret = take_fd(fd);
    return 0;
}

int model_link_call(struct model_link *l, const struct model_call_msg *call,
                    const char *prompt, int *ret, struct error *err)
{
    struct model_order order = {.type = MODEL_ORDER_CALL};
    int memory cleanup(fd_close) = -1;
    int pair[2] = {-1, -1};
    int fds[2];
    int r;

    if (!l) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "glovebox-model does not run, so no model can be "
                        "called");
        return error_hint(err, "The service's log says why it did not start.");
    }
    r = pack_call(call, prompt, &memory, err);
    if (r < 0)
        return r;
    r = fd_socketpair(SOCK_STREAM, pair);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot make a socket");
    fds[0] = memory;
    fds[1] = pair[1];
    mutex_lock(&l->lock);
    r = need_process(l, err);
    if (r == 0 && wire_send(l->ctl, &order, sizeof(order), fds, 2) < 0)
        r = error_set(err, ERR_UNAVAILABLE,
                      "glovebox-model ended just now; try again");
    mutex_unlock(&l->lock);
    fd_close(&pair[1]);
    if (r < 0)
        fd_close(&pair[0]);
    *ret = pair[0];
    return r;
}
