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

void tool_file_encode(struct json_writer *w, const char *key,
                      struct arena *arena, const char *workspace,
                      const struct tool_file *f)
{
    bool linked = is_kept(f) && tool_some(workspace);

    json_write_open(w, key, '{');
    json_write_string(w, "path", f->path);
    json_write_string(w, "sandbox_path",
                      arena_printf(arena, "sandbox:" ROOT "%s", f->path));
    json_write_string(w, "change", tool_some(f->change));
    json_write_string(w, "note", tool_some(f->why));
    json_write_int(w, "size", (int64_t)f->size);
    json_write_string(w, "mime_type", tool_some(f->mime));
    json_write_string(w, "file_id", tool_some(f->file));
    json_write_string(w, "version", tool_some(f->version));
    json_write_string(w, "sha256", tool_some(f->sha256));
    json_write_string(w, "uri",
                      linked ? mcp_uri_make(arena, workspace, f->path) : NULL);
    json_write_string(w, "url", tool_file_url(arena, f->file, f->version));
    json_write_close(w, '}');
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
