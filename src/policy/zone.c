/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time zone of `hours` and `days`. The C library knows one zone for the
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

int policy_zone_set(const char *zone, struct error *err)
{
    char path[sizeof(ZONES) + 64];
    int n = snprintf(path, sizeof(path), ZONES "%s", zone);
    struct stat st;

    /* The C library takes one it does not know for UTC. */
    if (zone[0] &&
        (n >= (int)sizeof(path) || zone[0] == '/' || strstr(zone, "..") ||
         stat(path, &st) < 0 || !S_ISREG(st.st_mode))) {
        (void)error_set(err, ERR_INVALID, "no such time zone: %.64s", zone);
        return error_hint(err, "a name such as Europe/Berlin; the package "
                               "tzdata brings them");
    }
    if (zone[0])
        (void)snprintf(path, sizeof(path), ":%s", zone);
    if (setenv("TZ", zone[0] ? path : "UTC0", 1) < 0)
        return error_set(err, ERR_INTERNAL, "cannot set the time zone");
    tzset();
    return 0;
}
