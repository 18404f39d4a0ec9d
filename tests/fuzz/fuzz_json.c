/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the JSON of request bodies: the limits check and the parser behind
 * it. What parses must have passed the check, and must parse again to the
 * same value after it was written out.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct error err = {0};
    json_t *value = NULL;
    json_t *again = NULL;
    char *dump;

    if (json_parse(text, size, &value, &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0] != '\0');
        return 0;
    }
    assert(json_check(text, size, &json_limits_body, &err) == 0);
    dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    assert(dump);
    /* Written out, a real number may have grown past its length limit. */
    if (json_parse(dump, strlen(dump), &again, &err) == 0)
        assert(json_equal(value, again));
    free(dump);
    json_decref(again);
    json_decref(value);
    return 0;
}
