/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the settings fit together; each alone was checked when it was set.
 * Runs in the daemon and the command line, called by conf_load last. Changes
 * nothing: what does not fit is refused, not mended.
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "conf/conf_int.h"

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

/* The left one must not exceed the right one. */
struct pair {
    const char *low;
    const char *high;
};

static const struct pair top_pairs[] = {
    {"code_bytes", "json_bytes"},
    {"max_sessions", "uid_count"},
};

static const struct pair pool_pairs[] = {
    {"memory_bytes", "max_memory_bytes"},
    {"cores", "max_cores"},
    {"ready", "max_sessions"},
    {"python_timeout_s", "python_timeout_max_s"},
    {"shell_timeout_s", "shell_timeout_max_s"},
};

static uint64_t number(const void *base, const struct conf_option *o)
{
    const void *p = (const char *)base + o->offset;

    return o->type == CONF_SIZE ? *(const uint64_t *)p : *(const uint32_t *)p;
}

bool conf_is_local(const struct conf *c)
{
    return is_loopback(c->listen_host);
}

bool conf_tls_is_auto(const struct conf *c)
{
    return c->tls && strcmp(c->tls, "auto") == 0;
}

bool conf_speaks_tls(const struct conf *c)
{
    return conf_tls_is_auto(c) ||
           (c->tls_certificate && c->tls_certificate[0]);
}

static int check_pairs(const void *base, const struct conf_options *table,
                       const struct pair *pairs, size_t count,
                       struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct conf_option *low, *high;
        struct buf a cleanup(buf_done) = {0};
        struct buf b cleanup(buf_done) = {0};

        low = conf_options_find(table, pairs[i].low);
        high = conf_options_find(table, pairs[i].high);
        if (number(base, low) <= number(base, high))
            continue;
        conf_value_format(base, low, &a);
        conf_value_format(base, high, &b);
        (void)error_set(err, ERR_INVALID, "%s (%s) is above %s (%s)",
                        low->name, a.data, high->name, b.data);
        return error_hint(err, "lower %s or raise %s", low->name, high->name);
    }
    return 0;
}

static int check_pools(const struct conf *c, struct error *err)
{
    for (size_t i = 0; i < c->pool_count; i++) {
        for (size_t j = 0; j < i; j++)
            if (strcmp(c->pools[i].name, c->pools[j].name) == 0)
                return error_set(err, ERR_INVALID,
                                 "two pools are named \"%s\"",
                                 c->pools[i].name);
        if (check_pairs(&c->pools[i], &conf_options_pool, pool_pairs,
                        ARRAY_SIZE(pool_pairs), err) < 0)
            return error_wrap(err, "pool %s", c->pools[i].name);
    }
    return 0;
}

/* https, or this very machine: what comes by the network unsigned decides who
 * may do what. */
static bool is_safe_url(const char *url)
{
    static const char secure[] = "https://", plain[] = "http://";
    char host[64];
    size_t len;

    if (strncmp(url, secure, sizeof(secure) - 1) == 0)
        return url[sizeof(secure) - 1] != '\0';
    if (strncmp(url, plain, sizeof(plain) - 1) != 0)
        return false;
    url += sizeof(plain) - 1;
    if (*url == '[')
        len = strcspn(++url, "]/");
    else
        len = strcspn(url, ":/?#");
    if (strchr(url, '@') || len >= sizeof(host))
        return false;
    memcpy(host, url, len);
    host[len] = '\0';
    return is_loopback(host) || strcmp(host, "localhost") == 0;
}

static int check_jwt(const struct conf *c, struct error *err)
{
    if (!c->jwt_issuer[0]) {
        if (!c->jwt_audiences[0] && !c->jwt_jwks_url[0] &&
            !c->jwt_jwks_file[0])
            return 0;
        return error_set(err, ERR_INVALID,
                         "tokens are set up but jwt_issuer is empty");
    }
    if (!c->jwt_audiences[0])
        return error_set(err, ERR_INVALID,
                         "jwt_issuer needs jwt_audiences: who tokens are for");
    if (!c->jwt_jwks_url[0] == !c->jwt_jwks_file[0])
        return error_set(err, ERR_INVALID,
                         "jwt_issuer needs one of jwt_jwks_url and "
                         "jwt_jwks_file");
    if (c->jwt_jwks_url[0] && !is_safe_url(c->jwt_jwks_url))
        return error_set(err, ERR_INVALID,
                         "jwt_jwks_url must be https, or http to a loopback "
                         "address");
    return 0;
}

static int check_webhook(const struct conf *c, struct error *err)
{
    if (!c->webhook_url[0])
        return 0;
    if (!is_safe_url(c->webhook_url))
        return error_set(err, ERR_INVALID,
                         "webhook_url must be https, or http to a loopback "
                         "address");
    if (!c->webhook_secret_file[0])
        return error_set(err, ERR_INVALID,
                         "webhook_url needs webhook_secret_file, under which "
                         "announcements are signed");
    return 0;
}

static int check_audit(const struct conf *c, struct error *err)
{
    if (c->audit_syslog[0] && strncmp(c->audit_syslog, "unix:/", 6) != 0 &&
        strncmp(c->audit_syslog, "udp:", 4) != 0)
        return error_set(err, ERR_INVALID,
                         "audit_syslog must be unix:/PATH or "
                         "udp:ADDRESS:PORT");
    if (c->audit_otlp_url[0] && !is_safe_url(c->audit_otlp_url))
        return error_set(err, ERR_INVALID,
                         "audit_otlp_url must be https, or http to a loopback "
                         "address");
    return 0;
}

static int check_sharing(const struct conf *c, struct error *err)
{
    const char *ignored;

    if (conf_sharing_read(c->tenant_sharing, NULL, &ignored))
        return 0;
    (void)error_set(err, ERR_INVALID,
                    "tenant_sharing: \"%s\" is not a list of tenants",
                    c->tenant_sharing);
    return error_hint(err, "write TENANT=principal or TENANT=tenant, with "
                           "commas between; * is every other tenant");
}

int conf_check(const struct conf *c, struct error *err)
{
    if (!c->allow_remote && !is_loopback(c->listen_host)) {
        (void)error_set(err, ERR_INVALID,
                        "listen: %s is not a loopback address",
                        c->listen_host);
        return error_hint(err, "set allow_remote: true (--allow-remote) to "
                               "serve other machines, with tls_certificate "
                               "and tls_key, with tls: auto or behind a TLS "
                               "proxy");
    }
    if (!c->tls_certificate[0] != !c->tls_key[0])
        return error_set(err, ERR_INVALID,
                         "tls_certificate and tls_key need each other");
    if (conf_tls_is_auto(c) && c->tls_certificate[0])
        return error_set(err, ERR_INVALID,
                         "tls: auto makes its own certificate: leave out "
                         "tls_certificate and tls_key, or set tls: manual");
    if (check_jwt(c, err) < 0 || check_webhook(c, err) < 0 ||
        check_audit(c, err) < 0 || check_sharing(c, err) < 0)
        return -(int)err->code;
    /* One thread at least must be left to answer what is not an execution,
     * an interrupt above all. */
    if (c->max_executions >= c->workers) {
        (void)error_set(err, ERR_INVALID,
                        "max_executions (%u) must be less than workers (%u)",
                        c->max_executions, c->workers);
        return error_hint(err, "lower max_executions or raise workers");
    }
    if (c->uid_base > UINT32_MAX - 2 - c->uid_count)
        return error_set(err, ERR_INVALID,
                         "uid_base plus uid_count is above %u",
                         UINT32_MAX - 2);
    if (check_pairs(c, &conf_options_top, top_pairs, ARRAY_SIZE(top_pairs),
                    err) < 0)
        return -(int)err->code;
    return check_pools(c, err);
}
