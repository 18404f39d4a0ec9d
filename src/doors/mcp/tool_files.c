/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How answers name a file: in the structured part, as a link, in _meta (so
 * that a host can fetch it by the container files API) and in words. Runs on
 * a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "doors/mcp/tool.h"

#define ROOT "/mnt/data/"

/* ---- answers in general --------------------------------------------------
 */

static const struct api_field status_fields[] = {
    {"status", API_STRING, API_AT(struct tool_status, status),
     .help = "ok, or what kind of failure it was"},
    {"message", API_STRING, API_OPTIONAL, API_AT(struct tool_status, message),
     .help = "What went wrong, when it did"},
    {"hint", API_STRING, API_OPTIONAL | API_NULLABLE,
     API_AT(struct tool_status, hint), .help = "What to do about it"},
};
API_OUTPUT(tool_status, "status", struct tool_status, status_fields, NULL);

void tool_answer(struct mcp_answer *ret, const struct api_resource *r,
                 const void *object)
{
    struct json_writer w = {.out = &ret->structured};

    api_write(&w, NULL, r, object);
}

/* ---- files -------------------------------------------------------------- */

static bool is_kept(const struct tool_file *f)
{
    return tool_some(f->file) && tool_some(f->version);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *tool_file_url(struct arena *arena, const char *file,
                          const char *version)
{
    if (!tool_some(file) || !tool_some(version))
        return NULL;
    return arena_printf(arena, "/api/files/%s/content?version=%s", file,
                        version);
}

#define VIEW(member) API_AT(struct tool_file_view, member)

static const struct api_field file_fields[] = {
    {"path", API_STRING, VIEW(file.path), .help = "Below /mnt/data"},
    {"sandbox_path", API_STRING, VIEW(sandbox_path)},
    {"change", API_STRING, API_NULLABLE, VIEW(file.change),
     .help = "created, modified, deleted or renamed"},
    {"note", API_STRING, API_NULLABLE, VIEW(file.why),
     .help = "Why it was not kept as asked"},
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
API_OUTPUT(tool_file_resource, "file", struct tool_file_view, file_fields,
           NULL);

struct tool_file_view tool_file_view(struct arena *arena,
                                     const char *workspace,
                                     const struct tool_file *f)
{
    bool linked = is_kept(f) && tool_some(workspace);

    return (struct tool_file_view){
        .file = *f,
        .sandbox_path = arena_printf(arena, "sandbox:" ROOT "%s", f->path),
        .uri = linked ? mcp_uri_make(arena, workspace, f->path) : NULL,
        .url = tool_file_url(arena, f->file, f->version),
    };
}

void tool_file_encode(struct json_writer *w, const char *key,
                      struct arena *arena, const char *workspace,
                      const struct tool_file *f)
{
    struct tool_file_view view = tool_file_view(arena, workspace, f);

    api_write(w, key, &tool_file_resource, &view);
}

void tool_file_link(struct mcp_answer *a, struct arena *arena,
                    const char *workspace, const struct tool_file *f)
{
    if (!is_kept(f) || !tool_some(workspace))
        return;
    mcp_answer_link(a,
                    &(struct mcp_link){
                        .uri = mcp_uri_make(arena, workspace, f->path),
                        .name = name_of(f->path),
                        .description = arena_printf(arena, ROOT "%s", f->path),
                        .mime = tool_some(f->mime),
                        .size = (int64_t)f->size,
                    });
}

static void encode_meta_file(struct json_writer *w, const struct tool_file *f)
{
    struct buf text cleanup(buf_done) = {0};
    char id[ID_MAX];

    json_write_open(w, NULL, '{');
    json_write_string(w, "id", doors_file_container(f->file, id));
    json_write_string(w, "file_id", f->file);
    json_write_string(w, "name", name_of(f->path));
    buf_addf(&text, "sandbox:" ROOT "%s", f->path);
    json_write_string(w, "path", text.data);
    buf_reset(&text);
    buf_addf(&text, "/api/files/%s/content?version=%s", f->file, f->version);
    json_write_string(w, "url", text.data);
    json_write_close(w, '}');
}

void tool_files_meta(struct mcp_answer *a, const char *session,
                     const struct tool_file *files, size_t count)
{
    struct json_writer w = {.out = &a->meta};

    buf_reset(&a->meta);
    json_write_string(&w, "container_id", session);
    json_write_open(&w, "files", '[');
    for (size_t i = 0; i < count; i++)
        if (is_kept(&files[i]))
            encode_meta_file(&w, &files[i]);
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
                 tool_text_size(f->size, size));
    buf_adds(out, ")");
    if (tool_some(f->why))
        buf_addf(out, ": %s", f->why);
    buf_adds(out, "\n");
}
