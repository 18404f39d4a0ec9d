/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pool gives its sessions: `egress`, and for an allowlist the words of
 * `egress_allow`, "host[:port],…". Pure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/network_int.h"
#include "session/pools_int.h"

/* The port behind the last colon; an address with several colons is in
 * brackets when a port follows. */
static int split_port(char *word, uint16_t *ret, struct error *err)
{
    char *colon = strrchr(word, ':'), *end;
    unsigned long port;

    if (!colon || (strchr(word, ':') != colon && colon[-1] != ']'))
        return 0;
    port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end || port < 1 || port > 65535)
        return error_set(err, ERR_INVALID,
                         "'%.80s': a port must be from 1 to 65535", word);
    *colon = '\0';
    *ret = (uint16_t)port;
    return 0;
}

/* Ports of the same host are one destination. */
static int add_word(char *word, struct session_destination *list,
                    size_t *count, struct error *err)
{
    struct session_destination d = {.host = word};
    int rc = split_port(word, &d.ports[0], err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < *count; i++) {
        size_t n = 0;

        while (n < SESSION_PORTS_MAX && list[i].ports[n])
            n++;
        if (strcmp(list[i].host, word) == 0 && n && d.ports[0] &&
            n < SESSION_PORTS_MAX) {
            list[i].ports[n] = d.ports[0];
            return 0;
        }
    }
    if (*count == SESSION_DESTINATIONS_MAX)
        return error_set(err, ERR_INVALID, "more than %u destinations",
                         SESSION_DESTINATIONS_MAX);
    list[(*count)++] = d;
    return 0;
}

int network_pool_read(const struct conf_pool *pool,
                      struct session_network_info *ret, struct error *err)
{
    struct session_destination list[SESSION_DESTINATIONS_MAX];
    struct session_network net = {.destinations = list,
                                  .packages = pool->packages};
    char *copy cleanup(mem_free) =
        xstrdup(pool->egress_allow ? pool->egress_allow : "");
    char *rest = copy, *word;
    int rc = 0;

    (void)session_egress_parse(pool->egress ? pool->egress : "none",
                               &net.mode);
    while (rc == 0 && net.mode == SESSION_EGRESS_ALLOWLIST &&
           (word = strsep(&rest, ", ")))
        if (word[0])
            rc = add_word(word, list, &net.destination_count, err);
    if (rc == 0)
        rc = network_spec_check(&net, pool, ret, err);
    return rc < 0 ? error_wrap(err, "pool '%s', egress_allow", pool->name) : 0;
}

int pools_network_permit(struct sessions *m, const struct actor *who,
                         const struct pool_row *row, struct error *err)
{
    struct session_network_info info cleanup(session_network_info_done) = {0};
    struct conf_pool first = m->conf->pools[0], pool;
    struct network_ask ask = {
        .m = m, .who = who, .pool = &first, .runtime = row->runtime};
    int rc;

    first.name = (char *)(uintptr_t)row->name;
    pool = first;
    pool.egress = (char *)(uintptr_t)session_egress_name(row->egress);
    pool.egress_allow = row->egress_allow;
    pool.packages = row->packages;
    rc = network_pool_read(&pool, &info, err);
    if (rc == 0)
        rc = network_permit(&ask, &info, err);
    if (rc == 0 && row->egress == SESSION_EGRESS_OPEN)
        log_event(LOG_WARN, "pool_egress_open", "pool", row->name, "means",
                  SESSION_OPEN_MEANS, NULL);
    return rc;
}
