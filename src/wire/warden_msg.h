/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole contract between gloveboxd (no privilege) and glovebox-warden
 * (the only privileged process): fixed-size messages over one SEQPACKET
 * socket, descriptors beside them. One request, one reply, in order; the
 * warden never speaks first. A malformed or untimely message closes the
 * link; it is never answered. A reply belongs to the request of its number;
 * one that comes after its caller has stopped waiting is dropped, and a
 * sandbox that it brought is released.
 *
 *   request   descriptors        when            what the reply carries
 *   SETUP     -                  first, once     walls
 *   RUNTIME   1 (spec memfd)     after SETUP     runtime
 *   SPAWN     2 to 4 (below)     after SETUP     spawned, and its meters
 *   USAGE     -                  after SETUP     usage
 *   KILL      -                  after SETUP     -
 *   RELEASE   -                  after SETUP     -
 *   STATUS    -                  after SETUP     status
 *   CALM      -                  after SETUP     -
 *   ROOM      -                  after SETUP     -
 *
 * SPAWN brings ctl, events, then the layers of the workspace (folders of
 * gloveboxd's own, the upper one first) that lie below the session's scratch.
 * Its reply is the only one with descriptors: those of meters.h.
 *
 * SETUP is sent by gloveboxd before it gives up root and before it has read
 * a byte from outside; its values bound everything asked for later.
 */
#ifndef GLOVEBOX_WIRE_WARDEN_MSG_H
#define GLOVEBOX_WIRE_WARDEN_MSG_H

#include <stdint.h>

#define WARDEN_PATH_MAX 512
#define WARDEN_NAME_MAX 64
#define WARDEN_TEXT_MAX 160
#define WARDEN_RUNTIMES_MAX 32
#define WARDEN_LAYERS_MAX 2
#define WARDEN_LOCKS_MAX 4000 /* file locks of one session */

enum warden_request_type {
    WARDEN_SETUP = 1,
    WARDEN_RUNTIME,
    WARDEN_SPAWN,
    WARDEN_USAGE,
    WARDEN_KILL,
    WARDEN_RELEASE,
    WARDEN_STATUS,
    WARDEN_CALM,
    WARDEN_ROOM,
    WARDEN_REQUEST_MAX
};

/* Walls that a host may be unable to build; a bit each. One that is missing
 * and not accepted by the configuration stops the service. */
enum warden_wall {
    WARDEN_WALL_UIDS = 1 << 0,         /* a host uid of its own per session */
    WARDEN_WALL_MEMORY = 1 << 1,       /* cgroup memory limit */
    WARDEN_WALL_PIDS = 1 << 2,         /* cgroup process limit */
    WARDEN_WALL_CPU = 1 << 3,          /* cgroup cpu limit */
    WARDEN_WALL_SCRATCH = 1 << 4,      /* scratch on disk with hard caps */
    WARDEN_WALL_LANDLOCK = 1 << 5,     /* second file system wall */
    WARDEN_WALL_SECCOMP = 1 << 6,      /* system call allow-list */
    WARDEN_WALL_USERNS = 1 << 7,       /* user namespaces */
    WARDEN_WALL_SERVICE_USER = 1 << 8, /* the daemon runs without privilege */
};

struct warden_setup {
    char scratch_dir[WARDEN_PATH_MAX]; /* the warden's own, 0700 */
    char cache_dir[WARDEN_PATH_MAX];   /* runtime images */
    char kernel_dir[WARDEN_PATH_MAX];  /* extension and driver */
    char instance[WARDEN_NAME_MAX];    /* names our cgroups; [a-z0-9-] */
    uint32_t accepted_walls;           /* missing ones the operator accepts */
    uint32_t uid_base; /* host uids are uid_base .. +uid_count-1 */
    uint32_t uid_count;
    uint32_t max_slots;
    uint32_t spare_scratches; /* kept ready */
    uint32_t zygote_max_age_s;
    uint32_t zygote_max_spawns;
    uint64_t max_memory_bytes; /* of one session */
    uint64_t max_scratch_bytes;
    uint32_t max_processes;
    uint32_t max_cores;
};

struct warden_runtime {
    char image[WARDEN_NAME_MAX]; /* a folder of cache_dir, one component */
    uint32_t fresh_exec;         /* no-zygote mode: exec for every session */
};

struct warden_limits {
    uint64_t memory_bytes;
    uint64_t scratch_bytes;
    uint64_t tmp_bytes;
    uint64_t shm_bytes;
    uint32_t scratch_inodes;
    uint32_t processes;
    uint32_t cores;
    uint32_t descriptors;
};

struct warden_spawn {
    uint32_t runtime; /* handle from RUNTIME */
    uint32_t layers;  /* of the workspace handed down: 0 to WARDEN_LAYERS_MAX;
                         only where walls SCRATCH and UIDS stand */
    struct warden_limits limits;
    uint32_t calm;   /* as by CALM, from the start */
    uint32_t ticket; /* the same for each try of one SPAWN: storage that was
                        not ready in time is kept for it; 0: none */
};

struct warden_slot {
    uint32_t slot;
    uint32_t reset_peak; /* USAGE: start a new peak after reading */
    uint32_t calm;       /* CALM: others first, or as all */
};

struct warden_room {
    uint32_t on;   /* calm sessions keep off some processors, or have all */
    uint32_t slot; /* for whom: off its processors, where it has few */
};

struct warden_request {
    uint32_t type;
    uint32_t seq;
    union {
        struct warden_setup setup;
        struct warden_runtime runtime;
        struct warden_spawn spawn;
        struct warden_slot slot; /* USAGE, KILL, RELEASE, CALM */
        struct warden_room room;
    } u;
};

enum warden_result {
    WARDEN_OK = 0,
    WARDEN_NOT_READY, /* the zygote is still importing, or the storage is
                         being made; ask again soon */
    WARDEN_REFUSED,   /* policy: out of bounds; `text` says which */
    WARDEN_FULL,      /* no slot left */
    WARDEN_GONE,      /* unknown slot or runtime */
    WARDEN_FAILED,    /* a step failed; errnum and text say which */
};

/* What the kernel says about a session; nothing in it was written by it. */
struct warden_usage {
    uint32_t alive;      /* its pid 1 runs */
    int32_t wait_status; /* of pid 1 once not alive, as from waitpid */
    uint64_t cpu_ns;     /* since the sandbox was made */
    uint64_t memory_peak_bytes;
    uint64_t oom_kills;   /* counter */
    uint64_t pids_denied; /* counter: forks refused by the limit */
    uint32_t processes;
    uint32_t locks; /* it held so many that it was ended for it; or 0 */
};

struct warden_spawned {
    uint32_t slot;
    uint32_t meters; /* which descriptors came: a bit each, enum meter */
};

struct warden_status {
    uint32_t walls;   /* standing, WARDEN_WALL_* */
    uint32_t slots;   /* in use */
    uint32_t zygotes; /* ready */
    uint32_t zygote_restarts;
    uint32_t spare_scratches;
    uint32_t cgroup_version; /* 1 or 2, 0 none */
};

struct warden_reply {
    uint32_t type; /* of the request */
    uint32_t seq;
    uint32_t result; /* enum warden_result */
    int32_t errnum;
    char text[WARDEN_TEXT_MAX]; /* for people; empty on success */
    union {
        uint32_t runtime;
        struct warden_spawned spawned;
        struct warden_usage usage;
        struct warden_status status; /* SETUP and STATUS */
    } u;
};

#endif
