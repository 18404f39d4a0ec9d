/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence: the record of one execution. It names the principal, the trigger,
 * the code, the files, the connections, the policy decisions, the usage and
 * the outcome. It is written once, when the execution ends (or is denied or
 * held),
 * in the transaction of its audit event; the audit thread writes several at a
 * time, and no caller waits.
 *
 * Records are deleted after `evidence_days`. They contain the hash of the
 * code,
 * and its text if `evidence_code` is set. Files appear as ids of versions,
 * never as content.
 */
#ifndef GLOVEBOX_EVIDENCE_EVIDENCE_H
#define GLOVEBOX_EVIDENCE_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ids.h"
#include "policy/policy.h"

struct actor;
struct audit;
struct error;
struct evidence;
struct store;

enum evidence_kind {
    EVIDENCE_BLOCKED, /* refused inside: no network, or not by the proxy */
    EVIDENCE_REFUSED, /* by the proxy */
    EVIDENCE_ALLOWED
};

struct evidence_connection {
    enum evidence_kind kind;
    int64_t at_ms;
    const char *what; /* "connect", "resolve", "http", "package" */
    const char *host; /* name or address */
    uint16_t port;
    const char *method, *path; /* "" none */
    const char *reason;        /* of a refusal; or the rule */
    uint32_t count;            /* so often in a row */
    uint64_t bytes_out, bytes_in;
};

struct evidence_file {
    const char *path;
    const char *how;  /* "created", "modified", "deleted", "renamed" */
    const char *fate; /* "" kept; else why not, or how: "conflict", … */
    const char *file, *version, *sha256; /* "" none */
    uint64_t size;
};

/* Output other than text, such as images. */
struct evidence_artifact {
    const char *how; /* "display" or "result" */
    const char *type;
    uint64_t size;
};

/* Everything borrowed during the call. */
struct evidence_run {
    const char *execution, *session, *workspace, *pool, *runtime;
    const struct actor *who; /* key, request, source, door, tool */
    const char *language;
    bool ephemeral; /* of the code only its hash is kept, and no names */
    const char *code;
    size_t code_len;
    const char *metadata, *conversation, *message; /* or NULL */
    const char *prompt;               /* of the agent loop, or NULL */
    const char *base_commit, *commit; /* mounted; made; "" none */
    int64_t base_seq; /* the mounted one's number; 0: nothing was */
    const struct evidence_file *files;
    size_t file_count;
    bool files_truncated;
    const char *const *reads; /* as told by the session itself */
    size_t read_count;
    bool reads_truncated;
    const struct evidence_artifact *artifacts;
    size_t artifact_count;
    const struct evidence_connection *connections;
    size_t connection_count;
    bool connections_truncated;
    const struct policy_decision *decision; /* or NULL */
    const struct policy_check *checks; /* every layer's, and connections' */
    size_t check_count;
    bool checks_truncated;
    const char *output; /* its text; NULL: none, or not to be kept */
    size_t output_len;
    const char *approval;  /* apr_… or "" */
    const char *retry_of;  /* exec_… or "" */
    uint32_t repeats;      /* the same code had failed */
    const char *outcome;   /* "ok", …, "denied", "pending_approval" */
    const char *failure;   /* or NULL */
    const char *isolation; /* what stood: "namespaces, seccomp, …" */
    int64_t created_at_ms, started_at_ms, finished_at_ms;
    uint64_t wall_ms, cpu_ms, peak_memory_bytes, output_bytes;
    bool interpreter_fresh;
};

struct evidence_settings {
    bool code;     /* keep the text of code */
    size_t output; /* bytes of output text that are kept; 0: none */
    uint32_t days; /* 0: forever */
};

/* store, audit: borrowed until close. Starts a thread. */
int evidence_open(const struct evidence_settings *settings,
                  struct store *store, struct audit *audit,
                  struct evidence **ret, struct error *err);
void evidence_close(struct evidence *ev); /* writes what waits; accepts NULL */
/* Copied and queued. The last word of an execution replaces earlier ones (a
 * held one that has run). ev NULL: nothing. */
void evidence_record(struct evidence *ev, const struct evidence_run *run);
/* Waits until what was queued is written, or cannot be. */
void evidence_flush(struct evidence *ev);

#define EVIDENCE_CODE_MAX (1u << 20) /* bytes of text that are kept */

/* all: the whole tenant's executions; else only the actor's own. The actor's
 * bounds apply in both cases. */

/* As a JSON object; ERR_NOT_FOUND. */
int evidence_get(struct evidence *ev, const struct actor *who, bool all,
                 const char *execution, struct buf *ret_json,
                 struct error *err);

struct evidence_filter { /* NULL or 0: any */
    const char *session;
    const char *outcome;
    int64_t from_ms, to_ms;
    const char *after; /* exec_… of the page before; unknown: ERR_INVALID */
    unsigned limit;    /* 1 to 1000 */
};

struct evidence_row {
    char execution[ID_MAX], session[ID_MAX], actor[ID_MAX], outcome[32];
    char code_sha256[65];
    int64_t at_ms;
};

/* Newest first; owned by caller (free). */
int evidence_list(struct evidence *ev, const struct actor *who, bool all,
                  const struct evidence_filter *filter,
                  struct evidence_row **ret, size_t *ret_count, bool *ret_more,
                  struct error *err);

#endif
