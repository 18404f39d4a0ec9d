/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the address of a local syslog socket; see syslog_addr.h. */
#include "audit/syslog_addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/error.h"

static int refuse_address(struct error *err)
{
    (void)error_set(err, ERR_INVALID,
                    "audit_syslog must be unix:/PATH, or udp: and an address "
                    "and port of this machine");
    return error_hint(err, "For example unix:/dev/log, udp:127.0.0.1:514 or "
                           "udp:[::1]:514. A syslog daemon there can send "
                           "it on, encrypted.");
}

static int parse_unix(const char *path, struct audit_syslog_addr *ret,
                      struct error *err)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&ret->address;

    if (path[0] != '/' || strlen(path) >= sizeof(un->sun_path))
        return refuse_address(err);
    un->sun_family = AF_UNIX;
    (void)snprintf(un->sun_path, sizeof(un->sun_path), "%s", path);
    ret->len = sizeof(*un);
    return 0;
}

static int parse_port(const char *text, uint16_t *ret)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end || n < 1 || n > 65535)
        return -1;
    *ret = htons((uint16_t)n);
    return 0;
}

static int parse_udp(const char *text, struct audit_syslog_addr *ret,
                     struct error *err)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&ret->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ret->address;
    const char *colon = strrchr(text, ':');
    char host[64];
    size_t len = colon ? (size_t)(colon - text) : 0;

    if (len == 0 || len >= sizeof(host))
        return refuse_address(err);
    memcpy(host, text, len);
    host[len] = '\0';
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1 &&
        ntohl(v4->sin_addr.s_addr) >> 24 == 127 &&
        parse_port(colon + 1, &v4->sin_port) == 0) {
        v4->sin_family = AF_INET;
        ret->len = sizeof(*v4);
        return 0;
    }
    if (strcmp(host, "[::1]") != 0 ||
        parse_port(colon + 1, &v6->sin6_port) < 0)
        return refuse_address(err);
    v6->sin6_family = AF_INET6;
    v6->sin6_addr = in6addr_loopback;
    ret->len = sizeof(*v6);
    return 0;
}

int audit_syslog_addr_parse(const char *text, struct audit_syslog_addr *ret,
                            struct error *err)
{
    memset(ret, 0, sizeof(*ret));
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, ret, err);
    if (strncmp(text, "udp:", 4) == 0)
        return parse_udp(text + 4, ret, err);
    return refuse_address(err);
}
