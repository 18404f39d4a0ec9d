/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From checked text to jansson's values. Runs in the daemon on request
 * bodies and in the command line on answers.
 */
#include "json/json.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

int json_parse(const char *text, size_t len, json_t **ret, struct error *err)
{
    json_error_t why;
    json_t *value;
    int r = json_check(text, len, &json_limits_body, err);

    if (r < 0)
        return r;
    value =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value && (json_error_code(&why) == json_error_null_character ||
                   json_error_code(&why) == json_error_null_byte_in_key))
        return error_set(err, ERR_INVALID,
                         "text may not hold the character U+0000");
    if (!value)
        return error_set(err, ERR_INVALID, "not valid JSON: %s at byte %d",
                         why.text, why.position);
    *ret = value;
    return 0;
}

void json_unref(json_t **value)
{
    json_decref(*value);
}
