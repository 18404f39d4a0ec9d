/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole contract between gloveboxd (no privilege) and glovebox-warden
 * (the only privileged process): fixed-size messages with descriptors over one
 * SEQPACKET socket. One request, one reply, in order; the warden never speaks
 * first. A malformed message, or one out of order, closes the link; it is
 * never answered. A reply belongs to the request with its number. One that
 * arrives after its caller gave up is dropped, and a sandbox that it brought
 * is released.
 *
 *   request   descriptors        when            what the reply carries
 *   SETUP     -                  first, once     walls
 *   RUNTIME   1 (spec memfd)     after SETUP     runtime
 *   SPAWN     2 to 4 (below)     after SETUP     spawned, and its meters
 *   USAGE     -                  after SETUP     usage
 *   KILL      -                  after SETUP     -
 *   RELEASE   -                  after SETUP     -
 *   STATUS    -                  after SETUP     status
 *   SCHED_CLASS  -               after SETUP     -
 *   CPU_RESERVE  -               after SETUP     -
 *   ZYGOTES   -                  after SETUP     -
 *
 * SPAWN carries ctl, events, then the layers of the workspace (folders that
 * gloveboxd owns, the upper one first), which are mounted below the session's
 * scratch. Its reply is the only one with descriptors: those of meters.h.
 *
 * SETUP is sent by gloveboxd before it gives up root and before it has read
 * a byte from outside; its values bound all later requests.
 */
#ifndef GLOVEBOX_WIRE_WARDEN_MSG_H
#define GLOVEBOX_WIRE_WARDEN_MSG_H

#include <stdint.h>

#define WARDEN_PATH_MAX 512
#define WARDEN_NAME_MAX 64
#define WARDEN_TEXT_MAX 160
#define WARDEN_TIER_MAX 16
#define WARDEN_TIER_DEFAULT "process"
#define WARDEN_TIER_GUEST "gvisor"
#define WARDEN_RUNTIMES_MAX 32
#define WARDEN_LAYERS_MAX 2
#define WARDEN_LOCKS_MAX 4000 /* file locks of one session */
#define WARDEN_ZYGOTE_ID 16
#define WARDEN_ZYGOTES_MAX 64

enum warden_request_type {
    WARDEN_SETUP = 1,
    WARDEN_RUNTIME,
    WARDEN_SPAWN,
    WARDEN_USAGE,
    WARDEN_KILL,
    WARDEN_RELEASE,
    WARDEN_STATUS,
    WARDEN_SCHED_CLASS,
    WARDEN_CPU_RESERVE,
    WARDEN_ZYGOTES,
    WARDEN_REQUEST_MAX
};

/* Walls that a host may be unable to build; a bit each. One that is missing
 * and not accepted by the configuration stops the service. */
enum warden_wall {
    WARDEN_WALL_UIDS = 1 << 0,         /* a host uid per session */
    WARDEN_WALL_MEMORY = 1 << 1,       /* cgroup memory limit */
    WARDEN_WALL_PIDS = 1 << 2,         /* cgroup process limit */
    WARDEN_WALL_CPU = 1 << 3,          /* cgroup cpu limit */
    WARDEN_WALL_SCRATCH = 1 << 4,      /* scratch on disk with hard caps */
    WARDEN_WALL_LANDLOCK = 1 << 5,     /* second file system wall */
    WARDEN_WALL_SECCOMP = 1 << 6,      /* system call allow-list */
    WARDEN_WALL_USERNS = 1 << 7,       /* user namespaces */
    WARDEN_WALL_SERVICE_USER = 1 << 8, /* the daemon runs without privilege */
};

/* Isolation tiers that a host can run; a bit each. */
enum warden_tier {
    WARDEN_TIER_PROCESS = 1 << 0,
    WARDEN_TIER_GVISOR = 1 << 1, /* runsc is installed */
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
    uint32_t replaces; /* 0, or 1 + the handle of the runtime that shall start
                          its sessions from this image as soon as it can */
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
    uint32_t layers;  /* of the workspace: 0 to WARDEN_LAYERS_MAX; only with
                         walls SCRATCH and UIDS */
    struct warden_limits limits;
    uint32_t background; /* not 0: starts in the background class */
    uint32_t ticket; /* the same for each try of one SPAWN: storage that was
                        not ready in time is reserved for it; 0: none */
    char tier[WARDEN_TIER_MAX]; /* isolation tier */
    /* The zygote that the memory to be woken is of: it is revived if its image
     * is stored. All 0, or unknown: the runtime's current one. */
    unsigned char zygote[WARDEN_ZYGOTE_ID];
};

struct warden_slot {
    uint32_t slot;
    uint32_t reset_peak; /* USAGE: start a new peak after reading */
    uint32_t background; /* SCHED_CLASS: not 0, background */
};

struct warden_cpu_reserve {
    uint32_t on;   /* not 0: background sessions may not use the reserve */
    uint32_t slot; /* whose processors to reserve, if they are few */
};

/* Zygotes that stored memory of sessions is of. Images of others are removed
 * in time. */
struct warden_zygotes {
    uint32_t count;
    unsigned char ids[WARDEN_ZYGOTES_MAX][WARDEN_ZYGOTE_ID];
};

struct warden_request {
    uint32_t type;
    uint32_t seq;
    union {
        struct warden_setup setup;
        struct warden_runtime runtime;
        struct warden_spawn spawn;
        struct warden_slot slot; /* USAGE, KILL, RELEASE, SCHED_CLASS */
        struct warden_cpu_reserve cpu_reserve;
        struct warden_zygotes zygotes;
    } u;
};

enum warden_result {
    WARDEN_OK = 0,
    WARDEN_NOT_READY, /* the zygote is importing, or the storage is being
                         created; try again soon */
    WARDEN_REFUSED,   /* policy: out of bounds; `text` says which */
    WARDEN_FULL,      /* no slot left */
    WARDEN_GONE,      /* unknown slot or runtime */
    WARDEN_FAILED,    /* a step failed; errnum and text say which */
};

/* Counters of the host's kernel; the session itself wrote none of them. */
struct warden_usage {
    uint32_t alive;      /* its pid 1 runs */
    int32_t wait_status; /* of pid 1 once not alive, as from waitpid */
    uint64_t cpu_ns;     /* since the sandbox was made */
    uint64_t memory_peak_bytes;
    uint64_t oom_kills;   /* counter */
    uint64_t pids_denied; /* counter: forks refused by the limit */
    uint32_t processes;
    uint32_t locks; /* so many locks that it was ended for it; or 0 */
};

struct warden_spawned {
    uint32_t slot;
    uint32_t meters; /* which descriptors came: a bit each, enum meter */
    unsigned char zygote[WARDEN_ZYGOTE_ID]; /* it is a fork of; 0: no image */
};

struct warden_status {
    uint32_t walls;   /* standing, WARDEN_WALL_* */
    uint32_t slots;   /* in use */
    uint32_t zygotes; /* ready */
    uint32_t zygote_restarts;
    uint32_t zygotes_revived; /* counter: from their images */
    uint32_t zygote_images;   /* stored */
    uint32_t spare_scratches;
    uint32_t cgroup_version; /* 1 or 2, 0 none */
    uint32_t tiers;          /* usable on this host: a bit each */
    uint32_t image_swaps; /* counter: runtimes that changed to another image */
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
