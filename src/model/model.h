/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Language models: which ones the operator configured, and calls to them.
 *
 * A model is named in the configuration or added over the API. Each has a
 * kind, the dialect its server speaks. Callers see one dialect only, the items
 * of OpenAI's Responses API: messages, reasoning, function calls and their
 * outputs go in, the same kinds of items come out. The adapter of a kind
 * translates in both directions.
 *
 * Calls leave through a process of their own (glovebox-model), which has the
 * rights of glovebox-egress: no file, no store, no other tenant's data. It
 * adds the key, speaks HTTP, parses what the server sends and reports bounded
 * events. Hostile bytes of a server are never parsed in the daemon.
 *
 * A call blocks its thread until the model has finished. It counts against
 * the budgets of the tenant and of the key (ERR_LIMIT when one is used up).
 */
#ifndef GLOVEBOX_MODEL_MODEL_H
#define GLOVEBOX_MODEL_MODEL_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct actor;
struct conf;
struct core;
struct error;
struct model_link;
struct models;
struct priv_user;

/* ---- glovebox-model ------------------------------------------------------
 */

/* Starts the process as `user` (NULL: as we are); called before root is given
 * up. One that dies is started again by the next call. ca_file: trusted
 * besides the host's; "": none. */
int model_link_open(const char *program, const struct priv_user *user,
                    const char *ca_file, struct model_link **ret,
                    struct error *err);
void model_link_close(struct model_link *l); /* accepts NULL */

/* ---- the module ----------------------------------------------------------
 */

struct models_parts {        /* borrowed until models_close */
    const struct conf *conf; /* NULL (unit tests): no configured model */
    const struct core *core; /* NULL (unit tests): no store, no budgets */
    struct model_link *link; /* NULL: only the built-in model works */
};
int models_open(const struct models_parts *parts, struct models **ret,
                struct error *err);
/* Ends the calls under way; new ones fail with ERR_UNAVAILABLE. */
void models_stop(struct models *m);  /* accepts NULL */
void models_close(struct models *m); /* accepts NULL; no call may run */

/* ---- what is configured --------------------------------------------------
 */

enum model_kind {
    MODEL_ECHO, /* built in and deterministic; for trials and tests */
    MODEL_OPENAI_CHAT,
    MODEL_OPENAI_RESPONSES,
    MODEL_ANTHROPIC
};

struct model_info {
    const char *name;  /* what callers use */
    const char *model; /* what its server calls it */
    enum model_kind kind;
    uint64_t context_tokens; /* 0: not known */
    bool images;             /* takes images in messages */
    bool tools;
    bool embeddings; /* serves model_embed */
    bool is_default;
};

/* The model that `name` means for this caller; NULL: the default one.
 * ERR_NOT_FOUND if there is none, with a hint how to add one. The strings live
 * until model_info_clear. */
int model_find(struct models *m, const struct actor *who, const char *name,
               struct model_info *ret, struct error *err);
void model_info_clear(struct model_info *info);
/* All that the caller may use, by name; the caller frees the array. */
int model_list(struct models *m, const struct actor *who,
               struct model_info **ret, size_t *ret_count, struct error *err);

/* ---- models, changed ----------------------------------------------------
 */

#define MODEL_NAME_MAX 64
#define MODELS_PER_TENANT 200u

/* Prices are in millionths of a unit of money per million tokens. */
struct model_spec {
    char name[MODEL_NAME_MAX]; /* [a-zA-Z0-9._:-]{1,63} */
    enum model_kind kind;
    char url[512];
    char model[256]; /* "": as name */
    char key[64];    /* name of a secret in the vault; "": none */
    bool is_default, images, tools, embeddings;
    uint64_t context_tokens, max_output_tokens; /* 0: not known, not set */
    uint32_t concurrent, timeout_s, idle_s;     /* 0: the default */
    uint64_t price_input, price_output, price_cached;
    bool has_cached_price; /* else cached tokens cost what others do */
    /* Of one that is there. */
    char tenant[64]; /* whose; "": of the configuration, or built in */
    char made_by[ID_MAX];
    int64_t created_at_ms; /* 0: not stored */
};

const char *model_kind_name(enum model_kind kind); /* "openai-chat", … */
bool model_kind_find(const char *name, enum model_kind *ret);
/* "2.50" to millionths; false: no price. And back; ret: 32 bytes. */
bool model_price_parse(const char *text, uint64_t *ret);
char *model_price_format(uint64_t price, char ret[32]);

/* Adds or replaces a model of the caller's tenant. ERR_INVALID,
 * ERR_NOT_FOUND for a key that is not in its vault, ERR_CONFLICT for a name of
 * the configuration, ERR_LIMIT. */
int model_put(struct models *m, const struct actor *who,
              const struct model_spec *spec, struct model_spec *ret,
              struct error *err);
int model_get(struct models *m, const struct actor *who, const char *name,
              struct model_spec *ret, struct error *err);
/* By name; the caller frees the array. */
int model_specs(struct models *m, const struct actor *who,
                struct model_spec **ret, size_t *ret_count, struct error *err);
/* ERR_CONFLICT for one of the configuration. */
int model_remove(struct models *m, const struct actor *who, const char *name,
                 struct error *err);

/* What works, tried with small calls: each a sentence. */
struct model_trial {
    bool ok;
    char why[320];
};
struct model_test {
    struct model_trial answer, streaming, tools, images, embeddings;
    uint64_t first_ms; /* until the first piece of the answer */
};
int model_test(struct models *m, const struct actor *who, const char *name,
               struct model_test *ret, struct error *err);

/* ---- counters, for /metrics ---------------------------------------------
 */

/* How its server did when it was called last; no call is made to find out. */
enum model_state {
    MODEL_STATE_UNKNOWN, /* not called since the start */
    MODEL_STATE_UP,      /* the last call was answered */
    MODEL_STATE_FAILING, /* the last call failed */
    MODEL_STATE_DOWN     /* the breaker is open: calls fail at once */
};
const char *model_state_name(enum model_state state);
struct model_health {
    enum model_state state;
    int64_t answered_at_ms, failed_at_ms; /* 0: never */
    const char *why; /* the last call failed; static, "" : it did not */
};
/* Of one that model_get or model_specs returned. */
void model_health(struct models *m, const struct model_spec *spec,
                  struct model_health *ret);

struct model_counts {
    char name[MODEL_NAME_MAX], tenant[64];
    uint64_t calls, failures, retries, input, output; /* since the start */
    unsigned running;
    bool open; /* the breaker: calls fail at once */
    enum model_state state;
};
/* The caller frees the array. */
size_t model_counts(struct models *m, struct model_counts **ret);
bool model_link_alive(struct models *m, uint64_t *ret_restarts);

/* ---- one call ------------------------------------------------------------
 */

struct model_request {
    const char *model;         /* NULL: the default one */
    const char *instructions;  /* system text, or NULL */
    const json_t *input;       /* items: message, reasoning, function_call,
                                  function_call_output; images as data URIs */
    const json_t *tools;       /* function tools in their flat form, or NULL */
    const json_t *tool_choice; /* as in the Responses API, or NULL: auto */
    /* temperature, top_p, reasoning, text, parallel_tool_calls,
     * max_output_tokens, user: as in the Responses API; or NULL. An adapter
     * leaves out what its server refuses. */
    const json_t *options;
    uint32_t total_ms;         /* 0: the model's own limit */
    const atomic_bool *cancel; /* ends the call once true; or NULL */
};

enum model_event_kind {
    MODEL_EVENT_TEXT,      /* a piece of the answer */
    MODEL_EVENT_REFUSAL,   /* a piece of a refusal */
    MODEL_EVENT_REASONING, /* a piece of a reasoning summary */
    MODEL_EVENT_CALL,      /* a function call begins: call_id and name */
    MODEL_EVENT_ARGUMENTS, /* a piece of its arguments */
    MODEL_EVENT_ITEM       /* an item is complete: `done` */
};

struct model_event {
    enum model_event_kind kind;
    unsigned item;    /* its index in the output of this call */
    const char *text; /* UTF-8, not terminated; a piece never splits a
                         character */
    size_t len;
    const char *call_id, *name; /* CALL */
    const json_t *done;         /* ITEM: the item, borrowed */
};

/* On the calling thread, in order. False: ends the call with ERR_CONFLICT,
 * "cancelled". */
typedef bool model_event_fn(void *ctx, const struct model_event *event);

enum model_finish {
    MODEL_FINISH_STOP,   /* the answer is complete; or it called functions */
    MODEL_FINISH_LENGTH, /* a limit on tokens was reached */
    MODEL_FINISH_FILTER  /* the server withheld the rest */
};

struct model_usage {
    uint64_t input, cached, cache_write, output, reasoning; /* tokens */
    uint64_t microcents; /* at the configured prices; 0: none configured */
};

struct model_result {
    json_t *output; /* items, without ids of the server; the caller's */
    enum model_finish finish;
    struct model_usage usage;
    unsigned attempts; /* requests made, 1 unless some were repeated */
};

/* Retries happen only while no event was delivered. ERR_UNAVAILABLE: the
 * server is unreachable, refuses our key or answers nonsense; ERR_LIMIT: a
 * budget, or the server's own rate limit; ERR_TOO_LARGE: the prompt does not
 * fit the context; ERR_TIMEOUT. ret is filled as far as known on failure too
 * (usage counts), and must be cleared in both cases. */
int model_call(struct models *m, const struct actor *who,
               const struct model_request *request, model_event_fn *on_event,
               void *ctx, struct model_result *ret, struct error *err);
void model_result_clear(struct model_result *result);

/* One vector per text, ret_count of them, each ret_dim long, in one block that
 * the caller frees. ERR_UNSUPPORTED if the model has no embeddings. */
int model_embed(struct models *m, const struct actor *who, const char *model,
                const char *const *texts, size_t count, float **ret,
                size_t *ret_dim, struct error *err);

#endif
