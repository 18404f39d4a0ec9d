/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the files of the web console: the page at /, its assets, and the
 * page of the sandboxed frames that show what sessions, files and models
 * produced. Runs on a worker of the daemon. It needs no key and answers
 * nothing but these files; the console does all else through /api.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/console/console.h"
#include "doors/doors.h"

/* ---- what a browser may do with each page ------------------------------- */

/* The console: its own scripts, no inline script, no eval, no other host; in
 * nobody's frame (U1, U2). */
#define PAGE_POLICY                                                           \
    "default-src 'none'; script-src 'self'; style-src 'self'; "               \
    "img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; "       \
    "media-src 'self' blob:; worker-src 'self'; manifest-src 'self'; "        \
    "frame-src 'self'; object-src 'none'; base-uri 'none'; "                  \
    "form-action 'self'; frame-ancestors 'none'"

/* Foreign content: an opaque origin, so without cookie and storage, and
 * without any request; scripts in it can only draw (U1). */
#define FRAME_POLICY                                                          \
    "sandbox allow-scripts; default-src 'none'; "                             \
    "script-src 'unsafe-inline' 'unsafe-eval' blob:; worker-src blob:; "      \
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "        \
    "media-src data: blob:; object-src 'none'; base-uri 'none'; "             \
    "form-action 'none'; frame-ancestors 'self'"

/* Opened by itself, a file is only looked at. */
#define ASSET_POLICY "default-src 'none'; sandbox; frame-ancestors 'none'"

static const struct {
    const char *path, *policy, *framing;
} pages[] = {
    {"/", PAGE_POLICY, "DENY"},
    {"/console/frame.html", FRAME_POLICY, "SAMEORIGIN"},
    {NULL, ASSET_POLICY, "DENY"},
};

static void add_policy(struct http_request *http, const char *path)
{
    size_t i = 0;

    while (pages[i].path && strcmp(pages[i].path, path) != 0)
        i++;
    http_add_header(http, "Content-Security-Policy", pages[i].policy);
    http_add_header(http, "X-Frame-Options", pages[i].framing);
    http_add_header(http, "Referrer-Policy", "no-referrer");
    http_add_header(http, "Cross-Origin-Opener-Policy", "same-origin");
    http_add_header(http, "Cross-Origin-Resource-Policy", "same-origin");
    http_add_header(http, "Permissions-Policy",
                    "camera=(), microphone=(), geolocation=(), payment=(), "
                    "usb=(), display-capture=()");
    http_add_header(http, "X-DNS-Prefetch-Control", "off");
}

/* ---- one file ----------------------------------------------------------- */

/* Is the coding listed, and not with a weight of 0? */
static bool accepts(const char *list, const char *coding)
{
    size_t n = strlen(coding);

    while (list && *list) {
        size_t len;
        const char *weight;

        list += strspn(list, ", \t");
        len = strcspn(list, ",");
        weight = memmem(list, len, "q=", 2);
        if (len >= n && strncasecmp(list, coding, n) == 0 &&
            (len == n || strchr("; \t", list[n])))
            return !weight || strtod(weight + 2, NULL) > 0;
        list += len;
    }
    return false;
}

static const struct console_bytes *choose_form(struct http_request *http,
                                               const struct console_asset *a)
{
    const char *list = http_header(http, "Accept-Encoding");

    if (a->gzip.data || a->brotli.data)
        http_add_header(http, "Vary", "Accept-Encoding");
    if (a->brotli.data && accepts(list, "br")) {
        http_add_header(http, "Content-Encoding", "br");
        return &a->brotli;
    }
    if (a->gzip.data && accepts(list, "gzip")) {
        http_add_header(http, "Content-Encoding", "gzip");
        return &a->gzip;
    }
    return &a->raw;
}

/* The tag is the content's in every coding, so it is a weak one. */
static bool is_known_to(struct http_request *http, const char *etag)
{
    const char *tags = http_header(http, "If-None-Match");
    const char *at = tags ? strstr(tags, etag) : NULL;

    return at && at > tags && at[-1] == '"' && at[strlen(etag)] == '"';
}

static void respond_asset(struct http_request *http,
                          const struct console_asset *a)
{
    const struct console_bytes *form;

    add_policy(http, a->path);
    http_add_header(http, "ETag",
                    arena_printf(http_arena(http), "W/\"%s\"", a->etag));
    http_add_header(http, "Cache-Control",
                    a->immutable ? "public, max-age=31536000, immutable"
                                 : "no-cache");
    if (is_known_to(http, a->etag)) {
        http_respond_empty(http, 304);
        return;
    }
    form = choose_form(http, a);
    http_respond_static(http, a->type, form->data, form->len);
}

/* ---- routes ------------------------------------------------------------- */

static const struct console_asset *find_asset(const char *path)
{
    for (size_t i = 0; i < console_assets_count; i++)
        if (strcmp(console_assets[i].path, path) == 0)
            return &console_assets[i];
    return NULL;
}

static void respond_missing(struct http_request *http)
{
    struct buf page = {0};

    add_policy(http, "/");
    buf_adds(&page,
             "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
             "<title>Glovebox</title><h1>Glovebox</h1>"
             "<p>This build of the service does not contain the web console. "
             "The API and the command line work: see /openapi.json.</p>\n");
    http_respond(http, 200, "text/html; charset=utf-8", &page);
}

static int get_asset(struct doors_call *call, struct error *err)
{
    const char *path = http_path(call->http);
    const struct console_asset *a = find_asset(path);

    if (a)
        respond_asset(call->http, a);
    else if (strcmp(path, "/") == 0)
        respond_missing(call->http);
    else
        return error_set(err, ERR_NOT_FOUND, "no such path");
    return 0;
}

static const struct doors_route rows[] = {
    {"GET", "/", get_asset, 0, DOORS_OPEN | DOORS_QUIET, NULL, NULL,
     "Get the page of the web console", NULL, NULL, "200 bytes"},
    {"GET", "/console/{path...}", get_asset, 0, DOORS_OPEN | DOORS_QUIET, NULL,
     NULL, "Get a file of the web console", NULL, NULL, "200 bytes"},
};

static const char *enter(const char *path,
                         struct doors_part ret[DOORS_PARAMS_MAX])
{
    (void)ret;
    return strcmp(path, "/") == 0 || strncmp(path, "/console/", 9) == 0 ? path
                                                                        : NULL;
}

const struct doors_door doors_console = {
    .name = "console",
    .enter = enter,
    .routes = rows,
    .count = ARRAY_SIZE(rows),
    .any_query =
        true, /* a page may be asked for with some, which it ignores */
};
