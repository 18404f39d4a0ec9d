/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces, files, commits and versions as JSON. Runs in the daemon, on
 * workers and (for streams) on the event thread; does not wait.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

void native_encode_text(struct json_writer *w, const char *key,
                        const char *text)
{
    json_write_string(w, key, text && text[0] ? text : NULL);
}

void native_encode_words(struct json_writer *w, const char *key,
                         const char *rest)
{
    json_write_open(w, key, '[');
    while (*rest) {
        size_t n = strcspn(rest, ",");

        json_write_text(w, NULL, rest, n);
        rest += n + (rest[n] == ',');
    }
    json_write_close(w, ']');
}

void native_encode_url(struct json_writer *w, const char *file,
                       const char *version)
{
    struct buf url cleanup(buf_done) = {0};

    if (file[0] && version[0])
        buf_addf(&url, "/api/files/%s/content?version=%s", file, version);
    json_write_string(w, "url", url.data);
}

void native_encode_sandbox_path(struct json_writer *w, const char *path)
{
    struct buf text cleanup(buf_done) = {0};

    buf_addf(&text, "sandbox:/mnt/data/%s", path);
    json_write_text(w, "sandbox_path", text.data, text.len);
}

void native_encode_list(struct json_writer *w)
{
    json_write_open(w, NULL, '{');
    json_write_open(w, "data", '[');
}

void native_encode_list_end(struct json_writer *w, bool more)
{
    json_write_close(w, ']');
    json_write_bool(w, "has_more", more);
    json_write_close(w, '}');
}

/* ---- files -------------------------------------------------------------- */

void native_encode_file(struct json_writer *w, const char *workspace,
                        const struct workspace_file *f)
{
    if (!f->file[0]) { /* a folder of a listing */
        json_write_string(w, "type", "folder");
        json_write_string(w, "path", f->path);
        return;
    }
    json_write_string(w, "type", "file");
    json_write_string(w, "path", f->path);
    json_write_string(w, "workspace", workspace);
    json_write_string(w, "file_id", f->file);
    json_write_string(w, "version", f->version);
    json_write_int(w, "number", f->number);
    json_write_int(w, "size", (int64_t)f->size);
    native_encode_text(w, "sha256", f->sha256);
    native_encode_text(w, "mime_type", f->mime);
    json_write_bool(w, "executable", f->executable);
    json_write_time(w, "modified_at", f->modified_at_ms);
    native_encode_url(w, f->file, f->version);
    native_encode_sandbox_path(w, f->path);
}

/* ---- changes ------------------------------------------------------------ */

/* One change, whoever made it; "" and NULL for what does not apply. */
struct change {
    const char *path, *change, *file, *version, *sha256, *mime;
    const char *wanted, *from, *reason, *holder;
    uint64_t size;
    int64_t lock_expires_at_ms;
};

static void encode_change(struct json_writer *w, const struct change *c)
{
    bool bytes = c->sha256 && c->sha256[0];
    bool kept = c->change[0] != '\0'; /* else its name may be made up */

    json_write_open(w, NULL, '{');
    json_write_string(w, "path", c->path);
    json_write_string(w, "change", kept ? c->change : "skipped");
    native_encode_text(w, "file_id", c->file);
    native_encode_text(w, "version", c->version);
    json_write_int(w, "size", (int64_t)c->size);
    native_encode_text(w, "sha256", c->sha256);
    native_encode_text(w, "mime_type", c->mime);
    native_encode_url(w, bytes ? c->file : "", bytes ? c->version : "");
    if (kept)
        native_encode_sandbox_path(w, c->path);
    else
        json_write_string(w, "sandbox_path", NULL);
    if (c->from && c->from[0])
        json_write_string(w, "from", c->from);
    if (c->wanted && c->wanted[0])
        json_write_string(w, "wanted", c->wanted);
    if (c->reason && c->reason[0])
        json_write_string(w, "reason", c->reason);
    if (c->holder && c->holder[0]) {
        json_write_string(w, "holder", c->holder);
        json_write_time(w, "lock_expires_at", c->lock_expires_at_ms);
    }
    json_write_close(w, '}');
}

void native_encode_commit(struct json_writer *w, const char *workspace,
                          const struct workspace_commit *c)
{
    json_write_open(w, NULL, '{');
    native_encode_text(w, "commit", c->id);
    json_write_string(w, "workspace", workspace);
    json_write_int(w, "number", c->seq);
    json_write_time(w, "at", c->at_ms);
    json_write_open(w, "changes", '[');
    for (size_t i = 0; i < c->count; i++) {
        const struct workspace_result *r = &c->results[i];
        const struct workspace_file *f = &r->file;

        encode_change(
            w, &(struct change){
                   .path = f->path,
                   .change = r->fate == FATE_SAME ? "unchanged" : r->change,
                   .file = f->file,
                   .version = f->version,
                   .sha256 = f->sha256,
                   .mime = f->mime,
                   .size = f->size,
                   .wanted = r->wanted,
                   .from = r->from,
               });
    }
    json_write_close(w, ']');
    json_write_close(w, '}');
}

/* ---- versions ----------------------------------------------------------- */

void native_encode_version(struct json_writer *w, const char *workspace,
                           const struct workspace_event *e)
{
    bool bytes = e->file.sha256[0] && !e->purged;

    json_write_string(w, "workspace", workspace);
    json_write_string(w, "commit", e->commit);
    json_write_int(w, "number", e->seq);
    json_write_time(w, "at", e->at_ms);
    json_write_string(w, "kind", e->kind);
    json_write_string(w, "author", e->author);
    native_encode_text(w, "session", e->session);
    native_encode_text(w, "execution", e->execution);
    native_encode_text(w, "language", e->language);
    native_encode_text(w, "conversation", e->conversation);
    native_encode_text(w, "message", e->message);
    native_encode_text(w, "note", e->note);
    json_write_string(w, "change", e->change);
    json_write_string(w, "path", e->file.path);
    native_encode_text(w, "from", e->from_path);
    json_write_string(w, "file_id", e->file.file);
    json_write_string(w, "version", e->file.version);
    json_write_int(w, "version_number", e->file.number);
    native_encode_text(w, "from_version", e->from_version);
    json_write_int(w, "size", (int64_t)e->file.size);
    native_encode_text(w, "sha256", e->file.sha256);
    native_encode_text(w, "mime_type", e->file.mime);
    native_encode_url(w, bytes ? e->file.file : "", e->file.version);
    json_write_bool(w, "available", bytes);
}

/* ---- files of an execution ---------------------------------------------- */

enum list {
    CREATED,
    MODIFIED,
    DELETED,
    RENAMED,
    CONFLICTS,
    REFUSED,
    SKIPPED,
    LISTS
};

static const char *const list_names[LISTS] = {
    [CREATED] = "created", [MODIFIED] = "modified",   [DELETED] = "deleted",
    [RENAMED] = "renamed", [CONFLICTS] = "conflicts", [REFUSED] = "refused",
    [SKIPPED] = "skipped",
};

static enum list list_of(const struct exec_file_change *c)
{
    switch (c->fate) {
    case EXEC_FILE_CONFLICT:
    case EXEC_FILE_KEPT:
        return CONFLICTS;
    case EXEC_FILE_LOCKED:
    case EXEC_FILE_REFUSED:
    case EXEC_FILE_QUOTA:
        return REFUSED;
    case EXEC_FILE_SKIPPED:
        return SKIPPED;
    case EXEC_FILE_DONE:
        break;
    }
    for (int l = CREATED; l <= RENAMED; l++)
        if (strcmp(c->change, list_names[l]) == 0)
            return (enum list)l;
    return MODIFIED;
}

void native_encode_exec_files(struct json_writer *w,
                              const struct exec_info *info)
{
    native_encode_text(w, "workspace", info->workspace);
    native_encode_text(w, "commit", info->commit);
    json_write_open(w, "files", '{');
    for (int l = CREATED; l < LISTS; l++) {
        json_write_open(w, list_names[l], '[');
        for (size_t i = 0; i < info->file_count; i++) {
            const struct exec_file_change *f = &info->files[i];

            if (list_of(f) != (enum list)l)
                continue;
            encode_change(w, &(struct change){
                                 .path = f->path,
                                 .change = f->change,
                                 .file = f->file,
                                 .version = f->version,
                                 .sha256 = f->sha256,
                                 .mime = f->mime,
                                 .size = f->size,
                                 .wanted = f->wanted,
                                 .from = f->from,
                                 .reason = f->why,
                                 .holder = f->holder,
                                 .lock_expires_at_ms = f->lock_expires_at_ms,
                             });
        }
        json_write_close(w, ']');
    }
    json_write_int(w, "not_kept", (int64_t)info->files_not_kept);
    json_write_bool(w, "truncated", info->files_truncated);
    json_write_close(w, '}');
}
