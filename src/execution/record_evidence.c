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
#include "execution/execution_int.h"
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

void execution_record_base(struct session *se, struct execution *e)
{
    e->base_seq = session_base(se, e->base_commit);
}

/* Asked once after each mount; own commits are known by their ids. */
static void find_base(struct executions *x, struct session *se,
                      struct execution *e)
{
    struct error err;

    if (e->base_commit[0] || !e->base_seq ||
        workspace_commit_id(x->workspaces, session_facts(se).workspace,
                            e->base_seq, e->base_commit, &err) < 0)
        return;
    session_base_learn(se, e->base_seq, e->base_commit);
}

/* ---- afterwards --------------------------------------------------------- */

static struct evidence_connection *evidence_connections(
    const struct exec_info *info)
{
    struct evidence_connection *list =
        xcalloc(info->connection_count + 1, sizeof(*list));

    for (size_t i = 0; i < info->connection_count; i++) {
        const struct network_connection *c = &info->connections[i];
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

static struct evidence_file *evidence_files(const struct exec_info *info)
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

/* Of an event, all but text for readers, which is output. */
static void add_artifacts(struct artifacts *a, const struct exec_event *event)
{
    struct kernel_pair pair;
    size_t pos = 0;

    while (a->count < ARTIFACTS_MAX &&
           wire_pairs_next(event->data, event->len, &pos, &pair) == 1) {
        char *type = a->types[a->count];

        (void)snprintf(type, TYPE_MAX, "%.*s",
                       (int)MIN(pair.key_len, TYPE_MAX - 1u), pair.key);
        if (strcmp(type, "text/plain") == 0 || strcmp(type, KERNEL_BRIEF) == 0)
            continue;
        a->list[a->count++] = (struct evidence_artifact){
            .how = event->type == EVENT_RESULT ? "result" : "display",
            .type = type,
            .size = pair.value_len};
    }
}

static struct artifacts *evidence_artifacts(struct execution *e)
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
static void name_walls(const struct executions *x, const char *tier, char *ret,
                       size_t size)
{
    const char *without = x->conf->accept_missing_walls;
    bool guest = strcmp(tier, WARDEN_TIER_GUEST) == 0;

    (void)snprintf(
        ret, size, "%s: %snamespaces, seccomp, %scontrol groups%s%s", tier,
        guest ? "kernel of gVisor, " : "", guest ? "" : "landlock, ",
        without && without[0] ? "; operator does without: " : "",
        without ? without : "");
}

/* Collects the printed text of both streams in order, and results and errors
 * as text; slightly more than is stored, so that a cut can be marked. */
static void collect_output(const struct executions *x, struct execution *e,
                           struct buf *out)
{
    size_t max = (size_t)x->conf->evidence_output_bytes;
    struct exec_event event;

    for (uint32_t n = 0; out->len <= max && execution_event(e, n, &event);
         n++) {
        struct kernel_pair pair;
        size_t pos = 0;

        if (event.type == EVENT_STDOUT || event.type == EVENT_STDERR)
            buf_add(out, event.data, event.len);
        if (event.type != EVENT_RESULT && event.type != EVENT_ERROR)
            continue;
        while (wire_pairs_next(event.data, event.len, &pos, &pair) == 1)
            if (event.type == EVENT_ERROR ||
                (pair.key_len == 10 &&
                 memcmp(pair.key, "text/plain", 10) == 0))
                buf_addf(out, "%.*s\n", (int)pair.value_len, pair.value);
    }
}

/* Of an ephemeral session the record has the actor, the hash of the code, the
 * outcome and the usage; no names, no metadata, no files. */
static void leave_out(struct evidence_run *run)
{
    run->ephemeral = true;
    run->metadata = run->conversation = run->message = NULL;
    run->prompt = NULL;
    run->file_count = run->read_count = run->artifact_count = 0;
}

void execution_record_evidence(struct executions *x, struct session *se,
                               struct execution *e, const char *code,
                               size_t code_len, uint64_t output_bytes)
{
    struct evidence_connection *tried cleanup(mem_free) = NULL;
    struct evidence_file *changed cleanup(mem_free) = NULL;
    struct artifacts *shown cleanup(mem_free) = NULL;
    struct buf output cleanup(buf_done) = {0};
    struct actor who = execution_author(e);
    char walls[256];
    struct exec_info info;
    struct session_facts f = session_facts(se);
    struct evidence_run run;

    if (!x->core->evidence)
        return;
    name_walls(x, pool_conf(f.pool)->isolation, walls, sizeof(walls));
    execution_info(e, &info);
    find_base(x, se, e);
    tried = evidence_connections(&info);
    changed = evidence_files(&info);
    shown = evidence_artifacts(e);
    if (x->conf->evidence_output_bytes && !f.ephemeral)
        collect_output(x, e, &output);
    run = (struct evidence_run){
        .execution = info.id,
        .session = info.session,
        .workspace = info.workspace,
        .pool = pool_conf(f.pool)->name,
        .runtime = runtime_name(f.runtime),
        .who = &who,
        .language = execution_language_name(info.language),
        .code = code,
        .code_len = code_len,
        .metadata = info.metadata,
        .conversation = e->conversation,
        .message = e->message,
        .prompt = e->prompt,
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
        .checks = e->checks, /* finished: nothing is added any more */
        .check_count = e->check_count,
        .checks_truncated = e->checks_cut,
        .output = output.data,
        .output_len = output.len,
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
    if (f.ephemeral)
        leave_out(&run);
    evidence_record(x->core->evidence, &run);
}
