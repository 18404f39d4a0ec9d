/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tool says: blocks of content for people and models, one structured
 * object for programs. Runs on a worker of the daemon, called by the tools;
 * bytes may be anything a session wrote, what comes out is valid JSON (H6).
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

void mcp_answer_init(struct mcp_answer *a)
{
    memset(a, 0, sizeof(*a));
    a->w.out = &a->content;
}

void mcp_answer_done(struct mcp_answer *a)
{
    buf_done(&a->content);
    buf_done(&a->structured);
    buf_done(&a->meta);
}

void mcp_answer_text_of(struct mcp_answer *a, const char *session,
                        const char *text, size_t len)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(&a->w, "type", "text");
    json_write_text(&a->w, "text", text, len);
    if (session) {
        json_write_open(&a->w, "_meta", '{');
        json_write_string(&a->w, "container_id", session);
        json_write_close(&a->w, '}');
    }
    json_write_close(&a->w, '}');
}

void mcp_answer_text(struct mcp_answer *a, const char *text, size_t len)
{
    mcp_answer_text_of(a, NULL, text, len);
}

static char *format(const char *fmt, va_list ap)
{
    char *text;

    if (vasprintf(&text, fmt, ap) < 0)
        abort(); /* out of memory, as the x* wrappers do */
    return text;
}

void mcp_answer_textf(struct mcp_answer *a, const char *fmt, ...)
{
    char *text cleanup(mem_free) = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = format(fmt, ap);
    va_end(ap);
    mcp_answer_text(a, text, strlen(text));
}

void mcp_answer_image(struct mcp_answer *a, const char *type,
                      const void *bytes, size_t len)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(
        &a->w, "type",
        strncmp(type, "audio/", strlen("audio/")) == 0 ? "audio" : "image");
    json_write_base64(&a->w, "data", bytes, len);
    json_write_string(&a->w, "mimeType", type);
    json_write_close(&a->w, '}');
}

void mcp_answer_link(struct mcp_answer *a, const struct mcp_link *link)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(&a->w, "type", "resource_link");
    json_write_string(&a->w, "uri", link->uri);
    json_write_string(&a->w, "name", link->name);
    if (link->title)
        json_write_string(&a->w, "title", link->title);
    if (link->description)
        json_write_string(&a->w, "description", link->description);
    if (link->mime)
        json_write_string(&a->w, "mimeType", link->mime);
    if (link->size >= 0)
        json_write_int(&a->w, "size", link->size);
    json_write_close(&a->w, '}');
}

void mcp_answer_resource(struct mcp_answer *a, const char *uri,
                         const char *mime, const void *bytes, size_t len)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(&a->w, "type", "resource");
    json_write_open(&a->w, "resource", '{');
    json_write_string(&a->w, "uri", uri);
    json_write_string(&a->w, "mimeType", mime);
    if (mcp_resources_text(mime, bytes, len))
        json_write_text(&a->w, "text", bytes, len);
    else
        json_write_base64(&a->w, "blob", bytes, len);
    json_write_close(&a->w, '}');
    json_write_close(&a->w, '}');
}

/* Replaces whatever was said before: a model should see one thing to act on.
 */
static void fail(struct mcp_answer *a, const char *status, const char *message,
                 const char *hint)
{
    struct json_writer w = {.out = &a->structured};

    buf_reset(&a->content);
    buf_reset(&a->structured);
    a->w = (struct json_writer){.out = &a->content};
    a->is_error = true;
    mcp_answer_textf(a, "%s: %s%s%s", status, message, hint[0] ? ". " : "",
                     hint);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", status);
    json_write_string(&w, "message", message);
    if (hint[0])
        json_write_string(&w, "hint", hint);
    json_write_close(&w, '}');
}

void mcp_answer_error(struct mcp_answer *a, const struct error *err)
{
    bool ours = err->code == ERR_INTERNAL || err->code == ERR_NONE;

    /* As http_error_body: a defect of ours tells nothing of the host (H5). */
    fail(a, error_code_name(ours ? ERR_INTERNAL : err->code),
         ours ? "something failed on our side" : err->message,
         ours ? "Try again; if it fails again, tell the operator."
              : err->hint);
}

void mcp_answer_refuse(struct mcp_answer *a, const char *status,
                       const char *fmt, ...)
{
    char *text cleanup(mem_free) = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = format(fmt, ap);
    va_end(ap);
    fail(a, status, text, "");
}
