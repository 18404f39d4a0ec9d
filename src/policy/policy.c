/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in force. Rules are compiled once and never change; a reader takes
 * a reference under a short lock and decides without it, so that readers do
 * not wait for each other nor for a change. Runs in the daemon, on any thread.
 */
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread.h"
#include "policy/policy_int.h"

/* Old versions that sessions are held to, ready compiled. */
#define POLICY_KEPT 16

struct policy_kept {
    struct policy_rules *rules; /* NULL: free */
    uint64_t used;              /* the least is given up */
};

struct policy {
    struct store *store;   /* borrowed */
    struct audit *audit;   /* borrowed */
    char *file;            /* owned; "" none */
    struct mutex changing; /* one put or reload at a time */

    struct mutex lock; /* the rest; a leaf, held for pointers only */
    bool loaded;       /* false: everything is denied */
    struct policy_rules *current; /* NULL and loaded: none was ever put */
    struct policy_kept kept[POLICY_KEPT];
    uint64_t clock;
    char problem[320];
};

/* ---- what holds --------------------------------------------------------- */

/* Taken over; problem NULL: it is loaded. */
static void enforce(struct policy *p, struct policy_rules *rules,
                    const char *problem)
{
    struct policy_rules *was;

    mutex_lock(&p->lock);
    was = p->current;
    p->loaded = problem == NULL;
    if (p->loaded)
        p->current = rules;
    else
        was = NULL; /* its number is still asked for */
    (void)snprintf(p->problem, sizeof(p->problem), "%s",
                   problem ? problem : "");
    mutex_unlock(&p->lock);
    policy_rules_unref(was);
}

static struct policy_rules *find_kept(struct policy *p, int64_t number)
{
    for (size_t i = 0; i < POLICY_KEPT; i++) {
        struct policy_kept *k = &p->kept[i];

        if (k->rules && k->rules->number == number) {
            k->used = ++p->clock;
            return policy_rules_ref(k->rules);
        }
    }
    return NULL;
}

static void cache_rules(struct policy *p, struct policy_rules *rules)
{
    struct policy_kept *oldest = &p->kept[0];
    struct policy_rules *gone;

    mutex_lock(&p->lock);
    for (size_t i = 1; i < POLICY_KEPT; i++)
        if (p->kept[i].used < oldest->used)
            oldest = &p->kept[i];
    gone = oldest->rules;
    oldest->rules = policy_rules_ref(rules);
    oldest->used = ++p->clock;
    mutex_unlock(&p->lock);
    policy_rules_unref(gone);
}

static struct policy_rules *load_version(struct policy *p, int64_t number,
                                         struct error *err)
{
    struct policy_version v = {0};
    struct policy_rules *rules = NULL;
    int rc = policy_versions_get(p->store, number, &v, err);

    if (rc == 0)
        rc = policy_compile(v.text, strlen(v.text), v.number, &rules, err);
    policy_version_done(&v);
    return rc < 0 ? NULL : rules;
}

struct in_force {
    bool usable;
    struct policy_rules *current, *pinned; /* NULL, or referenced */
};

static void in_force_done(struct in_force *f)
{
    policy_rules_unref(f->current);
    policy_rules_unref(f->pinned);
}

static void take_rules(struct policy *p, int64_t pinned, struct in_force *ret)
{
    struct error err;

    *ret = (struct in_force){0};
    mutex_lock(&p->lock);
    ret->usable = p->loaded;
    ret->current = policy_rules_ref(p->current);
    if (ret->current && ret->current->number == pinned)
        pinned = 0;
    if (pinned)
        ret->pinned = find_kept(p, pinned);
    mutex_unlock(&p->lock);
    if (!pinned || ret->pinned || !ret->usable)
        return;
    ret->pinned = load_version(p, pinned, &err);
    if (ret->pinned) {
        cache_rules(p, ret->pinned);
        return;
    }
    ret->usable = false;
    log_event(LOG_ERROR, "policy_version_unusable", "error", err.message,
              NULL);
}

/* No client can have this name: keys are key_…, subjects jwt_…. */
static bool is_service(const struct actor *who)
{
    return who && !who->door && who->key && strcmp(who->key, "glovebox") == 0;
}

void policy_decide(struct policy *p, int64_t pinned,
                   const struct policy_request *rq,
                   struct policy_decision *ret)
{
    struct in_force f cleanup(in_force_done) = {0};

    if (!p || is_service(rq->who)) {
        policy_evaluate(NULL, NULL, rq, ret);
        return;
    }
    take_rules(p, pinned, &f);
    if (f.usable)
        policy_evaluate(f.current, f.pinned, rq, ret);
    else
        policy_evaluate_unloadable(ret);
    if (!f.usable && f.current)
        ret->version = f.current->number;
}

size_t policy_checks(struct policy *p, int64_t pinned,
                     const struct policy_request *rq,
                     struct policy_check ret[POLICY_CHECKS_OF])
{
    struct in_force f cleanup(in_force_done) = {0};
    size_t count = 0;

    if (!p || is_service(rq->who))
        return 0;
    take_rules(p, pinned, &f);
    if (f.usable && f.current)
        count += policy_evaluate_checks(f.current, rq, ret);
    if (f.usable && f.pinned && f.pinned != f.current)
        count += policy_evaluate_checks(f.pinned, rq, ret + count);
    return count;
}

int policy_explain(struct policy *p, int64_t pinned, const char *text,
                   size_t len, const struct policy_request *rq,
                   struct buf *ret_json, struct error *err)
{
    struct in_force f cleanup(in_force_done) = {0};
    struct policy_decision d;

    if (text)
        return policy_explain_text(text, len, rq, ret_json, err);
    take_rules(p, pinned, &f);
    if (f.usable)
        policy_evaluate(f.current, f.pinned, rq, &d);
    else
        policy_evaluate_unloadable(&d);
    policy_explain_rules(f.usable ? f.current : NULL,
                         f.usable ? f.pinned : NULL, rq, &d, ret_json);
    return 0;
}

bool policy_idle(struct policy *p)
{
    bool idle;

    if (!p)
        return true;
    mutex_lock(&p->lock);
    idle = p->loaded && !p->current;
    mutex_unlock(&p->lock);
    return idle;
}

void policy_state(struct policy *p, struct policy_state *ret)
{
    *ret = (struct policy_state){.loaded = true};
    if (!p)
        return;
    mutex_lock(&p->lock);
    ret->version = p->current ? p->current->number : 0;
    ret->loaded = p->loaded;
    memcpy(ret->problem, p->problem, sizeof(ret->problem));
    mutex_unlock(&p->lock);
}

int64_t policy_current(struct policy *p)
{
    struct policy_state state;

    policy_state(p, &state);
    return state.version;
}

/* ---- changing it -------------------------------------------------------- */

/* Compiles first, so that every stored version can be used. */
static int put_in_force(struct policy *p, const struct actor *who,
                        struct policy_version *v, struct error *err)
{
    struct policy_rules *rules cleanup(policy_rules_unrefp) = NULL;
    struct policy_version newest = {0};
    bool same = false;
    int rc = policy_compile(v->text, strlen(v->text), 0, &rules, err);

    if (rc == 0)
        rc = policy_versions_get(p->store, 0, &newest, err);
    if (rc == 0)
        same = strcmp(newest.text, v->text) == 0;
    else if (rc == -ERR_NOT_FOUND)
        rc = 0;
    if (same) {
        policy_version_done(v);
        *v = newest;
        newest.text = NULL;
    } else if (rc == 0) {
        rc = policy_versions_add(p->store, p->audit, who, newest.number, v,
                                 err);
    }
    policy_version_done(&newest);
    if (rc < 0)
        return rc;
    rules->number = v->number;
    enforce(p, take_ptr(rules), NULL);
    return 0;
}

int policy_put(struct policy *p, const struct actor *who, const char *text,
               size_t len, const char *note, struct policy_version *ret,
               struct error *err)
{
    struct policy_version v = {0};
    int rc;

    note = note ? note : "";
    if (p->file[0]) {
        (void)error_set(err, ERR_CONFLICT,
                        "the policy is a file of the operators'");
        return error_hint(err, "change that and reload it, or set policy_file "
                               "to \"\"");
    }
    if (len > POLICY_TEXT_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "the policy is larger than %u KiB",
                         POLICY_TEXT_MAX >> 10);
    if (memchr(text, '\0', len))
        return error_set(err, ERR_INVALID, "the policy holds a zero byte");
    if (strlen(note) >= sizeof(v.note) - 3 || !path_plain(note, strlen(note)))
        return error_set(err, ERR_INVALID,
                         "note has at most %zu bytes of plain text",
                         sizeof(v.note) - 4);
    v.text = xstrndup(text, len);
    (void)snprintf(v.by, sizeof(v.by), "%s", who->key);
    (void)snprintf(v.note, sizeof(v.note), "%s", note);
    mutex_lock(&p->changing);
    rc = put_in_force(p, who, &v, err);
    mutex_unlock(&p->changing);
    if (rc < 0)
        policy_version_done(&v);
    else
        *ret = v;
    return rc;
}

static int load_file(struct policy *p, struct error *err)
{
    struct policy_version v = {.by = "file"};
    size_t len = 0;
    int rc = fd_read_file(AT_FDCWD, p->file, POLICY_TEXT_MAX, &v.text, &len);

    if (rc == -EFBIG)
        rc = error_set(err, ERR_INVALID, "it is larger than %u KiB",
                       POLICY_TEXT_MAX >> 10);
    else if (rc < 0)
        rc = error_errno(err, ERR_INVALID, -rc, "it cannot be read");
    else if (memchr(v.text, '\0', len))
        rc = error_set(err, ERR_INVALID, "it holds a zero byte");
    else
        rc = put_in_force(p, NULL, &v, err);
    policy_version_done(&v);
    return rc < 0 ? error_wrap(err, "the policy's file") : 0;
}

/* The newest that was put; none is fine. */
static int load_newest(struct policy *p, struct error *err)
{
    struct policy_rules *rules = load_version(p, 0, err);

    if (!rules && err->code != ERR_NOT_FOUND)
        return error_wrap(err, "the policy that was put last");
    enforce(p, rules, NULL);
    return 0;
}

/* Once the service runs it is in the trail, either way. */
static void log_reload(struct policy *p, int rc, bool starting,
                       const struct error *err)
{
    char version[24];
    struct audit_event event = {.action = "policy.reload", .after = version};

    (void)snprintf(version, sizeof(version), "%lld",
                   (long long)policy_current(p));
    if (rc < 0) {
        log_event(LOG_ERROR, "policy_unloadable", "file",
                  p->file[0] ? p->file : NULL, "error", err->message, "hint",
                  err->hint[0] ? err->hint : NULL, "then",
                  "everything is denied until it can be loaded", NULL);
        event.result = error_code_name(err->code);
        event.detail = err->message;
    } else if (!policy_idle(p)) {
        log_event(LOG_INFO, "policy_loaded", "version", version, NULL);
    }
    if (p->audit && (rc < 0 || !starting))
        audit_later(p->audit, NULL, &event);
}

static int reload(struct policy *p, bool starting, struct error *err)
{
    int rc;

    mutex_lock(&p->changing);
    rc = p->file[0] ? load_file(p, err) : load_newest(p, err);
    if (rc < 0)
        enforce(p, NULL, err->message);
    mutex_unlock(&p->changing);
    log_reload(p, rc, starting, err);
    return rc;
}

int policy_reload(struct policy *p, struct error *err)
{
    return reload(p, false, err);
}

int policy_follow(struct policy *p, struct error *err)
{
    struct policy_rules *rules;
    int rc = 0;

    if (p->file[0])
        return 0;
    mutex_lock(&p->changing);
    rules = load_version(p, 0, err);
    if (rules && rules->number > policy_current(p))
        enforce(p, rules, NULL);
    else if (rules)
        policy_rules_unref(rules);
    else if (err->code != ERR_NOT_FOUND)
        rc = -(int)err->code;
    mutex_unlock(&p->changing);
    return rc;
}

int policy_get(struct policy *p, int64_t number, struct policy_version *ret,
               struct error *err)
{
    if (number == 0)
        number = policy_current(p);
    if (number == 0)
        return error_set(err, ERR_NOT_FOUND, "no policy was ever put");
    return policy_versions_get(p->store, number, ret, err);
}

int policy_list(struct policy *p, unsigned limit, int64_t before,
                struct policy_version **ret, size_t *ret_count, bool *ret_more,
                struct error *err)
{
    return policy_versions_list(p->store, limit, before, ret, ret_count,
                                ret_more, err);
}

/* ---- from start to stop ------------------------------------------------- */

int policy_open(const struct policy_settings *settings, struct store *store,
                struct audit *audit, struct policy **ret, struct error *err)
{
    struct policy *p;
    struct error why;
    int rc = policy_zone_set(settings->zone ? settings->zone : "", err);

    if (rc < 0)
        return error_wrap(err, "policy_zone");
    p = xcalloc(1, sizeof(*p));
    p->store = store;
    p->audit = audit;
    p->file = xstrdup(settings->file ? settings->file : "");
    mutex_init(&p->lock); /* cannot fail on Linux */
    mutex_init(&p->changing);
    (void)reload(p, true, &why); /* else everything is denied; it was said */
    *ret = p;
    return 0;
}

void policy_close(struct policy *p)
{
    if (!p)
        return;
    policy_rules_unref(p->current);
    for (size_t i = 0; i < POLICY_KEPT; i++)
        policy_rules_unref(p->kept[i].rules);
    mutex_done(&p->lock);
    mutex_done(&p->changing);
    free(p->file);
    free(p);
}

/* ---- a decision in the trail and as an error ---------------------------- */

/* Describes the request with names only, without text of a guest or client. */
static void describe_decision(const struct policy_request *rq,
                              const struct policy_decision *d, struct buf *ret)
{
    buf_addf(ret, "%s: rule '%s' of %s", policy_action_name(rq->action),
             d->rule, d->layer);
    if (d->reason[0])
        buf_addf(ret, " (%s)", d->reason);
    if (rq->host)
        buf_addf(ret, "; %.100s:%d", rq->host, rq->port);
    if (rq->package)
        buf_addf(ret, "; %.100s %.40s", rq->package,
                 rq->version ? rq->version : "");
    if (rq->secret)
        buf_addf(ret, "; secret %.64s", rq->secret);
}

void policy_record(struct policy *p, const struct policy_request *rq,
                   const struct policy_decision *d, const char *object,
                   bool always)
{
    static const char *const actions[] = {[POLICY_ALLOW] = "policy.allow",
                                          [POLICY_ASK] = "policy.ask",
                                          [POLICY_DENY] = "policy.deny"};
    struct buf detail cleanup(buf_done) = {0};
    char version[24];
    struct audit_event event = {.action = actions[d->verdict],
                                .object = object ? object : rq->session,
                                .path = rq->file,
                                .before = rq->session,
                                .after = version,
                                .result = d->verdict == POLICY_DENY
                                              ? error_code_name(ERR_FORBIDDEN)
                                              : NULL};
    bool plain = d->verdict == POLICY_ALLOW && strcmp(d->rule, "default") == 0;

    if (!p || !p->audit || (plain && !always))
        return;
    describe_decision(rq, d, &detail);
    event.detail = detail.data;
    (void)snprintf(version, sizeof(version), "%lld", (long long)d->version);
    audit_later(p->audit, rq->who, &event);
}

int policy_refuse(const struct policy_decision *d, struct error *err)
{
    if (d->verdict == POLICY_ALLOW)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "policy does not allow this: rule '%s' of %s, version "
                    "%lld",
                    d->rule, d->layer, (long long)d->version);
    return error_hint(err, "%s", d->reason);
}
