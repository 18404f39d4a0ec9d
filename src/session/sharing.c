/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who in a tenant sees and uses a session. A private session (principal)
 * belongs to the principal that made it: a key, whatever token of that key is
 * shown, or the subject of an issuer's token. A shared one (tenant) is every
 * principal's. Admins of the tenant see both. Every lookup of src/session/
 * asks session_visible, or its SQL, and answers what is not visible exactly
 * as what does not exist (I3).
 *
 * What a session is made as is settled once, when it is made: what its maker
 * asked for, else the pool's setting, else the tenant's, else the door's.
 * Its owner and admins can change it later. The workspace that is made for a
 * session goes with it: the tenant is its editor while the session is shared,
 * and has no role otherwise. Other workspaces keep their own members. Runs in
 * gloveboxd on the caller's thread.
 */
#include <string.h>

#include "auth/auth.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "feed/feed.h"
#include "session/session_int.h"

/* SESSION_VISIBLE_SQL, and the index of the table, have these numbers. */
_Static_assert(SESSION_SHARING_PRINCIPAL == 1 && SESSION_SHARING_TENANT == 2,
               "they are stored");

/* ---- the decision ------------------------------------------------------- */

/* By the scope alone: actor.admin is also true for workspaces:admin, which is
 * about files and not about what runs. */
bool session_sees_all(const struct actor *who)
{
    return (who->scopes & AUTH_ADMIN) != 0;
}

static bool owns(const struct session *se, const struct actor *who)
{
    return strcmp(se->owner, who->key) == 0;
}

bool session_visible(const struct session *se, const struct actor *who)
{
    return (atomic_load(&se->sharing) == SESSION_SHARING_TENANT ||
            owns(se, who) || session_sees_all(who)) &&
           actor_may(who, ACTOR_SESSIONS, se->id) &&
           actor_may(who, ACTOR_POOLS, pool_conf(se->pool)->name) &&
           actor_may(who, ACTOR_WORKSPACES, se->workspace);
}

void session_feed_item(const struct session *se, struct feed_item *ret)
{
    *ret = (struct feed_item){
        .tenant = se->tenant->name,
        .session = se->id,
        .workspace = se->ephemeral ? NULL : se->workspace,
        .pool = pool_conf(se->pool)->name,
        .owner = se->owner,
        .shared = atomic_load(&se->sharing) == SESSION_SHARING_TENANT};
}

/* ---- a new session ------------------------------------------------------ */

enum session_sharing session_sharing_settle(const struct sessions *m,
                                            const struct actor *who,
                                            const struct conf_pool *pool,
                                            enum session_sharing asked)
{
    const char *const settings[] = {pool->sharing,
                                    conf_tenant_sharing(m->conf, who->tenant)};
    enum session_sharing found = asked;

    /* The configuration's texts were checked when it was loaded. */
    for (size_t i = 0; i < ARRAY_SIZE(settings) && !found; i++)
        (void)session_sharing_parse(settings[i], &found);
    if (found)
        return found;
    return who->shares ? SESSION_SHARING_TENANT : SESSION_SHARING_PRINCIPAL;
}

struct workspace_spec session_workspace_spec(const struct session *se)
{
    return (struct workspace_spec){.id = se->workspace,
                                   .made_for = se->id,
                                   .private_to_owner =
                                       atomic_load(&se->sharing) !=
                                       SESSION_SHARING_TENANT};
}

int session_sharing_may(const struct actor *who, enum session_sharing asked,
                        struct error *err)
{
    if (asked != SESSION_SHARING_TENANT ||
        (!actor_bound(who, ACTOR_SESSIONS)[0] &&
         !actor_bound(who, ACTOR_WORKSPACES)[0]))
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "a key or token that is bound to sessions or workspaces "
                    "cannot share a session");
    return error_hint(err, "use the key it was made from, or ask an admin of "
                           "the tenant");
}

/* ---- changing it -------------------------------------------------------- */

static int may_change(const struct session *se, const struct actor *who,
                      enum session_sharing sharing, struct error *err)
{
    if (!owns(se, who) && !session_sees_all(who)) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "only the owner of a session and admins of the tenant "
                        "can change its sharing");
        return error_hint(err, "ask its owner, %s", se->owner);
    }
    if (sharing == SESSION_SHARING_DEFAULT)
        return error_set(err, ERR_INVALID,
                         "sharing must be 'principal' or 'tenant'");
    return session_sharing_may(who, sharing, err);
}

/* Its identifier goes with it: what private sessions are called is another
 * name than what shared ones are. */
static void put_in_force(struct session *se, enum session_sharing sharing)
{
    struct sessions *m = se->m;

    mutex_lock(&m->lock);
    atomic_store(&se->sharing, sharing);
    session_identifier_move(se, session_identifier_space(sharing, se->owner));
    mutex_unlock(&m->lock);
}

int session_sharing_renew(struct session *se, struct error *err)
{
    struct sessions *m = se->m;
    enum session_sharing sharing = SESSION_SHARING_DEFAULT;
    int rc = session_persist_has(m, se->id, &sharing, err);

    if (rc <= 0 || sharing == atomic_load(&se->sharing))
        return rc;
    /* It was changed between two looks at the row: once more, in order. */
    mutex_lock(&m->sharing_lock);
    rc = session_persist_has(m, se->id, &sharing, err);
    if (rc > 0)
        put_in_force(se, sharing);
    mutex_unlock(&m->sharing_lock);
    return rc;
}

static int taken(const struct session *by, const struct actor *who,
                 struct error *err)
{
    (void)error_set(err, ERR_CONFLICT,
                    "another session has the same identifier there%s%s",
                    session_visible(by, who) ? ": " : "",
                    session_visible(by, who) ? by->id : "");
    return error_hint(err, "delete one of the two first");
}

/* sharing_lock is held, so creations with the same identifier wait. */
static int change(struct session *se, const struct actor *who,
                  enum session_sharing sharing, struct error *err)
{
    struct sessions *m = se->m;
    struct session *other = NULL;
    struct claim claim = {0};
    int rc = 0;

    if (atomic_load(&se->sharing) == sharing)
        return 0;
    if (se->identifier)
        rc = session_claim(m, who, pool_conf(se->pool)->name, se->identifier,
                           session_identifier_space(sharing, se->owner),
                           &claim, &other, err);
    if (rc == 0 && other) {
        rc = taken(other, who, err);
        session_unref(other);
    }
    if (rc == 0)
        rc = session_persist_share(se, who, sharing, err);
    if (rc == 0)
        put_in_force(se, sharing);
    session_claim_done(m, &claim);
    return rc;
}

int session_share(struct sessions *s, const struct actor *who, const char *id,
                  enum session_sharing sharing, struct session_info *ret,
                  struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);
    int rc;

    if (!se)
        return -(int)err->code;
    rc = may_change(se, who, sharing, err);
    if (rc == 0 && sharing == SESSION_SHARING_TENANT &&
        atomic_load(&se->sharing) != sharing)
        rc = session_admit_share(s, who, se->pool, se, err);
    if (rc == 0) {
        mutex_lock(&s->sharing_lock);
        rc = change(se, who, sharing, err);
        mutex_unlock(&s->sharing_lock);
    }
    if (rc == 0) {
        session_fill_info(se, ret);
        log_event(LOG_INFO, "session_shared", "session", id, "tenant",
                  who->tenant, "sharing", session_sharing_name(sharing), NULL);
    }
    session_release(se);
    return rc;
}
