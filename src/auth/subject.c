/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the subjects of an issuer's tokens, for lists: a row of the audit
 * trail has the subject's id only, and its token is gone when the list is
 * made. A check notes the name in memory, where it costs no I/O; the thread of
 * auth.c writes it to the store. The newest token's name counts.
 */
#include <stdio.h>
#include <string.h>

#include "auth/auth_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

struct subject {
    struct idmap_node node;
    char id[ID_MAX]; /* jwt_… */
    char name[AUTH_NAME_MAX];
    bool written; /* the store has this name */
};

static struct subject *subject_find(struct auth *a, const char *id)
{
    struct idmap_node *n;

    mutex_assert_held(&a->lock);
    n = idmap_find(&a->subjects, id);
    return n ? container_of(n, struct subject, node) : NULL;
}

void auth_subject_note(struct auth *a, const struct principal *who)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    struct subject *s = subject_find(a, who->key_id);

    if (!who->name[0] || (s && strcmp(s->name, who->name) == 0))
        return;
    if (!s) {
        if (a->subjects.count >= AUTH_SUBJECTS_MAX)
            return; /* a check after the next write notes it */
        s = xcalloc(1, sizeof(*s));
        memcpy(s->id, who->key_id, sizeof(s->id));
        idmap_add(&a->subjects, &s->node, s->id);
    }
    memcpy(s->name, who->name, sizeof(s->name));
    s->written = false;
}

/* Copies of those that the store has not yet; owned by caller. */
static struct subject *collect_new(struct auth *a, size_t *ret_count)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    struct subject *list = xcalloc(a->subjects.count + 1, sizeof(*list));

    *ret_count = 0;
    for (size_t b = 0; b < a->subjects.size; b++)
        for (struct idmap_node *n = a->subjects.buckets[b]; n; n = n->next) {
            const struct subject *s = container_of(n, struct subject, node);

            if (!s->written)
                list[(*ret_count)++] = *s;
        }
    return list;
}

static int write_names(struct store *store, const struct subject *list,
                       size_t count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t now = clock_real_ms();

    if (store_begin(store, STORE_WRITE, "noting names of subjects", &tx, err) <
        0)
        return -(int)err->code;
    for (size_t i = 0; i < count; i++)
        if (store_exec(
                tx, err,
                "INSERT INTO subjects (id, name, seen_at_ms)"
                " VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE"
                " SET name = ?2, seen_at_ms = ?3 WHERE subjects.name <> ?2",
                "tti", list[i].id, list[i].name, now) < 0)
            return -(int)err->code;
    return store_commit(&tx, err);
}

void auth_subjects_clear(struct auth *a, bool all)
{
    mutex_assert_held(&a->lock);
    for (size_t b = 0; b < a->subjects.size; b++)
        for (struct idmap_node *n = a->subjects.buckets[b], *next; n;
             n = next) {
            struct subject *s = container_of(n, struct subject, node);

            next = n->next;
            if (all || s->written) {
                idmap_remove(&a->subjects, n);
                free(s);
            }
        }
    if (all)
        idmap_done(&a->subjects);
}

int auth_subjects_flush(struct auth *a, struct error *err)
{
    size_t count;
    struct subject *list cleanup(mem_free) = collect_new(a, &count);
    struct mutex *held cleanup(mutex_release) = NULL;

    if (count && write_names(a->store, list, count, err) < 0)
        return -(int)err->code;
    held = mutex_hold(&a->lock);
    for (size_t i = 0; i < count; i++) {
        struct subject *s = subject_find(a, list[i].id);

        if (s && strcmp(s->name, list[i].name) == 0)
            s->written = true;
    }
    if (a->subjects.count >= AUTH_SUBJECTS_MAX)
        auth_subjects_clear(a, false);
    return 0;
}

const char *auth_subject_peek(struct auth *a, const char *id)
{
    const struct subject *s = subject_find(a, id);

    return s ? s->name : NULL;
}

bool auth_subject_name(struct auth *a, const char *id, char ret[AUTH_NAME_MAX])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    const struct subject *s = subject_find(a, id);

    if (s)
        memcpy(ret, s->name, AUTH_NAME_MAX);
    return s != NULL;
}
