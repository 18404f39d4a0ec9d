/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time zone of `hours` and `days`, where a layer has none of its own
 * (zone_file.c). The C library knows one zone for the
 * whole process; nothing else here looks at local time, so it is policy's to
 * choose. Called before requests come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "policy/policy_int.h"

#define ZONES "/usr/share/zoneinfo/"

int policy_zone_path(const char *zone, char ret[POLICY_ZONE_PATH],
                     struct error *err)
{
    int n = snprintf(ret, POLICY_ZONE_PATH, ZONES "%s", zone);
    struct stat st;

    if (zone[0] && n < POLICY_ZONE_PATH && zone[0] != '/' &&
        !strstr(zone, "..") && stat(ret, &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    (void)error_set(err, ERR_INVALID, "no such time zone: %.64s", zone);
    return error_hint(err, "a name such as Europe/Berlin; the package "
                           "tzdata brings them");
}

int policy_zone_set(const char *zone, struct error *err)
{
    char path[POLICY_ZONE_PATH];

    /* The C library takes one it does not know for UTC. */
    if (zone[0] && policy_zone_path(zone, path, err) < 0)
        return -(int)err->code;
    if (zone[0])
        (void)snprintf(path, sizeof(path), ":%s", zone);
    if (setenv("TZ", zone[0] ? path : "UTC0", 1) < 0)
        return error_set(err, ERR_INTERNAL, "cannot set the time zone");
    tzset();
    return 0;
}
