/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing a bucket, a page of up to 1000 keys at a time (ListObjectsV2). Runs
 * in gloveboxd on the caller's thread; the function is called between pages,
 * while no request is under way.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/mem.h"
#include "s3/s3_int.h"

struct item {
    char *key; /* owned */
    struct s3_object object;
};

struct page {
    struct item *items;
    size_t count, room;
    char *key; /* of the element that is being read; owned */
    struct s3_object object;
    bool truncated, encoded;
    char *next; /* token; owned, or NULL */
};

static void page_done(struct page *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->items[i].key);
    free(p->items);
    free(p->key);
    free(p->next);
    *p = (struct page){0};
}

/* Takes back encoding-type=url, in place. */
static void decode(char *text)
{
    char *to = text;

    for (; *text; text++) {
        if (*text == '%' && hex_digit(text[1]) >= 0 &&
            hex_digit(text[2]) >= 0) {
            *to++ = (char)(hex_digit(text[1]) << 4 | hex_digit(text[2]));
            text += 2;
        } else {
            *to++ = *text == '+' ? ' ' : *text;
        }
    }
    *to = '\0';
}

static void add_item(struct page *p)
{
    if (!p->key)
        return;
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 128;
        p->items = xrealloc(p->items, p->room * sizeof(*p->items));
    }
    p->items[p->count++] = (struct item){.key = p->key, .object = p->object};
    p->key = NULL;
    p->object = (struct s3_object){0};
}

static void replace(char **p, const char *text)
{
    free(*p);
    *p = xstrdup(text);
}

static int on_element(void *ctx, const char *path, const char *text)
{
    static const char contents[] = "ListBucketResult/Contents";
    struct page *p = ctx;

    if (strncmp(path, contents, sizeof(contents) - 1) == 0) {
        path += sizeof(contents) - 1;
        if (strcmp(path, "/Key") == 0)
            replace(&p->key, text);
        else if (strcmp(path, "/Size") == 0)
            p->object.size = strtoull(text, NULL, 10);
        else if (strcmp(path, "/LastModified") == 0)
            (void)s3_xml_time(text, &p->object.modified_ms); /* else 0 */
        else if (strcmp(path, "/ETag") == 0 && strlen(text) < S3_ETAG)
            memcpy(p->object.etag, text, strlen(text) + 1);
        else if (!*path)
            add_item(p);
    } else if (strcmp(path, "ListBucketResult/IsTruncated") == 0) {
        p->truncated = strcmp(text, "true") == 0;
    } else if (strcmp(path, "ListBucketResult/EncodingType") == 0) {
        p->encoded = strcmp(text, "url") == 0;
    } else if (strcmp(path, "ListBucketResult/NextContinuationToken") == 0) {
        replace(&p->next, text);
    }
    return 0;
}

static int get_page(struct s3 *s, const char *prefix, const char *token,
                    struct page *ret, struct error *err)
{
    struct s3_call call cleanup(s3_call_done) = {
        .method = "GET",
        .query = {{"list-type", "2"},
                  {"encoding-type", "url"},
                  {"prefix", prefix}},
        .query_count = 3};
    int r;

    if (token)
        call.query[call.query_count++] =
            (struct s3_param){"continuation-token", token};
    r = s3_call_run(s, &call, err);
    if (r > 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the bucket of %s does not exist", s->name);
    if (r == 0)
        r = s3_xml_parse(call.answer.data ? call.answer.data : "",
                         call.answer.len, on_element, ret, err);
    for (size_t i = 0; r == 0 && ret->encoded && i < ret->count; i++)
        decode(ret->items[i].key);
    return r;
}

int s3_list(struct s3 *s, const char *prefix, s3_list_fn fn, void *ctx,
            struct error *err)
{
    char *whole cleanup(mem_free) = xasprintf("%s%s", s->prefix, prefix);
    char *token cleanup(mem_free) = NULL, *last cleanup(mem_free) = NULL;
    bool more = true;
    int r = 0;

    while (more && r == 0) {
        struct page page cleanup(page_done) = {0};

        r = get_page(s, whole, token, &page, err);
        for (size_t i = 0; i < page.count && r == 0; i++) {
            const struct item *it = &page.items[i];

            /* A server that repeats itself would be listed for ever. */
            if (strncmp(it->key, whole, strlen(whole)) != 0 ||
                (last && strcmp(it->key, last) <= 0))
                r = error_set(err, ERR_CORRUPT,
                              "the object store %s lists its objects out of "
                              "order",
                              s->name);
            else
                r = fn(ctx, it->key + strlen(s->prefix), &it->object);
        }
        if (r == 0 && page.truncated && (!page.next || !page.count))
            r = error_set(err, ERR_CORRUPT,
                          "the object store %s does not say how its list "
                          "continues",
                          s->name);
        more = page.truncated;
        free(token);
        token = take_ptr(page.next);
        if (page.count) {
            free(last);
            last = take_ptr(page.items[page.count - 1].key);
        }
    }
    return r;
}
