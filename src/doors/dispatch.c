/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the door (API dialect) that handles a request. Runs in the daemon;
 * serve.c calls it with the raw path of every request. The first door that
 * accepts the path handles it; the native door handles the rest.
 */
#include "doors/doors.h"

#include <string.h>

#include "base/mem.h"
#include "conf/conf.h"

static const struct doors_door *const doors[] = {
    &doors_mcp, /* first: some of its paths are below the others' */
    &doors_azure,
    &doors_openai,
};

const struct doors_door *doors_dispatch(
    const char *path, const char **ret_rest,
    struct doors_part ret[DOORS_PARAMS_MAX])
{
    for (size_t i = 0; i < ARRAY_SIZE(doors); i++) {
        memset(ret, 0, DOORS_PARAMS_MAX * sizeof(*ret));
        *ret_rest = doors[i]->enter(path, ret);
        if (*ret_rest)
            return doors[i];
    }
    memset(ret, 0, DOORS_PARAMS_MAX * sizeof(*ret));
    *ret_rest = path;
    return &doors_native;
}

const struct doors_door *doors_at(size_t i)
{
    if (i == ARRAY_SIZE(doors))
        return &doors_native;
    return i < ARRAY_SIZE(doors) ? doors[i] : NULL;
}

uint64_t doors_body_bytes(const struct conf *conf)
{
    uint64_t most = MAX(conf->upload_bytes, conf->json_bytes);

    for (size_t i = 0; i < ARRAY_SIZE(doors); i++)
        most = MAX(most, doors[i]->body_bytes);
    return most;
}
