/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between gloveboxd and a session. Three channels, each created
 * by the daemon and passed by descriptor:
 *
 *   ctl     SEQPACKET, daemon <-> pid 1: one request, one reply. File broker,
 *           start, signal, scan. The session's code never holds this end.
 *   events  SEQPACKET, pid 1 -> daemon: set-up result, deaths of children.
 *   frames  STREAM, daemon <-> kernel (pid 2 and its successors): cells in,
 *           displays, results and errors out. The session's code CAN reach
 *           this end, so it carries only what a session may say of itself:
 *           there is no frame for a timeout, an oom, a kill or a limit.
 *
 * Output of user code travels on two more pipes. All integers are host
 * order; both ends are on one machine. Whatever comes from a session is
 * hostile: the daemon checks every length and ends a session that breaks the
 * format.
 */
#ifndef GLOVEBOX_WIRE_KERNEL_MSG_H
#define GLOVEBOX_WIRE_KERNEL_MSG_H

#include <stdint.h>

/* ---- ctl: requests to pid 1, and its replies --------------------------- */

#define INIT_PATH_MAX 1024
#define INIT_REPLY_MAX 61440 /* bytes of payload in one reply */

enum init_request_type {
    INIT_START = 1,   /* fds: frames, stdout, stderr. Ends everything else in
                         the session and forks a fresh kernel. arg: 0, or
                         INIT_START_KEEP_SHELL. A fourth descriptor is an
                         image: the new kernel continues from it */
    INIT_SHELL,       /* fds: code memfd, stdout, stderr, and perhaps a file
                         that becomes descriptor INIT_EXTRA_FD. Runs bash
                         with the state of the shell before, or sh where there
                         is no bash. arg: 0, or INIT_SHELL_CLEAN */
    INIT_SIGNAL,      /* arg: enum init_signal, perhaps with
                         INIT_SIGNAL_HELPER */
    INIT_SCAN,        /* what changed below /mnt/data since the last scan, in
                         byte order of path; with arg 2 all that was ever
                         changed. Reply payload: entries; arg of reply: 0,
                         or enum init_scan_rest: ask again with arg 1 */
    INIT_OPEN,        /* path; reply fd: the file, opened for reading */
    INIT_CREATE,      /* arg: 1 = its owner may execute it; reply fd: a new
                         unnamed file, arg: its handle */
    INIT_PUBLISH,     /* arg: handle, path: its name from now on */
    INIT_DISCARD,     /* arg: handle */
    INIT_REMOVE,      /* path: a file, or an empty folder */
    INIT_LIST,        /* path: start after it ("" first), arg: most entries;
                         all regular files below /mnt/data in byte order of
                         path; reply payload: entries, arg: 1 = more */
    INIT_NETWORK,     /* arg: enum init_network. BLOCKED: reply payload: struct
                         init_blocked entries since the last time, arg: how
                         many there was no room for. PROXY, RESOLVER: reply
                         fd: that socket. TAKEN: pid 1 stops answering lookups
                         itself; BACK: it does so again, and
                         turns away who comes to the proxy's socket */
    INIT_ENVIRONMENT, /* fd: memfd of lines "NAME=VALUE", or "NAME" to take
                         one away, each ended by a newline; for shells from
                         now on. Kernels are told by KERNEL_ENVIRONMENT */
    INIT_CA,          /* fd: memfd of a certificate, PEM: INIT_CA_FILE then
                         holds the system's and it. No fd: remove that file */
    INIT_HELPER,      /* fds: frames, stdout, stderr, driver. path: a command
                         for /bin/sh, which finds the frames on descriptor 3
                         and the driver on INIT_EXTRA_FD. Starts an
                         interpreter that lives until it ends or is ended.
                         arg: its number, 1 to INIT_HELPERS_MAX; one that
                         runs under that number is killed first */
    INIT_POINT,       /* arg: INIT_POINT_ARG. Reply arg: how many points there
                         are now */
};

/* What to do with a copy of the kernel that stands still. */
enum init_point {
    INIT_POINT_KEEP = 1, /* a stopped process becomes a point. Only between
                            KERNEL_MEMORY_POINT and the next request */
    INIT_POINT_SWITCH,   /* the kernel stops and becomes a point; this point
                            continues and becomes the kernel. A kernel that
                            has ended is replaced */
    INIT_POINT_DROP,     /* this point ends; pid 0: all of them */
};

#define INIT_POINTS_MAX 130u /* twice BOX_POINTS_MAX, and two */
#define INIT_POINT_ARG(what, pid) ((uint32_t)(what) << 24 | (uint32_t)(pid))
#define INIT_POINT_PID_MAX 0xffffffu /* pids are below 2^22 */

#define INIT_HELPERS_MAX 4
#define INIT_EXTRA_FD 4

#define INIT_START_KEEP_SHELL 1 /* the shell's state stays */
#define INIT_SHELL_CLEAN                                                      \
    1 /* neither restore the shell's state nor save it                        \
       */

#define INIT_ENVIRONMENT_MAX 65536u
#define INIT_CA_MAX 65536u
#define INIT_CA_FILE "/run/glovebox/ca.pem"

enum init_network {
    INIT_NETWORK_BLOCKED = 1,
    INIT_NETWORK_PROXY,
    INIT_NETWORK_RESOLVER,
    INIT_NETWORK_TAKEN,
    INIT_NETWORK_BACK,
};

enum init_blocked_kind {
    INIT_BLOCKED_CONNECT = 1, /* connect(2), or a datagram to an address */
    INIT_BLOCKED_RESOLVE,     /* a lookup of a name */
};

/* A destination that code inside tried to reach, reported by pid 1;
 * repetitions in a row are one entry. */
struct init_blocked {
    int64_t at_ms; /* the first time */
    uint32_t count;
    uint16_t kind;
    uint16_t port;
    char host[256]; /* a name or a numeric address; printable ASCII; "?" when
                       its memory could not be read */
};

enum init_scan_rest {
    INIT_SCAN_MORE = 1,
    INIT_SCAN_CUT = 2, /* the walk ended at its limit; what lies behind it is
                          not reported */
};

enum init_signal {
    INIT_SIGNAL_INTERRUPT = 1, /* SIGINT to the process group that runs */
    INIT_SIGNAL_KILL_SHELL,    /* SIGKILL to the shell's process group */
    INIT_SIGNAL_KILL_ALL,      /* everything but pid 1, waited for */
};

/* Added to INTERRUPT, which then goes to the process group of that helper; and
 * to KILL_SHELL, which then kills that group. */
#define INIT_SIGNAL_HELPER(number) ((uint32_t)(number) << 8)

struct init_request {
    uint32_t type;
    uint32_t seq;
    uint32_t arg;
    uint32_t path_len;
    char path[INIT_PATH_MAX]; /* relative to /mnt/data, not terminated */
};

struct init_reply {
    uint32_t seq;
    int32_t errnum; /* 0, or why not */
    uint32_t arg;
    uint32_t payload_len;         /* bytes following this struct */
    uint64_t scratch_free_bytes;  /* SCAN: of /mnt/data */
    uint64_t scratch_free_inodes; /* SCAN */
    uint32_t blocked; /* SCAN: INIT_NETWORK_BLOCKED has so many to tell */
    uint32_t unused;
};

enum init_entry_kind {
    INIT_ENTRY_FILE = 1, /* LIST */
    INIT_ENTRY_WROTE,    /* SCAN: a regular file is new or was touched;
                            whatever was there before, folder or file, is
                            not any more */
    INIT_ENTRY_GONE,     /* SCAN: nothing is at or below path any more */
    INIT_ENTRY_CLEARED,  /* SCAN: a folder begins anew here: what was at or
                            below path is gone but for entries that follow */
    INIT_ENTRY_SKIPPED,  /* a name or kind we cannot carry; size is errno:
                            EILSEQ name (path is only how it is shown),
                            ELOOP symbolic link, ENODEV another kind of
                            file, ENAMETOOLONG too deep. What was at path
                            before is gone, but for EILSEQ */
};

/* One entry of a payload: this, then path_len bytes of path. */
struct init_entry {
    uint64_t size;
    int64_t mtime_ns;
    uint64_t inode;  /* WROTE: names with the same one are hard links */
    uint64_t stored; /* WROTE: bytes it takes on the session's disk */
    uint16_t kind;
    uint16_t path_len;
    uint32_t executable; /* its owner may execute it */
};

/* ---- events: from pid 1 ------------------------------------------------- */

enum init_event_type {
    INIT_EVENT_READY = 1, /* walls stand, ctl is served */
    INIT_EVENT_FAILED,    /* a set-up step failed; step, errnum; then gone */
    INIT_EVENT_KERNEL,    /* the kernel process ended; wait_status */
    INIT_EVENT_SHELL,     /* the shell ended; wait_status */
    INIT_EVENT_HELPER,    /* a helper ended; wait_status */
    INIT_EVENT_POINT,     /* a point ended that was not dropped */
};

struct init_event {
    uint32_t type;
    int32_t wait_status;
    int32_t errnum;
    uint32_t pid; /* as seen inside */
    char step[64];
};

/* ---- frames: with the kernel ------------------------------------------- */

#define KERNEL_FRAME_MAX (16u << 20)
#define KERNEL_EXIT_BROKEN                                                    \
    70 /* exit status of a kernel that cannot continue */

struct kernel_frame {
    uint32_t type;
    uint32_t len; /* bytes following */
};

enum kernel_frame_type {
    /* daemon -> kernel */
    KERNEL_EXECUTE = 1, /* payload: the code, UTF-8 */
    KERNEL_SYNCED,      /* answer to SYNC; payload empty */
    KERNEL_ENVIRONMENT, /* payload: as INIT_ENVIRONMENT's; before EXECUTE */
    KERNEL_KEYBOARD,    /* payload empty; before EXECUTE: the client answers
                           input() of that cell. Otherwise the kernel refuses
                           input() by itself */
    KERNEL_ANSWER,      /* answer to INPUT; payload: struct kernel_input with
                           its number, then the text, UTF-8 */
    KERNEL_LOOK,        /* between cells; payload: struct kernel_look, then
                           code, UTF-8 */
    KERNEL_MEMORY,      /* between cells; payload: struct kernel_memory. SAVE:
                           a descriptor comes with the head */
    /* kernel -> daemon */
    KERNEL_READY = 16, /* payload empty; first frame of a kernel */
    KERNEL_DISPLAY,    /* payload: pairs, mime type and bytes */
    KERNEL_RESULT,     /* payload: pairs; the last expression's value */
    KERNEL_ERROR,      /* payload: pairs: "name", "message", and one
                          "traceback" for each line */
    KERNEL_DONE,       /* payload: struct kernel_done */
    KERNEL_SYNC,       /* "read my pipes empty, then say SYNCED"; keeps
                          stdout and stderr in order when Python switches
                          from one to the other */
    KERNEL_CLEAR,      /* clear_output(); payload: one byte, wait or not */
    KERNEL_READS,      /* at most once, before DONE. Payload: one byte, 1 if
                          there were more than these; then paths relative to
                          /mnt/data that were opened for reading, each ended
                          by a zero byte */
    KERNEL_INPUT,      /* input(); payload: struct kernel_input, then the
                          prompt, UTF-8. One at a time */
    KERNEL_SEEN,       /* answer to LOOK; payload: its number, then a JSON
                          object */
    KERNEL_REMEMBERED, /* answer to MEMORY; payload: struct
                          kernel_remembered */
    KERNEL_UNUSABLE,   /* first frame of a process that was to continue from
                          an image and cannot; payload: uint32_t, enum
                          kernel_image */
};

enum kernel_memory_what {
    KERNEL_MEMORY_LOOK = 1, /* what SAVE would do */
    KERNEL_MEMORY_SAVE,     /* write an image to the descriptor, a pipe */
    KERNEL_MEMORY_POINT,    /* leave a stopped copy; the answer has its pid */
};

struct kernel_memory {
    uint32_t number; /* repeated in the answer */
    uint32_t what;
    uint64_t most_bytes; /* SAVE: of the image */
};

enum kernel_memory_result {
    KERNEL_MEMORY_DONE = 0,
    KERNEL_MEMORY_REFUSED,   /* `uncarried` says why, or it cannot be done in
                                this process at all */
    KERNEL_MEMORY_TOO_LARGE, /* more than most_bytes, or the disk is full */
    KERNEL_MEMORY_FAILED,
    KERNEL_MEMORY_RESULTS
};

/* Bits of `uncarried`; box.h has the same list. */
enum kernel_uncarried {
    KERNEL_UNCARRIED_THREADS = 1 << 0,
    KERNEL_UNCARRIED_CHILDREN = 1 << 1,
    KERNEL_UNCARRIED_SOCKETS = 1 << 2,
    KERNEL_UNCARRIED_SHARED = 1 << 3,
    KERNEL_UNCARRIED_TMP = 1 << 4,
    KERNEL_UNCARRIED_FILES = 1 << 5,
    KERNEL_UNCARRIED_ALL = (1 << 6) - 1
};

struct kernel_remembered {
    uint32_t number;
    uint32_t result; /* enum kernel_memory_result */
    uint32_t uncarried;
    uint32_t pid;   /* POINT: of the copy */
    uint64_t bytes; /* LOOK, SAVE: of the image */
};

enum kernel_image {
    KERNEL_IMAGE_USABLE,
    KERNEL_IMAGE_UNSUPPORTED,
    KERNEL_IMAGE_MISMATCH,
    KERNEL_IMAGE_DAMAGED,
    KERNEL_IMAGE_TOO_LARGE,
    KERNEL_IMAGE_AGAIN /* this process has the pid that the image was made
                          in, which libraries take for "not forked": another
                          process is to try */
};

struct kernel_look {
    uint32_t number; /* repeated in the answer */
    uint32_t what;   /* 1: complete, 2: inspect, 3: list variables */
    uint32_t cursor; /* in characters of the code */
};

#define KERNEL_PROMPT_MAX 65536u

/* The head of INPUT and ANSWER. */
struct kernel_input {
    uint32_t number; /* chosen by the kernel, repeated in the answer */
    uint32_t how;    /* enum kernel_input_how */
};

enum kernel_input_how {
    KERNEL_INPUT_TEXT = 1,  /* INPUT: what is typed may be shown; ANSWER */
    KERNEL_INPUT_PASSWORD,  /* INPUT: what is typed is not shown */
    KERNEL_INPUT_WITHDRAWN, /* INPUT: no longer wanted */
    KERNEL_INPUT_EOF,       /* ANSWER: the end of input */
    KERNEL_INPUT_REFUSED,   /* ANSWER: there is no client, or no more */
};

#define KERNEL_READS_MAX 256

enum kernel_done_status {
    KERNEL_DONE_OK = 0,
    KERNEL_DONE_ERROR = 1,
};

struct kernel_done {
    uint32_t status;
    uint32_t reserved; /* 0 */
};

/*
 * Pairs: any number of { u32 key_len, u32 value_len, key, value }, keys at
 * most 255 bytes. Text is UTF-8; "image/png" and other binary types are raw
 * bytes; "application/json" and "...+json" are JSON text.
 */
#define KERNEL_PAIR_KEY_MAX 255
/* In a DISPLAY or RESULT: a short text in place of text/plain, where that does
 * not say what is shown. In an ERROR, "brief" is a short traceback as text. */
#define KERNEL_BRIEF "text/x.glovebox.brief"
#define KERNEL_PAIRS_MAX 256

struct kernel_pair {
    const char *key; /* borrowed from the payload, not terminated */
    const char *value;
    uint32_t key_len;
    uint32_t value_len;
};

#endif
