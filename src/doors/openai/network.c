/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_policy of a container: names it may reach, and secrets that go to
 * some of them. Reading is pure. A secret that comes with a container is kept
 * in the vault under its name, bound to its domain, as PUT /api/secrets/{name}
 * would: so its key must be one that may do that.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "vault/vault.h"
#include "json/json.h"

#define POLICY "network_policy"
#define DOMAINS POLICY ".allowed_domains"
#define SECRETS POLICY ".domain_secrets"

struct body {
    int type;
    const json_t *allowed_domains, *domain_secrets;
};

static const char *const types[] = {"disabled", "allowlist", NULL};
static const struct json_field fields[] = {
    {"type", JSON_KIND_CHOICE, .required = true,
     .offset = offsetof(struct body, type), .choices = types},
    {"allowed_domains", JSON_KIND_ARRAY,
     .offset = offsetof(struct body, allowed_domains),
     .max = NETWORK_DESTINATIONS_MAX},
    {"domain_secrets", JSON_KIND_ARRAY,
     .offset = offsetof(struct body, domain_secrets), .max = INT64_MAX},
};

struct secret {
    const char *domain, *name, *value;
};

static const struct json_field secret_fields[] = {
    {"domain", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct secret, domain), .min = 1, .max = 253},
    {"name", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct secret, name), .min = 1, .max = 63},
    {"value", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct secret, value), .min = 1,
     .max = VAULT_VALUE_MAX},
};

static int read_secret(const json_t *value, struct secret *ret,
                       struct openai_fault *fault, struct error *err)
{
    if (!json_is_object(value))
        return openai_invalid(fault, "invalid_type", SECRETS, err,
                              "Invalid type for '" SECRETS
                              "': expected objects.");
    return openai_read(value, SECRETS, secret_fields,
                       ARRAY_SIZE(secret_fields), ret, fault, err);
}

static int check_secrets(const json_t *list, struct openai_fault *fault,
                         struct error *err)
{
    struct secret ignored;
    int r = 0;

    if (list && json_array_size(list) == 0)
        return openai_invalid(fault, "invalid_value", SECRETS, err,
                              "Invalid value for '" SECRETS
                              "': expected at least one entry.");
    if (json_array_size(list) > NETWORK_DESTINATIONS_MAX)
        return openai_invalid(fault, "invalid_value", SECRETS, err,
                              "Invalid value for '" SECRETS
                              "': expected at most %u entries.",
                              NETWORK_DESTINATIONS_MAX);
    for (size_t i = 0; i < json_array_size(list) && r == 0; i++)
        r = read_secret(json_array_get(list, i), &ignored, fault, err);
    return r;
}

int openai_network_decode(const json_t *object, struct openai_network *ret,
                          struct openai_fault *fault, struct error *err)
{
    struct body b = {0};
    int r = openai_read(object, POLICY, fields, ARRAY_SIZE(fields), &b, fault,
                        err);

    if (r < 0)
        return r;
    if (b.type == 0 && (b.allowed_domains || b.domain_secrets))
        return openai_invalid(fault, "invalid_value", POLICY ".type", err,
                              "Invalid value: 'disabled' has no domains; "
                              "'allowlist' has.");
    if (b.type != 0 && json_array_size(b.allowed_domains) == 0)
        return openai_invalid(fault, "invalid_value", DOMAINS, err,
                              "Invalid value for '" DOMAINS
                              "': expected at least one domain.");
    if (b.allowed_domains)
        r = openai_read_strings(b.allowed_domains, DOMAINS,
                                NETWORK_DESTINATIONS_MAX, fault, err);
    if (r == 0)
        r = check_secrets(b.domain_secrets, fault, err);
    if (r == 0)
        *ret = (struct openai_network){.said = true,
                                       .allowlist = b.type != 0,
                                       .domains = b.allowed_domains,
                                       .secrets = b.domain_secrets};
    return r;
}

/* ---- for the core ------------------------------------------------------- */

/* A name that is bound to something else already stays as it is. */
static int keep_secret(struct doors_call *call, const struct secret *s,
                       struct error *err)
{
    struct vault_info spec = {.header = "Authorization", .prefix = "Bearer "};
    struct vault_info info;
    struct error ignored;

    if (!(call->who.scopes & AUTH_POLICY_ADMIN)) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "a key needs the scope policy:admin to bring secrets");
        return error_hint(err, "put it into the vault once, with a key that "
                               "may: PUT /api/secrets/NAME");
    }
    (void)snprintf(spec.name, sizeof(spec.name), "%s", s->name);
    (void)snprintf(spec.destinations, sizeof(spec.destinations), "%s",
                   s->domain);
    if (vault_get(call->doors->core->vault, &call->actor, s->name, &info,
                  &ignored) == 0 &&
        !vault_goes_to(&info, s->domain))
        return error_set(err, ERR_CONFLICT,
                         "the secret '%s' is bound to other domains", s->name);
    return vault_put(call->doors->core->vault, &call->actor, &spec, s->value,
                     strlen(s->value), &info, err);
}

static struct network_destination *find(struct network_destination *list,
                                        size_t count, const char *domain)
{
    for (size_t i = 0; i < count; i++)
        if (domain && strcmp(list[i].host, domain) == 0)
            return &list[i];
    return NULL;
}

static int add_secrets(struct doors_call *call, const json_t *secrets,
                       struct network_destination *list, size_t count,
                       struct error *err)
{
    struct openai_fault *fault = openai_fault(call);
    int r = 0;

    for (size_t i = 0; i < json_array_size(secrets) && r == 0; i++) {
        struct network_destination *d;
        struct secret s = {0};

        r = read_secret(json_array_get(secrets, i), &s, fault, err);
        if (r < 0)
            return r;
        d = find(list, count, s.domain);
        if (!d || d->secret)
            return openai_invalid(fault, "invalid_value", SECRETS, err,
                                  "Invalid value: '%.80s'. Expected one of "
                                  "'" DOMAINS "', each at most once.",
                                  s.domain);
        d->secret = s.name;
        d->inspect = true; /* it could not be added otherwise */
        r = keep_secret(call, &s, err);
    }
    return r;
}

int openai_network_spec(struct doors_call *call,
                        const struct openai_network *asked,
                        const struct network_spec **ret, struct error *err)
{
    struct arena *arena = http_arena(call->http);
    size_t count = json_array_size(asked->domains);
    struct network_destination *list =
        arena_alloc(arena, (count + 1) * sizeof(*list));
    struct network_spec *net = arena_alloc(arena, sizeof(*net));
    int r;

    if (!asked->said)
        return 0;
    for (size_t i = 0; i < count; i++)
        list[i].host = json_string_value(json_array_get(asked->domains, i));
    r = add_secrets(call, asked->secrets, list, count, err);
    if (r < 0)
        return r;
    *net = (struct network_spec){.mode = asked->allowlist
                                             ? SESSION_EGRESS_ALLOWLIST
                                             : SESSION_EGRESS_NONE,
                                 .destinations = list,
                                 .destination_count = count};
    *ret = net;
    return 0;
}

void openai_network_encode(struct json_writer *w,
                           const struct session_info *info)
{
    const char *rest = info->hosts ? info->hosts : "";

    json_write_open(w, POLICY, '{');
    json_write_string(w, "type",
                      info->egress == SESSION_EGRESS_NONE ? "disabled"
                                                          : "allowlist");
    if (info->egress != SESSION_EGRESS_NONE) {
        json_write_open(w, "allowed_domains", '[');
        if (info->egress == SESSION_EGRESS_OPEN)
            json_write_string(w, NULL, "*");
        while (*rest) {
            size_t n = strcspn(rest, ",");

            json_write_text(w, NULL, rest, n);
            rest += n + (rest[n] == ',');
        }
        json_write_close(w, ']');
    }
    json_write_close(w, '}');
}
