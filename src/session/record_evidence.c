/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the evidence of an execution: what was mounted, read, written,
 * shown and attempted. Runs in gloveboxd on the execution's thread, after its
 * end; holds no lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "evidence/evidence.h"
#include "session/session_int.h"
#include "wire/wire.h"

#define ARTIFACTS_MAX 64u
#define TYPE_MAX 96

/* What it showed; the types come from the session and are copied. */
struct artifacts {
    struct evidence_artifact list[ARTIFACTS_MAX];
    char types[ARTIFACTS_MAX][TYPE_MAX];
    size_t count;
};

/* ---- what it is about to see -------------------------------------------- */

void session_record_base(struct session *se, struct execution *e)
{
    e->base_seq = se->ephemeral ? 0 : se->base;
    mutex_lock(&se->lock);
    if (e->base_seq && se->base_id_seq == e->base_seq)
        memcpy(e->base_commit, se->base_id, sizeof(e->base_commit));
    mutex_unlock(&se->lock);
}

/* Asked once after each mount; own commits are known by their ids. */
static void find_base(struct session *se, struct execution *e)
{
    struct error err;

    if (e->base_commit[0] || !e->base_seq ||
        workspace_commit_id(se->m->workspaces, se->workspace, e->base_seq,
                            e->base_commit, &err) < 0)
        return;
    mutex_lock(&se->lock);
    if (se->base_id_seq < e->base_seq) {
        se->base_id_seq = e->base_seq;
        memcpy(se->base_id, e->base_commit, sizeof(se->base_id));
    }
    mutex_unlock(&se->lock);
}

/* ---- afterwards --------------------------------------------------------- */

static struct evidence_connection *connections(const struct exec_info *info)
{
    struct evidence_connection *list =
        xcalloc(info->connection_count + 1, sizeof(*list));

    for (size_t i = 0; i < info->connection_count; i++) {
        const struct exec_connection *c = &info->connections[i];
        bool inside = c->what && (strcmp(c->what, "connect") == 0 ||
                                  strcmp(c->what, "resolve") == 0);

        list[i] = (struct evidence_connection){
            .kind = c->allowed ? EVIDENCE_ALLOWED
                    : inside   ? EVIDENCE_BLOCKED
                               : EVIDENCE_REFUSED,
            .at_ms = c->at_ms,
            .what = c->what,
            .host = c->host,
            .port = c->port,
            .method = c->method,
            .path = c->path,
            .reason = c->reason,
            .count = c->count,
            .bytes_out = c->bytes_out,
            .bytes_in = c->bytes_in,
        };
    }
    return list;
}

static struct evidence_file *files(const struct exec_info *info)
{
    static const char *const fates[] = {
        [EXEC_FILE_DONE] = "",          [EXEC_FILE_CONFLICT] = "conflict",
        [EXEC_FILE_KEPT] = "undone",    [EXEC_FILE_LOCKED] = "locked",
        [EXEC_FILE_QUOTA] = "quota",    [EXEC_FILE_REFUSED] = "refused",
        [EXEC_FILE_SKIPPED] = "skipped"};
    struct evidence_file *list = xcalloc(info->file_count + 1, sizeof(*list));

    for (size_t i = 0; i < info->file_count; i++) {
        const struct exec_file_change *f = &info->files[i];

        list[i] = (struct evidence_file){.path = f->path,
                                         .how = f->change,
                                         .fate = fates[f->fate],
                                         .file = f->file,
                                         .version = f->version,
                                         .sha256 = f->sha256,
                                         .size = f->size};
    }
    return list;
}

/* Of an event, all but plain text, which is output. */
static void add_artifacts(struct artifacts *a, const struct exec_event *event)
{
    struct kernel_pair pair;
    size_t pos = 0;

    while (a->count < ARTIFACTS_MAX &&
           wire_pairs_next(event->data, event->len, &pos, &pair) == 1) {
        char *type = a->types[a->count];

        (void)snprintf(type, TYPE_MAX, "%.*s",
                       (int)MIN(pair.key_len, TYPE_MAX - 1u), pair.key);
        if (strcmp(type, "text/plain") == 0)
            continue;
        a->list[a->count++] = (struct evidence_artifact){
            .how = event->type == EVENT_RESULT ? "result" : "display",
            .type = type,
            .size = pair.value_len};
    }
}

static struct artifacts *artifacts(struct execution *e)
{
    struct artifacts *a = xcalloc(1, sizeof(*a));
    struct exec_event event;

    for (uint32_t n = 0; execution_event(e, n, &event); n++)
        if (event.type == EVENT_DISPLAY || event.type == EVENT_RESULT)
            add_artifacts(a, &event);
    return a;
}

/* A sandbox without these is never made (C11), but for those the operator has
 * said to do without. */
static void name_walls(const struct sessions *m, char *ret, size_t size)
{
    const char *without = m->conf->accept_missing_walls;

    (void)snprintf(ret, size,
                   "namespaces, seccomp, landlock, control groups%s%s",
                   without && without[0] ? "; operator does without: " : "",
                   without ? without : "");
}

/* Nothing of an ephemeral session is kept, not even names: who ran something,
 * its hash, how it ended and what it used is all that is known afterwards. */
static void leave_out(struct evidence_run *run)
{
    run->ephemeral = true;
    run->metadata = run->conversation = run->message = NULL;
    run->file_count = run->read_count = run->artifact_count = 0;
}

void session_record_evidence(struct sessions *m, struct session *se,
                             struct execution *e, const char *code,
                             size_t code_len, uint64_t output_bytes)
{
    struct evidence_connection *tried cleanup(mem_free) = NULL;
    struct evidence_file *changed cleanup(mem_free) = NULL;
    struct artifacts *shown cleanup(mem_free) = NULL;
    struct actor who = session_execution_author(se, e);
    char walls[256];
    struct exec_info info;
    struct evidence_run run;

    if (!m->parts.evidence)
        return;
    name_walls(m, walls, sizeof(walls));
    execution_info(e, &info);
    find_base(se, e);
    tried = connections(&info);
    changed = files(&info);
    shown = artifacts(e);
    run = (struct evidence_run){
        .execution = info.id,
        .session = info.session,
        .workspace = info.workspace,
        .pool = pool_conf(se->pool)->name,
        .runtime = runtime_name(se->runtime),
        .who = &who,
        .language = session_language_name(info.language),
        .code = code,
        .code_len = code_len,
        .metadata = info.metadata,
        .conversation = e->conversation,
        .message = e->message,
        .base_commit = e->base_commit,
        .base_seq = e->base_seq,
        .commit = info.commit,
        .files = changed,
        .file_count = info.file_count,
        .files_truncated = info.files_truncated,
        .reads = info.reads,
        .read_count = info.read_count,
        .reads_truncated = info.reads_truncated,
        .artifacts = shown->list,
        .artifact_count = shown->count,
        .connections = tried,
        .connection_count = info.connection_count,
        .connections_truncated = info.connections_truncated,
        .decision = info.decision,
        .approval = info.approval,
        .retry_of = e->retry_of,
        .repeats = info.repeats,
        .outcome = info.status == EXEC_PENDING
                       ? exec_status_name(EXEC_PENDING)
                       : exec_outcome_name(info.outcome),
        .failure = info.failure ? info.failure : info.warning,
        .isolation = info.started_at_ms ? walls : NULL,
        .created_at_ms = info.created_at_ms,
        .started_at_ms = info.started_at_ms,
        .finished_at_ms = info.finished_at_ms,
        .wall_ms = info.wall_ms,
        .cpu_ms = info.cpu_ms,
        .peak_memory_bytes = info.peak_memory_bytes,
        .output_bytes = output_bytes,
        .interpreter_fresh = info.interpreter_fresh,
    };
    if (se->ephemeral)
        leave_out(&run);
    evidence_record(m->parts.evidence, &run);
}
