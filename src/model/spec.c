/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model may be: names, kinds, URLs, prices. The one place that checks
 * them, for the configuration and for the API.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/url.h"
#include "conf/conf.h"
#include "egress/host.h"
#include "model/model_int.h"

#define PRICE_UNIT 1000000u
#define PRICE_MOST 1000000u /* of a million tokens */

static const char *const kinds[] = {
    [MODEL_ECHO] = "echo",
    [MODEL_OPENAI_CHAT] = "openai-chat",
    [MODEL_OPENAI_RESPONSES] = "openai-responses",
    [MODEL_ANTHROPIC] = "anthropic",
};

const char *model_kind_name(enum model_kind kind)
{
    return kinds[kind];
}

bool model_kind_find(const char *name, enum model_kind *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i], name) == 0) {
            *ret = (enum model_kind)i;
            return true;
        }
    return false;
}

/* ---- prices ------------------------------------------------------------- */

bool model_price_parse(const char *text, uint64_t *ret)
{
    uint64_t whole = 0, part = 0, unit = PRICE_UNIT;
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 7)
        return false;
    for (; digits; digits--, text++)
        whole = whole * 10 + (uint64_t)(*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9' && unit > 1; text++) {
            unit /= 10;
            part += (uint64_t)(*text - '0') * unit;
        }
    *ret = whole * PRICE_UNIT + part;
    return !*text && whole <= PRICE_MOST;
}

char *model_price_format(uint64_t price, char ret[32])
{
    int n = snprintf(ret, 32, "%llu.%06llu",
                     (unsigned long long)(price / PRICE_UNIT),
                     (unsigned long long)(price % PRICE_UNIT));

    while (n > 1 && ret[n - 1] == '0' && ret[n - 2] != '.')
        ret[--n] = '\0';
    return ret;
}

/* ---- URLs --------------------------------------------------------------- */

/* The authority of a URL and its length. */
static const char *authority(const char *url, size_t *ret_len)
{
    const char *at = strstr(url, "://");

    if (!at)
        return NULL;
    at += 3;
    *ret_len = strcspn(at, "/?#");
    return at;
}

static int check_url(const struct model_spec *s, struct error *err)
{
    size_t len = 0;
    const char *host = authority(s->url, &len);

    if ((strncmp(s->url, "https://", 8) != 0 &&
         strncmp(s->url, "http://", 7) != 0) ||
        !host || !url_authority_valid(host, len) ||
        strpbrk(s->url, " \t\r\n#")) {
        (void)error_set(err, ERR_INVALID,
                        "model %s: url must be the base URL of a server",
                        s->name);
        return error_hint(err, "For example http://127.0.0.1:8080/v1.");
    }
    if (s->key[0] && !url_is_safe(s->url)) {
        (void)error_set(err, ERR_INVALID,
                        "model %s: a key goes to https:// only, or to "
                        "http:// of this machine",
                        s->name);
        return error_hint(err, "Use https://, or leave out the key.");
    }
    return 0;
}

int model_spec_host(const struct model_spec *spec, char ret[256],
                    struct error *err)
{
    size_t len = 0;
    const char *host = authority(spec->url, &len);
    const char *colon;
    char found[EGRESS_HOST_MAX];
    bool address;
    int r;

    if (!host)
        return error_set(err, ERR_INVALID, "model %s has no URL", spec->name);
    colon = memrchr(host, ':', len);
    if (colon && !memchr(colon, ']', len - (size_t)(colon - host)))
        len = (size_t)(colon - host);
    if (len > 2 && host[0] == '[') {
        host++;
        len -= 2;
    }
    r = egress_host_canonical(host, len, found, &address, err);
    if (r == 0)
        (void)snprintf(ret, 256, "%s", found);
    return r;
}

/* ---- the whole ---------------------------------------------------------- */

static int check_range(const struct model_spec *s, const char *name,
                       uint64_t value, uint64_t most, struct error *err)
{
    return value <= most ? 0
                         : error_set(err, ERR_INVALID,
                                     "model %s: %s must be at most %llu",
                                     s->name, name, (unsigned long long)most);
}

int model_spec_check(const struct model_spec *s, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    size_t len = strlen(s->name);
    int r;

    if (len == 0 || strspn(s->name, letters) != len)
        return error_set(err, ERR_INVALID,
                         "a model's name must be 1 to %d characters of "
                         "[a-zA-Z0-9._:-]",
                         MODEL_NAME_MAX - 1);
    for (const char *p = s->model; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return error_set(err, ERR_INVALID,
                             "model %s: 'model' holds a control character",
                             s->name);
    r = check_range(s, "context_tokens", s->context_tokens, 100000000, err);
    if (r == 0)
        r = check_range(s, "max_output_tokens", s->max_output_tokens, 10000000,
                        err);
    if (r == 0)
        r = check_range(s, "concurrent", s->concurrent, 1000, err);
    if (r == 0)
        r = check_range(s, "timeout_s", s->timeout_s, 86400, err);
    if (r == 0)
        r = check_range(s, "idle_s", s->idle_s, 3600, err);
    if (r == 0 && s->kind == MODEL_ANTHROPIC && s->embeddings)
        r = error_set(err, ERR_INVALID,
                      "model %s: servers of kind anthropic have no embeddings",
                      s->name);
    return r < 0 || s->kind == MODEL_ECHO ? r : check_url(s, err);
}

static int read_price(const char *name, const char *what, const char *text,
                      uint64_t *ret, struct error *err)
{
    if (!*text || model_price_parse(text, ret))
        return 0;
    return error_set(err, ERR_INVALID,
                     "model %s: %s must be a number like 2.50", name, what);
}

int model_spec_of_conf(const struct conf_model *c, struct model_spec *ret,
                       struct error *err)
{
    struct model_spec s = {.is_default = c->is_default,
                           .images = c->images,
                           .tools = c->tools,
                           .embeddings = c->embeddings,
                           .context_tokens = c->context_tokens,
                           .max_output_tokens = c->max_output_tokens,
                           .concurrent = c->concurrent,
                           .timeout_s = c->timeout_s,
                           .idle_s = c->idle_s,
                           .has_cached_price = c->price_cached[0] != '\0'};
    int r;

    /* The table of options bounds each. */
    (void)snprintf(s.name, sizeof(s.name), "%s", c->name);
    (void)snprintf(s.url, sizeof(s.url), "%s", c->url);
    (void)snprintf(s.model, sizeof(s.model), "%s", c->model);
    (void)snprintf(s.key, sizeof(s.key), "%s", c->key);
    if (!model_kind_find(c->kind, &s.kind))
        return error_set(err, ERR_INVALID, "model %s: no kind '%s'", c->name,
                         c->kind);
    r = read_price(c->name, "price_input", c->price_input, &s.price_input,
                   err);
    if (r == 0)
        r = read_price(c->name, "price_output", c->price_output,
                       &s.price_output, err);
    if (r == 0)
        r = read_price(c->name, "price_cached", c->price_cached,
                       &s.price_cached, err);
    if (r == 0)
        r = model_spec_check(&s, err);
    if (r == 0)
        *ret = s;
    return r;
}
