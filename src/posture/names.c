/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables whose names say that they hold a secret. What has none in its
 * environment can leak none, so the service starts itself anew without them:
 * only a new process image has a /proc/self/environ without their text.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "posture/posture.h"

static const char *const parts[] = {
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "CREDENTIAL",
    "PRIVATE_KEY",
    "CONNECTION_STRING",
    "DATABASE_URL",
    "AUTH_KEY",
    "SAS_KEY",
    "_DSN",
};

/* Ours name files and settings, but for the client's own key. */
static const char ours[] = "GLOVEBOX_", ours_secret[] = "GLOVEBOX_KEY";

static bool has_part(const char *name, size_t len, const char *part)
{
    size_t n = strlen(part);

    for (size_t i = 0; i + n <= len; i++)
        if (strncasecmp(name + i, part, n) == 0)
            return true;
    return false;
}

bool posture_secret_name(const char *name, size_t len)
{
    if (len == sizeof(ours_secret) - 1 && memcmp(name, ours_secret, len) == 0)
        return true;
    if (len >= sizeof(ours) - 1 && memcmp(name, ours, sizeof(ours) - 1) == 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (has_part(name, len, parts[i]))
            return true;
    return false;
}

static bool listed(const char *list, const char *name, size_t len)
{
    while (*(list += strspn(list, ", "))) {
        size_t n = strcspn(list, ", ");

        if (n == len && memcmp(list, name, len) == 0)
            return true;
        list += n;
    }
    return false;
}

void posture_clean_environment(const char *keep, char *const *argv)
{
    size_t count = 0, kept = 0;
    char **clean;

    while (environ[count])
        count++;
    clean = xcalloc(count + 1, sizeof(*clean));
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(environ[i], "=");

        if (!posture_secret_name(environ[i], len) ||
            listed(keep, environ[i], len))
            clean[kept++] = environ[i];
    }
    if (kept < count) {
        (void)execve("/proc/self/exe", argv, clean);
        log_event(LOG_WARN, "environment_not_cleaned", "error",
                  strerror(errno), NULL);
    }
    free(clean);
}
