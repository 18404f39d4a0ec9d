/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the stored blobs: on the local disk, or in the buckets that the
 * configuration names. Runs in gloveboxd at the start, as the service's user.
 * No request is made here: a store that cannot be reached makes the service
 * unready (/readyz) and does not keep it from starting.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "blob/blob.h"
#include "conf/conf.h"
#include "fetch/fetch.h"
#include "mirror/mirror.h"
#include "s3/s3.h"
#include "service/service_int.h"

#define STALL_MS 15000u
#define TENANTS_MAX 64u /* of one bucket */

/* A client of a configured bucket; no network. */
static int open_bucket(const struct conf_bucket *b, struct s3 **ret,
                       struct error *err)
{
    return s3_open(
        &(struct s3_settings){.name = b->name,
                              .endpoint = b->endpoint,
                              .region = b->region,
                              .bucket = b->bucket[0] ? b->bucket : b->name,
                              .prefix = b->prefix,
                              .host_style = strcmp(b->style, "host") == 0,
                              .ca_file = b->ca_file,
                              .key_file = b->key_file,
                              .connections = b->connections,
                              .deadline_ms = b->deadline_s * 1000,
                              .stall_ms = MIN(b->deadline_s * 1000, STALL_MS),
                              .part_bytes = b->part_bytes},
        ret, err);
}

/* The tenants of a bucket, cut in place. */
static int cut_tenants(const struct conf_bucket *b, char *list,
                       const char **ret, size_t *ret_count, struct error *err)
{
    char *rest = list, *one;

    while ((one = strsep(&rest, ","))) {
        if (!*one)
            continue;
        if (*ret_count == TENANTS_MAX)
            return error_set(err, ERR_INVALID,
                             "bucket %s has more than %u tenants", b->name,
                             TENANTS_MAX);
        ret[(*ret_count)++] = one;
    }
    return 0;
}

int service_blobs_open(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct blobs_bucket buckets[CONF_BUCKETS_MAX] = {0};
    const char *tenants[CONF_BUCKETS_MAX][TENANTS_MAX];
    char *lists[CONF_BUCKETS_MAX] = {0};
    struct blobs_s3 s3 = {.buckets = buckets,
                          .cache_bytes = c->blob_cache_bytes};
    struct blobs_settings settings = {.data_dir = c->data_dir,
                                      .disk = s->disk};
    int r = c->bucket_count ? fetch_start(err) : 0;

    s->fetches = r == 0 && c->bucket_count;
    /* blob_bucket first, then those of single tenants. */
    for (size_t i = 0; i <= c->bucket_count && c->blob_bucket[0] && r == 0;
         i++) {
        const struct conf_bucket *b =
            i ? &c->buckets[i - 1] : conf_bucket_find(c, c->blob_bucket);

        if (i && (!b->tenants[0] || !conf_list_has(b->use, "blobs")))
            continue;
        lists[s3.count] = xstrdup(b->tenants);
        buckets[s3.count].tenants = tenants[s3.count];
        r = cut_tenants(b, lists[s3.count], tenants[s3.count],
                        &buckets[s3.count].tenant_count, err);
        if (r == 0)
            r = open_bucket(b, &buckets[s3.count].s3, err);
        s3.count += r == 0;
    }
    if (r == 0) {
        settings.s3 = s3.count ? &s3 : NULL;
        r = blobs_open(&settings, &s->core.blobs, err);
    } else {
        while (s3.count > 0)
            s3_close(buckets[--s3.count].s3);
    }
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        free(lists[i]);
    return r;
}

int service_blobs_mirrors(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct mirror_bucket buckets[CONF_BUCKETS_MAX] = {0};
    struct mirrors_parts parts = {.conf = c,
                                  .core = &s->core,
                                  .workspaces = s->workspaces,
                                  .buckets = buckets};
    int r = 0;

    for (size_t i = 0; i < c->bucket_count && r == 0; i++) {
        const struct conf_bucket *b = &c->buckets[i];

        if (!conf_list_has(b->use, "mirror") &&
            !conf_list_has(b->use, "attach"))
            continue;
        buckets[parts.bucket_count].conf = b;
        r = open_bucket(b, &buckets[parts.bucket_count].s3, err);
        parts.bucket_count += r == 0;
    }
    if (r == 0)
        return mirrors_open(&parts, &s->mirrors, err);
    while (parts.bucket_count > 0)
        s3_close(buckets[--parts.bucket_count].s3);
    return r;
}
