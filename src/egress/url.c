/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as a request writes them; see http.h. Runs in glovebox-egress. */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "egress/host.h"
#include "egress/http.h"

static const char *parse_port(struct span s, uint16_t *ret)
{
    unsigned v = 0;

    if (!s.len || s.len > 5 || s.at[0] == '0')
        return "the port is not a number from 1 to 65535";
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return "the port is not a number from 1 to 65535";
        v = v * 10 + (unsigned)(s.at[i] - '0');
    }
    if (v == 0 || v > 65535)
        return "the port is not a number from 1 to 65535";
    *ret = (uint16_t)v;
    return NULL;
}

const char *egress_url_authority(struct span text, uint16_t fallback,
                                 struct http_target *ret)
{
    const char *end = text.at + text.len, *colon;
    struct span host = text;
    struct error err;
    const char *why;

    if (memchr(text.at, '@', text.len))
        return "a name and password in an address are not taken";
    if (text.len && text.at[0] == '[') {
        const char *close = memchr(text.at, ']', text.len);

        if (!close)
            return "a bracket is not closed";
        host.len = (size_t)(close - text.at) + 1;
        colon = close + 1 < end ? close + 1 : NULL;
        if (colon && *colon != ':')
            return "there is something between the bracket and the port";
    } else {
        colon = memchr(text.at, ':', text.len);
        if (colon)
            host.len = (size_t)(colon - text.at);
    }
    ret->port = fallback;
    if (colon) {
        why = parse_port((struct span){colon + 1, (size_t)(end - colon - 1)},
                         &ret->port);
        if (why)
            return why;
    } else if (!fallback) {
        return "the port is missing";
    }
    if (egress_host_canonical(host.at, host.len, ret->host, &ret->address,
                              &err) < 0)
        return "the host is not a name or address";
    return NULL;
}

const char *egress_url_origin(struct span text, struct http_target *ret)
{
    const char *query = memchr(text.at, '?', text.len);

    if (!text.len || text.at[0] != '/')
        return "the path does not begin with '/'";
    if (memchr(text.at, '#', text.len))
        return "the address has a '#'";
    ret->path = text;
    ret->query = (struct span){text.at + text.len, 0};
    if (query) {
        ret->path.len = (size_t)(query - text.at);
        ret->query = (struct span){query, text.len - ret->path.len};
    }
    return egress_path_plain(ret->query) ? "the query has a byte it must not "
                                           "have"
                                         : egress_path_plain(ret->path);
}

const char *egress_url_absolute(struct span text, struct http_target *ret)
{
    static const char scheme[] = "http://";
    struct span rest, authority;
    const char *why;
    size_t n = 0;

    if (text.len >= 8 && strncasecmp(text.at, "https://", 8) == 0)
        return "https goes through CONNECT";
    if (text.len < sizeof(scheme) - 1 ||
        strncasecmp(text.at, scheme, sizeof(scheme) - 1) != 0)
        return "the address does not begin with http://";
    rest = (struct span){text.at + sizeof(scheme) - 1,
                         text.len - (sizeof(scheme) - 1)};
    while (n < rest.len && !strchr("/?#", rest.at[n]))
        n++;
    authority = (struct span){rest.at, n};
    why = egress_url_authority(authority, 80, ret);
    if (why)
        return why;
    rest.at += n;
    rest.len -= n;
    if (rest.len && rest.at[0] == '/')
        return egress_url_origin(rest, ret);
    if (rest.len && rest.at[0] == '#')
        return "the address has a '#'";
    ret->path = (struct span){"/", 1};
    ret->query = rest;
    return egress_path_plain(rest) ? "the query has a byte it must not have"
                                   : NULL;
}
