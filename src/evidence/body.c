/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as JSON: the page people read later. Runs in the daemon on the
 * execution's thread. Ids, hashes, names and counts; no bytes of files, no
 * code (its text is kept beside it), and output only where that is configured.
 */
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "evidence/evidence_int.h"
#include "json/json.h"

static void text(struct json_writer *w, const char *key, const char *value)
{
    json_write_string(w, key, value && *value ? value : NULL);
}

/* ---- files -------------------------------------------------------------- */

static void write_changes(struct json_writer *w, const struct evidence_run *r)
{
    json_write_open(w, "written", '[');
    for (size_t i = 0; i < r->file_count; i++) {
        const struct evidence_file *f = &r->files[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "path", f->path);
        text(w, "change", f->how);
        text(w, "fate", f->fate && *f->fate ? f->fate : "kept");
        text(w, "file", f->file);
        text(w, "version", f->version);
        text(w, "sha256", f->sha256);
        json_write_int(w, "size", (int64_t)f->size);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
    json_write_bool(w, "written_truncated", r->files_truncated);
}

/* Code can open files by other ways than the interpreter's own, and can keep
 * the interpreter from telling: so it says who told. */
static void write_reads(struct json_writer *w, const struct evidence_run *r)
{
    json_write_open(w, "read", '{');
    json_write_string(w, "told_by", "interpreter");
    json_write_open(w, "paths", '[');
    for (size_t i = 0; i < r->read_count; i++)
        json_write_string(w, NULL, r->reads[i]);
    json_write_close(w, ']');
    json_write_bool(w, "truncated", r->reads_truncated);
    json_write_close(w, '}');
}

static void write_files(struct json_writer *w, const struct evidence_run *r)
{
    json_write_open(w, "files", '{');
    json_write_open(w, "mounted", '{');
    text(w, "workspace", r->workspace);
    text(w, "commit", r->base_commit);
    json_write_int(w, "commit_seq", r->base_seq);
    json_write_close(w, '}');
    write_reads(w, r);
    write_changes(w, r);
    text(w, "commit", r->commit);
    json_write_close(w, '}');
    json_write_open(w, "artifacts", '[');
    for (size_t i = 0; i < r->artifact_count; i++) {
        json_write_open(w, NULL, '{');
        json_write_string(w, "how", r->artifacts[i].how);
        json_write_string(w, "type", r->artifacts[i].type);
        json_write_int(w, "bytes", (int64_t)r->artifacts[i].size);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

/* ---- connections -------------------------------------------------------- */

static void write_connection(struct json_writer *w,
                             const struct evidence_connection *c)
{
    json_write_open(w, NULL, '{');
    json_write_time(w, "at", c->at_ms);
    text(w, "what", c->what);
    text(w, "host", c->host);
    json_write_int(w, "port", c->port);
    text(w, "method", c->method);
    text(w, "path", c->path);
    text(w, "reason", c->reason);
    json_write_int(w, "count", c->count);
    json_write_int(w, "bytes_out", (int64_t)c->bytes_out);
    json_write_int(w, "bytes_in", (int64_t)c->bytes_in);
    json_write_close(w, '}');
}

static void write_connections(struct json_writer *w,
                              const struct evidence_run *r)
{
    static const char *const names[] = {[EVIDENCE_BLOCKED] = "blocked",
                                        [EVIDENCE_REFUSED] = "refused",
                                        [EVIDENCE_ALLOWED] = "allowed"};

    json_write_open(w, "connections", '{');
    for (int kind = EVIDENCE_BLOCKED; kind <= EVIDENCE_ALLOWED; kind++) {
        json_write_open(w, names[kind], '[');
        for (size_t i = 0; i < r->connection_count; i++)
            if ((int)r->connections[i].kind == kind)
                write_connection(w, &r->connections[i]);
        json_write_close(w, ']');
    }
    json_write_bool(w, "truncated", r->connections_truncated);
    json_write_close(w, '}');
}

/* ---- what was decided, and how it went ---------------------------------- */

static void write_policy(struct json_writer *w, const struct evidence_run *r)
{
    static const char *const verdicts[] = {[POLICY_ALLOW] = "allow",
                                           [POLICY_DENY] = "deny",
                                           [POLICY_ASK] = "ask"};
    const struct policy_decision *d = r->decision;

    if (!d) {
        json_write_string(w, "policy", NULL);
        return;
    }
    json_write_open(w, "policy", '{');
    json_write_string(w, "verdict", verdicts[d->verdict]);
    text(w, "rule", d->rule);
    text(w, "layer", d->layer);
    json_write_int(w, "version", d->version);
    text(w, "reason", d->reason);
    json_write_close(w, '}');
}

static void write_checks(struct json_writer *w, const struct evidence_run *r)
{
    json_write_open(w, "checks", '[');
    for (size_t i = 0; i < r->check_count; i++) {
        const struct policy_check *c = &r->checks[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "action", policy_action_name(c->action));
        text(w, "about", c->about);
        json_write_string(w, "verdict", policy_verdict_name(c->verdict));
        json_write_string(w, "rule", c->rule);
        json_write_string(w, "layer", c->layer);
        json_write_int(w, "version", c->version);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
    json_write_bool(w, "checks_truncated", r->checks_truncated);
}

static void write_output(struct json_writer *w, const struct evidence_run *r,
                         size_t max)
{
    size_t kept;

    if (!r->output || !max || r->ephemeral) {
        json_write_string(w, "output", NULL);
        return;
    }
    kept = utf8_cut(r->output, r->output_len, max);
    json_write_open(w, "output", '{');
    json_write_text(w, "text", r->output, kept);
    json_write_bool(w, "truncated", kept < r->output_len);
    json_write_close(w, '}');
}

static void write_end(struct json_writer *w, const struct evidence_run *r)
{
    bool asked = r->approval && *r->approval;

    if (asked) {
        json_write_open(w, "approval", '{');
        json_write_string(w, "id", r->approval);
        json_write_close(w, '}');
    } else {
        json_write_string(w, "approval", NULL);
    }
    json_write_bool(w, "escalated", asked);
    text(w, "retry_of", r->retry_of);
    json_write_int(w, "repeats", r->repeats);
    text(w, "isolation", r->isolation);
    json_write_bool(w, "interpreter_fresh", r->interpreter_fresh);
    json_write_time(w, "created_at", r->created_at_ms);
    json_write_time(w, "started_at", r->started_at_ms);
    json_write_time(w, "finished_at", r->finished_at_ms);
    json_write_open(w, "usage", '{');
    json_write_int(w, "wall_ms", (int64_t)r->wall_ms);
    json_write_int(w, "cpu_ms", (int64_t)r->cpu_ms);
    json_write_int(w, "peak_memory_bytes", (int64_t)r->peak_memory_bytes);
    json_write_int(w, "output_bytes", (int64_t)r->output_bytes);
    json_write_close(w, '}');
}

void evidence_body(const struct evidence_run *run, const char *code_sha256,
                   bool code_kept, size_t output_max, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "execution", run->execution);
    json_write_string(&w, "session", run->session);
    text(&w, "pool", run->pool);
    text(&w, "runtime", run->runtime);
    json_write_string(&w, "outcome", run->outcome);
    text(&w, "failure", run->failure);

    json_write_open(&w, "who", '{');
    text(&w, "tenant", run->who->tenant);
    text(&w, "key", run->who->key);
    text(&w, "name", run->who->name);
    text(&w, "token", run->who->token);
    text(&w, "door", run->who->door);
    text(&w, "tool", run->who->tool);
    text(&w, "request", run->who->request);
    text(&w, "source", run->who->source);
    json_write_close(&w, '}');

    /* As the client sent it, unchecked. */
    json_write_open(&w, "trigger", '{');
    text(&w, "conversation", run->conversation);
    text(&w, "message", run->message);
    text(&w, "by", run->who->trigger ? run->who->trigger : "client");
    text(&w, "prompt", run->prompt);
    if (run->metadata)
        json_write_raw(&w, "metadata", run->metadata, strlen(run->metadata));
    else
        json_write_string(&w, "metadata", NULL);
    json_write_close(&w, '}');

    json_write_open(&w, "code", '{');
    text(&w, "language", run->language);
    json_write_int(&w, "bytes", (int64_t)run->code_len);
    json_write_string(&w, "sha256", code_sha256);
    json_write_bool(&w, "kept", code_kept);
    json_write_close(&w, '}');

    write_files(&w, run);
    write_connections(&w, run);
    write_policy(&w, run);
    write_checks(&w, run);
    write_output(&w, run, output_max);
    write_end(&w, run);
    json_write_close(&w, '}');
    buf_add(out, "", 1);
}
