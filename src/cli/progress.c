/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bar on standard error while something takes long: bytes that move, or
 * things that are counted. Only on a terminal, and wiped when done.
 */
#include <string.h>

#include "base/clock.h"
#include "cli/cli_int.h"

#define LEAST_BYTES (1u << 20)
#define REDRAW_MS 100
#define BAR 24

void cli_progress_start(struct cli_progress *p, const struct cli *c,
                        const char *label, uint64_t total)
{
    *p = (struct cli_progress){
        .on = label && c->tty_err && !c->json && total > LEAST_BYTES,
        .label = label,
        .total = total,
        .start_ms = clock_mono_ms(),
    };
}

void cli_progress_count(struct cli_progress *p, const struct cli *c,
                        const char *label, uint64_t total)
{
    *p = (struct cli_progress){
        .on = label && c->tty_err && !c->json,
        .counts = true,
        .label = label,
        .total = total,
        .start_ms = clock_mono_ms(),
    };
}

static void draw_bar(const struct cli_progress *p, uint64_t done)
{
    size_t filled = (size_t)((double)done / (double)p->total * BAR);
    char bar[BAR + 1];

    memset(bar, '.', BAR);
    memset(bar, '#', filled);
    bar[BAR] = '\0';
    (void)fprintf(stderr, " [%s]", bar);
}

void cli_progress_step(struct cli_progress *p, uint64_t done)
{
    uint64_t now = clock_mono_ms(), spent;
    char have[16], all[16], speed[16];

    if (!p->on || now - p->last_ms < REDRAW_MS)
        return;
    p->last_ms = now;
    if (p->total && done > p->total)
        done = p->total;
    (void)fprintf(stderr, "\r\033[K%.30s", p->label);
    if (p->total)
        draw_bar(p, done);
    spent = now - p->start_ms;
    if (p->counts && p->total)
        (void)fprintf(stderr, " %llu of %llu", (unsigned long long)done,
                      (unsigned long long)p->total);
    else if (p->counts)
        (void)fprintf(stderr, " %llu", (unsigned long long)done);
    else
        (void)fprintf(stderr, " %s of %s, %s/s", cli_format_size(done, have),
                      cli_format_size(p->total, all),
                      cli_format_size(spent ? done * 1000 / spent : 0, speed));
    (void)fflush(stderr);
    p->drawn = true;
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->drawn)
        (void)fputs("\r\033[K", stderr);
    p->on = p->drawn = false;
}
