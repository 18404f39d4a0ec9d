/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bar on standard error while a large file moves; only on a terminal, and
 * wiped when done. Called by http.c.
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

void cli_progress_step(struct cli_progress *p, uint64_t done)
{
    uint64_t now = clock_mono_ms(), spent;
    char bar[BAR + 1], have[16], all[16], speed[16];
    size_t filled;

    if (!p->on || now - p->last_ms < REDRAW_MS)
        return;
    p->last_ms = now;
    if (done > p->total)
        done = p->total;
    filled = (size_t)((double)done / (double)p->total * BAR);
    memset(bar, '.', BAR);
    memset(bar, '#', filled);
    bar[BAR] = '\0';
    spent = now - p->start_ms;
    (void)fprintf(stderr, "\r\033[K%.30s [%s] %s of %s, %s/s", p->label, bar,
                  cli_format_size(done, have), cli_format_size(p->total, all),
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
