/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input() and getpass() of a running cell. The kernel sends INPUT with a
 * prompt and waits; the prompt becomes an event; a client answers it by
 * execution_answer, on a thread of its own; the execution's thread sends the
 * answer to the kernel. Only executions whose client asked for this
 * (exec_spec.input) get so far: the kernel refuses input() of all others by
 * itself. The time limit of the execution goes on meanwhile.
 *
 * An answer is kept nowhere: it may be a password.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "execution/execution_int.h"

#define PREFIX sizeof(struct kernel_input)

static void wipe_buf(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->len);
    buf_done(b);
}

static bool send_answer(struct collect *c, uint32_t number, uint32_t how,
                        const char *text, size_t len)
{
    struct kernel_input head = {.number = number, .how = how};
    struct buf payload cleanup(wipe_buf) = {0};

    buf_add(&payload, &head, sizeof(head));
    buf_add(&payload, text, len);
    return execution_frames_send(c, KERNEL_ANSWER, payload.data,
                                 payload.len) != FRAMES_NONSENSE;
}

/* Without a prompt the kernel withdraws its request: it was interrupted. */
bool execution_input_request(struct collect *c, const char *payload,
                             size_t len)
{
    struct execution *e = c->e;
    struct kernel_input head;
    char password;

    memcpy(&head, payload, PREFIX);
    if (head.how == KERNEL_INPUT_WITHDRAWN) {
        mutex_lock(&e->lock);
        e->asked.waiting = false;
        mutex_unlock(&e->lock);
        return true;
    }
    if ((head.how != KERNEL_INPUT_TEXT && head.how != KERNEL_INPUT_PASSWORD) ||
        !utf8_valid(payload + PREFIX, len - PREFIX))
        return false;
    if (!e->input || c->inputs >= EXEC_INPUTS_MAX)
        return send_answer(c, head.number, KERNEL_INPUT_REFUSED, "", 0);
    c->inputs++;
    password = head.how == KERNEL_INPUT_PASSWORD;
    {
        struct buf data cleanup(buf_done) = {0};

        buf_add(&data, &password, 1);
        buf_add(&data, payload + PREFIX, len - PREFIX);
        mutex_lock(&e->lock);
        e->asked.waiting = true;
        e->asked.number = head.number;
        mutex_unlock(&e->lock);
        execution_events_add(e, EVENT_INPUT, data.data, data.len);
    }
    return true;
}

/* Takes the answer that execution_answer has left, if there is one. */
bool execution_input_deliver(struct collect *c)
{
    struct execution *e = c->e;
    struct buf text cleanup(wipe_buf) = {0};
    uint32_t number, how;

    mutex_lock(&e->lock);
    text = e->asked.answer;
    buf_init(&e->asked.answer);
    how = e->asked.how;
    number = e->asked.number;
    e->asked.how = 0;
    mutex_unlock(&e->lock);
    return how == 0 ||
           send_answer(c, number, how, text.data ? text.data : "", text.len);
}

void execution_input_done(struct execution *e)
{
    wipe_buf(&e->asked.answer);
}

int execution_answer(struct sessions *s, const struct actor *who,
                     const char *id, const char *text, size_t len,
                     struct error *err)
{
    struct executions *x = sessions_hooks_ctx(s);
    struct execution *e = NULL;
    struct session *se = NULL;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = execution_lookup(x, who, id, &e, &se, err);
    if (rc == -ERR_NOT_FOUND)
        rc = execution_elsewhere(x, id, err);
    if (rc < 0) {
        session_leave(s);
        return rc;
    }
    mutex_lock(&e->lock);
    if (e->info.status == EXEC_RUNNING && e->asked.waiting) {
        e->asked.waiting = false;
        e->asked.how = text ? KERNEL_INPUT_TEXT : KERNEL_INPUT_EOF;
        buf_add(&e->asked.answer, text, text ? len : 0);
    } else {
        rc = error_set(err, ERR_CONFLICT,
                       "the execution does not wait for input: %s",
                       e->info.status == EXEC_COMPLETED ? "it has ended"
                       : e->input ? "it has not asked, or has its answer"
                                  : "it was started without \"input\": true");
    }
    mutex_unlock(&e->lock);
    if (rc == 0)
        session_turn_wake(se, &e->turn);
    execution_unref(e);
    session_unref(se);
    session_leave(s);
    return rc;
}
