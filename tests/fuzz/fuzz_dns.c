/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes wire/dns with what a session may send to its resolver. Whatever is
 * taken for a question has a plain name, and every answer to it fits, echoes
 * it and, read as a question, is none.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "wire/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(const struct dns_question *q,
                         const unsigned char *out, size_t len)
{
    struct dns_question again;

    assert(len >= q->raw_len && len <= DNS_ANSWER_MAX);
    assert(memcmp(out, q->raw, 2) == 0);
    assert(memcmp(out + 12, q->raw + 12, q->raw_len - 12u) == 0);
    assert(dns_question_parse(out, len, &again) == -EBADMSG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char address[16] = {1};
    uint8_t *copy cleanup(mem_free) = xmalloc(size + 1);
    unsigned char *out cleanup(mem_free) = xmalloc(DNS_ANSWER_MAX);
    struct dns_question q;
    size_t len;

    memcpy(copy, data, size);
    if (dns_question_parse(copy, size, &q) < 0)
        return 0;
    assert(strlen(q.name) > 0 && strlen(q.name) < 254);
    for (const char *c = q.name; *c; c++)
        assert(*c > ' ' && *c < 0x7f);
    check_answer(&q, out, dns_answer_code(&q, DNS_NXDOMAIN, out));
    check_answer(&q, out, dns_answer_address(&q, DNS_A, address, 60, out));
    check_answer(&q, out, dns_answer_address(&q, DNS_AAAA, address, 60, out));
    len = dns_answer_own(&q, out);
    if (len)
        check_answer(&q, out, len);
    return 0;
}
