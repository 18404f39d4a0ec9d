/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's grant says about a destination (E2). Pure; runs in
 * glovebox-egress. Nothing matched is no; what cannot be seen from outside of
 * TLS (a method, a path) is not let through unseen.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "egress/egress_int.h"
#include "egress/host.h"

static const uint16_t usual_ports[] = {80, 443, 0};

static bool has_port(const struct egress_rule *r, uint16_t port,
                     bool *ret_listed)
{
    const uint16_t *ports = r->ports[0] ? r->ports : usual_ports;
    size_t most = r->ports[0] ? EGRESS_PORTS_MAX : 2;

    for (size_t i = 0; i < most && ports[i]; i++) {
        if (ports[i] != port)
            continue;
        *ret_listed = r->ports[0] != 0;
        return true;
    }
    return false;
}

static void decision_refuse(struct decision *ret, const struct http_target *t,
                            const char *why)
{
    ret->verdict = VERDICT_NO;
    (void)snprintf(ret->why, sizeof(ret->why), "%.90s:%u %s", t->host, t->port,
                   why);
}

/* Why not, when no rule matched: the nearest miss is the most useful. */
static const char *miss_reason(const struct egress_grant *grant,
                               const struct egress_rule *rules,
                               const struct http_target *t)
{
    if (grant->mode == EGRESS_MODE_NONE)
        return "is not reachable: this session has no network";
    for (uint32_t i = 0; i < grant->rule_count; i++)
        if (egress_host_matches(rules[i].host, t->host))
            return "is not on this session's allow list (another port is)";
    return "is not on this session's allow list";
}

void egress_rule_connect(const struct egress_grant *grant,
                         const struct egress_rule *rules,
                         const struct http_target *t, struct decision *ret)
{
    const char *why = NULL;

    *ret = (struct decision){.verdict = VERDICT_NO};
    for (uint32_t i = 0; i < grant->rule_count; i++) {
        const struct egress_rule *r = &rules[i];
        bool listed = false;

        if (!egress_host_matches(r->host, t->host) ||
            !has_port(r, t->port, &listed))
            continue;
        if (r->inspect) { /* one that looks inside comes first */
            *ret = (struct decision){.verdict = VERDICT_INSPECT,
                                     .rule = (uint16_t)(i + 1),
                                     .port_listed = listed};
            return;
        }
        if (r->methods || r->path[0]) {
            why = "is limited to methods or paths, which cannot be seen "
                  "inside of TLS without inspection";
            continue;
        }
        if (ret->verdict == VERDICT_NO)
            *ret = (struct decision){.verdict = VERDICT_TUNNEL,
                                     .rule = (uint16_t)(i + 1),
                                     .port_listed = listed};
    }
    if (ret->verdict != VERDICT_NO)
        return;
    if (grant->mode == EGRESS_MODE_OPEN)
        *ret =
            (struct decision){.verdict = VERDICT_TUNNEL, .port_listed = true};
    else
        decision_refuse(ret, t, why ? why : miss_reason(grant, rules, t));
}

/* A rule for TLS on the usual ports never sends its secret in the clear. */
static bool may_add_secret(const struct egress_rule *r, bool tls, bool listed)
{
    return r->header[0] && (tls || !r->inspect || listed);
}

void egress_rule_request(const struct egress_grant *grant,
                         const struct egress_rule *rules,
                         const struct http_target *t, struct span method,
                         bool tls, struct decision *ret)
{
    char path[EGRESS_PATH_MAX];
    const char *fault = egress_path_canonical(t->path, path), *why = NULL;
    uint32_t bit = egress_head_method(method);

    *ret = (struct decision){.verdict = VERDICT_NO};
    for (uint32_t i = 0; i < grant->rule_count; i++) {
        const struct egress_rule *r = &rules[i];
        bool listed = false;

        if (!egress_host_matches(r->host, t->host) ||
            !has_port(r, t->port, &listed))
            continue;
        if (r->methods && !(r->methods & bit)) {
            why = "is listed, but not for this method";
            continue;
        }
        if (r->path[0] && (fault || !egress_path_below(path, r->path))) {
            why = fault ? fault : "is listed, but not for this path";
            continue;
        }
        if (r->header[0] && !may_add_secret(r, tls, listed)) {
            why = "has a secret that only goes over https; use https";
            continue;
        }
        *ret = (struct decision){.verdict = VERDICT_REQUEST,
                                 .rule = (uint16_t)(i + 1),
                                 .port_listed = listed,
                                 .add = r->header[0] != '\0'};
        if (r->path[0])
            memcpy(ret->path, path, strlen(path) + 1);
        return;
    }
    if (grant->mode == EGRESS_MODE_OPEN)
        ret->verdict = VERDICT_REQUEST;
    else
        decision_refuse(ret, t, why ? why : miss_reason(grant, rules, t));
}

bool egress_rule_lookup(const struct egress_grant *grant,
                        const struct egress_rule *rules, const char *host)
{
    if (grant->mode == EGRESS_MODE_OPEN)
        return true;
    for (uint32_t i = 0; i < grant->rule_count; i++)
        if (egress_host_matches(rules[i].host, host))
            return true;
    return false;
}

static bool is_token(const char *s)
{
    size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
                           "YZ0123456789!#$&'*+-.^_`|~");

    return len > 0 && !s[len];
}

#define ENDED(field) memchr(field, 0, sizeof(field))

const char *egress_rule_fault(const struct egress_rule *r)
{
    char host[EGRESS_HOST_MAX], path[EGRESS_PATH_MAX];
    struct error err;

    if (!ENDED(r->host) || !ENDED(r->path) || !ENDED(r->header) ||
        !ENDED(r->value))
        return "a text does not end";
    if (egress_host_pattern(r->host, host, &err) < 0 ||
        strcmp(host, r->host) != 0)
        return "the host is not canonical";
    if (r->path[0] && (egress_path_canonical(
                           (struct span){r->path, strlen(r->path)}, path) ||
                       strcmp(path, r->path) != 0))
        return "the path is not canonical";
    if (r->header[0] && !is_token(r->header))
        return "the header's name is none";
    for (const char *p = r->value; *p; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
            return "the header's value has a control character";
    return NULL;
}
