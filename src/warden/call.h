/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the warden: one stub per request of
 * wire/warden_msg.h, named as its answer in warden/answers.c. A link is used
 * by many threads; calls take turns.
 *
 * A warden that does not answer in time fails the call with ERR_UNAVAILABLE
 * and a time to retry; the link works again as soon as it answers. What a
 * caller stopped waiting for is cleaned up by the link: a sandbox that was
 * made too late is ended, and a release or kill is never forgotten. When the
 * warden is gone, or breaks the protocol, every call fails,
 * warden_call_alive() turns false for good and warden_call_fd() hangs up.
 */
#ifndef GLOVEBOX_WARDEN_CALL_H
#define GLOVEBOX_WARDEN_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/meters.h"
#include "wire/warden_msg.h"

struct error;
struct warden_link;

/* retry_after_s of a spawn that may be asked for again right away. */
#define WARDEN_CALL_SOON_S 1

struct warden_health {
    bool answers;          /* it is there, and not silent for seconds */
    uint64_t silent_ms;    /* since the request that it has not answered */
    uint64_t timeouts;     /* calls that gave up waiting; counter */
    uint64_t late_replies; /* taken and dropped; counter */
    uint64_t reclaimed;    /* sandboxes ended after their caller gave up */
    uint64_t owed;         /* of those, still to be ended */
};

/* Starts glovebox-warden (path) and sends it the settings. Called before the
 * caller gives up its privilege. */
int warden_call_open(const char *path, const struct warden_setup *setup,
                     struct warden_link **ret_link, struct error *err);
/* Closes the link; the warden then ends every session and exits. Waits for
 * it up to a few seconds. */
void warden_call_close(struct warden_link *link);
/* Starts the thread that keeps the link in order. Called when the caller has
 * given up its privilege, which a thread would keep. */
int warden_call_tend(struct warden_link *link, struct error *err);
bool warden_call_alive(const struct warden_link *link);
/* How it is right now; never waits. */
void warden_call_health(struct warden_link *link, struct warden_health *ret);
/* For poll: becomes readable (hangs up) when the warden dies. Borrowed. */
int warden_call_fd(const struct warden_link *link);
/* What SETUP answered. */
uint32_t warden_call_walls(const struct warden_link *link);

/* image: folder name in the cache; spec_fd (borrowed): what to preload. */
int warden_call_runtime(struct warden_link *link, const char *image,
                        int spec_fd, bool fresh_exec, uint32_t *ret_runtime,
                        struct error *err);
/*
 * ctl_fd, events_fd (borrowed): the session's ends. layers (borrowed):
 * spawn->layers folders of the caller's own to lie below /mnt/data, the upper
 * one first. Returns when the sandbox is cloned and being set up; its pid 1
 * says READY or FAILED on events. ERR_UNAVAILABLE with retry
 * WARDEN_CALL_SOON_S while the zygote is still importing or the storage is
 * being made; ERR_BUSY when no slot or descriptor is left; ERR_INVALID when
 * this host cannot do layers: the caller then copies the files. ret_meters:
 * METERS_NONE before, owned by caller afterwards.
 */
int warden_call_spawn(struct warden_link *link,
                      const struct warden_spawn *spawn, int ctl_fd,
                      int events_fd, const int *layers, uint32_t *ret_slot,
                      struct meters *ret_meters, struct error *err);
/* Of one that is gone, how it ended; of any, what its meters say. */
int warden_call_usage(struct warden_link *link, uint32_t slot, bool reset_peak,
                      struct warden_usage *ret_usage, struct error *err);
/* Whether it gets the processor only when others leave it. */
int warden_call_calm(struct warden_link *link, uint32_t slot, bool calm,
                     struct error *err);
/* Whether the calm keep off some processors, which the others then have:
 * those of this slot, where it has few. */
int warden_call_room(struct warden_link *link, bool on, uint32_t slot,
                     struct error *err);
/* Kills every process of the sandbox, pid 1 included. Waits for a few seconds;
 * after ERR_UNAVAILABLE it is done later, as long as there is a warden. */
int warden_call_kill(struct warden_link *link, uint32_t slot,
                     struct error *err);
/* Ends the sandbox and forgets it, with all its files. As for kill. */
int warden_call_release(struct warden_link *link, uint32_t slot,
                        struct error *err);
int warden_call_status(struct warden_link *link, struct warden_status *ret,
                       struct error *err);

#endif
