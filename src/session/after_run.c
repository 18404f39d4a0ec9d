/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step between the end of an execution and its outcome: read the resource
 * usage, scan for changed files, commit them. Runs in gloveboxd on the
 * execution's thread. pid 1 scans while this thread reads the control group,
 * so the two overlap. The warden is asked only if the sandbox has ended, to
 * learn how.
 */
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"

#define REAP_TRIES 100u /* until the warden has seen the end too */
#define REAP_NS 10000000L

/* Its counters only grow while the sandbox lives; a fresh one starts at 0. */
static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void read_usage(struct collect *c)
{
    const struct warden_usage *base = box_usage_base(c->box);
    struct observations *f = c->observed;
    struct warden_usage now;
    struct error err;

    for (unsigned i = 0; i < REAP_TRIES; i++) {
        int rc = f->end == END_GONE ? box_fate(c->box, &now, &err)
                                    : box_usage(c->box, &now, &err);

        if (rc < 0)
            return; /* released under us: the session was deleted */
        /* Each reading starts a new peak. */
        f->peak_memory_bytes =
            MAX(f->peak_memory_bytes, now.memory_peak_bytes);
        if (f->end != END_GONE || !now.alive)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = REAP_NS}, NULL);
    }
    if (f->end == END_GONE) {
        f->wait_status = now.wait_status;
        f->locks = now.locks;
    }
    f->cpu_ms = grown(now.cpu_ns, base->cpu_ns) / 1000000;
    f->oom_kills = grown(now.oom_kills, base->oom_kills);
    f->pids_denied = grown(now.pids_denied, base->pids_denied);
    box_usage_set_base(c->box, &now);
}

void session_after_run(struct session *se, struct collect *c)
{
    struct changes ch cleanup(box_changes_done) = {0};
    struct broker_reply reply = {0};
    bool all = se->rescan;
    bool scanning =
        c->observed->end != END_GONE && box_scan_begin(c->box, all);

    read_usage(c);
    if (scanning && box_scan_end(c->box, c->runner->io, &ch, &reply) == 0) {
        c->observed->scanned = true;
        c->observed->scratch_free_bytes = reply.free_bytes;
        c->observed->scratch_free_inodes = reply.free_inodes;
        se->rescan = false;
        if (reply.blocked)
            session_watch_fetch(c->box, c->e, c->runner->io);
    } else if (c->observed->end != END_UNMADE) {
        ch.cut = true;
        se->rescan = true;
    }
    session_commit_changes(se, c->box, c->e, &ch, c->observed);
}
