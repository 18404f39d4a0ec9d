/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live events of sessions and executions. The modules that change them
 * publish;
 * the one subscriber, the door that serves GET /api/events, is called for each
 * event. Nothing is stored here: that door reads acts that are in the audit
 * trail from the trail.
 */
#ifndef GLOVEBOX_FEED_FEED_H
#define GLOVEBOX_FEED_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ids.h"

enum feed_kind {
    FEED_SESSION,
    FEED_EXECUTION,
};

/* Strings are borrowed for the call; NULL for what does not apply. */
struct feed_item {
    enum feed_kind kind;
    /* Visible to the principals that see its session. */
    const char *tenant, *session, *workspace, *pool, *owner;
    bool shared; /* with the tenant */
    /* What has happened. */
    const char *state;     /* of the session, or of the execution */
    const char *execution; /* exec_… */
    const char *outcome, *language, *author, *author_name;
    int64_t created_at_ms, started_at_ms, finished_at_ms;
};

/* Must be quick, and must not publish. The publisher may hold locks. */
typedef void feed_fn(void *ctx, const struct feed_item *item);

struct feed;
struct feed *feed_new(void);
void feed_free(struct feed *f); /* accepts NULL */
/* fn NULL: none. When this returns, the one before is not running. */
void feed_subscribe(struct feed *f, feed_fn *fn, void *ctx);
/* Any thread. f may be NULL. */
void feed_publish(struct feed *f, const struct feed_item *item);

#endif
