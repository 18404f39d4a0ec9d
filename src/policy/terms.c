/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One condition of a rule: a value or a list of values, each perhaps with "!"
 * in front, to terms that are quick to compare. Pure. What could never match
 * (a misspelt language, an empty list) is an error, since a rule that is
 * silently dead is a hole.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "auth/auth.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "policy/policy_int.h"

static char *lower(struct arena *arena, const char *text)
{
    char *s = arena_strdup(arena, text);

    for (char *p = s; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return s;
}

void policy_terms_package(const char *name, char *ret, size_t size)
{
    size_t used = 0;

    for (const char *p = name; *p && used + 1 < size; p++) {
        bool mark = *p == '-' || *p == '_' || *p == '.';

        if (mark && used && ret[used - 1] == '-')
            continue;
        ret[used++] = mark ? '-' : (char)tolower((unsigned char)*p);
    }
    ret[used] = '\0';
}

static int check_choice(const struct policy_key *key,
                        const struct yaml_node *n, const char *text,
                        struct error *err)
{
    size_t count = 0;

    for (; key->choices[count]; count++)
        if (strcasecmp(key->choices[count], text) == 0)
            return 0;
    return policy_compile_unknown(n, key->name, text, key->choices, count,
                                  err);
}

/* "host", "*.host", "host:port", "[::1]:443"; "*:22" is any host. */
static int destination(struct arena *arena, const char *text,
                       struct policy_term *ret, struct error *err)
{
    char *host = lower(arena, text);
    char *colon = strrchr(host, ':');
    char *end = NULL;
    unsigned long port = 0;
    size_t len;

    if (host[0] == '[') {
        char *close = strchr(host, ']');

        colon = close && close[1] == ':' ? close + 1 : NULL;
        if (!close || (close[1] && !colon))
            return error_set(err, ERR_INVALID, "\"%.64s\" is no destination",
                             text);
        *close = '\0';
        host++;
    } else if (colon && strchr(host, ':') != colon) {
        colon = NULL; /* a plain IPv6 address */
    }
    if (colon) {
        *colon = '\0';
        port = strtoul(colon + 1, &end, 10);
        if (!isdigit((unsigned char)colon[1]) || *end || port < 1 ||
            port > 65535)
            return error_set(err, ERR_INVALID,
                             "\"%.64s\": a port is a number from 1 to 65535",
                             text);
    }
    len = strlen(host);
    if (len && host[len - 1] == '.')
        host[--len] = '\0';
    for (const char *p = host; *p; p++)
        if ((unsigned char)*p > 0x7e || strchr(" /@%", *p)) {
            (void)error_set(err, ERR_INVALID, "\"%.64s\" is no destination",
                            text);
            return error_hint(err, "a host or host:port, such as "
                                   "*.example.org:443; other than ASCII as "
                                   "xn--…");
        }
    if (!len)
        return error_set(err, ERR_INVALID, "\"%.64s\" is no destination",
                         text);
    ret->text = host;
    ret->port = (int)port;
    return 0;
}

static int scope(const char *text, struct policy_term *ret, struct error *err)
{
    return strchr(text, ',')
               ? error_set(err, ERR_INVALID,
                           "several scopes are written as a list")
               : auth_scopes_parse(text, &ret->bits, err);
}

static int parse_term(struct arena *arena, const struct policy_key *key,
                      const struct yaml_node *n, const char *text,
                      struct policy_term *ret, struct error *err)
{
    char package[POLICY_ITEM_BYTES + 1];

    switch (key->kind) {
    case KEY_EXACT:
        ret->text = arena_strdup(arena, text);
        return 0;
    case KEY_ACTION:
    case KEY_TEXT:
    case KEY_TYPE:
        ret->text = lower(arena, text);
        if (key->choices && !strpbrk(text, "*?"))
            return check_choice(key, n, text, err);
        return 0;
    case KEY_PACKAGE:
        policy_terms_package(text, package, sizeof(package));
        ret->text = arena_strdup(arena, package);
        return 0;
    case KEY_DESTINATION:
        return destination(arena, text, ret, err);
    case KEY_BYTES:
    case KEY_SECONDS:
        return policy_value_range(text, key->kind, &ret->range, err);
    case KEY_HOURS:
        return policy_value_hours(text, &ret->from, &ret->to, err);
    case KEY_DAYS:
        return policy_value_days(text, &ret->bits, err);
    case KEY_SCOPES:
        return scope(text, ret, err);
    }
    return error_set(err, ERR_INTERNAL, "a key of no kind");
}

static int add_term(struct arena *arena, const struct yaml_node *n,
                    struct policy_condition *c, struct error *err)
{
    struct policy_term *t = &c->terms[c->count];
    const char *text = n->text;
    int rc;

    if (n->kind != NODE_SCALAR) {
        (void)error_set(err, ERR_INVALID, "%s takes a value or a list of them",
                        c->key->name);
        return policy_compile_at(n, err);
    }
    t->negated = text[0] == '!';
    text += t->negated;
    if (!text[0] || n->len > POLICY_ITEM_BYTES ||
        !path_plain(text, strlen(text))) {
        (void)error_set(err, ERR_INVALID,
                        "a value of %s has 1 to %u bytes of plain text",
                        c->key->name, POLICY_ITEM_BYTES);
        return policy_compile_at(n, err);
    }
    rc = parse_term(arena, c->key, n, text, t, err);
    if (rc < 0)
        return strncmp(err->message, "line ", 5) == 0
                   ? rc
                   : policy_compile_at(n, err);
    t->wild = t->text && strpbrk(t->text, "*?");
    c->any = c->any || !t->negated;
    c->count++;
    return 0;
}

int policy_terms_parse(struct arena *arena, const struct policy_key *key,
                       const struct yaml_node *n, struct policy_condition *ret,
                       struct error *err)
{
    struct buf written cleanup(buf_done) = {0};
    struct policy_condition c = {.key = key};
    bool list = n->kind == NODE_LIST;
    int rc = 0;

    if (list && (n->count == 0 || n->count > POLICY_ITEMS_MAX)) {
        (void)error_set(err, ERR_INVALID, "%s: a list has 1 to %u values",
                        key->name, POLICY_ITEMS_MAX);
        return policy_compile_at(n, err);
    }
    c.terms = arena_alloc(arena, (list ? n->count : 1) * sizeof(*c.terms));
    for (const struct yaml_node *i = list ? n->first : n; i && rc == 0;
         i = list ? i->next : NULL) {
        rc = add_term(arena, i, &c, err);
        if (rc == 0)
            buf_addf(&written, "%s%s", written.len ? ", " : "", i->text);
    }
    if (rc < 0)
        return rc;
    c.written = arena_strndup(arena, written.data, written.len);
    *ret = c;
    return 0;
}
