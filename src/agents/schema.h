/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schema, the part of it that describes the arguments of a tool: types,
 * properties, items, enumerations, bounds and anyOf. Keywords that would
 * change the meaning and are not known (references, patterns, conditions) are
 * refused when the schema is stored, so that no check is skipped silently.
 * Annotations are accepted. Pure; used by agents/ and by the doors.
 */
#ifndef GLOVEBOX_AGENTS_SCHEMA_H
#define GLOVEBOX_AGENTS_SCHEMA_H

#include <jansson.h>
#include <stddef.h>

struct error;

#define SCHEMA_DEPTH_MAX 8u
#define SCHEMA_NODES_MAX 500u
#define SCHEMA_PATH_MAX 128

/* Can every keyword of the schema be checked? root: what to call it in the
 * message, "parameters". */
int schema_check(const json_t *schema, const char *root, struct error *err);
/* ERR_INVALID names the path ("arguments.rows[2].id") and what is expected.
 * schema passed schema_check. ret_path may be NULL. */
int schema_validate(const json_t *schema, const json_t *value,
                    const char *root, char ret_path[SCHEMA_PATH_MAX],
                    struct error *err);
/* Adds the defaults of absent properties, nested ones of present objects
 * too. */
void schema_defaults(const json_t *schema, json_t *value);

#endif
