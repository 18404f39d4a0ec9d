/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of URLs, checked. */
#ifndef GLOVEBOX_BASE_URL_H
#define GLOVEBOX_BASE_URL_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

#define URL_AUTHORITY_MAX 261u /* a name of 253 bytes, ":" and a port */

/* "HOST" or "HOST:PORT" without user information: HOST is a DNS name, an IPv4
 * address or an IPv6 address in brackets, PORT is 1 to 65535. */
bool url_authority_valid(const char *text, size_t len);

/* An address of this machine, as digits. */
bool url_is_loopback(const char *host);
/* https, or http to this machine: what comes from there decides who may do
 * what, so nobody on the way may change it. */
bool url_is_safe(const char *url);

/* Adds text with everything but unreserved characters escaped. */
void url_escape(struct buf *out, const char *text, bool keep_slash);

#endif
