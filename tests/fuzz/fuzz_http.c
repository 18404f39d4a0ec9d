/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the texts of a request that we take apart ourselves: the path and
 * its route, percent escapes, numbers of a query, Range and If-None-Match,
 * base64, UTF-8 and the rules for names of files. Every text of the input (one
 * a line) is tried as each of them; a path that the rules accept must stay
 * below the session's folder and must arrive as our own client sent it.
 */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/common.h"
#include "doors/doors.h"
#include "http/http_int.h"
#include "session/session_int.h"
#include "json/json.h"

#define LINES_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- paths -------------------------------------------------------------- */

static void check_accepted(const char *path, struct arena *arena)
{
    struct buf sent = {0};
    struct error err;
    char *back;

    assert(path[0] && path[0] != '/' && strlen(path) <= INIT_PATH_MAX);
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        assert(*part && *part != '/');
        assert(strcmp(part, ".") != 0 && strncmp(part, "./", 2) != 0);
        assert(strcmp(part, "..") != 0 && strncmp(part, "../", 3) != 0);
    }
    for (const char *p = path; *p; p++)
        assert(!iscntrl((unsigned char)*p));
    cli_http_escape(&sent, path, true);
    assert(http_decode(arena, sent.data, sent.len, &back, &err) == 0);
    assert(strcmp(back, path) == 0);
    buf_done(&sent);
}

static void try_text(const char *text, struct arena *arena)
{
    size_t len = strlen(text);
    json_t *other = json_stringn(text, len); /* jansson's own opinion */
    struct error err = {0};

    assert(utf8_valid(text, len) == (other != NULL));
    assert(utf8_partial(text, len) <= MIN(len, 3u));
    json_decref(other);
    if (session_path_check(text, len, &err) == 0)
        check_accepted(text, arena);
    else
        assert(err.code == ERR_INVALID && err.message[0] && err.hint[0]);
}

static void try_decode(const char *text, size_t len, struct arena *arena)
{
    struct error err = {0};
    char *out;

    if (http_decode(arena, text, len, &out, &err) < 0) {
        assert(err.code == ERR_INVALID && memchr(text, '%', len));
        return;
    }
    assert(strlen(out) <= len);
    try_text(out, arena);
}

static void try_route(const char *path, struct arena *arena)
{
    static const char *const methods[] = {"GET",    "PUT",  "POST",
                                          "DELETE", "HEAD", "BREW"};

    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        struct doors_part parts[DOORS_PARAMS_MAX] = {{0}};
        char allow[64];
        const struct doors_route *row =
            doors_routes_find(&doors_native, methods[i], path, parts, allow);

        assert(memchr(allow, '\0', sizeof(allow)));
        for (size_t k = 0; row && k < DOORS_PARAMS_MAX; k++) {
            if (!parts[k].text)
                continue;
            assert(parts[k].len > 0 && parts[k].text > path);
            assert(parts[k].text + parts[k].len <= path + strlen(path));
            try_decode(parts[k].text, parts[k].len, arena);
        }
    }
}

/* ---- queries and headers ------------------------------------------------ */

static void try_number(const char *text, struct arena *arena)
{
    struct http_request req = {
        .arena = arena, .query = {{"limit", text}}, .query_count = 1};
    struct doors_call call = {.http = &req};
    struct error err = {0};
    int64_t value = -1;

    if (doors_query_int(&call, "limit", 1, 1000, 10, &value, &err) == 0)
        assert(value >= 1 && value <= 1000);
    else
        assert(err.code == ERR_INVALID);
}

static void check_range(const struct http_request *req, const char *value,
                        uint64_t size)
{
    uint64_t first, last, whole;

    if (req->status != 206)
        return;
    assert(sscanf(value, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &first,
                  &last, &whole) == 3);
    assert(first <= last && last < whole && whole == size);
}

static void check_headers(const struct http_request *req, uint64_t size)
{
    for (size_t i = 0; i < req->extra_count; i++) {
        const char *value = req->extra[i].value;

        for (const char *p = value; *p; p++)
            assert(isprint((unsigned char)*p));
        if (strcmp(req->extra[i].name, "Content-Range") == 0)
            check_range(req, value, size);
    }
}

/* text: once a Range, once an If-None-Match, once the file's name. */
static void try_file(const char *text, uint64_t size, struct arena *arena)
{
    static const char *const names[] = {"Range", "If-None-Match", "If-Range"};
    static int file = -1;

    if (file < 0)
        file = memfd_create("file", MFD_CLOEXEC);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct http_server server = {.port = 0};
        struct http_request req = {
            .server = &server,
            .arena = arena,
            .lock = MUTEX_INIT,
            .headers = {{names[i], text}, {"Range", "bytes=1-2"}},
            .header_count = i ? 2 : 1,
        };
        struct stat st = {.st_ino = 7, .st_size = (off_t)size};
        struct error err = {0};
        int fd = fd_dup(file, 3);

        if (http_respond_file(&req, fd, &st, text, &err) < 0) {
            assert(err.code == ERR_RANGE && !req.answered);
            fd_close(&fd);
        } else {
            assert(req.status == 200 || req.status == 206 ||
                   req.status == 304);
            MHD_destroy_response(req.response);
        }
        check_headers(&req, size);
    }
}

/* ---- base64 ------------------------------------------------------------- */

static void try_base64(const char *text)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    unsigned char *again cleanup(mem_free) = NULL;
    struct buf out = {0};
    struct json_writer w = {.out = &out};
    struct error err = {0};
    size_t len, len_again;

    if (json_base64_decode(text, strlen(text), &bytes, &len, &err) < 0) {
        assert(err.code == ERR_INVALID);
        return;
    }
    assert(len <= strlen(text) / 4 * 3);
    json_write_base64(&w, NULL, bytes, len);
    assert(out.len == strlen(text) + 2); /* the quotes */
    assert(json_base64_decode(out.data + 1, out.len - 2, &again, &len_again,
                              &err) == 0);
    assert(len == len_again && memcmp(bytes, again, len) == 0);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *input cleanup(mem_free) = xcalloc(1, size + 1);
    char *rest = NULL;
    uint64_t bytes = size;
    int count = 0;

    memcpy(input, data, size);
    if (size > 2) /* small files and one beyond 4 GiB */
        bytes = data[0] % 3 ? data[1] : (uint64_t)data[1] << 28;
    for (char *line = strtok_r(input, "\n", &rest); line && count < LINES_MAX;
         line = strtok_r(NULL, "\n", &rest), count++) {
        /* A copy of its own size, so that a sanitizer guards its end. */
        char *text cleanup(mem_free) = xstrdup(line);
        struct arena *arena = arena_new();

        try_decode(text, strlen(text), arena);
        try_text(text, arena);
        try_route(text, arena);
        try_number(text, arena);
        try_file(text, bytes, arena);
        try_base64(text);
        arena_free(arena);
    }
    return 0;
}
