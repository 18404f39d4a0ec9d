/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of `match`: what kind of value each takes, and where a request
 * has what it is compared with. Pure. A number is there only for actions it
 * means something for, so that a caller that leaves it zero is not matched
 * by accident.
 */
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "language/language.h"
#include "policy/policy_int.h"

#define ACTOR(field)                                                          \
    static const char *get_##field(const struct policy_request *rq)           \
    {                                                                         \
        return rq->who ? rq->who->field : NULL;                               \
    }
ACTOR(door)
ACTOR(tool)
ACTOR(tenant)
ACTOR(key)

#define FIELD(field)                                                          \
    static const char *get_##field(const struct policy_request *rq)           \
    {                                                                         \
        return rq->field;                                                     \
    }
FIELD(language)
FIELD(pool)
FIELD(runtime)
FIELD(package)
FIELD(version)
FIELD(sha256)
FIELD(host)
FIELD(method)
FIELD(url_path)
FIELD(file)
FIELD(mime)
FIELD(network)
FIELD(secret)

static const char *get_action(const struct policy_request *rq)
{
    return policy_action_name(rq->action);
}

static const char *get_trigger(const struct policy_request *rq)
{
    return rq->who && rq->who->trigger ? rq->who->trigger : "client";
}

static int64_t get_file_bytes(const struct policy_request *rq)
{
    bool file = rq->action == POLICY_FILE_IN || rq->action == POLICY_FILE_OUT;

    return file ? rq->file_bytes : -1;
}

static int64_t get_code_bytes(const struct policy_request *rq)
{
    bool code = rq->action == POLICY_EXECUTE || rq->action == POLICY_TOOL;

    return code ? rq->code_bytes : -1;
}

static int64_t get_timeout_s(const struct policy_request *rq)
{
    return rq->timeout_s ? rq->timeout_s : -1;
}

static int64_t get_output_bytes(const struct policy_request *rq)
{
    return rq->output_bytes ? rq->output_bytes : -1;
}

static const char *const doors[] = {"native", "openai",  "azure",
                                    "mcp",    "foundry", NULL};
static const char *const triggers[] = {"client", "model", NULL};
static const char *const networks[] = {"none", "allowlist", "open", NULL};

static const struct policy_key keys[] = {
    {"action", KEY_ACTION, policy_action_names, get_action, NULL},
    {"door", KEY_TEXT, doors, get_door, NULL},
    {"tool", KEY_TEXT, NULL, get_tool, NULL},
    {"trigger", KEY_TEXT, triggers, get_trigger, NULL},
    {"language", KEY_TEXT, language_canonical_names, get_language, NULL},
    {"pool", KEY_TEXT, NULL, get_pool, NULL},
    {"runtime", KEY_TEXT, NULL, get_runtime, NULL},
    {"tenant", KEY_TEXT, NULL, get_tenant, NULL},
    {"package", KEY_PACKAGE, NULL, get_package, NULL},
    {"package_version", KEY_TEXT, NULL, get_version, NULL},
    {"package_sha256", KEY_TEXT, NULL, get_sha256, NULL},
    {"destination", KEY_DESTINATION, NULL, get_host, NULL},
    {"method", KEY_TEXT, NULL, get_method, NULL},
    {"url_path", KEY_EXACT, NULL, get_url_path, NULL},
    {"file", KEY_TEXT, NULL, get_file, NULL},
    {"file_type", KEY_TYPE, NULL, get_mime, NULL},
    {"file_bytes", KEY_BYTES, NULL, NULL, get_file_bytes},
    {"code_bytes", KEY_BYTES, NULL, NULL, get_code_bytes},
    {"timeout_s", KEY_SECONDS, NULL, NULL, get_timeout_s},
    {"output_bytes", KEY_BYTES, NULL, NULL, get_output_bytes},
    {"hours", KEY_HOURS, NULL, NULL, NULL},
    {"days", KEY_DAYS, NULL, NULL, NULL},
    {"scopes", KEY_SCOPES, NULL, NULL, NULL},
    {"network", KEY_TEXT, networks, get_network, NULL},
    {"secret", KEY_EXACT, NULL, get_secret, NULL},
    {"key", KEY_EXACT, NULL, get_key, NULL},
};

static const char *const names[] = {
    "action",     "door",           "tool",         "language",
    "pool",       "runtime",        "tenant",       "package",
    "method",     "url_path",       "file",         "package_version",
    "file_type",  "package_sha256", "destination",  "file_bytes",
    "code_bytes", "timeout_s",      "output_bytes", "hours",
    "days",       "scopes",         "network",      "secret",
    "key",        "trigger",
};
_Static_assert(ARRAY_SIZE(names) == ARRAY_SIZE(keys), "a name for each key");

const struct policy_key *policy_key_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

size_t policy_key_names(const char *const **ret)
{
    *ret = names;
    return ARRAY_SIZE(names);
}
