/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to models that have a server: handed to glovebox-model, whose frames
 * become events; repeated while nothing was delivered and the failure is one
 * that passes. Runs in gloveboxd on the caller's thread. Frames come from a
 * process that parses hostile bytes: each is checked here.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/core.h"
#include "model/model_int.h"
#include "vault/vault.h"
#include "json/json.h"

#define ATTEMPTS 3u
#define BACKOFF_MS 500u
#define WAIT_MOST_MS 60000u
#define CONNECT_MS 10000u
#define CANCEL_MS 20  /* between two looks at the flag of the caller */
#define QUIET_MS 200  /* the same where there is none */
#define KEY_MS 10000u /* a key is asked of the vault that often */
#define TOKEN_BYTES 4u
#define DRAIN_MS 5000u /* beyond the deadline, for the process to say so */

/* ---- the key ------------------------------------------------------------ */

/* A model of the configuration has its key in the operators' vault. */
static struct actor key_owner(const struct model_call_state *c)
{
    const struct model_spec *s = &c->entry->spec;

    return (struct actor){.tenant = s->tenant[0] ? s->tenant : "default",
                          .key = c->who && c->who->key ? c->who->key
                                                       : "glovebox"};
}

static int reveal_key(struct model_call_state *c, struct error *err)
{
    struct model_entry *e = c->entry;
    struct actor owner = key_owner(c);
    struct vault_info info;
    char *value cleanup(vault_forget) = NULL;
    char host[256];
    int r = model_spec_host(&e->spec, host, err);

    mutex_assert_held(&e->key_lock);
    if (r == 0)
        r = vault_reveal(c->models->parts.core ? c->models->parts.core->vault
                                               : NULL,
                         &owner, e->spec.key, NULL, &info, &value, err);
    if (r == 0 && !vault_goes_to(&info, host))
        r = error_set(err, ERR_UNAVAILABLE, "its key '%s' must not go to %s",
                      e->spec.key, host);
    if (r < 0) {
        err->code = ERR_UNAVAILABLE;
        (void)error_wrap(err, "model %s", e->spec.name);
        return error_hint(err,
                          "Store the secret again: glovebox secret put "
                          "%s --to HOST",
                          e->spec.key);
    }
    if (e->key_value)
        explicit_bzero(e->key_value, strlen(e->key_value));
    free(e->key_value);
    /* The secret's usual header is OpenAI's; Anthropic has its own. */
    if (e->spec.kind == MODEL_ANTHROPIC &&
        strcasecmp(info.header, "Authorization") == 0) {
        (void)snprintf(e->key_header, sizeof(e->key_header), "x-api-key");
        e->key_value = xstrdup(value);
    } else {
        (void)snprintf(e->key_header, sizeof(e->key_header), "%s",
                       info.header);
        e->key_value = xasprintf("%s%s", info.prefix, value);
    }
    e->key_until_ms = clock_mono_ms() + KEY_MS;
    return 0;
}

static int add_key(struct model_call_state *c, struct model_call_msg *msg,
                   struct error *err)
{
    struct model_entry *e = c->entry;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&e->key_lock);
    int r = 0;

    if (!e->spec.key[0])
        return 0;
    if (!e->key_value || clock_mono_ms() >= e->key_until_ms)
        r = reveal_key(c, err);
    if (r == 0) {
        (void)snprintf(msg->header, sizeof(msg->header), "%s", e->key_header);
        (void)snprintf(msg->secret, sizeof(msg->secret), "%s", e->key_value);
    }
    return r;
}

static void forget_key(struct model_entry *e)
{
    mutex_lock(&e->key_lock);
    e->key_until_ms = 0;
    mutex_unlock(&e->key_lock);
}

/* ---- the request -------------------------------------------------------- */

static void set_if(json_t *object, const char *name, const json_t *value)
{
    if (value)
        (void)json_object_set(object, name, (json_t *)(uintptr_t)value);
}

static char *make_prompt(const struct model_call_state *c)
{
    json_t *p = json_object();
    char *text;

    if (c->texts) {
        json_t *list = json_array();

        for (size_t i = 0; i < c->text_count; i++)
            (void)json_array_append_new(list, json_string(c->texts[i]));
        (void)json_object_set_new(p, "texts", list);
    } else {
        if (c->request->instructions)
            (void)json_object_set_new(p, "instructions",
                                      json_string(c->request->instructions));
        set_if(p, "input", c->request->input);
        set_if(p, "tools", c->request->tools);
        set_if(p, "tool_choice", c->request->tool_choice);
        set_if(p, "options", c->request->options);
    }
    text = json_dumps(p, JSON_COMPACT);
    json_decref(p);
    return text;
}

static enum model_dialect dialect_of(enum model_kind kind)
{
    return kind == MODEL_ANTHROPIC          ? MODEL_DIALECT_ANTHROPIC
           : kind == MODEL_OPENAI_RESPONSES ? MODEL_DIALECT_RESPONSES
                                            : MODEL_DIALECT_CHAT;
}

static int fill_call(struct model_call_state *c, const char *prompt,
                     struct model_call_msg *ret, struct error *err)
{
    const struct model_spec *s = &c->entry->spec;
    uint64_t left = (uint64_t)clock_left_ms(c->deadline_ms);
    size_t len = strlen(prompt);

    if (len > MODEL_PROMPT_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "the prompt is larger than %u MiB",
                         MODEL_PROMPT_MAX >> 20);
    *ret = (struct model_call_msg){
        .dialect = dialect_of(s->kind),
        .embed = c->texts != NULL,
        /* Only operators may point a model at their own network. */
        .public_only = s->tenant[0] && strcmp(s->tenant, "default") != 0,
        .connect_ms = (uint32_t)MIN(MAX(left, 1u), CONNECT_MS),
        .idle_ms = s->idle_s * 1000u,
        .total_ms = (uint32_t)MAX(left, 1u),
        .prompt_len = (uint32_t)len,
        .max_output_tokens = s->max_output_tokens,
    };
    (void)snprintf(ret->url, sizeof(ret->url), "%s", s->url);
    (void)snprintf(ret->model, sizeof(ret->model), "%s", s->model);
    return add_key(c, ret, err);
}

/* ---- frames ------------------------------------------------------------- */

/* Reads so many bytes; 0 at the end of the stream. */
static int read_bytes(struct model_call_state *c, int fd, void *to, size_t len,
                      struct error *err)
{
    const atomic_bool *cancel = c->request ? c->request->cancel : NULL;
    size_t got = 0;

    while (got < len) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n = recv(fd, (char *)to + got, len - got, MSG_DONTWAIT);
        int r;

        if (n > 0) {
            got += (size_t)n;
            continue;
        }
        if (n == 0)
            return 0;
        if (errno != EAGAIN && errno != EINTR)
            return 0;
        r = model_call_check(c, err);
        /* The process knows the deadline and says more of it. */
        if (r == -ERR_TIMEOUT && clock_mono_ms() < c->deadline_ms + DRAIN_MS)
            r = 0;
        if (r < 0) {
            c->cancelled = r == -ERR_CONFLICT;
            return r;
        }
        (void)poll(&p, 1, cancel ? CANCEL_MS : QUIET_MS);
    }
    return 1;
}

static int bad_frame(struct model_call_state *c, struct error *err)
{
    log_event(LOG_ERROR, "model_frame_refused", "model", c->entry->spec.name,
              NULL);
    return error_set(err, ERR_UNAVAILABLE,
                     "model %s: glovebox-model sent something malformed",
                     c->entry->spec.name);
}

static int take_item(struct model_call_state *c, struct model_event *event,
                     const char *text, size_t len, struct error *err)
{
    struct error why;
    json_t *item;
    int r;

    if (json_check(text, len, &json_limits_any, &why) < 0)
        return bad_frame(c, err);
    item = json_loadb(text, len, 0, NULL);
    if (!json_is_object(item) || !json_object_get(item, "type")) {
        json_decref(item);
        return bad_frame(c, err);
    }
    *event = (struct model_event){
        .kind = MODEL_EVENT_ITEM, .item = event->item, .done = item};
    r = model_call_event(c, event, err);
    json_decref(item);
    return r;
}

static int take_vector(struct model_call_state *c, const struct model_frame *f,
                       const char *bytes, struct error *err)
{
    size_t n = f->len / sizeof(float);

    if (!c->texts || n == 0 || f->len % sizeof(float) ||
        n > MODEL_DIMENSIONS_MAX || f->item >= c->text_count ||
        (c->dimensions && n != c->dimensions))
        return bad_frame(c, err);
    if (!c->vectors) {
        c->dimensions = n;
        c->vectors = xcalloc(c->text_count * n, sizeof(float));
    }
    memcpy(c->vectors + f->item * n, bytes, f->len);
    c->vector_count++;
    return 0;
}

/* What is no END. text: f->len bytes and a NUL. */
static int take_frame(struct model_call_state *c, const struct model_frame *f,
                      const char *text, struct error *err)
{
    static const enum model_event_kind kinds[MODEL_FRAME_MAX_TYPE] = {
        [MODEL_FRAME_TEXT] = MODEL_EVENT_TEXT,
        [MODEL_FRAME_REFUSAL] = MODEL_EVENT_REFUSAL,
        [MODEL_FRAME_REASONING] = MODEL_EVENT_REASONING,
        [MODEL_FRAME_CALL] = MODEL_EVENT_CALL,
        [MODEL_FRAME_ARGUMENTS] = MODEL_EVENT_ARGUMENTS,
        [MODEL_FRAME_ITEM] = MODEL_EVENT_ITEM,
    };
    struct model_event event = {
        .kind = kinds[f->type], .item = f->item, .text = text, .len = f->len};
    size_t id;

    if (f->type == MODEL_FRAME_VECTOR)
        return take_vector(c, f, text, err);
    if (c->texts || f->item >= MODEL_ITEMS_MAX)
        return bad_frame(c, err);
    if (f->type == MODEL_FRAME_ITEM)
        return take_item(c, &event, text, f->len, err);
    if (f->type != MODEL_FRAME_CALL)
        return utf8_valid(text, f->len) ? model_call_event(c, &event, err)
                                        : bad_frame(c, err);
    id = strnlen(text, f->len);
    if (id + 1 >= f->len || text[f->len - 1] || !utf8_valid(text, id) ||
        !utf8_valid(text + id + 1, strlen(text + id + 1)))
        return bad_frame(c, err);
    event.call_id = text;
    event.name = text + id + 1;
    event.text = NULL;
    event.len = 0;
    return model_call_event(c, &event, err);
}

/* Up to the END. */
static int read_frames(struct model_call_state *c, int fd,
                       struct model_end *ret, struct error *err)
{
    struct buf payload cleanup(buf_done) = {0};

    for (;;) {
        struct model_frame f;
        int r = read_bytes(c, fd, &f, sizeof(f), err);

        if (r > 0 && (f.type == 0 || f.type >= MODEL_FRAME_MAX_TYPE ||
                      f.len > MODEL_FRAME_MAX ||
                      (f.type == MODEL_FRAME_END && f.len != sizeof(*ret))))
            return bad_frame(c, err);
        if (r > 0) {
            buf_reset(&payload);
            buf_reserve(&payload, f.len + 1u);
            r = f.len ? read_bytes(c, fd, payload.data, f.len, err) : 1;
        }
        if (r == 0) {
            model_link_fell(c->models->parts.link);
            return error_set(err, ERR_UNAVAILABLE,
                             "model %s: the process that calls models ended; "
                             "it is started again by the next call",
                             c->entry->spec.name);
        }
        if (r < 0)
            return r;
        payload.data[f.len] = '\0';
        if (f.type == MODEL_FRAME_END) {
            memcpy(ret, payload.data, sizeof(*ret));
            ret->message[sizeof(ret->message) - 1] = '\0';
            ret->request_id[sizeof(ret->request_id) - 1] = '\0';
            return ret->outcome < MODEL_OUTCOMES ? 0 : bad_frame(c, err);
        }
        r = take_frame(c, &f, payload.data, err);
        if (r < 0) {
            c->cancelled = r == -ERR_CONFLICT;
            return r;
        }
    }
}

/* ---- what came of it ---------------------------------------------------- */

static const struct {
    enum error_code code;
    const char *words;
    bool servers; /* it counts for the breaker */
    bool tell;    /* the caller sees what the server said */
} outcomes[MODEL_OUTCOMES] = {
    [MODEL_OK] = {ERR_NONE, "", true, false},
    [MODEL_UNREACHABLE] = {ERR_UNAVAILABLE, "its server cannot be reached",
                           true, true},
    [MODEL_KEY] = {ERR_UNAVAILABLE, "its server refuses the key", false,
                   false},
    [MODEL_RATE] = {ERR_LIMIT, "its server's rate limit is reached", false,
                    false},
    [MODEL_MONEY] = {ERR_UNAVAILABLE,
                     "the credit or quota at its server is used up", false,
                     false},
    [MODEL_OVERLOADED] = {ERR_UNAVAILABLE, "its server failed", true, true},
    [MODEL_TOO_LARGE] = {ERR_TOO_LARGE, "the prompt does not fit its context",
                         false, true},
    [MODEL_REFUSED] = {ERR_UNAVAILABLE,
                       "its server does not accept the request", false, false},
    [MODEL_NONSENSE] = {ERR_UNAVAILABLE, "its server's answer cannot be used",
                        true, true},
    [MODEL_CUT] = {ERR_UNAVAILABLE, "its server broke off", true, true},
    [MODEL_SLOW] = {ERR_TIMEOUT, "its server is too slow", true, true},
    [MODEL_BUSY] = {ERR_UNAVAILABLE, "too many calls of models are under way",
                    false, true},
};

static int fail_call(const struct model_call_state *c,
                     const struct model_end *end, struct error *err)
{
    const char *words = outcomes[end->outcome].words;
    const char *name = c->entry->spec.name;
    enum error_code code = outcomes[end->outcome].code;

    if (outcomes[end->outcome].tell && end->message[0])
        (void)error_set(err, code, "model %s: %s: %.*s", name, words,
                        (int)utf8_cut(end->message, strlen(end->message), 160),
                        end->message);
    else if (end->status)
        (void)error_set(err, code, "model %s: %s (%u)", name, words,
                        end->status);
    else
        (void)error_set(err, code, "model %s: %s", name, words);
    if (end->outcome == MODEL_RATE)
        (void)error_retry(err, (int)MAX(end->retry_after_ms / 1000, 1u));
    if (end->outcome == MODEL_KEY)
        return error_hint(err, "Check the secret %s of the model.",
                          c->entry->spec.key[0] ? c->entry->spec.key
                                                : "(none is set)");
    return error_hint(err, "Try it: glovebox model test %s", name);
}

/* Without what the server said, which may quote the prompt (O2). */
static void log_failure(const struct model_call_state *c,
                        const struct model_end *end)
{
    char status[16];

    (void)snprintf(status, sizeof(status), "%u", end->status);
    log_event(LOG_WARN, "model_call_failed", "model", c->entry->spec.name,
              "status", status, "why", outcomes[end->outcome].words,
              "server_request", end->request_id[0] ? end->request_id : NULL,
              NULL);
}

/* Some servers repeat the key they refuse. */
static void mask_key(struct model_end *end, const char *secret)
{
    const char *value = strrchr(secret, ' ');

    value = value ? value + 1 : secret;
    if (*value && strstr(end->message, value))
        (void)snprintf(end->message, sizeof(end->message),
                       "(left out, since it shows the key)");
}

/* ---- one attempt, and another ------------------------------------------- */

static int attempt(struct model_call_state *c, const char *prompt,
                   struct model_end *ret, struct error *err)
{
    struct model_call_msg *msg = xcalloc(1, sizeof(*msg));
    int fd cleanup(fd_close) = -1;
    int r = fill_call(c, prompt, msg, err);

    if (r == 0)
        r = model_link_call(c->models->parts.link, msg, prompt, &fd, err);
    if (r == 0)
        r = read_frames(c, fd, ret, err);
    if (r == 0 && ret->outcome != MODEL_OK) {
        mask_key(ret, msg->secret);
        log_failure(c, ret);
    }
    if (r == 0 && ret->outcome == MODEL_KEY)
        forget_key(c->entry);
    if (r == 0 && ret->leaked)
        log_event(LOG_WARN, "model_calls_as_text", "model",
                  c->entry->spec.name, "means",
                  "its server does not parse calls of functions; see "
                  "docs/MODELS.md",
                  NULL);
    explicit_bzero(msg, sizeof(*msg));
    free(msg);
    return r;
}

/* With jitter, so that callers do not come back together. */
static uint64_t pause_before(unsigned attempts, const struct model_end *end)
{
    uint64_t base = (uint64_t)BACKOFF_MS << (attempts - 1);

    if (end->retry_after_ms)
        return end->retry_after_ms;
    return base * 3 / 4 + clock_mono_ns() % (base / 2);
}

static void add_usage(struct model_call_state *c, const struct model_end *end)
{
    struct model_usage *u = &c->result->usage;

    u->input += end->input;
    u->cached += end->cached;
    u->cache_write += end->cache_write;
    u->output += end->output;
    u->reasoning += end->reasoning;
    c->result->finish = end->finish == 1   ? MODEL_FINISH_LENGTH
                        : end->finish == 2 ? MODEL_FINISH_FILTER
                                           : MODEL_FINISH_STOP;
}

/* Some servers never say what a call used, and none does of a call that was
 * cut or cancelled. Budgets then count four bytes of text as a token. */
static void estimate_usage(struct model_call_state *c)
{
    static const char *const fields[] = {"content", "output", "arguments"};
    struct model_usage *u = &c->result->usage;
    struct buf text cleanup(buf_done) = {0};
    const json_t *item;
    size_t i;

    if (u->input || u->output || !c->forwarded || !c->request)
        return;
    if (c->request->instructions)
        buf_adds(&text, c->request->instructions);
    json_array_foreach (c->request->input, i, item)
        for (size_t k = 0; k < ARRAY_SIZE(fields); k++)
            model_item_text(json_object_get(item, fields[k]), &text);
    u->input = text.len / TOKEN_BYTES + 1;
    u->output = c->said / TOKEN_BYTES + 1;
}

int model_remote(struct model_call_state *c, struct error *err)
{
    char *prompt cleanup(mem_free) = make_prompt(c);
    struct model_end end = {0};
    int r;

    if (!prompt)
        return error_set(err, ERR_INVALID, "the prompt cannot be written");
    for (;;) {
        uint64_t pause;

        r = model_breaker_enter(c->entry, err);
        if (r < 0)
            return r;
        c->result->attempts++;
        end = (struct model_end){0};
        r = attempt(c, prompt, &end, err);
        add_usage(c, &end);
        estimate_usage(c);
        model_breaker_leave(c->entry, r == 0 && outcomes[end.outcome].servers,
                            r == 0 && end.outcome == MODEL_OK,
                            r == 0 ? outcomes[end.outcome].words : NULL);
        if (r < 0 || end.outcome == MODEL_OK)
            return r;
        pause = pause_before(c->result->attempts, &end);
        if (c->forwarded || end.retry != MODEL_RETRY_YES ||
            c->result->attempts == ATTEMPTS || pause > WAIT_MOST_MS ||
            clock_mono_ms() + pause >= c->deadline_ms)
            return fail_call(c, &end, err);
        atomic_fetch_add(&c->entry->retries, 1);
        r = model_call_sleep(c, pause, err);
        if (r < 0)
            return r;
    }
}
