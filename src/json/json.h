/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked JSON over jansson. Foreign text is scanned iteratively first (depth,
 * members, number length) before jansson parses it, because jansson recurses
 * without such bounds. Field tables read bodies, so the answer names an
 * unknown or malformed field. Answers are written straight into a buffer
 * without a tree; bytes that are not UTF-8 become U+FFFD.
 */
#ifndef GLOVEBOX_JSON_JSON_H
#define GLOVEBOX_JSON_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct error;

/* ---- check.c, read.c: text to values ----------------------------------- */

#define JSON_DEPTH_CAP 256 /* no limit may be set above this */

struct json_limits {
    unsigned depth; /* nested arrays and objects */
    size_t members; /* values in all arrays and objects together */
    size_t number;  /* characters of one number */
};

extern const struct json_limits json_limits_body; /* 64, 10000, 64 */
extern const struct json_limits json_limits_any;  /* only what is safe to
                                                     pass on unparsed */

/* One well-formed value within the limits? No recursion, no allocation. */
int json_check(const char *text, size_t len, const struct json_limits *limits,
               struct error *err);
/* Checked against json_limits_body, then parsed; duplicate keys refused.
 * ret: owned by caller. */
int json_parse(const char *text, size_t len, json_t **ret, struct error *err);

/* For `json_t *v cleanup(json_unref) = NULL;` */
void json_unref(json_t **value);

/* ---- read.c: an object by a table of its fields ------------------------- */

enum json_kind {
    JSON_KIND_STRING, /* const char *; min and max are bytes */
    JSON_KIND_INT,    /* int64_t; min and max are values */
    JSON_KIND_BOOL,   /* bool */
    JSON_KIND_OBJECT, /* json_t *; borrowed */
    JSON_KIND_ARRAY,  /* json_t *; borrowed; min and max are elements */
    JSON_KIND_CHOICE, /* int: index into choices */
};

struct json_field {
    const char *name;
    enum json_kind kind;
    bool required;
    size_t offset; /* of the member of ret it goes to */
    int64_t min, max;
    const char *const *choices; /* ended by NULL */
};

/* An integer, also when it is written as 30.0 or 3e1 (JSON Schema counts these
 * as integers); false for anything else. */
bool json_whole_number(const json_t *v, int64_t *ret);

/* Fills ret from object; strings are borrowed from it. A field that is absent
 * or null leaves its member as it was. ERR_INVALID names the field at fault,
 * and for an unknown one the nearest that is known. */
int json_read(const json_t *object, const struct json_field *fields,
              size_t count, void *ret, struct error *err);
/* The known name nearest to a mistyped one, or NULL when none is near. */
const char *json_nearest(const char *name, const char *const *known,
                         size_t count);

/* ---- write.c: values to text -------------------------------------------- */

struct json_writer {
    struct buf *out;      /* borrowed */
    bool comma;           /* a value came before, at this level */
    bool replaced;        /* something was not UTF-8 */
    const char *base_url; /* what json_write_url begins with; NULL: nothing */
    /* The display name of a principal, "" for none; NULL: no names. */
    void (*name_of)(void *ctx, const char *id, char ret[64]);
    void *name_ctx;
};

/* key is NULL inside an array and at the top. */
void json_write_open(struct json_writer *w, const char *key, char bracket);
void json_write_close(struct json_writer *w, char bracket);
void json_write_key(struct json_writer *w, const char *key, size_t len);
void json_write_text(struct json_writer *w, const char *key, const char *text,
                     size_t len);
/* NULL writes null. */
void json_write_string(struct json_writer *w, const char *key,
                       const char *text);
/* A path of this service ("/api/…") as a URL; NULL writes null. */
void json_write_url(struct json_writer *w, const char *key, const char *path);
void json_write_int(struct json_writer *w, const char *key, int64_t value);
void json_write_bool(struct json_writer *w, const char *key, bool value);
/* A double of our own (never NaN or infinite), with six decimals. */
void json_write_real(struct json_writer *w, const char *key, double value);
/* Text that json_check accepted; line ends in it become spaces. */
void json_write_raw(struct json_writer *w, const char *key, const char *text,
                    size_t len);
void json_write_base64(struct json_writer *w, const char *key,
                       const void *bytes, size_t len);
/* "2026-01-31T23:59:59.123Z", or null for 0. */
void json_write_time(struct json_writer *w, const char *key, int64_t real_ms);

/* ---- read.c: base64 ------------------------------------------------------
 */

/* Strict: padded, no white space. ret: owned by caller. */
int json_base64_decode(const char *text, size_t len, unsigned char **ret,
                       size_t *ret_len, struct error *err);

#endif
