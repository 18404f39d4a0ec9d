/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the user in the middle of a call. A modern client receives the
 * questions as the result and sends the answers with a new request; a task
 * waits for tasks/update; a legacy client receives requests on the call's own
 * stream and posts its responses. Only what the client declared it supports is
 * asked. Runs on the call's worker, which waits, within bounds, in the last
 * two cases.
 *
 * Between two rounds a modern client carries a state. Because it comes back
 * from outside, it is signed (HMAC-SHA-256 with a secret of this process) over
 * the caller, the call with its arguments, a random number and an expiry time;
 * any difference fails the request. A state can be used once: used ones are
 * remembered until they would expire, a bounded number per tenant, beyond
 * which states are refused. A tool whose repetition has no effect may allow
 * repeats, so that a client that lost its response can retry.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "doors/mcp/mcp_int.h"

#define ANSWER_S 300
#define LOOK_S 1

bool mcp_capable(const struct mcp_call *call, const char *capability)
{
    const struct mcp_exchange *x = call->ctx;

    return json_object_get(x->caps, capability) != NULL;
}

int mcp_need(struct mcp_call *call, const char *capability)
{
    struct mcp_exchange *x = call->ctx;

    if (mcp_capable(call, capability))
        return 0;
    (void)mcp_rpc_fault(
        &x->fault, x->era == MCP_MODERN ? RPC_CAPABILITY : RPC_PARAMS,
        json_pack("{s:{s:{}}}", "requiredCapabilities", capability),
        "this needs the client capability '%s'", capability);
    return -ERR_INVALID;
}

/* The capability that a client must have declared for this request. */
static const char *capability_of(const char *method)
{
    if (strcmp(method, "sampling/createMessage") == 0)
        return "sampling";
    return strcmp(method, "roots/list") == 0 ? "roots" : "elicitation";
}

void mcp_ask(struct mcp_call *call, const char *key, const char *method,
             json_t *params)
{
    struct mcp_exchange *x = call->ctx;
    const json_t *came =
        x->era == MCP_MODERN
            ? json_object_get(json_object_get(x->msg.params, "inputResponses"),
                              key)
            : NULL;
    json_t *asks = x->asks;

    if (!x->asked)
        x->asked = json_object();
    if (json_is_object(came)) {
        (void)json_object_set(x->asked, key, (json_t *)(uintptr_t)came);
        json_decref(params);
        return;
    }
    if (mcp_need(call, capability_of(method)) < 0) {
        json_decref(params);
        return;
    }
    if (!asks)
        asks = x->asks = json_object();
    (void)json_object_set_new(
        asks, key, json_pack("{s:s,s:o}", "method", method, "params", params));
}

const json_t *mcp_asked(struct mcp_call *call, const char *key)
{
    const struct mcp_exchange *x = call->ctx;

    return json_object_get(x->asked, key);
}

void mcp_ask_write(struct mcp_exchange *x)
{
    buf_reset(&x->result);
    x->w = (struct json_writer){.out = &x->result};
    x->result_type = "input_required";
    if (x->asks)
        mcp_rpc_write_value(&x->w, "inputRequests", x->asks);
    if (x->keep)
        json_write_string(&x->w, "requestState", mcp_state_sign(x));
}

/* ---- the legacy way ----------------------------------------------------- */

static void send_request(struct mcp_exchange *x, const char *key,
                         const json_t *ask, json_t *ids)
{
    struct buf message cleanup(buf_done) = {0};
    struct json_writer w = {.out = &message};
    char id[32];

    mutex_lock(&x->session->lock);
    (void)snprintf(id, sizeof(id), "ask-%llu",
                   (unsigned long long)++x->session->asks_made);
    (void)json_object_set_new(x->session->open, id, json_null());
    mutex_unlock(&x->session->lock);
    (void)json_object_set_new(ids, key, json_string(id));
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "jsonrpc", "2.0");
    json_write_string(&w, "id", id);
    mcp_rpc_write_value(&w, "method", json_object_get(ask, "method"));
    mcp_rpc_write_value(&w, "params", json_object_get(ask, "params"));
    json_write_close(&w, '}');
    (void)mcp_reply_send(x, &message);
}

static bool all_answered(const struct mcp_session *s, json_t *ids)
{
    const char *key;
    json_t *id;

    mutex_assert_held(&s->lock);
    json_object_foreach (ids, key, id)
        if (json_is_null(json_object_get(s->open, json_string_value(id))))
            return false;
    return true;
}

static int wait_for_answers(struct mcp_call *call, json_t *ids)
{
    struct mcp_exchange *x = call->ctx;
    struct mcp_session *s = x->session;
    uint64_t until_ms = clock_mono_ms() + ANSWER_S * 1000;
    bool there, over = false;

    mutex_lock(&s->lock);
    while (!(there = all_answered(s, ids)) && !over) {
        (void)cond_wait_until(&s->answer, &s->lock,
                              clock_mono_ms() + LOOK_S * 1000u);
        over = x->cancelled || s->ended || x->mcp->stopping ||
               clock_mono_ms() > until_ms;
    }
    mutex_unlock(&s->lock);
    return there ? 0 : -1;
}

/* Takes the answers out of the session, come or not. */
static const char *collect_answers(struct mcp_exchange *x, json_t *ids)
{
    struct mcp_session *s = x->session;
    const char *fault = NULL, *key;
    json_t *id;

    mutex_lock(&s->lock);
    json_object_foreach (ids, key, id) {
        const json_t *response =
            json_object_get(s->open, json_string_value(id));
        json_t *result = json_object_get(response, "result");

        if (json_is_object(result))
            (void)json_object_set(x->asked, key, result);
        else
            fault = "the client could not answer a question of the tool";
        (void)json_object_del(s->open, json_string_value(id));
    }
    mutex_unlock(&s->lock);
    return fault;
}

static int ask_legacy(struct mcp_call *call, struct error *err)
{
    struct mcp_exchange *x = call->ctx;
    json_t *ids cleanup(json_unref) = json_object(), *ask;
    const char *key, *fault;
    int r;

    if (!x->session || x->batch)
        return error_set(err, ERR_INVALID,
                         "this tool asks questions, which needs a session");
    json_object_foreach (x->asks, key, ask)
        send_request(x, key, ask, ids);
    r = wait_for_answers(call, ids);
    fault = collect_answers(x, ids);
    (void)json_object_clear(x->asks);
    if (r < 0)
        return error_set(err, ERR_TIMEOUT,
                         "the client did not answer in time");
    return fault ? error_set(err, ERR_INVALID, "%s", fault) : 0;
}

/* ---- waiting ------------------------------------------------------------ */

int mcp_ask_wait(struct mcp_call *call, struct error *err)
{
    struct mcp_exchange *x = call->ctx;

    if (x->fault.code)
        return error_set(err, ERR_INVALID, "%s", x->fault.message);
    if (json_object_size(x->asks) == 0)
        return 0;
    if (x->task && mcp_task_is(x->task))
        return mcp_task_wait(x->task, x, err);
    return x->era == MCP_LEGACY ? ask_legacy(call, err) : MCP_PENDING;
}

/* ---- state between rounds ----------------------------------------------- */

#define STATE_MAX 8192u
#define STATE_S 600
#define NONCE                                                                 \
    17 /* digits in front of the state; the first: may it repeat?             \
        */
#define USED_MAX 16384u
#define USED_OF_TENANT 1024u

struct mcp_used {
    int64_t until;
    unsigned char mac[16]; /* the first half is enough to know it by */
    uint64_t tenant;       /* its hash */
};

/* Caller and request: the same in both rounds, or the state is not ours. */
static void request_digest(const struct mcp_exchange *x, char ret[HASH_HEX])
{
    const json_t *args = json_object_get(x->msg.params, "arguments");
    const char *name =
        json_string_value(json_object_get(x->msg.params, "name"));
    const char *uri = json_string_value(json_object_get(x->msg.params, "uri"));
    char *text cleanup(mem_free) =
        args ? json_dumps(args, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    struct buf all cleanup(buf_done) = {0};
    unsigned char sum[HASH_SIZE];

    buf_addf(&all, "%s\n%s\n%s\n%s\n%s\n%s", x->actor->tenant,
             actor_credential(x->actor), x->msg.method, name ? name : "",
             uri ? uri : "", text && strcmp(text, "{}") != 0 ? text : "");
    hash_sha256(all.data, all.len, sum);
    (void)ids_hex(sum, sizeof(sum), ret);
}

/* "TIME.HEX-OF-STATE.HMAC" */
static void sign_state(const struct mcp_exchange *x, int64_t until,
                       const char *hex, char ret[HASH_HEX])
{
    struct buf all cleanup(buf_done) = {0};
    unsigned char mac[HASH_SIZE];
    char who[HASH_HEX];

    request_digest(x, who);
    buf_addf(&all, "%" PRId64 ".%s.%s", until, hex, who);
    hash_hmac(x->mcp->secret, sizeof(x->mcp->secret), all.data, all.len, mac);
    (void)ids_hex(mac, sizeof(mac), ret);
}

const char *mcp_state_sign(const struct mcp_exchange *x)
{
    int64_t until = clock_real_ms() / 1000 + STATE_S;
    size_t len = strlen(x->keep);
    char *hex = arena_alloc(x->arena, NONCE + 2 * len + 1);
    unsigned char nonce[NONCE / 2];
    char mac[HASH_HEX];

    hex[0] = x->keep_repeats ? '1' : '0';
    ids_random(nonce, sizeof(nonce));
    (void)ids_hex(nonce, sizeof(nonce), hex + 1);
    (void)ids_hex(x->keep, len, hex + NONCE);
    sign_state(x, until, hex, mac);
    return arena_printf(x->arena, "%" PRId64 ".%s.%s", until, hex, mac);
}

static char *from_hex(struct arena *arena, const char *hex, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char *out = arena_alloc(arena, len / 2 + 1);

    for (size_t i = 0; i + 1 < len; i += 2) {
        const char *high = strchr(digits, hex[i]);
        const char *low = strchr(digits, hex[i + 1]);

        if (!high || !low)
            return NULL;
        out[i / 2] = (char)((high - digits) * 16 + (low - digits));
    }
    return out;
}

/* ---- once --------------------------------------------------------------- */

/* Drops the states that have expired. */
static void drop_expired_states(struct mcp *m, int64_t now)
{
    size_t kept = 0;

    mutex_assert_held(&m->lock);
    for (size_t i = 0; i < m->used_count; i++)
        if (m->used[i].until >= now)
            m->used[kept++] = m->used[i];
    m->used_count = kept;
}

/* False: it came before, or there are too many to remember another. */
static bool use_state(struct mcp *m, const char *tenant, int64_t until,
                      const char *mac)
{
    struct mcp_used one = {.until = until};
    unsigned char sum[HASH_SIZE];
    size_t own = 0;
    bool fresh = true;

    hash_sha256(mac, strlen(mac), sum);
    memcpy(one.mac, sum, sizeof(one.mac));
    hash_sha256(tenant, strlen(tenant), sum);
    memcpy(&one.tenant, sum, sizeof(one.tenant));
    mutex_lock(&m->lock);
    drop_expired_states(m, clock_real_ms() / 1000);
    for (size_t i = 0; i < m->used_count && fresh; i++) {
        own += m->used[i].tenant == one.tenant;
        fresh = memcmp(m->used[i].mac, one.mac, sizeof(one.mac)) != 0;
    }
    fresh = fresh && own < USED_OF_TENANT && m->used_count < USED_MAX;
    if (fresh) {
        if (!m->used)
            m->used = xcalloc(USED_MAX, sizeof(*m->used));
        m->used[m->used_count++] = one;
    }
    mutex_unlock(&m->lock);
    return fresh;
}

void mcp_state_close(struct mcp *m)
{
    free(m->used);
}

/* NULL: not one of ours, too old, or used. */
static char *verify_state(const struct mcp_exchange *x, const char *text)
{
    char *end;
    long long until = strtoll(text, &end, 10);
    const char *hex = end + 1, *mac;
    char wanted[HASH_HEX], *copy;

    if (*end != '.' || until < clock_real_ms() / 1000)
        return NULL;
    mac = strchr(hex, '.');
    if (!mac || strlen(mac + 1) != HASH_HEX - 1)
        return NULL;
    copy = arena_strndup(x->arena, hex, (size_t)(mac - hex));
    sign_state(x, until, copy, wanted);
    if (!hash_equal(mac + 1, wanted, HASH_HEX - 1))
        return NULL;
    if (strlen(copy) < NONCE ||
        (copy[0] != '1' &&
         !use_state(x->mcp, x->actor->tenant, until, mac + 1)))
        return NULL;
    return from_hex(x->arena, copy + NONCE, strlen(copy) - NONCE);
}

int mcp_state_take(struct mcp_exchange *x)
{
    const json_t *value = json_object_get(x->msg.params, "requestState");
    const char *text = json_string_value(value);

    if (!value)
        return 0;
    if (text && strlen(text) <= STATE_MAX)
        x->state = verify_state(x, text);
    return x->state ? 0
                    : mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                                    "requestState is not what was sent for "
                                    "this request, is too old, or was used "
                                    "before");
}

const char *mcp_state(struct mcp_call *call)
{
    struct mcp_exchange *x = call->ctx;

    return x->state;
}

void mcp_state_keep(struct mcp_call *call, const char *text)
{
    struct mcp_exchange *x = call->ctx;

    x->keep = arena_strdup(x->arena, text);
    x->keep_repeats = false;
}

void mcp_state_keep_repeats(struct mcp_call *call, const char *text)
{
    struct mcp_exchange *x = call->ctx;

    mcp_state_keep(call, text);
    x->keep_repeats = true;
}
