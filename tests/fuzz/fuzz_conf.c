/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what an operator writes: glovebox.yaml and runtime definitions. What
 * is refused must be refused with a sentence; what is accepted and passes the
 * last check must, written out again, load to the same settings; what a
 * definition plans for the builder must have no line it did not mean to have.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "conf/conf_int.h"
#include "conf/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct conf *defaults(void)
{
    struct conf *c = xcalloc(1, sizeof(*c));
    struct error err;

    assert(conf_defaults(c, &conf_options_top, &err) == 0);
    c->pool_count = 1;
    assert(conf_defaults(&c->pools[0], &conf_options_pool, &err) == 0);
    return c;
}

static char *dumped(const struct conf *c)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert(out);
    conf_dump(c, out);
    assert(fclose(out) == 0);
    return text;
}

static void try_config(const char *text, size_t len)
{
    struct conf *c cleanup(conf_freep) = defaults();
    struct error err = {0};

    if (conf_file_parse(text, len, "fuzz.yaml", c, &err) < 0 ||
        conf_check(c, &err) < 0) {
        assert(err.code == ERR_INVALID && err.message[0] != '\0');
        return;
    }
    {
        struct conf *again cleanup(conf_freep) = defaults();
        char *first cleanup(mem_free) = dumped(c);
        char *second cleanup(mem_free) = NULL;

        assert(conf_file_parse(first, strlen(first), "dump", again, &err) ==
               0);
        assert(conf_check(again, &err) == 0);
        second = dumped(again);
        assert(strcmp(first, second) == 0);
    }
}

static size_t lines(const char *text, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    return count;
}

static void try_definition(const char *text, size_t len)
{
    struct conf_runtime_def *def = NULL;
    char *plan cleanup(mem_free) = NULL;
    struct error err = {0};
    size_t plan_len, items, sources;

    if (conf_runtime_parse(text, len, &def, &err) < 0) {
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        assert(err.message[0] != '\0');
        return;
    }
    assert(conf_runtime_plan(def, NULL, NULL, &plan, &err) == 0);
    plan_len = strlen(plan);
    assert(plan[plan_len - 1] == '\n');
    items = def->packages_count + def->fonts_count + def->preload_count +
            def->environment_count + def->files_count + def->also_count +
            def->pip_count + def->npm_count;
    sources = def->files_count + def->npm_count + 1;
    assert(lines(plan, plan_len) >= items);
    assert(lines(plan, plan_len) <= items + sources + 2);
    conf_runtime_def_free(def);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text cleanup(mem_free) = NULL;

    if (size > CONF_FILE_MAX)
        return 0;
    text = xcalloc(1, size + 1); /* terminated, as a file's text is */
    memcpy(text, data, size);
    try_config(text, size);
    try_definition((const char *)data, size); /* which need not be */
    return 0;
}
