/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of model/ only: the table of models, and one call on its way
 * through call.c to the built-in model or to glovebox-model. */
#ifndef GLOVEBOX_MODEL_MODEL_INT_H
#define GLOVEBOX_MODEL_MODEL_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/error.h"
#include "base/thread.h"
#include "model/model.h"
#include "wire/model_msg.h"

struct buf;
struct fair_queue;

/* One model. `spec` is constant after it was put into the table; a change
 * replaces the entry. Calls hold a reference. */
struct model_entry {
    struct model_spec spec;
    bool configured; /* or built in: cannot be changed over the API */
    atomic_uint refs;
    struct fair_queue *queue;
    /* The breaker. */
    struct mutex lock;
    unsigned failures;             /* lock; requests in a row */
    uint64_t open_until_ms;        /* lock; 0: closed */
    uint64_t pause_ms;             /* lock; of the next opening */
    bool probing;                  /* lock; one call tries again */
    int64_t good_at_ms, bad_at_ms; /* lock; of the last answer and failure */
    const char *why;               /* lock; of that failure; static */
    /* The key as last seen. Held while the vault is asked, which writes. */
    struct mutex key_lock;
    char key_header[64];   /* key_lock */
    char *key_value;       /* key_lock; NULL: not known */
    uint64_t key_until_ms; /* key_lock */
    _Atomic uint64_t calls, failed, retries, input, output;
    atomic_uint running;
};

struct models {
    struct models_parts parts;
    struct mutex lock;
    struct model_entry **rows; /* lock; by name, the built-in one included */
    size_t count;              /* lock */
    struct mutex change_lock;  /* taken before lock: one change at a time */
    atomic_bool stopping;
};

/* ---- models.c ----------------------------------------------------------- */

/* A reference to what `name` means for the caller; NULL: the default model. */
int model_entry_find(struct models *m, const struct actor *who,
                     const char *name, struct model_entry **ret,
                     struct error *err);
void model_entry_release(struct model_entry **entry); /* for cleanup() */
/* With defaults filled in; one reference. */
struct model_entry *model_entry_new(const struct model_spec *spec,
                                    bool configured);
/* Taken. Replaces one of the same name and tenant. */
void model_table_put(struct models *m, struct model_entry *entry);
bool model_table_drop(struct models *m, const char *tenant, const char *name);

/* ---- spec.c ------------------------------------------------------------- */

/* Forms and ranges, without the vault. */
int model_spec_check(const struct model_spec *spec, struct error *err);
/* The host of a URL that model_spec_check accepted, canonical. */
int model_spec_host(const struct model_spec *spec, char ret[256],
                    struct error *err);
struct conf_model;
int model_spec_of_conf(const struct conf_model *c, struct model_spec *ret,
                       struct error *err);

/* ---- stored.c: models in the database ----------------------------------- */

int model_stored_load(struct models *m, struct error *err);

/* ---- breaker.c ---------------------------------------------------------- */

/* ERR_UNAVAILABLE while the breaker is open. */
int model_breaker_enter(struct model_entry *e, struct error *err);
/* Each entered call once. counts: it says something of the server. */
void model_health_of(struct model_entry *e, struct model_health *ret);
void model_breaker_leave(struct model_entry *e, bool counts, bool good,
                         const char *why);

/* ---- link.c ------------------------------------------------------------- */

/* Gives a call to glovebox-model; ret: its stream, owned by caller. */
int model_link_call(struct model_link *l, const struct model_call_msg *call,
                    const char *prompt, int *ret, struct error *err);
/* The stream ended without an END. */
void model_link_fell(struct model_link *l);

/* ---- one call ----------------------------------------------------------- */

struct model_call_state {
    struct models *models;
    struct model_entry *entry;
    const struct actor *who;
    const struct model_request *request;
    model_event_fn *on_event;
    void *ctx;
    uint64_t deadline_ms; /* monotonic */
    bool forwarded;       /* an event was delivered */
    bool cancelled;       /* by the caller */
    uint64_t said;        /* bytes of the answer so far */
    struct model_result *result;
    /* Of embeddings, instead of request. */
    const char *const *texts;
    size_t text_count;
    float *vectors; /* owned by the caller of model_remote; grows once */
    size_t dimensions, vector_count;
};

/* Delivers an event, and adds the item of an ITEM event to the result.
 * ERR_CONFLICT: the caller ends the call. */
int model_call_event(struct model_call_state *c,
                     const struct model_event *event, struct error *err);
/* 0, or the error of a call that was cancelled, stopped or took too long. */
int model_call_check(const struct model_call_state *c, struct error *err);
/* Waits, in short steps, so that a cancelled call ends at once. */
int model_call_sleep(const struct model_call_state *c, uint64_t ms,
                     struct error *err);

/* ---- remote.c: calls through glovebox-model ------------------------------
 */

int model_remote(struct model_call_state *c, struct error *err);

/* ---- items.c: reading the items of a request ---------------------------- */

/* The type of an item: "message" where it has a role and no type. */
const char *model_item_type(const json_t *item);
/* Appends the text of a message's content or of a function's output. */
void model_item_text(const json_t *content, struct buf *out);
/* Every item is an object of a known type with what that type needs, tools
 * are functions with a name: ERR_INVALID names the first that is not. */
int model_items_check(const struct model_request *rq, struct error *err);

/* ---- echo.c, echo_schema.c: the built-in model -------------------------- */

#define MODEL_ECHO_NAME "echo"
#define MODEL_ECHO_DIMENSIONS 64u

int model_echo(struct model_call_state *c, struct error *err);
/* A unit vector of the words of a text; ret has MODEL_ECHO_DIMENSIONS. */
void model_echo_embed(const char *text, float *ret);
/* The smallest value that the schema accepts; "hint" is used for the first
 * string that may be anything. New reference. */
json_t *model_echo_instance(const json_t *schema, const char *hint);

#endif
