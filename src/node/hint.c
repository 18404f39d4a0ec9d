/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers to which node a session's requests were forwarded, so that the
 * next request of the same principal needs no statement to find the session;
 * see node.h. Runs in gloveboxd on the caller's thread.
 *
 * A hint decides nothing. The other node authenticates the client, checks its
 * rights and looks at its own lease; if it does not have the session, it
 * refuses, the hint is dropped, and the store decides. A hint is kept for one
 * principal, after a request of that principal succeeded: so a principal
 * cannot learn by time whether a session exists that it may not see.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "node/node_int.h"

#define HINTS 2048u /* a power of two */

struct node_hint {
    char session[ID_MAX], who[ID_MAX], node[ID_MAX];
    int64_t epoch; /* of the node; another one: it has started again */
};

/* The session that this thread looked for last, and for whom. */
static _Thread_local char asked_session[ID_MAX], asked_who[ID_MAX];

static struct node_hint *slot_of(struct nodes *n, const char *session)
{
    if (!n->hints)
        n->hints = xcalloc(HINTS, sizeof(*n->hints));
    return &n->hints[siphash_text(session) & (HINTS - 1)];
}

static bool matches(const struct node_hint *h)
{
    return h->node[0] && strcmp(h->session, asked_session) == 0 &&
           strcmp(h->who, asked_who) == 0;
}

void node_hint_clear(void)
{
    asked_session[0] = '\0';
}

int node_hint_find(struct nodes *n, const char *who, const char *session,
                   struct error *err)
{
    struct node_peer peer;
    struct node_hint hint;
    bool found;

    if (!n || !who || !who[0] || strlen(session) >= ID_MAX ||
        strlen(who) >= ID_MAX)
        return 0;
    (void)snprintf(asked_session, ID_MAX, "%s", session);
    (void)snprintf(asked_who, ID_MAX, "%s", who);
    mutex_lock(&n->hint_lock);
    hint = *slot_of(n, session);
    mutex_unlock(&n->hint_lock);
    found = matches(&hint) && node_peer_get(n, hint.node, &peer) &&
            peer.info.state == NODE_ACTIVE && peer.info.epoch == hint.epoch &&
            peer.lease_until_mono_ms > clock_mono_ms();
    return found ? node_forward_to(hint.node, err) : 0;
}

void node_hint_keep(struct nodes *n, const char *node)
{
    struct node_peer peer;
    struct node_hint *h;

    if (!asked_session[0] || !node_peer_get(n, node, &peer))
        return;
    mutex_lock(&n->hint_lock);
    h = slot_of(n, asked_session);
    *h = (struct node_hint){.epoch = peer.info.epoch};
    (void)snprintf(h->session, ID_MAX, "%s", asked_session);
    (void)snprintf(h->who, ID_MAX, "%s", asked_who);
    (void)snprintf(h->node, ID_MAX, "%s", node);
    mutex_unlock(&n->hint_lock);
}

void node_hint_drop(struct nodes *n)
{
    struct node_hint *h;

    if (!asked_session[0])
        return;
    mutex_lock(&n->hint_lock);
    h = slot_of(n, asked_session);
    if (matches(h))
        h->node[0] = '\0';
    mutex_unlock(&n->hint_lock);
}

void node_hints_free(struct nodes *n)
{
    free(take_ptr(n->hints));
}
