/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the trail share: a data directory with a store and a
 * trail, actors of two tenants, and short ways to add, look, verify and do
 * what nobody should.
 */
#ifndef GLOVEBOX_TESTS_AUDIT_FIXTURE_H
#define GLOVEBOX_TESTS_AUDIT_FIXTURE_H

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/audit_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "scratch.h"
#include "store_choice.h"

/* ---- help --------------------------------------------------------------- */

struct fixture {
    char dir[64];
    struct store *store;
    struct audit *audit;
    struct error err;
};

static const __attribute__((unused)) struct actor ann = {.tenant = "acme",
                                                         .key = "key_ann",
                                                         .request = "req-1",
                                                         .source = "10.0.0.1"};
static const __attribute__((unused)) struct actor bob = {.tenant = "acme",
                                                         .key = "key_bob"};
static const __attribute__((unused)) struct actor eve = {.tenant = "other",
                                                         .key = "key_eve"};

static inline int try_open(struct fixture *f)
{
    if (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return audit_open(f->store, f->dir, &f->audit, &f->err);
}

static inline void must_open(struct fixture *f)
{
    if (try_open(f) < 0)
        fail_msg("%s", f->err.message);
}

static inline void shut(struct fixture *f)
{
    audit_close(f->audit);
    store_close(f->store);
    f->audit = NULL;
    f->store = NULL;
}

static inline void reopen(struct fixture *f)
{
    shut(f);
    must_open(f);
}

static inline int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_audit"));
    must_open(f);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    shut(f);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static inline char *path_of(struct fixture *f, const char *name)
{
    return xasprintf("%s/%s", f->dir, name);
}

static inline struct store_tx *begin(struct fixture *f)
{
    struct store_tx *tx = NULL;

    if (store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return tx;
}

static inline void commit(struct fixture *f, struct store_tx *tx)
{
    if (store_commit(&tx, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

/* n events in one transaction: ann puts n files. */
static inline void add(struct fixture *f, unsigned count)
{
    struct store_tx *tx = begin(f);

    for (unsigned i = 0; i < count; i++) {
        char path[32];
        struct audit_event event = {.action = "file.put",
                                    .workspace = "ws_1",
                                    .object = "file_1",
                                    .path = path,
                                    .before = "ver_1",
                                    .after = "ver_2",
                                    .detail = "a detail"};

        (void)snprintf(path, sizeof(path), "dir/%u", i);
        if (audit_add(f->audit, tx, &ann, &event, &f->err) < 0)
            fail_msg("%s", f->err.message);
    }
    commit(f, tx);
}

static inline void note(struct fixture *f, const struct actor *who,
                        const struct audit_event *event)
{
    if (audit_note(f->audit, who, event, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

struct page {
    struct audit_line *lines;
    size_t count;
    bool more;
};

static inline void page_done(struct page *p)
{
    audit_lines_free(p->lines, p->count);
}

static inline struct page query(struct fixture *f,
                                const struct audit_filter *filter)
{
    struct page p = {0};

    if (audit_query(f->audit, filter, &p.lines, &p.count, &p.more, &f->err) <
        0)
        fail_msg("%s", f->err.message);
    return p;
}

static inline struct page all(struct fixture *f)
{
    return query(f, &(struct audit_filter){.limit = AUDIT_LINES_MAX});
}

static inline struct audit_report verify(struct fixture *f)
{
    struct audit_report report;

    if (audit_verify(f->audit, NULL, NULL, &report, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return report;
}

static inline void check_good(struct fixture *f, int64_t events)
{
    struct audit_report report = verify(f);

    if (report.first_bad)
        fail_msg("%lld: %s", (long long)report.first_bad, report.fault);
    assert_int_equal(report.events, events);
    assert_string_equal(report.fault, "");
    assert_int_equal(strlen(report.head), 64);
}

/* The first fault is at that event, and what is said of it has that in it. */
static inline void check_bad(struct fixture *f, int64_t at, const char *words)
{
    struct audit_report report = verify(f);

    if (report.first_bad != at || !strstr(report.fault, words))
        fail_msg("%lld, not %lld: %s", (long long)report.first_bad,
                 (long long)at, report.fault);
}

/* What someone with access to the file does. */
static inline void tamper(struct fixture *f, const char *sql)
{
    struct store_tx *tx = begin(f);

    if (store_exec(tx, &f->err, sql, "") < 0)
        fail_msg("%s: %s", sql, f->err.message);
    commit(f, tx);
}

/* Waits until the thread has written as many. */
static inline void wait_for(struct fixture *f, size_t count)
{
    uint64_t until = clock_mono_ms() + 20000;

    for (;;) {
        struct page p cleanup(page_done) = all(f);

        if (p.count >= count)
            return;
        if (clock_mono_ms() > until)
            fail_msg("%zu events only", p.count);
        usleep(10000);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
