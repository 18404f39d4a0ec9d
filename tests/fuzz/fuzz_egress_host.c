/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the one form of hosts: what is taken is its own form, has none of
 * the characters that hide another host, and is an address exactly when the C
 * library thinks so too.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "egress/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char host[EGRESS_HOST_MAX], again[EGRESS_HOST_MAX];
    unsigned char bytes[16];
    bool address = false, still = false, number;
    struct error err;

    if (size >= 16)
        (void)egress_host_forbidden(AF_INET6, data, NULL);
    if (egress_host_canonical((const char *)data, size, host, &address, &err) <
        0)
        return 0;
    assert(strlen(host) > 0 && strlen(host) <= 253);
    assert(!strpbrk(host, " %@/\\?#[]*"));
    assert(egress_host_canonical(host, strlen(host), again, &still, &err) ==
           0);
    assert(strcmp(host, again) == 0 && address == still);
    number = inet_pton(AF_INET, host, bytes) == 1 ||
             inet_pton(AF_INET6, host, bytes) == 1;
    assert(number == address);
    if (!address)
        assert(inet_aton(host, (struct in_addr *)bytes) == 0);
    return 0;
}
