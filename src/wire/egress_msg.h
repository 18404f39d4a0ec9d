/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between gloveboxd and glovebox-egress, the only process that
 * talks to the world on behalf of sessions. It has an account of its own (the
 * service's where there is none), no store, no key but the secrets of the
 * sessions it serves, and no way to the warden.
 *
 * A session has no route out, ever. Its pid 1 binds two sockets inside its
 * network namespace, 127.0.0.1:3128 (TCP) and 127.0.0.1:53 (UDP); when a
 * session is granted a network these two descriptors are handed to this
 * process, which serves them and makes the outer connections from the host's
 * namespace.
 *
 *   ctl     SEQPACKET, gloveboxd -> egress: one request, one reply, in order
 *   report  SEQPACKET, egress -> gloveboxd: what happened; and questions,
 *           answered by an ANSWER request on ctl
 *
 *   request   descriptors                       reply carries
 *   SETUP     -                                 -          first, once
 *   GRANT     memfd of struct egress_grant      ca (PEM), if any rule inspects
 *             with its rules; and tcp, udp if
 *             this session has none here yet
 *   REVOKE    -                                 -
 *   ANSWER    -                                 (none: not replied to)
 *   STATUS    -                                 status
 *
 * What is malformed or untimely ends the process; sessions then have no
 * network (E4), and gloveboxd starts a new one and grants again.
 */
#ifndef GLOVEBOX_WIRE_EGRESS_MSG_H
#define GLOVEBOX_WIRE_EGRESS_MSG_H

#include <stdint.h>

#define EGRESS_PROXY_PORT 3128
#define EGRESS_DNS_PORT 53
#define EGRESS_HOST_MAX 256
#define EGRESS_PATH_MAX 512
#define EGRESS_RULES_MAX 256
#define EGRESS_PORTS_MAX 8
#define EGRESS_VALUE_MAX 8320 /* of a header that is added */
#define EGRESS_CA_MAX 4096
#define EGRESS_TEXT_MAX 160
#define EGRESS_NETS_MAX 64

enum egress_request_type {
    EGRESS_SETUP = 1,
    EGRESS_GRANT,
    EGRESS_REVOKE,
    EGRESS_ANSWER,
    EGRESS_STATUS,
    EGRESS_REQUEST_MAX
};

enum egress_mode {
    EGRESS_MODE_NONE = 0,  /* only packages, if they are let */
    EGRESS_MODE_ALLOWLIST, /* what a rule matches */
    EGRESS_MODE_OPEN,      /* every public address, ports 1 to 65535 */
};

/* An address range that is refused besides those that always are. */
struct egress_net {
    uint8_t family; /* 4 or 6; 0: end */
    uint8_t bits;
    uint8_t address[16];
};

struct egress_setup {
    char resolver[64]; /* "address" or "address#port"; "": the host's */
    char index_url[EGRESS_PATH_MAX]; /* packages: a simple index, or "" */
    char wheels_dir[EGRESS_PATH_MAX];
    char ca_file[EGRESS_PATH_MAX]; /* trusted besides the host's; "" none */
    struct egress_net refused[EGRESS_NETS_MAX]; /* our own addresses */
    /* For the test lab alone: private ranges that count as public. Empty
     * unless the configuration names them (egress_lab). */
    struct egress_net lab[EGRESS_NETS_MAX];
    uint32_t max_connections; /* of all sessions */
    /* Deadlines; 0: the usual ones, of egress/egress_int.h. */
    uint32_t head_ms, connect_ms, idle_ms, answer_ms;
};

struct egress_rule {
    char host[EGRESS_HOST_MAX];       /* canonical; "*.x" for all below x */
    uint16_t ports[EGRESS_PORTS_MAX]; /* 0: end; none: 80 and 443 */
    uint32_t methods;                 /* bits of enum egress_method; 0: any */
    char path[EGRESS_PATH_MAX];       /* a prefix, on a segment; "" any */
    uint32_t inspect;                 /* take TLS apart, to see and to add */
    char header[64];                  /* added on the way out; "" none */
    char value[EGRESS_VALUE_MAX];
};

enum egress_method {
    EGRESS_GET = 1 << 0,
    EGRESS_HEAD = 1 << 1,
    EGRESS_POST = 1 << 2,
    EGRESS_PUT = 1 << 3,
    EGRESS_PATCH = 1 << 4,
    EGRESS_DELETE = 1 << 5,
    EGRESS_OPTIONS = 1 << 6,
};

/* The head of the memfd; rule_count rules follow. */
struct egress_grant {
    uint64_t handle; /* gloveboxd's name of the session */
    uint32_t mode;
    uint32_t rule_count;
    uint32_t ask;         /* ask gloveboxd about every new destination */
    uint32_t packages;    /* serve packages; each is asked about */
    uint64_t bytes;       /* both ways together, from now on; 0: none left */
    uint32_t connections; /* at once */
    uint32_t requests;    /* from now on */
    uint32_t lookups;     /* from now on */
};

struct egress_answer {
    uint64_t question;
    uint32_t allow;
    char reason[EGRESS_TEXT_MAX];
};

struct egress_request {
    uint32_t type;
    uint32_t seq;
    union {
        struct egress_setup setup;
        uint64_t handle; /* REVOKE */
        struct egress_answer answer;
    } u;
};

struct egress_status {
    uint32_t sessions, connections;
    uint64_t accepted, refused, bytes_out, bytes_in;
};

struct egress_reply {
    uint32_t type;
    uint32_t seq;
    int32_t errnum; /* 0: done */
    char text[EGRESS_TEXT_MAX];
    union {
        char ca[EGRESS_CA_MAX]; /* GRANT; PEM, "" none */
        struct egress_status status;
    } u;
};

enum egress_report_type {
    EGRESS_REPORT_HTTP = 1, /* a request: plain, or taken out of TLS */
    EGRESS_REPORT_TUNNEL,   /* a CONNECT, at its end */
    EGRESS_REPORT_LOOKUP,   /* a name asked of the resolver */
    EGRESS_REPORT_PACKAGE,  /* a file of the index handed out */
    EGRESS_REPORT_BUDGET,   /* something was used up; reason says which */
    EGRESS_QUESTION,        /* may it? answered by ANSWER; no answer is no */
};

struct egress_report {
    uint32_t type;
    uint32_t allowed;
    uint64_t handle;
    uint64_t question; /* of QUESTION */
    int64_t at_ms;
    uint64_t bytes_out, bytes_in;
    uint32_t status; /* of HTTP: the answer's; 0 none */
    uint32_t ms;
    uint16_t port;
    uint16_t rule;              /* that matched, from 1; 0 none */
    char host[EGRESS_HOST_MAX]; /* as canonical as it could be made */
    char address[46];           /* connected to; "" none */
    char method[16];
    char path[EGRESS_PATH_MAX];                 /* without query */
    char package[128], version[64], sha256[65]; /* PACKAGE, and its QUESTION */
    char reason[EGRESS_TEXT_MAX];               /* of a refusal */
};

#endif
