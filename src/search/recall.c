/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search by meaning. Runs in the daemon on the asking thread.
 *
 *   1. list the workspaces with `intelligence` that the actor may see,
 *   2. for each tenant among them, bring its passages in memory up to date
 *      from the store, and rank those of these workspaces and no others,
 *   3. look each hit up in the store: a file that was deleted or overwritten
 *      just now is left out (D10), and so is one the actor may not fetch.
 *
 * Each tenant has an index, a vocabulary and a model of its own; none is ever
 * used for another's files (I8). An index is memory only and can be dropped
 * at any time: the least recently used goes when all take more than
 * MEMORY_BYTES.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "meaning/meaning.h"
#include "model/model.h"
#include "search/search_int.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define MEMORY_BYTES ((size_t)512 << 20) /* of all indexes */
#define SEEN_MAX 5000u                   /* workspaces of one query */
#define TENANTS_MAX 8u                   /* of one query */
#define ROOM_MORE 3u /* times the hits, for those that are left out */

/* ---- indexes in memory -----------------------------------------------------
 */

struct tenant_index {
    char tenant[64];
    struct tenant_index *next; /* recall.lock */
    unsigned users;            /* recall.lock */
    uint64_t used_at_ms;       /* recall.lock */
    size_t bytes;              /* recall.lock; about */

    /* Around the rest; held during reads of the store and while ranking. */
    struct mutex lock;
    struct meaning_index *index;
    struct meaning_model *model; /* NULL: not trained, or embeddings */
    int64_t number;              /* of the model; 0: none */
    int64_t upto, gone;          /* what was read of passages, passages_gone */
    char (*groups)[ID_MAX];      /* workspaces, by their number in the index */
    size_t group_count;
    size_t without; /* passages that have no vector */
    unsigned dim;   /* of vectors; 0: there are none */
    uint64_t begun_at_ms;
    bool damaged; /* the stored model is */
};

struct recall {
    struct mutex lock;
    struct tenant_index *first;
};

struct recall *search_recall_new(void)
{
    struct recall *r = xcalloc(1, sizeof(*r));

    mutex_init(&r->lock);
    return r;
}

static void clear_index(struct tenant_index *t)
{
    meaning_index_free(t->index);
    meaning_model_free(t->model);
    free(t->groups);
    t->index = NULL;
    t->model = NULL;
    t->groups = NULL;
    t->group_count = t->without = 0;
    t->dim = 0;
    t->upto = t->gone = t->number = 0;
}

static void free_index(struct tenant_index *t)
{
    clear_index(t);
    mutex_done(&t->lock);
    free(t);
}

void search_recall_free(struct recall *r)
{
    if (!r)
        return;
    while (r->first) {
        struct tenant_index *t = r->first;

        r->first = t->next;
        free_index(t);
    }
    mutex_done(&r->lock);
    free(r);
}

/* Until index_give. */
static struct tenant_index *index_take(struct recall *r, const char *tenant)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);
    struct tenant_index *t = r->first;

    while (t && strcmp(t->tenant, tenant) != 0)
        t = t->next;
    if (!t) {
        t = xcalloc(1, sizeof(*t));
        (void)snprintf(t->tenant, sizeof(t->tenant), "%s", tenant);
        mutex_init(&t->lock);
        t->next = r->first;
        r->first = t;
    }
    t->users++;
    t->used_at_ms = clock_mono_ms();
    return t;
}

/* Frees the least recently used while all take too much. */
static void evict(struct recall *r)
{
    mutex_assert_held(&r->lock);
    for (;;) {
        struct tenant_index **oldest = NULL, *gone;
        size_t bytes = 0;

        for (struct tenant_index **at = &r->first; *at; at = &(*at)->next) {
            bytes += (*at)->bytes;
            if (!(*at)->users &&
                (!oldest || (*at)->used_at_ms < (*oldest)->used_at_ms))
                oldest = at;
        }
        if (bytes <= MEMORY_BYTES || !oldest)
            return;
        gone = *oldest;
        *oldest = gone->next;
        free_index(gone);
    }
}

static void index_give(struct recall *r, struct tenant_index *t, size_t bytes)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);

    t->users--;
    t->bytes = bytes;
    evict(r);
}

/* ---- bringing one up to date -----------------------------------------------
 */

#define VECTORS_MS 10000u /* between two looks for new vectors of a model */

struct marks {
    int64_t number;           /* of the model */
    int64_t last;             /* passage */
    int64_t gone, gone_first; /* of passages_gone */
};

static int read_marks(struct store_tx *tx, const char *tenant,
                      struct marks *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(
        tx, &rows, err,
        "SELECT coalesce((SELECT number FROM meanings WHERE tenant = ?1), 0),"
        " coalesce((SELECT max(id) FROM passages), 0),"
        " coalesce((SELECT max(seq) FROM passages_gone), 0),"
        " coalesce((SELECT min(seq) FROM passages_gone), 0)",
        "t", tenant);

    if (r <= 0)
        return r;
    *ret = (struct marks){store_int(rows, 0), store_int(rows, 1),
                          store_int(rows, 2), store_int(rows, 3)};
    return 0;
}

/* A model that cannot be read is removed; the keeper of passages trains
 * another. Queries go on by words alone until then. */
static void remove_damaged(struct search *s, const char *tenant,
                           int64_t number)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;

    if (store_begin(s->store, STORE_WRITE, "removing a model", &tx, &err) <
            0 ||
        store_exec(tx, &err,
                   "DELETE FROM meanings WHERE tenant = ?1 AND number = ?2",
                   "ti", tenant, number) < 0 ||
        store_commit(&tx, &err) < 0)
        log_event(LOG_WARN, "search_model_not_removed", "error", err.message,
                  NULL);
    atomic_store(&s->retrain, true);
    search_wake(s, &s->passages);
}

static int load_model(struct store_tx *tx, struct tenant_index *t,
                      int64_t number, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    const void *bytes;
    size_t len = 0;
    int r = store_one(tx, &rows, err,
                      "SELECT data FROM meanings WHERE tenant = ?1", "t",
                      t->tenant);

    if (r <= 0)
        return r;
    bytes = store_bytes(rows, 0, &len);
    t->number = number;
    r = meaning_model_unpack(bytes, len, &t->model, err);
    if (r < 0)
        log_event(LOG_WARN, "search_model_damaged", "tenant", t->tenant,
                  "error", err->message, NULL);
    t->damaged = r < 0;
    return 0;
}

/* Of the vectors that the configured model made; 0: none yet. */
static int vector_length(struct store_tx *tx, const char *model, unsigned *ret,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT length(vector) FROM passage_vectors"
                      " WHERE model = ?1 LIMIT 1",
                      "t", model);

    if (r < 0)
        return r;
    *ret = r > 0
               ? (unsigned)MIN(store_int(rows, 0), (int64_t)MEANING_VECTOR_MAX)
               : 0;
    return 0;
}

/* Begins again, empty. */
static int begin_index(struct search *s, struct store_tx *tx,
                       struct tenant_index *t, const struct marks *m,
                       struct error *err)
{
    int r = 0;

    clear_index(t);
    if (s->settings.embeddings)
        r = vector_length(tx, s->settings.embeddings, &t->dim, err);
    else if (m->number)
        r = load_model(tx, t, m->number, err);
    if (r < 0)
        return r;
    if (t->model)
        t->dim = meaning_model_dim(t->model);
    t->index = meaning_index_new(t->dim);
    t->gone = m->gone;
    t->begun_at_ms = clock_mono_ms();
    return 0;
}

static uint32_t group_of(struct tenant_index *t, const char *workspace)
{
    for (size_t i = t->group_count; i-- > 0;)
        if (strcmp(t->groups[i], workspace) == 0)
            return (uint32_t)i;
    t->groups = xrealloc(t->groups, (t->group_count + 1) * sizeof(*t->groups));
    (void)snprintf(t->groups[t->group_count], sizeof(*t->groups), "%s",
                   workspace);
    return (uint32_t)t->group_count++;
}

/* One row of load_passages. */
static void add_row(struct tenant_index *t, struct store_rows *rows)
{
    struct meaning_terms terms cleanup(meaning_terms_done) = {0};
    int8_t packed[MEANING_DIM_MAX];
    float folded[MEANING_DIM_MAX];
    const int8_t *vector = NULL;
    size_t len = 0, dim = 0;
    const void *bytes = store_bytes(rows, 3, &len);

    if (!meaning_terms_unpack(&terms, bytes, len))
        return; /* damaged; its file is still found by its words */
    if (t->model) {
        if (meaning_model_fold(t->model, &terms, folded)) {
            meaning_vector_pack(folded, t->dim, packed);
            vector = packed;
        }
    } else if (t->dim) {
        vector = store_bytes(rows, 4, &dim);
        if (dim != t->dim)
            vector = NULL;
    }
    t->without += !vector;
    (void)meaning_index_add(t->index, store_int(rows, 0), store_int(rows, 1),
                            group_of(t, store_text(rows, 2)), &terms, vector);
}

static int load_passages(struct search *s, struct store_tx *tx,
                         struct tenant_index *t, int64_t last,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(
        tx, &rows, err,
        "SELECT p.id, p.document, d.workspace, p.terms, v.vector"
        " FROM passages AS p JOIN documents AS d ON d.id = p.document"
        " JOIN workspaces AS w ON w.id = d.workspace"
        " LEFT JOIN passage_vectors AS v ON v.passage = p.id AND v.model = ?4"
        " WHERE p.id > ?1 AND p.id <= ?2 AND w.tenant = ?3"
        " ORDER BY p.id",
        "iitt", t->upto, last, t->tenant, s->settings.embeddings);

    while (r >= 0 && (r = store_next(rows, err)) > 0)
        add_row(t, rows);
    if (r < 0)
        return r;
    t->upto = last;
    return 0;
}

static int remove_gone(struct store_tx *tx, struct tenant_index *t,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(tx, &rows, err,
                        "SELECT seq, passage FROM passages_gone"
                        " WHERE seq > ?1 ORDER BY seq",
                        "i", t->gone);

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        t->gone = store_int(rows, 0);
        (void)meaning_index_remove(t->index, store_int(rows, 1));
    }
    return MIN(r, 0);
}

static bool begin_again(struct search *s, const struct tenant_index *t,
                        const struct marks *m)
{
    bool embeddings = s->settings.embeddings != NULL;

    return !t->index || (!embeddings && t->number != m->number) ||
           t->gone + 1 < m->gone_first ||
           (embeddings && t->without &&
            clock_mono_ms() >= t->begun_at_ms + VECTORS_MS);
}

/* With t->lock held. */
static int refresh(struct search *s, struct store_tx *tx,
                   struct tenant_index *t, struct error *err)
{
    struct marks m = {0};
    int r = read_marks(tx, t->tenant, &m, err);

    mutex_assert_held(&t->lock);
    if (r == 0 && begin_again(s, t, &m))
        r = begin_index(s, tx, t, &m, err);
    if (r == 0 && m.gone > t->gone)
        r = remove_gone(tx, t, err);
    if (r == 0 && m.last > t->upto)
        r = load_passages(s, tx, t, m.last, err);
    if (r < 0)
        clear_index(t);
    return r;
}

/* ---- a query ---------------------------------------------------------------
 */

struct seen {
    char id[ID_MAX], tenant[64];
};

struct query {
    struct search *s;
    const struct actor *who;
    const struct search_spec *spec;
    struct search_expr expr;
    struct meaning_terms terms;
    float *vector; /* of an embedding; or NULL */
    size_t dim;
    struct store_tx *tx;
    struct seen *seen; /* by tenant */
    size_t seen_count;
    int64_t *documents; /* that pass the filters; NULL: no filter */
    size_t document_count;
    struct meaning_hit *hits;
    size_t hit_count, wanted;
    unsigned per_document;
    struct search_quality quality;
};

static void query_done(struct query *q)
{
    search_expr_done(&q->expr);
    meaning_terms_done(&q->terms);
    store_rollback(&q->tx);
    free(q->vector);
    free(q->seen);
    free(q->documents);
    free(q->hits);
}

static void degrade(struct query *q, const char *reason)
{
    if (q->quality.degraded)
        return;
    q->quality.degraded = true;
    (void)snprintf(q->quality.reason, sizeof(q->quality.reason), "%s", reason);
}

/* The workspaces with intelligence that the actor sees, of those asked for. */
static int list_seen(struct query *q, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(
        q->tx, &rows, err,
        "SELECT w.id, w.tenant FROM workspaces AS w"
        " WHERE w.intelligence = 1"
        " AND (?4 IS NULL OR w.id = ?4)"
        " AND " SEARCH_SEEN(
            "?5", "?6") " ORDER BY w.tenant, w.updated_at_ms DESC LIMIT ?7",
        "titttti", q->who->key, (int64_t)q->who->admin, q->who->tenant,
        q->spec->workspace, WORKSPACE_BOUNDS(q->who), (int64_t)SEEN_MAX);

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        q->seen = xrealloc(q->seen, (q->seen_count + 1) * sizeof(*q->seen));
        store_copy(rows, 0, q->seen[q->seen_count].id, ID_MAX);
        store_copy(rows, 1, q->seen[q->seen_count].tenant, 64);
        q->seen_count++;
    }
    if (r < 0)
        return r;
    if (q->seen_count == SEEN_MAX)
        degrade(q, "You see more workspaces than one query searches; name "
                   "one.");
    if (q->seen_count)
        return 0;
    (void)error_set(err, ERR_CONFLICT,
                    q->spec->workspace
                        ? "intelligence is off for this workspace, so its "
                          "files cannot be searched by meaning"
                        : "intelligence is off for every workspace you may "
                          "see, so files cannot be searched by meaning");
    return error_hint(err, "Its owner switches it on with `glovebox "
                           "workspaces set WS --intelligence on`, or PATCH "
                           "/api/workspaces/WS {\"intelligence\": true}. "
                           "mode=lexical works without.");
}

static bool has_filter(const struct search_spec *spec)
{
    return spec->prefix || spec->type || spec->author || spec->conversation ||
           spec->from_ms || spec->to_ms;
}

/* ---- ranking ------------------------------------------------------------ */

static bool read_terms(void *ctx, int64_t passage, struct meaning_terms *ret)
{
    struct query *q = ctx;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct error err;
    const void *bytes;
    size_t len;

    if (store_one(q->tx, &rows, &err,
                  "SELECT p.terms FROM passages AS p"
                  " JOIN documents AS d ON d.id = p.document"
                  " JOIN files AS f ON f.id = d.file"
                  " WHERE p.id = ?1 AND f.alive = 1"
                  " AND f.version = d.version",
                  "i", passage) <= 0)
        return false; /* feedback is worth no failure */
    bytes = store_bytes(rows, 0, &len);
    return meaning_terms_unpack(ret, bytes, len);
}

/* With t->lock held: adds the hits of one tenant's workspaces. */
static void rank_tenant(struct query *q, struct tenant_index *t, size_t from,
                        size_t to)
{
    bool *groups cleanup(mem_free) =
        xcalloc(t->group_count + 1, sizeof(*groups));
    float folded[MEANING_DIM_MAX];
    struct meaning_query ask = {
        .mode =
            q->spec->mode == SEARCH_SEMANTIC ? MEANING_VECTOR : MEANING_BOTH,
        .terms = &q->terms,
        .groups = groups,
        .group_count = t->group_count,
        .documents = q->documents,
        .document_count = q->document_count,
        .limit = (unsigned)q->wanted,
        .per_document = q->per_document,
        .terms_of = read_terms,
        .ctx = q,
    };

    for (size_t g = 0; g < t->group_count; g++)
        for (size_t i = from; i < to && !groups[g]; i++)
            groups[g] = strcmp(t->groups[g], q->seen[i].id) == 0;
    if (t->model && meaning_model_fold(t->model, &q->terms, folded))
        ask.vector = folded;
    else if (!t->model && q->vector && q->dim == t->dim)
        ask.vector = q->vector;
    if (!t->dim && meaning_index_count(t->index))
        degrade(q, q->s->settings.embeddings
                       ? "No vectors of the configured model are stored yet; "
                         "the ranking is by words alone."
                       : "The files have not been learned yet, or are too "
                         "few for it; the ranking is by words alone.");
    else if (q->s->settings.embeddings && t->without)
        degrade(q, "Some passages have no vector of the configured model "
                   "yet; these are ranked by words alone.");
    else if (!ask.vector && t->dim)
        degrade(q, "No word of the query has been learned from your files; "
                   "the ranking is by words alone.");
    q->hits =
        xrealloc(q->hits, (q->hit_count + q->wanted + 1) * sizeof(*q->hits));
    q->hit_count += meaning_index_rank(t->index, &ask, q->hits + q->hit_count);
}

static int search_tenant(struct query *q, size_t from, size_t to,
                         struct error *err)
{
    struct recall *recall = q->s->recall;
    struct tenant_index *t = index_take(recall, q->seen[from].tenant);
    int64_t damaged = 0;
    size_t bytes = 0;
    int r;

    mutex_lock(&t->lock);
    r = refresh(q->s, q->tx, t, err);
    if (r == 0) {
        rank_tenant(q, t, from, to);
        bytes = meaning_index_bytes(t->index) +
                (t->model ? meaning_model_bytes(t->model) : 0);
        damaged = t->damaged ? t->number : 0;
        t->damaged = false;
    }
    mutex_unlock(&t->lock);
    index_give(recall, t, bytes);
    if (damaged)
        remove_damaged(q->s, q->seen[from].tenant, damaged);
    return r;
}

static int by_score(const void *a, const void *b)
{
    const struct meaning_hit *x = a, *y = b;

    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return (x->passage > y->passage) - (x->passage < y->passage);
}

static int rank(struct query *q, struct error *err)
{
    unsigned tenants = 0;

    for (size_t from = 0, to; from < q->seen_count; from = to) {
        for (to = from + 1;
             to < q->seen_count &&
             strcmp(q->seen[to].tenant, q->seen[from].tenant) == 0;)
            to++;
        if (++tenants > TENANTS_MAX) {
            degrade(q, "You see workspaces of more tenants than one query "
                       "searches; name one.");
            break;
        }
        if (search_tenant(q, from, to, err) < 0)
            return -(int)err->code;
    }
    if (tenants > 1 && q->hit_count)
        qsort(q->hits, q->hit_count, sizeof(*q->hits), by_score);
    return 0;
}

/* ---- the embedding of a query ------------------------------------------- */

/* Before the transaction: a model takes its time. */
static void embed_query(struct query *q)
{
    const struct search_settings *settings = &q->s->settings;
    const char *text = q->spec->query;
    struct error err;

    if (!settings->embeddings)
        return;
    if (!settings->models ||
        model_embed(settings->models, q->who, settings->embeddings, &text, 1,
                    &q->vector, &q->dim, &err) < 0) {
        log_event(LOG_WARN, "search_embedding_failed", "error",
                  settings->models ? err.message : "there are no models",
                  NULL);
        degrade(q, "The configured model is not available; the ranking is by "
                   "words alone.");
    }
}

/* ---- hits --------------------------------------------------------------- */

static void passage_done(struct search_passage *p)
{
    free(p->path);
    free(p->mime);
    free(p->text);
}

void search_passages_free(struct search_passage *passages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        passage_done(&passages[i]);
    free(passages);
}

/* 1, or 0: the file is gone, was overwritten, or may not be fetched. */
static int look_up(struct query *q, const struct meaning_hit *hit,
                   struct search_passage *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct buf text cleanup(buf_done) = {0};
    const char *bytes;
    size_t len = 0;
    int r =
        store_one(q->tx, &rows, err, q->s->words->passage, "i", hit->passage);

    if (r <= 0 ||
        !workspace_may_fetch(q->s->workspaces, q->who, store_text(rows, 3),
                             store_text(rows, 4)))
        return MIN(r, 0);
    *ret = (struct search_passage){
        .path = xstrdup(store_text(rows, 3)),
        .mime = xstrdup(store_text(rows, 4)),
        .modified_at_ms = store_int(rows, 5),
        .page = (uint32_t)store_int(rows, 6),
        .line = (uint32_t)store_int(rows, 7),
        .line_end = (uint32_t)store_int(rows, 8),
        .score = hit->score,
    };
    store_copy(rows, 0, ret->workspace, sizeof(ret->workspace));
    store_copy(rows, 1, ret->file, sizeof(ret->file));
    store_copy(rows, 2, ret->version, sizeof(ret->version));
    bytes = store_bytes(rows, 9, &len);
    search_text_plainly(&text, bytes, len);
    ret->text = buf_take(&text, NULL);
    return 1;
}

static int query_begin(struct query *q, struct error *err)
{
    struct workspace_info info;

    if (search_query_check(q->spec, err) < 0 ||
        search_expr_parse(q->spec->query, &q->expr, err) < 0)
        return -(int)err->code;
    if (q->spec->workspace &&
        workspace_get(q->s->workspaces, q->who, q->spec->workspace, &info,
                      err) < 0)
        return -(int)err->code;
    meaning_terms_read(&q->terms, q->spec->query, strlen(q->spec->query));
    embed_query(q);
    if (store_begin(q->s->store, STORE_READ, "searching by meaning", &q->tx,
                    err) < 0 ||
        list_seen(q, err) < 0)
        return -(int)err->code;
    if (!has_filter(q->spec))
        return 0;
    return search_query_documents(q->s, q->tx, q->who, q->spec, &q->documents,
                                  &q->document_count, err);
}

int search_recall_passages(struct search *s, const struct actor *who,
                           const struct search_spec *spec, size_t skip,
                           unsigned per_document, struct search_passage **ret,
                           size_t *ret_count, bool *ret_more,
                           struct search_quality *ret_quality,
                           struct error *err)
{
    struct query q cleanup(query_done) = {
        .s = s, .who = who, .spec = spec, .per_document = per_document};
    struct search_passage *found = NULL;
    size_t count = 0, passed = 0;
    bool more = false;

    q.wanted = (skip + spec->limit + 1) * ROOM_MORE;
    if (query_begin(&q, err) < 0 || rank(&q, err) < 0)
        return -(int)err->code;
    found = xcalloc(spec->limit + 1, sizeof(*found));
    for (size_t i = 0; i < q.hit_count && !more; i++) {
        struct search_passage one = {0};
        int r = look_up(&q, &q.hits[i], &one, err);

        if (r < 0) {
            search_passages_free(found, count);
            return r;
        }
        if (r == 0)
            continue;
        more = passed >= skip && count == spec->limit;
        if (passed++ >= skip && !more)
            found[count++] = one;
        else
            passage_done(&one);
    }
    if (s->settings.embeddings && atomic_load(&s->embed_failed))
        degrade(&q, "The configured model is not available; files that "
                    "changed lately are ranked by words alone.");
    *ret = found;
    *ret_count = count;
    *ret_more = more;
    *ret_quality = q.quality;
    return 0;
}

/* ---- files ----------------------------------------------------------------
 */

/* Marks the words that were asked for, where they are. */
static void mark_words(struct buf *out, const struct search_expr *e,
                       const char *text)
{
    struct search_span spans[SEARCH_TERMS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < e->count; i++) {
        const char *at = strcasestr(text, e->terms[i]);
        size_t n = count, start, end;

        /* The start of a word alone, else "art" is marked in "party". */
        while (at && at > text && isalnum((unsigned char)at[-1]))
            at = strcasestr(at + 1, e->terms[i]);
        if (!at || strlen(e->terms[i]) < 3)
            continue;
        start = (size_t)(at - text);
        end = start + strlen(e->terms[i]);
        while (n > 0 && spans[n - 1].start > start) {
            spans[n] = spans[n - 1];
            n--;
        }
        spans[n] = (struct search_span){start, end};
        count++;
    }
    search_snippet(out, text, strlen(text), spans, count);
}

/* "m" and how many hits come before the page that follows. */
static int parse_cursor(const char *text, size_t *ret, struct error *err)
{
    char check[64] = "";
    unsigned skip = 0;

    *ret = 0;
    if (!text || !*text)
        return 0;
    if (sscanf(text, "m%x", &skip) == 1)
        (void)snprintf(check, sizeof(check), "m%x", skip);
    if (strcmp(check, text) != 0 || skip > SEARCH_RECALL_MAX)
        return error_set(err, ERR_INVALID,
                         "'after' is not the cursor of an earlier result of "
                         "this mode");
    *ret = skip;
    return 0;
}

int search_recall(struct search *s, const struct actor *who,
                  const struct search_spec *spec, struct search_hit **ret,
                  size_t *ret_count, bool *ret_more,
                  struct search_quality *ret_quality, struct error *err)
{
    struct search_expr expr cleanup(search_expr_done) = {0};
    struct search_passage *found = NULL;
    struct search_hit *hits;
    size_t skip = 0, count = 0;

    if (parse_cursor(spec->after, &skip, err) < 0 ||
        search_recall_passages(s, who, spec, skip, 1, &found, &count, ret_more,
                               ret_quality, err) < 0 ||
        search_expr_parse(spec->query, &expr, err) < 0)
        return -(int)err->code;
    hits = xcalloc(count + 1, sizeof(*hits));
    for (size_t i = 0; i < count; i++) {
        struct search_passage *p = &found[i];
        struct buf snippet cleanup(buf_done) = {0};
        struct search_hit *h = &hits[i];

        mark_words(&snippet, &expr, p->text);
        h->path = take_ptr(p->path);
        h->mime = take_ptr(p->mime);
        h->snippet = buf_take(&snippet, NULL);
        h->line = p->line;
        h->page = p->page;
        h->score = p->score;
        h->modified_at_ms = p->modified_at_ms;
        if (!h->snippet)
            h->snippet = xstrdup("");
        memcpy(h->workspace, p->workspace, sizeof(h->workspace));
        memcpy(h->file, p->file, sizeof(h->file));
        memcpy(h->version, p->version, sizeof(h->version));
        (void)snprintf(h->cursor, sizeof(h->cursor), "m%zx", skip + i + 1);
    }
    *ret_more = *ret_more && skip + count < SEARCH_RECALL_MAX;
    search_passages_free(found, count);
    *ret = hits;
    *ret_count = count;
    return 0;
}
