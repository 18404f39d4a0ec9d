/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make /openapi.json; see openapi.c. */
#ifndef GLOVEBOX_DOORS_NATIVE_OPENAPI_H
#define GLOVEBOX_DOORS_NATIVE_OPENAPI_H

#include "doors/native/native.h"

#define OPENAPI_WORD 96 /* room for one of our words */

/* openapi_names.c, openapi_schemas.c: what /openapi.json says of names. */
struct native_name { /* ended by one without a name */
    const char *name;
    const char *type; /* as in openapi_schemas.c */
    const char *text;
};
extern const struct native_name native_openapi_params[]; /* of paths */
extern const struct native_name native_openapi_query[];
extern const struct native_name native_openapi_headers[];
extern const struct native_name native_openapi_tags[];     /* type: NULL */
extern const struct native_name native_openapi_statuses[]; /* type: NULL */
/* A row without a type begins a schema; those below it are its fields. */
extern const struct native_name native_openapi_schemas[];
extern const struct native_name native_openapi_govern[]; /* more of them */

/* openapi_types.c */
/* The next word of a list, which is moved on; false at its end. */
bool native_openapi_word(const char **list, const char *ends,
                         char ret[OPENAPI_WORD]);
bool native_openapi_optional(const char *name); /* ends with "?" */
/* A type of openapi_schemas.c; text: what it means, or NULL. */
void native_openapi_type(struct json_writer *w, const char *key,
                         const char *type, const char *text);
void native_openapi_encode_schemas(struct json_writer *w);

#endif
