/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what the Azure door reads of a request: the first byte says which of
 * path, query values, body of a run, body of a pool, or shown value the rest
 * is. Whatever comes in, names stay below the data root, a run has code, a
 * refusal has a sentence, and what is written is JSON.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/azure/azure.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_path(const char *path)
{
    struct doors_part place[DOORS_PARAMS_MAX] = {{0}};
    const char *rest = azure_path_enter(path, place);
    size_t len = strlen(path);

    if (!rest)
        return;
    assert(strncmp(rest, AZURE_MANAGED, 2) == 0 ||
           (rest >= path && rest <= path + len));
    for (size_t i = 0; i < DOORS_PARAMS_MAX; i++)
        assert(place[i].text &&
               (place[i].len == 0 ||
                (place[i].text >= path &&
                 place[i].text + place[i].len <= path + len)));
}

static void try_name(const char *text)
{
    char name[PATH_BYTES_MAX + 1], again[PATH_BYTES_MAX + 1];
    struct error err = {0};

    if (azure_path_name(text, name, &err) < 0) {
        assert(err.code == ERR_INVALID && err.message[0]);
        return;
    }
    assert(!name[0] || !path_fault(name, strlen(name)));
    assert(azure_path_name(name, again, &err) == 0 &&
           strcmp(name, again) == 0);
    if (azure_path_join("folder", text, again, &err) == 0)
        assert(!path_fault(again, strlen(again)) || !again[0]);
}

static void try_query(const char *text)
{
    enum azure_version version = azure_path_version(text);
    char *name cleanup(mem_free) = xmalloc(strlen(text) + 1);
    char id[ID_MAX], guid[37];
    bool content, doubt;

    assert(version <= AZURE_UNKNOWN);
    if (azure_path_identifier(text))
        assert(strlen(text) >= AZURE_IDENTIFIER_MIN &&
               strlen(text) <= AZURE_IDENTIFIER_MAX && !strchr(text, ' '));
    if (azure_path_unguid(text, "exec", id)) {
        char back[ID_MAX];

        assert(strlen(azure_path_guid(id, guid)) == 36);
        assert(azure_path_unguid(guid, "exec", back) && strcmp(id, back) == 0);
    }
    for (unsigned v = AZURE_NONE; v < AZURE_UNKNOWN; v++) {
        azure_path_file(text, (enum azure_version)v, name, &content, &doubt);
        assert(strlen(name) <= strlen(text));
        assert(!doubt || content);
    }
}

static void try_run(const char *text, size_t len)
{
    json_t *body cleanup(json_unref) = NULL;
    struct error err = {0};

    if (json_parse(text, len, &body, &err) < 0)
        return;
    for (unsigned family = AZURE_A; family <= AZURE_C; family++)
        for (unsigned kind = POOL_PYTHON; kind <= POOL_SHELL; kind++) {
            struct arena *arena = arena_new();
            struct azure_run run = {0};
            const char *code = NULL;
            int r =
                azure_body_run(body, (enum azure_family)family,
                               (enum pool_kind)kind, arena, &run, &code, &err);

            if (r == 0)
                assert(run.code && run.output_max >= -1 &&
                       (run.language == EXEC_SHELL) == (kind == POOL_SHELL));
            else
                assert(err.code == ERR_INVALID && err.message[0] && code);
            arena_free(arena);
        }
}

static void try_pool(const char *text, size_t len)
{
    json_t *body cleanup(json_unref) = NULL;
    json_t *details cleanup(json_unref) = json_object();
    struct pool_spec spec;
    char runtime[64];
    struct error err = {0};

    if (json_parse(text, len, &body, &err) < 0 || !json_is_object(body))
        return;
    if (azure_arm_read(body, details, &spec, runtime, &err) < 0) {
        assert(err.code == ERR_INVALID && err.message[0]);
        return;
    }
    assert(spec.kind >= -1 && spec.kind < POOL_KINDS);
    assert(spec.max_sessions == -1 || spec.max_sessions <= 600);
    assert(spec.cooldown_s == -1 || spec.cooldown_s >= 300);
}

static void try_value(const char *text, size_t len)
{
    struct buf out cleanup(buf_done) = {0};
    struct json_writer w = {.out = &out};
    struct json_limits limits = json_limits_any;
    struct error err = {0};

    limits.number = len + 1;
    json_write_open(&w, NULL, '{');
    azure_value_write(&w, "result", text, len);
    json_write_close(&w, '}');
    assert(json_check(out.data, out.len, &limits, &err) == 0);
    for (int64_t max = -1; max < 5; max++)
        assert(azure_value_cut(text, len, max) <= len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text cleanup(mem_free) = NULL;

    if (size == 0)
        return 0;
    text = xmalloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0]) {
    case 'p':
        try_path(text);
        try_name(text);
        break;
    case 'q':
        try_query(text);
        break;
    case 'r':
        try_run(text, size - 1);
        break;
    case 'm':
        try_pool(text, size - 1);
        break;
    default:
        try_value(text, size - 1);
    }
    return 0;
}
