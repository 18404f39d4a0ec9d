/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses no session reaches (E3), as a table: the special-purpose
 * registries of IPv4 and IPv6, what clouds answer their metadata on, and
 * every way to write an IPv4 address inside an IPv6 one. Pure.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "egress/host.h"

struct range {
    uint8_t address[16];
    uint8_t bits;
    const char *why;
};

/* The first that holds it decides. */
static const struct range v4_always[] = {
    {{169, 254, 169, 254}, 32, "metadata"},
    {{169, 254, 170, 2}, 32, "metadata"},
    {{100, 100, 100, 200}, 32, "metadata"},
    {{168, 63, 129, 16}, 32, "metadata"}, /* public, but the cloud's own */
    {{192, 0, 0, 192}, 32, "metadata"},
};

static const struct range v4_ranges[] = {
    {{0}, 8, "reserved"},
    {{10}, 8, "private"},
    {{100, 64}, 10, "private"}, /* behind a provider's translation */
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local"},
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved"},
    {{192, 0, 2}, 24, "reserved"}, /* documentation, as two below */
    {{192, 88, 99}, 24, "reserved"},
    {{192, 168}, 16, "private"},
    {{198, 18}, 15, "reserved"},
    {{198, 51, 100}, 24, "reserved"},
    {{203, 0, 113}, 24, "reserved"},
    {{224}, 4, "multicast"},
    {{240}, 4, "reserved"}, /* with the broadcast address */
};

static const struct range v6_always[] = {
    {{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, "metadata"},
    {{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, "metadata"},
};

static const struct range v6_ranges[] = {
    {{[15] = 1}, 128, "loopback"},
    {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, "private"}, /* local NAT64 */
    {{0xfc}, 7, "private"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "private"}, /* site-local, as it once was */
    {{0xff}, 8, "multicast"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "reserved"}, /* documentation */
    {{0x3f, 0xff}, 20, "reserved"},
};

/* IPv4 inside IPv6: judged by what is inside. `never`: and refused even when
 * that is public, because no real destination is written so. */
static const struct embedded {
    struct range range;
    uint8_t at;
    bool inverted, never;
} embedded[] = {
    {{{[10] = 0xff, 0xff}, 96, "mapped"}, 12, false, true},
    {{{0}, 96, "mapped"}, 12, false, true},                /* compatible */
    {{{[8] = 0xff, 0xff}, 96, "mapped"}, 12, false, true}, /* translated */
    {{{0x00, 0x64, 0xff, 0x9b}, 96, "mapped"}, 12, false, false}, /* NAT64 */
    {{{0x20, 0x02}, 16, "mapped"}, 2, false, false},              /* 6to4 */
    {{{0x20, 0x01}, 32, "mapped"}, 4, false, false}, /* Teredo's server */
    {{{0x20, 0x01}, 32, "mapped"}, 12, true, false}, /* and its client */
};

static const uint8_t assignments[16] = {0x20, 0x01}; /* 2001::/23 */
static const uint8_t global[16] = {0x20};            /* 2000::/3 */

static bool prefix_matches(const uint8_t *a, const uint8_t *net, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(a, net, whole) != 0)
        return false;
    return !rest || ((a[whole] ^ net[whole]) >> (8 - rest)) == 0;
}

static const char *look_up(const uint8_t *a, const struct range *rows,
                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (prefix_matches(a, rows[i].address, rows[i].bits))
            return rows[i].why;
    return NULL;
}

static bool find_range(const uint8_t *a, uint8_t family,
                       const struct egress_net nets[EGRESS_NETS_MAX])
{
    for (size_t i = 0; i < EGRESS_NETS_MAX && nets[i].family; i++)
        if (nets[i].family == family &&
            nets[i].bits <= (family == 4 ? 32 : 128) &&
            prefix_matches(a, nets[i].address, nets[i].bits))
            return true;
    return false;
}

static const char *judge_v4(const uint8_t *a, const struct egress_setup *setup)
{
    const char *why = look_up(a, v4_always, ARRAY_SIZE(v4_always));

    if (why)
        return why;
    if (setup && find_range(a, 4, setup->refused))
        return "our own";
    if (setup && find_range(a, 4, setup->lab))
        return NULL;
    return look_up(a, v4_ranges, ARRAY_SIZE(v4_ranges));
}

static const char *judge_embedded(const uint8_t *a,
                                  const struct egress_setup *setup)
{
    for (size_t i = 0; i < ARRAY_SIZE(embedded); i++) {
        const struct embedded *e = &embedded[i];
        const char *why;
        uint8_t v4[4];

        if (!prefix_matches(a, e->range.address, e->range.bits))
            continue;
        for (size_t k = 0; k < sizeof(v4); k++)
            v4[k] = a[e->at + k] ^ (e->inverted ? 0xff : 0);
        why = judge_v4(v4, setup);
        if (why || e->never)
            return why ? why : e->range.why;
    }
    return NULL;
}

/* A tunnel endpoint's interface id: ::0:5efe:a.b.c.d or ::200:5efe:… */
static const char *judge_isatap(const uint8_t *a,
                                const struct egress_setup *setup)
{
    if ((a[8] & ~0x02) != 0 || a[9] != 0 || a[10] != 0x5e || a[11] != 0xfe)
        return NULL;
    return judge_v4(a + 12, setup);
}

static const char *judge_v6(const uint8_t *a, const struct egress_setup *setup)
{
    const char *why = look_up(a, v6_always, ARRAY_SIZE(v6_always));

    if (why)
        return why;
    if (setup && find_range(a, 6, setup->refused))
        return "our own";
    if (setup && find_range(a, 6, setup->lab))
        return NULL;
    why = look_up(a, v6_ranges, ARRAY_SIZE(v6_ranges));
    if (!why)
        why = judge_embedded(a, setup);
    if (!why)
        why = judge_isatap(a, setup);
    if (why)
        return why;
    if (prefix_matches(a, embedded[3].range.address,
                       96)) /* NAT64 of a public one */
        return NULL;
    if (prefix_matches(a, assignments, 23) &&
        !prefix_matches(a, assignments, 32))
        return "reserved";
    return prefix_matches(a, global, 3) ? NULL : "reserved";
}

const char *egress_host_forbidden(int family, const void *address,
                                  const struct egress_setup *setup)
{
    if (family == AF_INET)
        return judge_v4(address, setup);
    if (family == AF_INET6)
        return judge_v6(address, setup);
    return "reserved";
}

const char *egress_host_never(const char *host,
                              const struct egress_setup *setup)
{
    static const char local[] = "localhost";
    size_t len = strlen(host), tail = sizeof(local) - 1;
    unsigned char address[16];

    if (inet_pton(AF_INET, host, address) == 1)
        return egress_host_forbidden(AF_INET, address, setup);
    if (inet_pton(AF_INET6, host, address) == 1)
        return egress_host_forbidden(AF_INET6, address, setup);
    if (len >= tail && strcmp(host + len - tail, local) == 0 &&
        (len == tail || host[len - tail - 1] == '.'))
        return "loopback";
    return NULL;
}
