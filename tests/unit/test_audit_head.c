/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trail's end in its own file: a database that is older than its trail,
 * or another directory's, is recognised at the next start, and nothing is
 * changed by that; a file that is older than the database is normal.
 */
#include "audit_fixture.h"

#include <sys/wait.h>

/* ---- help --------------------------------------------------------------- */

#define SLOT_STEP 4096
#define SLOTS 3

static const char *const database[] = {"glovebox.db", "glovebox.db-wal"};

/* Open as the service does; on a refusal nothing is left open. */
static int start(struct fixture *f, const char *accept)
{
    struct audit_place place = {.data_dir = f->dir, .accept = accept};
    const struct store_settings settings = {
        .data_dir = f->dir, .check = audit_check_store, .check_ctx = &place};
    int r = store_choice_open(&settings, &f->store, &f->err);

    if (r == 0)
        r = audit_open_at(f->store, &place, &f->audit, &f->err);
    if (r < 0)
        shut(f);
    return r;
}

static void must_start(struct fixture *f, const char *accept)
{
    if (start(f, accept) < 0)
        fail_msg("%s", f->err.message);
}

/* The token that the hint of the last refusal offers. */
static const char *token(struct fixture *f)
{
    static char text[17];
    const char *at = strstr(f->err.hint, "--accept-loss ");

    if (!at)
        fail_msg("no token in: %s", f->err.hint);
    (void)snprintf(text, sizeof(text), "%s", at + strlen("--accept-loss "));
    return text;
}

static char *read_name(struct fixture *f, const char *name, size_t *ret_len)
{
    char *path cleanup(mem_free) = path_of(f, name);
    char *bytes = NULL;

    if (fd_read_file(AT_FDCWD, path, 64 << 20, &bytes, ret_len) < 0) {
        *ret_len = 0;
        return NULL; /* there is none */
    }
    return bytes;
}

static void write_name(struct fixture *f, const char *name, const char *bytes,
                       size_t len)
{
    char *path cleanup(mem_free) = path_of(f, name);
    int fd cleanup(fd_close) = -1;

    (void)unlink(path);
    if (!bytes)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
}

/* Some files as they are now, to be put back. */
struct kept {
    const char *names[3];
    char *bytes[3];
    size_t lens[3];
};

static struct kept keep(struct fixture *f, const char *a, const char *b)
{
    struct kept k = {.names = {a, b}};

    for (size_t i = 0; i < 3 && k.names[i]; i++)
        k.bytes[i] = read_name(f, k.names[i], &k.lens[i]);
    return k;
}

static void put_back(struct fixture *f, const struct kept *k)
{
    for (size_t i = 0; i < 3 && k->names[i]; i++)
        write_name(f, k->names[i], k->bytes[i], k->lens[i]);
}

static void kept_done(struct kept *k)
{
    for (size_t i = 0; i < 3; i++)
        free(k->bytes[i]);
}

static bool unchanged(struct fixture *f, const struct kept *k)
{
    for (size_t i = 0; i < 3 && k->names[i]; i++) {
        size_t len;
        char *now cleanup(mem_free) = read_name(f, k->names[i], &len);

        if (len != k->lens[i] ||
            (now && len && memcmp(now, k->bytes[i], len) != 0))
            return false;
    }
    return true;
}

static void refused(struct fixture *f, const char *words)
{
    assert_int_equal(start(f, ""), -ERR_CORRUPT);
    if (!strstr(f->err.message, words))
        fail_msg("%s", f->err.message);
    if (!strstr(f->err.hint, "Nothing was changed"))
        fail_msg("%s", f->err.hint);
}

/* On the closed database, as another program would. */
static void on_closed(struct fixture *f, const char *sql)
{
    must_open(f);
    tamper(f, sql);
    shut(f);
}

/* Events in another process, which then dies without closing anything. */
static void add_and_die(struct fixture *f, unsigned count)
{
    pid_t pid;
    int status = 0;

    shut(f);
    pid = fork();
    if (pid == 0) {
        must_start(f, "");
        for (unsigned i = 0; i < count; i++)
            add(f, 1);
        (void)raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- a database that is older than its trail -----------------------------
 */

static void D11_a_rolled_back_database_is_refused(void **state)
{
    struct fixture *f = *state;
    struct kept old cleanup(kept_done) = {.bytes = {0}};

    add(f, 3);
    shut(f);
    old = keep(f, database[0], database[1]);
    must_start(f, "");
    add(f, 2);
    shut(f);
    put_back(f, &old);
    for (int i = 0; i < 2; i++) { /* and every time */
        refused(f, "ends at event 3, but audit.head says that event 5");
        assert_true(unchanged(f, &old));
    }
}

static void D11_a_log_cut_after_a_kill_is_noticed(void **state)
{
    struct fixture *f = *state;
    char *wal cleanup(mem_free) = path_of(f, "glovebox.db-wal");
    struct kept all cleanup(kept_done) = {.bytes = {0}};

    add_and_die(f, 20);
    all = keep(f, database[0], database[1]);
    for (size_t part = 1; part < 16; part += 2) {
        struct kept cut cleanup(kept_done) = {.bytes = {0}};

        put_back(f, &all);
        assert_int_equal(truncate(wal, (off_t)(all.lens[1] * part / 16)), 0);
        cut = keep(f, database[0], database[1]);
        assert_int_equal(start(f, ""), -ERR_CORRUPT);
        if (!strstr(f->err.message, "rolled back") &&
            !strstr(f->err.message, "is empty"))
            fail_msg("%s", f->err.message);
        assert_true(unchanged(f, &cut)); /* what is left can be looked at */
    }
    put_back(f, &all); /* whole again, all is well */
    must_start(f, "");
    check_good(f, 20);
}

/* Nothing of it is synced when the process dies, and it is exact. */
static void D11_the_head_is_exact_after_a_kill(void **state)
{
    struct fixture *f = *state;

    for (int i = 1; i <= 3; i++) {
        struct audit_mark last;

        add_and_die(f, 7);
        must_start(f, "");
        last = audit_head_last(f->audit);
        assert_int_equal(last.seq, 7 * i);
        check_good(f, 7 * i);
    }
}

static void D11_an_older_head_is_no_alarm(void **state)
{
    struct fixture *f = *state;
    struct kept old cleanup(kept_done) = {.bytes = {0}};

    add(f, 3);
    old = keep(f, "audit.head", NULL);
    add(f, 2);
    shut(f);
    put_back(f, &old);
    must_start(f, "");
    add(f, 1);
    check_good(f, 6);
    reopen(f);
    check_good(f, 6);
}

static void D11_another_history_is_refused(void **state)
{
    struct fixture *f = *state;
    struct kept fork_point cleanup(kept_done) = {.bytes = {0}};
    struct kept head cleanup(kept_done) = {.bytes = {0}};
    struct kept other cleanup(kept_done) = {.bytes = {0}};

    add(f, 3);
    shut(f);
    fork_point = keep(f, database[0], database[1]);
    fork_point.names[2] = "audit.head";
    fork_point.bytes[2] = read_name(f, "audit.head", &fork_point.lens[2]);
    must_start(f, "");
    add(f, 2);
    shut(f);
    head = keep(f, "audit.head", NULL);
    put_back(f, &fork_point);
    must_start(f, "");
    note(f, &eve, &(struct audit_event){.action = "other"});
    add(f, 4); /* longer than the head says, but not the same events */
    shut(f);
    other = keep(f, database[0], database[1]);
    put_back(f, &head);
    refused(f, "another history: event 5");
    assert_true(unchanged(f, &other));
}

/* ---- accepting -----------------------------------------------------------
 */

static void check_accepted(struct fixture *f, int64_t lost, const char *why)
{
    struct page p cleanup(page_done) =
        query(f, &(struct audit_filter){.action = "audit.accept"});
    struct audit_report report = verify(f);

    assert_int_equal(p.count, 1);
    if (!strstr(p.lines[0].detail, why))
        fail_msg("%s", p.lines[0].detail);
    assert_string_equal(p.lines[0].actor, "glovebox");
    assert_int_equal(report.first_bad, 0);
    assert_int_equal(report.lost, lost);
}

static void D11_a_loss_is_accepted_once_and_by_its_token(void **state)
{
    struct fixture *f = *state;
    struct kept old cleanup(kept_done) = {.bytes = {0}};
    char first[17];

    add(f, 3);
    shut(f);
    old = keep(f, database[0], database[1]);
    must_start(f, "");
    add(f, 2);
    shut(f);
    put_back(f, &old);
    refused(f, "rolled back");
    (void)snprintf(first, sizeof(first), "%s", token(f));
    assert_int_equal(start(f, "0123456789abcdef"), -ERR_CORRUPT);
    must_start(f, first);
    check_accepted(f, 2, "rolled back");
    add(f, 4);
    shut(f);
    must_start(f, first); /* left where it was: nothing is accepted */
    check_accepted(f, 2, "rolled back");
    shut(f);
    put_back(f, &old); /* the same database again, but another loss */
    assert_int_equal(start(f, first), -ERR_CORRUPT);
    assert_string_not_equal(first, token(f));
}

/* ---- the file itself -----------------------------------------------------
 */

static void D11_a_missing_head_is_refused_until_accepted(void **state)
{
    struct fixture *f = *state;

    add(f, 3);
    shut(f);
    write_name(f, "audit.head", NULL, 0);
    refused(f, "audit.head is missing");
    must_start(f, token(f));
    check_accepted(f, 0, "audit.head was missing");
    shut(f);
    must_start(f, "");
    check_good(f, 4);
}

static void D11_a_damaged_head_is_refused_until_accepted(void **state)
{
    struct fixture *f = *state;

    add(f, 3);
    shut(f);
    write_name(f, "audit.head", "nonsense", 8);
    refused(f, "audit.head is damaged");
    must_start(f, token(f));
    check_accepted(f, 0, "audit.head was damaged");
    assert_non_null(f->audit);
}

/* A torn write costs one slot of three. */
static void D11_one_whole_slot_is_enough(void **state)
{
    struct fixture *f = *state;
    size_t len;
    char *bytes cleanup(mem_free) = NULL;
    unsigned good = 0;

    add(f, 3);
    for (int i = 0; i < 4; i++) { /* until each slot has been used */
        reopen(f);
        add(f, 1);
    }
    shut(f);
    bytes = read_name(f, "audit.head", &len);
    assert_int_equal(len, SLOTS * SLOT_STEP);
    for (unsigned i = 0; i < SLOTS; i++) {
        char *damaged cleanup(mem_free) = xmalloc(len);

        memcpy(damaged, bytes, len);
        damaged[i * SLOT_STEP + 60] ^= 1;
        write_name(f, "audit.head", damaged, len);
        must_start(f, "");
        check_good(f, 7);
        shut(f);
        good++;
    }
    assert_int_equal(good, SLOTS);
    for (unsigned i = 0; i < SLOTS; i++)
        bytes[i * SLOT_STEP + 60] ^= 1;
    write_name(f, "audit.head", bytes, len);
    refused(f, "damaged");
}

static void D11_a_first_start_cut_short_is_no_alarm(void **state)
{
    struct fixture *f = *state;

    /* The file is there, the database does not say so yet. */
    on_closed((shut(f), f), "UPDATE audit_head SET noted = 0");
    must_start(f, "");
    add(f, 2);
    shut(f);
    /* Neither, as in a database that was copied without the file. */
    on_closed(f, "UPDATE audit_head SET noted = 0");
    write_name(f, "audit.head", NULL, 0);
    must_start(f, "");
    check_good(f, 2);
    shut(f);
    write_name(f, "audit.head", NULL, 0);
    refused(f, "is missing");
}

/* ---- databases of others -------------------------------------------------
 */

static struct fixture *another(void)
{
    void *state = NULL;

    assert_int_equal(set_up(&state), 0);
    return state;
}

static void D11_a_foreign_database_is_refused(void **state)
{
    struct fixture *f = *state;
    void *theirs = another();
    struct fixture *other = theirs;
    struct kept ours cleanup(kept_done) = {.bytes = {0}};
    struct kept foreign cleanup(kept_done) = {.bytes = {0}};

    add(f, 3);
    add(other, 5);
    shut(f);
    shut(other);
    ours = keep(f, database[0], database[1]);
    foreign = keep(other, database[0], database[1]);
    put_back(f, &foreign);
    refused(f, "another data directory");
    assert_null(strstr(f->err.hint, "--accept-loss"));
    assert_true(unchanged(f, &foreign));
    put_back(f, &ours);
    must_start(f, "");
    check_good(f, 3);
    assert_int_equal(tear_down(&theirs), 0);
}

/* One that was just made, in another directory or here. */
static void D11_an_empty_trail_is_never_accepted(void **state)
{
    struct fixture *f = *state;
    struct kept young cleanup(kept_done) = {.bytes = {0}};

    shut(f);
    young = keep(f, database[0], database[1]);
    must_start(f, "");
    add(f, 3);
    shut(f);
    put_back(f, &young);
    refused(f, "glovebox.db is empty, but this directory's audit trail had 3");
    assert_null(strstr(f->err.hint, "--accept-loss"));
    assert_non_null(strstr(f->err.hint, "empty directory"));
}

/* 0.1.0 had no id, no file and no note of it. Undoes the migrations since,
 * newest first. */
static void downgrade(struct fixture *f)
{
    shut(f);
    must_open(f);
    tamper(f, "ALTER TABLE approvals DROP COLUMN asked_by_name");
    tamper(f, "ALTER TABLE approvals DROP COLUMN decided_by_name");
    tamper(f, "DROP TABLE store_identity");
    tamper(f, "ALTER TABLE audit_head DROP COLUMN noted");
    tamper(f, "DROP TABLE settings");
    tamper(f, "DROP TABLE subjects");
    tamper(f, "ALTER TABLE pools DROP COLUMN max_timeout_s");
    tamper(f, "DROP TABLE usage_hours");
    tamper(f, "DROP TABLE outputs");
    tamper(f, "DELETE FROM chores WHERE name = 'outputs'");
    tamper(f, "DROP TABLE scorecards");
    tamper(f, "DROP TABLE models");
    tamper(f, "DROP TABLE chat_conversation_items");
    tamper(f, "DROP TABLE chat_response_items");
    tamper(f, "DROP TABLE chat_conversations");
    tamper(f, "DROP TABLE chat_responses");
    tamper(f, "DROP TABLE chat_item_files");
    tamper(f, "DROP TABLE chat_items_loose");
    tamper(f, "DROP TABLE chat_items");
    tamper(f, "DROP TABLE chat_completions");
    tamper(f, "DROP INDEX workspaces_held");
    tamper(f, "DROP TABLE agent_versions");
    tamper(f, "DROP TABLE agents");
    tamper(f, "DROP TABLE tool_versions");
    tamper(f, "DROP TABLE tools");
    tamper(f, "DROP TRIGGER passages_gone");
    tamper(f, "DROP TRIGGER passages_of_changed");
    tamper(f, "DROP TRIGGER passages_of_transferred");
    tamper(f, "DROP TABLE passage_vectors");
    tamper(f, "DROP TABLE passages");
    tamper(f, "DROP TABLE passages_gone");
    tamper(f, "DROP TABLE meanings");
    tamper(f, "DROP INDEX documents_uncut");
    tamper(f, "DROP INDEX documents_cut");
    tamper(f, "ALTER TABLE documents DROP COLUMN cut");
    tamper(f, "DROP INDEX workspaces_intelligent");
    tamper(f, "ALTER TABLE workspaces DROP COLUMN intelligence");
    tamper(f, "DROP TABLE branches");
    tamper(f, "DROP TABLE images");
    tamper(f, "DROP TABLE nodes");
    tamper(f, "DROP TABLE leases");
    tamper(f, "DROP TABLE node_executions");
    tamper(f, "DROP TABLE chat_use");
    tamper(f, "DROP TABLE mirrors");
    tamper(f, "UPDATE schema_version SET version = version - 17");
    shut(f);
    write_name(f, "audit.head", NULL, 0);
}

static void D11_a_directory_of_0_1_0_is_taken_over(void **state)
{
    struct fixture *f = *state;

    add(f, 3);
    downgrade(f);
    must_start(f, "");
    assert_int_equal(strlen(store_id(f->store)), STORE_ID - 1);
    check_good(f, 3);
    shut(f);
    must_start(f, "");
    add(f, 1);
    check_good(f, 4);
    shut(f);
    write_name(f, "audit.head", NULL, 0);
    refused(f, "is missing"); /* it is guarded from now on */
}

static void D11_a_foreign_database_of_0_1_0_is_refused(void **state)
{
    struct fixture *f = *state;
    void *theirs = another();
    struct fixture *other = theirs;
    struct kept foreign cleanup(kept_done) = {.bytes = {0}};

    add(f, 3);
    add(other, 5);
    downgrade(f);
    downgrade(other);
    foreign = keep(other, database[0], database[1]);
    put_back(f, &foreign);
    assert_int_equal(start(f, ""), -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, "audit.secret"));
    must_start(f, token(f)); /* an operator may know better */
    add(f, 1);
    assert_int_equal(tear_down(&theirs), 0);
}

/* ---- damage ------------------------------------------------------------- */

static void D11_damage_bars_removing_until_accepted(void **state)
{
    struct fixture *f = *state;
    char accept[17];

    add(f, 3);
    assert_int_equal(audit_intact(f->audit, &f->err), 0);
    tamper(f, "UPDATE audit_head SET seal = zeroblob(32)");
    assert_int_equal(audit_intact(f->audit, &f->err), -ERR_CORRUPT);
    assert_null(strstr(f->err.hint, "--accept-loss"));
    add(f, 1); /* and with it the event that tells of the damage */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(audit_intact(f->audit, &f->err), -ERR_CORRUPT);
        assert_non_null(strstr(f->err.message, "damaged"));
        (void)snprintf(accept, sizeof(accept), "%s", token(f));
        shut(f);
        must_start(f, "0123456789abcdef");
    }
    shut(f);
    must_start(f, accept);
    assert_int_equal(audit_intact(f->audit, &f->err), 0);
    check_bad(f, 4, "found changed before event 4"); /* it stays told */
    shut(f);
    must_start(f, accept); /* once */
    assert_int_equal(audit_intact(f->audit, &f->err), 0);
    {
        struct page p cleanup(page_done) =
            query(f, &(struct audit_filter){.action = "audit.accept"});

        assert_int_equal(p.count, 1);
    }
    tamper(f, "UPDATE audit_head SET seal = zeroblob(32)");
    add(f, 1);
    assert_int_equal(audit_intact(f->audit, &f->err), -ERR_CORRUPT);
}

/* While the service runs, too. */
static void D11_verify_compares_with_the_head(void **state)
{
    struct fixture *f = *state;

    add(f, 3);
    tamper(f, "CREATE TABLE kept AS SELECT * FROM audit_head");
    tamper(f, "CREATE TABLE chains AS SELECT * FROM audit_chains");
    add(f, 2);
    tamper(f, "DELETE FROM audit WHERE seq > 3");
    tamper(f, "DELETE FROM audit_head");
    tamper(f, "INSERT INTO audit_head SELECT * FROM kept");
    tamper(f, "DELETE FROM audit_chains");
    tamper(f, "INSERT INTO audit_chains SELECT * FROM chains");
    check_bad(f, 4, "audit.head");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(D11_a_rolled_back_database_is_refused),
        CASE(D11_a_log_cut_after_a_kill_is_noticed),
        CASE(D11_the_head_is_exact_after_a_kill),
        CASE(D11_an_older_head_is_no_alarm),
        CASE(D11_another_history_is_refused),
        CASE(D11_a_loss_is_accepted_once_and_by_its_token),
        CASE(D11_a_missing_head_is_refused_until_accepted),
        CASE(D11_a_damaged_head_is_refused_until_accepted),
        CASE(D11_one_whole_slot_is_enough),
        CASE(D11_a_first_start_cut_short_is_no_alarm),
        CASE(D11_a_foreign_database_is_refused),
        CASE(D11_an_empty_trail_is_never_accepted),
        CASE(D11_a_directory_of_0_1_0_is_taken_over),
        CASE(D11_a_foreign_database_of_0_1_0_is_refused),
        CASE(D11_damage_bars_removing_until_accepted),
        CASE(D11_verify_compares_with_the_head),
    };

    return cmocka_run_group_tests_name("audit_head", tests, NULL, NULL);
}
