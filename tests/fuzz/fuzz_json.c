/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes JSON from outside. As a request's body: what parses must have passed
 * the limits check and must parse again to the same value after it was
 * written out. As a value that a session made: what the check lets through
 * must stay on one line of an event, and our own client must be able to read
 * it.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/common.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_body(const char *text, size_t len)
{
    struct error err = {0};
    json_t *value = NULL;
    json_t *again = NULL;
    char *dump;

    if (json_parse(text, len, &value, &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0] != '\0');
        return;
    }
    assert(json_check(text, len, &json_limits_body, &err) == 0);
    dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    assert(dump);
    /* Written out, a real number may have grown past its length limit. */
    if (json_parse(dump, strlen(dump), &again, &err) == 0)
        assert(json_equal(value, again));
    free(dump);
    json_decref(again);
    json_decref(value);
}

static void try_value(const char *text, size_t len)
{
    struct buf out = {0};
    struct json_writer w = {.out = &out};
    struct error err = {0};
    json_t *read;

    if (json_check(text, len, &json_limits_any, &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0] != '\0');
        return;
    }
    assert(utf8_valid(text, len));
    json_write_open(&w, NULL, '[');
    json_write_raw(&w, NULL, text, len);
    json_write_text(&w, NULL, text, len);
    json_write_close(&w, ']');
    assert(!memchr(out.data, '\n', out.len));
    assert(!memchr(out.data, '\r', out.len));
    read = cli_json_load(out.data, out.len);
    assert(json_array_size(read) == 2);
    assert(json_string_length(json_array_get(read, 1)) == len);
    json_decref(read);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    try_body(text, size);
    try_value(text, size);
    return 0;
}
