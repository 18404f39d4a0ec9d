/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal's own wall. What a session prints is hostile, and a terminal
 * obeys what it is sent: escape sequences can rewrite its title, read or set
 * the clipboard or make it type. Output that goes to a terminal passes here;
 * output that goes to a file or a pipe is left as it is.
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

static void hold(struct cli_guard *g, unsigned char b)
{
    if (g->held_len < sizeof(g->held))
        g->held[g->held_len++] = b;
    else
        g->held_len = sizeof(g->held) + 1; /* too long to be honest */
}

static void on_text(struct cli_guard *g, unsigned char b, struct buf *out)
{
    if (b == 0x1b) {
        g->held_len = 0;
        hold(g, b);
        g->state = ESCAPE;
    } else if (b == 0xc2) {
        g->state = LEAD_C2;
    } else if (b == '\n' || b == '\t' || b == '\r' || b == '\b' ||
               (b >= 0x20 && b != 0x7f)) {
        buf_add(out, &b, 1);
    }
}

static void on_escape(struct cli_guard *g, unsigned char b)
{
    hold(g, b);
    if (b == '[')
        g->state = CONTROL;
    else if (b && strchr("]PX^_", b))
        g->state = STRING;
    else if (b >= 0x20 && b <= 0x2f)
        g->state = ESCAPE; /* intermediates: wait for the final byte */
    else
        g->state = TEXT;
}

static void on_control(struct cli_guard *g, unsigned char b, struct buf *out)
{
    if (b == 0x1b) { /* starts over */
        g->held_len = 0;
        hold(g, b);
        g->state = ESCAPE;
        return;
    }
    if (b < 0x20)
        return;
    /* Private parameters (`<=>?`) and intermediates switch modes. */
    if (b < 0x30 || (b >= 0x3c && b <= 0x3f))
        g->held_len = sizeof(g->held);
    hold(g, b);
    if (b < 0x40)
        return;
    g->state = TEXT;
    if (!g->plain && g->held_len <= sizeof(g->held) && strchr(harmless, b))
        buf_add(out, g->held, g->held_len);
}

static void on_string(struct cli_guard *g, unsigned char b)
{
    if (g->state == STRING_ESC && b == '\\')
        g->state = TEXT;
    else if (b == 0x07 || b == '\n') /* an unended one must not eat it all */
        g->state = TEXT;
    else
        g->state = b == 0x1b ? STRING_ESC : STRING;
}

void cli_guard_feed(struct cli_guard *g, const char *bytes, size_t len,
                    struct buf *out)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)bytes[i];

        switch (g->state) {
        case ESCAPE:
            on_escape(g, b);
            break;
        case CONTROL:
            on_control(g, b, out);
            break;
        case STRING:
        case STRING_ESC:
            on_string(g, b);
            break;
        case LEAD_C2:
            g->state = TEXT;
            if (b >= 0xa0 && b <= 0xbf) {
                buf_add(out, "\xc2", 1);
                buf_add(out, &b, 1);
            } else if (b < 0x80 || b > 0x9f) {
                on_text(g, b, out);
            }
            break;
        default:
            on_text(g, b, out);
        }
    }
}
