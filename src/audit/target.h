/* SPDX-License-Identifier: Apache-2.0 */
/* Where syslog listens: a socket of this machine. Pure. */
#ifndef GLOVEBOX_AUDIT_TARGET_H
#define GLOVEBOX_AUDIT_TARGET_H

#include <sys/socket.h>

struct error;

struct audit_target {
    struct sockaddr_storage address;
    socklen_t len;
};

/* "unix:/dev/log", "udp:127.0.0.1:514" or "udp:[::1]:514". Elsewhere than on
 * this machine is refused: it would be neither private nor certain. */
int audit_target_parse(const char *text, struct audit_target *ret,
                       struct error *err);

#endif
