/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenAI door: containers, their files, the library of files and uploads
 * in parts, as the clients of that service speak of them. A container is a
 * session, whatever door it was made at; a container's file is a file of the
 * session's workspace. How the pieces work together:
 *
 *   table.c       prefixes and routes
 *   containers.c, container_files.c, files.c, uploads.c   the handlers
 *   responses.c   the agent loop; responses_decode.c its request,
 *                 responses_agent.c named agents, responses_stream.c events
 *   form.c        multipart bodies, part by part; names of files
 *   decode.c      bodies and queries to what the handlers need; pure
 *   read.c        an object by a table of its fields, and what is wrong with
 *                 it as this dialect says so; pure
 *   network.c     what a container may reach
 *   encode.c      the objects we send
 *   refuse.c      the error object, and headers every answer has
 */
#ifndef GLOVEBOX_DOORS_OPENAI_OPENAI_H
#define GLOVEBOX_DOORS_OPENAI_OPENAI_H

#include <jansson.h>

#include "doors/doors.h"
#include "execution/execution.h"
#include "workspace/library.h"

struct arena;
struct json_field;
struct json_writer;

#define OPENAI_FILE_BYTES                                                     \
    ((uint64_t)512 << 20)                       /* one file, in one request   \
                                                 */
#define OPENAI_PART_BYTES ((uint64_t)64 << 20)  /* one part of an upload */
#define OPENAI_UPLOAD_BYTES ((uint64_t)8 << 30) /* all of them */
#define OPENAI_FORM_BYTES ((uint64_t)1 << 20)   /* a form besides its file */
#define OPENAI_TEXT_MAX 4096u                   /* bytes of a form's field */
#define OPENAI_FILES_MAX 50u                    /* file_ids of a container */
#define OPENAI_MINUTES_MAX 43200                /* 30 days */
#define OPENAI_MINUTES 20                       /* unless asked otherwise */
#define OPENAI_EXPIRY_MIN_S 3600                /* of a file */
#define OPENAI_EXPIRY_MAX_S 2592000
#define OPENAI_ROOT "/mnt/data/"
/* Of struct doors_call: the agent whose endpoint the path is below, or NULL.
 * It acts as an agent_reference without a version. */
#define OPENAI_PLACE_AGENT 1

doors_handler_fn openai_containers_create;
doors_handler_fn openai_containers_list;
doors_handler_fn openai_containers_get;
doors_handler_fn openai_containers_delete;

doors_handler_fn openai_attach_post;
doors_handler_fn openai_listing_list;
doors_handler_fn openai_listing_get;
doors_handler_fn openai_listing_content;
doors_handler_fn openai_listing_delete;

doors_handler_fn openai_files_create;
doors_handler_fn openai_files_list;
doors_handler_fn openai_files_get;
doors_handler_fn openai_files_delete;
doors_handler_fn openai_files_content;

doors_handler_fn openai_uploads_create;
doors_handler_fn openai_uploads_part;
doors_handler_fn openai_uploads_complete;
doors_handler_fn openai_uploads_cancel;

doors_handler_fn openai_models_list;
doors_handler_fn openai_models_get;
doors_handler_fn openai_conversations_create;
doors_handler_fn openai_conversations_get;
doors_handler_fn openai_conversations_update;
doors_handler_fn openai_conversations_delete;

doors_handler_fn openai_conversation_items_create;
doors_handler_fn openai_conversation_items_list;
doors_handler_fn openai_conversation_items_get;
doors_handler_fn openai_conversation_items_delete;

doors_handler_fn openai_completions_create;
doors_handler_fn openai_completions_deployment;
doors_handler_fn openai_completions_get;
doors_handler_fn openai_completions_update;
doors_handler_fn openai_completions_delete;
doors_handler_fn openai_completions_list;
doors_handler_fn openai_completions_messages;

doors_handler_fn openai_responses_create;
doors_handler_fn openai_responses_count;
doors_handler_fn openai_responses_compact;
doors_handler_fn openai_responses_get;
doors_handler_fn openai_responses_delete;
doors_handler_fn openai_responses_cancel;
doors_handler_fn openai_responses_input;

/* ---- refuse.c ----------------------------------------------------------- */

/* What an error object says besides the sentence. */
struct openai_fault {
    const char *code; /* a constant; NULL: null */
    char param[96];   /* "" : null */
};

/* The one of this request. */
struct openai_fault *openai_fault(struct doors_call *call);
/* ERR_INVALID; param NULL: none. */
int openai_invalid(struct openai_fault *fault, const char *code,
                   const char *param, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Translates the core's error about a container into this dialect. */
int openai_refuse_container(const char *id, struct error *err);
/* The same of a file of the library; param: which field named it. */
int openai_refuse_file(struct doors_call *call, const char *id,
                       const char *param, struct error *err);
/* The same of a container's file. */
int openai_refuse_listed(const char *container, const char *file,
                         struct error *err);

/* Answers with err; of struct doors_door. */
void openai_refuse(struct doors_call *call, const struct error *err);
/* Headers of every answer; once a request. */
void openai_stamp(struct doors_call *call);
/* 200. body: taken */
void openai_respond(struct doors_call *call, struct buf *body);

/* ---- read.c, decode.c: no daemon needed --------------------------------- */

/* As json_read; within: the object's own name, or NULL at the top. */
int openai_read(const json_t *object, const char *within,
                const struct json_field *fields, size_t count, void *ret,
                struct openai_fault *fault, struct error *err);
/* An array of strings, none empty, at most max of them. */
int openai_read_strings(const json_t *array, const char *name, size_t max,
                        struct openai_fault *fault, struct error *err);

struct openai_page {
    unsigned limit;
    bool oldest_first;
    const char *after; /* NULL: from the start */
};
/* Texts of the query, each may be NULL. A limit out of range is moved into
 * it. */
int openai_decode_page(const char *limit, const char *order, const char *after,
                       unsigned max, unsigned fallback,
                       struct openai_page *ret, struct openai_fault *fault,
                       struct error *err);

/* network.c */
struct openai_network { /* borrows from the body */
    bool said, allowlist;
    const json_t *domains, *secrets; /* checked */
};
int openai_network_decode(const json_t *object, struct openai_network *ret,
                          struct openai_fault *fault, struct error *err);
/* For the core, in the request's arena; *ret is left when nothing was said.
 * Secrets are in the vault when it returns. */
int openai_network_spec(struct doors_call *call,
                        const struct openai_network *asked,
                        const struct network_spec **ret, struct error *err);
void openai_network_encode(struct json_writer *w,
                           const struct session_info *info);

struct openai_container { /* borrows from the body */
    const char *name;
    const json_t *file_ids; /* strings; NULL: none */
    uint32_t minutes;
    uint64_t memory_bytes; /* 0: not said */
    struct openai_network network;
};
int openai_decode_container(const json_t *body, struct openai_container *ret,
                            struct openai_fault *fault, struct error *err);

/* {"file_id"}; absent is refused. */
int openai_decode_attach(const json_t *body, const char **ret,
                         struct openai_fault *fault, struct error *err);

struct openai_upload { /* borrows from the body */
    uint64_t bytes;
    const char *filename, *mime, *purpose;
    uint32_t expires_s; /* 0: never */
};
int openai_decode_upload(const json_t *body, struct openai_upload *ret,
                         struct openai_fault *fault, struct error *err);

struct openai_complete {    /* borrows from the body */
    const json_t *part_ids; /* strings */
    const char *md5;        /* or NULL */
};
int openai_decode_complete(const json_t *body, struct openai_complete *ret,
                           struct openai_fault *fault, struct error *err);

int openai_decode_purpose(const char *purpose, struct openai_fault *fault,
                          struct error *err);
/* The fields expires_after[anchor] and expires_after[seconds] of a form, each
 * may be NULL. *ret 0: never. */
int openai_decode_expiry(const char *anchor, const char *seconds,
                         const char *purpose, uint32_t *ret,
                         struct openai_fault *fault, struct error *err);

/* ---- form.c: names ------------------------------------------------------ */

/* The last part of a client's file name, by / and \; "upload" when nothing is
 * left. NULL: no name a file may have. Borrowed. */
const char *openai_name_base(const char *filename);
/* prefix and name, the name's beginning cut where the two are too long. arena
 */
const char *openai_name_join(struct arena *arena, const char *prefix,
                             const char *name);
/* The media type, if the header has one; or NULL. arena */
const char *openai_name_type(struct arena *arena, const char *type);

/* ---- form.c ------------------------------------------------------------- */

/* Is the body a form? */
bool openai_form_is(const struct doors_call *call);
/* bytes: of the form's one file; the body may have a little more. */
int openai_form_open(struct doors_call *call, uint64_t bytes,
                     struct http_multipart **ret, struct error *err);
/* The text of the part that is next to be read. arena */
int openai_form_text(struct doors_call *call, struct http_multipart *m,
                     const char *name, const char **ret, struct error *err);
/* Hands the part on in pieces; more than max bytes are ERR_TOO_LARGE. */
typedef int openai_form_write(void *ctx, const void *bytes, size_t len,
                              struct error *err);
int openai_form_pass(struct http_multipart *m, uint64_t max,
                     openai_form_write *write, void *ctx, struct error *err);

struct openai_blob {
    struct blobs *blobs; /* NULL: nothing to release */
    char sha256[BLOB_NAME];
    uint64_t size;
};
/* The part into a blob of the library's domain. */
int openai_form_blob(struct doors_call *call, struct http_multipart *m,
                     uint64_t max, struct openai_blob *ret, struct error *err);
void openai_form_blob_done(struct openai_blob *b); /* for cleanup() */
int openai_form_twice(struct doors_call *call, const char *name,
                      struct error *err);
int openai_form_unknown(struct doors_call *call, const char *name,
                        struct error *err);
int openai_form_missing(struct doors_call *call, const char *name,
                        struct error *err);

/* ---- containers.c, container_files.c, files.c --------------------------- */

/* A JSON body; ret: owned by caller. */
int openai_body(struct doors_call *call, json_t **ret, struct error *err);
/* ?limit, ?order and ?after */
int openai_page(struct doors_call *call, unsigned max, unsigned fallback,
                struct openai_page *ret, struct error *err);
/* Is that much memory more than the pool may give? param: who asked. */
int openai_check_memory(struct doors_call *call, uint64_t asked,
                        const char *param, struct error *err);
/* The container of the path, which counts as a use of it. */
int openai_visit(struct doors_call *call, struct session_info *ret,
                 struct error *err);
/* A file of the library, or any other, by a client's id; field: who named it.
 */
int openai_library(struct doors_call *call, const char *id, const char *field,
                   struct library_file *ret, struct error *err);
/* Where a container has such a file. arena */
const char *openai_mount(struct doors_call *call,
                         const struct library_file *file);

/* A file's bytes, inert in a browser; name: the file name for the client. */
int openai_respond_bytes(struct doors_call *call,
                         const struct workspace_file *f, const char *name,
                         struct error *err);

/* ---- container_files.c -------------------------------------------------- */

void openai_listing_encode(struct json_writer *w, const char *container,
                           const struct workspace_aged_file *f);

enum openai_deed {
    OPENAI_LOOK,
    OPENAI_CONTENT,
    OPENAI_DELETE
};
/* Both answer. */
int openai_ephemeral_list(struct doors_call *call,
                          const struct session_info *info,
                          const struct openai_page *page, struct error *err);
int openai_ephemeral_one(struct doors_call *call,
                         const struct session_info *info,
                         enum openai_deed deed, struct error *err);
void openai_ephemeral_respond(struct doors_call *call,
                              const struct session_info *info,
                              const struct session_file *file);

/* ---- encode.c ----------------------------------------------------------- */

/* The largest of this dialect's sizes that fits; the smallest if none does. */
const char *openai_memory_name(uint64_t bytes);
void openai_encode_container(struct json_writer *w,
                             const struct session_info *info);
/* A container's file. */
struct openai_listed {
    const char *container;
    const char *file; /* file_… */
    bool durable;     /* it has an id of the library too */
    const char *path; /* below /mnt/data */
    uint64_t size;
    int64_t created_at_ms;
    bool by_execution;
};
void openai_encode_listed(struct json_writer *w,
                          const struct openai_listed *file);
void openai_encode_file(struct json_writer *w, const char *key,
                        const struct library_file *file);
/* file: NULL until it is completed. */
void openai_encode_upload(struct json_writer *w,
                          const struct library_upload *upload,
                          const struct library_file *file);
/* {"object":"list","data":[ … and its end. ids: of the first and the last,
 * NULL when there are none. */
void openai_encode_list(struct json_writer *w);
void openai_encode_list_end(struct json_writer *w, const char *first,
                            const char *last, bool more);
/* 200 {"id","object","deleted":true} */
void openai_respond_deleted(struct doors_call *call, const char *id,
                            const char *object);

#endif
