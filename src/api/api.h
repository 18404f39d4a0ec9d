/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One description per field. A resource is a JSON object that clients send or
 * receive; its table names each field once, with its kind, bounds, help and
 * the member of a C struct it belongs to. From the same table come
 *
 *   api_read         a request body into the struct, bounds enforced
 *   api_write        the struct as an answer
 *   api_write_json   a JSON document as an answer
 *   api_schema       the JSON Schema, for /openapi.json and for MCP tools
 *
 * so that they cannot disagree. Tables are constant data and stand beside the
 * code that uses them; tests/unit/test_api.c walks all of them.
 */
#ifndef GLOVEBOX_API_API_H
#define GLOVEBOX_API_API_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct api_resource;
struct buf;
struct error;
struct json_writer;

enum api_kind {
    API_STRING, /* bounds are bytes */
    API_INT,    /* bounds are values */
    API_REAL,
    API_BOOL,
    API_TIME,   /* int64_t milliseconds since 1970; in JSON: RFC 3339 */
    API_CHOICE, /* one of `choices`: an index into them, or the word itself */
    API_OBJECT, /* an object of `of`, or any object; see below */
    API_ARRAY,  /* of `of`, or of `items`; bounds are elements; see below */
};

/*
 * Objects and arrays in C. A body's are json_t *, borrowed from the body;
 * elements of `of` are read by the caller with api_read. In an answer
 *
 *   an object of `of` is a struct inside the struct, at `offset`, or with
 *   API_POINTER a pointer to one, NULL for none;
 *   any object is a string of JSON text, NULL for an empty one;
 *   an array of `of` is a pointer at `offset` and a size_t at `count_offset`,
 *   or a struct buf * with its elements, which api_write wrote before;
 *   an array of strings is a string with commas between them.
 */

/* How the C member holds the value; API_AT derives it. */
enum api_store {
    API_STORE_CHARS, /* char[], or a struct */
    API_STORE_TEXT,  /* char * */
    API_STORE_I64,
    API_STORE_U64,
    API_STORE_I32,
    API_STORE_U32, /* enums as well */
    API_STORE_U16,
    API_STORE_BOOL,
    API_STORE_REAL,
    API_STORE_JSON,    /* json_t * */
    API_STORE_BUF,     /* struct buf *, NULL for an empty text */
    API_STORE_POINTER, /* to a struct */
};

#define API_STORE(type, member)                                               \
    _Generic(&((type *)0)->member,                                            \
        char **: API_STORE_TEXT,                                              \
        const char **: API_STORE_TEXT,                                        \
        int64_t *: API_STORE_I64,                                             \
        uint64_t *: API_STORE_U64,                                            \
        int32_t *: API_STORE_I32,                                             \
        uint32_t *: API_STORE_U32,                                            \
        uint16_t *: API_STORE_U16,                                            \
        bool *: API_STORE_BOOL,                                               \
        double *: API_STORE_REAL,                                             \
        json_t **: API_STORE_JSON,                                            \
        struct buf **: API_STORE_BUF,                                         \
        const struct buf **: API_STORE_BUF,                                   \
        default: API_STORE_CHARS)
#define API_AT(type, member)                                                  \
    .offset = offsetof(type, member), .store = API_STORE(type, member)
#define API_POINTER(type, member)                                             \
    .offset = offsetof(type, member), .store = API_STORE_POINTER
/* A field of an API_DOCUMENT. */
#define API_MEMBER .offset = 0
/* An array of an answer: its pointer and its number of elements. */
#define API_LIST(type, member, number)                                        \
    .offset = offsetof(type, member), .count_offset = offsetof(type, number)

enum api_flag {
    API_REQUIRED = 1,    /* a body must have it */
    API_NULLABLE = 2,    /* null when it is empty, or equal to `none` */
    API_OPTIONAL = 4,    /* an answer may leave it out: `when` says so, else
                            when it is empty */
    API_DEFAULT = 8,     /* a body that leaves it out means `value` */
    API_NO_MAX = 16,     /* the upper bound depends on the configuration: the
                            code that reads it enforces it */
    API_OR_STRINGS = 32, /* elements may be strings, too */
    API_NAME_OF = 128,   /* the name of the principal whose id is at `offset`,
                            as the writer knows it; null for none */
    API_LATER = 64,      /* the upper bound is published here and enforced by
                            the code that uses the value */
};

/* Does an answer have this field? */
typedef bool api_when_fn(const void *object);
/* Writes one value under key, from the whole object. */
typedef void api_write_fn(struct json_writer *w, const char *key,
                          const void *object);

struct api_field {
    const char *name;
    enum api_kind kind;
    unsigned flags;
    enum api_store store;
    size_t offset;
    int64_t min, max;           /* of a body; of API_CHOICE: min is the value
                                   of the first choice */
    int64_t value;              /* API_DEFAULT */
    int64_t none;               /* API_NULLABLE, API_INT */
    const char *const *choices; /* ended by NULL */
    const struct api_resource *of;
    enum api_kind items;        /* API_ARRAY: API_STRING, API_INT or
                                   API_OBJECT (of any kind) */
    int64_t item_min, item_max; /* 0 and 0: no bounds */
    size_t count_offset;
    api_write_fn *write; /* instead of what is at offset */
    api_when_fn *when;   /* API_OPTIONAL */
    const char *help;
};

struct api_resource {
    const char *name; /* of the schema */
    const char *help;
    const struct api_resource *base; /* whose fields come first, or NULL; the
                                        struct begins with its struct */
    const struct api_field *fields;
    size_t count;
    size_t size;  /* of the struct; 0: written by api_write_json */
    bool input;   /* sent by clients: unknown fields are refused */
    bool partial; /* a failure has only the base's fields */
};

#define API_INPUT(symbol, name_, type, rows, help_)                           \
    const struct api_resource symbol = {.name = (name_),                      \
                                        .help = (help_),                      \
                                        .fields = (rows),                     \
                                        .count = ARRAY_SIZE(rows),            \
                                        .size = sizeof(type),                 \
                                        .input = true}
#define API_INPUT_OF(symbol, name_, base_, type, rows, help_)                 \
    const struct api_resource symbol = {.name = (name_),                      \
                                        .help = (help_),                      \
                                        .base = (base_),                      \
                                        .fields = (rows),                     \
                                        .count = ARRAY_SIZE(rows),            \
                                        .size = sizeof(type),                 \
                                        .input = true}
#define API_OUTPUT_OF(symbol, name_, base_, type, rows, help_)                \
    const struct api_resource symbol = {.name = (name_),                      \
                                        .help = (help_),                      \
                                        .base = (base_),                      \
                                        .fields = (rows),                     \
                                        .count = ARRAY_SIZE(rows),            \
                                        .size = sizeof(type)}
/* An answer that api_write_json writes. */
#define API_DOCUMENT(symbol, name_, rows, help_)                              \
    const struct api_resource symbol = {.name = (name_),                      \
                                        .help = (help_),                      \
                                        .fields = (rows),                     \
                                        .count = ARRAY_SIZE(rows)}
#define API_OUTPUT(symbol, name_, type, rows, help_)                          \
    API_OUTPUT_OF(symbol, name_, NULL, type, rows, help_)

#define API_FIELDS_MAX 48u /* of one resource, the base's included */

/* The next field, the base's first, for `at` from 0; NULL past the last. */
const struct api_field *api_field_at(const struct api_resource *r, size_t at);

/* read.c: fills ret (r->size bytes) from object; NULL stands for an empty
 * one. Members of absent fields are set to their default, or stay as they
 * are. Strings and json_t are borrowed from object. Errors: as json_read. */
int api_read(const json_t *object, const struct api_resource *r, void *ret,
             struct error *err);

/* write.c */
void api_write(struct json_writer *w, const char *key,
               const struct api_resource *r, const void *object);
/* Only the members, into an object that is open. */
void api_write_members(struct json_writer *w, const struct api_resource *r,
                       const void *object);

/* From a JSON object that is stored or that another module made. Only fields
 * of the table are written, in its order; one that the object lacks is null
 * if it is nullable, left out if it is optional, and otherwise empty. */
void api_write_json(struct json_writer *w, const char *key,
                    const struct api_resource *r, const json_t *object);

/* schema.c */
enum api_style {
    API_OPENAPI, /* other resources are #/components/schemas/NAME */
    API_INLINE,  /* other resources are written out */
};
void api_schema(struct json_writer *w, const char *key,
                const struct api_resource *r, enum api_style style);

#endif
