/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a response's events, numbered from 0 without gaps. The thread of
 * the response adds; any number of streams read at their own pace and are
 * woken. Lines are never changed or removed while the response is referenced,
 * so readers copy nothing. All lines of a response are in one arena: freed one
 * by one, they would leave the heap full of holes between the lines of other
 * responses. Runs in gloveboxd on any thread.
 */
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "chat/chat_int.h"

/* ---- adding ------------------------------------------------------------- */

static char *dump(struct arena *log, json_t *event, const char *type,
                  int64_t number, size_t *ret_len)
{
    char *text cleanup(mem_free) = NULL;

    if (!event)
        return NULL;
    (void)json_object_set_new(event, "type", json_string(type));
    (void)json_object_set_new(event, "sequence_number", json_integer(number));
    text = json_dumps(event, JSON_COMPACT);
    json_decref(event);
    if (!text)
        abort(); /* out of memory, as the x* wrappers do */
    *ret_len = strlen(text);
    return arena_strndup(log, text, *ret_len);
}

/* Takes those out that are due; each is called without the lock. */
static void fire(struct chat_response *r)
{
    mutex_assert_held(&r->lock);
    for (struct chat_watch *w = r->watches; w;) {
        if (w->firing ||
            (!r->over && w->after + 1 >= (int64_t)r->line_count)) {
            w = w->next;
            continue;
        }
        w->firing = true;
        mutex_unlock(&r->lock);
        w->fn(w->ctx);
        mutex_lock(&r->lock);
        for (struct chat_watch **at = &r->watches; *at; at = &(*at)->next)
            if (*at == w) {
                *at = w->next;
                break;
            }
        free(w);
        cond_broadcast(&r->ended);
        w = r->watches; /* the list may have changed */
    }
}

bool chat_event_is_last(const char *type)
{
    return strcmp(type, "response.completed") == 0 ||
           strcmp(type, "response.failed") == 0 ||
           strcmp(type, "response.incomplete") == 0;
}

void chat_event_add(struct chat_response *r, const char *type, json_t *event,
                    json_t *full)
{
    struct chat_line *line;
    int64_t number;

    mutex_lock(&r->lock);
    number = (int64_t)r->line_count; /* only this thread adds */
    mutex_unlock(&r->lock);
    if (!r->log)
        r->log = arena_new();
    line = arena_alloc(r->log, sizeof(*line));
    if (r->loaded && chat_event_is_last(type))
        number = MAX(number, r->last_number);
    line->number = number;
    line->type = type;
    line->text = dump(r->log, event, type, number, &line->len);
    line->full = dump(r->log, full, type, number, &line->full_len);
    mutex_lock(&r->lock);
    if (r->line_count == r->line_room) {
        r->line_room = MAX(r->line_room * 2, (size_t)32);
        r->lines =
            xrealloc(r->lines, r->line_room * sizeof(struct chat_line *));
    }
    r->lines[r->line_count++] = line;
    r->line_bytes += sizeof(*line) + line->len + line->full_len;
    fire(r);
    mutex_unlock(&r->lock);
}

void chat_event_end(struct chat_response *r)
{
    mutex_lock(&r->lock);
    r->over = true;
    cond_broadcast(&r->ended);
    fire(r);
    mutex_unlock(&r->lock);
}

void chat_event_free(struct chat_response *r)
{
    arena_free(r->log);
    r->log = NULL;
    free(r->lines);
    r->lines = NULL;
    r->line_count = 0;
}

/* ---- following ---------------------------------------------------------- */

int chat_event_next(struct chat_response *r, int64_t after, bool outputs,
                    struct chat_event *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);
    const struct chat_line *line;
    int64_t at = after + 1;

    /* One that was read from the store has fewer events than it had when it
     * ran; a client that followed it then still gets the last one. */
    if (at >= (int64_t)r->line_count && r->line_count > 0 &&
        r->lines[r->line_count - 1]->number > after)
        at = (int64_t)r->line_count - 1;
    if (at < 0 || at >= (int64_t)r->line_count)
        return r->over ? -1 : 0;
    line = r->lines[at];
    *ret = (struct chat_event){
        .number = line->number,
        .type = line->type,
        .text = outputs && line->full ? line->full : line->text,
        .len = outputs && line->full ? line->full_len : line->len,
        .last = r->over && at + 1 == (int64_t)r->line_count,
    };
    return 1;
}

uint64_t chat_event_watch(struct chat_response *r, int64_t after,
                          void (*fn)(void *ctx), void *ctx)
{
    struct chat_watch *w;
    uint64_t handle;

    mutex_lock(&r->lock);
    if (r->over || after + 1 < (int64_t)r->line_count) {
        mutex_unlock(&r->lock);
        fn(ctx);
        return 0;
    }
    w = xcalloc(1, sizeof(*w));
    handle = w->handle = ++r->last_handle;
    w->after = after;
    w->fn = fn;
    w->ctx = ctx;
    w->next = r->watches;
    r->watches = w;
    mutex_unlock(&r->lock);
    return handle;
}

void chat_event_unwatch(struct chat_response *r, uint64_t handle)
{
    mutex_lock(&r->lock);
    for (struct chat_watch **at = &r->watches; *at;) {
        struct chat_watch *w = *at;

        if (w->handle != handle) {
            at = &w->next;
            continue;
        }
        if (w->firing) { /* wait until it has been called */
            cond_wait(&r->ended, &r->lock);
            at = &r->watches;
            continue;
        }
        *at = w->next;
        free(w);
        break;
    }
    mutex_unlock(&r->lock);
}
