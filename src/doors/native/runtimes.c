/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/runtimes: what is defined and what is in each image, from its
 * manifest. Runs on a worker of the daemon; reads our own files only and
 * names no path of the host.
 */
#include "doors/native/native.h"

#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "conf/runtime.h"
#include "json/json.h"

#define MANIFEST_MAX ((size_t)8 << 20)

/* NULL when there is none that can be read. */
static json_t *manifest_load(const struct conf_runtime *rt)
{
    char *text cleanup(mem_free) = NULL;
    size_t len;

    if (!rt->built || fd_read_file(AT_FDCWD, rt->manifest_path, MANIFEST_MAX,
                                   &text, &len) < 0)
        return NULL;
    return json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
}

static void encode_words(struct json_writer *w, const char *key,
                         char *const *words, unsigned count)
{
    json_write_open(w, key, '[');
    for (unsigned i = 0; i < count; i++)
        json_write_string(w, NULL, words[i]);
    json_write_close(w, ']');
}

/* A value of the manifest as it is, or null. */
static void encode_from(struct json_writer *w, const json_t *manifest,
                        const char *key)
{
    const json_t *value = json_object_get(manifest, key);
    char *text cleanup(mem_free) =
        value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    json_write_raw(w, key, text ? text : "null", strlen(text ? text : "null"));
}

static void encode_runtime(struct json_writer *w,
                           const struct conf_runtime *rt, bool whole)
{
    static const char *const facts[] = {"python", "architecture", "built_at",
                                        "size_bytes"};
    static const char *const contents[] = {"distributions", "missing"};
    json_t *manifest cleanup(json_unref) = manifest_load(rt);

    json_write_open(w, NULL, '{');
    json_write_string(w, "name", rt->name);
    json_write_string(w, "description", rt->def->description);
    json_write_string(w, "suite", rt->def->suite);
    json_write_string(w, "hash", rt->hash);
    json_write_bool(w, "built", rt->built);
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
        encode_from(w, manifest, facts[i]);
    if (whole) {
        encode_words(w, "packages", rt->def->packages,
                     rt->def->packages_count);
        encode_words(w, "fonts", rt->def->fonts, rt->def->fonts_count);
        encode_words(w, "preload", rt->def->preload, rt->def->preload_count);
        for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
            encode_from(w, manifest, contents[i]);
    }
    json_write_close(w, '}');
}

int native_runtimes_list(struct doors_call *call, struct error *err)
{
    const struct conf *conf = call->doors->conf;
    char **names cleanup(conf_runtime_names_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = conf_runtime_names(conf->runtime_defs, &names, err);

    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "data", '[');
    for (char **name = names; *name; name++) {
        struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
        struct error ignored;

        /* A definition that cannot be read is none; the others stand. */
        if (conf_runtime_find(conf->runtime_defs, conf->runtime_dir, *name,
                              &rt, &ignored) == 0)
            encode_runtime(&w, &rt, false);
    }
    json_write_close(&w, ']');
    json_write_bool(&w, "has_more", false);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_runtimes_get(struct doors_call *call, struct error *err)
{
    const struct conf *conf = call->doors->conf;
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    if (!conf_runtime_name_valid(call->params[0]) ||
        conf_runtime_find(conf->runtime_defs, conf->runtime_dir,
                          call->params[0], &rt, err) < 0)
        return error_set(err, ERR_NOT_FOUND, "no such runtime");
    encode_runtime(&w, &rt, true);
    http_respond_json(call->http, 200, &body);
    return 0;
}
