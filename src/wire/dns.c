/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one question and writes one answer (RFC 1035; RFC 6891 is ignored as
 * it permits). No recursion, no compression, no allocation: a name is at most
 * 255 bytes and is walked once.
 */
#include "wire/dns.h"

#include <errno.h>
#include <string.h>

#define HEAD 12
#define LABEL_MAX 63
#define NAME_WIRE_MAX 255
#define FIXED_TAIL 4 /* type and class */

/* Bits of the two bytes of flags. */
#define FLAG_ANSWER 0x80
#define FLAG_OPCODE 0x78
#define FLAG_TRUNCATED 0x02
#define FLAG_WANT_RECURSION 0x01
#define FLAG_HAVE_RECURSION 0x80 /* second byte */

_Static_assert(HEAD + NAME_WIRE_MAX + FIXED_TAIL <=
                   sizeof(((struct dns_question *)0)->raw),
               "the longest question fits");
_Static_assert(sizeof(((struct dns_question *)0)->raw) + 12 + 16 <=
                   DNS_ANSWER_MAX,
               "the longest answer fits");

static uint16_t get16(const unsigned char *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static unsigned char *put16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
    return at + 2;
}

/* A letter of a host name; dots only separate labels. */
static char host_letter(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
        c == '_')
        return (char)c;
    return '?';
}

/* The name at `at`, as text; returns its bytes on the wire, 0 if it is none.
 * A pointer to elsewhere (both high bits set) is longer than a label may be,
 * and so refused. */
static size_t read_name(const unsigned char *at, size_t left, char *text)
{
    size_t pos = 0, out = 0;

    for (;;) {
        size_t label;

        if (pos >= left || pos >= NAME_WIRE_MAX)
            return 0;
        label = at[pos++];
        if (label == 0)
            break;
        if (label > LABEL_MAX || pos + label >= NAME_WIRE_MAX ||
            pos + label >= left)
            return 0;
        if (out)
            text[out++] = '.';
        for (size_t i = 0; i < label; i++)
            text[out++] = host_letter(at[pos + i]);
        pos += label;
    }
    if (out == 0)
        text[out++] = '.';
    text[out] = '\0';
    return pos;
}

int dns_question_parse(const void *query, size_t len, struct dns_question *ret)
{
    const unsigned char *at = query;
    struct dns_question q = {0};
    size_t name;

    if (len < HEAD || len > DNS_QUERY_MAX ||
        at[2] & (FLAG_ANSWER | FLAG_OPCODE | FLAG_TRUNCATED))
        return -EBADMSG;
    if (get16(at + 4) != 1 || get16(at + 6) != 0 || get16(at + 8) != 0 ||
        get16(at + 10) > 1)
        return -EBADMSG;
    name = read_name(at + HEAD, len - HEAD, q.name);
    if (name == 0 || len - HEAD - name < FIXED_TAIL)
        return -EBADMSG;
    /* Behind it comes a record if one is announced, and else nothing. */
    q.raw_len = (uint16_t)(HEAD + name + FIXED_TAIL);
    if ((len > q.raw_len) != (get16(at + 10) == 1))
        return -EBADMSG;
    q.id = get16(at);
    q.type = get16(at + HEAD + name);
    q.class = get16(at + HEAD + name + 2);
    memcpy(q.raw, at, q.raw_len);
    *ret = q;
    return 0;
}

/* Head and question; returns where the records go. */
static unsigned char *begin_answer(const struct dns_question *q,
                                   enum dns_code code, unsigned answers,
                                   unsigned char *out)
{
    memcpy(out, q->raw, q->raw_len);
    out[2] = FLAG_ANSWER | (q->raw[2] & FLAG_WANT_RECURSION);
    out[3] = (unsigned char)(FLAG_HAVE_RECURSION | (unsigned)code);
    (void)put16(out + 4, 1);
    (void)put16(out + 6, answers);
    (void)put16(out + 8, 0);
    (void)put16(out + 10, 0);
    return out + q->raw_len;
}

size_t dns_answer_code(const struct dns_question *q, enum dns_code code,
                       unsigned char *out)
{
    return (size_t)(begin_answer(q, code, 0, out) - out);
}

size_t dns_answer_address(const struct dns_question *q, enum dns_type type,
                          const void *address, uint32_t ttl_s,
                          unsigned char *out)
{
    size_t size = type == DNS_AAAA ? 16 : 4;
    unsigned char *at;

    if (q->type != (uint16_t)type || q->class != DNS_IN)
        return dns_answer_code(q, DNS_OK, out);
    at = begin_answer(q, DNS_OK, 1, out);
    at = put16(at, 0xc000 | HEAD); /* the name that was asked */
    at = put16(at, (unsigned)type);
    at = put16(at, DNS_IN);
    at = put16(at, ttl_s >> 16);
    at = put16(at, ttl_s & 0xffff);
    at = put16(at, (unsigned)size);
    memcpy(at, address, size);
    return (size_t)(at + size - out);
}

static int ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), tail = strlen(end);

    return len >= tail && strcmp(name + len - tail, end) == 0;
}

size_t dns_answer_own(const struct dns_question *q, unsigned char *out)
{
    static const unsigned char four[4] = {127, 0, 0, 1};
    static const unsigned char six[16] = {[15] = 1};
    static const char one[] = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0."
                              "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa";

    /* They are in /etc/hosts; a lookup gets the same answer. */
    if (q->type == DNS_PTR &&
        (ends_with(q->name, ".127.in-addr.arpa") || strcmp(q->name, one) == 0))
        return dns_answer_code(q, DNS_NXDOMAIN, out);
    if (strcmp(q->name, "localhost") != 0 &&
        strcmp(q->name, "glovebox") != 0 && !ends_with(q->name, ".localhost"))
        return 0;
    return q->type == DNS_AAAA ? dns_answer_address(q, DNS_AAAA, six, 0, out)
                               : dns_answer_address(q, DNS_A, four, 0, out);
}
