/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sixel graphics, for terminals that have them and neither kitty's nor
 * iTerm2's protocol. Runs in the command line. The image comes from a session
 * and is hostile: libpng decodes it within a fixed number of pixels, and
 * libsixel only sees the pixels.
 */
#include <fcntl.h>
#include <png.h>
#include <poll.h>
#include <sixel/sixel.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/term/term.h"

enum {
    SIDE_MAX = 4096,  /* pixels; a larger image is only saved */
    ANSWER_MS = 300,  /* a terminal on a slow link still answers in time */
    ANSWER_MAX = 128, /* bytes */
    COLOURS = 256,
};

/* Whether the terminal's answer to "device attributes" (ESC [ ? … c) lists 4,
 * the number of sixel graphics. */
static bool answer_has_sixel(const char *answer)
{
    const char *at = strstr(answer, "\033[?");

    if (!at)
        return false;
    for (at += 3; *at && *at != 'c'; at += *at == ';') {
        size_t digits = strspn(at, "0123456789");

        if (digits == 0 || (at[digits] != ';' && at[digits] != 'c'))
            return false;
        if (digits == 1 && *at == '4')
            return true;
        at += digits;
    }
    return false;
}

bool cli_sixel_supported(void)
{
    int tty cleanup(fd_close) =
        open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios saved, raw;
    char answer[ANSWER_MAX + 1] = "";
    size_t len = 0;
    uint64_t until = clock_mono_ms() + ANSWER_MS;

    if (tty < 0 || tcgetattr(tty, &saved) < 0)
        return false;
    raw = saved;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(tty, TCSANOW, &raw) < 0)
        return false;
    if (fd_write_all(tty, "\033[c", 3) == 0)
        while (len < ANSWER_MAX && !memchr(answer, 'c', len)) {
            uint64_t now = clock_mono_ms();
            struct pollfd p = {.fd = tty, .events = POLLIN};
            ssize_t n;

            if (now >= until || poll(&p, 1, (int)(until - now)) <= 0)
                break;
            n = read(tty, answer + len, ANSWER_MAX - len);
            if (n <= 0)
                break;
            len += (size_t)n;
        }
    answer[len] = '\0';
    (void)tcsetattr(tty, TCSANOW, &saved); /* nothing more can be done */
    return answer_has_sixel(answer);
}

static int on_sixel_bytes(char *bytes, int len, void *out)
{
    return fwrite(bytes, 1, (size_t)len, out) == (size_t)len ? 0 : -1;
}

bool cli_sixel_write(FILE *out, const unsigned char *bytes, size_t len)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    png_color white = {255, 255, 255};
    unsigned char *pixels cleanup(mem_free) = NULL;
    sixel_dither_t *dither = NULL;
    sixel_output_t *output = NULL;
    bool done = false;

    if (!png_image_begin_read_from_memory(&image, bytes, len))
        return false;
    if (image.width <= SIDE_MAX && image.height <= SIDE_MAX) {
        image.format = PNG_FORMAT_RGB;
        pixels = xmalloc(PNG_IMAGE_SIZE(image));
    }
    if (!pixels || !png_image_finish_read(&image, &white, pixels, 0, NULL)) {
        png_image_free(&image);
        return false;
    }
    if (SIXEL_SUCCEEDED(sixel_dither_new(&dither, COLOURS, NULL)) &&
        SIXEL_SUCCEEDED(sixel_dither_initialize(
            dither, pixels, (int)image.width, (int)image.height,
            SIXEL_PIXELFORMAT_RGB888, SIXEL_LARGE_AUTO, SIXEL_REP_AUTO,
            SIXEL_QUALITY_AUTO)) &&
        SIXEL_SUCCEEDED(sixel_output_new(&output, on_sixel_bytes, out, NULL)))
        done = SIXEL_SUCCEEDED(sixel_encode(
            pixels, (int)image.width, (int)image.height, 0, dither, output));
    sixel_output_unref(output);
    sixel_dither_unref(dither);
    return done;
}
