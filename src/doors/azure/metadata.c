/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs in a pool: its interpreter and packages, from the manifest of its
 * image. Runs on a worker of the daemon; reads our own files only and names
 * no path of the host.
 */
#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "conf/runtime.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define MANIFEST_MAX ((size_t)8 << 20)

/* NULL when there is none that can be read. */
static json_t *manifest_load(const struct conf *conf, const char *runtime)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    char *text cleanup(mem_free) = NULL;
    struct error ignored;
    size_t len;

    if (conf_runtime_find(conf->runtime_defs, conf->runtime_dir, runtime, &rt,
                          &ignored) < 0 ||
        !rt.built ||
        fd_read_file(AT_FDCWD, rt.manifest_path, MANIFEST_MAX, &text, &len) <
            0)
        return NULL;
    return json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void encode_packages(struct json_writer *w, const json_t *manifest)
{
    const json_t *all = json_object_get(manifest, "distributions");

    json_write_open(w, "preInstalledPackages", '[');
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);

        json_write_open(w, NULL, '{');
        json_write_string(w, "name", text_of(one, "name"));
        json_write_string(w, "version", text_of(one, "version"));
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

/* A pool of the configuration is as old as its image. */
static void encode_times(struct json_writer *w, const struct pool_info *pool,
                         const json_t *manifest)
{
    const char *built = text_of(manifest, "built_at");

    if (pool->created_at_ms) {
        azure_encode_time(w, "createdAt", pool->created_at_ms);
        azure_encode_time(w, "lastUpdatedAt", pool->updated_at_ms);
    } else {
        json_write_string(w, "createdAt", built);
        json_write_string(w, "lastUpdatedAt", built);
    }
}

static void encode_kernel(struct json_writer *w)
{
    json_write_open(w, "jupyterKernel", '{');
    json_write_string(w, "name", "glovebox");
    json_write_string(w, "version", GLOVEBOX_VERSION);
    json_write_string(w, "projectUrl", "");
    json_write_string(w, "description",
                      "IPython in a sandbox of its own for each session");
    json_write_close(w, '}');
}

int azure_metadata_get(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    json_t *manifest cleanup(json_unref) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = azure_ask_begin(call, &ask, err);

    if (r == 0)
        r = azure_ask_since(call, &ask, AZURE_2025_02, err);
    if (r < 0)
        return r;
    manifest = manifest_load(call->doors->conf, ask.pool.runtime);
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "runtimes", '[');
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "name", "python");
    json_write_string(&w, "version", text_of(manifest, "python"));
    json_write_close(&w, '}');
    json_write_close(&w, ']');
    encode_packages(&w, manifest);
    encode_times(&w, &ask.pool, manifest);
    encode_kernel(&w);
    json_write_close(&w, '}');
    azure_encode_respond(call, 200, &body);
    return 0;
}
