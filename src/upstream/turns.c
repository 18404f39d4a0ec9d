/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items grouped to turns. Chat Completions and Messages want the calls of one
 * assistant turn together, followed by all their outputs with nothing in
 * between; the items of a request have them one by one, and may lack some.
 * Pure. Runs in glovebox-model.
 */
#include <string.h>

#include "base/mem.h"
#include "upstream/upstream_int.h"

static struct turn *add_turn(struct turns *t, enum turn_kind kind)
{
    t->row = xrealloc(t->row, (t->count + 1) * sizeof(*t->row));
    t->row[t->count] = (struct turn){.kind = kind};
    return &t->row[t->count++];
}

/* The last turn if it is the assistant's and has no output yet. */
static struct turn *assistant_turn(struct turns *t)
{
    struct turn *last = t->count ? &t->row[t->count - 1] : NULL;

    return last && last->kind == TURN_ASSISTANT && !last->answered
               ? last
               : add_turn(t, TURN_ASSISTANT);
}

static void add_pointer(const json_t ***list, size_t *count,
                        const json_t *value)
{
    *list = xrealloc(*list, (*count + 1) * sizeof(**list));
    (*list)[(*count)++] = value;
}

static void add_message(struct turns *t, const json_t *item)
{
    const char *role = upstream_text(item, "role");
    struct turn *turn;

    if (role && strcmp(role, "assistant") == 0)
        turn = assistant_turn(t);
    else
        turn = add_turn(t, role && strcmp(role, "user") == 0 ? TURN_USER
                                                             : TURN_SYSTEM);
    add_pointer(&turn->messages, &turn->message_count,
                json_object_get(item, "content"));
}

static void add_output(struct turns *t, const json_t *item)
{
    const char *id = upstream_text(item, "call_id");
    const json_t *output = json_object_get(item, "output");
    struct turn *turn;

    for (size_t i = t->count; id && i-- > 0;) {
        turn = &t->row[i];
        for (size_t k = 0; k < turn->call_count; k++) {
            const char *its = upstream_text(turn->calls[k].call, "call_id");

            if (!its || strcmp(its, id) != 0)
                continue;
            if (!turn->calls[k].output)
                turn->calls[k].output = output;
            turn->answered = true;
            return;
        }
    }
    turn = add_turn(t, TURN_USER);
    add_pointer(&turn->messages, &turn->message_count, output);
}

void turns_read(const json_t *input, struct turns *ret)
{
    const json_t *item;
    size_t i;

    *ret = (struct turns){0};
    json_array_foreach (input, i, item) {
        const char *type = upstream_text(item, "type");

        if (!type || strcmp(type, "message") == 0) {
            add_message(ret, item);
        } else if (strcmp(type, "function_call") == 0) {
            struct turn *turn = assistant_turn(ret);

            turn->calls = xrealloc(turn->calls, (turn->call_count + 1) *
                                                    sizeof(*turn->calls));
            turn->calls[turn->call_count++] = (struct turn_call){.call = item};
        } else if (strcmp(type, "reasoning") == 0) {
            struct turn *turn = assistant_turn(ret);

            add_pointer(&turn->reasoning, &turn->reasoning_count, item);
        } else {
            add_output(ret, item);
        }
    }
    for (size_t k = ret->count; k-- > 0 && ret->row[k].kind != TURN_USER;)
        ret->row[k].last = true;
}

void turns_done(struct turns *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->row[i].messages);
        free(t->row[i].reasoning);
        free(t->row[i].calls);
    }
    free(t->row);
    *t = (struct turns){0};
}
