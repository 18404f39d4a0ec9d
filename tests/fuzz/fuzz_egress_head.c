/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what the proxy reads of sessions and of the world: heads, framing,
 * addresses, paths, TLS hellos and pages of a package index. What is taken
 * must lie inside of the input and must be the same when it comes in pieces.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "egress/http.h"
#include "egress/packages_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct span s, const char *text, size_t len)
{
    assert(s.at >= text && s.at + s.len <= text + len);
}

static void try_target(const struct http_head *h)
{
    char path[EGRESS_PATH_MAX], again[EGRESS_PATH_MAX];
    struct http_target t;

    (void)egress_url_authority(h->target, 0, &t);
    if (egress_url_absolute(h->target, &t) || t.path.len == 0)
        return;
    assert(t.port != 0 && t.host[0]);
    if (!egress_path_canonical(t.path, path)) {
        assert(path[0] == '/' && !strstr(path, "/../") && !strstr(path, "//"));
        assert(
            !egress_path_canonical((struct span){path, strlen(path)}, again));
        assert(strcmp(path, again) == 0);
    }
}

static void try_head(const char *text, size_t len)
{
    struct http_head h;
    ssize_t n = egress_head_end(text, len);

    if (n <= 0)
        return;
    assert((size_t)n <= len && (size_t)n <= HTTP_HEAD_MAX);
    assert(egress_head_end(text, (size_t)n - 1) == 0);
    if (!egress_head_request(text, (size_t)n, &h)) {
        inside(h.method, text, len);
        inside(h.target, text, len);
        for (size_t i = 0; i < h.field_count; i++) {
            inside(h.fields[i].name, text, len);
            inside(h.fields[i].value, text, len);
            assert(!memchr(h.fields[i].value.at, '\n', h.fields[i].value.len));
            (void)egress_head_hop(&h, h.fields[i].name);
        }
        try_target(&h);
    }
    (void)egress_head_answer(text, (size_t)n, false, &h);
}

/* In one piece and byte by byte the same is taken. */
static void try_body(const char *text, size_t len)
{
    struct http_body whole, pieces;
    size_t taken = 0;
    ssize_t n, one = 0;

    egress_body_init(&whole, HTTP_BODY_CHUNKED, 0);
    egress_body_init(&pieces, HTTP_BODY_CHUNKED, 0);
    n = egress_body_take(&whole, text, len);
    while (taken < len && !pieces.done && one >= 0) {
        one = egress_body_take(&pieces, text + taken, 1);
        taken += one > 0;
    }
    if (n < 0)
        assert(one < 0);
    else
        assert((size_t)n == taken && whole.done == pieces.done);
}

typedef size_t page_fn(const char *text, size_t len, const char *base,
                       const char *project, struct package_file **ret);

static void try_page(page_fn *read, const char *text, size_t len)
{
    struct package_file *files = NULL;
    size_t count = read(text, len, "https://i.example/s/a/", "a", &files);

    assert(count <= PACKAGE_FILES_MAX);
    for (size_t i = 0; i < count; i++)
        assert(files[i].url && strlen(files[i].sha256) == HASH_HEX - 1 &&
               !strpbrk(files[i].name, "/\"<>"));
    egress_packages_files_free(files, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    char name[EGRESS_HOST_MAX];

    try_head(text, size);
    try_body(text, size);
    try_page(egress_packages_page, text, size);
    try_page(egress_packages_json, text, size);
    (void)egress_hello_read(data, size, name);
    return 0;
}
