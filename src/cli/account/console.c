/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox console: a link that signs a browser in to the web console, once.
 * It is printed, and opened where there is a desktop. The secret is in the
 * fragment of the link, which browsers send to no server.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

struct console_flags {
    bool print;
};

static bool has_desktop(void)
{
    const char *x11 = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");

    return (x11 && *x11) || (wayland && *wayland);
}

/* Returns whether xdg-open took the link. Its messages are of no use here. */
static bool open_link(const char *url)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigset_t none;

        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (null >= 0)
            for (int fd = 0; fd < 3; fd++)
                (void)dup2(null, fd);
        (void)execlp("xdg-open", "xdg-open", url, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static int show_link(struct cli_call *call)
{
    const struct console_flags *flags = call->flags;
    const char *url = cli_json_text(call->answer, "url", "");
    bool opened;

    opened = !flags->print && has_desktop() && open_link(url);
    (void)printf("%s\n", url);
    if (call->c->tty_err)
        (void)fputs(opened
                        ? "The console was opened in your browser.\n"
                        : "Open this link within a minute; it works once.\n",
                    stderr);
    return CLI_EXIT_OK;
}

static const struct cli_option options[] = {
    {"print", 'p', CLI_OPT_FLAG, offsetof(struct console_flags, print), NULL,
     "only print the link, do not open a browser", NULL},
    {0},
};

const struct cli_command cli_console = {
    .name = "console",
    .summary = "Open the web console in a browser",
    .notes =
        "Prints a link that signs a browser in with the rights of your key.\n"
        "The link works once and for a minute. On a desktop it is opened as\n"
        "well. `glovebox token list` shows the token of a browser that is\n"
        "signed in, and `glovebox token delete` signs it out.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct console_flags),
    .verbs =
        (const struct cli_verb[]){
            {"", .method = "POST", .path = "/api/console/links",
             .print = show_link},
            {0},
        },
};
