/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands read: files and standard input; passwords and tokens from a
 * file, or typed at the terminal without being shown. A secret never comes
 * from the command line, which others can see.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"

#define SECRET_MAX 512
#define LINE_BYTES_MAX 65536 /* of an answer to input() */

int cli_input_read(const char *path, size_t max, char **ret, size_t *ret_len,
                   struct error *err)
{
    bool input = strcmp(path, "-") == 0;
    int fd cleanup(fd_close) = input ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    char *text cleanup(mem_free) = NULL;
    ssize_t n = -errno;

    if (input || fd >= 0) {
        text = xmalloc(max + 2);
        n = fd_read_all(input ? STDIN_FILENO : fd, text, max + 1);
    }
    if (input)
        path = "standard input";
    if (n < 0 || !text)
        return error_errno(err, ERR_INVALID, (int)-n, "cannot read %s", path);
    if ((size_t)n > max)
        return error_set(err, ERR_TOO_LARGE, "%s is larger than %zu KiB", path,
                         max >> 10);
    text[n] = '\0';
    *ret_len = (size_t)n;
    *ret = take_ptr(text);
    return 0;
}

void cli_secret_free(char **secret)
{
    if (*secret)
        explicit_bzero(*secret, strlen(*secret));
    free(take_ptr(*secret));
}

int cli_secret_file(const char *file, const char *what, char **ret,
                    struct error *err)
{
    char *text = NULL;
    size_t len = 0;
    int r = fd_read_file(AT_FDCWD, file, SECRET_MAX, &text, &len);

    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read a %s from %s",
                           what, file);
    text[strcspn(text, "\r\n")] = '\0';
    if (!*text) {
        free(text);
        return error_set(err, ERR_INVALID, "%s holds no %s", file, what);
    }
    *ret = text;
    return 0;
}

int cli_secret_header(const char *lock_file, char **ret, struct error *err)
{
    char *token cleanup(cli_secret_free) = NULL;
    int r = lock_file ? cli_secret_file(lock_file, "lock's token", &token, err)
                      : 0;

    if (r == 0 && token)
        *ret = xasprintf("X-Glovebox-Lock: %s", token);
    return r;
}

/* One line without its end; 1 at the end of input, -EINTR when a signal came
 * first. The rest of a line that does not fit is dropped. */
static int read_line(struct cli *c, int tty, char *line, size_t size)
{
    size_t len = 0;
    bool ended = false;

    for (;;) {
        struct pollfd fds[] = {{.fd = tty, .events = POLLIN},
                               {.fd = c->signal_fd, .events = POLLIN}};
        char byte;
        ssize_t n;

        if (poll(fds, 2, -1) < 0)
            continue; /* interrupted by something that is not for us */
        if (fds[1].revents)
            return -EINTR;
        n = read(tty, &byte, 1);
        ended = n <= 0 && len == 0;
        if (n <= 0 || byte == '\n')
            break;
        if (len < size - 1)
            line[len++] = byte;
    }
    line[len] = '\0';
    return ended;
}

int cli_input_line(struct cli *c, const char *prompt, bool hidden, char **ret)
{
    int tty cleanup(fd_close) = open("/dev/tty", O_RDWR | O_CLOEXEC);
    struct buf safe cleanup(buf_done) = {0};
    struct cli_filter filter = {.plain = !c->color_err};
    char *line cleanup(cli_secret_free) = xcalloc(1, LINE_BYTES_MAX + 1);
    struct termios old, quiet;
    int r;

    if (tty < 0 || tcgetattr(tty, &old) < 0)
        return -ENOTTY;
    quiet = old;
    quiet.c_lflag |= ICANON | ECHO;
    if (hidden)
        quiet.c_lflag &= ~(tcflag_t)ECHO;
    /* Before the prompt, or a quick answer to it would be echoed. */
    (void)tcsetattr(tty, TCSANOW, &quiet);
    cli_filter_feed(&filter, prompt, strlen(prompt), &safe);
    (void)fd_write_all(tty, safe.data ? safe.data : "", safe.len);
    r = read_line(c, tty, line, LINE_BYTES_MAX + 1);
    (void)tcsetattr(tty, TCSANOW, &old);
    if (hidden || r != 0)
        (void)dprintf(tty, "\n");
    if (r == 0)
        *ret = take_ptr(line);
    return r;
}

static int ask_once(struct cli *c, int tty, const char *prompt,
                    char line[SECRET_MAX])
{
    int r;

    (void)dprintf(tty, "%s: ", prompt);
    r = read_line(c, tty, line, SECRET_MAX);
    (void)dprintf(tty, "\n");
    return MIN(r, 0); /* the end of input is an empty line here */
}

/* Echo is off before the first question and between the two: text typed
 * ahead is neither shown nor lost. */
static int ask_terminal(struct cli *c, int tty, const char *prompt, bool twice,
                        char first[SECRET_MAX], char second[SECRET_MAX])
{
    struct termios old, quiet;
    int r;

    if (tty < 0 || tcgetattr(tty, &old) < 0)
        return -ENOTTY;
    quiet = old;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    (void)tcsetattr(tty, TCSAFLUSH, &quiet);
    r = ask_once(c, tty, prompt, first);
    if (r == 0 && twice)
        r = ask_once(c, tty, "once more", second);
    (void)tcsetattr(tty, TCSAFLUSH, &old);
    return r;
}

int cli_secret_ask(struct cli *c, const char *prompt, bool twice, char **ret,
                   struct error *err)
{
    int tty cleanup(fd_close) = open("/dev/tty", O_RDWR | O_CLOEXEC);
    char first[SECRET_MAX] = "", second[SECRET_MAX] = "";
    int r = ask_terminal(c, tty, prompt, twice, first, second);

    if (r == -EINTR) {
        c->interrupted = true;
        (void)error_set(err, ERR_UNAVAILABLE, "interrupted");
        err->errnum = EINTR;
    } else if (r < 0) {
        (void)error_set(err, ERR_INVALID, "there is no terminal to ask at");
    } else if (twice && strcmp(first, second) != 0) {
        r = error_set(err, ERR_INVALID, "the two are not the same");
    } else if (!*first) {
        r = error_set(err, ERR_INVALID, "nothing was typed");
    } else {
        *ret = xstrdup(first);
    }
    explicit_bzero(first, sizeof(first));
    explicit_bzero(second, sizeof(second));
    return r < 0 ? -(int)err->code : 0;
}
