/* SPDX-License-Identifier: Apache-2.0 */
/* To be written. */
#include <string.h>

#include "doors/doors.h"

static const char *enter(const char *path,
                         struct doors_part ret[DOORS_PARAMS_MAX])
{
    (void)ret;
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : NULL;
}

const struct doors_door doors_openai = {
    .name = "openai",
    .enter = enter,
};
