/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session pool as a resource of the control plane: its body read, what
 * the core has no room for kept as the pool's details, and told again. Runs
 * on a worker of the daemon. Names are compared without regard to case, as
 * documents spell them differently.
 */
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "doors/azure/azure.h"
#include "json/json.h"
#include <stdlib.h>

#define SESSIONS_MAX 600
#define COOLDOWN_MIN_S 300
#define COOLDOWN_MAX_S 3600

/* ---- fields of a body --------------------------------------------------- */

/* NULL when absent or null. */
static json_t *get(const json_t *object, const char *name)
{
    json_t *value;
    const char *key;

    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        if (strcasecmp(key, name) == 0 && !json_is_null(value))
            return value;
    return NULL;
}

static int get_object(const json_t *object, const char *name, json_t **ret,
                      struct error *err)
{
    *ret = get(object, name);
    if (*ret && !json_is_object(*ret))
        return error_set(err, ERR_INVALID, "property '%s' must be an object",
                         name);
    return 0;
}

/* *ret is left as it was when it is absent. */
/* Clients also send numbers as text: "300". */
static bool read_number(const json_t *value, int64_t *ret)
{
    const char *text = json_string_value(value);
    char *end;

    if (!text)
        return json_whole_number(value, ret);
    if (!text[0] || strspn(text, "0123456789") != strlen(text) ||
        strlen(text) > 18)
        return false;
    *ret = strtoll(text, &end, 10);
    return true;
}

static int get_number(const json_t *object, const char *name, int64_t min,
                      int64_t max, int64_t *ret, struct error *err)
{
    const json_t *value = get(object, name);
    int64_t number;

    if (!value)
        return 0;
    if (!read_number(value, &number) || number < min || number > max)
        return error_set(err, ERR_INVALID,
                         "property '%s' must be a whole number from %lld to "
                         "%lld",
                         name, (long long)min, (long long)max);
    *ret = number;
    return 0;
}

/* The one word that is offered, or another with the reason why not. */
static int get_only(const json_t *object, const char *name, const char *word,
                    const char *reason, struct error *err)
{
    const json_t *value = get(object, name);

    if (!value)
        return 0;
    if (!json_is_string(value) ||
        strcasecmp(json_string_value(value), word) != 0)
        return error_set(err, ERR_INVALID, "property '%s' must be '%s': %s",
                         name, word, reason);
    return 0;
}

/* ---- reading ------------------------------------------------------------ */

static const struct {
    const char *name;
    int kind; /* -1: not offered */
} containers[] = {
    {"PythonLTS", POOL_PYTHON},
    {"Shell", POOL_SHELL},
    {"NodeLTS", POOL_JAVASCRIPT},
    {"CustomContainer", POOL_CUSTOM},
    {"GpuBase", -1},
    {"CsharpLTS", -1},
};

#define OFFERED "PythonLTS, NodeLTS, Shell or CustomContainer"

static const char *container_name(enum pool_kind kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(containers); i++)
        if (containers[i].kind == (int)kind)
            return containers[i].name;
    return "PythonLTS";
}

static int read_container(const json_t *properties, struct pool_spec *ret,
                          struct error *err)
{
    const json_t *value = get(properties, "containerType");
    const char *name = json_string_value(value);

    if (!value)
        return 0;
    for (size_t i = 0; name && i < ARRAY_SIZE(containers); i++) {
        if (strcasecmp(name, containers[i].name) != 0)
            continue;
        if (containers[i].kind < 0)
            return error_set(err, ERR_INVALID,
                             "container type '%s' is not offered here; "
                             "choose " OFFERED,
                             containers[i].name);
        ret->kind = containers[i].kind;
        return 0;
    }
    return error_set(err, ERR_INVALID,
                     "property 'containerType' must be " OFFERED);
}

/* Copies a value into the details as it came. */
static void keep(json_t *details, const json_t *from, const char *name)
{
    json_t *value = get(from, name);

    if (value)
        (void)json_object_set_new(details, name, json_deep_copy(value));
}

/* An image is a runtime that was imported here under the last part of its
 * name: "registry/team/mine:1" is the runtime mine. */
static int read_image(const json_t *properties, json_t *details,
                      struct pool_spec *ret, char runtime[64],
                      struct error *err)
{
    json_t *template;
    const json_t *containers_;
    const char *image, *name;
    size_t len;
    int r = get_object(properties, "customContainerTemplate", &template, err);

    if (r == 0 && !template && ret->kind == POOL_CUSTOM)
        return error_set(err, ERR_INVALID,
                         "property 'customContainerTemplate' is missing: it "
                         "names the image of a CustomContainer pool");
    if (r < 0 || !template)
        return r;
    if (ret->kind >= 0 && ret->kind != POOL_CUSTOM)
        return error_set(err, ERR_INVALID,
                         "property 'customContainerTemplate' is for the "
                         "container type CustomContainer");
    containers_ = get(template, "containers");
    image = json_string_value(get(json_array_get(containers_, 0), "image"));
    if (json_array_size(containers_) != 1 || !image)
        return error_set(err, ERR_INVALID,
                         "property 'containers' must be an array of one "
                         "container with an 'image'");
    name = strrchr(image, '/');
    name = name ? name + 1 : image;
    len = strcspn(name, ":@");
    if (len == 0 || len >= 64)
        return error_set(err, ERR_INVALID,
                         "property 'image' must name a runtime that was "
                         "imported");
    memcpy(runtime, name, len);
    runtime[len] = '\0';
    ret->runtime = runtime;
    keep(details, properties, "customContainerTemplate");
    return 0;
}

static int read_scale(const json_t *properties, struct pool_spec *ret,
                      struct error *err)
{
    json_t *scale;
    int r = get_object(properties, "scaleConfiguration", &scale, err);

    if (r == 0 && scale)
        r = get_number(scale, "maxConcurrentSessions", 1, SESSIONS_MAX,
                       &ret->max_sessions, err);
    if (r == 0 && scale)
        r = get_number(scale, "readySessionInstances", 0, SESSIONS_MAX,
                       &ret->ready, err);
    return r;
}

/* Both the old and the new place of the cooldown. */
static int read_lifecycle(const json_t *properties, struct pool_spec *ret,
                          struct error *err)
{
    static const char why[] = "built-in pools end by time";
    json_t *dynamic, *cycle = NULL;
    int r = get_object(properties, "dynamicPoolConfiguration", &dynamic, err);

    if (r == 0 && dynamic)
        r = get_object(dynamic, "lifecycleConfiguration", &cycle, err);
    if (r < 0 || !dynamic)
        return r;
    if (get(cycle ? cycle : dynamic, "maxAlivePeriodInSeconds"))
        return error_set(err, ERR_INVALID,
                         "property 'maxAlivePeriodInSeconds' is for custom "
                         "containers, which are not offered here");
    r = get_only(dynamic, "executionType", "Timed", why, err);
    if (r == 0 && cycle)
        r = get_only(cycle, "lifecycleType", "Timed", why, err);
    if (r == 0)
        r = get_number(cycle ? cycle : dynamic, "cooldownPeriodInSeconds",
                       COOLDOWN_MIN_S, COOLDOWN_MAX_S, &ret->cooldown_s, err);
    return r;
}

/* Azure's "enabled" is every public address; policy may deny it. */
static int read_network(const json_t *properties, struct pool_spec *ret,
                        struct error *err)
{
    json_t *network;
    const json_t *status;
    int r =
        get_object(properties, "sessionNetworkConfiguration", &network, err);

    status = r == 0 && network ? get(network, "status") : NULL;
    if (!status)
        return r;
    if (json_is_string(status) &&
        strcasecmp(json_string_value(status), "EgressEnabled") == 0)
        ret->egress = "open";
    else if (json_is_string(status) &&
             strcasecmp(json_string_value(status), "EgressDisabled") == 0)
        ret->egress = "none";
    else
        r = error_set(err, ERR_INVALID,
                      "property 'status' must be EgressDisabled or "
                      "EgressEnabled");
    return r;
}

static int keep_flag(json_t *details, const json_t *from, const char *name,
                     struct error *err)
{
    json_t *value = get(from, name);

    if (value && !json_is_boolean(value))
        return error_set(err, ERR_INVALID, "property '%s' must be a boolean",
                         name);
    keep(details, from, name);
    return 0;
}

static int read_mcp(const json_t *properties, json_t *details,
                    struct error *err)
{
    json_t *mcp;
    int r = get_object(properties, "mcpServerSettings", &mcp, err);

    if (r == 0 && mcp)
        r = keep_flag(details, mcp, "isMcpServerEnabled", err);
    if (r == 0 && mcp)
        r = keep_flag(details, mcp, "isMcpServerApiKeyDisabled", err);
    return r;
}

static int read_identities(const json_t *properties, json_t *details,
                           struct error *err)
{
    const json_t *all = get(properties, "managedIdentitySettings");

    if (all && !json_is_array(all))
        return error_set(err, ERR_INVALID,
                         "property 'managedIdentitySettings' must be an "
                         "array");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const char *cycle =
            json_string_value(get(json_array_get(all, i), "lifecycle"));

        if (cycle && strcasecmp(cycle, "None") != 0 &&
            strcasecmp(cycle, "Main") != 0)
            return error_set(err, ERR_INVALID,
                             "property 'lifecycle' of an identity must be "
                             "None or Main");
    }
    keep(details, properties, "managedIdentitySettings");
    return 0;
}

static int read_top(const json_t *body, json_t *details, struct error *err)
{
    const json_t *location = get(body, "location");
    json_t *tags;
    int r = get_object(body, "tags", &tags, err);

    if (r < 0)
        return r;
    if (location && !json_is_string(location))
        return error_set(err, ERR_INVALID,
                         "property 'location' must be a text");
    keep(details, body, "location");
    keep(details, body, "tags");
    keep(details, body, "identity");
    return 0;
}

int azure_arm_read(const json_t *body, json_t *details, struct pool_spec *ret,
                   char ret_runtime[64], struct error *err)
{
    struct pool_spec spec = {.kind = -1,
                             .ready = -1,
                             .max_sessions = -1,
                             .cooldown_s = -1,
                             .memory_bytes = -1};
    json_t *properties = NULL;
    int r = get_object(body, "properties", &properties, err);

    if (r == 0)
        r = read_top(body, details, err);
    if (r == 0 && properties)
        r = get_only(properties, "poolManagementType", "Dynamic",
                     "the service itself makes and ends sessions", err);
    if (r == 0 && properties)
        r = read_container(properties, &spec, err);
    if (r == 0 && properties)
        r = read_image(properties, details, &spec, ret_runtime, err);
    if (r == 0 && properties)
        r = read_scale(properties, &spec, err);
    if (r == 0 && properties)
        r = read_lifecycle(properties, &spec, err);
    if (r == 0 && properties)
        r = read_network(properties, &spec, err);
    if (r == 0 && properties)
        r = read_mcp(properties, details, err);
    if (r == 0 && properties)
        r = read_identities(properties, details, err);
    if (r == 0)
        *ret = spec;
    return r;
}

/* ---- details ------------------------------------------------------------ */

json_t *azure_arm_details(const struct pool_info *pool)
{
    json_t *details =
        pool->details ? json_loads(pool->details, 0, NULL) : NULL;

    if (!json_is_object(details)) {
        json_decref(details);
        details = json_object();
    }
    return details;
}

char *azure_arm_text(const json_t *details)
{
    return json_dumps(details, JSON_COMPACT);
}

static const char *text_of(const json_t *details, const char *key)
{
    const char *text = json_string_value(json_object_get(details, key));

    return text ? text : "";
}

bool azure_arm_here(const struct doors_call *call,
                    const struct pool_info *pool)
{
    json_t *details cleanup(json_unref) = azure_arm_details(pool);
    const char *subscription = text_of(details, "subscription");
    const char *group = text_of(details, "group");

    if (subscription[0] &&
        strcasecmp(subscription, call->place[AZURE_SUBSCRIPTION]) != 0)
        return false;
    return !group[0] || !call->place[AZURE_GROUP][0] ||
           strcasecmp(group, call->place[AZURE_GROUP]) == 0;
}

/* ---- telling ------------------------------------------------------------ */

/* A kept value as it is; nothing when there is none. */
static void encode_kept(struct json_writer *w, const json_t *details,
                        const char *key)
{
    const json_t *value = json_object_get(details, key);
    char *text cleanup(mem_free) =
        value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    if (text)
        json_write_raw(w, key, text, strlen(text));
}

static void encode_lifecycle(struct json_writer *w,
                             const struct pool_info *pool, bool old)
{
    json_write_open(w, "dynamicPoolConfiguration", '{');
    if (!old)
        json_write_open(w, "lifecycleConfiguration", '{');
    json_write_string(w, old ? "executionType" : "lifecycleType", "Timed");
    json_write_int(w, "cooldownPeriodInSeconds", pool->cooldown_s);
    if (!old)
        json_write_close(w, '}');
    json_write_close(w, '}');
}

static void encode_mcp(struct json_writer *w, const json_t *details,
                       const char *endpoint)
{
    const json_t *enabled = json_object_get(details, "isMcpServerEnabled");
    struct buf url cleanup(buf_done) = {0};

    buf_addf(&url, "%s/mcp", endpoint);
    json_write_open(w, "mcpServerSettings", '{');
    json_write_bool(w, "isMcpServerEnabled",
                    !enabled || json_is_true(enabled));
    json_write_bool(
        w, "isMcpServerApiKeyDisabled",
        json_is_true(json_object_get(details, "isMcpServerApiKeyDisabled")));
    json_write_string(w, "mcpServerEndpoint", url.data);
    json_write_close(w, '}');
}

static void encode_properties(struct json_writer *w,
                              const struct pool_info *pool,
                              const json_t *details, const char *endpoint,
                              bool old)
{
    json_write_open(w, "properties", '{');
    json_write_string(w, "poolManagementType", "Dynamic");
    json_write_string(w, "containerType", container_name(pool->kind));
    encode_kept(w, details, "customContainerTemplate");
    json_write_open(w, "scaleConfiguration", '{');
    json_write_int(w, "maxConcurrentSessions", pool->max_sessions);
    json_write_close(w, '}');
    encode_lifecycle(w, pool, old);
    json_write_open(w, "sessionNetworkConfiguration", '{');
    json_write_string(w, "status",
                      pool->egress == SESSION_EGRESS_NONE ? "EgressDisabled"
                                                          : "EgressEnabled");
    json_write_close(w, '}');
    encode_kept(w, details, "managedIdentitySettings");
    encode_mcp(w, details, endpoint);
    json_write_string(w, "poolManagementEndpoint", endpoint);
    json_write_string(w, "provisioningState", "Succeeded");
    json_write_close(w, '}');
}

void azure_arm_encode(struct doors_call *call, struct json_writer *w,
                      const struct pool_info *pool, bool old)
{
    json_t *details cleanup(json_unref) = azure_arm_details(pool);
    struct buf id cleanup(buf_done) = {0}, endpoint cleanup(buf_done) = {0};
    const char *group = call->place[AZURE_GROUP];

    if (!group[0])
        group = text_of(details, "group");
    if (!group[0])
        group = "default"; /* of a pool that is in none */
    buf_addf(&id,
             "/subscriptions/%s/resourceGroups/%s/providers/"
             "Microsoft.App/sessionPools/%s",
             call->place[AZURE_SUBSCRIPTION], group, pool->name);
    buf_adds(&endpoint, doors_url_base(call));
    buf_adds(&endpoint, "/subscriptions/");
    doors_url_escape(&endpoint, call->place[AZURE_SUBSCRIPTION], false);
    buf_adds(&endpoint, "/resourceGroups/");
    doors_url_escape(&endpoint, group, false);
    buf_addf(&endpoint, "/sessionPools/%s", pool->name);
    json_write_open(w, NULL, '{');
    json_write_string(w, "id", id.data);
    json_write_string(w, "name", pool->name);
    json_write_string(w, "type", "Microsoft.App/sessionPools");
    json_write_string(w, "location", text_of(details, "location"));
    encode_kept(w, details, "tags");
    encode_kept(w, details, "identity");
    encode_properties(w, pool, details, endpoint.data, old);
    json_write_close(w, '}');
}
