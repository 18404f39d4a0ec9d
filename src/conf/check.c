/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the settings fit together; each alone was checked when it was set.
 * Runs in the daemon and the command line, called by conf_load last. Changes
 * nothing: what does not fit is refused, not mended.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/url.h"
#include "conf/conf_int.h"

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
    return url_is_loopback(c->listen_host);
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

/* Also named in wire/warden_msg.h, where SPAWN carries it. Whether this host
 * has what a tier needs is asked of the warden (service/). */
static int check_isolation(const struct conf_pool *pool, struct error *err)
{
    if (strcmp(pool->isolation, "process") == 0)
        return 0;
    if (strcmp(pool->isolation, "gvisor") == 0) {
        if (pool->zygote)
            return 0;
        (void)error_set(err, ERR_INVALID,
                        "isolation gvisor cannot have zygote: false, because "
                        "its sessions share the memory layout of a "
                        "checkpoint");
        return error_hint(err, "Leave out zygote, or set isolation to "
                               "process.");
    }
    (void)error_set(err, ERR_INVALID, "isolation: there is no tier \"%s\"",
                    pool->isolation);
    return error_hint(err, "Set isolation to process or gvisor.");
}

static int check_models(const struct conf *c, struct error *err)
{
    const char *standard = NULL;

    for (size_t i = 0; i < c->model_count; i++) {
        const struct conf_model *m = &c->models[i];

        for (size_t j = 0; j < i; j++)
            if (strcmp(m->name, c->models[j].name) == 0)
                return error_set(err, ERR_INVALID,
                                 "two models are named \"%s\"", m->name);
        if (m->is_default && standard)
            return error_set(err, ERR_INVALID,
                             "models %s and %s are both the default", standard,
                             m->name);
        if (m->is_default)
            standard = m->name;
        if (strcmp(m->kind, "echo") != 0 &&
            strncmp(m->url, "http://", 7) != 0 &&
            strncmp(m->url, "https://", 8) != 0) {
            (void)error_set(err, ERR_INVALID,
                            "model %s: url must begin with https:// or "
                            "http://",
                            m->name);
            return error_hint(err, "Set url to the base URL of the server, "
                                   "for example http://127.0.0.1:8080/v1.");
        }
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
        if (check_isolation(&c->pools[i], err) < 0)
            return error_wrap(err, "pool %s", c->pools[i].name);
    }
    return 0;
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
    if (c->jwt_jwks_url[0] && !url_is_safe(c->jwt_jwks_url))
        return error_set(err, ERR_INVALID,
                         "jwt_jwks_url must be https, or http to a loopback "
                         "address");
    return 0;
}

static int check_oidc(const struct conf *c, struct error *err)
{
    const char *const urls[] = {c->oidc_authorization_url, c->oidc_token_url};
    bool given = urls[0][0] || urls[1][0];

    if (!c->oidc_client_id[0])
        return given || c->oidc_client_secret_file[0]
                   ? error_set(err, ERR_INVALID,
                               "signing in with the issuer is set up but "
                               "oidc_client_id is empty")
                   : 0;
    if (!c->jwt_issuer[0])
        return error_set(err, ERR_INVALID,
                         "oidc_client_id needs jwt_issuer: who people sign in "
                         "with");
    if (!given && !url_is_safe(c->jwt_issuer)) {
        (void)error_set(err, ERR_INVALID,
                        "jwt_issuer is no https address, so its endpoints "
                        "cannot be looked up");
        return error_hint(err, "set oidc_authorization_url and "
                               "oidc_token_url");
    }
    for (size_t i = 0; given && i < ARRAY_SIZE(urls); i++)
        if (!url_is_safe(urls[i]) || strchr(urls[i], '#'))
            return error_set(err, ERR_INVALID,
                             "oidc_authorization_url and oidc_token_url must "
                             "both be https, or http to a loopback address, "
                             "without a fragment");
    return 0;
}

static int check_webhook(const struct conf *c, struct error *err)
{
    if (!c->webhook_url[0])
        return 0;
    if (!url_is_safe(c->webhook_url))
        return error_set(err, ERR_INVALID,
                         "webhook_url must be https, or http to a loopback "
                         "address");
    if (!c->webhook_secret_file[0])
        return error_set(err, ERR_INVALID,
                         "webhook_url needs webhook_secret_file, under which "
                         "announcements are signed");
    return 0;
}

static int check_bucket(const struct conf_bucket *b, struct error *err)
{
    static const char *const uses[] = {"blobs", "mirror", "attach"};
    const char *at = b->use;

    if (!url_is_safe(b->endpoint))
        return error_set(err, ERR_INVALID,
                         "endpoint must be https, or http to a loopback "
                         "address");
    while (*at) {
        size_t n = strcspn(at, ","), i = 0;

        while (i < ARRAY_SIZE(uses) &&
               (strlen(uses[i]) != n || strncmp(at, uses[i], n) != 0))
            i++;
        if (i == ARRAY_SIZE(uses))
            return error_set(err, ERR_INVALID,
                             "use is a list of blobs, mirror and attach");
        at += n + (at[n] == ',');
    }
    return 0;
}

static int check_buckets(const struct conf *c, struct error *err)
{
    const struct conf_bucket *blobs = conf_bucket_find(c, c->blob_bucket);

    for (size_t i = 0; i < c->bucket_count; i++) {
        for (size_t j = 0; j < i; j++)
            if (strcmp(c->buckets[i].name, c->buckets[j].name) == 0)
                return error_set(err, ERR_INVALID,
                                 "two buckets are named \"%s\"",
                                 c->buckets[i].name);
        if (check_bucket(&c->buckets[i], err) < 0)
            return error_wrap(err, "bucket %s", c->buckets[i].name);
    }
    if (!c->blob_bucket[0])
        return 0;
    if (!blobs || !conf_list_has(blobs->use, "blobs"))
        return error_set(err, ERR_INVALID,
                         "blob_bucket %s is no entry of buckets whose use is "
                         "blobs",
                         c->blob_bucket);
    if (blobs->tenants[0])
        return error_set(err, ERR_INVALID,
                         "bucket %s is blob_bucket, which is that of all "
                         "tenants; leave its tenants empty",
                         c->blob_bucket);
    return 0;
}

/* A scheme, a host and perhaps a path: what a URL of ours begins with. */
static bool is_public_url(const char *url)
{
    static const char path_chars[] = "abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-._~/";
    size_t scheme = strncmp(url, "https://", 8) == 0  ? 8
                    : strncmp(url, "http://", 7) == 0 ? 7
                                                      : 0;
    size_t len = strcspn(url + scheme, "/");

    return scheme && url_authority_valid(url + scheme, len) &&
           strspn(url + scheme + len, path_chars) ==
               strlen(url + scheme + len) &&
           !strstr(url + scheme + len, "//") &&
           !strstr(url + scheme + len, "/.");
}

static int check_public_url(const struct conf *c, struct error *err)
{
    if (!c->public_url[0] || is_public_url(c->public_url))
        return 0;
    (void)error_set(err, ERR_INVALID,
                    "public_url: \"%s\" is not the beginning of a URL",
                    c->public_url);
    return error_hint(err, "write https://HOST, https://HOST:PORT or "
                           "https://HOST/PATH (or http), without user, query "
                           "or fragment");
}

static int check_audit(const struct conf *c, struct error *err)
{
    if (c->audit_syslog[0] && strncmp(c->audit_syslog, "unix:/", 6) != 0 &&
        strncmp(c->audit_syslog, "udp:", 4) != 0)
        return error_set(err, ERR_INVALID,
                         "audit_syslog must be unix:/PATH or "
                         "udp:ADDRESS:PORT");
    if (c->audit_otlp_url[0] && !url_is_safe(c->audit_otlp_url))
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
    if (!c->allow_remote && !url_is_loopback(c->listen_host)) {
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
    if (check_jwt(c, err) < 0 || check_oidc(c, err) < 0 ||
        check_webhook(c, err) < 0 || check_audit(c, err) < 0 ||
        check_sharing(c, err) < 0 || check_public_url(c, err) < 0)
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
    if (check_models(c, err) < 0 || check_buckets(c, err) < 0)
        return -(int)err->code;
    return check_pools(c, err);
}
