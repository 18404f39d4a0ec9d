/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question of the domain name system and our answer to it, as bytes. Used
 * by what answers a session's lookups: its pid 1 (kernel/net.c), or the proxy
 * if the session has a network. No I/O; the input is hostile.
 */
#ifndef GLOVEBOX_WIRE_DNS_H
#define GLOVEBOX_WIRE_DNS_H

#include <stddef.h>
#include <stdint.h>

#define DNS_QUERY_MAX 1232 /* more than any accepted question needs */
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
    uint16_t class; /* DNS_IN is the Internet */
    /* Lower case, labels with dots between and none at the end, "." for the
     * root; bytes that have no place in a name are '?'. */
    char name[DNS_NAME_MAX];
    unsigned char raw[272]; /* head and question as they came, to be echoed */
    uint16_t raw_len;
};

/* Exactly one question, followed by at most one EDNS record, which is ignored.
 * 0, or -EBADMSG. */
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

/* Answers names of the session itself (localhost, names below it, its host
 * name) and loopback addresses, which need no permission; 0 for all others. */
size_t dns_answer_own(const struct dns_question *q, unsigned char *out);

#endif
