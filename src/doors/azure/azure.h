/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Azure door: the wire API of Azure Container Apps dynamic sessions, so
 * that clients of session pools work here with nothing changed but the pool's
 * address. How the pieces work together:
 *
 *   path.c        routes; finds the pool in a path
 *   ask.c         version, pool and identifier of a request
 *   executions.c, files.c, upload.c, sessions.c, metadata.c   data plane
 *   body.c, encode.c                what these read and write
 *   pools.c, arm.c, credentials.c   control plane
 *   refuse.c      errors in this dialect
 *
 * Three families of shapes came one after the other: A (python/…),
 * B (code/execute, all in "properties") and C (executions, flat). For
 * executions the path says which, for files the version.
 */
#ifndef GLOVEBOX_DOORS_AZURE_AZURE_H
#define GLOVEBOX_DOORS_AZURE_AZURE_H

#include <jansson.h>

#include "doors/doors.h"
#include "execution/execution.h"

struct json_writer;

#define AZURE_TIMEOUT_MAX_S 220u  /* of any run */
#define AZURE_SHELL_TIMEOUT_S 180 /* of a command that names none */
#define AZURE_UPLOAD_MAX ((uint64_t)134217728)
#define AZURE_FORM_MAX                                                        \
    ((uint64_t)1 << 20)           /* of an upload besides its files           \
                                   */
#define AZURE_OUTPUT_DEFAULT 4096 /* characters of a stream */
#define AZURE_IDENTIFIER_MIN 4u
#define AZURE_IDENTIFIER_MAX 128u
#define AZURE_SESSIONS_PAGE 300u
#define AZURE_FOLDER_SIZE 4096 /* what a folder is said to be */

enum azure_family {
    AZURE_A,
    AZURE_B,
    AZURE_C
};

enum azure_version { /* in order of age; none is for calls that name none */
    AZURE_NONE,
    AZURE_2024_02,
    AZURE_2024_08,
    AZURE_2024_10,
    AZURE_2025_02,
    AZURE_2025_10,
    AZURE_UNKNOWN
};

/* Members of call->place; "" for parts that the path lacks. */
enum azure_place {
    AZURE_POOL,
    AZURE_SUBSCRIPTION,
    AZURE_GROUP,
    AZURE_IDENTIFIER
};

/* Names of refusals. */
#define AZURE_INVALID "SessionRequestValidationFailed"
#define AZURE_UNSUPPORTED "SessionRequestNotSupported"
#define AZURE_MISSING "SessionPropertiesMissing"
#define AZURE_GONE "SessionWithIdentifierNotFound"

doors_handler_fn azure_executions_legacy;  /* POST python/execute */
doors_handler_fn azure_executions_wrapped; /* POST code/execute */
doors_handler_fn azure_executions_create;  /* POST executions */
doors_handler_fn azure_executions_get;

doors_handler_fn azure_files_legacy; /* GET python/files */
doors_handler_fn azure_files_fetch;  /* GET python/downloadFile */
doors_handler_fn azure_files_list;
doors_handler_fn azure_files_get; /* metadata or bytes, by path and version */
doors_handler_fn azure_files_delete;
doors_handler_fn azure_upload_legacy; /* POST python/uploadFile */
doors_handler_fn azure_upload;

doors_handler_fn azure_sessions_get;
doors_handler_fn azure_sessions_delete;
doors_handler_fn azure_sessions_list;
doors_handler_fn azure_sessions_stop;   /* POST .management/stopSession */
doors_handler_fn azure_sessions_look;   /* POST .management/getSession */
doors_handler_fn azure_sessions_listed; /* POST .management/listSessions */
doors_handler_fn azure_metadata_get;

doors_handler_fn azure_pools_list;
doors_handler_fn azure_pools_get;
doors_handler_fn azure_pools_put;
doors_handler_fn azure_pools_patch;
doors_handler_fn azure_pools_delete;
doors_handler_fn azure_credentials_fetch;
doors_handler_fn azure_credentials_rotate;

/* ---- path.c: pure ------------------------------------------------------- */

/* As doors_door.enter. What it returns for management is a text of ours that
 * begins with AZURE_MANAGED. */
#define AZURE_MANAGED "/:"
const char *azure_path_enter(const char *path,
                             struct doors_part ret[DOORS_PARAMS_MAX]);

/* A file's or folder's name as clients write it, to a path below the data
 * root: "/mnt/data/a", "/a", "./a" and "a//" all become "a"; the root is "".
 * ret: PATH_BYTES_MAX + 1 bytes. ERR_INVALID for what leads elsewhere. */
int azure_path_name(const char *text, char *ret, struct error *err);
/* The same below a folder that was read so. */
int azure_path_join(const char *folder, const char *text, char *ret,
                    struct error *err);

/* What files/… means to this family: the file's name within rest, and
 * whether its bytes are wanted. ret_name: as long as rest. *ret_doubt: it may
 * also be the name of a file in a folder "content". */
void azure_path_file(const char *rest, enum azure_version version,
                     char *ret_name, bool *ret_content, bool *ret_doubt);

enum azure_version azure_path_version(const char *text); /* NULL: none */
enum azure_family azure_path_family(enum azure_version version);
bool azure_path_identifier(const char *text);

/* "exec_…" and the like as a GUID, and back. */
char *azure_path_guid(const char *id, char ret[37]);
bool azure_path_unguid(const char *guid, const char *prefix, char ret[ID_MAX]);

/* ---- body.c: pure ------------------------------------------------------- */

struct azure_run { /* strings: the body's or the arena's */
    enum exec_language language;
    const char *code;
    size_t code_len;
    uint32_t timeout_s;    /* 0: not said */
    bool async;            /* executionType says so */
    bool fresh;            /* useEmptyKernel */
    const char *type_text; /* executionType as spelled, or NULL */
    int64_t output_max;    /* characters of a stream; -1: not said */
    const char *identifier;
};
/* *ret_code: the name of the refusal, when it is refused. */
int azure_body_run(const json_t *body, enum azure_family family,
                   enum pool_kind kind, struct arena *arena,
                   struct azure_run *ret, const char **ret_code,
                   struct error *err);

/* ---- body.c: values ----------------------------------------------------- */

/* A value as the interpreter shows it, as JSON: a number, the content of a
 * quoted text, or the text itself. */
void azure_value_write(struct json_writer *w, const char *key,
                       const char *text, size_t len);
/* Bytes of the first max characters; what is not UTF-8 counts one a byte. */
size_t azure_value_cut(const char *text, size_t len, int64_t max);

/* ---- ask.c: what every call says ---------------------------------------- */

struct azure_ask {
    enum azure_version version;
    struct pool_info pool;
    const char *identifier; /* the request's, or NULL */
    struct session_info session;
    uint64_t allocated_ms; /* what finding or making it took */
};
void azure_ask_done(struct azure_ask *ask); /* for cleanup() */
/* Version and pool. */
int azure_ask_begin(struct doors_call *call, struct azure_ask *ret,
                    struct error *err);
/* fallback: from the body, or NULL. */
int azure_ask_identifier(struct doors_call *call, const char *fallback,
                         struct azure_ask *ask, struct error *err);
/* Finds or makes ask->session; needs the identifier. */
int azure_ask_session(struct doors_call *call, struct azure_ask *ask,
                      struct error *err);
/* All three. */
int azure_ask(struct doors_call *call, struct azure_ask *ret,
              struct error *err);
/* Finds ask->session without making it or counting as a use; one that is
 * over is as unknown. */
int azure_ask_existing(struct doors_call *call, struct azure_ask *ask,
                       struct error *err);
/* This call came with that version. */
int azure_ask_since(struct doors_call *call, const struct azure_ask *ask,
                    enum azure_version since, struct error *err);

/* ---- encode.c ----------------------------------------------------------- */

void azure_encode_time(struct json_writer *w, const char *key,
                       int64_t real_ms); /* seven digits */
/* Headers every answer has, then the answer. */
void azure_encode_headers(struct doors_call *call);
void azure_encode_respond(struct doors_call *call, unsigned status,
                          struct buf *body);
void azure_encode_empty(struct doors_call *call, unsigned status);

struct azure_shape { /* how an execution is encoded */
    enum azure_family family;
    const char *identifier;
    const char *type_text; /* executionType */
    int64_t output_max;    /* -1: all of it */
    bool last;             /* the only answer: a held execution has failed */
};
void azure_encode_execution(struct execution *e,
                            const struct azure_shape *shape, struct buf *out);

/* ---- files.c: files and folders ----------------------------------------- */

struct azure_entry {
    char *path; /* below the data root; owned */
    bool folder;
    uint64_t size;
    int64_t modified_at_ms;
};
struct azure_list {
    struct azure_entry *entries; /* in order of path */
    size_t count, room;
    char *next; /* go on after this; NULL: that was all; owned */
};
void azure_list_done(struct azure_list *l); /* for cleanup() */
void azure_list_add(struct azure_list *l, const char *path, bool folder,
                    uint64_t size, int64_t modified_at_ms);

struct azure_list_spec {
    const char *folder; /* "" : the root */
    const char *after;  /* a path, or NULL */
    bool recursive;
    bool files_only;
};
int azure_list_collect(struct doors_call *call, const char *session,
                       const struct azure_list_spec *spec,
                       struct azure_list *ret, struct error *err);
/* One file or folder. ERR_NOT_FOUND. */
int azure_list_look(struct doors_call *call, const char *session,
                    const char *path, struct azure_list *ret,
                    struct error *err);
/* A file, or a folder with all that is in it. */
int azure_list_remove(struct doors_call *call, const char *session,
                      const char *path, struct error *err);

/* files.c: one file or a list, as the version has it. base: the folder that
 * was listed. */
void azure_files_encode(struct json_writer *w, const struct azure_ask *ask,
                        enum azure_family family, const char *base,
                        const struct azure_entry *entries, size_t count,
                        const char *next);
void azure_files_encode_one(struct json_writer *w, const struct azure_ask *ask,
                            const char *base, const struct azure_entry *entry);

/* ---- arm.c: the pool resource ------------------------------------------- */

/* Reads a body of PUT or PATCH. details: the door's stored properties, changed
 * in place; ret borrows nothing from it, but perhaps ret_runtime. Pure. */
int azure_arm_read(const json_t *body, json_t *details, struct pool_spec *ret,
                   char ret_runtime[64], struct error *err);
/* The details of a pool as an object; owned by caller. */
json_t *azure_arm_details(const struct pool_info *pool);
/* details to text; owned by caller; NULL when memory is out. */
char *azure_arm_text(const json_t *details);
/* old: dynamicPoolConfiguration as it was before 2025-01-01. */
void azure_arm_encode(struct doors_call *call, struct json_writer *w,
                      const struct pool_info *pool, bool old);
/* Is the pool where the call's path says? One that is nowhere is everywhere.
 */
bool azure_arm_here(const struct doors_call *call,
                    const struct pool_info *pool);

/* ---- refuse.c ----------------------------------------------------------- */

/* The code and target of the error that is about to be returned; both borrowed
 * for the request; target may be NULL. */
void azure_refuse_as(struct doors_call *call, const char *code,
                     const char *target);
void azure_refuse(struct doors_call *call, const struct error *err);

#endif
