/* SPDX-License-Identifier: Apache-2.0 */
/* The address of a syslog socket on this machine. Pure. */
#ifndef GLOVEBOX_AUDIT_SYSLOG_ADDR_H
#define GLOVEBOX_AUDIT_SYSLOG_ADDR_H

#include <sys/socket.h>

struct error;

struct audit_syslog_addr {
    struct sockaddr_storage address;
    socklen_t len;
};

/* "unix:/dev/log", "udp:127.0.0.1:514" or "udp:[::1]:514". Other
 * machines are refused: delivery would be neither private nor reliable. */
int audit_syslog_addr_parse(const char *text, struct audit_syslog_addr *ret,
                            struct error *err);

#endif
