/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of clients: checked, and completed to the form in which items are
 * stored and sent. Clients leave out ids, types and statuses, send text in
 * place of parts, resend stored items whole or by id alone, and resend code
 * calls without their outputs; all of that ends here. Runs in gloveboxd on the
 * thread of a request.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "chat/chat_int.h"
#include "core/core.h"
#include "store/store.h"

#define ID_SHOWN 80
#define CALL_ID_MAX 64u

int chat_invalid(struct chat_fault *fault, const char *code, const char *param,
                 struct error *err, const char *fmt, ...)
{
    va_list ap;

    *err = (struct error){.code = ERR_INVALID};
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof(err->message), fmt, ap); /* may cut */
    va_end(ap);
    fault->code = code;
    (void)snprintf(fault->param, sizeof(fault->param), "%s",
                   param ? param : ""); /* may cut */
    return -ERR_INVALID;
}

/* ---- one item ----------------------------------------------------------- */

void chat_item_done(struct chat_item *item)
{
    for (size_t i = 0; i < item->file_count; i++)
        free(item->files[i].path);
    free(item->files);
    free(item->result);
    json_decref(item->body);
    *item = (struct chat_item){0};
}

void chat_items_done(struct chat_items *items)
{
    for (size_t i = 0; i < items->count; i++)
        chat_item_done(&items->list[i]);
    free(items->list);
    *items = (struct chat_items){0};
}

struct chat_item *chat_items_add(struct chat_items *items, json_t *body)
{
    if (items->count == items->room) {
        items->room = MAX(items->room * 2, (size_t)8);
        items->list =
            xrealloc(items->list, items->room * sizeof(*items->list));
    }
    items->list[items->count] = (struct chat_item){.body = body};
    return &items->list[items->count++];
}

void chat_item_add_file(struct chat_item *item, const char *file,
                        const char *version, const char *path,
                        const char *change, uint64_t size)
{
    struct chat_item_file *f;

    item->files =
        xrealloc(item->files, (item->file_count + 1) * sizeof(*item->files));
    f = &item->files[item->file_count++];
    *f = (struct chat_item_file){.path = xstrdup(path), .size = size};
    (void)snprintf(f->file, sizeof(f->file), "%s", file);
    (void)snprintf(f->version, sizeof(f->version), "%s", version);
    (void)snprintf(f->change, sizeof(f->change), "%s", change);
}

void chat_items_copy(struct chat_items *to, const struct chat_item *item)
{
    struct chat_item *copy = chat_items_add(to, json_incref(item->body));

    copy->number = item->number;
    copy->kept = item->kept;
    copy->created_at_ms = item->created_at_ms;
    copy->result = xstrdup(item->result);
    memcpy(copy->execution, item->execution, sizeof(copy->execution));
    memcpy(copy->session, item->session, sizeof(copy->session));
    for (size_t i = 0; i < item->file_count; i++) {
        const struct chat_item_file *f = &item->files[i];

        chat_item_add_file(copy, f->file, f->version, f->path, f->change,
                           f->size);
    }
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

const char *chat_item_id(const struct chat_item *item)
{
    return text_of(item->body, "id");
}

const char *chat_item_type(const struct chat_item *item)
{
    return text_of(item->body, "type");
}

const char *chat_item_role(const struct chat_item *item)
{
    return text_of(item->body, "role");
}

const char *chat_item_status(const struct chat_item *item)
{
    return text_of(item->body, "status");
}

bool chat_item_is(const struct chat_item *item, const char *type)
{
    return strcmp(chat_item_type(item), type) == 0;
}

void chat_item_make_id(json_t *body, const char *prefix)
{
    char id[ID_MAX];

    ids_make(prefix, id);
    (void)json_object_set_new(body, "id", json_string(id));
}

json_t *chat_item_output_text(const char *text, size_t len,
                              json_t *annotations)
{
    return chat_pack("{s:s, s:o, s:o, s:[]}", "type", "output_text", "text",
                     chat_text(text, len), "annotations",
                     annotations ? annotations : json_array(), "logprobs");
}

json_t *chat_item_message(const char *id, const char *status, json_t *content)
{
    return chat_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message",
                     "status", status, "role", "assistant", "content",
                     content);
}

json_t *chat_item_show(const struct chat_item *item, bool outputs)
{
    json_t *copy;

    if (outputs || !chat_item_is(item, "code_interpreter_call"))
        return json_incref(item->body);
    copy = json_copy(item->body);
    (void)json_object_set_new(copy, "outputs", json_null());
    return copy;
}

/* ---- checking ----------------------------------------------------------- */

/* One item of a client on its way. */
struct check {
    struct chat *chat;
    const struct actor *who;
    struct store_tx *tx; /* reads */
    struct chat_fault *fault;
    struct error *err;
    char path[128]; /* "input[3]" */
    json_t *body;   /* a copy, to be completed; owned */
};

static int refuse(struct check *c, const char *code, const char *member,
                  const char *fmt, ...)
{
    char param[96], text[256];
    va_list ap;

    (void)snprintf(param, sizeof(param), "%.70s%s%.20s", c->path,
                   *member ? "." : "", member);
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* may cut */
    va_end(ap);
    return chat_invalid(c->fault, code, param, c->err, "%s", text);
}

static int missing(struct check *c, const char *member)
{
    return refuse(c, "missing_required_parameter", member,
                  "Missing required parameter: '%s.%s'.", c->path, member);
}

static int wrong_type(struct check *c, const char *member, const char *wanted)
{
    return refuse(c, "invalid_type", member,
                  "Invalid type for '%s.%s': expected %s.", c->path, member,
                  wanted);
}

/* A string member; a required one is neither absent nor null. */
static int check_text(struct check *c, const char *member, bool required,
                      size_t min, size_t max)
{
    const json_t *v = json_object_get(c->body, member);
    size_t len = json_string_length(v);

    if (!v || json_is_null(v))
        return required ? missing(c, member) : 0;
    if (!json_is_string(v))
        return wrong_type(c, member, "a string");
    if (len > max)
        return refuse(c, "string_above_max_length", member,
                      "Invalid '%s.%s': string too long. Expected a string "
                      "with maximum length %zu, but got a string with length "
                      "%zu instead.",
                      c->path, member, max, len);
    if (len < min)
        return refuse(c, "invalid_value", member,
                      "Invalid '%s.%s': expected a string of at least %zu "
                      "characters.",
                      c->path, member, min);
    return 0;
}

static int one_of(struct check *c, const char *member,
                  const char *const *choices)
{
    const char *text = text_of(c->body, member);

    for (size_t i = 0; choices[i]; i++)
        if (strcmp(text, choices[i]) == 0)
            return 0;
    return refuse(c, "invalid_value", member, "Invalid value: '%.64s'.", text);
}

/* ---- parts of a content --------------------------------------------------
 */

static int check_uri(struct check *c, const char *member, const char *uri,
                     bool bare)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    char type[96];
    size_t len;
    struct error ignored;

    if (strncmp(uri, "data:", 5) != 0 && !bare)
        return refuse(c, "unsupported_value", member,
                      "Unsupported value for '%s.%s': this service fetches no "
                      "URLs. Send the bytes as a data: URI, or upload the "
                      "file and name its file_id.",
                      c->path, member);
    if (chat_container_decode(uri, &bytes, &len, type, &ignored) < 0)
        return refuse(c, "invalid_value", member,
                      "Invalid value for '%s.%s': expected base64, as a data: "
                      "URI.",
                      c->path, member);
    return 0;
}

static int check_file_id(struct check *c)
{
    const char *id = text_of(c->body, "file_id");
    char file[ID_MAX];

    if (!c->chat->parts.names->file(id, file))
        return refuse(c, NULL, "file_id", "No such File object: %.*s",
                      ID_SHOWN, id);
    return 0;
}

static int check_image(struct check *c)
{
    const json_t *url = json_object_get(c->body, "image_url");
    int r = check_text(c, "file_id", false, 1, 128);

    if (r < 0)
        return r;
    if (json_is_string(json_object_get(c->body, "file_id")))
        return check_file_id(c);
    if (!json_is_string(url))
        return missing(c, "image_url");
    return check_uri(c, "image_url", json_string_value(url), false);
}

static int check_file(struct check *c)
{
    const json_t *data = json_object_get(c->body, "file_data");
    int r = check_text(c, "filename", false, 0, 1024);

    if (r == 0)
        r = check_text(c, "file_id", false, 1, 128);
    if (r < 0)
        return r;
    if (json_is_string(json_object_get(c->body, "file_id")))
        return check_file_id(c);
    if (json_is_string(data))
        return check_uri(c, "file_data", json_string_value(data), true);
    if (json_is_string(json_object_get(c->body, "file_url")))
        return check_uri(c, "file_url", text_of(c->body, "file_url"), false);
    return missing(c, "file_id");
}

/* c->body is the part. */
static int check_part(struct check *c, bool assistant)
{
    const char *type = text_of(c->body, "type");

    if (!json_is_object(c->body))
        return refuse(c, "invalid_type", "",
                      "Invalid type for '%s': expected an object.", c->path);
    if (!*type)
        return missing(c, "type");
    if (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0 ||
        strcmp(type, "text") == 0) {
        int r = check_text(c, "text", true, 0, CHAT_STRING_CHARS);

        if (r == 0 && assistant)
            (void)json_object_set_new(c->body, "type",
                                      json_string("output_text"));
        else if (r == 0)
            (void)json_object_set_new(c->body, "type",
                                      json_string("input_text"));
        if (r == 0 && assistant &&
            !json_is_array(json_object_get(c->body, "annotations")))
            (void)json_object_set_new(c->body, "annotations", json_array());
        if (r == 0 && assistant &&
            !json_is_array(json_object_get(c->body, "logprobs")))
            (void)json_object_set_new(c->body, "logprobs", json_array());
        return r;
    }
    if (strcmp(type, "refusal") == 0 && assistant)
        return check_text(c, "refusal", true, 0, CHAT_STRING_CHARS);
    if (strcmp(type, "input_image") == 0 && !assistant)
        return check_image(c);
    if (strcmp(type, "input_file") == 0 && !assistant)
        return check_file(c);
    return refuse(c, "invalid_value", "type",
                  "Invalid value: '%.64s'. Supported values are: %s.", type,
                  assistant ? "'output_text' and 'refusal'"
                            : "'input_text', 'input_image' and 'input_file'");
}

/* The member as a list of parts; text becomes one part. */
static int check_content(struct check *c, const char *member, bool assistant)
{
    json_t *content = json_object_get(c->body, member), *parts;
    json_t *part;
    size_t i;

    if (!content || json_is_null(content))
        return missing(c, member);
    if (json_is_string(content)) {
        int r = check_text(c, member, true, 0, CHAT_STRING_CHARS);

        if (r < 0)
            return r;
        parts = assistant
                    ? json_pack("[o]", chat_item_output_text(
                                           json_string_value(content),
                                           json_string_length(content), NULL))
                    : json_pack("[{s:s, s:O}]", "type", "input_text", "text",
                                content);
        (void)json_object_set_new(c->body, member, parts);
        return 0;
    }
    if (!json_is_array(content))
        return wrong_type(c, member, "a string or an array");
    if (json_array_size(content) > CHAT_ITEMS_MAX)
        return refuse(c, "array_above_max_length", member,
                      "Invalid '%s.%s': array too long. Expected at most %u "
                      "elements.",
                      c->path, member, CHAT_ITEMS_MAX);
    json_array_foreach (content, i, part) {
        struct check inner = *c;
        int r;

        (void)snprintf(inner.path, sizeof(inner.path), "%.50s.%.10s[%zu]",
                       c->path, member, i);
        inner.body = part;
        r = check_part(&inner, assistant);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- kinds of items ----------------------------------------------------- */

static int check_message(struct check *c)
{
    static const char *const roles[] = {"user", "assistant", "system",
                                        "developer", NULL};
    int r = check_text(c, "role", true, 1, 32);

    if (r == 0)
        r = one_of(c, "role", roles);
    if (r == 0)
        r = check_content(c, "content",
                          strcmp(text_of(c->body, "role"), "assistant") == 0);
    return r;
}

static int check_call(struct check *c)
{
    int r = check_text(c, "call_id", true, 1, CALL_ID_MAX);

    if (r == 0)
        r = check_text(c, "name", true, 1, 128);
    if (r == 0)
        r = check_text(c, "arguments", true, 0, CHAT_STRING_CHARS);
    return r;
}

static int check_call_output(struct check *c)
{
    const json_t *output = json_object_get(c->body, "output");
    int r = check_text(c, "call_id", true, 1, CALL_ID_MAX);

    if (r < 0)
        return r;
    if (json_is_array(output))
        return check_content(c, "output", false);
    return check_text(c, "output", true, 0, CHAT_STRING_CHARS);
}

static int check_code(struct check *c)
{
    int r = check_text(c, "code", false, 0, CHAT_STRING_CHARS);

    if (r == 0)
        r = check_text(c, "container_id", false, 0, 64);
    if (r == 0 && !json_object_get(c->body, "container_id"))
        (void)json_object_set_new(c->body, "container_id", json_string(""));
    if (r == 0 && !json_object_get(c->body, "code"))
        (void)json_object_set_new(c->body, "code", json_null());
    if (r == 0 && !json_is_array(json_object_get(c->body, "outputs")))
        (void)json_object_set_new(c->body, "outputs", json_array());
    return r;
}

static int check_compaction(struct check *c)
{
    return check_text(c, "encrypted_content", true, 1, 2 * CHAT_STRING_CHARS);
}

static int check_box(struct check *c)
{
    int r = check_text(c, "name", true, 1, 128);

    if (r == 0)
        r = check_text(c, "arguments", true, 0, CHAT_STRING_CHARS);
    if (r == 0)
        r = check_text(c, "output", false, 0, CHAT_STRING_CHARS);
    return r;
}

static int check_reasoning(struct check *c)
{
    if (!json_is_array(json_object_get(c->body, "summary")))
        (void)json_object_set_new(c->body, "summary", json_array());
    return 0;
}

static int check_any(struct check *c)
{
    (void)c;
    return 0;
}

static const struct kind {
    const char *type, *prefix;
    int (*check)(struct check *c);
    bool status;    /* has one */
    bool kept_only; /* stored, but no model gets it */
} kinds[] = {
    {"message", "msg", check_message, true, false},
    {"function_call", "fc", check_call, true, false},
    {"function_call_output", "fco", check_call_output, true, false},
    {"code_interpreter_call", "ci", check_code, true, false},
    {"reasoning", "rs", check_reasoning, false, false},
    {"custom_tool_call", "ctc", check_any, true, true},
    {"custom_tool_call_output", "ctco", check_any, false, true},
    {"compaction", "cmp", check_compaction, false, true},
    {"compaction_trigger", "cmpt", check_any, false, true},
    {"shell_call", "sh", check_any, true, true},
    {"shell_call_output", "sho", check_any, true, true},
    {"local_shell_call", "lsh", check_any, true, true},
    {"local_shell_call_output", "lsho", check_any, true, true},
    {"apply_patch_call", "apc", check_any, true, true},
    {"apply_patch_call_output", "apco", check_any, true, true},
    {"mcp_list_tools", "mcpl", check_any, false, true},
    {"mcp_call", "mcp", check_box, true, false},
    {"mcp_approval_request", "mcpr", check_any, false, true},
    {"mcp_approval_response", "mcpa", check_any, false, true},
    {"file_search_call", "fs", check_any, true, true},
    {"web_search_call", "ws", check_any, true, true},
    {"image_generation_call", "ig", check_any, true, true},
    {"computer_call", "cu", check_any, true, true},
    {"computer_call_output", "cuo", check_any, true, true},
    {"tool_search_call", "ts", check_any, true, true},
    {"tool_search_output", "tso", check_any, true, true},
    {"additional_tools", "at", check_any, false, true},
    {"program", "prg", check_any, true, true},
    {"program_output", "prgo", check_any, true, true},
    {"configuration_update", "cfg", check_any, false, true},
};

static const struct kind *find_kind(const char *type)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].type, type) == 0)
            return &kinds[i];
    return NULL;
}

/* What an item is when it does not say so. */
static const char *implied_type(const json_t *body)
{
    const char *type = text_of(body, "type");

    if (*type)
        return type;
    if (json_object_get(body, "role"))
        return "message";
    return json_object_get(body, "id") ? "item_reference" : "";
}

/* ---- stored ones -------------------------------------------------------- */

static int refuse_reference(struct check *c, const char *id)
{
    (void)chat_invalid(c->fault, NULL, "input", c->err,
                       "Item with id '%.*s' not found. Items are not "
                       "persisted when `store` is set to false. Try again "
                       "with `store` set to true, or remove this item from "
                       "your input.",
                       ID_SHOWN, id);
    c->err->code = ERR_NOT_FOUND;
    return -ERR_NOT_FOUND;
}

static int add_reference(struct check *c, struct chat_items *ret)
{
    struct chat_item item = {0};
    const char *id = text_of(c->body, "id");
    int r;

    if (!*id)
        return missing(c, "id");
    r = chat_items_lookup(c->tx, c->who, id, &item, c->err);
    if (r == 0)
        return refuse_reference(c, id);
    if (r > 0) {
        *chat_items_add(ret, NULL) = item;
        r = 0;
    }
    return r;
}

/* Is what the client resends the stored item? A code call is, whatever became
 * of its outputs on the way. */
static bool is_same(const struct chat_item *stored, const json_t *body)
{
    static const char *const members[] = {"role",      "content", "call_id",
                                          "arguments", "output",  "name",
                                          "summary"};

    if (strcmp(chat_item_type(stored), text_of(body, "type")) != 0)
        return false;
    if (chat_item_is(stored, "code_interpreter_call"))
        return json_equal(json_object_get(stored->body, "code"),
                          json_object_get(body, "code"));
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        const json_t *a = json_object_get(stored->body, members[i]);
        const json_t *b = json_object_get(body, members[i]);

        if (a != b && !(a && b && json_equal(a, b)))
            return false;
    }
    return true;
}

/* The same id again in one input: an exact copy is dropped. 1: it was. */
static int drop_twice(struct check *c, const struct chat_items *items,
                      const char *id)
{
    for (size_t i = 0; i < items->count; i++) {
        if (strcmp(chat_item_id(&items->list[i]), id) != 0)
            continue;
        if (is_same(&items->list[i], c->body))
            return 1;
        return chat_invalid(c->fault, NULL, "input", c->err,
                            "Duplicate item found with id %.*s. Remove "
                            "duplicate items from your input and try again.",
                            ID_SHOWN, id);
    }
    return 0;
}

static int add_checked(struct check *c, const struct kind *kind,
                       struct chat_items *ret)
{
    struct chat_item stored = {0};
    const char *id = text_of(c->body, "id");
    int r = *id ? drop_twice(c, ret, id) : 0;

    if (r != 0)
        return MIN(r, 0);
    r = *id ? chat_items_lookup(c->tx, c->who, id, &stored, c->err) : 0;
    if (r < 0)
        return r;
    if (r > 0 && is_same(&stored, c->body)) {
        *chat_items_add(ret, NULL) = stored;
        return 0;
    }
    if (r > 0) { /* the client changed it: another item */
        chat_item_done(&stored);
        id = "";
    }
    if (!*id)
        chat_item_make_id(c->body, kind->prefix);
    (void)json_object_set_new(c->body, "type", json_string(kind->type));
    if (kind->status && !*text_of(c->body, "status"))
        (void)json_object_set_new(c->body, "status", json_string("completed"));
    (void)chat_items_add(ret, json_incref(c->body));
    return 0;
}

static int add_item(struct check *c, const json_t *item, bool last,
                    struct chat_items *ret)
{
    const char *type;
    const struct kind *kind;
    int r;

    if (!json_is_object(item))
        return refuse(c, "invalid_type", "",
                      "Invalid type for '%s': expected an object.", c->path);
    type = implied_type(item);
    if (!*type)
        return missing(c, "type");
    c->body = json_deep_copy(item);
    if (strcmp(type, "item_reference") == 0)
        return add_reference(c, ret);
    /* Ours, which say what made the item; a client cannot say it. */
    (void)json_object_del(c->body, "agent_reference");
    (void)json_object_del(c->body, "response_id");
    (void)json_object_del(c->body, "created_by");
    kind = find_kind(type);
    if (!kind)
        return refuse(c, "invalid_value", "type", "Invalid value: '%.64s'.",
                      type);
    if (kind->kept_only && last)
        return refuse(c, "unsupported_value", "type",
                      "Unsupported value: '%.64s'. This service does not "
                      "answer items of this type.",
                      type);
    r = check_text(c, "id", false, 1, CHAT_ITEM_ID - 1);
    if (r == 0)
        r = kind->check(c);
    return r < 0 ? r : add_checked(c, kind, ret);
}

/* ---- all of them -------------------------------------------------------- */

static void add_user_text(const json_t *text, struct chat_items *ret)
{
    json_t *body = chat_pack("{s:s, s:s, s:s, s:[{s:s, s:O}]}", "type",
                             "message", "status", "completed", "role", "user",
                             "content", "type", "input_text", "text", text);

    chat_item_make_id(body, "msg");
    (void)chat_items_add(ret, body);
}

static int add_array(struct check *c, const json_t *input, const char *param,
                     struct chat_items *ret)
{
    json_t *item;
    size_t i;
    int r = 0;

    json_array_foreach (input, i, item) {
        (void)snprintf(c->path, sizeof(c->path), "%.40s[%zu]", param, i);
        r = add_item(c, item, i + 1 == json_array_size(input), ret);
        json_decref(take_ptr(c->body));
        if (r < 0)
            break;
    }
    return r;
}

int chat_items_read(struct chat *c, const struct actor *who,
                    const json_t *input, const char *param, size_t max,
                    struct chat_items *ret, struct chat_fault *fault,
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct check check = {.chat = c, .who = who, .fault = fault, .err = err};
    int r;

    (void)snprintf(check.path, sizeof(check.path), "%.40s", param);
    if (json_is_string(input)) {
        if (json_string_length(input) > CHAT_STRING_CHARS)
            return chat_invalid(
                fault, "string_above_max_length", param, err,
                "Invalid '%s': string too long. Expected a string with "
                "maximum length %zu, but got a string with length %zu "
                "instead.",
                param, CHAT_STRING_CHARS, json_string_length(input));
        add_user_text(input, ret);
        return 0;
    }
    if (!json_is_array(input))
        return chat_invalid(fault, "invalid_type", param, err,
                            "Invalid type for '%s': expected a string or an "
                            "array.",
                            param);
    if (json_array_size(input) > max)
        return chat_invalid(
            fault, "array_above_max_length", param, err,
            "Invalid '%s': array too long. Expected an array with maximum "
            "length %zu, but got an array with length %zu instead.",
            param, max, json_array_size(input));
    r = store_begin(c->parts.core->store, STORE_READ, "finding items", &tx,
                    err);
    if (r < 0)
        return r;
    check.tx = tx;
    return add_array(&check, input, param, ret);
}
