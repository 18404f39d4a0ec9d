/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit trail: one event for every act that changes something or is
 * refused (O1), numbered without gaps, each carrying an HMAC (under
 * DIR/audit.secret) of itself and of the event before, so that a change, a
 * gap, a swap or a cut end shows. The end of the trail is also kept
 * outside the database, in DIR/audit.head, so that the next start detects a
 * database that is older than its trail (D11). An act in the store and its
 * event are one transaction: neither exists without the other. Events hold
 * ids, never code, file content, tokens or passwords.
 *
 * Each tenant's events also form a separate chain, of plain SHA-256, whose end
 * the service signs periodically (proof.h): anyone with an export and the
 * public key can verify it without a secret.
 */
#ifndef GLOVEBOX_AUDIT_AUDIT_H
#define GLOVEBOX_AUDIT_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct audit;
struct error;
struct store;
struct store_tx;

/* The bounds of a key or token within its tenant: ids, or names of pools,
 * separated by commas. "" is all. */
enum actor_bound {
    ACTOR_POOLS,
    ACTOR_WORKSPACES,
    ACTOR_SESSIONS,
    ACTOR_BOUNDS
};
#define ACTOR_BOUND_MAX 512

struct actor_bounds {
    char ids[ACTOR_BOUNDS][ACTOR_BOUND_MAX];
};

/* The principal that acts; strings are borrowed. Doors fill it from the key.
 */
struct actor {
    const char *tenant;
    const char *key;  /* "key_…", or "jwt_…" for the subject of an issuer's
                         token, "share_…" for a link's visitor, "glovebox"
                         for the service itself */
    const char *name; /* what people call it: the key's name, or what the
                         issuer's token calls its subject; or NULL */
    const char *token;     /* "tok_…" when it was not the key itself that was
                              shown but a token it stands behind; else NULL */
    bool admin;            /* owner of every workspace of its tenant: the scope
                              admin or workspaces:admin */
    uint32_t scopes;       /* AUTH_* of the key */
    int64_t expires_at_ms; /* when what was shown ends; 0: never */
    const struct actor_bounds *bounds; /* NULL: none */
    const char *door;    /* "native", "openai", … or NULL: the service */
    bool shares;         /* the door's default: a session made through it is
                            shared with the tenant (session/sharing.c) */
    const char *tool;    /* MCP: which; else NULL */
    const char *trigger; /* "model": a model of the agent loop decided to do
                            it, with the rights of this principal; NULL: the
                            client itself */
    const char *request; /* X-Request-Id, or NULL */
    const char *source;  /* peer address, or NULL */
};

/* actor.c: is this one of those the actor is bound to? */
bool actor_may(const struct actor *who, enum actor_bound what, const char *id);
/* The list itself, "" for all; borrowed. */
const char *actor_bound(const struct actor *who, enum actor_bound what);
/* Is it bound to anything at all? */
bool actor_bounded(const struct actor *who);
/* The credential that was presented: the token's id, else the key's. */
const char *actor_credential(const struct actor *who);

/* NULL for what does not apply. */
struct audit_event {
    const char *action;    /* "file.put", "workspace.transfer", … */
    const char *workspace; /* ws_… */
    const char *object;    /* the id acted on: file_…, lock_…, sess_… */
    const char *path;
    const char *before; /* version or commit id, owner, role, … */
    const char *after;
    const char *result; /* NULL is "ok"; else an error code's name */
    const char *detail; /* a short plain sentence; at most 500 bytes kept */
};

/* Makes DIR/audit.secret (0600) at the first start; fails when it is missing
 * and there is a trail. Starts a thread. store: borrowed until close. */
int audit_open(struct store *store, const char *data_dir, struct audit **ret,
               struct error *err);
/* Where the trail is, and what the operator said when it was refused before:
 * the token in that error's hint, or "". */
struct audit_place {
    const char *data_dir;
    const char *accept;
};
/* The same; an accepted loss becomes an event. */
int audit_open_at(struct store *store, const struct audit_place *place,
                  struct audit **ret, struct error *err);
/* For the check of store_settings; ctx is a struct audit_place: ERR_CORRUPT,
 * with what was found and what to do, for a database that belongs to another
 * data directory, that is older than DIR/audit.head, or when that file is
 * missing or damaged. Changes nothing. (D11) */
int audit_check_store(struct store *store, void *ctx, struct error *err);
/* For a copy of the database that goes elsewhere, without DIR/audit.head. */
int audit_head_forget(struct store *copy, struct error *err);
/* Nothing may be removed for good while the trail is damaged: ERR_CORRUPT,
 * until an operator has accepted that. (D11) */
int audit_intact(struct audit *a, struct error *err);
void audit_close(struct audit *a); /* writes what waits; accepts NULL */

/* fn is called, on any thread, when there are or soon will be new events to
 * query. Once, before the first; fn NULL: no longer. */
void audit_on_event(struct audit *a, void (*fn)(void *ctx), void *ctx);

/* who: NULL for the service itself, in these three. */

/* Within the act's own transaction. */
int audit_add(struct audit *a, struct store_tx *tx, const struct actor *who,
              const struct audit_event *event, struct error *err);
/* In a separate transaction, on disk when it returns: for acts outside the
 * store. */
int audit_note(struct audit *a, const struct actor *who,
               const struct audit_event *event, struct error *err);
/* Queued; written by a thread within a second, several at a time. For
 * refusals, and for what must not wait (executions). Strings are copied. A
 * queue that is full drops and counts; the count is an event itself. */
void audit_later(struct audit *a, const struct actor *who,
                 const struct audit_event *event);
/* Notes that an execution begins, in a way that survives this process without
 * a sync. ERR_UNAVAILABLE: the execution may not begin. audit_end queues the
 * event of its end, with *ret as `begun`; that event is never dropped. An
 * execution without an end when the service ends becomes an event at the next
 * start. (O3) */
int audit_begin(struct audit *a, const struct actor *who, const char *object,
                const char *session, uint32_t *ret, struct error *err);
void audit_end(struct audit *a, const struct actor *who,
               const struct audit_event *event, uint32_t begun);
/* Can events be written? False, with a sentence, while those that wait cannot
 * be, or too many of them do; true again by itself. (O3) */
int audit_writable(struct audit *a, struct error *err);

/* Rows of another module, written in the same transactions as the queued
 * events so that they need no sync of their own. Both functions run on the
 * audit writer's thread. */
struct audit_piggyback {
    void *ctx;
    /* Writes the pending rows; having none is no error. */
    int (*write)(void *ctx, struct store_tx *tx, struct error *err);
    /* After every write. err NULL: the rows are on disk. */
    void (*written)(void *ctx, const struct error *err);
};
/* There is at most one. NULL removes it; its functions are not running when
 * this returns. */
void audit_set_piggyback(struct audit *a,
                         const struct audit_piggyback *piggyback);
void audit_flush_soon(struct audit *a); /* the piggyback has rows */

struct audit_filter { /* NULL or 0: any */
    const char *tenant;
    const char *actor;  /* a key, or a token */
    const char *action; /* exact, or "file." for all that start so */
    const char *workspace;
    const char *object; /* object id, or a path */
    int64_t from_ms, to_ms;
    int64_t after;  /* sequence number; events newer than it, oldest first */
    unsigned limit; /* 0 is 100; at most 1000 */
};

struct audit_line {
    int64_t seq, at_ms;
    char *tenant, *actor, *action, *workspace, *object, *path, *before, *after,
        *result, *detail, *request, *source, *token; /* owned; "" for none */
    char *actor_name; /* owned; NULL: unless the caller sets it, for lists. No
                         part of the event: the chain covers ids */
    char hash[65];
    int64_t chain_seq;       /* in the tenant's own chain; 0: older than it */
    char chain_hash[65];     /* "" with that */
    char chain_previous[65]; /* hash of the event before; of audit_page only */
};

int audit_query(struct audit *a, const struct audit_filter *filter,
                struct audit_line **ret, size_t *ret_count, bool *ret_more,
                struct error *err);
/* The number of the newest event; 0: there is none. */
int audit_last(struct audit *a, int64_t *ret, struct error *err);
void audit_lines_free(struct audit_line *lines, size_t count);
/* The same with chain_previous, for exports. */
int audit_page(struct audit *a, const struct audit_filter *filter,
               struct audit_line **ret, size_t *ret_count, bool *ret_more,
               struct error *err);

struct audit_report {
    int64_t events;    /* looked at */
    int64_t first_bad; /* sequence number of the first fault, 0: none */
    char fault[160];   /* what is wrong there */
    int64_t lost;      /* events whose loss an operator has accepted, in all */
    char head[65];     /* HMAC of the last event: note it down elsewhere, and
                          a trail cut shorter can be told too */
};
/* The same number alone. */
int audit_lost(struct audit *a, int64_t *ret, struct error *err);
/* Walks the whole chain, then every tenant's. progress may be NULL. */
int audit_verify(struct audit *a,
                 void (*progress)(void *ctx, int64_t done, int64_t total),
                 void *ctx, struct audit_report *ret, struct error *err);
/* One tenant's chain and its checkpoints; numbers are those of that chain. */
int audit_verify_tenant(struct audit *a, const char *tenant,
                        struct audit_report *ret, struct error *err);

/* ---- sign.c: checkpoints ------------------------------------------------ */

struct audit_key {
    char id[ID_MAX]; /* akey_… */
    char pem[256];   /* its public half */
    int64_t since_ms;
};
/* The one that signs first, then earlier ones; owned by caller (free). */
int audit_keys(struct audit *a, struct audit_key **ret, size_t *ret_count,
               struct error *err);
/* Signs the tenant's chain as it stands; it is an event of that chain. Does
 * nothing where the newest event is a checkpoint, or there is none. */
int audit_checkpoint(struct audit *a, const char *tenant, struct error *err);
/* The checkpoints of a chain after event `after`, oldest first; -1: the
 * newest. */
int audit_checkpoints(struct audit *a, const char *tenant, int64_t after,
                      unsigned limit, struct audit_line **ret,
                      size_t *ret_count, bool *ret_more, struct error *err);

/* ---- send.c: to others, as events come ----------------------------------
 * Each event at least once, in order; where it got to is kept. It begins with
 * the events after it was first turned on.
 */

struct audit_send_settings { /* "" or NULL: not */
    const char *syslog;      /* "unix:/dev/log" or "udp:ADDRESS:PORT" */
    const char *otlp_url;    /* https, or http of this machine */
};
/* Once; starts a thread for each. ERR_INVALID. */
int audit_send_open(struct audit *a,
                    const struct audit_send_settings *settings,
                    struct error *err);

#endif
