/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/runtimes: what is defined and what is in each image, from its
 * manifest. Runs on a worker of the daemon; reads our own files only and
 * names no path of the host.
 */
#include "doors/native/native.h"

#include <fcntl.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "conf/runtime.h"
#include "language/language.h"
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

/* ---- resources ---------------------------------------------------------- */

struct runtime {
    const struct conf_runtime *image;
    const char *name, *description, *suite, *hash, *digest;
    bool built;
    json_t *manifest; /* owned; NULL when there is none that can be read */
};

/* A value of the manifest as it is, or null. */
static void write_manifest(struct json_writer *w, const char *key,
                           const void *object)
{
    const struct runtime *r = object;
    const json_t *value = json_object_get(r->manifest, key);
    char *text cleanup(mem_free) =
        value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    json_write_raw(w, key, text ? text : "null", strlen(text ? text : "null"));
}

static void write_items(struct json_writer *w, const char *key,
                        const struct conf_runtime_item *items, unsigned count)
{
    json_write_open(w, key, '[');
    for (unsigned i = 0; i < count; i++)
        json_write_string(w, NULL, items[i].name);
    json_write_close(w, ']');
}

#define WRITE_LIST(member)                                                    \
    static void write_##member(struct json_writer *w, const char *key,        \
                               const void *object)                            \
    {                                                                         \
        const struct runtime *r = object;                                     \
                                                                              \
        write_items(w, key, r->image ? r->image->def->member : NULL,          \
                    r->image ? r->image->def->member##_count : 0);            \
    }
WRITE_LIST(packages)
WRITE_LIST(fonts)
WRITE_LIST(pip)
WRITE_LIST(npm)

static void write_preload(struct json_writer *w, const char *key,
                          const void *object)
{
    const struct runtime *r = object;

    json_write_open(w, key, '[');
    for (unsigned i = 0; r->image && i < r->image->def->preload_count; i++)
        json_write_string(w, NULL, r->image->def->preload[i]);
    json_write_close(w, ']');
}

static void write_languages(struct json_writer *w, const char *key,
                            const void *object)
{
    const struct runtime *r = object;
    uint32_t set =
        r->built && r->image ? language_offered(r->image->root_path) : 0;

    json_write_open(w, key, '[');
    for (unsigned i = 0; i < EXEC_LANGUAGES; i++)
        if (set & LANGUAGE_BIT(i))
            json_write_string(w, NULL,
                              language_get((enum exec_language)i)->name);
    json_write_close(w, ']');
}

#define RUNTIME(member) API_AT(struct runtime, member)

static const struct api_field runtime_fields[] = {
    {"name", API_STRING, RUNTIME(name)},
    {"description", API_STRING, API_NULLABLE, RUNTIME(description)},
    {"suite", API_STRING, API_NULLABLE, RUNTIME(suite)},
    {"hash", API_STRING, RUNTIME(hash)},
    {"built", API_BOOL, RUNTIME(built)},
    {"image", API_STRING, RUNTIME(digest),
     .help = "digest of an imported image; empty for others"},
    {"mode", API_STRING, API_NULLABLE, .write = write_manifest,
     .help = "of an imported image: zygote, or exec when it has no usable "
             "Python"},
    {"python", API_STRING, API_NULLABLE, .write = write_manifest},
    {"architecture", API_STRING, API_NULLABLE, .write = write_manifest},
    {"built_at", API_STRING, API_NULLABLE, .write = write_manifest},
    {"size_bytes", API_INT, API_NULLABLE, .write = write_manifest},
    {"languages", API_ARRAY, .write = write_languages, .items = API_STRING,
     .help = "of executions that it can run; empty until it is built"},
};
API_OUTPUT(native_runtime, "Runtime", struct runtime, runtime_fields,
           "A runtime image.");

static const struct api_field runtime_whole_fields[] = {
    {"packages", API_ARRAY, .write = write_packages},
    {"fonts", API_ARRAY, .write = write_fonts},
    {"pip", API_ARRAY, .write = write_pip},
    {"npm", API_ARRAY, .write = write_npm},
    {"preload", API_ARRAY, .write = write_preload},
    {"distributions", API_ARRAY, API_NULLABLE, .write = write_manifest,
     .items = API_OBJECT, .help = "name and version"},
    {"missing", API_OBJECT, API_NULLABLE, .write = write_manifest},
};
API_OUTPUT_OF(native_runtime_whole, "RuntimeWhole", &native_runtime,
              struct runtime, runtime_whole_fields,
              "A runtime image and what is in it.");

static void runtime_done(struct runtime *r)
{
    json_decref(r->manifest);
}

static struct runtime runtime_of(const struct conf_runtime *image)
{
    return (struct runtime){
        .image = image,
        .name = image->name,
        .description = image->def->description,
        .suite = image->def->suite,
        .hash = image->hash,
        .digest = image->def->image,
        .built = image->built,
        .manifest = manifest_load(image),
    };
}

/* ---- routes ------------------------------------------------------------- */

int native_runtimes_list(struct doors_call *call, struct error *err)
{
    const struct conf *conf = call->doors->conf;
    char **names cleanup(conf_runtime_names_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r =
        conf_runtime_names(conf->runtime_defs, conf->runtime_dir, &names, err);

    if (r < 0)
        return r;
    native_encode_list(&w);
    for (char **name = names; *name; name++) {
        struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
        struct error ignored;

        /* A definition that cannot be read is none; the others stand. */
        if (conf_runtime_find(conf->runtime_defs, conf->runtime_dir, *name,
                              &rt, &ignored) == 0) {
            struct runtime one cleanup(runtime_done) = runtime_of(&rt);

            api_write(&w, NULL, &native_runtime, &one);
        }
    }
    native_encode_list_end(&w, false);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_runtimes_get(struct doors_call *call, struct error *err)
{
    const struct conf *conf = call->doors->conf;
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    struct runtime r cleanup(runtime_done) = {.manifest = NULL};

    if (!conf_runtime_name_valid(call->params[0]) ||
        conf_runtime_find(conf->runtime_defs, conf->runtime_dir,
                          call->params[0], &rt, err) < 0)
        return error_set(err, ERR_NOT_FOUND, "no such runtime");
    r = runtime_of(&rt);
    native_respond(call, 200, &native_runtime_whole, &r);
    return 0;
}
