/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a session should be made or woken, and where what an id names is; see
 * node.h. Runs in gloveboxd on the caller's thread, on what the thread
 * "node-lease" has read last; no statement is sent.
 *
 * Of the nodes that qualify three are drawn and the best one is taken. Nodes
 * that all looked at the same figures would otherwise send everything to the
 * same one until the next figures come.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "node/node_int.h"

#define SAMPLES 3u
/* Parts of a thousand of a node's memory that an advantage is worth. */
#define WORTH_READY 10u  /* for each ready sandbox, at most five */
#define WORTH_CACHED 100 /* it had the session last: the files are there */
#define WORTH_HERE 50    /* this node: no hop */
#define COST_QUEUED 200  /* for one execution on each core */

static _Thread_local enum node_request serving;
static _Thread_local bool was_elsewhere;
static _Thread_local char elsewhere[ID_MAX];

void node_request_set(enum node_request request)
{
    serving = request;
    was_elsewhere = false;
    if (request == NODE_REQUEST_FIRST)
        node_hint_clear();
}

const char *node_was_elsewhere(void)
{
    return was_elsewhere ? elsewhere : NULL;
}

int node_elsewhere(const char *id, struct error *err)
{
    was_elsewhere = serving != NODE_REQUEST_NONE;
    (void)snprintf(elsewhere, sizeof(elsewhere), "%s", id);
    (void)error_set(err, was_elsewhere ? ERR_ELSEWHERE : ERR_UNAVAILABLE,
                    "the session is on another node");
    (void)snprintf(err->node, sizeof(err->node), "%s", id);
    (void)error_hint(err, "try again in a moment");
    return error_retry(err, 1);
}

/* One word of a list with commas. */
static bool has_word(const char *list, const char *word, size_t len)
{
    while (*list) {
        size_t n = strcspn(list, ",");

        if (n == len && strncmp(list, word, len) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

bool node_has_labels(const char *labels, const char *wanted)
{
    while (wanted && *wanted) {
        size_t n = strcspn(wanted, ",");

        if (n && !has_word(labels, wanted, n))
            return false;
        wanted += n + (wanted[n] == ',');
    }
    return true;
}

static int64_t worth(const struct node_info *p, const char *last)
{
    const struct node_load *l = &p->load;
    int64_t w = l->memory_bytes
                    ? (int64_t)(l->free_bytes / (l->memory_bytes / 1000 + 1))
                    : 0;

    w += (int64_t)(MIN(l->ready, 5u) * WORTH_READY);
    w -= (int64_t)l->queued * COST_QUEUED / (int64_t)MAX(l->cores, 1u);
    if (last && strcmp(p->id, last) == 0)
        w += WORTH_CACHED;
    if (p->self)
        w += WORTH_HERE;
    return w;
}

/* Draws with every step one of those that were not drawn yet. */
static size_t sample(size_t *all, size_t count)
{
    size_t taken = 0;

    while (taken < SAMPLES && taken < count) {
        uint32_t random;
        size_t at, other;

        ids_random(&random, sizeof(random));
        at = taken + random % (count - taken);
        other = all[taken];
        all[taken++] = all[at];
        all[at] = other;
    }
    return taken;
}

/* The best node; false: none qualifies. */
static bool choose(struct nodes *n, const char *labels, const char *last,
                   char ret[ID_MAX])
{
    size_t all[NODES_MAX], count = 0, drawn;
    uint64_t now = clock_mono_ms();
    int64_t best = INT64_MIN;

    ret[0] = '\0';
    mutex_lock(&n->lock);
    for (size_t i = 0; i < n->peer_count && count < NODES_MAX; i++) {
        const struct node_peer *p = &n->peers[i];

        if (p->info.state == NODE_ACTIVE && p->lease_until_mono_ms > now &&
            now >= p->avoid_until_ms &&
            !(p->info.self && nodes_state(n) != NODE_ACTIVE) &&
            node_has_labels(p->info.labels, labels))
            all[count++] = i;
    }
    drawn = sample(all, count);
    for (size_t i = 0; i < drawn; i++) {
        const struct node_info *p = &n->peers[all[i]].info;
        int64_t w = worth(p, last);

        if (w > best) {
            best = w;
            (void)snprintf(ret, ID_MAX, "%s", p->id);
        }
    }
    mutex_unlock(&n->lock);
    return ret[0] != '\0';
}

int node_place_near(struct nodes *n, const char *labels, const char *last,
                    struct error *err)
{
    char best[ID_MAX];

    if (!n || serving == NODE_REQUEST_NONE)
        return 0;
    /* The other node chose this one before it knew that this one drains. */
    if (serving == NODE_REQUEST_FORWARDED)
        return nodes_state(n) == NODE_ACTIVE ? 0 : node_elsewhere("", err);
    if (!choose(n, labels, last, best)) {
        /* All drain: a draining node is better than none. */
        if (node_has_labels(n->labels, labels))
            return 0;
        (void)error_set(err, ERR_UNAVAILABLE,
                        "no active node has the labels of the pool: %.100s",
                        labels);
        return error_retry(err, 5);
    }
    if (strcmp(best, n->id) == 0)
        return 0;
    return node_elsewhere(best, err);
}

int node_forward_to(const char *id, struct error *err)
{
    return serving == NODE_REQUEST_FIRST ? node_elsewhere(id, err) : 0;
}

int node_place(struct nodes *n, const char *labels, struct error *err)
{
    node_hint_clear();
    return node_place_near(n, labels, NULL, err);
}

int node_locate(struct nodes *n, const char *prefix, const char *id,
                struct error *err)
{
    char tag[IDS_TAG + 1], node[ID_MAX] = "";
    uint64_t now = clock_mono_ms();
    bool alive = false;

    if (!n || serving != NODE_REQUEST_FIRST || !ids_tag(prefix, id, tag) ||
        strcmp(tag, n->tag) == 0)
        return 0;
    mutex_lock(&n->lock);
    for (size_t i = 0; i < n->peer_count; i++) {
        const struct node_peer *p = &n->peers[i];

        if (strcmp(p->info.tag, tag) != 0)
            continue;
        (void)snprintf(node, sizeof(node), "%s", p->info.id);
        alive = p->info.state != NODE_GONE && p->lease_until_mono_ms > now;
    }
    mutex_unlock(&n->lock);
    node_hint_clear();
    return node[0] && alive ? node_elsewhere(node, err) : 0;
}
