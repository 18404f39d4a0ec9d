/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent and answered, for /openapi.json. A row without a type begins
 * a schema, those below it are its fields. Data only; openapi.c reads it and
 * a test holds answers against it.
 *
 * A name that ends with "?" may be absent; "+" takes in another schema's
 * fields. Types: string int number bool time object, a|b for choices, Name
 * for a schema, [X] for a list; "?" behind it: may be null; then bounds.
 */
#include "doors/native/openapi.h"

const struct native_name native_openapi_schemas[] = {
    /* sessions */
    /* executions */
    /* workspaces */
    /* files */
    /* versions */
    /* locks and shares */
    /* search */
    {0},
};
