/* SPDX-License-Identifier: Apache-2.0 */
/* base/thread: names, deadlines, ownership, and the clock that tests move. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

struct shared {
    struct mutex lock;
    struct cond changed;
    _Atomic bool go, done; /* also read without the lock */
    char name[THREAD_NAME_MAX + 1];
};

static void shared_init(struct shared *s)
{
    *s = (struct shared){.go = false};
    mutex_init(&s->lock);
    cond_init(&s->changed);
}

static void shared_done(struct shared *s)
{
    cond_done(&s->changed);
    mutex_done(&s->lock);
}

static void waiter_main(void *arg)
{
    struct shared *s = arg;

    (void)pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
    mutex_lock(&s->lock);
    while (!s->go)
        cond_wait(&s->changed, &s->lock);
    s->done = true;
    cond_broadcast(&s->changed);
    mutex_unlock(&s->lock);
}

static void start_names_the_thread_and_join_waits_for_it(void **state)
{
    struct thread t = {0};
    struct error err;
    struct shared s;

    (void)state;
    shared_init(&s);
    assert_int_equal(
        thread_start(&t, "fifteen-letters", waiter_main, &s, &err), 0);
    assert_true(t.started);
    mutex_lock(&s.lock);
    s.go = true;
    cond_signal(&s.changed);
    mutex_unlock(&s.lock);
    thread_join(&t);
    assert_true(s.done);
    assert_false(t.started);
    assert_string_equal(s.name, "fifteen-letters");
    thread_join(&t); /* again: nothing */
    shared_done(&s);
}

static void detached_thread_runs(void **state)
{
    struct shared s;

    (void)state;
    shared_init(&s);
    s.go = true;
    mutex_lock(&s.lock);
    assert_int_equal(
        thread_start_detached("detached", 256u << 10, waiter_main, &s), 0);
    while (!s.done)
        cond_wait(&s.changed, &s.lock);
    mutex_unlock(&s.lock);
    assert_string_equal(s.name, "detached");
    shared_done(&s);
}

static void wait_until_ends_at_its_deadline(void **state)
{
    uint64_t before = clock_mono_ms();
    struct shared s;

    (void)state;
    shared_init(&s);
    mutex_lock(&s.lock);
    while (cond_wait_until(&s.changed, &s.lock, before + 20))
        ; /* a spurious wake-up */
    mutex_unlock(&s.lock);
    assert_true(clock_mono_ms() >= before + 20);
    mutex_lock(&s.lock);
    assert_false(cond_wait_until(&s.changed, &s.lock, before)); /* passed */
    mutex_unlock(&s.lock);
    shared_done(&s);
}

static void hold_until_told(void *arg)
{
    struct shared *s = arg;

    mutex_lock(&s->lock);
    s->done = true;
    while (!s->go)
        ;
    mutex_unlock(&s->lock);
}

static void trylock_and_lock_until_give_up_on_a_held_mutex(void **state)
{
    struct thread t = {0};
    struct error err;
    struct shared s;

    (void)state;
    shared_init(&s);
    assert_true(mutex_trylock(&s.lock));
    mutex_assert_held(&s.lock);
    mutex_unlock(&s.lock);
    assert_int_equal(thread_start(&t, "holder", hold_until_told, &s, &err), 0);
    while (!s.done)
        ;
    assert_false(mutex_trylock(&s.lock));
    assert_false(mutex_lock_until(&s.lock, clock_mono_ms() + 10));
    s.go = true;
    assert_true(mutex_lock_until(&s.lock, clock_mono_ms() + 10000));
    mutex_unlock(&s.lock);
    thread_join(&t);
    shared_done(&s);
}

static void hour_main(void *arg)
{
    struct shared *s = arg;
    uint64_t deadline = clock_mono_ms() + 3600u * 1000u;

    mutex_lock(&s->lock);
    s->go = true;
    cond_broadcast(&s->changed);
    while (cond_wait_until(&s->changed, &s->lock, deadline))
        ;
    s->done = true;
    mutex_unlock(&s->lock);
}

/* Last: from here on the clocks of this process are ahead. */
static void advanced_clock_ends_a_wait_of_an_hour(void **state)
{
    uint64_t mono = clock_mono_ms();
    int64_t real = clock_real_ms();
    struct thread t = {0};
    struct error err;
    struct shared s;

    (void)state;
    shared_init(&s);
    clock_test_advance(1); /* from now on, waits look at the clock */
    assert_true(clock_is_test());
    assert_int_equal(thread_start(&t, "hour", hour_main, &s, &err), 0);
    mutex_lock(&s.lock);
    while (!s.go)
        cond_wait(&s.changed, &s.lock);
    assert_false(s.done);
    mutex_unlock(&s.lock);
    clock_test_advance(3600u * 1000u);
    thread_join(&t);
    assert_true(s.done);
    assert_true(clock_mono_ms() >= mono + 3600u * 1000u);
    assert_true(clock_real_ms() >= real + 3600 * 1000);
    shared_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_names_the_thread_and_join_waits_for_it),
        cmocka_unit_test(detached_thread_runs),
        cmocka_unit_test(wait_until_ends_at_its_deadline),
        cmocka_unit_test(trylock_and_lock_until_give_up_on_a_held_mutex),
        cmocka_unit_test(advanced_clock_ends_a_wait_of_an_hour),
    };

    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
