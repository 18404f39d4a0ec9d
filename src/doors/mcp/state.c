/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client carries from one round of questions to the next. It comes
 * back from outside, so it is signed (HMAC-SHA-256, a secret of this process)
 * over the caller, the call with its arguments, a random number and a time;
 * whatever differs makes the request fail. It is good once: those that came
 * back are remembered for as long as they would be good, so many of a tenant;
 * one more is refused. Where a repeat does nothing anew, a tool says so, and a
 * client that lost its answer may ask again. Runs on a request's worker.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

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

/* Who asks for what: the same in both rounds, or the state is not ours. */
static void digest(const struct mcp_exchange *x, char ret[HASH_HEX])
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
static void sign(const struct mcp_exchange *x, int64_t until, const char *hex,
                 char ret[HASH_HEX])
{
    struct buf all cleanup(buf_done) = {0};
    unsigned char mac[HASH_SIZE];
    char who[HASH_HEX];

    digest(x, who);
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
    sign(x, until, hex, mac);
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

/* Lock held. Those whose time is over make room. */
static void forget_old(struct mcp *m, int64_t now)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->used_count; i++)
        if (m->used[i].until >= now)
            m->used[kept++] = m->used[i];
    m->used_count = kept;
}

/* False: it came before, or there are too many to remember another. */
static bool use(struct mcp *m, const char *tenant, int64_t until,
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
    (void)pthread_mutex_lock(&m->lock);
    forget_old(m, clock_real_ms() / 1000);
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
    (void)pthread_mutex_unlock(&m->lock);
    return fresh;
}

void mcp_state_close(struct mcp *m)
{
    free(m->used);
}

/* NULL: not one of ours, too old, or used. */
static char *verify(const struct mcp_exchange *x, const char *text)
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
    sign(x, until, copy, wanted);
    if (!hash_equal(mac + 1, wanted, HASH_HEX - 1))
        return NULL;
    if (strlen(copy) < NONCE ||
        (copy[0] != '1' && !use(x->mcp, x->actor->tenant, until, mac + 1)))
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
        x->state = verify(x, text);
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
