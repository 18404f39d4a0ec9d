/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs of this service in answers: how they begin, and text escaped for a path
 * or a query. Runs in the daemon, called by the doors. What a request says of
 * itself is used for the answer to that request only and is never stored.
 */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/url.h"
#include "conf/conf.h"
#include "doors/doors.h"

/* By our own certificate, or by that of a proxy, which says so; it is believed
 * only where the operator has one in front (I9). */
bool doors_url_secure(const struct doors_call *call)
{
    const struct conf *conf = call->doors->conf;
    const char *proxy = http_header(call->http, "X-Forwarded-Proto");

    return conf_speaks_tls(conf) ||
           (conf->trust_proxy && proxy && strcasecmp(proxy, "https") == 0);
}

/* The host the client asked for: as the proxy says, where the operator has one
 * in front, else as Host says. False: neither is one. */
static bool requested_host(const struct doors_call *call, const char **ret,
                           size_t *ret_len)
{
    const char *host = call->doors->conf->trust_proxy
                           ? http_header(call->http, "X-Forwarded-Host")
                           : NULL;

    if (host) { /* the first is the client's, others are of proxies between */
        host += strspn(host, " ");
        *ret = host;
        *ret_len = strcspn(host, ",");
        while (*ret_len && host[*ret_len - 1] == ' ')
            (*ret_len)--;
        if (url_authority_valid(*ret, *ret_len))
            return true;
    }
    host = http_header(call->http, "Host");
    *ret = host;
    *ret_len = host ? strlen(host) : 0;
    return host && url_authority_valid(host, *ret_len);
}

/* Where the service listens; "localhost" for every address at once. */
static const char *listening_host(const struct doors_call *call)
{
    const struct conf *conf = call->doors->conf;
    const char *host = conf->listen_host;
    struct arena *arena = http_arena(call->http);

    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        host = "localhost";
    else if (strchr(host, ':'))
        host = arena_printf(arena, "[%s]", host);
    return conf->listen_port
               ? arena_printf(arena, "%s:%u", host, conf->listen_port)
               : host;
}

const char *doors_url_base(const struct doors_call *call)
{
    const char *set = call->doors->conf->public_url, *host;
    struct arena *arena = http_arena(call->http);
    size_t len = set ? strlen(set) : 0;

    if (len) {
        while (set[len - 1] == '/')
            len--;
        return arena_strndup(arena, set, len);
    }
    if (!requested_host(call, &host, &len)) {
        host = listening_host(call);
        len = strlen(host);
    }
    return arena_printf(arena, "%s://%.*s",
                        doors_url_secure(call) ? "https" : "http", (int)len,
                        host);
}

void doors_url_escape(struct buf *out, const char *text, bool keep_slash)
{
    url_escape(out, text, keep_slash);
}
