/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How answers name a file: in the structured part, as a link, in _meta (so
 * that a host can fetch it with the container files API) and as text. Also
 * tool_keep, which stores bytes of a call or of a long output as a file of the
 * session. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/size.h"
#include "doors/mcp/tool.h"

#define ROOT "/mnt/data/"

/* ---- answers in general ------------------------------------------------- */

static const struct api_field status_fields[] = {
    {"status", API_STRING, API_AT(struct tool_status, status),
     .help = "ok, or what kind of failure it was"},
    {"message", API_STRING, API_OPTIONAL, API_AT(struct tool_status, message),
     .help = "What went wrong, when it did"},
    {"hint", API_STRING, API_OPTIONAL | API_NULLABLE,
     API_AT(struct tool_status, hint), .help = "What to do about it"},
};
API_OUTPUT(tool_status, "status", struct tool_status, status_fields, NULL);

#define RUN(member) API_AT(struct tool_run_status, member)

static const struct api_field run_status_fields[] = {
    {"status", API_STRING, RUN(status.status),
     .help = "ok, pending_approval, or the kind of failure"},
    {"message", API_STRING, API_OPTIONAL, RUN(status.message),
     .help = "What went wrong"},
    {"hint", API_STRING, API_OPTIONAL, RUN(status.hint),
     .help = "What to do about it"},
    {"session_id", API_STRING, API_OPTIONAL, RUN(session)},
    {"execution_id", API_STRING, API_OPTIONAL, RUN(execution)},
    {"approval_id", API_STRING, API_OPTIONAL, RUN(approval),
     .help = "Of status pending_approval: the request that a person has to "
             "approve first"},
};
API_OUTPUT(tool_run_status, "run status", struct tool_run_status,
           run_status_fields, NULL);

void tool_answer(struct mcp_answer *ret, const struct api_resource *r,
                 const void *object)
{
    struct json_writer w = {.out = &ret->structured};

    api_write(&w, NULL, r, object);
}

/* ---- files -------------------------------------------------------------- */

/* Can its bytes be fetched? Those of a deleted file cannot. */
static bool file_is_kept(const struct tool_file *f)
{
    return tool_some(f->file) && tool_some(f->version) &&
           (!f->change || strcmp(f->change, "deleted") != 0);
}

static const char *file_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *tool_file_url(const struct mcp_call *call, const char *file,
                          const char *version)
{
    if (!tool_some(file) || !tool_some(version))
        return NULL;
    return arena_printf(call->arena, "%s/api/files/%s/content?version=%s",
                        call->base_url, file, version);
}

#define VIEW(member) API_AT(struct tool_file_view, member)

/* What a model needs; _meta has the rest (write_file_meta). */
static const struct api_field file_fields[] = {
    {"path", API_STRING, VIEW(file.path), .help = "Below /mnt/data"},
    {"change", API_STRING, API_OPTIONAL, VIEW(file.change),
     .help = "created, modified, deleted or renamed"},
    {"status", API_STRING, API_OPTIONAL, VIEW(file.status),
     .help = "Of a file that was not stored as requested: locked, conflict, "
             "kept, storage_full, forbidden or skipped"},
    {"note", API_STRING, API_OPTIONAL, VIEW(file.why),
     .help = "Why it was not stored as requested"},
    {"size", API_INT, VIEW(file.size)},
    {"url", API_STRING, API_OPTIONAL, VIEW(url),
     .help = "Where this service serves its bytes"},
};
API_OUTPUT(tool_file_resource, "file", struct tool_file_view, file_fields,
           NULL);

/* The same of an answer that is about one file. */
static const struct api_field one_file_fields[] = {
    {"path", API_STRING, VIEW(file.path), .help = "Below /mnt/data"},
    {"sandbox_path", API_STRING, VIEW(sandbox_path)},
    {"change", API_STRING, API_NULLABLE, VIEW(file.change),
     .help = "created, modified, deleted or renamed"},
    {"note", API_STRING, API_NULLABLE, VIEW(file.why),
     .help = "Why it was not stored as requested"},
    {"size", API_INT, VIEW(file.size)},
    {"mime_type", API_STRING, API_NULLABLE, VIEW(file.mime)},
    {"file_id", API_STRING, API_NULLABLE, VIEW(file.file)},
    {"version", API_STRING, API_NULLABLE, VIEW(file.version)},
    {"sha256", API_STRING, API_NULLABLE, VIEW(file.sha256)},
    {"uri", API_STRING, API_NULLABLE, VIEW(uri),
     .help = "Readable by resources/read"},
    {"url", API_STRING, API_NULLABLE, VIEW(url),
     .help = "Where this service serves its bytes"},
};
API_OUTPUT(tool_one_file_resource, "one file", struct tool_file_view,
           one_file_fields, NULL);

/* For hosts, which fetch files and link to them. */
static const struct api_field file_meta_fields[] = {
    {"id", API_STRING, VIEW(container_file),
     .help = "Of the container files API"},
    {"file_id", API_STRING, VIEW(file.file)},
    {"version", API_STRING, VIEW(file.version)},
    {"name", API_STRING, VIEW(name)},
    {"path", API_STRING, VIEW(sandbox_path)},
    {"mime_type", API_STRING, API_NULLABLE, VIEW(file.mime)},
    {"sha256", API_STRING, API_NULLABLE, VIEW(file.sha256)},
    {"uri", API_STRING, API_NULLABLE, VIEW(uri),
     .help = "Readable by resources/read"},
    {"url", API_STRING, VIEW(url)},
};
static API_OUTPUT(file_meta_resource, "file meta", struct tool_file_view,
                  file_meta_fields, NULL);

struct tool_file_view tool_file_view(const struct mcp_call *call,
                                     const char *workspace,
                                     const struct tool_file *f)
{
    struct arena *arena = call->arena;
    bool kept = file_is_kept(f);
    char id[ID_MAX];

    return (struct tool_file_view){
        .file = *f,
        .name = file_name_of(f->path),
        .container_file =
            kept ? arena_strdup(arena, doors_file_container(f->file, id))
                 : NULL,
        .sandbox_path = arena_printf(arena, "sandbox:" ROOT "%s", f->path),
        .uri = kept && tool_some(workspace)
                   ? mcp_uri_make(arena, workspace, f->path)
                   : NULL,
        .url = kept ? tool_file_url(call, f->file, f->version) : NULL,
    };
}

void tool_file_link(struct mcp_answer *a, struct arena *arena,
                    const char *workspace, const struct tool_file *f)
{
    if (!file_is_kept(f) || !tool_some(workspace))
        return;
    mcp_answer_link(a,
                    &(struct mcp_link){
                        .uri = mcp_uri_make(arena, workspace, f->path),
                        .name = file_name_of(f->path),
                        .description = arena_printf(arena, ROOT "%s", f->path),
                        .mime = tool_some(f->mime),
                        .size = (int64_t)f->size,
                    });
}

void tool_files_meta(struct mcp_answer *a, const struct mcp_call *call,
                     const char *session, const char *workspace,
                     const struct tool_file *files, size_t count)
{
    struct json_writer w = {.out = &a->meta};

    buf_reset(&a->meta);
    json_write_string(&w, "container_id", session);
    json_write_open(&w, "files", '[');
    for (size_t i = 0; i < count; i++) {
        struct tool_file_view view =
            tool_file_view(call, workspace, &files[i]);

        if (file_is_kept(&files[i]))
            api_write(&w, NULL, &file_meta_resource, &view);
    }
    json_write_close(&w, ']');
}

void tool_file_say(struct buf *out, const struct tool_file *f)
{
    char size[32];

    buf_addf(out, ROOT "%s (", f->path);
    if (tool_some(f->change))
        buf_adds(out, f->change);
    if (!f->change || strcmp(f->change, "deleted") != 0)
        buf_addf(out, "%s%s", tool_some(f->change) ? ", " : "",
                 size_format(f->size, size));
    buf_adds(out, ")");
    if (tool_some(f->why))
        buf_addf(out, ": %s", f->why);
    buf_adds(out, "\n");
}

#define NEWEST_EVENTS 20u /* of the history, looked through for them */

static const struct api_field newest_fields[] = {
    {"path", API_STRING, API_AT(struct tool_newest, path)},
    {"modified_at", API_TIME, API_NULLABLE,
     API_AT(struct tool_newest, modified_at_ms)},
};
API_OUTPUT(tool_newest_resource, "newest file", struct tool_newest,
           newest_fields, NULL);

/* Has an event after this one been about the same file? */
static bool is_outdated(const struct workspace_event *events, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(events[i].file.file, events[at].file.file) == 0)
            return true;
    return false;
}

size_t tool_newest(struct mcp_call *call, const char *workspace,
                   struct tool_newest ret[TOOL_NEWEST_MAX])
{
    struct workspace_event *events = NULL;
    struct page_result got = {0};
    struct error ignored;
    size_t count = 0;

    if (!workspace[0] ||
        workspace_history(
            call->doors->workspaces, call->actor, workspace,
            &(struct workspace_history_spec){.limit = NEWEST_EVENTS}, &events,
            &got, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < got.count && count < TOOL_NEWEST_MAX; i++) {
        const struct workspace_event *e = &events[i];

        if (e->file.sha256[0] && !is_outdated(events, i) &&
            !path_below(e->file.path, TOOL_KEPT_FOLDER))
            ret[count++] = (struct tool_newest){
                arena_strdup(call->arena, e->file.path), e->at_ms};
    }
    workspace_events_free(events, got.count);
    return count;
}

void tool_newest_say(struct buf *out, const struct tool_newest *newest,
                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_addf(out, "%s%s", i ? ", " : ", newest: ", newest[i].path);
}

int tool_keep(struct mcp_call *call, const char *session, const char *path,
              const void *bytes, size_t len, struct session_file *ret,
              struct error *err)
{
    struct session_upload *u = NULL;
    int r = session_upload_begin(call->doors->sessions, call->actor, session,
                                 path, &u, err);

    if (r < 0)
        return r;
    r = session_upload_write(u, bytes, len, err);
    if (r < 0) {
        session_upload_abort(u);
        return r;
    }
    return session_upload_commit(u, ret, err);
}
