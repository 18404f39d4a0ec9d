/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces, files, commits and versions as JSON. Runs in the daemon, on
 * workers and (for streams) on the event thread; does not wait.
 */
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

void native_encode_url(struct json_writer *w, const char *key,
                       const char *file, const char *version)
{
    struct buf path cleanup(buf_done) = {0};

    if (file[0] && version[0])
        buf_addf(&path, "/api/files/%s/content?version=%s", file, version);
    json_write_url(w, key, path.data);
}

/* Null without a path. */
static void write_sandbox_path(struct json_writer *w, const char *key,
                               const char *path)
{
    struct buf text cleanup(buf_done) = {0};

    if (path)
        buf_addf(&text, "sandbox:/mnt/data/%s", path);
    json_write_string(w, key, text.data);
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

static bool is_file(const void *object)
{
    const struct native_file_view *v = object;

    return v->file.file[0] != '\0';
}

static void write_type(struct json_writer *w, const char *key,
                       const void *object)
{
    json_write_string(w, key, is_file(object) ? "file" : "folder");
}

static void write_file_url(struct json_writer *w, const char *key,
                           const void *object)
{
    const struct native_file_view *v = object;

    native_encode_url(w, key, v->file.file, v->file.version);
}

static void write_file_place(struct json_writer *w, const char *key,
                             const void *object)
{
    const struct native_file_view *v = object;

    write_sandbox_path(w, key, v->file.path);
}

static const char *const entry_types[] = {"file", "folder", NULL};

#define VIEW(member) API_AT(struct native_file_view, member)
/* The fields of a file that a folder lacks. */
#define FILE_FIELDS(flags_, when_)                                            \
    {"workspace", API_STRING, (flags_), VIEW(workspace), .when = (when_)},    \
        {"file_id",       API_STRING,                                         \
         (flags_),        VIEW(file.file),                                    \
         .when = (when_), .help = "stays through overwriting and renaming"},  \
        {"version", API_STRING, (flags_), VIEW(file.version),                 \
         .when = (when_)},                                                    \
        {"number",        API_INT,                                            \
         (flags_),        VIEW(file.number),                                  \
         .when = (when_), .help = "of the version: 1, 2, …"},                 \
        {"size", API_INT, (flags_), VIEW(file.size), .when = (when_)},        \
        {"sha256",          API_STRING,      (flags_),                        \
         VIEW(file.sha256), .when = (when_), .help = "also its ETag"},        \
        {"mime_type", API_STRING, API_NULLABLE | (flags_), VIEW(file.mime),   \
         .when = (when_)},                                                    \
        {"executable", API_BOOL, (flags_), VIEW(file.executable),             \
         .when = (when_)},                                                    \
        {"modified_at", API_TIME, (flags_), VIEW(file.modified_at_ms),        \
         .when = (when_)},                                                    \
        {"url",           API_STRING,                                         \
         (flags_),        .write = write_file_url,                            \
         .when = (when_), .help = "of this version's bytes"},                 \
    {                                                                         \
        "sandbox_path", API_STRING, (flags_), .write = write_file_place,      \
                                              .when = (when_)                 \
    }

static const struct api_field entry_fields[] = {
    {"type", API_CHOICE, .write = write_type, .choices = entry_types},
    {"path", API_STRING, VIEW(file.path), .help = "a folder's ends with /"},
    FILE_FIELDS(API_OPTIONAL, is_file),
};
API_OUTPUT(native_entry, "Entry", struct native_file_view, entry_fields,
           "A file, or a folder of a listing by level.");

static const struct api_field file_fields[] = {
    {"type", API_CHOICE, .write = write_type, .choices = entry_types},
    {"path", API_STRING, VIEW(file.path)},
    FILE_FIELDS(0, NULL),
};
API_OUTPUT(native_file, "File", struct native_file_view, file_fields,
           "A file as of a version.");

#define PUT(member) API_AT(struct native_file_put_view, member)

static const struct api_field file_put_fields[] = {
    {"commit", API_STRING, API_NULLABLE, PUT(commit),
     .help = "null when the same bytes were there already"},
    {"change", API_STRING, PUT(change),
     .help = "created, modified or unchanged"},
};
API_OUTPUT_OF(native_file_put, "FilePut", &native_file,
              struct native_file_put_view, file_put_fields,
              "A file that was stored.");

/* ---- changes ------------------------------------------------------------ */

/* One change by any author; "" and NULL for what does not apply. */
struct change {
    const char *path, *change, *file, *version, *sha256, *mime;
    const char *wanted, *from, *reason, *holder;
    uint64_t size;
    int64_t lock_expires_at_ms;
};

/* Else its name may be made up. */
static bool was_kept(const struct change *c)
{
    return c->change && c->change[0];
}

static void write_change(struct json_writer *w, const char *key,
                         const void *object)
{
    const struct change *c = object;

    json_write_string(w, key, was_kept(c) ? c->change : "skipped");
}

static void write_change_url(struct json_writer *w, const char *key,
                             const void *object)
{
    const struct change *c = object;
    bool bytes = c->sha256 && c->sha256[0];

    native_encode_url(w, key, bytes ? c->file : "", bytes ? c->version : "");
}

static void write_change_place(struct json_writer *w, const char *key,
                               const void *object)
{
    const struct change *c = object;

    write_sandbox_path(w, key, was_kept(c) ? c->path : NULL);
}

static bool is_locked(const void *object)
{
    const struct change *c = object;

    return c->holder && c->holder[0];
}

#define CHANGE(member) API_AT(struct change, member)

static const struct api_field change_fields[] = {
    {"path", API_STRING, CHANGE(path)},
    {"change", API_STRING, .write = write_change,
     .help = "created, modified, deleted, renamed, copied, restored, "
             "unchanged or skipped"},
    {"file_id", API_STRING, API_NULLABLE, CHANGE(file)},
    {"version", API_STRING, API_NULLABLE, CHANGE(version)},
    {"size", API_INT, CHANGE(size)},
    {"sha256", API_STRING, API_NULLABLE, CHANGE(sha256)},
    {"mime_type", API_STRING, API_NULLABLE, CHANGE(mime)},
    {"url", API_STRING, API_NULLABLE, .write = write_change_url,
     .help = "stays valid"},
    {"sandbox_path", API_STRING, API_NULLABLE, .write = write_change_place,
     .help = "sandbox:/mnt/data/…"},
    {"from", API_STRING, API_OPTIONAL, CHANGE(from),
     .help = "where it was before"},
    {"wanted", API_STRING, API_OPTIONAL, CHANGE(wanted),
     .help = "the path the code wrote"},
    {"reason", API_STRING, API_OPTIONAL, CHANGE(reason),
     .help = "why it is not as asked"},
    {"holder", API_STRING, API_OPTIONAL, CHANGE(holder), .when = is_locked,
     .help = "whose lock it is"},
    {"lock_expires_at", API_TIME, API_OPTIONAL, CHANGE(lock_expires_at_ms),
     .when = is_locked},
};
API_OUTPUT(native_change, "Change", struct change, change_fields,
           "One change of a file.");

static void write_changes(struct json_writer *w, const char *key,
                          const void *object)
{
    const struct workspace_commit *c =
        &((const struct native_commit_view *)object)->commit;

    json_write_open(w, key, '[');
    for (size_t i = 0; i < c->count; i++) {
        const struct workspace_result *r = &c->results[i];
        const struct workspace_file *f = &r->file;

        api_write(w, NULL, &native_change,
                  &(struct change){
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
}

#define COMMIT(member) API_AT(struct native_commit_view, member)

static const struct api_field commit_fields[] = {
    {"commit", API_STRING, API_NULLABLE, COMMIT(commit.id),
     .help = "null when nothing had to change"},
    {"workspace", API_STRING, COMMIT(workspace)},
    {"number", API_INT, COMMIT(commit.seq), .help = "of the newest commit"},
    {"at", API_TIME, API_NULLABLE, COMMIT(commit.at_ms)},
    {"changes", API_ARRAY, .write = write_changes, .of = &native_change},
};
API_OUTPUT(native_commit, "Commit", struct native_commit_view, commit_fields,
           "One atomic set of changes.");

/* ---- versions ----------------------------------------------------------- */

static bool has_bytes(const void *object)
{
    const struct native_version_view *v = object;

    return v->event.file.sha256[0] && !v->event.purged;
}

static void write_version_url(struct json_writer *w, const char *key,
                              const void *object)
{
    const struct native_version_view *v = object;

    native_encode_url(w, key, has_bytes(v) ? v->event.file.file : "",
                      v->event.file.version);
}

static void write_available(struct json_writer *w, const char *key,
                            const void *object)
{
    json_write_bool(w, key, has_bytes(object));
}

#define VERSION(member) API_AT(struct native_version_view, member)

static const struct api_field version_fields[] = {
    {"workspace", API_STRING, VERSION(workspace)},
    {"commit", API_STRING, VERSION(event.commit)},
    {"number", API_INT, VERSION(event.seq), .help = "the commit's"},
    {"at", API_TIME, VERSION(event.at_ms)},
    {"kind", API_STRING, VERSION(event.kind),
     .help = "execution, upload, delete, move, copy, restore, share"},
    {"author", API_STRING, VERSION(event.author), .help = "a key, or a share"},
    {"author_name", API_STRING, API_NULLABLE | API_NAME_OF,
     VERSION(event.author)},
    {"session", API_STRING, API_NULLABLE, VERSION(event.session)},
    {"execution", API_STRING, API_NULLABLE, VERSION(event.execution)},
    {"language", API_STRING, API_NULLABLE, VERSION(event.language)},
    {"conversation", API_STRING, API_NULLABLE, VERSION(event.conversation)},
    {"message", API_STRING, API_NULLABLE, VERSION(event.message)},
    {"note", API_STRING, API_NULLABLE, VERSION(event.note)},
    {"change", API_STRING, VERSION(event.change)},
    {"path", API_STRING, VERSION(event.file.path)},
    {"from", API_STRING, API_NULLABLE, VERSION(event.from_path),
     .help = "where it was before"},
    {"file_id", API_STRING, VERSION(event.file.file)},
    {"version", API_STRING, VERSION(event.file.version)},
    {"version_number", API_INT, VERSION(event.file.number)},
    {"from_version", API_STRING, API_NULLABLE, VERSION(event.from_version),
     .help = "what was copied or brought back"},
    {"size", API_INT, VERSION(event.file.size)},
    {"sha256", API_STRING, API_NULLABLE, VERSION(event.file.sha256),
     .help = "null for a deletion"},
    {"mime_type", API_STRING, API_NULLABLE, VERSION(event.file.mime)},
    {"url", API_STRING, API_NULLABLE, .write = write_version_url},
    {"available", API_BOOL, .write = write_available,
     .help = "false once retention gave the bytes up"},
};
API_OUTPUT(native_version, "Version", struct native_version_view,
           version_fields, "A version with the commit that made it.");

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

/* The list that the key names. */
static void write_file_list(struct json_writer *w, const char *key,
                            const void *object)
{
    const struct exec_info *info = object;

    json_write_open(w, key, '[');
    for (size_t i = 0; i < info->file_count; i++) {
        const struct exec_file_change *f = &info->files[i];

        if (strcmp(list_names[list_of(f)], key) != 0)
            continue;
        api_write(w, NULL, &native_change,
                  &(struct change){
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

#define LIST(name_, help_)                                                    \
    {                                                                         \
        (name_), API_ARRAY, .write = write_file_list, .of = &native_change,   \
                            .help = (help_)                                   \
    }

static const struct api_field execution_files_fields[] = {
    LIST("created", NULL),
    LIST("modified", NULL),
    LIST("deleted", NULL),
    LIST("renamed", NULL),
    LIST("conflicts", "others had changed it: kept beside theirs"),
    LIST("refused", "locked by others, or no room"),
    LIST("skipped", "not a file we keep"),
    {"not_kept", API_INT, API_AT(struct exec_info, files_not_kept),
     .help = "files of the session that its workspace does not have: refused "
             "now, or earlier and unchanged since"},
    {"truncated", API_BOOL, API_AT(struct exec_info, files_truncated),
     .help = "more changed than are listed; all are kept"},
};
API_OUTPUT(native_execution_files, "ExecutionFiles", struct exec_info,
           execution_files_fields,
           "What an execution changed, by what became of it.");
