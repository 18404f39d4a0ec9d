/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote of an image without a usable Python: the same loop and the same
 * pid 1, in a small static program instead of python3 (src/cmd/init.c). Its
 * kernel runs no code: shells and the interpreters of other languages are
 * started by pid 1. It exists so that a sandbox has the same parts everywhere,
 * and answers a cell, which the daemon does not send, with an error.
 */
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"
#include "wire/zygote_msg.h"

#define SPEC_MAX (1u << 20)
#define EXIT_BAD_SPEC 1

/* ---- environment -------------------------------------------------------- */

/* A JSON string as gloveboxd writes it: quotes, backslashes and control
 * characters are escaped, the latter as \u00XX. *at: behind its opening quote;
 * afterwards behind its closing one. ret has room for what is left. */
static bool take_string(const char **at, char *ret)
{
    const char *p = *at;
    unsigned code;

    for (; *p && *p != '"'; p++) {
        if (*p != '\\') {
            *ret++ = *p;
        } else if (p[1] == 'u' && sscanf(p + 2, "%4x", &code) == 1 &&
                   code < 0x80) {
            *ret++ = (char)code;
            p += 5;
        } else if (p[1]) {
            *ret++ = *++p;
        } else {
            return false;
        }
    }
    *ret = '\0';
    *at = p + 1;
    return *p == '"';
}

/* {"preload":[...],"environment":{"NAME":"VALUE",...}}: only the latter is of
 * use here. */
static bool set_environment(const char *spec)
{
    const char *at = strstr(spec, "\"environment\":{");
    char *name cleanup(mem_free) = xmalloc(SPEC_MAX + 1);
    char *value cleanup(mem_free) = xmalloc(SPEC_MAX + 1);

    if (!at)
        return false;
    at += strlen("\"environment\":{");
    while (*at == '"' || *at == ',') {
        at += *at == ',';
        if (*at++ != '"' || !take_string(&at, name) || *at++ != ':' ||
            *at++ != '"' || !take_string(&at, value))
            return false;
        if (setenv(name, value, 1) < 0)
            return false;
    }
    return *at == '}';
}

static bool read_spec(int fd)
{
    char *spec cleanup(mem_free) = xmalloc(SPEC_MAX + 1);
    ssize_t n = fd_read_all(fd, spec, SPEC_MAX + 1);

    if (n < 0 || n > (ssize_t)SPEC_MAX)
        return false;
    spec[n] = '\0';
    return set_environment(spec);
}

/* ---- the kernel --------------------------------------------------------- */

static void add_pair(struct buf *b, const char *key, const char *value)
{
    buf_add_u32(b, (uint32_t)strlen(key));
    buf_add_u32(b, (uint32_t)strlen(value));
    buf_adds(b, key);
    buf_adds(b, value);
}

static void refuse_cell(void)
{
    static const char text[] = "this image has no Python for cells";
    struct kernel_done done = {.status = KERNEL_DONE_ERROR};
    struct buf pairs cleanup(buf_done) = {0};

    add_pair(&pairs, "name", "Unsupported");
    add_pair(&pairs, "message", text);
    add_pair(&pairs, "brief", text);
    if (wire_frame_send(KERNEL_FRAMES_FD, KERNEL_ERROR, pairs.data,
                        pairs.len) < 0 ||
        wire_frame_send(KERNEL_FRAMES_FD, KERNEL_DONE, &done, sizeof(done)) <
            0)
        _exit(0);
}

static void answer_look(const char *payload, size_t len)
{
    struct buf answer cleanup(buf_done) = {0};

    if (len < sizeof(uint32_t))
        return;
    buf_add(&answer, payload, sizeof(uint32_t)); /* its number */
    buf_adds(&answer, "{}");
    if (wire_frame_send(KERNEL_FRAMES_FD, KERNEL_SEEN, answer.data,
                        answer.len) < 0)
        _exit(0);
}

/* There is no interpreter whose memory could be kept. */
static void refuse_memory(const char *payload, size_t len)
{
    struct kernel_remembered answer = {.result = KERNEL_MEMORY_REFUSED};

    if (len < sizeof(answer.number))
        return;
    memcpy(&answer.number, payload, sizeof(answer.number));
    if (wire_frame_send(KERNEL_FRAMES_FD, KERNEL_REMEMBERED, &answer,
                        sizeof(answer)) < 0)
        _exit(0);
}

static _Noreturn void refuse_image(void)
{
    uint32_t why = KERNEL_IMAGE_UNSUPPORTED;

    (void)wire_frame_send(KERNEL_FRAMES_FD, KERNEL_UNUSABLE, &why,
                          sizeof(why)); /* its end says the same */
    _exit(0);
}

static _Noreturn void kernel_loop(void)
{
    if (wire_frame_send(KERNEL_FRAMES_FD, KERNEL_READY, "", 0) < 0)
        _exit(0);
    for (;;) {
        struct kernel_frame head;
        char *payload cleanup(mem_free) = NULL;

        if (fd_read_all(KERNEL_FRAMES_FD, &head, sizeof(head)) !=
                (ssize_t)sizeof(head) ||
            head.len > KERNEL_FRAME_MAX)
            _exit(0);
        payload = xmalloc(head.len + 1u);
        if (fd_read_all(KERNEL_FRAMES_FD, payload, head.len) !=
            (ssize_t)head.len)
            _exit(0);
        if (head.type == KERNEL_EXECUTE)
            refuse_cell();
        else if (head.type == KERNEL_LOOK)
            answer_look(payload, head.len);
        else if (head.type == KERNEL_MEMORY)
            refuse_memory(payload, head.len);
    }
}

void plain_zygote_run(int sock, int spec_fd)
{
    struct zygote_reply ready = {.type = ZYGOTE_READY, .pid = getpid()};
    struct kernel_seat seat;

    if (!read_spec(spec_fd))
        _exit(EXIT_BAD_SPEC);
    (void)close(spec_fd);
    sandbox_proc_learn();
    zygote_serve(sock, &ready, NULL, 0, &seat);
    /* From here on this is a kernel, sealed in a session. */
    if (seat.image >= 0)
        refuse_image();
    (void)setenv("HOME", SANDBOX_HOME, 1);
    kernel_loop();
}
