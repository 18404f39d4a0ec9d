/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime images as objects, as a table and one by one. */
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/runtime.h"
#include "conf/runtime.h"

#define MANIFEST_MAX (8u << 20)

/* --- Objects ----------------------------------------------------------- */

/* NULL when there is none or it cannot be read; owned by caller. */
static json_t *manifest_load(const char *path)
{
    char *text cleanup(mem_free) = NULL;
    size_t len;

    if (fd_read_file(AT_FDCWD, path, MANIFEST_MAX, &text, &len) < 0)
        return NULL;
    return json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
}

static json_t *words_json(char **words, unsigned count)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < count; i++)
        json_array_append_new(array, json_string(words[i]));
    return array;
}

json_t *cli_runtime_json(const struct conf_runtime *rt)
{
    const struct conf_runtime_def *d = rt->def;
    json_t *manifest = rt->built ? manifest_load(rt->manifest_path) : NULL;

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
        rt->name, "description", d->description, "suite", d->suite, "hash",
        rt->hash, "built", rt->built, "definition", rt->definition_path,
        "image", rt->image_path, "packages",
        words_json(d->packages, d->packages_count), "fonts",
        words_json(d->fonts, d->fonts_count), "preload",
        words_json(d->preload, d->preload_count), "environment",
        words_json(d->environment, d->environment_count), "manifest",
        manifest ? manifest : json_null());
}

void cli_runtime_missing(const json_t *manifest, FILE *out)
{
    static const char *const kinds[] = {"packages", "fonts", "modules"};
    const json_t *missing = json_object_get(manifest, "missing");

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(missing, kinds[k]), i, item) {
            fprintf(out, "not available: %s (%s)\n",
                    cli_json_text(item, "name", "?"),
                    cli_json_text(item, "reason", "unknown"));
        }
    }
}

/* --- list, show -------------------------------------------------------- */

static const char *state_of(const json_t *object)
{
    if (json_is_string(json_object_get(object, "error")))
        return "broken definition";
    return json_is_true(json_object_get(object, "built")) ? "built"
                                                          : "not built";
}

static void list_print(const json_t *data)
{
    static const char *const headings[] = {
        "NAME", "STATE", "SUITE", "PYTHON", "SIZE", "BUILT", "DESCRIPTION"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf out cleanup(buf_done) = {0};
    const json_t *object;
    size_t i;

    json_array_foreach (data, i, object) {
        const json_t *manifest = json_object_get(object, "manifest");
        const json_t *size = json_object_get(manifest, "size_bytes");
        char bytes[16] = "";

        if (json_is_integer(size))
            cli_format_size((uint64_t)json_integer_value(size), bytes);
        cli_table_row(table,
                      (const char *[]){
                          cli_json_text(object, "name", ""), state_of(object),
                          cli_json_text(object, "suite", ""),
                          cli_json_text(manifest, "python", ""), bytes,
                          cli_json_text(manifest, "built_at", ""),
                          cli_json_text(object, "description",
                                        cli_json_text(object, "error", ""))});
    }
    cli_table_print(table, &out);
    fwrite(out.data, 1, out.len, stdout);
}

int cli_runtime_list(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *data cleanup(json_unref) = NULL;
    char **names cleanup(conf_runtime_names_free) = NULL;
    struct cli_runtimes *p = arg;
    struct error err = {0};

    (void)words;
    if (conf_runtime_names(p->defs, &names, &err) < 0)
        return cli_fail(c, &err);
    data = json_array();
    for (char **name = names; *name; name++) {
        struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};

        /* One bad definition does not hide the others. */
        if (conf_runtime_find(p->defs, p->cache, *name, &rt, &err) == 0)
            json_array_append_new(data, cli_runtime_json(&rt));
        else
            json_array_append_new(data,
                                  json_pack("{s:s, s:b, s:s}", "name", *name,
                                            "built", 0, "error", err.message));
    }
    if (c->json)
        cli_print_json(data);
    else
        list_print(data);
    return CLI_EXIT_OK;
}

static void names_print(const char *title, const json_t *items)
{
    const json_t *item;
    size_t i;

    printf("\n%s (%zu)\n", title, json_array_size(items));
    json_array_foreach (items, i, item) {
        printf("  %s %s\n", cli_json_text(item, "name", "?"),
               cli_json_text(item, "version", ""));
    }
}

static void show_print(const struct conf_runtime *rt, const json_t *manifest)
{
    char size[16];

    printf("name         %s\n", rt->name);
    printf("description  %s\n", rt->def->description);
    printf("suite        Debian %s\n", rt->def->suite);
    printf("definition   %s\n", rt->definition_path);
    printf("image        %s%s\n", rt->image_path,
           rt->built ? "" : " (not built)");
    printf("preload     ");
    for (unsigned i = 0; i < rt->def->preload_count; i++)
        printf(" %s", rt->def->preload[i]);
    printf("\n");
    if (!manifest)
        return;
    printf("python       %s\n", cli_json_text(manifest, "python", "?"));
    printf("built        %s\n", cli_json_text(manifest, "built_at", "?"));
    printf("size         %s\n",
           cli_format_size((uint64_t)json_integer_value(
                               json_object_get(manifest, "size_bytes")),
                           size));
    cli_runtime_missing(manifest, stdout);
    names_print("Debian packages asked for",
                json_object_get(manifest, "packages"));
    names_print("Python distributions",
                json_object_get(manifest, "distributions"));
}

int cli_runtime_show(struct cli *c, const struct cli_words *words, void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    struct cli_runtimes *p = arg;
    struct error err = {0};
    const json_t *manifest;

    if (conf_runtime_find(p->defs, p->cache, words->items[0], &rt, &err) < 0)
        return cli_fail(c, &err);
    object = cli_runtime_json(&rt);
    manifest = json_object_get(object, "manifest");
    if (c->json)
        cli_print_json(object);
    else
        show_print(&rt, json_is_object(manifest) ? manifest : NULL);
    return CLI_EXIT_OK;
}
