/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished executions in the store: their output, displays and results, so
 * that they can be looked at after a restart, and lists over all sessions.
 * Runs in gloveboxd.
 *
 * A finished execution no longer changes. It is referenced and queued, and the
 * thread exec-outputs writes several of them in one transaction; no caller
 * waits. A row goes with its session, in the same transaction (D10), when it
 * is older than output_days, and oldest first when all of them exceed
 * output_total_bytes. Ephemeral sessions have no rows. Evidence is apart from
 * this and is never touched.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "conf/conf.h"
#include "execution/execution_int.h"
#include "node/node.h"
#include "store/store.h"
#include "json/json.h"

#define QUEUE_MAX 512u
#define BATCH 32u
#define SWEEP_MS 3600000u
#define SWEEP_ROWS 200
#define FLUSH_MS 3000u
#define DAY_MS ((int64_t)86400000)
#define STORED_ROW_BYTES 2048u /* of a row besides its output, about */

struct waiting {
    struct waiting *next;
    struct execution *e; /* referenced */
};

struct stored {
    struct executions *x;
    struct worker worker;
    struct mutex lock;
    struct cond written;
    struct waiting *first, **end;
    size_t count;
    bool writing;
    uint64_t sweep_ms; /* monotonic; the thread's, as the next */
    uint64_t total;    /* bytes of all rows, about */
    bool counted;
};

/* ---- to bytes ----------------------------------------------------------- */

static void write_files(struct json_writer *w, const struct exec_info *info)
{
    json_write_open(w, "files", '[');
    for (size_t i = 0; i < info->file_count; i++) {
        const struct exec_file_change *f = &info->files[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "path", f->path);
        json_write_string(w, "wanted", f->wanted);
        json_write_string(w, "from", f->from);
        json_write_string(w, "change", f->change);
        json_write_int(w, "fate", (int64_t)f->fate);
        json_write_string(w, "why", f->why);
        json_write_int(w, "size", (int64_t)f->size);
        json_write_string(w, "file", f->file);
        json_write_string(w, "version", f->version);
        json_write_string(w, "sha256", f->sha256);
        json_write_string(w, "mime", f->mime);
        json_write_string(w, "holder", f->holder);
        json_write_int(w, "lock_expires_at_ms", f->lock_expires_at_ms);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

static void write_network(struct json_writer *w, const struct exec_info *info)
{
    json_write_int(w, "egress", (int64_t)info->egress);
    json_write_open(w, "connections", '[');
    for (size_t i = 0; i < info->connection_count; i++) {
        const struct network_connection *c = &info->connections[i];

        json_write_open(w, NULL, '{');
        json_write_int(w, "at_ms", c->at_ms);
        json_write_string(w, "what", c->what);
        json_write_string(w, "host", c->host);
        json_write_int(w, "port", c->port);
        json_write_bool(w, "allowed", c->allowed);
        json_write_string(w, "method", c->method);
        json_write_string(w, "path", c->path);
        json_write_string(w, "reason", c->reason);
        json_write_int(w, "count", c->count);
        json_write_int(w, "bytes_out", (int64_t)c->bytes_out);
        json_write_int(w, "bytes_in", (int64_t)c->bytes_in);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
    json_write_bool(w, "connections_truncated", info->connections_truncated);
    json_write_open(w, "reads", '[');
    for (size_t i = 0; i < info->read_count; i++)
        json_write_string(w, NULL, info->reads[i]);
    json_write_close(w, ']');
    json_write_bool(w, "reads_truncated", info->reads_truncated);
}

static void write_streams(struct json_writer *w, const struct exec_info *info)
{
    json_write_open(w, "output", '[');
    for (int i = 0; i < 2; i++) {
        json_write_open(w, NULL, '{');
        json_write_int(w, "bytes", (int64_t)info->output[i].bytes);
        if (info->output[i].tail)
            json_write_base64(w, "tail", info->output[i].tail,
                              info->output[i].tail_len);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

static void write_info(const struct exec_info *info, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_bool(&w, "interpreter_fresh", info->interpreter_fresh);
    json_write_bool(&w, "interpreter_woken",
                    info->interpreter == SESSION_INTERPRETER_WOKEN);
    json_write_bool(&w, "interpreter_lost", info->interpreter_lost);
    json_write_string(&w, "notice", info->notice);
    json_write_bool(&w, "truncated_stdout", info->truncated_stdout);
    json_write_bool(&w, "truncated_stderr", info->truncated_stderr);
    json_write_bool(&w, "truncated_displays", info->truncated_displays);
    write_streams(&w, info);
    json_write_int(&w, "exit_code", info->exit_code);
    json_write_string(&w, "limit_name", info->limit_name);
    json_write_int(&w, "limit_value", (int64_t)info->limit_value);
    json_write_int(&w, "limit_peak", (int64_t)info->limit_peak);
    json_write_string(&w, "failure", info->failure);
    json_write_string(&w, "warning", info->warning);
    json_write_int(&w, "wall_ms", (int64_t)info->wall_ms);
    json_write_int(&w, "cpu_ms", (int64_t)info->cpu_ms);
    json_write_int(&w, "peak_memory_bytes", (int64_t)info->peak_memory_bytes);
    json_write_string(&w, "metadata", info->metadata);
    write_files(&w, info);
    json_write_bool(&w, "files_truncated", info->files_truncated);
    json_write_int(&w, "files_not_kept", (int64_t)info->files_not_kept);
    json_write_string(&w, "commit", info->commit);
    write_network(&w, info);
    json_write_string(&w, "approval", info->approval);
    json_write_int(&w, "repeats", info->repeats);
    json_write_close(&w, '}');
    buf_add(out, "", 1);
}

/* Each event: type, length, bytes. What is too much is left out, and said to
 * be: errors and results come first. */
static void write_events(struct execution *e, uint64_t most,
                         struct exec_info *info, struct buf *out)
{
    struct exec_event event = {0};
    bool cut[EVENT_DONE + 1] = {false}; /* nothing more of that type */
    uint64_t left = most;

    while (execution_event(e, event.number, &event))
        if (event.type == EVENT_ERROR || event.type == EVENT_RESULT)
            left -= MIN(left, event.len);
    event.number = 0;
    while (execution_event(e, event.number, &event)) {
        uint32_t head[2] = {(uint32_t)event.type, (uint32_t)event.len};
        bool first = event.type == EVENT_ERROR || event.type == EVENT_RESULT;

        if (!first && (event.len > left || cut[event.type])) {
            cut[event.type] = true;
            info->truncated_stdout |= event.type == EVENT_STDOUT;
            info->truncated_stderr |= event.type == EVENT_STDERR;
            info->truncated_displays |= event.type == EVENT_DISPLAY;
            continue;
        }
        if (first && event.len > most)
            head[1] = 0;
        if (!first)
            left -= event.len;
        buf_add(out, head, sizeof(head));
        buf_add(out, event.data, head[1]);
    }
}

/* ---- the thread --------------------------------------------------------- */

static int insert(struct stored *st, struct store_tx *tx, struct execution *e,
                  struct error *err)
{
    const struct conf *conf = st->x->conf;
    struct buf text cleanup(buf_done) = {0};
    struct buf events cleanup(buf_done) = {0};
    struct exec_info info;
    int r;

    execution_info(e, &info);
    write_events(e, conf->output_stored_bytes, &info, &events);
    write_info(&info, &text);
    /* Not for a session that has gone, or never had a row. */
    r = store_exec(
        tx, err,
        "INSERT INTO outputs (execution, session, tenant, workspace, language,"
        " outcome, author, author_name, created_at_ms, started_at_ms,"
        " finished_at_ms, code, info, events, bytes) SELECT ?1, id, ?3, ?4,"
        " ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 FROM sessions"
        " WHERE id = ?2 ON CONFLICT (execution) DO UPDATE SET"
        " outcome = excluded.outcome, started_at_ms = excluded.started_at_ms,"
        " finished_at_ms = excluded.finished_at_ms, info = excluded.info,"
        " events = excluded.events, bytes = excluded.bytes"
        " WHERE outputs.outcome <> 'lost'",
        "ttttttttiiittbi", info.id, info.session, e->tenant, info.workspace,
        execution_language_name(info.language),
        exec_outcome_name(info.outcome), info.author, info.author_name,
        info.created_at_ms, info.started_at_ms, info.finished_at_ms,
        conf->evidence_code && info.code ? info.code : "", text.data,
        events.data ? events.data : "", events.len,
        (int64_t)(events.len + text.len + STORED_ROW_BYTES));
    if (r > 0)
        st->total += events.len + text.len + STORED_ROW_BYTES;
    if (r >= 0 && atomic_load(&e->noted))
        r = node_execution_remove(st->x->core->nodes, tx, info.id, err);
    return MIN(r, 0);
}

static int count_total(struct stored *st, struct store_tx *tx,
                       struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT coalesce(sum(bytes), 0) FROM outputs", "");

    if (r > 0) {
        st->total = (uint64_t)store_int(row, 0);
        st->counted = true;
    }
    return MIN(r, 0);
}

/* What is too old, and the oldest while there is too much. */
static int sweep(struct stored *st, struct store_tx *tx, struct error *err)
{
    const struct conf *conf = st->x->conf;
    uint64_t now = clock_mono_ms();
    bool due = !st->sweep_ms || now >= st->sweep_ms + SWEEP_MS;
    int r = 0;

    if (due && conf->output_days)
        r = store_exec(tx, err,
                       "DELETE FROM outputs WHERE finished_at_ms < ?1", "i",
                       clock_real_ms() - conf->output_days * DAY_MS);
    if (r >= 0 && (due || !st->counted))
        r = count_total(st, tx, err);
    for (int i = 0; r >= 0 && i < 50 && conf->output_total_bytes &&
                    st->total > conf->output_total_bytes;
         i++) {
        r = store_exec(
            tx, err,
            "DELETE FROM outputs WHERE execution IN (SELECT execution FROM"
            " outputs ORDER BY finished_at_ms LIMIT ?1)",
            "i", (int64_t)SWEEP_ROWS);
        if (r > 0)
            r = count_total(st, tx, err);
        else if (r == 0)
            break;
    }
    if (r >= 0 && due)
        st->sweep_ms = now;
    return MIN(r, 0);
}

struct batch {
    struct stored *st;
    struct execution *list[BATCH];
    size_t count;
};

static int write_batch(struct store_tx *tx, void *ctx, struct error *err)
{
    struct batch *b = ctx;
    int r = 0;

    for (size_t i = 0; r == 0 && i < b->count; i++)
        r = insert(b->st, tx, b->list[i], err);
    return r < 0 ? r : sweep(b->st, tx, err);
}

static void take_batch(struct stored *st, struct batch *ret)
{
    mutex_lock(&st->lock);
    *ret = (struct batch){.st = st};
    while (st->first && ret->count < BATCH) {
        struct waiting *w = st->first;

        ret->list[ret->count++] = w->e;
        st->first = w->next;
        if (!st->first)
            st->end = &st->first;
        st->count--;
        free(w);
    }
    st->writing = ret->count > 0;
    mutex_unlock(&st->lock);
}

static void finish_batch(struct stored *st, struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        execution_unref(b->list[i]);
    mutex_lock(&st->lock);
    st->writing = false;
    cond_broadcast(&st->written);
    mutex_unlock(&st->lock);
}

static void exec_outputs_main(void *arg)
{
    struct stored *st = arg;
    bool go_on;

    do {
        struct batch b;
        struct error err;

        go_on = worker_wait(&st->worker, SWEEP_MS);
        do {
            take_batch(st, &b);
            if (store_writable(st->x->core->store) &&
                store_write(st->x->core->store, "storing outputs", write_batch,
                            &b, &err) < 0)
                log_event(LOG_WARN, "outputs_not_stored", "error", err.message,
                          NULL);
            finish_batch(st, &b);
        } while (b.count == BATCH);
    } while (go_on);
}

/* ---- adding ------------------------------------------------------------- */

void execution_stored_open(struct executions *x)
{
    struct stored *st = xcalloc(1, sizeof(*st));
    struct error err;

    st->x = x;
    st->end = &st->first;
    mutex_init(&st->lock);
    cond_init(&st->written);
    worker_init(&st->worker);
    x->stored = st;
    if (!x->core->store || !x->conf->output_stored_bytes)
        return;
    if (worker_start(&st->worker, "exec-outputs", exec_outputs_main, st,
                     &err) < 0)
        log_event(LOG_WARN, "outputs_not_stored", "error", err.message, NULL);
}

void execution_stored_close(struct executions *x)
{
    struct stored *st = take_ptr(x->stored);

    if (!st)
        return;
    worker_stop(&st->worker);
    worker_done(&st->worker);
    while (st->first) {
        struct waiting *next = st->first->next;

        execution_unref(st->first->e);
        free(st->first);
        st->first = next;
    }
    mutex_done(&st->lock);
    cond_done(&st->written);
    free(st);
}

void execution_stored_add(struct executions *x, const struct session *se,
                          struct execution *e)
{
    struct stored *st = x->stored;
    struct waiting *w;
    bool full;

    if (!st->worker.thread.started || session_facts(se).ephemeral)
        return;
    w = xcalloc(1, sizeof(*w));
    w->e = execution_ref(e);
    mutex_lock(&st->lock);
    full = st->count >= QUEUE_MAX;
    if (!full) {
        *st->end = w;
        st->end = &w->next;
        st->count++;
    }
    mutex_unlock(&st->lock);
    if (full) {
        log_event(LOG_WARN, "outputs_not_stored", "execution", e->info.id,
                  "error", "too many wait to be written", NULL);
        execution_unref(e);
        free(w);
        return;
    }
    worker_wake(&st->worker);
}

/* Who lists right after the end finds it. */
static void flush(struct stored *st)
{
    uint64_t deadline = clock_mono_ms() + FLUSH_MS;

    mutex_lock(&st->lock);
    while ((st->count || st->writing) && st->worker.thread.started &&
           cond_wait_until(&st->written, &st->lock, deadline))
        ;
    mutex_unlock(&st->lock);
}

/* ---- from bytes --------------------------------------------------------- */

static const char *text_of(struct arena *a, const json_t *object,
                           const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? arena_strdup(a, text) : NULL;
}

static const char *some_text(struct arena *a, const json_t *object,
                             const char *key)
{
    const char *text = text_of(a, object, key);

    return text ? text : "";
}

static int64_t int_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool bool_of(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static void read_files(struct arena *a, const json_t *o, struct exec_info *ret)
{
    const json_t *list = json_object_get(o, "files"), *one;
    size_t count = json_array_size(list), i;
    struct exec_file_change *files =
        arena_alloc(a, (count + 1) * sizeof(*files));

    json_array_foreach (list, i, one)
        files[i] = (struct exec_file_change){
            .path = some_text(a, one, "path"),
            .wanted = some_text(a, one, "wanted"),
            .from = some_text(a, one, "from"),
            .change = some_text(a, one, "change"),
            .fate = (enum exec_file_fate)int_of(one, "fate"),
            .why = some_text(a, one, "why"),
            .size = (uint64_t)int_of(one, "size"),
            .file = some_text(a, one, "file"),
            .version = some_text(a, one, "version"),
            .sha256 = some_text(a, one, "sha256"),
            .mime = some_text(a, one, "mime"),
            .holder = some_text(a, one, "holder"),
            .lock_expires_at_ms = int_of(one, "lock_expires_at_ms")};
    ret->files = files;
    ret->file_count = count;
    ret->files_truncated = bool_of(o, "files_truncated");
    ret->files_not_kept = (size_t)int_of(o, "files_not_kept");
}

static void read_network(struct arena *a, const json_t *o,
                         struct exec_info *ret)
{
    const json_t *list = json_object_get(o, "connections"), *one;
    const json_t *reads = json_object_get(o, "reads");
    size_t count = json_array_size(list), read_count = json_array_size(reads);
    struct network_connection *all =
        arena_alloc(a, (count + 1) * sizeof(*all));
    const char **paths = arena_alloc(a, (read_count + 1) * sizeof(*paths));
    size_t i;

    json_array_foreach (list, i, one)
        all[i] = (struct network_connection){
            .at_ms = int_of(one, "at_ms"),
            .what = some_text(a, one, "what"),
            .host = some_text(a, one, "host"),
            .port = (uint16_t)int_of(one, "port"),
            .allowed = bool_of(one, "allowed"),
            .method = some_text(a, one, "method"),
            .path = some_text(a, one, "path"),
            .reason = some_text(a, one, "reason"),
            .count = (uint32_t)int_of(one, "count"),
            .bytes_out = (uint64_t)int_of(one, "bytes_out"),
            .bytes_in = (uint64_t)int_of(one, "bytes_in")};
    for (i = 0; i < read_count; i++)
        paths[i] =
            arena_strdup(a, json_string_value(json_array_get(reads, i)));
    ret->egress = (enum session_egress)int_of(o, "egress");
    ret->connections = all;
    ret->connection_count = count;
    ret->connections_truncated = bool_of(o, "connections_truncated");
    ret->reads = paths;
    ret->read_count = read_count;
    ret->reads_truncated = bool_of(o, "reads_truncated");
}

static void read_streams(struct execution *e, const json_t *o)
{
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(json_object_get(o, "output"), i);
        const char *tail = json_string_value(json_object_get(one, "tail"));
        struct exec_output *ret = &e->info.output[i];
        unsigned char *bytes = NULL;
        struct error ignored;

        ret->bytes = (uint64_t)int_of(one, "bytes");
        if (tail && json_base64_decode(tail, strlen(tail), &bytes,
                                       &ret->tail_len, &ignored) == 0)
            ret->tail = e->output_tails[i] = (char *)bytes;
    }
}

static void read_info(struct execution *e, const json_t *o)
{
    struct arena *a = e->strings;
    struct exec_info *ret = &e->info;

    ret->interpreter_fresh = bool_of(o, "interpreter_fresh");
    ret->interpreter = bool_of(o, "interpreter_woken")
                           ? SESSION_INTERPRETER_WOKEN
                       : ret->interpreter_fresh ? SESSION_INTERPRETER_FRESH
                                                : SESSION_INTERPRETER_SAME;
    ret->interpreter_lost = bool_of(o, "interpreter_lost");
    ret->notice = text_of(a, o, "notice");
    ret->truncated_stdout = bool_of(o, "truncated_stdout");
    ret->truncated_stderr = bool_of(o, "truncated_stderr");
    ret->truncated_displays = bool_of(o, "truncated_displays");
    read_streams(e, o);
    ret->exit_code = (int)int_of(o, "exit_code");
    ret->limit_name = text_of(a, o, "limit_name");
    ret->limit_value = (uint64_t)int_of(o, "limit_value");
    ret->limit_peak = (uint64_t)int_of(o, "limit_peak");
    ret->failure = text_of(a, o, "failure");
    ret->warning = text_of(a, o, "warning");
    ret->wall_ms = (uint64_t)int_of(o, "wall_ms");
    ret->cpu_ms = (uint64_t)int_of(o, "cpu_ms");
    ret->peak_memory_bytes = (uint64_t)int_of(o, "peak_memory_bytes");
    ret->metadata = text_of(a, o, "metadata");
    read_files(a, o, ret);
    ret->commit = some_text(a, o, "commit");
    read_network(a, o, ret);
    (void)snprintf(ret->approval, sizeof(ret->approval), "%s",
                   some_text(a, o, "approval"));
    ret->repeats = (uint32_t)int_of(o, "repeats");
}

static int read_events(struct execution *e, const char *bytes, size_t len,
                       struct error *err)
{
    size_t pos = 0;

    while (pos < len) {
        uint32_t head[2];

        if (len - pos < sizeof(head))
            break;
        memcpy(head, bytes + pos, sizeof(head));
        pos += sizeof(head);
        if (head[0] > EVENT_DONE || head[1] > len - pos)
            break;
        execution_events_append(e, (enum exec_event_type)head[0], bytes + pos,
                                head[1]);
        pos += head[1];
    }
    return pos == len
               ? 0
               : error_set(err, ERR_CORRUPT, "the stored output is damaged");
}

/* Columns that lists have too, and what only a whole one has. */
#define ROW_COLUMNS                                                           \
    "o.execution, o.session, o.workspace, o.language, o.outcome, o.author,"   \
    " o.author_name, o.created_at_ms, o.started_at_ms, o.finished_at_ms"

static enum exec_outcome outcome_of(const char *name)
{
    enum exec_outcome o = OUTCOME_NONE;

    while (o < OUTCOME_LOST && strcmp(exec_outcome_name(o), name) != 0)
        o++;
    return o;
}

static void read_row(struct store_rows *row, struct exec_info *ret)
{
    const char *language = store_text(row, 3);

    *ret = (struct exec_info){
        .status = EXEC_COMPLETED,
        .language = strcmp(language, "shell") == 0 ? EXEC_SHELL : EXEC_PYTHON,
        .outcome = outcome_of(store_text(row, 4)),
        .created_at_ms = store_int(row, 7),
        .started_at_ms = store_int(row, 8),
        .finished_at_ms = store_int(row, 9),
        .commit = ""};
    store_copy(row, 0, ret->id, sizeof(ret->id));
    store_copy(row, 1, ret->session, sizeof(ret->session));
    store_copy(row, 2, ret->workspace, sizeof(ret->workspace));
    store_copy(row, 5, ret->author, sizeof(ret->author));
    store_copy(row, 6, ret->author_name, sizeof(ret->author_name));
}

/* As it was when it had finished; belongs to no queue and no history. */
static int restore(struct executions *x, struct store_rows *row,
                   struct execution **ret, struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = xcalloc(1, sizeof(*e));
    json_t *info cleanup(json_unref) = NULL;
    const char *text = store_text(row, 11), *code = store_text(row, 10);
    const char *events;
    size_t len;

    atomic_init(&e->refs, 1);
    mutex_init(&e->lock);
    cond_init(&e->fired);
    e->all = x;
    e->turn.wake = -1;
    e->strings = arena_new();
    read_row(row, &e->info);
    info = json_loads(text ? text : "", 0, NULL);
    if (!info)
        return error_set(err, ERR_CORRUPT, "the stored output is damaged");
    read_info(e, info);
    if (code && *code) {
        e->code = xstrdup(code);
        e->info.code = e->code;
    }
    events = store_bytes(row, 12, &len);
    if (read_events(e, events, events ? len : 0, err) < 0)
        return -(int)err->code;
    *ret = take_ptr(e);
    return 0;
}

bool execution_stored_ran(struct executions *x, const struct execution *e)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct error err;

    return x->core->store &&
           store_begin(x->core->store, STORE_READ, "reading outputs", &tx,
                       &err) == 0 &&
           store_one(tx, &row, &err,
                     "SELECT 1 FROM outputs WHERE session = ?1 AND"
                     " language = ?2 AND execution <> ?3 AND"
                     " started_at_ms > 0 LIMIT 1",
                     "ttt", e->info.session,
                     execution_language_name(e->info.language),
                     e->info.id) > 0;
}

int execution_stored_find(struct executions *x, const struct actor *who,
                          const char *id, struct execution **ret,
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r;

    if (!ids_valid("exec", id) || !x->core->store)
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    r = store_begin(x->core->store, STORE_READ, "reading an output", &tx, err);
    /* A foreign row costs what an unknown id costs (I3). */
    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT " ROW_COLUMNS ", o.code, o.info, o.events,"
                      " s.pool FROM outputs o"
                      " JOIN sessions s ON s.id = o.session"
                      " WHERE o.execution = ?1 AND o.tenant = ?2"
                      " AND (?3 <> 0 OR s.sharing = 2 OR s.owner = ?4)",
                      "ttit", id, who->tenant,
                      (int64_t)((who->scopes & AUTH_ADMIN) != 0), who->key);
    if (r < 0)
        return r;
    if (r == 0 || !actor_may(who, ACTOR_SESSIONS, store_text(row, 1)) ||
        !actor_may(who, ACTOR_WORKSPACES, store_text(row, 2)) ||
        !actor_may(who, ACTOR_POOLS, store_text(row, 13)))
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    return restore(x, row, ret, err);
}

/* ---- lists -------------------------------------------------------------- */

static bool matches(const struct exec_filter *f, const struct exec_info *i)
{
    return (!f->session || strcmp(f->session, i->session) == 0) &&
           (!f->workspace || strcmp(f->workspace, i->workspace) == 0) &&
           (!f->author || strcmp(f->author, i->author) == 0) &&
           (!f->language ||
            strcmp(f->language, execution_language_name(i->language)) == 0) &&
           (!f->outcome ||
            (i->status == EXEC_COMPLETED &&
             strcmp(f->outcome, exec_outcome_name(i->outcome)) == 0)) &&
           (!f->from_ms || i->created_at_ms >= f->from_ms) &&
           (!f->to_ms || i->created_at_ms <= f->to_ms);
}

/* Newest first; of the same moment, by id. */
static int by_age(const void *a, const void *b)
{
    const struct exec_info *x = a, *y = b;

    if (x->created_at_ms != y->created_at_ms)
        return x->created_at_ms > y->created_at_ms ? -1 : 1;
    return strcmp(y->id, x->id);
}

static bool is_after(const struct exec_info *i, int64_t at_ms, const char *id)
{
    return i->created_at_ms < at_ms ||
           (i->created_at_ms == at_ms && strcmp(i->id, id) < 0);
}

/* Where the page before ended; one that may not be seen is none (I3). */
static int find_after(struct executions *x, const struct actor *who,
                      const char *id, int64_t *ret, struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    int r = execution_lookup(x, who, id, &e, NULL, err);

    if (r == -ERR_NOT_FOUND)
        r = execution_stored_find(x, who, id, &e, err);
    if (r == -ERR_NOT_FOUND)
        return error_set(err, ERR_INVALID,
                         "parameter 'after' names no execution");
    if (r == 0)
        *ret = e->info.created_at_ms;
    return r;
}

struct listing {
    struct exec_info *rows;
    size_t count, room;
};

static int add_stored(struct executions *x, const struct actor *who,
                      const struct exec_filter *f, int64_t before_ms,
                      struct listing *page, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t most = f->limit + 1;
    int r = store_begin(x->core->store, STORE_READ, "listing executions", &tx,
                        err);

    if (r == 0)
        r = store_query(
            tx, &rows, err,
            "SELECT " ROW_COLUMNS
            ", s.pool, CASE WHEN ?13 = '' THEN '' ELSE o.code END,"
            " substr(o.code, 1, 127)"
            " FROM outputs o"
            " JOIN sessions s ON s.id = o.session WHERE o.tenant = ?1"
            " AND (?2 <> 0 OR s.sharing = 2 OR s.owner = ?3)"
            " AND (o.created_at_ms < ?4 OR (o.created_at_ms = ?4"
            " AND o.execution < ?5)) AND (?6 = '' OR o.session = ?6)"
            " AND (?7 = '' OR o.workspace = ?7) AND (?8 = '' OR o.author = ?8)"
            " AND (?9 = '' OR o.language = ?9)"
            " AND (?10 = '' OR o.outcome = ?10) AND o.created_at_ms >= ?11"
            " AND o.created_at_ms <= ?12"
            " ORDER BY o.created_at_ms DESC, o.execution DESC",
            "titittttttiit", who->tenant,
            (int64_t)((who->scopes & AUTH_ADMIN) != 0), who->key, before_ms,
            f->after ? f->after : "", f->session ? f->session : "",
            f->workspace ? f->workspace : "", f->author ? f->author : "",
            f->language ? f->language : "", f->outcome ? f->outcome : "",
            f->from_ms, f->to_ms ? f->to_ms : INT64_MAX,
            f->text ? f->text : "");
    while (r == 0 && most && (r = store_next(rows, err)) == 1) {
        struct exec_info *i = &page->rows[page->count];

        read_row(rows, i);
        execution_preview(store_text(rows, 12), i);
        r = 0;
        if ((!f->text || strstr(store_text(rows, 11), f->text)) &&
            actor_may(who, ACTOR_SESSIONS, i->session) &&
            actor_may(who, ACTOR_WORKSPACES, i->workspace) &&
            actor_may(who, ACTOR_POOLS, store_text(rows, 10))) {
            page->count++;
            most--;
        }
    }
    return MIN(r, 0);
}

int execution_list_all(struct sessions *s, const struct actor *who,
                       const struct exec_filter *f, struct exec_info **ret,
                       size_t *ret_count, bool *ret_more, struct error *err)
{
    struct executions *x = sessions_hooks_ctx(s);
    int64_t before_ms = INT64_MAX;
    struct exec_info *live cleanup(mem_free) = NULL;
    struct listing page = {0};
    size_t live_count;
    int r = session_enter(s, err);

    if (r < 0)
        return r;
    flush(x->stored);
    if (f->after)
        r = find_after(x, who, f->after, &before_ms, err);
    execution_unfinished(x, who, f->text, &live, &live_count);
    page.rows = xcalloc(live_count + f->limit + 2, sizeof(*page.rows));
    for (size_t i = 0; i < live_count; i++)
        if (matches(f, &live[i]) &&
            is_after(&live[i], before_ms, f->after ? f->after : ""))
            page.rows[page.count++] = live[i];
    if (r == 0 && x->core->store)
        r = add_stored(x, who, f, before_ms, &page, err);
    session_leave(s);
    if (r < 0) {
        free(page.rows);
        return r;
    }
    qsort(page.rows, page.count, sizeof(*page.rows), by_age);
    *ret_more = page.count > f->limit;
    *ret_count = MIN(page.count, (size_t)f->limit);
    *ret = page.rows;
    return 0;
}

void execution_stored_of_session(struct executions *x, const struct actor *who,
                                 const char *session, size_t max,
                                 struct exec_info *list, size_t *count,
                                 bool *ret_more)
{
    struct exec_filter f = {.session = session,
                            .limit = (unsigned)MIN(max, (size_t)1000)};
    struct listing page = {.rows = xcalloc(f.limit + 2, sizeof(*page.rows))};
    size_t known = *count;
    struct error ignored;

    flush(x->stored);
    if (x->core->store &&
        add_stored(x, who, &f, INT64_MAX, &page, &ignored) < 0)
        page.count = 0; /* what is in memory is there */
    for (size_t i = 0; i < page.count; i++) {
        bool have = false;

        for (size_t j = 0; j < known && !have; j++)
            have = strcmp(list[j].id, page.rows[i].id) == 0;
        if (have)
            continue;
        if (*count == max) {
            *ret_more = true;
            break;
        }
        list[(*count)++] = page.rows[i];
    }
    free(page.rows);
}
