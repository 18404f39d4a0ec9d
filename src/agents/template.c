/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates with the syntax of Handlebars, without its helpers and partials
 * and without escaping. The text is walked, not compiled: a block's body is
 * walked once for each time it is shown, and once without output when it is
 * not. Nesting, steps and the size of the result are bounded, since text and
 * values are a client's. Pure.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agents/agents.h"
#include "agents/schema.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "json/json.h"

#define DEPTH_MAX 16u
#define STEPS_MAX 200000u /* tags walked in one expansion */
#define NAME_SHOWN 60

/* What names mean inside a block: the innermost first. */
struct scope {
    const json_t *self; /* "this" */
    const char *key;    /* "@key" of an object, or NULL */
    size_t index, count;
    bool in_each;
    const struct scope *outer; /* NULL: the values themselves */
};

struct walk {
    const char *at, *end;
    struct buf *out;
    size_t limit; /* of out->len */
    unsigned steps;
    struct error *err;
};

enum tag_kind {
    TAG_VALUE,
    TAG_OPEN,  /* {{#word name}} */
    TAG_ELSE,  /* {{else}} or {{^}} */
    TAG_CLOSE, /* {{/word}} */
    TAG_COMMENT,
    TAG_END /* of the text */
};

struct tag {
    enum tag_kind kind;
    char word[16];  /* if, unless, each */
    char name[128]; /* of the value */
};

static int malformed(struct walk *w, const char *what, const char *text,
                     size_t len)
{
    (void)error_set(w->err, ERR_INVALID,
                    "the template is malformed: %s '%.*s'", what,
                    (int)MIN(len, (size_t)NAME_SHOWN), text);
    return error_hint(w->err,
                      "Templates have {{name}}, {{#if x}}, {{#unless x}} and "
                      "{{#each list}}, each closed, with {{else}} between.");
}

static int emit(struct walk *w, const char *text, size_t len, bool show)
{
    if (!show || len == 0)
        return 0;
    if (len > w->limit || w->out->len > w->limit - len)
        return error_set(w->err, ERR_TOO_LARGE,
                         "the expanded template is larger than %u bytes",
                         AGENTS_EXPANDED_MAX);
    buf_add(w->out, text, len);
    return 0;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || strchr("_-.@/", c) != NULL;
}

/* "word name" of an opening tag, or a name alone. */
static int read_inside(struct walk *w, const char *text, size_t len,
                       struct tag *ret)
{
    size_t from = 0, to = len;

    while (from < to && strchr(" \t\r\n", text[from]))
        from++;
    while (to > from && strchr(" \t\r\n", text[to - 1]))
        to--;
    if (to == from || to - from >= sizeof(ret->name))
        return malformed(w, "there is no name in", text, len);
    for (size_t i = from; i < to; i++)
        if (!name_char(text[i]) || text[i] == '\0')
            return malformed(w, "no name has the form", text, len);
    memcpy(ret->name, text + from, to - from);
    ret->name[to - from] = '\0';
    return 0;
}

static int read_open(struct walk *w, const char *text, size_t len,
                     struct tag *ret)
{
    static const char *const words[] = {"if", "unless", "each"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);

        if (len > n && memcmp(text, words[i], n) == 0 &&
            strchr(" \t\r\n", text[n])) {
            ret->kind = TAG_OPEN;
            (void)snprintf(ret->word, sizeof(ret->word), "%s", words[i]);
            return read_inside(w, text + n, len - n, ret);
        }
    }
    return malformed(w, "no block is called", text, len);
}

static int read_close(struct walk *w, const char *text, size_t len,
                      struct tag *ret)
{
    int r = read_inside(w, text, len, ret);

    if (r < 0)
        return r;
    if (strlen(ret->name) >= sizeof(ret->word))
        return malformed(w, "no block is called", text, len);
    memcpy(ret->word, ret->name, strlen(ret->name) + 1);
    ret->kind = TAG_CLOSE;
    return 0;
}

/* Shows the text up to the next tag and reads that. */
static int next_tag(struct walk *w, bool show, struct tag *ret)
{
    const char *open = memmem(w->at, (size_t)(w->end - w->at), "{{", 2);
    const char *close, *inside;
    bool triple;
    size_t len;
    int r;

    *ret = (struct tag){.kind = TAG_END};
    if (!open) {
        r = emit(w, w->at, (size_t)(w->end - w->at), show);
        w->at = w->end;
        return r;
    }
    if (++w->steps > STEPS_MAX)
        return error_set(w->err, ERR_TOO_LARGE,
                         "the template takes more than %u steps", STEPS_MAX);
    r = emit(w, w->at, (size_t)(open - w->at), show);
    if (r < 0)
        return r;
    triple = w->end - open > 2 && open[2] == '{';
    inside = open + (triple ? 3 : 2);
    close = memmem(inside, (size_t)(w->end - inside), triple ? "}}}" : "}}",
                   triple ? 3 : 2);
    if (!close)
        return malformed(w, "a tag is not closed:", open,
                         (size_t)(w->end - open));
    len = (size_t)(close - inside);
    w->at = close + (triple ? 3 : 2);
    if (len == 0)
        return malformed(w, "there is no name in", open, 4);
    if (!triple && inside[0] == '!') {
        ret->kind = TAG_COMMENT;
        return 0;
    }
    if (!triple && inside[0] == '#')
        return read_open(w, inside + 1, len - 1, ret);
    if (!triple && inside[0] == '/')
        return read_close(w, inside + 1, len - 1, ret);
    if (!triple && len == 1 && inside[0] == '^') {
        ret->kind = TAG_ELSE;
        return 0;
    }
    ret->kind = TAG_VALUE;
    r = read_inside(w, inside, len, ret);
    if (r == 0 && !triple && strcmp(ret->name, "else") == 0)
        ret->kind = TAG_ELSE;
    return r;
}

/* ---- values --------------------------------------------------------------
 */

/* "a.b.c" below a value; NULL: there is none. */
static const json_t *follow(const json_t *from, const char *path)
{
    char part[128];

    while (from && *path) {
        size_t len = strcspn(path, ".");

        (void)snprintf(part, sizeof(part), "%.*s", (int)len, path);
        path += len + (path[len] == '.');
        if (json_is_array(from)) {
            char *end;
            unsigned long i = strtoul(part, &end, 10);

            from = *part && !*end ? json_array_get(from, i) : NULL;
        } else {
            from = json_object_get(from, part);
        }
    }
    return from;
}

/* *ret_own: a value made here; the caller's. */
static const json_t *find(const struct scope *s, const char *name,
                          json_t **ret_own)
{
    *ret_own = NULL;
    if (name[0] == '@') {
        while (s && !s->in_each)
            s = s->outer;
        if (!s)
            return NULL;
        if (strcmp(name, "@index") == 0)
            *ret_own = json_integer((json_int_t)s->index);
        else if (strcmp(name, "@first") == 0)
            *ret_own = json_boolean(s->index == 0);
        else if (strcmp(name, "@last") == 0)
            *ret_own = json_boolean(s->index + 1 == s->count);
        else if (strcmp(name, "@key") == 0 && s->key)
            *ret_own = json_string(s->key);
        return *ret_own;
    }
    while (strncmp(name, "../", 3) == 0 && s->outer) {
        s = s->outer;
        name += 3;
    }
    if (strcmp(name, "this") == 0 || strcmp(name, ".") == 0)
        return s->self;
    if (strncmp(name, "this.", 5) == 0)
        return follow(s->self, name + 5);
    /* A name that the element does not have is one of the inputs. */
    for (; s; s = s->outer) {
        const json_t *found = follow(s->self, name);

        if (found)
            return found;
    }
    return NULL;
}

static bool truthy(const json_t *v)
{
    if (!v || json_is_null(v) || json_is_false(v))
        return false;
    if (json_is_string(v))
        return json_string_length(v) > 0;
    if (json_is_number(v))
        return json_number_value(v) != 0;
    return !json_is_array(v) || json_array_size(v) > 0;
}

static int show_value(struct walk *w, const json_t *v, bool show)
{
    char *text cleanup(mem_free) = NULL;
    int r = 0;

    if (!show || !v || json_is_null(v))
        return 0;
    if (json_is_string(v))
        return emit(w, json_string_value(v), json_string_length(v), true);
    if (json_is_array(v)) {
        for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
            const json_t *each = json_array_get(v, i);

            r = emit(w, ",", i ? 1 : 0, true);
            if (r == 0 && json_is_array(each)) {
                free(text);
                text = json_dumps(each, JSON_COMPACT);
                r = emit(w, text ? text : "", text ? strlen(text) : 0, true);
            } else if (r == 0) {
                r = show_value(w, each, true);
            }
        }
        return r;
    }
    text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    return text ? emit(w, text, strlen(text), true) : 0;
}

/* ---- blocks --------------------------------------------------------------
 */

static int walk_body(struct walk *w, const struct scope *s, bool show,
                     unsigned depth, struct tag *ret_stop);

/* Walks one part of a block and says how it ended: TAG_ELSE or TAG_CLOSE. */
static int walk_part(struct walk *w, const struct scope *s, bool show,
                     unsigned depth, const struct tag *block,
                     struct tag *ret_stop)
{
    int r = walk_body(w, s, show, depth, ret_stop);

    if (r < 0)
        return r;
    if (ret_stop->kind == TAG_END ||
        (ret_stop->kind == TAG_CLOSE &&
         strcmp(ret_stop->word, block->word) != 0))
        return malformed(w, "a block is not closed:", block->word,
                         strlen(block->word));
    return 0;
}

/* The rest of a block after its first part. */
static int walk_else(struct walk *w, const struct scope *s, bool show,
                     unsigned depth, const struct tag *block, struct tag *stop)
{
    int r;

    if (stop->kind == TAG_CLOSE)
        return 0;
    r = walk_part(w, s, show, depth, block, stop);
    if (r == 0 && stop->kind == TAG_ELSE)
        return malformed(w, "a block has a second", "else", 4);
    return r;
}

static int walk_each(struct walk *w, const struct scope *s, const json_t *list,
                     bool show, unsigned depth, const struct tag *block)
{
    const char *body = w->at;
    void *iter = json_is_object(list)
                     ? json_object_iter((json_t *)(uintptr_t)list)
                     : NULL;
    size_t count = json_is_array(list)    ? json_array_size(list)
                   : json_is_object(list) ? json_object_size(list)
                                          : 0;
    struct tag stop;
    int r = 0;

    for (size_t i = 0; show && i < count; i++) {
        struct scope inner = {
            .index = i, .count = count, .in_each = true, .outer = s};

        inner.key = iter ? json_object_iter_key(iter) : NULL;
        inner.self =
            iter ? json_object_iter_value(iter) : json_array_get(list, i);
        if (iter)
            iter = json_object_iter_next((json_t *)(uintptr_t)list, iter);
        w->at = body;
        r = walk_part(w, &inner, true, depth, block, &stop);
        if (r < 0)
            return r;
    }
    w->at = body;
    r = walk_part(w, s, false, depth, block, &stop);
    return r < 0 ? r
                 : walk_else(w, s, show && count == 0, depth, block, &stop);
}

static int walk_block(struct walk *w, const struct scope *s,
                      const struct tag *block, bool show, unsigned depth)
{
    json_t *own cleanup(json_unref) = NULL;
    const json_t *v = find(s, block->name, &own);
    struct tag stop;
    bool yes;
    int r;

    if (depth >= DEPTH_MAX)
        return error_set(w->err, ERR_INVALID,
                         "the template is nested more than %u levels deep",
                         DEPTH_MAX);
    if (strcmp(block->word, "each") == 0)
        return walk_each(w, s, v, show, depth + 1, block);
    yes = truthy(v) == (strcmp(block->word, "if") == 0);
    r = walk_part(w, s, show && yes, depth + 1, block, &stop);
    return r < 0 ? r : walk_else(w, s, show && !yes, depth + 1, block, &stop);
}

/* Up to a tag that ends the body, which is returned. */
static int walk_body(struct walk *w, const struct scope *s, bool show,
                     unsigned depth, struct tag *ret_stop)
{
    for (;;) {
        json_t *own cleanup(json_unref) = NULL;
        struct tag tag;
        int r = next_tag(w, show, &tag);

        if (r < 0)
            return r;
        if (tag.kind == TAG_VALUE)
            r = show_value(w, find(s, tag.name, &own), show);
        else if (tag.kind == TAG_OPEN)
            r = walk_block(w, s, &tag, show, depth);
        else if (tag.kind != TAG_COMMENT) {
            *ret_stop = tag;
            return 0;
        }
        if (r < 0)
            return r;
    }
}

int agents_expand(const char *text, const json_t *values, struct buf *ret,
                  struct error *err)
{
    struct walk w = {.at = text,
                     .end = text + strlen(text),
                     .out = ret,
                     .limit = ret->len + AGENTS_EXPANDED_MAX,
                     .err = err};
    struct scope top = {.self = values};
    struct tag stop;
    int r;

    buf_reserve(ret, 1);
    ret->data[ret->len] = '\0';
    if (!values) {
        buf_adds(ret, text);
        return 0;
    }
    r = walk_body(&w, &top, true, 0, &stop);
    if (r < 0)
        return r;
    if (stop.kind == TAG_ELSE)
        return malformed(&w, "there is no block for", "else", 4);
    if (stop.kind == TAG_CLOSE)
        return malformed(&w, "there is no open block for", stop.word,
                         strlen(stop.word));
    return 0;
}

/* ---- inputs --------------------------------------------------------------
 */

static int check_input(const char *name, const json_t *declaration,
                       const json_t *value, struct error *err)
{
    const json_t *schema = json_object_get(declaration, "schema");
    char root[96];

    (void)snprintf(root, sizeof(root), "structured_inputs.%.60s", name);
    if (!json_is_object(schema))
        return 0;
    /* A schema that cannot be checked was refused with the definition. */
    return schema_validate(schema, value, root, NULL, err);
}

int agents_inputs(const json_t *declared, const json_t *given, json_t **ret,
                  char ret_param[96], struct error *err)
{
    json_t *values cleanup(json_unref) = NULL;
    const char *name;
    json_t *each;

    if (json_object_size(declared) == 0 && json_object_size(given) == 0) {
        *ret = NULL;
        return 0;
    }
    values = json_is_object(given) ? json_copy((json_t *)(uintptr_t)given)
                                   : json_object();
    json_object_foreach ((json_t *)(uintptr_t)declared, name, each) {
        json_t *have = json_object_get(values, name);
        json_t *usual = json_object_get(each, "default_value");
        int r = 0;

        (void)snprintf(ret_param, 96, "structured_inputs.%.60s", name);
        if (have && !json_is_null(have)) {
            r = check_input(name, each, have, err);
        } else if (usual && !json_is_null(usual)) {
            (void)json_object_set(values, name, usual);
        } else if (json_is_true(json_object_get(each, "required"))) {
            r = error_set(err, ERR_INVALID,
                          "the structured input '%.60s' is required", name);
        }
        if (r < 0)
            return r;
    }
    ret_param[0] = '\0';
    *ret = take_ptr(values);
    return 0;
}

/* ---- the places of a request ---------------------------------------------
 */

static int expand_string(const json_t *v, const json_t *values, json_t **ret,
                         struct error *err)
{
    struct buf out cleanup(buf_done) = {0};
    int r = agents_expand(json_string_value(v), values, &out, err);

    if (r == 0)
        *ret = json_stringn(out.data, out.len);
    return r;
}

/* The member of that name, if it is a string. */
static int expand_member(json_t *object, const char *name,
                         const json_t *values, struct error *err)
{
    const json_t *v = json_object_get(object, name);
    json_t *expanded = NULL;
    int r = json_is_string(v) ? expand_string(v, values, &expanded, err) : 0;

    if (expanded)
        (void)json_object_set_new(object, name, expanded);
    return r;
}

/* Every string of a list; those that become empty are left out. */
static int expand_ids(json_t *object, const char *name, const json_t *values,
                      struct error *err)
{
    const json_t *list = json_object_get(object, name);
    json_t *ids cleanup(json_unref) = json_array();

    if (!json_is_array(list))
        return 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *v = json_array_get(list, i);
        json_t *expanded = NULL;
        int r =
            json_is_string(v) ? expand_string(v, values, &expanded, err) : 0;

        if (r < 0)
            return r;
        if (!expanded)
            (void)json_array_append(ids, v);
        else if (json_string_length(expanded) > 0)
            (void)json_array_append_new(ids, expanded);
        else
            json_decref(expanded);
    }
    (void)json_object_set(object, name, ids);
    return 0;
}

static int expand_tool(json_t *tool, const json_t *values, struct error *err)
{
    json_t *container = json_object_get(tool, "container");
    json_t *headers = json_object_get(tool, "headers");
    const char *name;
    json_t *each;
    void *next;
    int r = expand_ids(tool, "vector_store_ids", values, err);

    /* Expanding replaces a string, so that it is not looked at again. */
    if (r == 0 && json_is_object(container))
        r = expand_ids(container, "file_ids", values, err);
    else if (r == 0)
        r = expand_member(tool, "container", values, err);
    if (r == 0)
        r = expand_member(tool, "server_label", values, err);
    if (r == 0)
        r = expand_member(tool, "server_url", values, err);
    json_object_foreach_safe (headers, next, name, each) {
        if (r == 0)
            r = expand_member(headers, name, values, err);
    }
    return r;
}

int agents_expand_tools(const json_t *tools, const json_t *values,
                        json_t **ret, struct error *err)
{
    json_t *copy cleanup(json_unref) = json_deep_copy(tools);
    int r = 0;

    for (size_t i = 0; r == 0 && values && i < json_array_size(copy); i++)
        r = expand_tool(json_array_get(copy, i), values, err);
    if (r == 0)
        *ret = take_ptr(copy);
    return r;
}

static int expand_message(json_t *item, const json_t *values,
                          struct error *err)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    json_t *content = json_object_get(item, "content");
    int r = 0;

    if (!role ||
        (strcmp(role, "system") != 0 && strcmp(role, "developer") != 0))
        return 0;
    if (json_is_string(content))
        return expand_member(item, "content", values, err);
    for (size_t i = 0; r == 0 && i < json_array_size(content); i++)
        r = expand_member(json_array_get(content, i), "text", values, err);
    return r;
}

int agents_expand_input(const json_t *input, const json_t *values,
                        json_t **ret, struct error *err)
{
    json_t *copy cleanup(json_unref) = json_deep_copy(input);
    int r = 0;

    for (size_t i = 0; r == 0 && values && i < json_array_size(copy); i++)
        r = expand_message(json_array_get(copy, i), values, err);
    if (r == 0)
        *ret = take_ptr(copy);
    return r;
}
