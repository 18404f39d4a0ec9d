/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of ours in answers: where this client reached us, and text made
 * fit for a path or a query. Runs in the daemon, called by the doors.
 */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "conf/conf.h"
#include "doors/doors.h"

/* By our own certificate, or by that of a proxy, which says so; it is believed
 * only where the operator has one in front (I9). */
static bool is_secure(const struct doors_call *call)
{
    const struct conf *conf = call->doors->conf;
    const char *proxy = http_header(call->http, "X-Forwarded-Proto");

    return conf_speaks_tls(conf) ||
           (conf->trust_proxy && proxy && strcasecmp(proxy, "https") == 0);
}

const char *doors_url_origin(const struct doors_call *call)
{
    const char *host = http_header(call->http, "Host");
    size_t n = host ? strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                   "qrstuvwxyz0123456789.-_:[]")
                    : 0;

    return arena_printf(http_arena(call->http), "%s://%s",
                        is_secure(call) ? "https" : "http",
                        n > 0 && host[n] == '\0' ? host : "localhost");
}

void doors_url_escape(struct buf *out, const char *text, bool keep_slash)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

    for (; *text; text++) {
        if (strchr(plain, *text) || (*text == '/' && keep_slash))
            buf_add(out, text, 1);
        else
            buf_addf(out, "%%%02X", (unsigned char)*text);
    }
}
