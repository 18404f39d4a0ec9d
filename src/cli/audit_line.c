/* SPDX-License-Identifier: Apache-2.0 */
/* A line of an export back into an event; see audit.h. */
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "cli/audit.h"
#include "cli/cli_int.h"

static bool read_hash(const json_t *event, const char *name, char ret[65])
{
    const char *text = cli_json_text(event, name, "");

    if (strlen(text) > 64)
        return false;
    memcpy(ret, text, strlen(text) + 1);
    return true;
}

/* The struct owns its texts elsewhere; here nobody frees or changes them. */
static char *text_of(const json_t *event, const char *name)
{
    return (char *)(uintptr_t)cli_json_text(event, name, "");
}

bool cli_audit_line(const json_t *event, struct audit_line *ret)
{
    const json_t *at = json_object_get(event, "at_ms");

    *ret = (struct audit_line){
        .seq = (int64_t)cli_json_number(event, "seq"),
        .at_ms = json_integer_value(at),
        .tenant = text_of(event, "tenant"),
        .actor = text_of(event, "actor"),
        .action = text_of(event, "action"),
        .workspace = text_of(event, "workspace"),
        .object = text_of(event, "object"),
        .path = text_of(event, "path"),
        .before = text_of(event, "before"),
        .after = text_of(event, "after"),
        .result = text_of(event, "result"),
        .detail = text_of(event, "detail"),
        .request = text_of(event, "request"),
        .source = text_of(event, "source"),
        .token = text_of(event, "token"),
        .chain_seq = (int64_t)cli_json_number(event, "chain_seq"),
    };
    return json_is_integer(at) && ret->seq > 0 && ret->action[0] &&
           read_hash(event, "hash", ret->hash) &&
           read_hash(event, "chain_hash", ret->chain_hash) &&
           read_hash(event, "chain_previous", ret->chain_previous);
}
