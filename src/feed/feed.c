/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the subscriber; see feed.h. Runs in gloveboxd on the threads of those
 * who publish. Its lock is held while the subscriber runs and is a leaf for
 * everything but the subscriber's own.
 */
#include "feed/feed.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"

struct feed {
    struct mutex lock;
    feed_fn *fn;
    void *ctx;
};

struct feed *feed_new(void)
{
    struct feed *f = xcalloc(1, sizeof(*f));

    mutex_init(&f->lock); /* cannot fail on Linux */
    return f;
}

void feed_free(struct feed *f)
{
    if (!f)
        return;
    mutex_done(&f->lock);
    free(f);
}

void feed_subscribe(struct feed *f, feed_fn *fn, void *ctx)
{
    mutex_lock(&f->lock);
    f->fn = fn;
    f->ctx = ctx;
    mutex_unlock(&f->lock);
}

void feed_publish(struct feed *f, const struct feed_item *item)
{
    if (!f)
        return;
    mutex_lock(&f->lock);
    if (f->fn)
        f->fn(f->ctx, item);
    mutex_unlock(&f->lock);
}
