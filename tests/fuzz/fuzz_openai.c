/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what the OpenAI door reads besides forms (fuzz_multipart.c): bodies,
 * query strings, names of files and paths. The first byte says as what the
 * rest is read; where several texts are needed they are lines. What is taken
 * must be within its limits, what is refused must be named.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "doors/openai/openai.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct openai_fault fault;
    struct error err;
};

static void check_refusal(const struct outcome *o)
{
    assert(o->err.code == ERR_INVALID && o->err.message[0]);
    assert(o->fault.code);
    /* A member may be called nothing. */
    assert(o->fault.param[0] ||
           strcmp(o->fault.code, "unknown_parameter") == 0);
}

static void check_strings(const json_t *array, size_t max)
{
    assert(json_array_size(array) <= max);
    for (size_t i = 0; i < json_array_size(array); i++)
        assert(json_string_length(json_array_get(array, i)) > 0);
}

/* ---- bodies ------------------------------------------------------------- */

static int container(const json_t *body, struct outcome *o)
{
    struct openai_container c = {0};
    int r = openai_decode_container(body, &c, &o->fault, &o->err);

    if (r == 0) {
        assert(c.name && c.name[0] && strlen(c.name) <= 128);
        assert(c.minutes >= 1 && c.minutes <= OPENAI_MINUTES_MAX);
        assert(c.memory_bytes % ((uint64_t)1 << 30) == 0);
        check_strings(c.file_ids, OPENAI_FILES_MAX);
    }
    return r;
}

static int attach(const json_t *body, struct outcome *o)
{
    const char *id = NULL;
    int r = openai_decode_attach(body, &id, &o->fault, &o->err);

    assert(r < 0 || (id[0] && strlen(id) < ID_MAX));
    return r;
}

static int upload(const json_t *body, struct outcome *o)
{
    struct openai_upload u = {0};
    struct outcome ignored;
    int r = openai_decode_upload(body, &u, &o->fault, &o->err);

    if (r == 0) {
        assert(u.bytes >= 1 && u.bytes <= OPENAI_UPLOAD_BYTES);
        assert(u.filename[0] && u.mime);
        assert(openai_decode_purpose(u.purpose, &ignored.fault,
                                     &ignored.err) == 0);
        assert(u.expires_s == 0 || (u.expires_s >= OPENAI_EXPIRY_MIN_S &&
                                    u.expires_s <= OPENAI_EXPIRY_MAX_S));
    }
    return r;
}

static int complete(const json_t *body, struct outcome *o)
{
    struct openai_complete c = {0};
    int r = openai_decode_complete(body, &c, &o->fault, &o->err);

    if (r == 0) {
        check_strings(c.part_ids, LIBRARY_PARTS_MAX);
        assert(c.part_ids && (!c.md5 || strlen(c.md5) == 32));
    }
    return r;
}

static void body(const char *text, size_t len,
                 int (*decode)(const json_t *body, struct outcome *o))
{
    json_t *json cleanup(json_unref) = NULL;
    struct outcome o = {.fault = {.code = NULL}};

    if (json_parse(text, len, &json, &o.err) < 0 || !json_is_object(json))
        return;
    if (decode(json, &o) < 0)
        check_refusal(&o);
}

/* ---- texts -------------------------------------------------------------- */

/* The next line, or NULL where it says nothing: as an absent parameter. */
static char *take_line(char **text)
{
    char *line = strsep(text, "\n");

    return line && line[0] ? line : NULL;
}

static void query(char *text)
{
    const char *limit = take_line(&text), *order = take_line(&text);
    const char *after = take_line(&text);
    struct outcome o = {.fault = {.code = NULL}};
    struct openai_page page;

    if (openai_decode_page(limit, order, after, 100, 20, &page, &o.fault,
                           &o.err) < 0)
        check_refusal(&o);
    else
        assert(page.limit >= 1 && page.limit <= 100 &&
               (!page.after || page.after[0]));
}

static void expiry(char *text)
{
    const char *anchor = take_line(&text), *seconds = take_line(&text);
    const char *purpose = take_line(&text);
    struct outcome o = {.fault = {.code = NULL}};
    uint32_t s = 0;

    if (openai_decode_purpose(purpose ? purpose : "", &o.fault, &o.err) < 0) {
        check_refusal(&o);
        purpose = "batch";
    }
    if (openai_decode_expiry(anchor, seconds, purpose, &s, &o.fault, &o.err) <
        0)
        check_refusal(&o);
    else
        assert(s == 0 ||
               (s >= OPENAI_EXPIRY_MIN_S && s <= OPENAI_EXPIRY_MAX_S));
}

static void name(char *text)
{
    struct arena *arena = arena_new();
    const char *type = take_line(&text);
    const char *base = openai_name_base(text);

    if (base) {
        const char *path =
            openai_name_join(arena, "0123456789abcdef0123456789abcdef-", base);

        assert(!strpbrk(base, "/\\"));
        assert(!path_fault(base, strlen(base)));
        assert(!path_fault(path, strlen(path)));
    }
    type = openai_name_type(arena, type);
    assert(!type || (strchr(type, '/') && strlen(type) < 96));
    arena_free(arena);
}

static void route(char *text)
{
    struct doors_part place[DOORS_PARAMS_MAX] = {{0}};
    struct doors_part parts[DOORS_PARAMS_MAX] = {{0}};
    const char *method = take_line(&text), *path = text ? text : "";
    const char *rest = doors_openai.enter(path, place);
    char allow[64], id[ID_MAX], other[ID_MAX];

    if (!rest)
        return;
    assert(rest >= path && rest <= path + strlen(path));
    assert(rest[0] == '\0' || rest[0] == '/');
    if (!doors_routes_find(&doors_openai, method ? method : "GET", rest, parts,
                           allow))
        return;
    for (size_t i = 0; i < DOORS_PARAMS_MAX && parts[i].text; i++) {
        char *param cleanup(mem_free) = xstrndup(parts[i].text, parts[i].len);

        assert(param[0] && !strchr(param, '/'));
        if (doors_file_id(param, id)) { /* each name leads back to it */
            assert(doors_file_id(doors_file_container(id, other), other) &&
                   strcmp(id, other) == 0);
            assert(doors_file_id(doors_file_library(id, other), other) &&
                   strcmp(id, other) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text cleanup(mem_free) =
        xstrndup((const char *)data + (size > 0), size - (size > 0));
    size_t len = strlen(text);

    switch (size ? data[0] : 0) {
    case 'c':
        body(text, len, container);
        break;
    case 'a':
        body(text, len, attach);
        break;
    case 'u':
        body(text, len, upload);
        break;
    case 'p':
        body(text, len, complete);
        break;
    case 'q':
        query(text);
        break;
    case 'e':
        expiry(text);
        break;
    case 'n':
        name(text);
        break;
    default:
        route(text);
        break;
    }
    return 0;
}
