/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace, the commit: what a set of changes makes of a tree, whose change
 * wins and whose is kept beside, which file keeps its identity, what is too
 * much, and that nothing is half done.
 */
#include <pthread.h>

#include "workspace_fixture.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mime.h"

static void get(struct fixture *f, const char *path,
                struct workspace_file *ret)
{
    OK(f, workspace_file_get(f->w, &fixture_a, f->ws.id, path, NULL, ret,
                             &f->err));
}

static void file_id(struct fixture *f, const char *path, char ret[ID_MAX])
{
    struct workspace_file file;

    get(f, path, &file);
    memcpy(ret, file.file, ID_MAX);
    workspace_file_done(&file);
}

#define SAME_FILE(f, path, id)                                                \
    do {                                                                      \
        char now_[ID_MAX];                                                    \
        file_id(f, path, now_);                                               \
        assert_string_equal(now_, id);                                        \
    } while (0)
#define OTHER_FILE(f, path, id)                                               \
    do {                                                                      \
        char now_[ID_MAX];                                                    \
        file_id(f, path, now_);                                               \
        assert_string_not_equal(now_, id);                                    \
    } while (0)

static void info(struct fixture *f, struct workspace_info *ret)
{
    OK(f, workspace_get(f->w, &fixture_a, f->ws.id, ret, &f->err));
}

/* ---- one file ----------------------------------------------------------- */

static void commit_creates_modifies_deletes(void **state)
{
    struct fixture *f = *state;
    struct workspace_file file;
    struct workspace_info ws;
    struct set del = set_new(f, "delete");
    char id[ID_MAX];

    assert_int_equal(put(f, "a/report.csv", "one", NULL), 1);
    get(f, "a/report.csv", &file);
    assert_int_equal(file.number, 1);
    assert_int_equal(file.size, 3);
    assert_string_equal(file.mime, "text/csv");
    assert_false(file.executable);
    memcpy(id, file.file, sizeof(id));
    workspace_file_done(&file);

    assert_int_equal(put(f, "a/report.csv", "twos", NULL), 2);
    get(f, "a/report.csv", &file);
    assert_int_equal(file.number, 2);
    assert_string_equal(file.file, id);
    workspace_file_done(&file);
    info(f, &ws);
    assert_int_equal(ws.files, 1);
    assert_int_equal(ws.bytes, 4);
    assert_int_equal(ws.stored_bytes, 7);
    assert_true(ws.head_commit[0]);

    set_add(&del, CHANGE_REMOVE, "a/report.csv");
    COMMITS(&del, &fixture_a, "done deleted a/report.csv");
    info(f, &ws);
    assert_int_equal(ws.files, 0);
    assert_int_equal(ws.bytes, 0);
    assert_int_equal(ws.stored_bytes, 7);
    TREE_IS(f, 0, "");
    TREE_IS(f, 1, "a/report.csv=one");
    TREE_IS(f, 2, "a/report.csv=twos");

    /* It comes back as itself. */
    put(f, "a/report.csv", "three", NULL);
    SAME_FILE(f, "a/report.csv", id);
    get(f, "a/report.csv", &file);
    assert_int_equal(file.number, 4);
    workspace_file_done(&file);
}

static void D1_commit_survives_reopen(void **state)
{
    struct fixture *f = *state;
    struct audit_report report;

    put(f, "kept", "bytes", NULL);
    fixture_reopen(f);
    TREE_IS(f, 0, "kept=bytes");
    OK(f, audit_verify(f->audit, NULL, NULL, &report, &f->err));
    assert_int_equal(report.first_bad, 0);
}

static void commit_of_the_same_bytes_makes_none(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload");
    struct workspace_commit c;

    put(f, "x", "same", NULL);
    set_put(&s, "x", "same");
    OK(f, set_commit(&s, &fixture_a, &c));
    RESULTS_ARE(&c, "same  x");
    assert_string_equal(c.id, "");
    assert_int_equal(c.seq, 1);
    workspace_commit_done(&c);
    assert_int_equal(head_of(f), 1);

    /* The executable bit is part of a file. */
    s.changes[0].executable = true;
    COMMITS(&s, &fixture_a, "done modified x");
    assert_int_equal(head_of(f), 2);
}

static void commit_mime_by_name_or_as_told(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload");
    struct workspace_file file;

    set_put(&s, "a.PNG", "1")->mime = NULL;
    set_put(&s, "b", "2")->mime = "text/x-special; charset=utf-8";
    set_put(&s, "c.txt", "3")->mime = "text/\r\nX-Evil: 1";
    COMMITS(&s, &fixture_a,
            "done created a.PNG; done created b; done created c.txt");
    get(f, "a.PNG", &file);
    assert_string_equal(file.mime, "image/png");
    workspace_file_done(&file);
    get(f, "b", &file);
    assert_string_equal(file.mime, "text/x-special; charset=utf-8");
    workspace_file_done(&file);
    get(f, "c.txt", &file);
    assert_string_equal(file.mime, "text/plain");
    workspace_file_done(&file);
    assert_string_equal(mime_of_path("x/.png"), "application/octet-stream");
    assert_string_equal(mime_of_path("x.d/y"), "application/octet-stream");
    assert_string_equal(mime_of_path("7.7z"), "application/x-7z-compressed");
    assert_string_equal(mime_of_path("a.zst"), "application/zstd");
}

static void F5_commit_refuses_bad_paths(void **state)
{
    static const char *const bad[] = {"",    "/x",    "a//b",    "a/../b",
                                      "./a", "a/",    "a\nb",    "\xff",
                                      ".",   "a\x7f", "\xc2\x9b"};
    struct fixture *f = *state;
    char *part cleanup(mem_free) = xcalloc(300, 1);

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct set s = set_new(f, "upload");

        set_put(&s, bad[i], "x");
        COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID);
    }
    memset(part, 'p', 255);
    put(f, part, "at the limit", NULL);
    part[255] = 'p';
    {
        struct set s = set_new(f, "upload");

        set_put(&s, part, "above it");
        COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID);
    }
    assert_int_equal(head_of(f), 1);
}

/* ---- files and folders in each other's way ------------------------------ */

static void commit_a_file_where_a_folder_is(void **state)
{
    struct fixture *f = *state;
    struct set above = set_new(f, "upload"), below = set_new(f, "upload");
    struct set session = set_session(f, SESSION_1, 0);

    put(f, "a/b", "file", NULL);
    set_put(&above, "a", "x");
    COMMIT_REFUSED(&above, &fixture_a, ERR_CONFLICT);
    set_put(&below, "a/b/c", "x");
    COMMIT_REFUSED(&below, &fixture_a, ERR_CONFLICT);
    TREE_IS(f, 0, "a/b=file");

    /* What a session says is true of its tree. */
    session.spec.base = 1;
    set_put(&session, "a/b/c", "deep");
    COMMITS(&session, &fixture_a, "done deleted a/b; done created a/b/c");
    TREE_IS(f, 0, "a/b/c=deep");
    session = set_session(f, SESSION_1, 2);
    set_put(&session, "a", "flat");
    COMMITS(&session, &fixture_a, "done deleted a/b/c; done created a");
    TREE_IS(f, 0, "a=flat");
}

static void commit_takes_changes_in_order(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload"), t = set_new(f, "upload");

    put(f, "d/1", "1", NULL);
    put(f, "d/2", "2", NULL);
    set_put(&s, "d/3", "3"); /* gone with the folder */
    set_add(&s, CHANGE_CLEAR, "d");
    set_put(&s, "d/2", "22"); /* there again */
    set_put(&s, "d/4", "4");
    COMMITS(&s, &fixture_a,
            "done deleted d/1; done modified d/2; done created d/4");
    TREE_IS(f, 0, "d/2=22 d/4=4");

    set_add(&t, CHANGE_REMOVE, "d");
    set_put(&t, "d", "a file now");
    COMMITS(&t, &fixture_a,
            "done deleted d/2; done deleted d/4; done created d");
    TREE_IS(f, 0, "d=a file now");
}

static void commit_clear_of_everything(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 3);

    put(f, "a", "1", NULL);
    put(f, "b/c", "2", NULL);
    put(f, "b/d", "3", NULL);
    set_add(&s, CHANGE_CLEAR, "");
    set_put(&s, "b/d", "4");
    COMMITS(&s, &fixture_a,
            "done deleted a; done deleted b/c; done modified b/d");
    TREE_IS(f, 0, "b/d=4");
}

static void commit_removes_folders_not_neighbours(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "delete"), none = set_new(f, "delete");

    put(f, "d/x", "1", NULL);
    put(f, "d-2", "2", NULL);
    put(f, "d.txt", "3", NULL);
    put(f, "d0", "4", NULL);
    set_add(&s, CHANGE_REMOVE, "d");
    COMMITS(&s, &fixture_a, "done deleted d/x");
    TREE_IS(f, 0, "d-2=2 d.txt=3 d0=4");
    set_add(&none, CHANGE_REMOVE, "d");
    COMMIT_REFUSED(&none, &fixture_a, ERR_NOT_FOUND);
    assert_int_equal(head_of(f), 5);
}

/* ---- moving, copying, renames ------------------------------------------- */

static void commit_moves_keep_the_file(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "move"), over = set_new(f, "move");
    struct workspace_info ws;
    char one[ID_MAX], two[ID_MAX];

    put(f, "d/1", "one", NULL);
    put(f, "d/e/2", "two", NULL);
    file_id(f, "d/1", one);
    file_id(f, "d/e/2", two);
    set_from(&s, CHANGE_MOVE, "d", "new/place");
    COMMITS(&s, &fixture_a,
            "done renamed new/place/1 < d/1; done renamed new/place/e/2 < "
            "d/e/2");
    SAME_FILE(f, "new/place/1", one);
    SAME_FILE(f, "new/place/e/2", two);
    TREE_IS(f, 0, "new/place/1=one new/place/e/2=two");
    TREE_IS(f, 2, "d/1=one d/e/2=two");
    info(f, &ws);
    assert_int_equal(ws.files, 2);
    assert_int_equal(ws.stored_bytes, 6); /* moving stores nothing */

    /* Onto a file: that one is gone, this one is what it was. */
    set_from(&over, CHANGE_MOVE, "new/place/1", "new/place/e/2");
    COMMITS(&over, &fixture_a, "done renamed new/place/e/2 < new/place/1");
    SAME_FILE(f, "new/place/e/2", one);
    TREE_IS(f, 0, "new/place/e/2=one");
    TREE_IS(f, 3, "new/place/1=one new/place/e/2=two");
    info(f, &ws);
    assert_int_equal(ws.files, 1);
    assert_int_equal(ws.bytes, 3);
}

static void commit_moves_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    static const char *const cases[][2] = {
        {"a", "a"}, {"d", "d/x"}, {"d/1", "d"}, {"a", ""}};

    put(f, "a", "1", NULL);
    put(f, "d/1", "2", NULL);
    put(f, "e/1", "3", NULL);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct set s = set_new(f, "move");

        set_from(&s, CHANGE_MOVE, cases[i][0], cases[i][1]);
        COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID);
    }
    {
        struct set none = set_new(f, "move"), file = set_new(f, "move"),
                   folder = set_new(f, "copy"), both = set_new(f, "move");

        set_from(&none, CHANGE_MOVE, "zzz", "y");
        COMMIT_REFUSED(&none, &fixture_a, ERR_NOT_FOUND);
        set_from(&file, CHANGE_MOVE, "a", "d");
        COMMIT_REFUSED(&file, &fixture_a, ERR_CONFLICT);
        set_from(&folder, CHANGE_COPY, "d", "a");
        COMMIT_REFUSED(&folder, &fixture_a, ERR_CONFLICT);
        set_from(&both, CHANGE_MOVE, "d", "e");
        COMMIT_REFUSED(&both, &fixture_a, ERR_CONFLICT);
    }
    assert_int_equal(head_of(f), 3);
}

static void commit_files_change_places(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "move");
    char one[ID_MAX], two[ID_MAX];

    put(f, "1", "one", NULL);
    put(f, "2", "two", NULL);
    file_id(f, "1", one);
    file_id(f, "2", two);
    set_from(&s, CHANGE_MOVE, "1", "t");
    set_from(&s, CHANGE_MOVE, "2", "1");
    set_from(&s, CHANGE_MOVE, "t", "2");
    COMMITS(&s, &fixture_a, "done renamed 1 < 2; done renamed 2 < 1");
    SAME_FILE(f, "2", one);
    SAME_FILE(f, "1", two);
    TREE_IS(f, 0, "1=two 2=one");
    TREE_IS(f, 2, "1=one 2=two");
}

static void commit_copies_are_new_files(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "copy");
    struct workspace_info ws;
    struct workspace_history_spec spec = {.path = "c/1", .limit = 1};
    struct workspace_event *events;
    char one[ID_MAX], version[ID_MAX];
    struct page_result got = {0};

    put(f, "d/1", "one", version);
    file_id(f, "d/1", one);
    set_from(&s, CHANGE_COPY, "d", "c");
    COMMITS(&s, &fixture_a, "done copied c/1 < d/1");
    OTHER_FILE(f, "c/1", one);
    TREE_IS(f, 0, "c/1=one d/1=one");
    info(f, &ws);
    assert_int_equal(ws.stored_bytes, 6);
    OK(f, workspace_history(f->w, &fixture_a, f->ws.id, &spec, &events, &got,
                            &f->err));
    assert_int_equal(got.count, 1);
    assert_string_equal(events[0].from_version, version);
    assert_string_equal(events[0].from_path, "d/1");
    workspace_events_free(events, got.count);
}

static void commit_finds_renames(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 4);
    char draft[ID_MAX], twin[ID_MAX], empty[ID_MAX];

    put(f, "draft.md", "a unique text", NULL);
    put(f, "twin1", "twins", NULL);
    put(f, "twin2", "twins", NULL);
    put(f, "empty", "", NULL);
    file_id(f, "draft.md", draft);
    file_id(f, "twin1", twin);
    file_id(f, "empty", empty);
    set_add(&s, CHANGE_REMOVE, "draft.md");
    set_put(&s, "final.md", "a unique text");
    set_add(&s, CHANGE_REMOVE, "twin1"); /* which of the two went? */
    set_add(&s, CHANGE_REMOVE, "twin2");
    set_put(&s, "twin3", "twins");
    set_add(&s, CHANGE_REMOVE, "empty"); /* nothing is like nothing */
    set_put(&s, "void", "");
    COMMITS(&s, &fixture_a,
            "done renamed final.md < draft.md; done deleted twin1; done "
            "deleted twin2; done created twin3; done deleted empty; done "
            "created void");
    SAME_FILE(f, "final.md", draft);
    OTHER_FILE(f, "twin3", twin);
    OTHER_FILE(f, "void", empty);
    TREE_IS(f, 4, "draft.md=a unique text empty= twin1=twins twin2=twins");
    TREE_IS(f, 0, "final.md=a unique text twin3=twins void=");
}

/* ---- conflicts ---------------------------------------------------------- */

static void conflict_is_kept_beside(void **state)
{
    struct fixture *f = *state;
    struct set one = set_session(f, SESSION_1, 1);
    struct set two = set_session(f, SESSION_2, 1);
    struct workspace_info ws;
    char id[ID_MAX];

    put(f, "data/report.csv", "base", NULL);
    set_put(&one, "data/report.csv", "one");
    set_put(&one, "other", "o");
    COMMITS(&one, &fixture_a,
            "done modified data/report.csv; done created other");
    set_put(&two, "data/report.csv", "two");
    set_put(&two, "mine", "m");
    COMMITS(&two, &fixture_b,
            "done created mine; conflict created "
            "data/report (conflict 22222222).csv ? data/report.csv");
    TREE_IS(f, 0,
            "data/report (conflict 22222222).csv=two data/report.csv=one "
            "mine=m other=o");

    /* The next change of the same session goes to the same copy. */
    file_id(f, "data/report (conflict 22222222).csv", id);
    two = set_session(f, SESSION_2, 1);
    set_put(&two, "data/report.csv", "two more");
    COMMITS(&two, &fixture_b,
            "conflict modified data/report (conflict 22222222).csv ? "
            "data/report.csv");
    SAME_FILE(f, "data/report (conflict 22222222).csv", id);
    /* Nothing new there: no commit. */
    COMMITS(&two, &fixture_b,
            "conflict  data/report (conflict 22222222).csv ? data/report.csv");
    info(f, &ws);
    assert_int_equal(ws.head, 4);

    /* A session that has seen the other's change is in no conflict. */
    two = set_session(f, SESSION_2, 4);
    set_put(&two, "data/report.csv", "merged");
    COMMITS(&two, &fixture_b, "done modified data/report.csv");
}

static void conflict_not_with_oneself_or_the_same(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 0);

    set_put(&s, "x", "1");
    COMMITS(&s, &fixture_a, "done created x");
    s = set_session(f, SESSION_1, 0); /* its base did not move */
    set_put(&s, "x", "2");
    COMMITS(&s, &fixture_a, "done modified x");
    s = set_session(f, SESSION_2, 0);
    set_put(&s, "x", "2"); /* by chance the same */
    COMMITS(&s, &fixture_a, "same  x");
    s = set_session(f, SESSION_2, 0);
    s.spec.base = 3;
    set_put(&s, "y", "2");
    COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID); /* no such base */
    s.spec.base = -1;
    COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID);
}

static void conflict_with_uploads_and_removals(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 4);
    struct set del = set_new(f, "delete"), move = set_new(f, "move");

    put(f, "changed", "1", NULL);
    put(f, "removed", "2", NULL);
    put(f, "moved", "3", NULL);
    put(f, "calm", "4", NULL);
    put(f, "changed", "by hand", NULL);
    set_add(&del, CHANGE_REMOVE, "removed");
    COMMITS(&del, &fixture_b, "done deleted removed");
    set_from(&move, CHANGE_MOVE, "moved", "elsewhere");
    COMMITS(&move, &fixture_b, "done renamed elsewhere < moved");

    set_add(&s, CHANGE_REMOVE, "changed"); /* not what it saw: stays */
    set_put(&s, "removed", "edited");
    set_put(&s, "moved", "edited too");
    set_add(&s, CHANGE_REMOVE, "calm");
    COMMITS(&s, &fixture_a,
            "kept deleted changed; done deleted calm; conflict created "
            "removed (conflict 11111111) ? removed; conflict created moved "
            "(conflict 11111111) ? moved");
    TREE_IS(f, 0,
            "changed=by hand elsewhere=3 moved (conflict 11111111)=edited too "
            "removed (conflict 11111111)=edited");
}

/* What came and went meanwhile was never seen and is in nobody's way. */
static void conflict_not_with_what_came_and_went(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 1), del = set_new(f, "delete");

    put(f, "x", "1", NULL);
    put(f, "tmp", "2", NULL);
    set_add(&del, CHANGE_REMOVE, "tmp");
    COMMITS(&del, &fixture_a, "done deleted tmp");
    set_put(&s, "tmp", "mine");
    COMMITS(&s, &fixture_a, "done created tmp");
}

static void conflict_of_files_and_folders(void **state)
{
    struct fixture *f = *state;
    struct set two = set_session(f, SESSION_2, 1);
    struct set one = set_session(f, SESSION_1, 1);

    put(f, "d/old", "0", NULL);
    set_put(&one, "d/new", "1"); /* others add to the folder */
    set_put(&one, "e", "1");     /* and make a file */
    COMMITS(&one, &fixture_a, "done created d/new; done created e");
    set_put(&two, "d", "a file");  /* it made the folder a file */
    set_put(&two, "e/x", "below"); /* and a folder of that name */
    COMMITS(&two, &fixture_b,
            "kept deleted d/new; done deleted d/old; kept deleted e; conflict "
            "created d (conflict 22222222) ? d; conflict created "
            "e (conflict 22222222)/x ? e/x");
    TREE_IS(f, 0,
            "d (conflict 22222222)=a file d/new=1 e=1 "
            "e (conflict 22222222)/x=below");
}

static void conflict_copy_of_someone_elses_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_2, 0);

    put(f, "x.txt", "1", NULL);
    set_put(&s, "x.txt", "two");
    COMMITS(&s, &fixture_b,
            "conflict created x (conflict 22222222).txt ? x.txt");
    put(f, "x (conflict 22222222).txt", "edited by hand", NULL);
    s = set_session(f, SESSION_2, 0);
    set_put(&s, "x.txt", "three");
    COMMITS(&s, &fixture_b,
            "conflict created x (conflict 22222222 2).txt ? x.txt");
    TREE_IS(f, 0,
            "x (conflict 22222222 2).txt=three x (conflict 22222222).txt="
            "edited by hand x.txt=1");
}

static void F5_conflict_names_stay_names(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_2, 0);
    char *part cleanup(mem_free) = xcalloc(400, 1);
    char *deep cleanup(mem_free) = xcalloc(1100, 1);
    struct workspace_commit c;

    /* 250 bytes of two-byte letters and an ending: cut between letters. */
    for (size_t i = 0; i < 125; i++)
        memcpy(part + 2 * i, "\xc3\xa4", 2);
    memcpy(part + 250, ".csv", 5);
    /* 1024 bytes: no room for a mark where it is. */
    for (size_t i = 0; i < 10; i++) {
        memset(deep + 100 * i, 'f', 99);
        deep[100 * i + 99] = '/';
    }
    memset(deep + 1000, 'n', 24);
    assert_int_equal(strlen(deep), 1024);
    put(f, part, "1", NULL);
    put(f, deep, "2", NULL);
    set_put(&s, part, "mine");
    set_put(&s, deep, "mine");
    OK(f, set_commit(&s, &fixture_b, &c));
    assert_int_equal(c.count, 2);
    assert_int_equal(c.results[0].fate, FATE_CONFLICT);
    assert_true(strlen(c.results[0].file.path) <= 255);
    assert_true(strlen(c.results[0].file.path) >= 254);
    assert_non_null(
        strstr(c.results[0].file.path, "\xc3\xa4 (conflict 22222222).csv"));
    assert_string_equal(c.results[1].file.path,
                        "nnnnnnnnnnnnnnnnnnnnnnnn (conflict 22222222)");
    workspace_commit_done(&c);
}

/* ---- preconditions ------------------------------------------------------ */

static void commit_if_match(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload"), n = set_new(f, "upload");
    struct workspace_file file;
    char first[ID_MAX], second[ID_MAX];

    put(f, "x", "1", first);
    put(f, "x", "2", second);
    set_put(&s, "x", "3");
    s.spec.if_match = first;
    COMMIT_REFUSED(&s, &fixture_b, ERR_PRECONDITION);
    assert_non_null(strstr(f->err.message, second));
    assert_non_null(strstr(f->err.message, KEY_A));
    assert_non_null(strstr(f->err.message, "Z"));
    s.spec.if_match = second;
    COMMITS(&s, &fixture_b, "done modified x");
    get(f, "x", &file);
    s.changes[0].sha256 = NULL;
    s = set_new(f, "upload");
    set_put(&s, "x", "4");
    s.spec.if_match = file.sha256;
    COMMITS(&s, &fixture_b, "done modified x");
    COMMIT_REFUSED(&s, &fixture_b, ERR_PRECONDITION);
    workspace_file_done(&file);

    n.spec.if_match = "*";
    set_put(&n, "y", "1");
    COMMIT_REFUSED(&n, &fixture_b, ERR_PRECONDITION);
    n.spec.if_match = NULL;
    n.spec.if_none_match = true;
    COMMITS(&n, &fixture_b, "done created y");
    COMMIT_REFUSED(&n, &fixture_b, ERR_PRECONDITION);
    assert_int_equal(head_of(f), 5);
}

/* ---- quota -------------------------------------------------------------- */

static void quota_at_and_above(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload"), t = set_new(f, "upload");
    struct workspace_info ws;

    f->settings.workspace_quota_bytes = 10;
    fixture_reopen(f);
    info(f, &ws);
    assert_int_equal(ws.quota_bytes, 10);
    put(f, "a", "123456789", NULL); /* 9 */
    set_put(&s, "b", "xy");
    COMMIT_REFUSED(&s, &fixture_a, ERR_SPACE);
    assert_non_null(strstr(f->err.message, "9 of 10"));
    put(f, "b", "x", NULL); /* 10: at the limit */
    set_put(&t, "c", "");
    COMMITS(&t, &fixture_a, "done created c"); /* nothing more is fine */
    {
        struct set m = set_new(f, "move"), c = set_new(f, "copy");

        set_from(&m, CHANGE_MOVE, "a", "aa"); /* so is moving */
        COMMITS(&m, &fixture_a, "done renamed aa < a");
        set_from(&c, CHANGE_COPY, "b", "bb");
        COMMIT_REFUSED(&c, &fixture_a, ERR_SPACE);
    }
    {
        struct workspace_patch p = {.quota_bytes = 11,
                                    .keep_versions = -1,
                                    .keep_days = -1,
                                    .legal_hold = -1};

        OK(f, workspace_patch(f->w, &fixture_r, f->ws.id, &p, &ws, &f->err));
        put(f, "d", "1", NULL);
    }
}

static void quota_of_a_session_is_by_path(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 0);
    struct workspace_info ws;

    f->settings.workspace_quota_bytes = 10;
    fixture_reopen(f);
    set_put(&s, "1", "12345");
    set_put(&s, "2", "too large");
    set_put(&s, "3", "12345");
    set_put(&s, "4", "1");
    COMMITS(&s, &fixture_a,
            "done created 1; quota created 2; done created 3; quota created "
            "4");
    TREE_IS(f, 0, "1=12345 3=12345");
    info(f, &ws);
    assert_int_equal(ws.stored_bytes, 10);
    assert_int_equal(ws.files, 2);
}

static void quota_of_a_tenant(void **state)
{
    struct fixture *f = *state;
    struct workspace_spec spec = {.name = "second"};
    struct workspace_info first = f->ws, second;
    struct workspace_usage use;
    struct set s = set_new(f, "upload");

    f->settings.tenant_quota_bytes = 10;
    fixture_reopen(f);
    OK(f, workspace_create(f->w, &fixture_a, &spec, &second, &f->err));
    put(f, "a", "123456", NULL);
    f->ws = second;
    set_put(&s, "b", "12345");
    COMMIT_REFUSED(&s, &fixture_a, ERR_SPACE);
    assert_non_null(strstr(f->err.message, "6 of 10"));
    put(f, "b", "1234", NULL);
    OK(f, workspace_usage(f->w, &fixture_b, &use, &f->err));
    assert_int_equal(use.workspaces, 2);
    assert_int_equal(use.stored_bytes, 10);
    assert_int_equal(use.quota_bytes, 10);
    /* Another tenant has its own. */
    spec.name = "theirs";
    OK(f, workspace_create(f->w, &fixture_x, &spec, &f->ws, &f->err));
    s = set_new(f, "upload");
    set_put(&s, "b", "12345");
    COMMITS(&s, &fixture_x, "done created b");
    /* What was destroyed no longer counts, though the room is remembered. */
    OK(f, workspace_destroy(f->w, &fixture_a, first.id, &f->err));
    f->ws = second;
    put(f, "c", "123456", NULL);
}

/* ---- what is recorded --------------------------------------------------- */

static void O1_commit_is_audited(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload");
    struct set e = set_session(f, SESSION_1, 2);
    struct audit_line line;
    char first[ID_MAX], second[ID_MAX];

    put(f, "x", "1", first);
    s.spec.action = "file.put";
    set_put(&s, "x", "2");
    COMMITS(&s, &fixture_b, "done modified x");
    {
        struct workspace_file file;

        get(f, "x", &file);
        memcpy(second, file.version, sizeof(second));
        workspace_file_done(&file);
    }
    last_event(f, "file.put", &line);
    assert_string_equal(line.actor, KEY_B);
    assert_string_equal(line.path, "x");
    assert_string_equal(line.before, first);
    assert_string_equal(line.after, second);
    assert_string_equal(line.workspace, f->ws.id);
    assert_string_equal(line.result, "ok");
    event_done(&line);

    e.spec.execution = "exec_00000000000000000000000000000001";
    e.spec.action = "execution.commit";
    set_put(&e, "y", "1");
    set_put(&e, "x", "3");
    set_add(&e, CHANGE_REMOVE, "nothing");
    COMMITS(&e, &fixture_a, "done created y; done modified x");
    last_event(f, "execution.commit", &line);
    assert_non_null(strstr(line.detail, "1 created, 1 modified"));
    assert_true(strncmp(line.after, "cmt_", 4) == 0);
    event_done(&line);
}

static void count_call(void *ctx)
{
    ++*(int *)ctx;
}

static void commit_tells_the_listener(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload");
    int calls = 0;

    workspaces_on_commit(f->w, count_call, &calls);
    put(f, "x", "1", NULL);
    assert_int_equal(calls, 1);
    set_put(&s, "x", "1");
    COMMITS(&s, &fixture_a, "same  x"); /* nothing was committed */
    assert_int_equal(calls, 1);
    set_put(&s, "x/y", "1");
    COMMIT_REFUSED(&s, &fixture_a, ERR_CONFLICT);
    assert_int_equal(calls, 1);
    workspaces_on_commit(f->w, NULL, NULL);
    put(f, "x", "2", NULL);
    assert_int_equal(calls, 1);
}

static void commit_refuses_what_is_too_long(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload");
    char *text cleanup(mem_free) = xcalloc(300, 1);

    memset(text, 'c', 256);
    set_put(&s, "x", "1");
    s.spec.conversation = text;
    COMMITS(&s, &fixture_a, "done created x");
    text[256] = 'c';
    s = set_new(f, "upload");
    set_put(&s, "x", "2");
    s.spec.conversation = text;
    COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID);
    s.spec.conversation = "two\nlines";
    COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID);
    s.spec.conversation = NULL;
    s.changes[0].sha256 = "abc";
    COMMIT_REFUSED(&s, &fixture_a, ERR_INTERNAL);
    assert_int_equal(head_of(f), 1);
}

/* ---- many --------------------------------------------------------------- */

#define MANY 100000u

static void name_of(unsigned i, char ret[64])
{
    (void)snprintf(ret, 64, "d%02u/e%02u/file-%06u.txt", i % 50, i / 50 % 40,
                   i);
}

/* Blobs are not looked at by a commit; these are not there. */
static void many(struct fixture *f, const char *session,
                 struct workspace_commit *ret)
{
    struct workspace_change *changes cleanup(mem_free) =
        xcalloc(MANY, sizeof(*changes));
    char(*names)[64] = xcalloc(MANY, sizeof(*names));
    char(*sums)[BLOB_NAME] = xcalloc(MANY, sizeof(*sums));
    struct workspace_commit_spec spec = {.kind = "execution",
                                         .session = session,
                                         .changes = changes,
                                         .count = MANY};

    for (unsigned i = 0; i < MANY; i++) {
        unsigned char hash[HASH_SIZE];

        name_of(i, names[i]);
        hash_sha256(names[i], strlen(names[i]), hash);
        (void)ids_hex(hash, sizeof(hash), sums[i]);
        changes[i].kind = CHANGE_PUT;
        changes[i].path = names[i];
        changes[i].sha256 = sums[i];
        changes[i].size = 7;
    }
    OK(f, workspace_commit(f->w, &fixture_a, f->ws.id, &spec, ret, &f->err));
    free(names);
    free(sums);
}

static void commit_of_100000_files(void **state)
{
    struct fixture *f = *state;
    struct workspace_commit c;
    struct workspace_info ws;
    struct workspace_file *files;
    struct set move = set_new(f, "move"), del = set_new(f, "delete");
    struct page_result got = {0};

    many(f, SESSION_1, &c);
    assert_int_equal(c.count, MANY);
    assert_int_equal(c.seq, 1);
    for (size_t i = 0; i < c.count; i++)
        assert_int_equal(c.results[i].fate, FATE_DONE);
    workspace_commit_done(&c);
    info(f, &ws);
    assert_int_equal(ws.files, MANY);
    assert_int_equal(ws.bytes, 7 * (uint64_t)MANY);

    many(f, SESSION_2, &c); /* all the same */
    assert_string_equal(c.id, "");
    workspace_commit_done(&c);

    /* One page in the middle of them, one level, and as of then. */
    for (int i = 0; i < 100; i++) {
        OK(f, workspace_files_list(
                  f->w, &fixture_a, f->ws.id,
                  &(struct workspace_files_spec){.prefix = "d25/",
                                                 .at = i % 2,
                                                 .level = i / 2 % 2,
                                                 .limit = 100,
                                                 .after = "d25/e10"},
                  &files, &got, &f->err));
        assert_int_equal(got.count, i / 2 % 2 ? 30 : 100);
        workspace_files_free(files, got.count);
    }

    set_from(&move, CHANGE_MOVE, "d25", "m");
    OK(f, set_commit(&move, &fixture_a, &c));
    assert_int_equal(c.count, MANY / 50);
    workspace_commit_done(&c);
    set_add(&del, CHANGE_REMOVE, "m");
    OK(f, set_commit(&del, &fixture_a, &c));
    assert_int_equal(c.count, MANY / 50);
    workspace_commit_done(&c);
    info(f, &ws);
    assert_int_equal(ws.files, MANY - MANY / 50);
}

/* Sets made to be slow are not: each file is walked over once. */
static void commit_of_a_hostile_set(void **state)
{
    struct fixture *f = *state;
    unsigned n = 40000;
    struct workspace_change *changes cleanup(mem_free) =
        xcalloc(n, sizeof(*changes));
    char(*names)[64] = xcalloc(n, sizeof(*names));
    struct workspace_commit_spec spec = {.kind = "execution",
                                         .session = SESSION_1,
                                         .changes = changes,
                                         .count = n};
    struct workspace_commit c;
    char sum[BLOB_NAME];
    uint64_t started = clock_mono_ms();

    fixture_blob(f, "x", sum);
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "a/%u", i);
        changes[i].kind = CHANGE_PUT;
        changes[i].path = i < n / 2 || i % 2 ? names[i] : "a";
        changes[i].sha256 = sum;
        changes[i].size = 1;
    }
    OK(f, workspace_commit(f->w, &fixture_a, f->ws.id, &spec, &c, &f->err));
    assert_int_equal(c.count, 1);
    RESULTS_ARE(&c, "done created a/39999");
    workspace_commit_done(&c);
    free(names);
    assert_true(clock_mono_ms() - started < 20000);
}

/* ---- two at once -------------------------------------------------------- */

struct racer {
    struct fixture *f;
    const char *session;
    const struct actor *who;
    unsigned done, conflicts, refused;
};

static void *race(void *arg)
{
    struct racer *r = arg;

    for (unsigned i = 0; i < 20; i++) {
        struct fixture own = *r->f; /* with an error of its own */
        struct set s = set_session(&own, r->session, 1);
        struct workspace_commit c;
        char text[80];

        (void)snprintf(text, sizeof(text), "%s %u", r->session, i);
        set_put(&s, "shared.txt", text);
        if (set_commit(&s, r->who, &c) < 0) {
            r->refused++;
            continue;
        }
        r->done += c.results[0].fate == FATE_DONE;
        r->conflicts += c.results[0].fate == FATE_CONFLICT;
        workspace_commit_done(&c);
    }
    return NULL;
}

/* One of them wins the path, the other's changes are all beside it. */
static void race_of_two_sessions_on_a_file(void **state)
{
    struct fixture *f = *state;
    struct racer racers[2] = {
        {.f = f, .session = SESSION_1, .who = &fixture_a},
        {.f = f, .session = SESSION_2, .who = &fixture_b}};
    struct workspace_history_spec spec = {.limit = 100};
    struct workspace_event *events;
    pthread_t threads[2];
    struct page_result got = {0};

    put(f, "shared.txt", "base", NULL);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]),
                         0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(racers[0].done + racers[1].done, 20);
    assert_int_equal(racers[0].conflicts + racers[1].conflicts, 20);
    assert_int_equal(racers[0].refused + racers[1].refused, 0);
    assert_true(racers[0].done == 0 || racers[1].done == 0);
    OK(f, workspace_history(f->w, &fixture_a, f->ws.id, &spec, &events, &got,
                            &f->err));
    assert_int_equal(got.count, 41); /* nothing was overwritten unseen */
    for (size_t i = 0; i < got.count; i++)
        assert_int_equal(events[i].seq, 41 - (int64_t)i);
    workspace_events_free(events, got.count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(commit_creates_modifies_deletes),
        CASE(D1_commit_survives_reopen),
        CASE(commit_of_the_same_bytes_makes_none),
        CASE(commit_mime_by_name_or_as_told),
        CASE(F5_commit_refuses_bad_paths),
        CASE(commit_a_file_where_a_folder_is),
        CASE(commit_takes_changes_in_order),
        CASE(commit_clear_of_everything),
        CASE(commit_removes_folders_not_neighbours),
        CASE(commit_moves_keep_the_file),
        CASE(commit_moves_that_cannot_be),
        CASE(commit_files_change_places),
        CASE(commit_copies_are_new_files),
        CASE(commit_finds_renames),
        CASE(conflict_is_kept_beside),
        CASE(conflict_not_with_oneself_or_the_same),
        CASE(conflict_with_uploads_and_removals),
        CASE(conflict_not_with_what_came_and_went),
        CASE(conflict_of_files_and_folders),
        CASE(conflict_copy_of_someone_elses_is_left_alone),
        CASE(F5_conflict_names_stay_names),
        CASE(commit_if_match),
        CASE(quota_at_and_above),
        CASE(quota_of_a_session_is_by_path),
        CASE(quota_of_a_tenant),
        CASE(O1_commit_is_audited),
        CASE(commit_tells_the_listener),
        CASE(commit_refuses_what_is_too_long),
        CASE(commit_of_100000_files),
        CASE(commit_of_a_hostile_set),
        CASE(race_of_two_sessions_on_a_file),
    };

    return cmocka_run_group_tests_name("workspace_commit", tests, NULL, NULL);
}
