/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make /openapi.json; see openapi.c. */
#ifndef GLOVEBOX_DOORS_NATIVE_OPENAPI_H
#define GLOVEBOX_DOORS_NATIVE_OPENAPI_H

#include "doors/native/native.h"

/* openapi_names.c: what /openapi.json says of names. */
struct native_name { /* ended by one without a name */
    const char *name;
    const char *type; /* as encode_type of openapi.c has it */
    const char *text;
};
extern const struct native_name native_openapi_params[]; /* of paths */
extern const struct native_name native_openapi_query[];
extern const struct native_name native_openapi_headers[];
extern const struct native_name native_openapi_tags[];     /* type: NULL */
extern const struct native_name native_openapi_statuses[]; /* type: NULL */
#endif
