/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes terminal control from untrusted output. What a session prints is
 * hostile, and escape sequences can change a terminal's title, read or set
 * the clipboard, or make the terminal type. Output to a terminal passes here;
 * output to a file or a pipe is left as it is.
 */
#include <string.h>

#include "base/mem.h"
#include "cli/cli_int.h"

enum {
    TEXT,
    ESCAPE,     /* after ESC */
    CONTROL,    /* inside ESC [ ... */
    STRING,     /* inside OSC, DCS, SOS, PM or APC: dropped to its end */
    STRING_ESC, /* ESC inside one: `\` ends it */
    LEAD_C2,    /* first byte of a two-byte character that may be C1 */
};

/* Colours, cursor movement and erasing; progress bars need them. */
static const char harmless[] = "ABCDEFGHJKm";

static void hold(struct cli_filter *f, unsigned char b)
{
    if (f->held_len < sizeof(f->held))
        f->held[f->held_len++] = b;
    else
        f->held_len = sizeof(f->held) + 1; /* too long: dropped */
}

static void on_text(struct cli_filter *f, unsigned char b, struct buf *out)
{
    if (b == 0x1b) {
        f->held_len = 0;
        hold(f, b);
        f->state = ESCAPE;
    } else if (b == 0xc2) {
        f->state = LEAD_C2;
    } else if (b == '\n' || b == '\t' || b == '\r' || b == '\b' ||
               (b >= 0x20 && b != 0x7f)) {
        buf_add(out, &b, 1);
    }
}

static void on_escape(struct cli_filter *f, unsigned char b)
{
    hold(f, b);
    if (b == '[')
        f->state = CONTROL;
    else if (b && strchr("]PX^_", b))
        f->state = STRING;
    else if (b >= 0x20 && b <= 0x2f)
        f->state = ESCAPE; /* intermediates: wait for the final byte */
    else
        f->state = TEXT;
}

static void on_control(struct cli_filter *f, unsigned char b, struct buf *out)
{
    if (b == 0x1b) { /* starts over */
        f->held_len = 0;
        hold(f, b);
        f->state = ESCAPE;
        return;
    }
    if (b < 0x20)
        return;
    /* Private parameters (`<=>?`) and intermediates switch modes. */
    if (b < 0x30 || (b >= 0x3c && b <= 0x3f))
        f->held_len = sizeof(f->held);
    hold(f, b);
    if (b < 0x40)
        return;
    f->state = TEXT;
    if (!f->plain && f->held_len <= sizeof(f->held) && strchr(harmless, b))
        buf_add(out, f->held, f->held_len);
}

static void on_string(struct cli_filter *f, unsigned char b)
{
    if (f->state == STRING_ESC && b == '\\')
        f->state = TEXT;
    else if (b == 0x07 || b == '\n') /* an unended one must not eat it all */
        f->state = TEXT;
    else
        f->state = b == 0x1b ? STRING_ESC : STRING;
}

void cli_filter_feed(struct cli_filter *f, const char *bytes, size_t len,
                     struct buf *out)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)bytes[i];

        switch (f->state) {
        case ESCAPE:
            on_escape(f, b);
            break;
        case CONTROL:
            on_control(f, b, out);
            break;
        case STRING:
        case STRING_ESC:
            on_string(f, b);
            break;
        case LEAD_C2:
            f->state = TEXT;
            if (b >= 0xa0 && b <= 0xbf) {
                buf_add(out, "\xc2", 1);
                buf_add(out, &b, 1);
            } else if (b < 0x80 || b > 0x9f) {
                on_text(f, b, out);
            }
            break;
        default:
            on_text(f, b, out);
        }
    }
}
