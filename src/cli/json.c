/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the service's answers, which are trusted but may be older. */
#include "cli/cli_int.h"

const char *cli_json_text(const json_t *object, const char *key,
                          const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : fallback;
}
