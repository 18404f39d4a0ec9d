/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pin counts: blobs in use that no row references yet, because they were just
 * written or are being linked. Runs in the daemon. A removal first marks its
 * blob, under the lock that pinning takes; a thread that pins the blob
 * meanwhile waits until it is removed and then writes it again. So a writer
 * that has seen a blob can rely on it until blob_release.
 */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"

/* The place in its bucket that points to it, or to the NULL at the end. */
static struct blob_pin **pin_find(struct blobs *b, const unsigned char *hash)
{
    unsigned bucket = ((unsigned)hash[0] << 8 | hash[1]) % BLOB_PINS;
    struct blob_pin **at = &b->pins[bucket];

    while (*at && memcmp((*at)->hash, hash, HASH_SIZE) != 0)
        at = &(*at)->next;
    return at;
}

static struct blob_pin *pin_insert(struct blob_pin **at,
                                   const unsigned char *hash)
{
    struct blob_pin *pin = xcalloc(1, sizeof(*pin));

    memcpy(pin->hash, hash, HASH_SIZE);
    *at = pin;
    return pin;
}

static void pin_free(struct blob_pin **at)
{
    struct blob_pin *gone = *at;

    *at = gone->next;
    free(gone);
}

void blob_pin_add(struct blobs *b, const unsigned char hash[HASH_SIZE])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_pin **at = pin_find(b, hash);

    while (*at && (*at)->removing) {
        cond_wait(&b->removed, held);
        at = pin_find(b, hash);
    }
    (*at ? *at : pin_insert(at, hash))->count++;
}

void blob_pin_remove(struct blobs *b, const unsigned char hash[HASH_SIZE])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_pin **at = pin_find(b, hash);

    assert(*at && (*at)->count > 0 && !(*at)->removing);
    if (*at && --(*at)->count == 0) {
        b->lost -= (*at)->lost;
        pin_free(at);
    }
}

void blob_pin_mark_lost(struct blobs *b, const unsigned char hash[HASH_SIZE])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_pin *pin = *pin_find(b, hash);

    if (!pin || pin->removing || pin->lost) /* no row will reference it */
        return;
    pin->lost = true;
    b->lost++;
}

bool blob_pin_any_lost(struct blobs *b)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);

    return b->lost > 0;
}

bool blob_pin_removal_begin(struct blobs *b,
                            const unsigned char hash[HASH_SIZE])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_pin **at = pin_find(b, hash);

    if (*at)
        return false;
    pin_insert(at, hash)->removing = true;
    return true;
}

void blob_pin_removal_end(struct blobs *b, const unsigned char hash[HASH_SIZE])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_pin **at = pin_find(b, hash);

    assert(*at && (*at)->removing);
    pin_free(at);
    cond_broadcast(&b->removed);
}

int blob_pin(struct blobs *b, const char *sha256, struct error *err)
{
    struct blob_name name;
    int rc = blob_name_parse(sha256, &name, err);

    if (rc == 0)
        blob_pin_add(b, name.hash);
    return rc;
}

void blob_release(struct blobs *b, const char *sha256)
{
    struct blob_name name;
    struct error err;

    if (blob_name_parse(sha256, &name, &err) < 0) {
        assert(!"a pin has a name");
        return;
    }
    blob_pin_remove(b, name.hash);
}
