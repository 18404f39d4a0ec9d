/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cookie of the web console: when it authenticates a request, and how it
 * is set. Runs in the daemon, called by the spine and by the console's own
 * routes. A browser sends the cookie with requests of any site's pages. So the
 * cookie counts only if the request comes from our own origin and has a header
 * that neither a form nor a foreign page can add without a CORS preflight,
 * which no answer of this service ever permits (U2).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/doors.h"

#define VALUE_MAX 128u

/* The ticket of a sign-in is sent along when the issuer sends the browser
 * back, which is a navigation from another site. */
static const struct {
    const char *plain, *secure, *site;
} cookies[] = {
    [DOORS_COOKIE_TOKEN] = {"glovebox", "__Host-glovebox", "Strict"},
    [DOORS_COOKIE_TICKET] = {"glovebox-signin", "__Host-glovebox-signin",
                             "Lax"},
};

/* ---- the page's origin -------------------------------------------------- */

/* "host[:port]" of a URL or an origin, or NULL. */
static const char *authority_of(const char *url, size_t *ret_len)
{
    const char *at = url ? strstr(url, "://") : NULL;

    if (!at)
        return NULL;
    *ret_len = strcspn(at + 3, "/");
    return at + 3;
}

static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && strncasecmp(a, b, a_len) == 0;
}

/* A name that always means this machine, with or without a port: browsers
 * treat such a page as safe although it came by plain HTTP. */
static bool is_loopback(const char *host, size_t len)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t n = strlen(names[i]);

        if (len >= n && strncasecmp(host, names[i], n) == 0 &&
            (len == n || host[n] == ':'))
            return true;
    }
    return false;
}

/* Is the Host of this request the one of public_url? */
static bool is_public_host(const struct doors_call *call)
{
    const char *host = http_header(call->http, "Host");
    size_t len = 0;
    const char *own = authority_of(call->doors->conf->public_url, &len);

    return own && host && same_text(own, len, host, strlen(host));
}

/* The page came by HTTPS: from us, or from the proxy in front. */
static bool is_secure(const struct doors_call *call)
{
    return doors_url_secure(call) ||
           (is_public_host(call) &&
            strncasecmp(call->doors->conf->public_url, "https:", 6) == 0);
}

/* By plain HTTP only under a name that cannot be taken over by the resolver of
 * another site: one of this machine, or the configured one. */
static bool is_known_host(const struct doors_call *call)
{
    const char *host = http_header(call->http, "Host");

    return host && (is_secure(call) || is_public_host(call) ||
                    is_loopback(host, strlen(host)));
}

/* "scheme://host[:port]" of the service as this client reached it, or of
 * public_url: two that the console may be loaded from. */
static bool is_own_origin(const struct doors_call *call, const char *origin)
{
    const char *set = call->doors->conf->public_url;
    const char *host = http_header(call->http, "Host"), *scheme;
    size_t len = 0;
    const char *own = authority_of(set, &len);

    if (own &&
        same_text(set, (size_t)(own - set) + len, origin, strlen(origin)))
        return true;
    scheme = doors_url_secure(call) ? "https" : "http";
    host = host ? arena_printf(http_arena(call->http), "%s://%s", scheme, host)
                : "";
    return same_text(host, strlen(host), origin, strlen(origin));
}

bool doors_cookie_same_origin(const struct doors_call *call)
{
    const char *mark = http_header(call->http, "X-Glovebox-Console");
    const char *origin = http_header(call->http, "Origin");
    const char *site = http_header(call->http, "Sec-Fetch-Site");

    if (!mark || strcmp(mark, "1") != 0 || !is_known_host(call))
        return false;
    if (site && strcmp(site, "same-origin") != 0)
        return false;
    /* Browsers send no Origin with a GET of the page's own origin. */
    return origin ? is_own_origin(call, origin) : site != NULL;
}

static int refuse_page(const char *why, struct error *err)
{
    (void)error_set(err, ERR_FORBIDDEN, "%s", why);
    return error_hint(err, "Open the console by HTTPS, at localhost, or at "
                           "the address that public_url says.");
}

int doors_cookie_need_origin(const struct doors_call *call, struct error *err)
{
    return doors_cookie_same_origin(call)
               ? 0
               : refuse_page("this request does not come from the console's "
                             "own page",
                             err);
}

int doors_cookie_need_host(const struct doors_call *call, struct error *err)
{
    return is_known_host(call)
               ? 0
               : refuse_page("the console does not answer to this host", err);
}

/* ---- the cookie --------------------------------------------------------- */

/* A cookie that was planted for plain HTTP does not count by HTTPS. */
static const char *cookie_name(const struct doors_call *call,
                               enum doors_cookie which)
{
    return is_secure(call) ? cookies[which].secure : cookies[which].plain;
}

const char *doors_cookie_value(const struct doors_call *call,
                               enum doors_cookie which)
{
    const char *text = http_header(call->http, "Cookie");
    const char *name = cookie_name(call, which);
    size_t name_len = strlen(name);

    while (text && *text) {
        size_t len;

        text += strspn(text, "; \t");
        len = strcspn(text, ";");
        if (len > name_len && strncmp(text, name, name_len) == 0 &&
            text[name_len] == '=') {
            while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
                len--;
            return len - name_len - 1 <= VALUE_MAX
                       ? arena_strndup(http_arena(call->http),
                                       text + name_len + 1, len - name_len - 1)
                       : "";
        }
        text += len;
    }
    return NULL;
}

void doors_cookie_set(struct doors_call *call, enum doors_cookie which,
                      const char *value, uint32_t ttl_s)
{
    http_add_header(
        call->http, "Set-Cookie",
        arena_printf(http_arena(call->http),
                     "%s=%s; Path=/; Max-Age=%u; HttpOnly; SameSite=%s%s",
                     cookie_name(call, which), value, ttl_s,
                     cookies[which].site, is_secure(call) ? "; Secure" : ""));
}
