/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the passages of workspaces with `intelligence`: cuts the text of
 * documents that changed, has vectors made by the configured model, trains
 * each tenant's own latent semantic analysis, and removes what belongs to
 * workspaces that were switched off. Runs in the daemon on a thread of its
 * own, after the indexer and the reader of documents; what is left to do is in
 * the store alone.
 *
 * A training reads at most MEANING_SAMPLE_MAX passages of one tenant, keeps
 * its work in memory, and writes its result in one transaction: a stop, a kill
 * or a full disk leaves the model from before.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "meaning/meaning.h"
#include "model/model.h"
#include "search/search_int.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define LOOK_MS 2000u
#define NICE 10 /* training must not delay requests */
#define REMOVE_DOCUMENTS 20
#define GONE_KEPT 100000    /* rows of passages_gone */
#define SLICE_NS 4000000ull /* of one writing transaction, about */

/* Passages of the tenant whose parameter is ?1. */
#define OF_TENANT                                                             \
    " FROM workspaces AS w"                                                   \
    " CROSS JOIN documents AS d ON d.workspace = w.id AND d.cut = 1"          \
    " CROSS JOIN passages AS p ON p.document = d.id"                          \
    " WHERE w.tenant = ?1 AND w.intelligence = 1 AND w.deleted_at_ms = 0"

/* ---- removing ----------------------------------------------------------- */

/* Some passages of workspaces that were switched off; 1: there may be more. */
static int remove_some(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int removed;

    if (store_begin(s->store, STORE_WRITE, "removing passages", &tx, err) < 0)
        return -(int)err->code;
    removed =
        store_exec(tx, err,
                   "UPDATE documents SET cut = 0 WHERE id IN (SELECT d.id"
                   " FROM workspaces AS w CROSS JOIN documents AS d"
                   " ON d.workspace = w.id"
                   " WHERE w.intelligence = 2 AND d.cut > 0 LIMIT ?1)",
                   "i", (int64_t)REMOVE_DOCUMENTS);
    if (removed == 0)
        removed = store_exec(tx, err,
                             "UPDATE workspaces SET intelligence = 0"
                             " WHERE intelligence = 2 AND NOT EXISTS (SELECT 1"
                             "  FROM documents AS d"
                             "  WHERE d.workspace = workspaces.id"
                             "  AND d.cut > 0)",
                             "");
    if (removed < 0 || store_commit(&tx, err) < 0)
        return -(int)err->code;
    return removed > 0;
}

static int remove_round(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_begin(s->store, STORE_READ, "looking for passages", &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT 1 FROM workspaces WHERE intelligence = 2"
                      " LIMIT 1",
                      "");
    store_rows_done(&rows);
    store_rollback(&tx);
    while (r > 0 && !s->stopping) {
        r = remove_some(s, err);
        search_housekeeping_rest(s);
    }
    return MIN(r, 0);
}

/* Who has the passages in memory reads which went; an older reader loads all
 * again. */
static int forget_gone(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "removing passages", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "DELETE FROM passages_gone WHERE seq <="
                   " (SELECT max(seq) FROM passages_gone) - ?1",
                   "i", (int64_t)GONE_KEPT) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* ---- cutting ------------------------------------------------------------ */

#define TEXTS 32u            /* read, then written */
#define TEXTS_BYTES 1048576u /* of them, about */

struct text {
    int64_t document, at_ms;
    char tenant[64], version[ID_MAX], kind[16];
    struct buf body;
    struct meaning_passage *passages; /* owned */
    struct buf *terms;                /* packed, of each; owned */
    size_t count;
    bool full; /* the tenant has too many */
};

struct texts {
    struct text items[TEXTS];
    size_t count;
};

static void texts_free(struct texts **all)
{
    for (size_t i = 0; i < (*all)->count; i++) {
        struct text *t = &(*all)->items[i];

        for (size_t k = 0; k < t->count; k++)
            buf_done(&t->terms[k]);
        free(t->terms);
        free(t->passages);
        buf_done(&t->body);
    }
    free(*all);
}

/* The next documents without passages. */
static int read_texts(struct search *s, struct texts *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t bytes = 0;
    int r = store_begin(s->store, STORE_READ, "finding text to cut", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT d.id, d.at_ms, w.tenant, d.version, d.kind,"
                        " t.body FROM workspaces AS w"
                        " CROSS JOIN documents AS d ON d.workspace = w.id"
                        " CROSS JOIN words AS t ON t.rowid = d.id"
                        " WHERE w.intelligence = 1 AND w.deleted_at_ms = 0"
                        " AND d.cut = 0 AND d.state = 'ready' LIMIT ?1",
                        "i", (int64_t)TEXTS);
    while (r >= 0 && bytes < TEXTS_BYTES && (r = store_next(rows, err)) > 0) {
        struct text *t = &ret->items[ret->count++];
        const char *body = store_text(rows, 5);

        t->document = store_int(rows, 0);
        t->at_ms = store_int(rows, 1);
        store_copy(rows, 2, t->tenant, sizeof(t->tenant));
        store_copy(rows, 3, t->version, sizeof(t->version));
        store_copy(rows, 4, t->kind, sizeof(t->kind));
        buf_adds(&t->body, body ? body : "");
        bytes += t->body.len;
    }
    return MIN(r, 0);
}

static int count_passages(struct store_tx *tx, const char *tenant,
                          int64_t upto, int64_t *ret_count, int64_t *ret_last,
                          struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT count(*), coalesce(max(p.id), 0)" OF_TENANT
                      " AND p.id <= ?2",
                      "ti", tenant, upto);

    if (r < 0)
        return r;
    *ret_count = rows ? store_int(rows, 0) : 0;
    *ret_last = rows ? store_int(rows, 1) : 0;
    return 0;
}

/* How many a tenant has; counted once for a run of its documents. */
struct tally {
    char tenant[64];
    int64_t have;
};

static int count_room(struct search *s, const char *tenant,
                      struct tally *tally, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t last;

    if (strcmp(tenant, tally->tenant) == 0)
        return 0;
    (void)snprintf(tally->tenant, sizeof(tally->tenant), "%s", tenant);
    if (store_begin(s->store, STORE_READ, "counting passages", &tx, err) < 0)
        return -(int)err->code;
    return count_passages(tx, tenant, INT64_MAX, &tally->have, &last, err);
}

/* Cuts a text; no transaction waits for it. A passage without terms could be
 * found by nothing and is left out. */
static void cut_text(struct text *t)
{
    size_t count = meaning_cut(t->body.data, t->body.len,
                               search_kind_paged(t->kind), &t->passages);

    t->terms = xcalloc(count + 1, sizeof(*t->terms));
    for (size_t i = 0; i < count; i++) {
        struct meaning_terms terms cleanup(meaning_terms_done) = {0};
        const struct meaning_passage *p = &t->passages[i];

        meaning_terms_read(&terms, t->body.data + p->start, p->len);
        if (!terms.count)
            continue;
        t->passages[t->count] = *p;
        meaning_terms_pack(&t->terms[t->count++], &terms);
    }
}

/* Unless the document changed meanwhile. */
static int write_text(struct store_tx *tx, const struct text *t,
                      struct error *err)
{
    int changed = store_exec(tx, err,
                             "UPDATE documents SET cut = ?4 WHERE id = ?1"
                             " AND version = ?2 AND at_ms = ?3 AND cut = 0"
                             " AND state = 'ready'",
                             "itii", t->document, t->version, t->at_ms,
                             (int64_t)(t->full ? 2 : 1));

    for (size_t i = 0; changed > 0 && !t->full && i < t->count; i++) {
        const struct meaning_passage *p = &t->passages[i];

        if (store_exec(tx, err,
                       "INSERT INTO passages (document, page, line, line_end,"
                       " start, bytes, terms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                       "iiiiiib", t->document, (int64_t)p->page,
                       (int64_t)p->line, (int64_t)p->line_end,
                       (int64_t)p->start, (int64_t)p->len, t->terms[i].data,
                       t->terms[i].len) < 0)
            return -(int)err->code;
    }
    return MIN(changed, 0);
}

/* Texts from *at on until the time is up or all are done. */
static int write_texts(struct search *s, const struct texts *all, size_t *at,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    uint64_t end;

    if (store_begin(s->store, STORE_WRITE, "storing passages", &tx, err) < 0)
        return -(int)err->code;
    end = clock_mono_ns() + SLICE_NS;
    do {
        if (write_text(tx, &all->items[*at], err) < 0)
            return -(int)err->code;
        (*at)++;
    } while (*at < all->count && clock_mono_ns() < end);
    return store_commit(&tx, err);
}

static int cut_round(struct search *s, struct error *err)
{
    struct tally tally = {.have = 0};

    while (!s->stopping && search_has_room(s)) {
        struct texts *all cleanup(texts_free) = xcalloc(1, sizeof(*all));

        if (read_texts(s, all, err) < 0)
            return -(int)err->code;
        if (!all->count)
            break;
        for (size_t i = 0; i < all->count; i++) {
            struct text *t = &all->items[i];

            cut_text(t);
            if (count_room(s, t->tenant, &tally, err) < 0)
                return -(int)err->code;
            t->full = tally.have + (int64_t)t->count > SEARCH_PASSAGES_MAX;
            tally.have += t->full ? 0 : (int64_t)t->count;
        }
        for (size_t at = 0; at < all->count && !s->stopping;) {
            if (write_texts(s, all, &at, err) < 0)
                return -(int)err->code;
            search_housekeeping_rest(s);
        }
    }
    return 0;
}

/* ---- embeddings --------------------------------------------------------- */

#define BATCH 16u
#define EMBED_AGAIN_MS 30000u

struct batch {
    int64_t passages[BATCH];
    char *texts[BATCH]; /* owned */
    char tenant[64];
    size_t count;
};

static void batch_done(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->texts[i]);
}

/* Passages after an id without a vector of the model, of one tenant: a model
 * is shown the text of one tenant in a call (L2). */
static int next_batch(struct search *s, int64_t after, struct batch *ret,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(s->store, STORE_READ, "finding passages", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err, s->words->next_passages, "iti", after,
                        s->settings.embeddings, (int64_t)BATCH);
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        struct buf text cleanup(buf_done) = {0};
        size_t len;
        const char *bytes = store_bytes(rows, 2, &len);
        const char *tenant = store_text(rows, 1);

        if (ret->count && strcmp(ret->tenant, tenant) != 0)
            break;
        (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", tenant);
        search_text_plainly(&text, bytes, len);
        ret->passages[ret->count] = store_int(rows, 0);
        ret->texts[ret->count++] = buf_take(&text, NULL);
    }
    return MIN(r, 0);
}

static int store_vectors(struct search *s, const struct batch *b,
                         const float *vectors, size_t dim, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int8_t *packed cleanup(mem_free) = xmalloc(dim);

    if (store_begin(s->store, STORE_WRITE, "storing vectors", &tx, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < b->count; i++) {
        meaning_vector_pack(vectors + i * dim, (unsigned)dim, packed);
        /* Only of passages that are still there. */
        if (store_exec(tx, err,
                       "INSERT INTO passage_vectors (passage, model, vector)"
                       " SELECT p.id, ?2, ?3 FROM passages AS p"
                       " WHERE p.id = ?1"
                       " ON CONFLICT (passage) DO UPDATE SET"
                       " model = excluded.model, vector = excluded.vector",
                       "itb", b->passages[i], s->settings.embeddings, packed,
                       dim) < 0)
            return -(int)err->code;
    }
    return store_commit(&tx, err);
}

static int embed_batch(struct search *s, const struct batch *b,
                       struct error *err)
{
    struct actor who = {.tenant = b->tenant, .key = "glovebox"};
    float *vectors cleanup(mem_free) = NULL;
    size_t dim = 0;
    int r = model_embed(s->settings.models, &who, s->settings.embeddings,
                        (const char *const *)b->texts, b->count, &vectors,
                        &dim, err);

    if (r == 0 && (dim == 0 || dim > MEANING_VECTOR_MAX))
        r = error_set(err, ERR_UNAVAILABLE,
                      "the model '%s' returned vectors of %zu numbers; 1 to "
                      "%u are supported",
                      s->settings.embeddings, dim, MEANING_VECTOR_MAX);
    return r < 0 ? r : store_vectors(s, b, vectors, dim, err);
}

static int embed_round(struct search *s, struct error *err)
{
    int64_t after = s->embedded;

    if (!s->settings.embeddings || !s->settings.models ||
        clock_mono_ms() < s->embed_at_ms)
        return 0;
    while (!s->stopping && search_has_room(s)) {
        struct batch b cleanup(batch_done) = {0};
        int r = next_batch(s, after, &b, err);

        if (r == 0 && b.count)
            r = embed_batch(s, &b, err);
        if (r < 0) {
            s->embed_at_ms = clock_mono_ms() + EMBED_AGAIN_MS;
            atomic_store(&s->embed_failed, true);
            return r;
        }
        if (!b.count)
            break;
        after = s->embedded = b.passages[b.count - 1];
    }
    atomic_store(&s->embed_failed, false);
    return 0;
}

/* ---- training ----------------------------------------------------------- */

#define CHECK_MS 3000u   /* between two looks at who needs a training */
#define AGAIN_MS 60000u  /* after one failed */
#define GROWN 20         /* passages at least, or a fifth */
#define SOON_MS 60000    /* a fiftieth is learned after a minute, */
#define LEARN_MS 3600000 /* fewer new ones after an hour */
#define FORGET_MS 600000 /* text that went is forgotten after ten minutes */
#define REST_FACTOR 20   /* times as long as a training took */
#define TENANTS_MAX 10000u

struct tenant {
    char name[64];
    bool trained;
    int64_t trained_at_ms, took_ms;
    int64_t learned;            /* passages at the last training */
    int64_t have, last, before; /* now; the newest; of those learned */
};

static int list_tenants(struct search *s, struct tenant **ret,
                        size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct tenant *all cleanup(mem_free) = NULL;
    size_t count = 0;
    int r = store_begin(s->store, STORE_READ, "finding passages", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT w.tenant FROM workspaces AS w"
                        " WHERE w.intelligence > 0"
                        " UNION SELECT m.tenant FROM meanings AS m LIMIT ?1",
                        "i", (int64_t)TENANTS_MAX);
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        all = xrealloc(all, (count + 1) * sizeof(*all));
        all[count] = (struct tenant){0};
        store_copy(rows, 0, all[count].name, sizeof(all[count].name));
        count++;
    }
    if (r < 0)
        return r;
    *ret = take_ptr(all);
    *ret_count = count;
    return 0;
}

static int look_at_tenant(struct search *s, struct tenant *t,
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int64_t upto = 0, last;
    int r = store_begin(s->store, STORE_READ, "finding passages", &tx, err);

    if (r == 0)
        r = count_passages(tx, t->name, INT64_MAX, &t->have, &t->last, err);
    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT trained_at_ms, took_ms, passages, upto"
                      " FROM meanings WHERE tenant = ?1",
                      "t", t->name);
    if (r <= 0)
        return r;
    t->trained = true;
    t->trained_at_ms = store_int(rows, 0);
    t->took_ms = store_int(rows, 1);
    t->learned = store_int(rows, 2);
    upto = store_int(rows, 3);
    return count_passages(tx, t->name, upto, &t->before, &last, err);
}

static bool is_due(const struct tenant *t)
{
    int64_t age = clock_real_ms() - t->trained_at_ms;
    int64_t grown = t->have - t->before;

    if (t->have < MEANING_LEAST)
        return false;
    if (!t->trained)
        return true;
    if (age >= 0 && age < t->took_ms * REST_FACTOR)
        return false;
    return grown >= MAX(GROWN, t->learned / 5) ||
           (grown > t->learned / 50 && age >= SOON_MS) ||
           (t->before < t->learned && age >= FORGET_MS) ||
           (grown > 0 && age >= LEARN_MS) || age < 0;
}

static int read_sample(struct search *s, const struct tenant *t,
                       struct meaning_trainer *trainer, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int64_t step = t->have / MEANING_SAMPLE_MAX + 1;
    bool room = true;
    int r = store_begin(s->store, STORE_READ, "reading passages", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT p.terms" OF_TENANT
                        " AND p.id <= ?2 AND p.id % ?3 = 0",
                        "tii", t->name, t->last, step);
    while (r >= 0 && room && !s->stopping && (r = store_next(rows, err)) > 0) {
        struct meaning_terms terms cleanup(meaning_terms_done) = {0};
        size_t len;
        const void *bytes = store_bytes(rows, 0, &len);

        if (meaning_terms_unpack(&terms, bytes, len))
            room = meaning_trainer_add(trainer, &terms);
    }
    return MIN(r, 0);
}

static int store_model(struct search *s, const struct tenant *t,
                       const struct meaning_model *m, uint64_t took_ms,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct buf packed cleanup(buf_done) = {0};
    int64_t number = 0;
    int r;

    meaning_model_pack(&packed, m);
    ids_random(&number, sizeof(number));
    number &= INT64_MAX;
    r = store_begin(s->store, STORE_WRITE, "storing a model", &tx, err);
    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO meanings (tenant, number, trained_at_ms,"
                       " took_ms, passages, upto, data)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                       " ON CONFLICT (tenant) DO UPDATE SET"
                       " number = excluded.number,"
                       " trained_at_ms = excluded.trained_at_ms,"
                       " took_ms = excluded.took_ms,"
                       " passages = excluded.passages, upto = excluded.upto,"
                       " data = excluded.data",
                       "tiiiiib", t->name, number, clock_real_ms(),
                       (int64_t)took_ms, t->have, t->last, packed.data,
                       packed.len);
    return r < 0 ? r : store_commit(&tx, err);
}

static int drop_model(struct search *s, const char *tenant, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(s->store, STORE_WRITE, "removing a model", &tx, err);

    if (r == 0)
        r = store_exec(tx, err, "DELETE FROM meanings WHERE tenant = ?1", "t",
                       tenant);
    return r < 0 ? r : store_commit(&tx, err);
}

static int train_tenant(struct search *s, const struct tenant *t,
                        struct error *err)
{
    struct meaning_trainer *trainer = meaning_trainer_new();
    struct meaning_model *model = NULL;
    uint64_t began = clock_mono_ms();
    int r = read_sample(s, t, trainer, err);

    if (r == 0)
        r = meaning_train(trainer, &s->stopping, &model, err);
    meaning_trainer_free(trainer);
    if (r == 0)
        r = store_model(s, t, model, clock_mono_ms() - began, err);
    if (r == -ERR_CONFLICT && !t->trained) /* nothing in common; later */
        r = 0;
    if (r == 0 && model) {
        char passages[24], ms[24];

        (void)snprintf(passages, sizeof(passages), "%" PRId64, t->have);
        (void)snprintf(ms, sizeof(ms), "%" PRIu64, clock_mono_ms() - began);
        log_event(LOG_INFO, "search_trained", "tenant", t->name, "passages",
                  passages, "ms", ms, NULL);
    }
    meaning_model_free(model);
    return r;
}

static int train_round(struct search *s, struct error *err)
{
    struct tenant *tenants cleanup(mem_free) = NULL;
    size_t count = 0;
    int r;

    r = list_tenants(s, &tenants, &count, err);
    for (size_t i = 0; r == 0 && i < count && !s->stopping; i++) {
        struct tenant *t = &tenants[i];

        r = look_at_tenant(s, t, err);
        if (r == 0 && t->trained && t->have < MEANING_LEAST)
            r = drop_model(s, t->name, err);
        else if (r == 0 && is_due(t) && search_has_room(s))
            r = train_tenant(s, t, err);
    }
    return r;
}

/* ---- the thread --------------------------------------------------------- */

static int64_t newest_change(struct search *s)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct error err;

    if (store_begin(s->store, STORE_READ, "finding passages", &tx, &err) < 0 ||
        store_one(tx, &rows, &err,
                  "SELECT coalesce((SELECT max(seq) FROM passages_gone), 0)"
                  " + coalesce((SELECT max(id) FROM passages), 0)",
                  "") <= 0)
        return -1;
    return store_int(rows, 0);
}

/* Looks at the tenants when passages came or went, and at times without. */
static int train_if_changed(struct search *s, struct error *err)
{
    uint64_t now = clock_mono_ms();
    int64_t newest;
    int r;

    bool retrain = atomic_exchange(&s->retrain, false);

    if (now < s->train_at_ms && !retrain)
        return 0;
    newest = newest_change(s);
    if (newest == s->looked && now < s->look_at_ms && !retrain)
        return 0;
    r = train_round(s, err);
    s->train_at_ms = clock_mono_ms() + (r == 0 ? CHECK_MS : AGAIN_MS);
    if (r < 0)
        return r;
    s->looked = newest;
    s->look_at_ms = clock_mono_ms() + FORGET_MS / 4;
    return forget_gone(s, err);
}

static int passages_round(struct search *s, struct error *err)
{
    int r = remove_round(s, err);

    if (r == 0)
        r = cut_round(s, err);
    if (r == 0)
        r = embed_round(s, err);
    return r < 0 ? r : train_if_changed(s, err);
}

void search_passages_main(void *search)
{
    struct search *s = search;
    struct error err;
    bool failed = false;

    /* A thread may always make itself less important. */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    s->looked = -2;
    do {
        bool well = passages_round(s, &err) == 0;

        if (!well && !failed && !s->stopping)
            log_event(LOG_WARN, "search_passages_failed", "error", err.message,
                      NULL);
        failed = !well;
    } while (search_wait(s, &s->passages, LOOK_MS));
}
