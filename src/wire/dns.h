/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question of the domain name system and our answer to it, as bytes. For
 * those who answer a session's lookups: its pid 1 (kernel/net.c), and the
 * proxy once it was granted a network. Pure; what comes in is hostile.
 */
#ifndef GLOVEBOX_WIRE_DNS_H
#define GLOVEBOX_WIRE_DNS_H

#include <stddef.h>
#include <stdint.h>

#define DNS_QUERY_MAX 1232 /* more than any question we take needs */
#define DNS_ANSWER_MAX 512 /* every answer fits */
#define DNS_NAME_MAX 256   /* as text, with its end */

enum dns_type {
    DNS_A = 1,
    DNS_PTR = 12,
    DNS_AAAA = 28,
};

enum {
    DNS_IN = 1
};

enum dns_code {
    DNS_OK = 0,
    DNS_FORMERR = 1,
    DNS_SERVFAIL = 2,
    DNS_NXDOMAIN = 3,
    DNS_REFUSED = 5,
};

struct dns_question {
    uint16_t id;
    uint16_t type;  /* any number, see enum dns_type */
    uint16_t class; /* DNS_IN is the Internet's */
    /* Lower case, labels with dots between and none at the end, "." for the
     * root; bytes that have no place in a name are '?'. */
    char name[DNS_NAME_MAX];
    unsigned char raw[272]; /* head and question as they came, to be echoed */
    uint16_t raw_len;
};

/* Exactly one question, nothing before or behind it but one record of the
 * extended protocol, which is not looked at. 0, or -EBADMSG. */
int dns_question_parse(const void *query, size_t len,
                       struct dns_question *ret);

/* An answer without an address: with DNS_OK "there is none of this type".
 * out has room for DNS_ANSWER_MAX; returns bytes. */
size_t dns_answer_code(const struct dns_question *q, enum dns_code code,
                       unsigned char *out);
/* One address, of 4 bytes for DNS_A and 16 for DNS_AAAA, which the question
 * asked for; what it did not ask for is answered as dns_answer_code(DNS_OK).
 */
size_t dns_answer_address(const struct dns_question *q, enum dns_type type,
                          const void *address, uint32_t ttl_s,
                          unsigned char *out);

/* The session's own names (localhost, what is below it, its host name) and
 * loopback's addresses need nobody's leave: their answer, or 0 for all
 * others. */
size_t dns_answer_own(const struct dns_question *q, unsigned char *out);

#endif
