/* SPDX-License-Identifier: Apache-2.0 */
/* To be written. */
#include <string.h>

#include "doors/doors.h"

static const char *enter(const char *path,
                         struct doors_part ret[DOORS_PARAMS_MAX])
{
    (void)ret;
    return strcmp(path, "/mcp") == 0 ? path : NULL;
}

const struct doors_door doors_mcp = {
    .name = "mcp",
    .enter = enter,
};
