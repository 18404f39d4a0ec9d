/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a condition hold? One of the terms that are not negated must (if there
 * are such), and none of the negated ones; what does not apply to the request
 * holds for neither. Pure, allocates nothing.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/clock.h"
#include "base/mem.h"
#include "policy/policy_int.h"

void policy_subject_init(struct policy_subject *s,
                         const struct policy_request *rq)
{
    s->rq = rq;
    s->zone = NULL;
    s->timed = false;
    s->package[0] = s->type[0] = '\0';
}

void policy_subject_zone(struct policy_subject *s,
                         const struct policy_zone *zone)
{
    s->timed = s->timed && s->zone == zone;
    s->zone = zone;
}

/* In the zone of the layer, else that of the process: see policy_zone_set. */
static const struct tm *when(struct policy_subject *s)
{
    if (!s->timed) {
        int64_t ms = s->rq->at_ms ? s->rq->at_ms : clock_real_ms();
        time_t at = (time_t)(ms / 1000);

        if (s->zone) {
            at += policy_zone_ahead(s->zone, at);
            (void)gmtime_r(&at, &s->tm); /* no year that far */
        } else {
            (void)localtime_r(&at, &s->tm);
        }
        s->timed = true;
    }
    return &s->tm;
}

static bool same(char a, char b, bool fold)
{
    return fold ? tolower((unsigned char)a) == tolower((unsigned char)b)
                : a == b;
}

/* "*" is any run, "?" any byte. Steps back to the last star only, so that no
 * pattern takes longer than the product of both lengths. */
static bool glob(const char *pattern, const char *text, bool fold)
{
    const char *star = NULL, *resume = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern &&
                   (*pattern == '?' || same(*pattern, *text, fold))) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool text_matches(const struct policy_term *t, const char *text,
                         bool fold)
{
    if (t->wild)
        return glob(t->text, text, fold);
    return fold ? strcasecmp(t->text, text) == 0 : strcmp(t->text, text) == 0;
}

static bool in_hours(const struct policy_term *t, const struct tm *tm)
{
    int now = 60 * tm->tm_hour + tm->tm_min;

    return t->from < t->to ? now >= t->from && now < t->to
                           : now >= t->from || now < t->to;
}

/* A name the way it is compared, in the subject's own room. */
static const char *prepared(const struct policy_key *key,
                            struct policy_subject *s, const char *text)
{
    size_t len;

    if (key->kind == KEY_PACKAGE) {
        policy_terms_package(text, s->package, sizeof(s->package));
        return s->package;
    }
    if (key->kind != KEY_TYPE)
        return text;
    len = strcspn(text, "; \t");
    (void)snprintf(s->type, sizeof(s->type), "%.*s", (int)MIN(len, 127u),
                   text);
    return s->type;
}

static bool term_holds(const struct policy_key *key,
                       const struct policy_term *t, struct policy_subject *s,
                       const char *text, int64_t number)
{
    switch (key->kind) {
    case KEY_ACTION: /* a search or a report is a kind of execution */
        return text_matches(t, text, true) ||
               ((s->rq->action == POLICY_SEARCH ||
                 s->rq->action == POLICY_REPORT) &&
                text_matches(t, policy_action_name(POLICY_EXECUTE), true));
    case KEY_TEXT:
    case KEY_PACKAGE:
    case KEY_TYPE:
        return text_matches(t, text, true);
    case KEY_EXACT:
        return text_matches(t, text, false);
    case KEY_DESTINATION:
        return (t->port == 0 || t->port == s->rq->port) &&
               text_matches(t, text, true);
    case KEY_BYTES:
    case KEY_SECONDS:
        return number >= t->range.least && number <= t->range.most;
    case KEY_HOURS:
        return in_hours(t, when(s));
    case KEY_DAYS:
        return (t->bits & (1u << when(s)->tm_wday)) != 0;
    case KEY_SCOPES:
        return (s->rq->who->scopes & t->bits) == t->bits;
    }
    return false;
}

bool policy_match_condition(const struct policy_condition *c,
                            struct policy_subject *s)
{
    const struct policy_key *key = c->key;
    const char *text = key->text ? key->text(s->rq) : "";
    int64_t number = key->number ? key->number(s->rq) : 0;
    bool hit = !c->any;

    if (!text || number < 0 || (key->kind == KEY_SCOPES && !s->rq->who))
        return false;
    text = prepared(key, s, text);
    for (size_t i = 0; i < c->count; i++) {
        const struct policy_term *t = &c->terms[i];

        if (hit && !t->negated)
            continue;
        if (!term_holds(key, t, s, text, number))
            continue;
        if (t->negated)
            return false;
        hit = true;
    }
    return hit;
}

bool policy_match_value(const struct policy_key *key, struct policy_subject *s,
                        char *ret, size_t size)
{
    static const char *const days[] = {"sun", "mon", "tue", "wed",
                                       "thu", "fri", "sat"};
    const char *text = key->text ? key->text(s->rq) : NULL;
    int64_t number = key->number ? key->number(s->rq) : -1;
    char scopes[96];

    if (key->kind == KEY_HOURS)
        (void)snprintf(ret, size, "%02d:%02d", when(s)->tm_hour,
                       when(s)->tm_min);
    else if (key->kind == KEY_DAYS)
        (void)snprintf(ret, size, "%s", days[when(s)->tm_wday % 7]);
    else if (key->kind == KEY_SCOPES && s->rq->who)
        (void)snprintf(ret, size, "%s",
                       auth_scopes_format(s->rq->who->scopes, scopes));
    else if (key->kind == KEY_DESTINATION && text && s->rq->port)
        (void)snprintf(ret, size, "%s:%d", text, s->rq->port);
    else if (text)
        (void)snprintf(ret, size, "%s", prepared(key, s, text));
    else if (number >= 0)
        (void)snprintf(ret, size, "%lld", (long long)number);
    else
        return false;
    return true;
}
