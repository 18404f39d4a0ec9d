/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of doors (API dialects): opens and closes all of them, and
 * chooses the one that handles a request. Runs in the daemon;
 * serve.c calls it with the raw path of every request. The first door that
 * accepts the path handles it; the native door handles the rest.
 */
#include "doors/doors.h"

#include <string.h>

#include "base/mem.h"
#include "conf/conf.h"

static const struct doors_door *const prefixed[] = {
    &doors_mcp, /* first: some of its paths are below the others' */
    &doors_azure, &doors_foundry, &doors_openai, &doors_console,
};

const struct doors_door *doors_dispatch(
    const char *path, const char **ret_rest,
    struct doors_part ret[DOORS_PARAMS_MAX])
{
    for (size_t i = 0; i < ARRAY_SIZE(prefixed); i++) {
        memset(ret, 0, DOORS_PARAMS_MAX * sizeof(*ret));
        *ret_rest = prefixed[i]->enter(path, ret);
        if (*ret_rest)
            return prefixed[i];
    }
    memset(ret, 0, DOORS_PARAMS_MAX * sizeof(*ret));
    *ret_rest = path;
    return &doors_native;
}

const struct doors_door *doors_at(size_t i)
{
    if (i == ARRAY_SIZE(prefixed))
        return &doors_native;
    return i < ARRAY_SIZE(prefixed) ? prefixed[i] : NULL;
}

int doors_open(struct doors *doors, struct error *err)
{
    const struct doors_door *door;
    int r = 0;

    for (size_t i = 0; r == 0 && (door = doors_at(i)); i++)
        if (door->open)
            r = door->open(doors, err);
    return r;
}

void doors_stop(struct doors *doors)
{
    const struct doors_door *door;

    for (size_t i = 0; (door = doors_at(i)); i++)
        if (door->stop)
            door->stop(doors);
}

void doors_close(struct doors *doors)
{
    const struct doors_door *door;

    for (size_t i = 0; (door = doors_at(i)); i++)
        if (door->close)
            door->close(doors);
}

uint64_t doors_body_bytes(const struct conf *conf)
{
    uint64_t most = MAX(conf->upload_bytes, conf->json_bytes);

    for (size_t i = 0; i < ARRAY_SIZE(prefixed); i++)
        most = MAX(most, prefixed[i]->body_bytes);
    return most;
}
