/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox mcp: MCP on standard input and output, for hosts that start their
 * servers themselves. One JSON message a line in each direction and nothing
 * else on standard output. It talks to the running service, or starts one on
 * the usual data directory; see mcp.h for the pieces.
 */
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/mcp.h"

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
static void bridge(struct mcp_bridge *b)
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
    cli_mcp_host_init(&b);
    c->watch_fd = STDIN_FILENO;
    /* Without a service the host is told so, in answer to its requests. */
    (void)cli_mcp_exchange_find_service(&b);
    bridge(&b);
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
