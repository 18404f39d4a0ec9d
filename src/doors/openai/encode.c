/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of this dialect: containers, their files, files, uploads and
 * lists of them. Times are whole seconds; what a schema does not allow to be
 * null is left out instead. Runs on a worker of the daemon.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

static void write_seconds(struct json_writer *w, const char *key,
                          int64_t real_ms)
{
    json_write_int(w, key, real_ms / 1000);
}

/* Typed clients know four sizes: the largest that it has, or the least. */
const char *openai_memory_name(uint64_t bytes)
{
    static const char *const names[] = {"64g", "16g", "4g"};
    uint64_t size = (uint64_t)64 << 30;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++, size /= 4)
        if (bytes >= size)
            return names[i];
    return "1g";
}

void openai_encode_container(struct json_writer *w,
                             const struct session_info *info)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "id", info->id);
    json_write_string(w, "object", "container");
    json_write_string(w, "name", info->name);
    write_seconds(w, "created_at", info->created_at_ms);
    json_write_string(w, "status", info->expired ? "expired" : "running");
    write_seconds(w, "last_active_at", info->last_used_at_ms);
    json_write_open(w, "expires_after", '{');
    json_write_string(w, "anchor", "last_active_at");
    json_write_int(w, "minutes", MAX((info->cooldown_s + 59) / 60, 1));
    json_write_close(w, '}');
    json_write_string(w, "memory_limit",
                      openai_memory_name(info->limits.memory_bytes));
    openai_network_encode(w, info);
    json_write_close(w, '}');
}

void openai_encode_listed(struct json_writer *w,
                          const struct openai_listed *file)
{
    struct buf path cleanup(buf_done) = {0};
    char id[ID_MAX];

    buf_addf(&path, OPENAI_ROOT "%s", file->path);
    json_write_open(w, NULL, '{');
    json_write_string(w, "id", doors_file_container(file->file, id));
    json_write_string(w, "object", "container.file");
    json_write_string(w, "container_id", file->container);
    write_seconds(w, "created_at", file->created_at_ms);
    json_write_int(w, "bytes", (int64_t)file->size);
    json_write_text(w, "path", path.data, path.len);
    json_write_string(w, "source", file->by_execution ? "assistant" : "user");
    if (file->durable) /* this one is good when the container is gone */
        json_write_string(w, "file_id", doors_file_library(file->file, id));
    json_write_close(w, '}');
}

void openai_encode_file(struct json_writer *w, const char *key,
                        const struct library_file *file)
{
    char id[ID_MAX];

    json_write_open(w, key, '{');
    json_write_string(w, "id", doors_file_library(file->file, id));
    json_write_string(w, "object", "file");
    json_write_int(w, "bytes", (int64_t)file->size);
    write_seconds(w, "created_at", file->created_at_ms);
    if (file->expires_at_ms)
        write_seconds(w, "expires_at", file->expires_at_ms);
    json_write_string(w, "filename", file->filename);
    json_write_string(w, "purpose", file->purpose);
    json_write_string(w, "status", "processed");
    json_write_close(w, '}');
}

static const char *status_name(enum library_upload_status status)
{
    switch (status) {
    case LIBRARY_PENDING:
        return "pending";
    case LIBRARY_COMPLETED:
        return "completed";
    case LIBRARY_CANCELLED:
        return "cancelled";
    case LIBRARY_EXPIRED:
        return "expired";
    }
    return "expired";
}

void openai_encode_upload(struct json_writer *w,
                          const struct library_upload *upload,
                          const struct library_file *file)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "id", upload->id);
    json_write_string(w, "object", "upload");
    json_write_int(w, "bytes", (int64_t)upload->size);
    write_seconds(w, "created_at", upload->created_at_ms);
    write_seconds(w, "expires_at", upload->expires_at_ms);
    json_write_string(w, "filename", upload->filename);
    json_write_string(w, "purpose", upload->purpose);
    json_write_string(w, "status", status_name(upload->status));
    if (file)
        openai_encode_file(w, "file", file);
    json_write_close(w, '}');
}

/* ---- lists and deletions ------------------------------------------------ */

void openai_encode_list(struct json_writer *w)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "object", "list");
    json_write_open(w, "data", '[');
}

void openai_encode_list_end(struct json_writer *w, const char *first,
                            const char *last, bool more)
{
    json_write_close(w, ']');
    json_write_string(w, "first_id", first);
    json_write_string(w, "last_id", last);
    json_write_bool(w, "has_more", more);
    json_write_close(w, '}');
}

void openai_respond_deleted(struct doors_call *call, const char *id,
                            const char *object)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "id", id);
    json_write_string(&w, "object", object);
    json_write_bool(&w, "deleted", true);
    json_write_close(&w, '}');
    openai_respond(call, &body);
}
