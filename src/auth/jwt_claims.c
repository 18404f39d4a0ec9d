/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the claims of a token whose signature is right to a principal: is it
 * of our issuer, for us, and of now; whose tenant is it; what may it do. See
 * jwt_int.h. Runs in the daemon on the threads that serve requests; the rules
 * do not change while it runs.
 */
#include <ctype.h>
#include <string.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/mem.h"
#include "base/path.h"

#define SUBJECT_MAX 512
#define SECONDS_MAX 9e12 /* still exact, and milliseconds of it fit */

/* ---- rules -------------------------------------------------------------- */

/* Cuts a list at the separators; each piece owned by ret. */
static int split_list(const char *text, const char *separators,
                      const char *what, char *ret[JWT_LIST_MAX],
                      size_t *ret_count, struct error *err)
{
    while (*(text += strspn(text, separators))) {
        size_t len = strcspn(text, separators);

        if (*ret_count == JWT_LIST_MAX)
            return error_set(err, ERR_INVALID, "%s has more than %d entries",
                             what, JWT_LIST_MAX);
        ret[(*ret_count)++] = xstrndup(text, len);
        text += len;
    }
    return 0;
}

/* "Name=execute+files:read" */
static int read_rule(char *text, struct jwt_rule *ret, struct error *err)
{
    char *equals = strrchr(text, '=');

    if (!equals || equals == text) {
        (void)error_set(err, ERR_INVALID, "jwt_scopes: \"%.64s\" is no rule",
                        text);
        return error_hint(err, "Write NAME=SCOPE+SCOPE,NAME=SCOPE.");
    }
    *equals = '\0';
    for (char *p = equals + 1; *p; p++)
        if (*p == '+')
            *p = ',';
    if (auth_scopes_parse(equals + 1, &ret->scopes, err) < 0)
        return error_wrap(err, "jwt_scopes");
    ret->name = xstrdup(text);
    return 0;
}

static int read_scopes(struct jwt_rules *r, const char *text,
                       struct error *err)
{
    char *pieces[JWT_LIST_MAX];
    size_t count = 0;
    int result = split_list(text, ", ", "jwt_scopes", pieces, &count, err);

    for (size_t i = 0; i < count; i++) {
        if (result == 0)
            result = read_rule(pieces[i], &r->scopes[r->scope_count], err);
        if (result == 0)
            r->scope_count++;
        free(pieces[i]);
    }
    return result;
}

static char *claim_name(const char *name)
{
    return name && name[0] ? xstrdup(name) : NULL;
}

int auth_jwt_rules_init(struct jwt_rules *r, const struct auth_jwt_settings *s,
                        struct error *err)
{
    memset(r, 0, sizeof(*r));
    r->issuer = xstrdup(s->issuer);
    r->tenant_claim = xstrdup(s->tenant_claim);
    r->tenant = s->tenant && s->tenant[0] ? xstrdup(s->tenant) : NULL;
    r->bound_claims[ACTOR_POOLS] = claim_name(s->pool_claim);
    r->bound_claims[ACTOR_WORKSPACES] = claim_name(s->workspace_claim);
    r->skew_s = MIN(s->clock_skew_s, (uint32_t)JWT_SKEW_MAX_S);
    if (split_list(s->audiences, ", ", "jwt_audiences", r->audiences,
                   &r->audience_count, err) < 0 ||
        split_list(s->scope_claims, ", ", "jwt_scope_claims", r->scope_claims,
                   &r->scope_claim_count, err) < 0 ||
        read_scopes(r, s->scopes, err) < 0)
        return -(int)err->code;
    if (r->audience_count == 0)
        return error_set(err, ERR_INVALID, "jwt_audiences is empty");
    if (s->default_scopes[0] &&
        auth_scopes_parse(s->default_scopes, &r->default_scopes, err) < 0)
        return error_wrap(err, "jwt_default_scopes");
    return 0;
}

void auth_jwt_rules_done(struct jwt_rules *r)
{
    free(r->issuer);
    free(r->tenant_claim);
    free(r->tenant);
    for (size_t i = 0; i < ACTOR_BOUNDS; i++)
        free(r->bound_claims[i]);
    for (size_t i = 0; i < r->audience_count; i++)
        free(r->audiences[i]);
    for (size_t i = 0; i < r->scope_claim_count; i++)
        free(r->scope_claims[i]);
    for (size_t i = 0; i < r->scope_count; i++)
        free(r->scopes[i].name);
}

/* ---- claims ------------------------------------------------------------- */

static int refuse_claim(struct error *err, const char *why)
{
    return error_set(err, ERR_UNAUTHENTICATED, "%s", why);
}

/* Milliseconds of a time in seconds; false when it is none. */
static bool read_time(const json_t *value, int64_t *ret_ms)
{
    double seconds = json_number_value(value);

    if (!json_is_number(value) || !(seconds >= 0 && seconds < SECONDS_MAX))
        return false;
    *ret_ms = (int64_t)(seconds * 1000);
    return true;
}

static int check_times(const struct jwt_rules *r, const json_t *claims,
                       int64_t now_ms, int64_t *ret_until_ms,
                       struct error *err)
{
    const json_t *not_before = json_object_get(claims, "nbf");
    int64_t skew = (int64_t)r->skew_s * 1000, end, begin = 0;

    if (!read_time(json_object_get(claims, "exp"), &end))
        return refuse_claim(err, "the token says not when it ends");
    if (not_before && !read_time(not_before, &begin))
        return refuse_claim(err, "the token's nbf is no time");
    if (now_ms >= end + skew)
        return refuse_claim(err, "the token has expired");
    if (now_ms < begin - skew)
        return refuse_claim(err, "the token is not valid yet");
    *ret_until_ms = end + skew;
    return 0;
}

static bool is_audience(const struct jwt_rules *r, const json_t *value)
{
    const char *text = json_string_value(value);

    for (size_t i = 0; text && i < r->audience_count; i++)
        if (strcmp(text, r->audiences[i]) == 0)
            return true;
    return false;
}

static bool is_our_audience(const struct jwt_rules *r, const json_t *aud)
{
    if (json_is_string(aud))
        return is_audience(r, aud);
    for (size_t i = 0; i < json_array_size(aud); i++)
        if (is_audience(r, json_array_get(aud, i)))
            return true;
    return false;
}

static int take_tenant(const struct jwt_rules *r, const json_t *claims,
                       char ret[AUTH_TENANT_MAX], struct error *err)
{
    const char *text =
        r->tenant
            ? r->tenant
            : json_string_value(json_object_get(claims, r->tenant_claim));
    size_t len = text ? strlen(text) : 0;

    if (len == 0 || len >= AUTH_TENANT_MAX)
        return refuse_claim(err,
                            "the token names no tenant, or too long a one");
    for (size_t i = 0; i <= len; i++) {
        char c = text[i];

        if (isascii(c) && (isalnum(c) || c == '_' || c == '\0'))
            ret[i] = (char)tolower(c);
        else
            ret[i] = '-';
    }
    return 0;
}

/* The same person has the same id as long as the issuer calls them so. */
static int take_id(const struct jwt_rules *r, const json_t *claims,
                   char ret[ID_MAX], struct error *err)
{
    const char *subject = json_string_value(json_object_get(claims, "sub"));
    unsigned char hash[HASH_SIZE];
    struct hash_stream *h;

    if (!subject || !subject[0] || strlen(subject) > SUBJECT_MAX)
        return refuse_claim(err,
                            "the token has no subject, or too long a one");
    h = hash_stream_new();
    hash_stream_add(h, r->issuer, strlen(r->issuer) + 1);
    hash_stream_add(h, subject, strlen(subject));
    hash_stream_end(h, hash);
    memcpy(ret, "jwt_", 4);
    (void)ids_hex(hash, 16, ret + 4);
    return 0;
}

static uint32_t scopes_of_word(const struct jwt_rules *r, const char *word,
                               size_t len)
{
    for (size_t i = 0; i < r->scope_count; i++)
        if (strlen(r->scopes[i].name) == len &&
            memcmp(r->scopes[i].name, word, len) == 0)
            return r->scopes[i].scopes;
    return 0;
}

/* Words with blanks between, as in scp, or a list of them, as in roles. */
static uint32_t scopes_of_claim(const struct jwt_rules *r, const json_t *value)
{
    const char *text = json_string_value(value);
    uint32_t scopes = 0;

    while (text && *(text += strspn(text, " "))) {
        size_t len = strcspn(text, " ");

        scopes |= scopes_of_word(r, text, len);
        text += len;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *word = json_string_value(json_array_get(value, i));

        if (word)
            scopes |= scopes_of_word(r, word, strlen(word));
    }
    return scopes;
}

static int add_bound(struct actor_bounds *bounds, enum actor_bound what,
                     const char *text, size_t len, struct error *err)
{
    char *id cleanup(mem_free) = xstrndup(text, len);

    if (auth_restriction_add(bounds, what, id, err) == 0)
        return 0;
    /* An unreadable claim must not be ignored: the token would be unbound. */
    return refuse_claim(err, "a claim that binds the token cannot be read");
}

/* Words with blanks between, or a list of them. A claim that is there and
 * names nothing allows nothing. */
static int take_bound(const struct jwt_rules *r, const json_t *claims,
                      enum actor_bound what, struct actor_bounds *ret,
                      struct error *err)
{
    const char *name = r->bound_claims[what];
    const json_t *value = name ? json_object_get(claims, name) : NULL;
    const char *text = json_string_value(value);
    int result = 0;

    if (!value)
        return 0;
    while (result == 0 && text && *(text += strspn(text, " "))) {
        size_t len = strcspn(text, " ");

        result = add_bound(ret, what, text, len, err);
        text += len;
    }
    for (size_t i = 0; result == 0 && i < json_array_size(value); i++) {
        const char *word = json_string_value(json_array_get(value, i));

        result = word ? add_bound(ret, what, word, strlen(word), err)
                      : refuse_claim(
                            err, "a claim that binds the token holds no text");
    }
    if (result == 0 && !ret->ids[what][0])
        result = refuse_claim(err, "a claim that binds the token is empty");
    return result;
}

/* The display name of the subject: the first of these claims that is plain
 * text of a sensible length. It is not an identity; key_id is. */
static void take_name(const json_t *claims, char ret[AUTH_NAME_MAX])
{
    static const char *const members[] = {"preferred_username", "upn", "email",
                                          "name", "sub"};

    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        const char *text =
            json_string_value(json_object_get(claims, members[i]));
        size_t len = text ? strlen(text) : 0;

        if (len == 0 || len >= AUTH_NAME_MAX || !path_plain(text, len))
            continue;
        memcpy(ret, text, len + 1);
        return;
    }
}

int auth_jwt_claims(const struct jwt_rules *r, const json_t *claims,
                    int64_t now_ms, struct principal *ret,
                    int64_t *ret_until_ms, struct error *err)
{
    const char *issuer = json_string_value(json_object_get(claims, "iss"));
    struct principal who = {.scopes = r->default_scopes};
    int result;

    if (!issuer || strcmp(issuer, r->issuer) != 0)
        return refuse_claim(err, "the token is of another issuer");
    if (!is_our_audience(r, json_object_get(claims, "aud")))
        return refuse_claim(err, "the token is for another audience");
    result = check_times(r, claims, now_ms, ret_until_ms, err);
    if (result == 0)
        result = take_tenant(r, claims, who.tenant, err);
    if (result == 0)
        result = take_id(r, claims, who.key_id, err);
    for (int b = 0; result == 0 && b < ACTOR_BOUNDS; b++)
        result = take_bound(r, claims, (enum actor_bound)b, &who.bounds, err);
    if (result < 0)
        return result;
    take_name(claims, who.name);
    who.expires_at_ms = *ret_until_ms;
    for (size_t i = 0; i < r->scope_claim_count; i++)
        who.scopes |=
            scopes_of_claim(r, json_object_get(claims, r->scope_claims[i]));
    if (!who.scopes) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "this token has none of the roles it needs");
        return error_hint(err,
                          "Ask the administrator of the issuer to grant one.");
    }
    if (who.scopes & AUTH_ADMIN)
        who.scopes = AUTH_SCOPES_ALL;
    *ret = who;
    return 0;
}
