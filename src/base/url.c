/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of URLs, checked. Pure functions, for all programs. */
#include "base/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/buf.h"

#define NAME_MAX_BYTES 253u
#define LABEL_MAX_BYTES 63u

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

/* Labels of letters, digits, "-" and "_"; numeric addresses look the same. */
static bool is_name(const char *text, size_t len)
{
    size_t label = 0;

    if (len == 0 || len > NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '.') {
            if (label == 0)
                return false;
            label = 0;
        } else if ((is_alnum(c) || c == '_' || (c == '-' && label > 0)) &&
                   label < LABEL_MAX_BYTES) {
            label++;
        } else {
            return false;
        }
    }
    return label > 0 || len > 1; /* a dot at the end is the root */
}

static bool is_ipv6(const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr ignored;

    if (len == 0 || len >= sizeof(copy))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return inet_pton(AF_INET6, copy, &ignored) == 1;
}

static bool is_port(const char *text, size_t len)
{
    unsigned port = 0;

    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

bool url_authority_valid(const char *text, size_t len)
{
    const char *end, *colon;

    if (len == 0 || len > URL_AUTHORITY_MAX)
        return false;
    if (text[0] == '[') {
        end = memchr(text, ']', len);
        if (!end || !is_ipv6(text + 1, (size_t)(end - text) - 1))
            return false;
        end++;
    } else {
        colon = memchr(text, ':', len);
        end = colon ? colon : text + len;
        if (!is_name(text, (size_t)(end - text)))
            return false;
    }
    if (end == text + len)
        return true;
    return *end == ':' && is_port(end + 1, (size_t)(text + len - end) - 1);
}

bool url_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

bool url_is_safe(const char *url)
{
    static const char secure[] = "https://", plain[] = "http://";
    char host[64];
    size_t len;

    if (strncmp(url, secure, sizeof(secure) - 1) == 0)
        return url[sizeof(secure) - 1] != '\0';
    if (strncmp(url, plain, sizeof(plain) - 1) != 0)
        return false;
    url += sizeof(plain) - 1;
    if (*url == '[')
        len = strcspn(++url, "]/");
    else
        len = strcspn(url, ":/?#");
    if (strchr(url, '@') || len >= sizeof(host))
        return false;
    memcpy(host, url, len);
    host[len] = '\0';
    return url_is_loopback(host) || strcmp(host, "localhost") == 0;
}

void url_escape(struct buf *out, const char *text, bool keep_slash)
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
