/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions by identifier, a name the client chooses: found in memory, found by
 * row, or created. Runs in gloveboxd on the caller's thread. A thread that
 * creates the session of an identifier claims the identifier first, and other
 * callers wait for the claim, so two concurrent callers get one session. For
 * sessions with rows, the unique index of the store is authoritative. Another
 * tenant's identifier is a different one (I3), and so is the identifier of
 * another principal's private session: each principal has its own name space,
 * besides the name space of the sessions that the tenant shares.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define IDENTIFIER_MAX 128u
#define CLAIM_MS 60000u /* longer than making a session may take */

void session_identifiers_init(struct sessions *m)
{
    cond_init(&m->claimed);
}

void session_identifiers_done(struct sessions *m)
{
    idmap_done(&m->identified);
    cond_done(&m->claimed);
}

int session_identifier_check(const char *identifier, struct error *err)
{
    size_t len = strnlen(identifier, IDENTIFIER_MAX + 1);

    for (size_t i = 0; i < len; i++)
        if (identifier[i] <= ' ' || identifier[i] > '~')
            return error_set(err, ERR_INVALID,
                             "identifier must be printable ASCII without "
                             "blanks");
    if (len == 0 || len > IDENTIFIER_MAX)
        return error_set(err, ERR_INVALID,
                         "identifier must have 1 to %u characters",
                         IDENTIFIER_MAX);
    return 0;
}

const char *session_identifier_space(enum session_sharing sharing,
                                     const char *owner)
{
    return sharing == SESSION_SHARING_TENANT ? "" : owner;
}

/* None of the four has a line break. */
char *session_identifier_key(const char *tenant, const char *pool,
                             const char *space, const char *identifier)
{
    return xasprintf("%s\n%s\n%s\n%s", tenant, pool, identifier, space);
}

void session_identifier_add(struct session *se)
{
    struct sessions *m = se->m;

    if (!se->identifier_key || se->identified ||
        idmap_find(&m->identified, se->identifier_key))
        return;
    idmap_add(&m->identified, &se->identifier_node, se->identifier_key);
    se->identified = true;
}

void session_identifier_remove(struct session *se)
{
    if (se->identified)
        idmap_remove(&se->m->identified, &se->identifier_node);
    se->identified = false;
}

void session_identifier_move(struct session *se, const char *space)
{
    char *key = se->identifier_key;

    if (!key)
        return;
    session_identifier_remove(se);
    /* The pool in it is the one the session was made in. */
    se->identifier_key =
        xasprintf("%.*s%s", (int)(strrchr(key, '\n') + 1 - key), key, space);
    free(key);
    session_identifier_add(se);
}

/* ---- finding ------------------------------------------------------------ */

/* sessions.lock is held. */
static struct session *in_memory(struct sessions *m, const char *key)
{
    struct idmap_node *n = idmap_find(&m->identified, key);

    return n ? session_ref(container_of(n, struct session, identifier_node))
             : NULL;
}

/* 0 and *ret, which is NULL when there is none. */
static int by_row(struct sessions *m, const struct actor *who,
                  const char *pool, const char *identifier, const char *space,
                  struct session **ret, struct error *err)
{
    char id[ID_MAX];
    int rc = session_persist_identify(m, who->tenant, pool, identifier, space,
                                      id, err);

    *ret = NULL;
    if (rc <= 0)
        return rc;
    *ret = session_find(m, who, id, err);
    /* Deleted between the two looks: there is none. */
    return *ret || err->code == ERR_NOT_FOUND ? 0 : -(int)err->code;
}

static int find_in(struct sessions *m, const struct actor *who,
                   const char *pool, const char *identifier, const char *space,
                   struct session **ret, struct error *err)
{
    char *key cleanup(mem_free) =
        session_identifier_key(who->tenant, pool, space, identifier);

    mutex_lock(&m->lock);
    *ret = in_memory(m, key);
    mutex_unlock(&m->lock);
    if (!*ret)
        return by_row(m, who, pool, identifier, space, ret, err);
    if (!session_visible(*ret, who)) /* as if there were none (I3) */
        session_unref(take_ptr(*ret));
    return 0;
}

/* Where sessions are private by default, an identifier never selects a session
 * that another principal shares: it could lure others into a session of its
 * own by choosing the identifier they are about to use. */
int session_identifier_find(struct sessions *m, const struct actor *who,
                            const char *pool, const char *identifier,
                            enum session_sharing sharing, struct session **ret,
                            struct error *err)
{
    int rc = find_in(m, who, pool, identifier, who->key, ret, err);

    if (rc < 0 || *ret)
        return rc;
    rc = find_in(m, who, pool, identifier, "", ret, err);
    if (rc == 0 && *ret && sharing != SESSION_SHARING_TENANT &&
        strcmp((*ret)->owner, who->key) != 0)
        session_unref(take_ptr(*ret));
    return rc;
}

/* pool NULL: the first. One that is unknown has no sessions. */
static int find_in_space(struct sessions *m, const struct actor *who,
                         const char *pool, const char *identifier,
                         enum session_sharing asked, struct session **ret,
                         struct error *err)
{
    struct pool *in cleanup(pool_unrefp) = pool_open(m->pools, who, pool);

    *ret = NULL;
    if (!in)
        return 0;
    return session_identifier_find(
        m, who, pool_conf(in)->name, identifier,
        session_sharing_settle(m, who, pool_conf(in), asked), ret, err);
}

/* ---- making ------------------------------------------------------------- */

static bool is_claimed(const struct sessions *m, const char *key)
{
    const struct claim *c = m->claims;

    while (c && strcmp(c->key, key) != 0)
        c = c->next;
    return c != NULL;
}

int session_claim(struct sessions *m, const struct actor *who,
                  const char *pool, const char *identifier, const char *space,
                  struct claim *claim, struct session **ret, struct error *err)
{
    char *key cleanup(mem_free) =
        session_identifier_key(who->tenant, pool, space, identifier);
    uint64_t deadline = clock_mono_ms() + CLAIM_MS;
    bool in_time = true;
    int rc = 0;

    mutex_lock(&m->lock);
    while (!(*ret = in_memory(m, key)) && in_time && is_claimed(m, key))
        in_time = cond_wait_until(&m->claimed, &m->lock, deadline);
    if (!*ret && in_time) {
        claim->key = take_ptr(key);
        claim->next = m->claims;
        m->claims = claim;
    }
    mutex_unlock(&m->lock);
    if (!in_time && !*ret) {
        (void)error_set(err, ERR_BUSY, "the session is still being made");
        return error_retry(err, 1);
    }
    if (claim->key)
        rc = by_row(m, who, pool, identifier, space, ret, err);
    if (rc < 0 || *ret)
        session_claim_done(m, claim);
    return rc;
}

void session_claim_done(struct sessions *m, struct claim *claim)
{
    struct claim **at = &m->claims;

    if (!claim->key)
        return;
    mutex_lock(&m->lock);
    while (*at != claim)
        at = &(*at)->next;
    *at = claim->next;
    cond_broadcast(&m->claimed);
    mutex_unlock(&m->lock);
    free(take_ptr(claim->key));
}

void session_claim_id(struct sessions *m, const char *id, struct claim *claim)
{
    claim->key = xstrdup(id);
    mutex_lock(&m->lock);
    claim->next = m->claims;
    m->claims = claim;
    mutex_unlock(&m->lock);
}

void session_claim_wait(struct sessions *m, const char *id)
{
    uint64_t deadline = clock_mono_ms() + CLAIM_MS;

    while (is_claimed(m, id) &&
           cond_wait_until(&m->claimed, &m->lock, deadline))
        ;
}

/* ---- the two calls ------------------------------------------------------ */

/* An ended session stays as it is: the next use reports that it ended. */
static void show_used(struct session *se, struct session_info *ret)
{
    struct error ignored;

    (void)session_use(se, &ignored);
    session_fill_info(se, ret);
    session_unref(se);
}

static int ensure(struct sessions *m, const struct actor *who,
                  const struct session_spec *spec, bool *ret_made,
                  struct session_info *ret, struct error *err)
{
    struct session *se = NULL;
    int rc = spec->identifier
                 ? session_identifier_check(spec->identifier, err)
                 : error_set(err, ERR_INVALID, "an identifier is needed");

    if (rc == 0)
        rc = find_in_space(m, who, spec->pool, spec->identifier, spec->sharing,
                           &se, err);
    if (rc == 0 && !se)
        rc = session_create_or_find(m, who, spec, &se, ret, err);
    if (rc < 0)
        return rc;
    *ret_made = !se;
    if (se)
        show_used(se, ret);
    return 0;
}

int session_ensure(struct sessions *s, const struct actor *who,
                   const struct session_spec *spec, bool *ret_made,
                   struct session_info *ret, struct error *err)
{
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = ensure(s, who, spec, ret_made, ret, err);
    session_leave(s);
    return rc;
}

int session_identify(struct sessions *s, const struct actor *who,
                     const char *pool, const char *identifier,
                     struct session_info *ret, struct error *err)
{
    struct session *se = NULL;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = session_identifier_check(identifier, err);
    if (rc == 0)
        rc = find_in_space(s, who, pool, identifier, SESSION_SHARING_DEFAULT,
                           &se, err);
    if (rc == 0 && !se)
        rc = error_set(err, ERR_NOT_FOUND, "no such session");
    if (rc == 0)
        session_fill_info(se, ret);
    session_unref(se);
    session_leave(s);
    return rc;
}
