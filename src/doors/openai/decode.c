/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies and queries to what the handlers need. Runs in the daemon; pure, so
 * that it can be fuzzed without one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

#define GIB ((uint64_t)1 << 30)

/* ---- queries ------------------------------------------------------------ */

/* A whole number, as far as one fits. */
static bool parse_int(const char *text, int64_t *ret)
{
    const char *digits = text + (text[0] == '-');
    char *end;

    if (digits[0] < '0' || digits[0] > '9')
        return false;
    *ret = strtoll(text, &end, 10);
    return *end == '\0';
}

int openai_decode_page(const char *limit, const char *order, const char *after,
                       unsigned max, unsigned fallback,
                       struct openai_page *ret, struct openai_fault *fault,
                       struct error *err)
{
    int64_t n = fallback;

    if (limit && !parse_int(limit, &n))
        return openai_invalid(fault, "invalid_type", "limit", err,
                              "Invalid type for 'limit': expected an "
                              "integer.");
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return openai_invalid(fault, "invalid_value", "order", err,
                              "Invalid value: '%.64s'. Supported values are: "
                              "'asc', 'desc'.",
                              order);
    *ret = (struct openai_page){
        .limit = (unsigned)MIN(MAX(n, 1), (int64_t)max),
        .oldest_first = order && order[0] == 'a',
        .after = after && after[0] ? after : NULL,
    };
    return 0;
}

/* ---- purposes and expiry ------------------------------------------------ */

static const char *const purposes[] = {
    "assistants", "batch", "fine-tune", "vision", "user_data", "evals", NULL,
};

int openai_decode_purpose(const char *purpose, struct openai_fault *fault,
                          struct error *err)
{
    for (size_t i = 0; purposes[i]; i++)
        if (strcmp(purpose, purposes[i]) == 0)
            return 0;
    return openai_invalid(fault, "invalid_value", "purpose", err,
                          "Invalid value: '%.64s'. Supported values are: "
                          "'assistants', 'batch', 'fine-tune', 'vision', "
                          "'user_data', 'evals'.",
                          purpose);
}

/* Files uploaded for a batch expire by themselves. */
static uint32_t usual_expiry(const char *purpose)
{
    return strcmp(purpose, "batch") == 0 ? OPENAI_EXPIRY_MAX_S : 0;
}

int openai_decode_expiry(const char *anchor, const char *seconds,
                         const char *purpose, uint32_t *ret,
                         struct openai_fault *fault, struct error *err)
{
    static const char at[] = "expires_after.anchor";
    static const char after[] = "expires_after.seconds";
    int64_t n = 0;

    if (!anchor && !seconds) {
        *ret = usual_expiry(purpose);
        return 0;
    }
    if (!anchor || !seconds)
        return openai_invalid(
            fault, "missing_required_parameter", anchor ? after : at, err,
            "Missing required parameter: '%s'.", anchor ? after : at);
    if (strcmp(anchor, "created_at") != 0)
        return openai_invalid(fault, "invalid_value", at, err,
                              "Invalid value: '%.64s'. Supported values are: "
                              "'created_at'.",
                              anchor);
    if (!parse_int(seconds, &n))
        return openai_invalid(fault, "invalid_type", after, err,
                              "Invalid type for '%s': expected an integer.",
                              after);
    if (n < OPENAI_EXPIRY_MIN_S || n > OPENAI_EXPIRY_MAX_S)
        return openai_invalid(fault, "invalid_value", after, err,
                              "Invalid value for '%s': expected an integer "
                              "from %d to %d, but got %lld.",
                              after, OPENAI_EXPIRY_MIN_S, OPENAI_EXPIRY_MAX_S,
                              (long long)n);
    *ret = (uint32_t)n;
    return 0;
}

struct expiry {
    int anchor;
    int64_t amount;
};

#define EXPIRY(field) offsetof(struct expiry, field)

/* ---- containers --------------------------------------------------------- */

static const char *const idle_anchors[] = {"last_active_at", NULL};
static const struct json_field idle_fields[] = {
    {"anchor", JSON_KIND_CHOICE, .required = true, .offset = EXPIRY(anchor),
     .choices = idle_anchors},
    {"minutes", JSON_KIND_INT, .required = true, .offset = EXPIRY(amount),
     .min = 1, .max = OPENAI_MINUTES_MAX},
};

static const char *const memory_names[] = {"1g", "4g", "16g", "64g", NULL};
static const uint64_t memory_sizes[] = {GIB, 4 * GIB, 16 * GIB, 64 * GIB};

struct container_body {
    const char *name;
    const json_t *file_ids, *expires_after, *network_policy, *skills;
    int memory;
};

#define BODY(field) offsetof(struct container_body, field)

static const struct json_field container_fields[] = {
    {"name", JSON_KIND_STRING, .required = true, .offset = BODY(name),
     .min = 1, .max = 128},
    {"file_ids", JSON_KIND_ARRAY, .offset = BODY(file_ids),
     .max = OPENAI_FILES_MAX},
    {"expires_after", JSON_KIND_OBJECT, .offset = BODY(expires_after)},
    {"memory_limit", JSON_KIND_CHOICE, .offset = BODY(memory),
     .choices = memory_names},
    {"network_policy", JSON_KIND_OBJECT, .offset = BODY(network_policy)},
    {"skills", JSON_KIND_ARRAY, .offset = BODY(skills), .max = INT64_MAX},
};

int openai_decode_container(const json_t *body, struct openai_container *ret,
                            struct openai_fault *fault, struct error *err)
{
    struct container_body b = {.memory = -1};
    struct expiry idle = {.amount = OPENAI_MINUTES};
    struct openai_network network = {0};
    int r = openai_read(body, NULL, container_fields,
                        ARRAY_SIZE(container_fields), &b, fault, err);

    if (r == 0 && b.file_ids)
        r = openai_read_strings(b.file_ids, "file_ids", OPENAI_FILES_MAX,
                                fault, err);
    if (r == 0 && b.expires_after)
        r = openai_read(b.expires_after, "expires_after", idle_fields,
                        ARRAY_SIZE(idle_fields), &idle, fault, err);
    if (r == 0 && b.network_policy)
        r = openai_network_decode(b.network_policy, &network, fault, err);
    if (r == 0 && json_array_size(b.skills) > 0)
        r = openai_invalid(fault, "invalid_value", "skills", err,
                           "Invalid value for 'skills': this service keeps no "
                           "skills; upload their files instead.");
    if (r < 0)
        return r;
    *ret = (struct openai_container){
        .name = b.name,
        .file_ids = b.file_ids,
        .minutes = (uint32_t)idle.amount,
        .memory_bytes = b.memory < 0 ? 0 : memory_sizes[b.memory],
        .network = network,
    };
    return 0;
}

struct attach_body {
    const char *file_id;
};

static const struct json_field attach_fields[] = {
    {"file_id", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct attach_body, file_id), .min = 1,
     .max = ID_MAX - 1},
};

int openai_decode_attach(const json_t *body, const char **ret,
                         struct openai_fault *fault, struct error *err)
{
    struct attach_body b = {0};
    int r = openai_read(body, NULL, attach_fields, ARRAY_SIZE(attach_fields),
                        &b, fault, err);

    if (r == 0)
        *ret = b.file_id;
    return r;
}

/* ---- uploads ------------------------------------------------------------ */

static const char *const file_anchors[] = {"created_at", NULL};
static const struct json_field file_expiry_fields[] = {
    {"anchor", JSON_KIND_CHOICE, .required = true, .offset = EXPIRY(anchor),
     .choices = file_anchors},
    {"seconds", JSON_KIND_INT, .required = true, .offset = EXPIRY(amount),
     .min = OPENAI_EXPIRY_MIN_S, .max = OPENAI_EXPIRY_MAX_S},
};

struct upload_body {
    int64_t bytes;
    const char *filename, *mime_type;
    int purpose;
    const json_t *expires_after;
};

#define UPLOAD(field) offsetof(struct upload_body, field)

static const struct json_field upload_fields[] = {
    {"bytes", JSON_KIND_INT, .required = true, .offset = UPLOAD(bytes),
     .min = 0, .max = OPENAI_UPLOAD_BYTES},
    {"filename", JSON_KIND_STRING, .required = true,
     .offset = UPLOAD(filename), .min = 1, .max = 1024},
    {"mime_type", JSON_KIND_STRING, .required = true,
     .offset = UPLOAD(mime_type), .max = 255},
    {"purpose", JSON_KIND_CHOICE, .required = true, .offset = UPLOAD(purpose),
     .choices = purposes},
    {"expires_after", JSON_KIND_OBJECT, .offset = UPLOAD(expires_after)},
};

int openai_decode_upload(const json_t *body, struct openai_upload *ret,
                         struct openai_fault *fault, struct error *err)
{
    struct upload_body b = {0};
    struct expiry expiry = {0};
    int r = openai_read(body, NULL, upload_fields, ARRAY_SIZE(upload_fields),
                        &b, fault, err);

    if (r == 0 && b.expires_after)
        r = openai_read(b.expires_after, "expires_after", file_expiry_fields,
                        ARRAY_SIZE(file_expiry_fields), &expiry, fault, err);
    if (r < 0)
        return r;
    *ret = (struct openai_upload){
        .bytes = (uint64_t)b.bytes,
        .filename = b.filename,
        .mime = b.mime_type,
        .purpose = purposes[b.purpose],
        .expires_s = b.expires_after ? (uint32_t)expiry.amount
                                     : usual_expiry(purposes[b.purpose]),
    };
    return 0;
}

static const struct json_field complete_fields[] = {
    {"part_ids", JSON_KIND_ARRAY, .required = true,
     .offset = offsetof(struct openai_complete, part_ids),
     .max = LIBRARY_PARTS_MAX},
    {"md5", JSON_KIND_STRING, .offset = offsetof(struct openai_complete, md5),
     .min = 32, .max = 32},
};

int openai_decode_complete(const json_t *body, struct openai_complete *ret,
                           struct openai_fault *fault, struct error *err)
{
    struct openai_complete b = {0};
    int r = openai_read(body, NULL, complete_fields,
                        ARRAY_SIZE(complete_fields), &b, fault, err);

    if (r == 0)
        r = openai_read_strings(b.part_ids, "part_ids", LIBRARY_PARTS_MAX,
                                fault, err);
    if (r == 0 && b.md5 && strspn(b.md5, "0123456789abcdefABCDEF") != 32)
        r = openai_invalid(fault, "invalid_value", "md5", err,
                           "Invalid value for 'md5': expected 32 hex digits.");
    if (r == 0)
        *ret = b;
    return r;
}
