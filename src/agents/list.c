/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of agents and of versions, in pages. A tenant has few of them, so that
 * names are read whole and the page is cut here. Runs in gloveboxd on the
 * caller's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents_int.h"
#include "audit/audit.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"
#include "store/store.h"

#define PAGE_MAX 1000u

/* A place in a list: by age and name, or by number. */
struct place {
    int64_t at;
    char name[AGENTS_NAME_MAX + 1];
};

static int compare(const struct place *a, const struct place *b)
{
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* items: ascending. Which of them are on the page; they are shown from *from
 * on upwards or, unless oldest first, from *from on downwards. */
static void cut_page(const struct place *items, size_t count,
                     const struct agents_page *page, const struct place *after,
                     const struct place *before, size_t *ret_low,
                     size_t *ret_high, bool *ret_more)
{
    const struct place *above = page->oldest_first ? after : before;
    const struct place *below = page->oldest_first ? before : after;
    bool from_top =
        page->oldest_first ? (before && !after) : !(before && !after);
    size_t low = 0, high = count, limit = MIN(MAX(page->limit, 1u), PAGE_MAX);

    while (above && low < high && compare(&items[low], above) <= 0)
        low++;
    while (below && high > low && compare(&items[high - 1], below) >= 0)
        high--;
    *ret_more = high - low > limit;
    if (*ret_more && from_top)
        low = high - limit;
    else if (*ret_more)
        high = low + limit;
    *ret_low = low;
    *ret_high = high;
}

static int bad_cursor(const char *name, struct error *err)
{
    (void)error_set(err, ERR_INVALID, "'%s' names nothing of this list", name);
    return error_hint(err, "Use last_id of the page before.");
}

/* Deleted agents keep their place while their rows last. */
static int agent_place(struct store_tx *tx, const char *tenant,
                       const char *name, const char *parameter,
                       struct place *ret, struct error *err)
{
    struct agents_row row cleanup(agents_row_done) = {.alive = false};
    int r = agents_rows_find(tx, tenant, name, &row, err);

    if (r <= 0)
        return r < 0 ? r : bad_cursor(parameter, err);
    ret->at = row.created_at_ms;
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
    return 0;
}

static int all_agents(struct agents *a, struct store_tx *tx,
                      const char *tenant, struct place **ret,
                      size_t *ret_count, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t most = (size_t)a->limits.agents, count = 0;
    struct place *list = xcalloc(most + 1, sizeof(*list));
    int r = store_query(tx, &rows, err,
                        "SELECT created_at_ms, name FROM agents"
                        " WHERE tenant = ?1 AND alive = 1"
                        " ORDER BY created_at_ms, name LIMIT ?2",
                        "ti", tenant, (int64_t)most);

    while (r == 0 && (r = store_next(rows, err)) > 0) {
        list[count].at = store_int(rows, 0);
        store_copy(rows, 1, list[count].name, sizeof(list[count].name));
        count++;
        r = 0;
    }
    *ret = list;
    *ret_count = count;
    return r;
}

int agents_list(struct agents *a, const struct actor *who,
                const struct agents_page *page, struct agent_info **ret,
                size_t *ret_count, bool *ret_more, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct place *items cleanup(mem_free) = NULL;
    struct place after = {.at = 0}, before = {.at = 0};
    struct agent_info *list;
    size_t count = 0, low, high, n = 0;
    bool more;
    int r =
        store_begin(a->core->store, STORE_READ, "listing agents", &tx, err);

    if (r == 0 && page->after)
        r = agent_place(tx, who->tenant, page->after, "after", &after, err);
    if (r == 0 && page->before)
        r = agent_place(tx, who->tenant, page->before, "before", &before, err);
    if (r == 0)
        r = all_agents(a, tx, who->tenant, &items, &count, err);
    if (r < 0)
        return r;
    cut_page(items, count, page, page->after ? &after : NULL,
             page->before ? &before : NULL, &low, &high, &more);
    list = xcalloc(high - low + 1, sizeof(*list));
    for (size_t i = low; r == 0 && i < high; i++) {
        size_t at = page->oldest_first ? i : high - 1 - (i - low);

        r = agents_rows_info(tx, who->tenant, items[at].name, &list[n], err);
        if (r == 0)
            n++;
    }
    if (r < 0) {
        agent_infos_free(list, n);
        return r;
    }
    *ret = list;
    *ret_count = n;
    *ret_more = more;
    return 0;
}

/* "name:3" or "3". */
static int version_place(const char *name, const char *cursor,
                         const char *parameter, struct place *ret,
                         struct error *err)
{
    size_t len = strlen(name);

    if (strncmp(cursor, name, len) == 0 && cursor[len] == ':')
        cursor += len + 1;
    return agents_rows_number(cursor, &ret->at) ? 0
                                                : bad_cursor(parameter, err);
}

static int all_versions(struct agents *a, struct store_tx *tx,
                        const char *tenant, const char *name, bool drafts,
                        struct place **ret, size_t *ret_count,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t most = (size_t)a->limits.versions, count = 0;
    struct place *list = xcalloc(most + 1, sizeof(*list));
    int r = store_query(tx, &rows, err,
                        "SELECT number FROM agent_versions WHERE tenant = ?1"
                        " AND name = ?2 AND draft <= ?3"
                        " ORDER BY number LIMIT ?4",
                        "ttii", tenant, name, (int64_t)drafts, (int64_t)most);

    while (r == 0 && (r = store_next(rows, err)) > 0) {
        list[count++].at = store_int(rows, 0);
        r = 0;
    }
    *ret = list;
    *ret_count = count;
    return r;
}

int agents_versions(struct agents *a, const struct actor *who,
                    const char *name, const struct agents_page *page,
                    struct agent_version **ret, size_t *ret_count,
                    bool *ret_more, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct place *items cleanup(mem_free) = NULL;
    struct place after = {.at = 0}, before = {.at = 0};
    struct agent_version *list;
    size_t count = 0, low, high, n = 0;
    bool more;
    int r =
        store_begin(a->core->store, STORE_READ, "listing versions", &tx, err);

    if (r == 0)
        r = agents_rows_info(tx, who->tenant, name, &info, err);
    if (r == 0 && page->after)
        r = version_place(name, page->after, "after", &after, err);
    if (r == 0 && page->before)
        r = version_place(name, page->before, "before", &before, err);
    if (r == 0)
        r = all_versions(a, tx, who->tenant, name, page->drafts, &items,
                         &count, err);
    if (r < 0)
        return r;
    cut_page(items, count, page, page->after ? &after : NULL,
             page->before ? &before : NULL, &low, &high, &more);
    list = xcalloc(high - low + 1, sizeof(*list));
    for (size_t i = low; r >= 0 && i < high; i++) {
        size_t at = page->oldest_first ? i : high - 1 - (i - low);

        r = agents_rows_find_version(tx, who->tenant, name, items[at].at,
                                     &list[n], err);
        if (r > 0)
            n++;
    }
    if (r < 0) {
        agent_versions_free(list, n);
        return r;
    }
    *ret = list;
    *ret_count = n;
    *ret_more = more;
    return 0;
}
