/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox mcp: MCP on standard input and output, for hosts that start their
 * servers themselves. One JSON message a line in each direction and nothing
 * else on standard output. It talks to the running service, or starts one on
 * the usual data directory; see mcp.h for the pieces.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/mcp/mcp.h"

#define POLL_MS 60000

/* Until the host, the service or a signal has something to say, or the host
 * can be told something. */
static void wait_for_any(struct mcp_bridge *b, int ms)
{
    bool full = cli_mcp_host_full(b);
    struct curl_waitfd extra[3] = {
        {.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN}};
    struct pollfd few[3] = {{.fd = STDIN_FILENO, .events = POLLRDHUP}};
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    struct signalfd_siginfo info;
    unsigned count = 1;

    if (b->c->signal_fd >= 0) {
        few[count] = (struct pollfd){.fd = b->c->signal_fd, .events = POLLIN};
        extra[count++] = (struct curl_waitfd){.fd = b->c->signal_fd,
                                              .events = CURL_WAIT_POLLIN};
    }
    if (b->out.len > 0) {
        few[count] = (struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT};
        extra[count++] = (struct curl_waitfd){.fd = STDOUT_FILENO,
                                              .events = CURL_WAIT_POLLOUT};
    }
    if (full)
        (void)poll(few, count, ms);
    else
        (void)curl_multi_poll(b->multi, extra, count, ms, NULL);
    if ((b->c->signal_fd >= 0 && read(b->c->signal_fd, &info, sizeof(info)) ==
                                     (ssize_t)sizeof(info)) ||
        (full && few[0].revents))
        b->ended = true;
    else if (!full && poll(&input, 1, 0) > 0)
        cli_mcp_host_read(b);
}

/* The spine: until the host hangs up, what it says goes to the service and
 * what the service says goes to it. */
static void drive_bridge(struct mcp_bridge *b)
{
    while (!b->ended) {
        int ms = POLL_MS, running;

        if (!cli_mcp_host_full(b)) {
            (void)curl_multi_perform(b->multi, &running);
            cli_mcp_exchange_reap(b);
        }
        ms = cli_mcp_session_listen(b, ms);
        ms = cli_mcp_exchange_pump(b, ms);
        cli_mcp_host_flush(b);
        if (!b->ended)
            wait_for_any(b, ms);
    }
}

static int run_bridge(struct cli *c, const struct cli_words *words, void *arg)
{
    static const char *const paths[][2] = {
        {"core", "/mcp"},
        {"workspace", "/mcp?tools=workspace"},
        {"all", "/mcp?tools=all"},
    };
    const char *const *tools = arg;
    struct mcp_bridge b = {.c = c};

    (void)words;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (strcmp(*tools ? *tools : "core", paths[i][0]) == 0)
            b.path = paths[i][1];
    if (!b.path)
        return cli_usage_error(c,
                               "--tools must be core, workspace or all, "
                               "not '%s'",
                               *tools);
    b.multi = curl_multi_init();
    if (!b.multi)
        abort();     /* as any small allocation of ours */
    c->json = false; /* standard output is for messages alone */
    ids_make("proc", b.process);
    cli_mcp_host_init(&b);
    c->watch_fd = STDIN_FILENO;
    /* Without a service, requests of the host are answered with that error. */
    (void)cli_mcp_exchange_find_service(&b);
    drive_bridge(&b);
    cli_mcp_exchange_drop(&b);
    cli_mcp_session_close(&b);
    (void)curl_multi_cleanup(b.multi);
    cli_mcp_host_done(&b);
    return CLI_EXIT_OK;
}

const struct cli_command cli_mcp = {
    .name = "mcp",
    .summary =
        "Speak MCP on standard input and output, for a host that starts it",
    .notes =
        "For hosts that start their MCP servers themselves: one message per\n"
        "line on standard input and output, in any revision from 2025-03-26\n"
        "to 2026-07-28. Without a running service it starts one on the data\n"
        "directory, which ends with it; several may run at once and share\n"
        "it. Errors go to standard error.\n",
    .online = true,
    .options =
        (const struct cli_option[]){
            {"tools", 0, CLI_OPT_TEXT, 0, "GROUP",
             "core (the default), workspace or all", NULL},
            {0},
        },
    .flags_size = sizeof(const char *),
    .verbs =
        (const struct cli_verb[]){
            {"", .run = run_bridge},
            {0},
        },
};

/* ---- the host ----------------------------------------------------------- */

/*
 * The host's side of the bridge: one JSON message a line in each direction,
 * and nothing else on standard output. Reading and writing never wait, so
 * that a host that is slow to read is neither a reason to stop listening to
 * it nor one to be deaf to signals.
 */

#define READ_SIZE 65536u
#define WRITE_SIZE 4096u        /* what anything that is ready takes */
#define WAITING_MAX (32u << 20) /* for a host that does not read */

/* ---- out ---------------------------------------------------------------- */

void cli_mcp_host_say(struct mcp_bridge *b, const char *text, size_t len)
{
    size_t at = b->out.len;

    buf_add(&b->out, text, len);
    for (; at < b->out.len; at++) /* white space between tokens at most */
        if (b->out.data[at] == '\n' || b->out.data[at] == '\r')
            b->out.data[at] = ' ';
    buf_adds(&b->out, "\n");
}

/* A descriptor of our own for the same pipe, so that not waiting is our own
 * affair: standard output is shared with the program that passed it to us. */
void cli_mcp_host_init(struct mcp_bridge *b)
{
    struct stat st;

    b->out_fd = -1;
    if (fstat(STDOUT_FILENO, &st) < 0)
        return;
    b->out_socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode))
        b->out_fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Writes as much as possible without waiting. */
static ssize_t write_now(const struct mcp_bridge *b, const char *bytes,
                         size_t len)
{
    struct pollfd host = {.fd = STDOUT_FILENO, .events = POLLOUT};

    if (b->out_socket)
        return send(STDOUT_FILENO, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (b->out_fd >= 0)
        return write(b->out_fd, bytes, len);
    errno = EAGAIN;
    if (poll(&host, 1, 0) <= 0)
        return -1;
    return write(STDOUT_FILENO, bytes, MIN(len, WRITE_SIZE));
}

/* Bytes written, 0 when it would wait, -1 when the reader is gone. */
static ssize_t write_some(const struct mcp_bridge *b, const char *bytes,
                          size_t len)
{
    ssize_t n = write_now(b, bytes, len);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    return n > 0 ? n : -1;
}

void cli_mcp_host_flush(struct mcp_bridge *b)
{
    while (b->out_done < b->out.len) {
        ssize_t n =
            write_some(b, b->out.data + b->out_done, b->out.len - b->out_done);

        if (n < 0)
            b->ended = true;
        if (n <= 0)
            break;
        b->out_done += (size_t)n;
    }
    /* Moved seldom: what is written is not worth a copy of what is not. */
    if (b->out_done > b->out.len / 2) {
        buf_consume(&b->out, b->out_done);
        b->out_done = 0;
    }
}

bool cli_mcp_host_full(const struct mcp_bridge *b)
{
    return b->out.len - b->out_done > WAITING_MAX;
}

/* ---- in ----------------------------------------------------------------- */

static void refuse_line(struct mcp_bridge *b, const json_t *id, int code,
                        const char *sentence)
{
    char *line cleanup(mem_free) = cli_mcp_message_error(id, code, sentence);

    cli_mcp_host_say(b, line, strlen(line));
}

static void take_message(struct mcp_bridge *b, const char *text, size_t len)
{
    struct mcp_message m cleanup(cli_mcp_message_done) = {.method = ""};
    const json_t *cancelled;

    while (len > 0 && (unsigned char)text[len - 1] <= ' ')
        len--;
    if (len == 0)
        return;
    if (!cli_mcp_message_read(text, len, &m)) {
        refuse_line(b, NULL, MCP_PARSE_ERROR, "this line is not JSON");
        return;
    }
    cancelled = cli_mcp_message_cancels(&m);
    if (cancelled)
        cli_mcp_exchange_cancel(b, cancelled);
    /* The modern era cancels by hanging up, which was just done. */
    if (cancelled && (m.modern || !b->session.handshake))
        return;
    if (b->open_count >= MCP_OPEN_MAX && m.kind == MCP_REQUEST)
        refuse_line(b, m.id, MCP_INTERNAL_ERROR,
                    "too many requests are under way; wait for some to end");
    else if (b->open_count < 2 * MCP_OPEN_MAX) /* the rest has no reader */
        cli_mcp_exchange_start(b, text, len, &m);
}

static void take_line(struct mcp_bridge *b, const char *text, size_t len)
{
    if (b->skipping)
        b->skipping = false; /* this was its end */
    else if (len > MCP_LINE_MAX)
        refuse_line(b, NULL, MCP_PARSE_ERROR, "a line is longer than 16 MiB");
    else
        take_message(b, text, len);
}

/* in_seen: so much of it holds no line end. */
static void take_lines(struct mcp_bridge *b)
{
    size_t at = 0, from = b->in_seen;
    const char *end;

    while ((end = memchr(b->in.data + from, '\n', b->in.len - from))) {
        take_line(b, b->in.data + at, (size_t)(end - b->in.data) - at);
        at = from = (size_t)(end - b->in.data) + 1;
    }
    buf_consume(&b->in, at);
    if (b->in.len > MCP_LINE_MAX && !b->skipping) {
        refuse_line(b, NULL, MCP_PARSE_ERROR, "a line is longer than 16 MiB");
        b->skipping = true;
    }
    if (b->skipping)
        buf_reset(&b->in);
    b->in_seen = b->in.len;
}

void cli_mcp_host_read(struct mcp_bridge *b)
{
    ssize_t n;

    buf_reserve(&b->in, READ_SIZE);
    n = read(STDIN_FILENO, b->in.data + b->in.len, READ_SIZE);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        b->ended = true;
        return;
    }
    b->in.len += (size_t)n;
    take_lines(b);
}

void cli_mcp_host_done(struct mcp_bridge *b)
{
    fd_close(&b->out_fd);
    buf_done(&b->in);
    buf_done(&b->out);
}
