/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other half of openapi_schemas.c, written the same way: what is
 * configured, who may do what, and what is known of it. Data only.
 */
#include "doors/native/openapi.h"

const struct native_name native_openapi_govern[] = {
    /* configuration */
    /* quotas */
    /* administration */
    /* policy */
    /* approvals */
    {0},
};
