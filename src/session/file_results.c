/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills in the file list of an execution: what happened to each changed file.
 * Runs in gloveboxd on the thread that has the turn. The strings live as long
 * as the execution.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define LISTED_MAX 1000u

struct note {
    struct arena *arena;
    struct exec_file_change *files;
    size_t count;
    size_t bytes;
    bool truncated;
    size_t not_kept;
};

static const char *keep_text(struct note *n, const char *text)
{
    if (!text || !text[0])
        return "";
    n->bytes += strlen(text) + 1;
    return arena_strdup(n->arena, text);
}

static struct exec_file_change *add_file(struct note *n, const char *path)
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
    f->path = keep_text(n, path);
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

static void add_skipped(struct note *n, const struct changes *ch)
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
static void add_refused(struct note *n, const struct changes *ch,
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
        f->why = keep_text(n, why->message);
        f->size = ch->items[i].size;
    }
}

static void tell_fate(struct note *n, struct exec_file_change *f,
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
        f->why = keep_text(
            n,
            arena_printf(n->arena, "%s holds a lock on it until %s", r->holder,
                         clock_format_ms(r->lock_expires_at_ms, until)));
        f->holder = keep_text(n, r->holder);
        f->lock_expires_at_ms = r->lock_expires_at_ms;
        break;
    case FATE_QUOTA:
        f->fate = EXEC_FILE_QUOTA;
        f->why = "the workspace has no room for it";
        break;
    }
}

static void add_results(struct note *n, const struct workspace_commit *done)
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
        f->change = keep_text(n, r->change);
        f->wanted = keep_text(n, r->wanted);
        f->from = keep_text(n, r->from);
        f->size = r->file.size;
        f->file = keep_text(n, r->file.file);
        f->version = keep_text(n, r->file.version);
        f->sha256 = keep_text(n, r->file.sha256);
        f->mime = keep_text(n, r->file.mime);
        tell_fate(n, f, r);
    }
}

/* Hands all of it to the execution. */
static void publish(struct execution *e, struct note *n, const char *commit)
{
    mutex_lock(&e->lock);
    e->strings = n->arena;
    e->changes = n->files;
    e->change_bytes = n->count ? n->bytes + LISTED_MAX * sizeof(*n->files) : 0;
    e->info.files = n->files;
    e->info.file_count = n->count;
    e->info.files_truncated = n->truncated;
    e->info.files_not_kept = n->not_kept;
    e->info.commit = keep_text(n, commit);
    mutex_unlock(&e->lock);
}

void session_file_results(struct execution *e, const struct changes *ch,
                          const struct workspace_commit *done,
                          const struct error *why)
{
    struct note n = {.arena = arena_new(), .truncated = ch->cut};

    if (why)
        add_refused(&n, ch, why);
    else
        add_results(&n, done);
    add_skipped(&n, ch);
    publish(e, &n, done->id);
}

/* ---- ephemeral: names only, and only in memory -------------------------- */

#define SEEN_MAX 200000u

struct seen {
    struct idmap_node node;
    char path[];
};

static void forget(struct session *se, struct idmap_node *n)
{
    struct seen *s = container_of(n, struct seen, node);

    session_idmap_remove(&se->seen, n);
    free(s);
}

void session_seen_done(struct session *se)
{
    for (size_t i = 0; i < se->seen.size; i++)
        while (se->seen.buckets[i]) {
            struct idmap_node *n = se->seen.buckets[i];

            se->seen.buckets[i] = n->next;
            free(container_of(n, struct seen, node));
        }
    session_idmap_done(&se->seen);
}

/* True when it was there before. */
static bool remember(struct session *se, const char *path)
{
    struct seen *s;

    if (session_idmap_find(&se->seen, path))
        return true;
    if (se->seen.count >= SEEN_MAX)
        return false;
    s = xmalloc(sizeof(*s) + strlen(path) + 1);
    memcpy(s->path, path, strlen(path) + 1);
    session_idmap_add(&se->seen, &s->node, s->path);
    return false;
}

void session_file_results_ephemeral(struct session *se, struct execution *e,
                                    const struct changes *ch)
{
    struct note n = {.truncated = ch->cut};

    if (!e)
        return;
    n.arena = arena_new();
    for (size_t i = 0; i < ch->count; i++) {
        const char *path = box_changes_path(ch, i);
        struct exec_file_change *f = NULL;
        struct idmap_node *known;

        if (ch->items[i].kind == INIT_ENTRY_WROTE) {
            bool old = remember(se, path);

            f = add_file(&n, path);
            if (f)
                f->change = old ? "modified" : "created";
        } else if ((known = session_idmap_find(&se->seen, path))) {
            forget(se, known);
            f = add_file(&n, path);
            if (f)
                f->change = "deleted";
        }
        if (f)
            f->size = ch->items[i].size;
    }
    add_skipped(&n, ch);
    publish(e, &n, "");
}
