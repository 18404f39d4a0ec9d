/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step between the end of an execution and its outcome: read the resource
 * usage, scan for changed files, commit them, and list what became of each.
 * Runs in gloveboxd on the execution's thread. pid 1 scans while this thread
 * reads the control group, so the two overlap. The warden is asked only if the
 * sandbox has ended, to learn how.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "execution/execution_int.h"

/* ---- usage -------------------------------------------------------------- */

#define REAP_TRIES 100u /* until the warden has seen the end too */
#define REAP_NS 10000000L

/* Its counters only grow while the sandbox lives; a fresh one starts at 0. */
static uint64_t counter_growth(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void read_usage(struct collect *c)
{
    const struct warden_usage *base = box_usage_base(c->box);
    struct observations *f = c->observed;
    struct warden_usage now;
    struct error err;

    for (unsigned i = 0; i < REAP_TRIES; i++) {
        int rc = f->end == END_GONE ? box_fate(c->box, &now, &err)
                                    : box_usage(c->box, &now, &err);

        if (rc < 0)
            return; /* released under us: the session was deleted */
        /* Each reading starts a new peak. */
        f->peak_memory_bytes =
            MAX(f->peak_memory_bytes, now.memory_peak_bytes);
        if (f->end != END_GONE || !now.alive)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = REAP_NS}, NULL);
    }
    if (f->end == END_GONE) {
        f->wait_status = now.wait_status;
        f->locks = now.locks;
    }
    f->cpu_ms = counter_growth(now.cpu_ns, base->cpu_ns) / 1000000;
    f->oom_kills = counter_growth(now.oom_kills, base->oom_kills);
    f->pids_denied = counter_growth(now.pids_denied, base->pids_denied);
    box_usage_set_base(c->box, &now);
}

/* ---- files: what became of each change ---------------------------------- */

#define LISTED_MAX 1000u

struct file_list {
    struct arena *arena;
    struct exec_file_change *files;
    size_t count;
    size_t bytes;
    bool truncated;
    size_t not_kept;
};

static const char *list_text(struct file_list *n, const char *text)
{
    if (!text || !text[0])
        return "";
    n->bytes += strlen(text) + 1;
    return arena_strdup(n->arena, text);
}

static struct exec_file_change *add_file(struct file_list *n, const char *path)
{
    static const struct exec_file_change empty = {
        .wanted = "",
        .from = "",
        .change = "",
        .why = "",
        .file = "",
        .version = "",
        .sha256 = "",
        .mime = "",
        .holder = "",
    };
    struct exec_file_change *f;

    if (n->count >= LISTED_MAX) {
        n->truncated = true;
        return NULL;
    }
    if (!n->files)
        n->files = xcalloc(LISTED_MAX, sizeof(*n->files));
    f = &n->files[n->count++];
    *f = empty;
    f->path = list_text(n, path);
    return f;
}

static const char *skip_reason(uint64_t errnum)
{
    switch (errnum) {
    case ELOOP:
        return "symbolic links are not kept";
    case ENODEV:
    case ENXIO:
        return "only regular files are kept";
    case EILSEQ:
        return "its name cannot be carried: names are UTF-8 without control "
               "characters";
    case ENAMETOOLONG:
        return "it is too deep or its path is too long";
    case EFBIG:
        return "it is larger than a session's disk can hold";
    case ENOSPC:
        return "the service's disk was full and lost what was written; write "
               "the file again";
    case EACCES:
    case EPERM:
        return "its permissions forbid reading it";
    default:
        return "it could not be read";
    }
}

static void add_skipped(struct file_list *n, const struct changes *ch)
{
    for (size_t i = 0; i < ch->count; i++) {
        const struct change *c = &ch->items[i];
        struct exec_file_change *f;

        /* ENOENT: made and removed before we looked. */
        if (c->kind != INIT_ENTRY_SKIPPED || c->size == ENOENT)
            continue;
        f = add_file(n, box_changes_path(ch, i));
        if (!f)
            return;
        f->fate = EXEC_FILE_SKIPPED;
        f->why = skip_reason(c->size);
    }
}

/* Of a commit that was refused or failed as a whole. */
static void add_refused(struct file_list *n, const struct changes *ch,
                        const struct error *why)
{
    for (size_t i = 0; i < ch->count; i++) {
        struct exec_file_change *f;

        if (ch->items[i].kind == INIT_ENTRY_SKIPPED ||
            ch->items[i].kind == INIT_ENTRY_CLEARED)
            continue;
        n->not_kept++;
        f = add_file(n, box_changes_path(ch, i));
        if (!f)
            continue;
        f->fate = EXEC_FILE_REFUSED;
        f->why = list_text(n, why->message);
        f->size = ch->items[i].size;
    }
}

static void set_fate(struct file_list *n, struct exec_file_change *f,
                     const struct workspace_result *r)
{
    char until[32];

    switch (r->fate) {
    case FATE_DONE:
    case FATE_SAME:
        break;
    case FATE_CONFLICT:
        f->fate = EXEC_FILE_CONFLICT;
        f->why = "others changed it since this session saw it; this version "
                 "is kept beside theirs";
        break;
    case FATE_KEPT:
        f->fate = EXEC_FILE_KEPT;
        f->why = "others changed it since this session saw it; it was not "
                 "deleted";
        break;
    case FATE_LOCKED:
        f->fate = EXEC_FILE_LOCKED;
        f->why = list_text(
            n,
            arena_printf(n->arena, "%s holds a lock on it until %s", r->holder,
                         clock_format_ms(r->lock_expires_at_ms, until)));
        f->holder = list_text(n, r->holder);
        f->lock_expires_at_ms = r->lock_expires_at_ms;
        break;
    case FATE_QUOTA:
        f->fate = EXEC_FILE_QUOTA;
        f->why = "the workspace has no room for it";
        break;
    }
}

static void add_results(struct file_list *n,
                        const struct workspace_commit *done)
{
    for (size_t i = 0; i < done->count; i++) {
        const struct workspace_result *r = &done->results[i];
        struct exec_file_change *f;

        if (r->fate == FATE_SAME)
            continue;
        n->not_kept += r->fate == FATE_QUOTA || r->fate == FATE_LOCKED;
        f = add_file(n, r->file.path);
        if (!f)
            continue; /* counted all the same */
        f->change = list_text(n, r->change);
        f->wanted = list_text(n, r->wanted);
        f->from = list_text(n, r->from);
        f->size = r->file.size;
        f->file = list_text(n, r->file.file);
        f->version = list_text(n, r->file.version);
        f->sha256 = list_text(n, r->file.sha256);
        f->mime = list_text(n, r->file.mime);
        set_fate(n, f, r);
    }
}

/* Hands all of it to the execution. */
static void publish_files(struct execution *e, struct file_list *n,
                          const char *commit)
{
    mutex_lock(&e->lock);
    e->strings = n->arena;
    e->changes = n->files;
    e->change_bytes = n->count ? n->bytes + LISTED_MAX * sizeof(*n->files) : 0;
    e->info.files = n->files;
    e->info.file_count = n->count;
    e->info.files_truncated = n->truncated;
    e->info.files_not_kept = n->not_kept;
    e->info.commit = list_text(n, commit);
    mutex_unlock(&e->lock);
}

void execution_results_files(struct execution *e, const struct changes *ch,
                             const struct workspace_commit *done,
                             const struct error *why)
{
    struct file_list n = {.arena = arena_new(), .truncated = ch->cut};

    if (why)
        add_refused(&n, ch, why);
    else
        add_results(&n, done);
    add_skipped(&n, ch);
    publish_files(e, &n, done->id);
}

/* An ephemeral session's, by comparing names in memory. */
static void list_ephemeral(struct session *se, struct execution *e,
                           const struct changes *ch)
{
    struct file_list n = {.arena = arena_new(), .truncated = ch->cut};

    for (size_t i = 0; i < ch->count; i++) {
        const char *path = box_changes_path(ch, i);
        struct exec_file_change *f = NULL;

        if (ch->items[i].kind == INIT_ENTRY_WROTE) {
            bool old = session_seen_add(se, path);

            f = add_file(&n, path);
            if (f)
                f->change = old ? "modified" : "created";
        } else if (session_seen_remove(se, path)) {
            f = add_file(&n, path);
            if (f)
                f->change = "deleted";
        }
        if (f)
            f->size = ch->items[i].size;
    }
    add_skipped(&n, ch);
    publish_files(e, &n, "");
}

/* ---- after the end ------------------------------------------------------ */

static void commit_changes(struct session *se, struct collect *c,
                           struct changes *ch)
{
    struct execution *e = c->e;
    struct observations *f = c->observed;
    struct session_commit_report report;
    struct session_commit_origin origin = {
        .author = execution_author(e),
        .execution = e->info.id,
        .language = execution_language_name(e->info.language),
        .code = e->code,
        .code_len = e->code_len,
        .conversation = e->conversation,
        .message = e->message,
        .lock_tokens = (const char *const *)e->lock_tokens,
        .lock_count = e->lock_count,
    };

    if (session_facts(se).ephemeral) {
        list_ephemeral(se, e, ch);
        return;
    }
    if (!session_commit_changes(se, c->box, &origin, ch, &report))
        return;
    f->over_quota_new = report.over_quota_new;
    memcpy(f->over_quota_path, report.over_quota_path,
           sizeof(f->over_quota_path));
    if (report.quota_bytes)
        f->quota_bytes = report.quota_bytes;
    if (report.rc < 0) {
        f->commit_denied |= report.err.code == ERR_FORBIDDEN;
        (void)snprintf(f->commit_failure, sizeof(f->commit_failure), "%.310s",
                       report.err.message);
    }
    execution_results_files(e, ch, &report.done,
                            report.rc < 0 ? &report.err : NULL);
    workspace_commit_done(&report.done);
}

void execution_results(struct session *se, struct collect *c)
{
    struct changes ch cleanup(box_changes_done) = {0};
    struct broker_reply reply = {0};
    bool scanning =
        c->observed->end != END_GONE && session_scan_begin(se, c->box);

    read_usage(c);
    if (session_scan_end(se, c->box, scanning, c->runner->io, &ch, &reply)) {
        c->observed->scanned = true;
        c->observed->scratch_free_bytes = reply.free_bytes;
        c->observed->scratch_free_inodes = reply.free_inodes;
        if (reply.blocked)
            execution_watch_fetch(c->box, c->e, c->runner->io);
    }
    commit_changes(se, c, &ch);
}
