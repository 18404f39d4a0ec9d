/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox mcp: a bridge between a host that speaks MCP on standard input and
 * output and the service's /mcp. The protocol itself lives in the service:
 * both eras pass through, only what HTTP needs is added and taken off again.
 * How the pieces work together:
 *
 *   bridge.c    the command and its loop; the host's side: lines in and out
 *   message.c   what a message is, which headers it travels with
 *   exchange.c  one message on its way to the service, what comes back to it,
 *               how it ends, and what is tried again
 *   session.c   the session of the legacy era
 *
 * All of it runs in one thread and waits in one place, the loop; only looking
 * for a service that went away blocks, because nothing works without one.
 */
#ifndef GLOVEBOX_CLI_MCP_MCP_H
#define GLOVEBOX_CLI_MCP_MCP_H

#include <curl/curl.h>

#include "base/error.h"
#include "base/ids.h"
#include "cli/common.h"

#define MCP_LINE_MAX (16u << 20) /* of the host */
#define MCP_OPEN_MAX 256u        /* messages under way */
#define MCP_SESSION_KEPT 128u    /* subscriptions that outlive a session */

enum mcp_error_code {
    MCP_PARSE_ERROR = -32700,
    MCP_INTERNAL_ERROR = -32603,
};

/* ---- message.c ---------------------------------------------------------- */

enum mcp_message_kind {
    MCP_REQUEST,
    MCP_NOTIFICATION,
    MCP_RESPONSE, /* to a request of the service */
    MCP_BATCH,
    MCP_OTHER, /* nonsense: the service says which */
};

struct mcp_message {
    enum mcp_message_kind kind;
    json_t *json;        /* owned */
    const char *method;  /* borrowed from json; "" */
    const json_t *id;    /* borrowed; NULL: none that could be repeated */
    bool modern;         /* it claims a revision itself */
    const char *version; /* that, or NULL */
};

/* False: not JSON. */
bool cli_mcp_message_read(const char *text, size_t len,
                          struct mcp_message *ret);
void cli_mcp_message_done(struct mcp_message *m);
/* Adds the headers a modern message needs beside its body. */
struct curl_slist *cli_mcp_message_headers(const struct mcp_message *m,
                                           struct curl_slist *list);
/* An error answer, one line; id NULL: none. Owned by caller. */
char *cli_mcp_message_error(const json_t *id, int code, const char *sentence);
/* The service's own error with that id, one line; NULL: it is none. Owned by
 * caller. */
char *cli_mcp_message_refusal(const json_t *id, const json_t *body);
/* The request that a notification cancels, or NULL. */
const json_t *cli_mcp_message_cancels(const struct mcp_message *m);
/* May it be sent again when it may have arrived already? */
bool cli_mcp_message_repeatable(const struct mcp_message *m);

/* ---- the bridge --------------------------------------------------------- */

enum mcp_role {
    MCP_PLAIN,
    MCP_HANDSHAKE, /* initialize of the legacy era */
    MCP_READY,     /* notifications/initialized */
    MCP_LISTEN,    /* the GET of a session: what the service says unasked */
};

struct mcp_bridge;

struct mcp_exchange {
    struct mcp_exchange *next;
    struct mcp_bridge *b;
    CURL *easy; /* NULL: it waits, until at_ms or for those before it */
    uint64_t at_ms;
    struct curl_slist *headers;
    char *text; /* the message; NULL: a GET */
    size_t len;
    struct mcp_message m;
    enum mcp_role role;
    bool ours;          /* the host did not send it: its answer is ours too */
    bool muted;         /* the host no longer wants to know */
    bool answered;      /* the host has its answer */
    bool heard;         /* something came back */
    bool stream;        /* as events */
    bool too_large;     /* it was */
    bool moved;         /* the service was looked for again because of it */
    bool shaken;        /* the session was opened again because of it */
    bool resume;        /* it goes on with a stream that broke */
    unsigned resumed;   /* how often, with nothing new */
    unsigned session;   /* number of the session it was sent in */
    struct buf answer;  /* a body that is no stream */
    struct cli_sse sse; /* its id is where the stream broke */
};

struct mcp_session {
    char id[256];          /* "": none, or the service keeps none */
    char version[40];      /* agreed on; "" */
    unsigned number;       /* counts them, from 1 */
    char *handshake;       /* the host's initialize; owned; NULL: none yet */
    uint64_t listen_at_ms; /* a GET is wanted from then on; 0: not now */
    bool listen_lost;      /* its connection failed: wanted once one works */
    char event[128];       /* the last one the GET brought */
    /* what the host asked of the session and a new one must know */
    struct {
        char *key, *text; /* owned */
    } kept[MCP_SESSION_KEPT];
    size_t kept_count;
};

struct mcp_bridge {
    struct cli *c;
    char process[ID_MAX]; /* names this process to the service: proc_… */
    CURLM *multi;
    const char *path;
    struct buf in; /* read, not yet a line */
    size_t in_seen;
    bool skipping;  /* a line that is too long, to its end */
    struct buf out; /* for the host; out_done bytes of it are written */
    size_t out_done;
    int out_fd;                /* standard output if it is a pipe; or -1 */
    bool out_socket;           /* it is one */
    bool ended;                /* the host hung up, or a signal came */
    struct mcp_exchange *open; /* in the order they came */
    unsigned open_count;
    struct mcp_session session;
    struct error trouble; /* why there is no service; code 0: there is one */
    uint64_t trouble_ms;
};

/* ---- bridge.c, the host ------------------------------------------------- */

void cli_mcp_host_init(struct mcp_bridge *b);
/* One line to the host, sent when it reads. */
void cli_mcp_host_say(struct mcp_bridge *b, const char *text, size_t len);
/* Reads what there is and starts what it says. */
void cli_mcp_host_read(struct mcp_bridge *b);
/* Writes what the host takes now. */
void cli_mcp_host_flush(struct mcp_bridge *b);
/* True if so much output waits for the host that no more input is read. */
bool cli_mcp_host_full(const struct mcp_bridge *b);
void cli_mcp_host_done(struct mcp_bridge *b);

/* ---- exchange.c --------------------------------------------------------- */

/* A message of the host; text: borrowed, m: taken. */
void cli_mcp_exchange_start(struct mcp_bridge *b, const char *text, size_t len,
                            struct mcp_message *m);
/* One of our own; text: borrowed, NULL for a GET. In front: before all that
 * wait. */
void cli_mcp_exchange_start_ours(struct mcp_bridge *b, const char *text,
                                 enum mcp_role role, bool in_front);
/* Waits for its turn, at the earliest in so long. */
void cli_mcp_exchange_wait(struct mcp_exchange *x, uint64_t ms);
/* Sends what need not wait any longer. Milliseconds until something else is
 * due, at most limit. */
int cli_mcp_exchange_pump(struct mcp_bridge *b, int limit);
/* The host no longer wants the answer to id: nothing more is said. */
void cli_mcp_exchange_cancel(struct mcp_bridge *b, const json_t *id);
/* Without another word. */
void cli_mcp_exchange_end(struct mcp_exchange *x);
void cli_mcp_exchange_drop(struct mcp_bridge *b);

/* curl's callbacks; ctx: the exchange. */
size_t cli_mcp_exchange_header(char *line, size_t one, size_t len, void *ctx);
size_t cli_mcp_exchange_body(char *bytes, size_t one, size_t len, void *ctx);
/* The whole of a good answer is there. */
void cli_mcp_exchange_complete(struct mcp_exchange *x);
/* A status that is no good. */
void cli_mcp_exchange_refused(struct mcp_exchange *x, long status);
/* An error of ours, unless the host has its answer or wants none. */
void cli_mcp_exchange_fail(struct mcp_exchange *x, const char *sentence);

/* Finds the service, or remembers why there is none. */
bool cli_mcp_exchange_find_service(struct mcp_bridge *b);
/* Handles transfers that curl has finished. */
void cli_mcp_exchange_reap(struct mcp_bridge *b);

/* ---- session.c ---------------------------------------------------------- */

/* Which part a message of the host has in the session; notes what it asks. */
enum mcp_role cli_mcp_session_role(struct mcp_bridge *b,
                                   const struct mcp_message *m,
                                   const char *text, size_t len);
/* Opens it again; x, which the service did not know it for, waits. False:
 * that would not help. */
bool cli_mcp_session_again(struct mcp_exchange *x);
/* The handshake, or its second half, or a GET has ended with that status. */
void cli_mcp_session_shaken(struct mcp_exchange *x);
void cli_mcp_session_ready(struct mcp_exchange *x, bool good);
void cli_mcp_session_unheard(struct mcp_exchange *x, long status);
/* Any message of it went well. */
void cli_mcp_session_alive(struct mcp_bridge *b);
/* Starts the GET if it is due. Milliseconds until it is, at most limit. */
int cli_mcp_session_listen(struct mcp_bridge *b, int limit);
/* Tells the service that the session is over; frees its state. */
void cli_mcp_session_close(struct mcp_bridge *b);

#endif
