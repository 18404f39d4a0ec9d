/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the audit trail; see audit.h. Runs in the daemon on the thread that
 * serves the query, in a read transaction, so that no writer waits for it.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit_int.h"
#include "base/error.h"
#include "base/mem.h"

/* One statement for each index that can lead; the rest of the filter is
 * checked on the rows it finds (a sum has no index). Empty text stands for
 * any. */
#define QUERY(lead)                                                           \
    "SELECT " AUDIT_COLUMNS " FROM audit WHERE " lead " AND seq > ?1"         \
    " AND (?2 = '' OR tenant = ?2) AND (?3 = '' OR actor = ?3 OR token = ?3)" \
    " AND (?4 = '' OR workspace = ?4)"                                        \
    " AND (?5 = '' OR action = ?5 OR (action > ?5 AND action < ?6))"          \
    " AND (?7 = '' OR object = ?7 OR path = ?7)"                              \
    " AND at_ms + 0 >= ?8 AND at_ms + 0 <= ?9 ORDER BY seq LIMIT ?10"

static const char *statement(const struct audit_filter *f)
{
    if (f->workspace)
        return QUERY("workspace = ?4");
    if (f->actor && ids_valid("tok", f->actor))
        return QUERY("token = ?3 AND token <> ''");
    if (f->actor)
        return QUERY("actor = ?3");
    if (f->from_ms > 0)
        return QUERY("at_ms >= ?8 AND at_ms <= ?9");
    if (f->tenant)
        return QUERY("tenant = ?2");
    return QUERY("seq > ?1");
}

/* Where the actions that start with "file." end: before "file/". */
static char *action_end(const char *action)
{
    size_t len = strlen(action);
    char *end;

    if (len == 0 || action[len - 1] != '.')
        return xstrdup("");
    end = xstrdup(action);
    end[len - 1] = '.' + 1;
    return end;
}

static void read_hash(struct store_rows *rows, int column, char ret[65])
{
    size_t len;
    const void *hash = store_bytes(rows, column, &len);

    if (hash && len == HASH_SIZE)
        (void)ids_hex(hash, len, ret);
}

static void read_line(struct store_rows *rows, struct audit_line *ret)
{
    char **const fields[AUDIT_FIELDS] = {
        &ret->tenant, &ret->actor,  &ret->action,  &ret->workspace,
        &ret->object, &ret->path,   &ret->before,  &ret->after,
        &ret->result, &ret->detail, &ret->request, &ret->source,
        &ret->token};
    memset(ret, 0, sizeof(*ret));
    ret->seq = store_int(rows, 0);
    ret->at_ms = store_int(rows, 1);
    for (int i = 0; i < AUDIT_FIELDS; i++) {
        const char *text = store_text(rows, AUDIT_FIRST_FIELD + i);

        *fields[i] = xstrdup(text ? text : "");
    }
    read_hash(rows, AUDIT_HASH_COLUMN, ret->hash);
    ret->chain_seq = store_int(rows, AUDIT_CHAIN_COLUMN);
    read_hash(rows, AUDIT_CHAIN_COLUMN + 1, ret->chain_hash);
}

void audit_lines_free(struct audit_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct audit_line *l = &lines[i];

        free(l->tenant);
        free(l->actor);
        free(l->actor_name);
        free(l->action);
        free(l->workspace);
        free(l->object);
        free(l->path);
        free(l->before);
        free(l->after);
        free(l->result);
        free(l->detail);
        free(l->request);
        free(l->source);
        free(l->token);
    }
    free(lines);
}

/* At most limit lines. The query asks for one more row, to see whether there
 * are more. */
static int collect_lines(struct store_rows *rows, size_t limit,
                         struct audit_line **ret, size_t *ret_count,
                         bool *ret_more, struct error *err)
{
    struct audit_line *lines = xcalloc(limit, sizeof(*lines));
    size_t count = 0;
    int r;

    while ((r = store_next(rows, err)) == 1 && count < limit)
        read_line(rows, &lines[count++]);
    if (r < 0) {
        audit_lines_free(lines, count);
        return r;
    }
    *ret = lines;
    *ret_count = count;
    *ret_more = r == 1;
    return 0;
}

/* The hashes of the events before, most of which are in the page itself. */
static int add_previous(struct store_tx *tx, struct audit_line *lines,
                        size_t count, struct error *err)
{
    static const unsigned char none[HASH_SIZE];

    for (size_t i = 0; i < count; i++) {
        struct store_rows *row cleanup(store_rows_done) = NULL;
        struct audit_line *l = &lines[i];
        const struct audit_line *before = i ? &lines[i - 1] : NULL;
        int r;

        if (l->chain_seq < 1)
            continue;
        if (l->chain_seq == 1) {
            (void)ids_hex(none, HASH_SIZE, l->chain_previous);
            continue;
        }
        if (before && before->chain_seq == l->chain_seq - 1 &&
            strcmp(before->tenant, l->tenant) == 0) {
            memcpy(l->chain_previous, before->chain_hash,
                   sizeof(l->chain_previous));
            continue;
        }
        r = store_one(tx, &row, err,
                      "SELECT chain_hash FROM audit WHERE tenant = ?1"
                      " AND chain_seq = ?2 AND chain_seq > 0 ORDER BY seq"
                      " LIMIT 1",
                      "ti", l->tenant, l->chain_seq - 1);
        if (r < 0)
            return r;
        if (r == 1)
            read_hash(row, 0, l->chain_previous);
    }
    return 0;
}

static int query_page(struct audit *a, const struct audit_filter *filter,
                      bool previous, struct audit_line **ret,
                      size_t *ret_count, bool *ret_more, struct error *err)
{
    /* Declared in this order: the rows borrow the texts. */
    char *tenant cleanup(mem_free) =
        audit_record_text(filter->tenant, AUDIT_TEXT_MAX);
    char *actor cleanup(mem_free) =
        audit_record_text(filter->actor, AUDIT_TEXT_MAX);
    char *workspace cleanup(mem_free) =
        audit_record_text(filter->workspace, AUDIT_TEXT_MAX);
    char *action cleanup(mem_free) =
        audit_record_text(filter->action, AUDIT_TEXT_MAX);
    char *until cleanup(mem_free) = action_end(action);
    char *object cleanup(mem_free) =
        audit_record_text(filter->object, AUDIT_TEXT_MAX);
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t limit = filter->limit ? filter->limit : AUDIT_LINES;

    limit = MIN(limit, (size_t)AUDIT_LINES_MAX);
    if (store_begin(a->store, STORE_READ, "reading the audit trail", &tx,
                    err) < 0 ||
        store_query(tx, &rows, err, statement(filter), "ittttttiii",
                    filter->after, tenant, actor, workspace, action, until,
                    object, filter->from_ms > 0 ? filter->from_ms : 0,
                    filter->to_ms > 0 ? filter->to_ms : INT64_MAX,
                    (int64_t)limit + 1) < 0)
        return -(int)err->code;
    if (collect_lines(rows, limit, ret, ret_count, ret_more, err) < 0)
        return -(int)err->code;
    if (previous && add_previous(tx, *ret, *ret_count, err) < 0) {
        audit_lines_free(*ret, *ret_count);
        return -(int)err->code;
    }
    return 0;
}

int audit_last(struct audit *a, int64_t *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_begin(a->store, STORE_READ, "reading the trail", &tx, err);

    if (r == 0)
        r = store_one(tx, &row, err, "SELECT max(seq) FROM audit", "");
    if (r < 0)
        return r;
    *ret = r > 0 ? store_int(row, 0) : 0;
    return 0;
}

int audit_query(struct audit *a, const struct audit_filter *filter,
                struct audit_line **ret, size_t *ret_count, bool *ret_more,
                struct error *err)
{
    return query_page(a, filter, false, ret, ret_count, ret_more, err);
}

int audit_checkpoints(struct audit *a, const char *tenant, int64_t after,
                      unsigned limit, struct audit_line **ret,
                      size_t *ret_count, bool *ret_more, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(a->store, STORE_READ, "reading checkpoints", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        after < 0 ? "SELECT " AUDIT_COLUMNS " FROM audit"
                                    " WHERE action = 'audit.checkpoint' AND"
                                    " tenant = ?1 AND chain_seq > ?2"
                                    " ORDER BY chain_seq DESC LIMIT ?3"
                                  : "SELECT " AUDIT_COLUMNS " FROM audit"
                                    " WHERE action = 'audit.checkpoint' AND"
                                    " tenant = ?1 AND chain_seq > ?2"
                                    " ORDER BY chain_seq LIMIT ?3",
                        "tii", tenant, after < 0 ? (int64_t)0 : after + 1,
                        (int64_t)limit + 1);
    return r < 0 ? r
                 : collect_lines(rows, limit, ret, ret_count, ret_more, err);
}

int audit_page(struct audit *a, const struct audit_filter *filter,
               struct audit_line **ret, size_t *ret_count, bool *ret_more,
               struct error *err)
{
    return query_page(a, filter, true, ret, ret_count, ret_more, err);
}
