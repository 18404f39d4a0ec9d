/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and addresses of destinations, in the one form they are compared in
 * (E2), and the addresses no session reaches whatever a list says (E3). Pure;
 * used by glovebox-egress and by gloveboxd.
 */
#ifndef GLOVEBOX_EGRESS_HOST_H
#define GLOVEBOX_EGRESS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/egress_msg.h"

struct error;

/*
 * Lower case, no dot at the end, no brackets, punycode for what is not ASCII
 * (by libidn2), and numbers in any spelling (0x7f.1, 2130706433, 0177.0.0.1,
 * ::ffff:127.0.0.1) as the one usual form. ERR_INVALID for what is no host:
 * blanks, control characters, "%", "@", empty labels, over 253 bytes.
 * ret_address: it is a number, not a name.
 */
int egress_host_canonical(const char *text, size_t len,
                          char ret[EGRESS_HOST_MAX], bool *ret_address,
                          struct error *err);
/* A canonical host against a rule's ("*.x" is below x, not x itself). */
bool egress_host_matches(const char *pattern, const char *host);
/* For lists people write: also checks "*.": only in front, at least two
 * labels behind it. */
int egress_host_pattern(const char *text, char ret[EGRESS_HOST_MAX],
                        struct error *err);
/* NULL, or why this address is never connected to: "loopback", "private",
 * "link-local", "metadata", "multicast", "reserved", "mapped", "our own".
 * address: 4 or 16 bytes. */
const char *egress_host_forbidden(int family, const void *address,
                                  const struct egress_setup *setup);
/* The same for a canonical host, as far as its text tells: an address, or a
 * name below "localhost". A name is otherwise judged once it is resolved. */
const char *egress_host_never(const char *host,
                              const struct egress_setup *setup);

#endif
