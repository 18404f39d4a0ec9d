/* SPDX-License-Identifier: Apache-2.0 */
/* audit: what was begun is noted before it runs, and told if its end is not.
 */
#include <fcntl.h>

#include "audit_fixture.h"

#define SLOT 512
#define SLOTS (AUDIT_QUEUE_MAX + 1024)

static uint32_t begun(struct fixture *f, const char *object)
{
    uint32_t slot = 0;

    if (audit_begin(f->audit, &ann, object, "sess_1", &slot, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_true(slot > 0);
    return slot;
}

static void end(struct fixture *f, const char *object, uint32_t slot)
{
    audit_end(
        f->audit, &ann,
        &(struct audit_event){.action = "execution.run", .object = object},
        slot);
}

static struct page lost(struct fixture *f)
{
    return query(f, &(struct audit_filter){.action = "execution.lost"});
}

/* The bytes of the file, or back into it. */
static void copy(struct fixture *f, char *bytes, bool write_back)
{
    char *path cleanup(mem_free) = path_of(f, "begun.journal");
    int fd cleanup(fd_close) = open(path, O_RDWR | O_CLOEXEC);
    const size_t size = (size_t)SLOTS * SLOT;

    assert_true(fd >= 0);
    if (write_back)
        assert_int_equal(pwrite(fd, bytes, size, 0), size);
    else
        assert_int_equal(pread(fd, bytes, size, 0), size);
}

static void O3_what_has_an_end_is_not_told_twice(void **state)
{
    struct fixture *f = *state;
    char *bytes cleanup(mem_free) = xmalloc((size_t)SLOTS * SLOT);
    struct page p cleanup(page_done) = {0};

    end(f, "exec_1", begun(f, "exec_1"));
    copy(f, bytes, false); /* as it was before the end was written */
    shut(f);
    must_open(f);
    p = lost(f);
    assert_int_equal(p.count, 0);
    page_done(&p);
    shut(f);
    copy(f, bytes, true); /* killed before the note was taken back */
    must_open(f);
    p = lost(f);
    assert_int_equal(p.count, 0);
}

static void O3_what_has_none_is_told_at_the_next_start_once(void **state)
{
    struct fixture *f = *state;
    char *bytes cleanup(mem_free) = xmalloc((size_t)SLOTS * SLOT);
    struct page p cleanup(page_done) = {0};

    (void)begun(f, "exec_1");
    end(f, "exec_2", begun(f, "exec_2"));
    (void)begun(f, "exec_3");
    copy(f, bytes, false);
    reopen(f);
    p = lost(f);
    assert_int_equal(p.count, 2);
    assert_string_equal(p.lines[0].object, "exec_1");
    assert_string_equal(p.lines[0].before, "sess_1");
    assert_string_equal(p.lines[0].actor, "key_ann");
    assert_string_equal(p.lines[0].tenant, "acme");
    assert_string_equal(p.lines[1].object, "exec_3");
    page_done(&p);
    shut(f);
    copy(f, bytes, true); /* killed before the file was emptied */
    must_open(f);
    reopen(f);
    p = lost(f);
    assert_int_equal(p.count, 2);
    assert_int_equal(verify(f).first_bad, 0);
}

static void O3_a_torn_or_foreign_note_is_none(void **state)
{
    struct fixture *f = *state;
    char *bytes cleanup(mem_free) = xmalloc((size_t)SLOTS * SLOT);
    struct page p cleanup(page_done) = {0};

    (void)begun(f, "exec_1");
    copy(f, bytes, false);
    shut(f);
    for (size_t at = 0; at < (size_t)SLOT; at += 37) {
        bytes[at] ^= 1;
        copy(f, bytes, true);
        must_open(f);
        p = lost(f);
        assert_int_equal(p.count, 0);
        page_done(&p);
        shut(f);
        bytes[at] ^= 1;
    }
    must_open(f);
    p = lost(f);
}

static void O3_nothing_begins_without_room_for_its_note(void **state)
{
    struct fixture *f = *state;
    uint32_t slots[SLOTS], more = 0;

    for (size_t i = 0; i < SLOTS; i++)
        slots[i] = begun(f, "exec_1");
    assert_int_equal(
        audit_begin(f->audit, &ann, "exec_2", "sess_1", &more, &f->err),
        -ERR_UNAVAILABLE);
    assert_int_equal(more, 0);
    end(f, "exec_1", slots[7]);
    for (int i = 0; i < 100 && more == 0; i++)
        if (audit_begin(f->audit, &ann, "exec_2", "sess_1", &more, &f->err) <
            0)
            (void)usleep(50000);
    assert_int_equal(more, slots[7]);
    for (size_t i = 0; i < SLOTS; i++)
        end(f, "exec_1", slots[i]); /* more than the queue takes of others */
}

static void O3_a_file_of_another_size_is_made_anew(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = path_of(f, "begun.journal");

    shut(f);
    assert_int_equal(truncate(path, 1000), 0);
    must_open(f);
    end(f, "exec_1", begun(f, "exec_1"));
    shut(f);
    assert_int_equal(unlink(path), 0);
    must_open(f);
    end(f, "exec_2", begun(f, "exec_2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(O3_what_has_an_end_is_not_told_twice),
        CASE(O3_what_has_none_is_told_at_the_next_start_once),
        CASE(O3_a_torn_or_foreign_note_is_none),
        CASE(O3_nothing_begins_without_room_for_its_note),
        CASE(O3_a_file_of_another_size_is_made_anew),
    };

    return cmocka_run_group_tests_name("audit_journal", tests, NULL, NULL);
}
