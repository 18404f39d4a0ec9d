/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the warden: one stub per request of wire/warden_msg.h,
 * with the name of its answer in warden/answers.c. Many threads use one link;
 * calls take turns.
 *
 * If the warden does not answer in time, the call fails with ERR_UNAVAILABLE
 * and a time to retry; the link works again as soon as the warden answers. The
 * link cleans up after callers that gave up: it ends a sandbox that was
 * created too late and completes every release and kill. When the warden is
 * gone, or breaks the protocol, every call fails, warden_call_alive() turns
 * false for good and warden_call_fd() hangs up.
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

/* retry_after_s of a spawn that may be repeated right away. */
#define WARDEN_CALL_SOON_S 1

struct warden_health {
    bool answers;          /* it runs, and answers within seconds */
    uint64_t silent_ms;    /* since its oldest unanswered request */
    uint64_t timeouts;     /* calls that reached their deadline; counter */
    uint64_t late_replies; /* read and dropped; counter */
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
/* Starts the tender. Call it after the caller has given up its privilege,
 * which a thread would keep. */
int warden_call_tend(struct warden_link *link, struct error *err);
bool warden_call_alive(const struct warden_link *link);
/* The state right now; never waits. */
void warden_call_health(struct warden_link *link, struct warden_health *ret);
/* For poll: becomes readable (hangs up) when the warden dies. Borrowed. */
int warden_call_fd(const struct warden_link *link);
/* The walls that SETUP reported. */
uint32_t warden_call_walls(const struct warden_link *link);
/* The isolation tiers that this host can run: enum warden_tier. */
uint32_t warden_call_tiers(const struct warden_link *link);

/* image: folder name in the cache; spec_fd (borrowed): what to preload. */
int warden_call_runtime(struct warden_link *link, const char *image,
                        int spec_fd, bool fresh_exec, uint32_t *ret_runtime,
                        struct error *err);
/* Gives a runtime another image. Its sessions start from the old one until
 * the new one is ready; warden_status.image_swaps then counts it. */
int warden_call_runtime_change(struct warden_link *link, uint32_t runtime,
                               const char *image, int spec_fd, bool fresh_exec,
                               struct error *err);
/*
 * ctl_fd, events_fd (borrowed): the session's ends. layers (borrowed):
 * spawn->layers folders that the caller owns, to be mounted below /mnt/data,
 * the upper one first. Returns when the sandbox is started; its pid 1 sends
 * READY or FAILED on events. ERR_UNAVAILABLE with retry WARDEN_CALL_SOON_S
 * while the zygote is importing or the storage is being created; ERR_BUSY when
 * no slot or descriptor is left; ERR_INVALID when this host does not support
 * layers: the caller then copies the files. ret_meters: METERS_NONE before,
 * owned by caller afterwards.
 */
int warden_call_spawn(struct warden_link *link,
                      const struct warden_spawn *spawn, int ctl_fd,
                      int events_fd, const int *layers,
                      struct warden_spawned *ret, struct meters *ret_meters,
                      struct error *err);
/* Tells which zygotes' images are needed for stored memory. */
int warden_call_zygotes(struct warden_link *link,
                        const struct warden_zygotes *used, struct error *err);
/* How an ended sandbox ended, and the counters of any. */
int warden_call_usage(struct warden_link *link, uint32_t slot, bool reset_peak,
                      struct warden_usage *ret_usage, struct error *err);
/* Moves the sandbox to the background class, or back to the normal one. */
int warden_call_sched_class(struct warden_link *link, uint32_t slot,
                            bool background, struct error *err);
/* Reserves some processors for sandboxes of the normal class (those of this
 * slot, if they are few), or gives them back. */
int warden_call_cpu_reserve(struct warden_link *link, bool on, uint32_t slot,
                            struct error *err);
/* Kills every process of the sandbox, pid 1 included. Waits for a few seconds;
 * after ERR_UNAVAILABLE the link does it later, as long as the warden runs. */
int warden_call_kill(struct warden_link *link, uint32_t slot,
                     struct error *err);
/* Ends the sandbox and removes it with all its files. As for kill. */
int warden_call_release(struct warden_link *link, uint32_t slot,
                        struct error *err);
int warden_call_status(struct warden_link *link, struct warden_status *ret,
                       struct error *err);

#endif
