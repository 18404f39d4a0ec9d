/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-model's loop: orders of gloveboxd, transfers, deadlines; see
 * wire/model_msg.h. One thread; libcurl starts others to look up names. What
 * is malformed or untimely ends the process.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "helper/helper.h"
#include "upstream/transfer_int.h"
#include "wire/wire.h"

#define TICK_MS 100 /* between two looks at deadlines */
#define MEMORY_MAX ((rlim_t)4 << 30)

struct upstream {
    int ctl;
    CURLM *multi;
    struct transfer *transfers;
    unsigned count;
    bool set_up, stop;
    char ca_file[MODEL_PATH_MAX];
    struct curl_waitfd *fds;
    unsigned fds_max;
};

#define ENDED(field) (memchr(field, 0, sizeof(field)) != NULL)

/* ---- orders ------------------------------------------------------------- */

/* Everything that must be opened is, and then the process confines itself:
 * no byte of a server is here before that. */
static int order_setup(struct upstream *u, const struct model_order *order)
{
    struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
    struct model_setup_reply reply = {0};
    int r;

    if (u->set_up || !ENDED(order->ca_file))
        return -EBADMSG;
    memcpy(u->ca_file, order->ca_file, sizeof(u->ca_file));
    u->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
                   ? curl_multi_init()
                   : NULL;
    r = u->multi ? 0 : -ENOMEM;
#ifndef __SANITIZE_ADDRESS__ /* which reserves terabytes */
    if (r == 0 && setrlimit(RLIMIT_DATA, &memory) < 0)
        r = -errno;
#else
    (void)memory;
#endif
    if (r == 0)
        r = helper_confine(HELPER_THREADS);
    reply.errnum = -r;
    if (r < 0)
        (void)snprintf(reply.text, sizeof(reply.text),
                       "the process could not confine itself");
    u->set_up = r == 0;
    return wire_send(u->ctl, &reply, sizeof(reply), NULL, 0);
}

static bool is_sound(const struct model_call_msg *c)
{
    return c->dialect > 0 && c->dialect < MODEL_DIALECT_MAX && c->connect_ms &&
           c->idle_ms && c->total_ms && c->prompt_len <= MODEL_PROMPT_MAX &&
           ENDED(c->url) && ENDED(c->model) && ENDED(c->header) &&
           ENDED(c->secret) && !strpbrk(c->header, "\r\n:") &&
           !strpbrk(c->secret, "\r\n");
}

/* The call out of a memfd, which must have just that. */
static int read_call(int fd, struct model_call_msg *ret, char **ret_prompt)
{
    struct stat st;
    char *prompt;

    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*ret) ||
        pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) ||
        !is_sound(ret) ||
        st.st_size != (off_t)(sizeof(*ret) + ret->prompt_len))
        return -EBADMSG;
    prompt = malloc(ret->prompt_len + 1u);
    if (!prompt)
        return -ENOMEM;
    if (lseek(fd, sizeof(*ret), SEEK_SET) < 0 ||
        fd_read_all(fd, prompt, ret->prompt_len) != (ssize_t)ret->prompt_len) {
        free(prompt);
        return -EBADMSG;
    }
    prompt[ret->prompt_len] = '\0';
    *ret_prompt = prompt;
    return 0;
}

static int order_call(struct upstream *u, int *memory, int *stream)
{
    struct model_call_msg *call = xcalloc(1, sizeof(*call));
    char *prompt cleanup(mem_free) = NULL;
    int r = read_call(*memory, call, &prompt);

    if (r == 0 && u->count >= MODEL_CALLS_MAX) {
        transfer_refuse(*stream, MODEL_BUSY, "too many calls are under way");
    } else if (r == 0) {
        struct transfer *t =
            transfer_new(u->multi, call, prompt, call->prompt_len,
                         take_fd(*stream), u->ca_file);

        t->next = u->transfers;
        u->transfers = t;
        u->count++;
    }
    explicit_bzero(call, sizeof(*call));
    free(call);
    return r;
}

static void on_order(struct upstream *u)
{
    struct model_order order;
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    ssize_t n = wire_recv(u->ctl, &order, sizeof(order), fds, &count);
    int r = -EBADMSG;

    if (n == 0) {
        u->stop = true;
        return;
    }
    if (n == (ssize_t)sizeof(order) && order.type == MODEL_ORDER_SETUP &&
        count == 0)
        r = order_setup(u, &order);
    else if (n == (ssize_t)sizeof(order) && order.type == MODEL_ORDER_CALL &&
             count == 2 && u->set_up)
        r = order_call(u, &fds[0], &fds[1]);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    if (r < 0) {
        log_event(LOG_ERROR, "model_order_refused", NULL);
        u->stop = true;
    }
}

/* ---- the loop ----------------------------------------------------------- */

static unsigned fill_fds(struct upstream *u)
{
    unsigned n = 0;

    if (u->fds_max < u->count + 1) {
        u->fds_max = (u->count + 1) * 2;
        u->fds = xrealloc(u->fds, u->fds_max * sizeof(*u->fds));
    }
    u->fds[n++] =
        (struct curl_waitfd){.fd = u->ctl, .events = CURL_WAIT_POLLIN};
    for (struct transfer *t = u->transfers; t; t = t->next)
        u->fds[n++] = (struct curl_waitfd){
            .fd = t->stream,
            .events = (short)(CURL_WAIT_POLLIN |
                              (t->out.len ? CURL_WAIT_POLLOUT : 0))};
    return n;
}

/* gloveboxd sends nothing on a stream: whatever can be read is its end. */
static void serve_streams(struct upstream *u)
{
    unsigned n = 1;

    for (struct transfer *t = u->transfers; t; t = t->next, n++) {
        if (u->fds[n].revents & CURL_WAIT_POLLIN)
            t->gone = true;
        else if (u->fds[n].revents & CURL_WAIT_POLLOUT)
            transfer_flush(t);
    }
}

static void finish_transfers(struct upstream *u)
{
    uint64_t now = clock_mono_ms();
    struct CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(u->multi, &left)) != NULL) {
        struct transfer *t = NULL;
        CURLcode code = m->data.result;

        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        if (m->msg == CURLMSG_DONE && t)
            transfer_end(t, u->multi, code);
    }
    for (struct transfer **at = &u->transfers; *at;) {
        struct transfer *t = *at;

        transfer_check(t, u->multi, now);
        if (t->out.len && !t->gone)
            transfer_flush(t);
        if (!transfer_is_over(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        u->count--;
        transfer_free(t, u->multi);
    }
}

/* Before SETUP there is no multi handle to wait with. */
static void wait_for_setup(struct upstream *u)
{
    while (!u->set_up && !u->stop)
        on_order(u);
}

int upstream_serve_run(int ctl)
{
    struct upstream u = {.ctl = ctl};
    int running;

    (void)signal(SIGPIPE, SIG_IGN);
    wait_for_setup(&u);
    while (!u.stop) {
        unsigned n = fill_fds(&u);

        if (curl_multi_poll(u.multi, u.fds, n, u.transfers ? TICK_MS : 60000,
                            NULL) != CURLM_OK)
            break;
        serve_streams(&u);
        if (u.fds[0].revents & CURL_WAIT_POLLIN)
            on_order(&u);
        if (curl_multi_perform(u.multi, &running) != CURLM_OK)
            break;
        finish_transfers(&u);
    }
    while (u.transfers) {
        struct transfer *t = u.transfers;

        u.transfers = t->next;
        transfer_free(t, u.multi);
    }
    (void)curl_multi_cleanup(u.multi);
    free(u.fds);
    fd_close(&u.ctl);
    return 0;
}
