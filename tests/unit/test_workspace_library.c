/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace/library: files uploaded for themselves are one file each whatever
 * they are called, are listed by age without a gap or a repeat, and go when
 * their time is over. Also listings of a workspace by age, which stand on the
 * same columns.
 */
#include "workspace_library.h"

#include <pthread.h>

#include "base/path.h"
#include "base/utf8.h"

/* ---- files -------------------------------------------------------------- */

static void added_file_is_there_with_all_it_was_given(void **state)
{
    struct kept *f = *state;
    struct library_spec spec = {
        .filename = "data.csv", .purpose = "user_data", .expires_s = 3600};
    struct library_file made, got;
    struct workspace_info info;
    int64_t before = clock_real_ms();

    assert_int_equal(libraries(f), 0);
    MUST(f, add_spec(f, &f->who, spec, "a,b\n", &made));
    assert_true(ids_valid("file", made.file));
    MUST(f, library_get(f->w, &f->who, made.file, &got, &f->err));
    assert_string_equal(got.file, made.file);
    assert_string_equal(got.version, made.version);
    assert_string_equal(got.workspace, made.workspace);
    assert_string_equal(got.filename, "data.csv");
    assert_string_equal(got.filename, made.filename);
    assert_string_equal(got.purpose, "user_data");
    assert_string_equal(got.sha256, made.sha256);
    assert_string_equal(got.mime, "text/csv");
    assert_string_equal(made.mime, "text/csv");
    assert_int_equal(got.size, 4);
    assert_int_equal(made.size, 4);
    assert_true(got.created_at_ms >= before);
    assert_int_equal(got.created_at_ms, made.created_at_ms);
    assert_int_equal(got.expires_at_ms, got.created_at_ms + 3600 * 1000);
    assert_int_equal(got.expires_at_ms, made.expires_at_ms);
    assert_bytes(f, &got, "a,b\n");
    MUST(f, workspace_get(f->w, &f->who, made.workspace, &info, &f->err));
    assert_string_equal(info.name, "Files");
    assert_int_equal(info.files, 1);
    assert_false(info.made_for_session);
    assert_true(info.keep_days > 0); /* else removed bytes stay for ever */
    assert_int_equal(events(f, "file.add"), 1);
    assert_int_equal(NUMBER(f,
                            "SELECT count(*) FROM audit WHERE action ="
                            " 'file.add' AND object = ?1",
                            made.file),
                     1);
    library_file_done(&made);
    library_file_done(&got);
}

static void given_type_wins_and_a_bad_one_does_not(void **state)
{
    struct kept *f = *state;
    struct library_spec spec = {.filename = "x.csv", .purpose = "p"};
    struct library_file made;

    spec.mime = "application/x-own";
    MUST(f, add_spec(f, &f->who, spec, "1", &made));
    assert_string_equal(made.mime, "application/x-own");
    assert_int_equal(made.expires_at_ms, 0);
    library_file_done(&made);
    spec.mime = "a/b\r\nX: y";
    MUST(f, add_spec(f, &f->who, spec, "1", &made));
    assert_string_equal(made.mime, "text/csv");
    library_file_done(&made);
}

static void same_name_and_bytes_are_another_file(void **state)
{
    struct kept *f = *state;
    char one[ID_MAX], two[ID_MAX];

    add(f, "x.txt", "user_data", "same", one);
    add(f, "x.txt", "user_data", "same", two);
    assert_string_not_equal(one, two);
    LISTS(f, &f->who, NULL, true, 0, NULL, "x.txt x.txt", false);
    MUST(f, library_remove(f->w, &f->who, one, &f->err));
    MUST(f, get(f, &f->who, two));
    assert_int_equal(libraries(f), 1);
}

static void purposes_are_checked(void **state)
{
    struct kept *f = *state;
    char most[LIBRARY_PURPOSE_MAX + 2];
    const struct {
        const char *purpose;
        bool good;
    } cases[] = {{"fine-tune", true}, {"assistants_output", true},
                 {most + 1, true},    {most, false},
                 {"", false},         {NULL, false},
                 {"Upper", false},    {"with space", false},
                 {"quote\"", false},  {"\xc3\xa4", false}};
    struct library_file made;

    memset(most, 'p', sizeof(most) - 1);
    most[sizeof(most) - 1] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int r = add_spec(f, &f->who,
                         (struct library_spec){.filename = "x",
                                               .purpose = cases[i].purpose},
                         "x", &made);

        assert_int_equal(r, cases[i].good ? 0 : -ERR_INVALID);
        if (r == 0)
            library_file_done(&made);
    }
}

/* ---- names -------------------------------------------------------------- */

static void names_of_all_kinds_become_paths(void **state)
{
    static const struct {
        const char *sent, *name;
    } cases[] = {
        {"plain.txt", "plain.txt"},
        {"dir/sub/a.txt", "a.txt"},
        {"C:\\Users\\me\\b.txt", "b.txt"},
        {"mixed\\x/y\\c.txt", "c.txt"},
        {"/etc/passwd", "passwd"},
        {"../../up", "up"},
        {"", "file"},
        {NULL, "file"},
        {".", "file"},
        {"..", "file"},
        {"...", "..."},
        {"folder/", "file"},
        {"a/..", "file"},
        {".hidden", ".hidden"},
        {"tab\there\nand\x7f.txt", "tab_here_and_.txt"},
        {"c1\xc2\x85.txt", "c1_.txt"},
        {"bad\xff\xfe.bin", "bad__.bin"},
        {"cut\xe2\x82", "cut__"},
        {"gr\xc3\xbc\xc3\x9f \xe6\x97\xa5\xe6\x9c\xac.txt",
         "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5\xe6\x9c\xac.txt"},
        {" spaces ", " spaces "},
        {"quote\"'%s<>.txt", "quote\"'%s<>.txt"},
    };
    struct kept *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct library_file made;
        char workspace[ID_MAX];
        char *path cleanup(mem_free) = NULL;

        MUST(f, add_spec(f, &f->who,
                         (struct library_spec){.filename = cases[i].sent,
                                               .purpose = "p"},
                         "x", &made));
        assert_string_equal(made.filename, cases[i].name);
        path_of(f, made.file, workspace, &path);
        assert_null(path_fault(path, strlen(path)));
        assert_string_equal(strrchr(path, '/') + 1, cases[i].name);
        library_file_done(&made);
    }
}

static char *name_of(struct kept *f, const char *sent)
{
    struct library_file made;

    MUST(f, add_spec(f, &f->who,
                     (struct library_spec){.filename = sent, .purpose = "p"},
                     "x", &made));
    assert_true(strlen(made.filename) <= LIBRARY_NAME_MAX);
    assert_true(utf8_valid(made.filename, strlen(made.filename)));
    return made.filename;
}

static void long_names_keep_their_ending(void **state)
{
    struct kept *f = *state;
    char sent[1024];
    char *got;

    memset(sent, 'a', 255); /* just the most */
    (void)snprintf(sent + 251, sizeof(sent) - 251, ".csv");
    got = name_of(f, sent);
    assert_string_equal(got, sent);
    free(got);
    memset(sent, 'a', 256); /* one more */
    (void)snprintf(sent + 252, sizeof(sent) - 252, ".csv");
    got = name_of(f, sent);
    assert_int_equal(strlen(got), 255);
    assert_string_equal(got + 251, ".csv");
    assert_int_equal(strspn(got, "a"), 251);
    free(got);
    for (size_t i = 0; i < 200; i++) /* three bytes each */
        memcpy(sent + 3 * i, "\xe6\x97\xa5", 3);
    (void)snprintf(sent + 600, sizeof(sent) - 600, ".txt");
    got = name_of(f, sent);
    assert_int_equal(strlen(got), 83 * 3 + 4);
    assert_string_equal(got + 83 * 3, ".txt");
    free(got);
    memset(sent, 'b', 600); /* what is this long is no ending */
    sent[10] = '.';
    sent[600] = '\0';
    got = name_of(f, sent);
    assert_int_equal(strlen(got), 255);
    assert_int_equal(got[10], '.');
    free(got);
}

/* ---- one library -------------------------------------------------------- */

struct racer {
    struct kept *f;
    struct actor who;
    bool only_domain;
    int r;
    struct error err;
    pthread_barrier_t *start;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct library_spec spec = {.filename = "x", .purpose = "p", .size = 1};
    struct library_file made;
    char sha256[BLOB_NAME], domain[BLOB_OWNER];

    sha_of("x", 1, sha256);
    spec.sha256 = sha256;
    (void)pthread_barrier_wait(r->start);
    r->r = library_blob_owner(r->f->w, &r->who, domain, &r->err);
    if (r->r == 0 && !r->only_domain) {
        r->r = library_add(r->f->w, &r->who, &spec, &made, &r->err);
        if (r->r == 0)
            library_file_done(&made);
    }
    return NULL;
}

static void many_at_once_make_one_library(void **state)
{
    struct kept *f = *state;
    enum {
        RACERS = 8
    };
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    pthread_barrier_t start;
    char sha256[BLOB_NAME];
    bool more;
    char *all;

    store_bytes_of(f, "x", 1, sha256);
    (void)pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.f = f,
                                   .who = i % 2 ? f->who : colleague,
                                   .only_domain = i % 4 == 3,
                                   .start = &start};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]),
                         0);
    }
    for (int i = 0; i < RACERS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < RACERS; i++)
        if (racers[i].r < 0)
            fail_msg("%s", racers[i].err.message);
    (void)pthread_barrier_destroy(&start);
    assert_int_equal(libraries(f), 1);
    all = listed(f, &f->who, NULL, true, 0, NULL, &more);
    assert_string_equal(all, "x x x x x x");
    free(all);
    blob_release(f->blobs, sha256);
}

static void library_is_found_after_a_restart_and_made_anew_when_gone(
    void **state)
{
    struct kept *f = *state;
    char one[ID_MAX], two[ID_MAX], home[ID_MAX];
    struct workspace_info info;
    char *path;

    add(f, "old", "p", "x", one);
    path_of(f, one, home, &path);
    free(path);
    kept_reopen(f);
    add(f, "older", "p", "x", two);
    assert_int_equal(libraries(f), 1);
    f->settings.restore_window_s = 3600;
    kept_reopen(f);
    MUST(f, workspace_delete(f->w, &f->who, home, &f->err));
    assert_int_equal(get(f, &f->who, one), -ERR_NOT_FOUND);
    LISTS(f, &f->who, NULL, true, 0, NULL, "", false);
    add(f, "new", "p", "x", two);
    LISTS(f, &f->who, NULL, true, 0, NULL, "new", false);
    assert_int_equal(libraries(f), 2);
    set_age(f, one, 5);
    MUST(f, workspace_undelete(f->w, &f->who, home, &info, &f->err));
    MUST(f, get(f, &f->who, one));
    LISTS(f, &f->who, NULL, true, 0, NULL, "old older new", false);
    LISTS(f, &f->who, NULL, true, 0, one, "older new", false);
}

static void I3_foreign_files_are_unknown_ones(void **state)
{
    struct kept *f = *state;
    char mine[ID_MAX], unknown[ID_MAX];
    struct library_file got;
    struct error err;

    add(f, "x", "p", "x", mine);
    ids_make("file", unknown);
    assert_int_equal(library_get(f->w, &stranger, unknown, &got, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(library_get(f->w, &stranger, mine, &got, &err),
                     -ERR_NOT_FOUND);
    assert_string_equal(err.message, f->err.message);
    assert_int_equal(library_remove(f->w, &stranger, unknown, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(library_remove(f->w, &stranger, mine, &err),
                     -ERR_NOT_FOUND);
    assert_string_equal(err.message, f->err.message);
    LISTS(f, &stranger, NULL, true, 0, NULL, "", false);
    LISTS(f, &stranger, NULL, true, 0, mine, "", false);
    MUST(f, get(f, &colleague, mine)); /* the whole tenant's */
    LISTS(f, &colleague, NULL, true, 0, NULL, "x", false);
    MUST(f, add_spec(f, &stranger,
                     (struct library_spec){.filename = "y", .purpose = "p"},
                     "y", &got));
    LISTS(f, &stranger, NULL, true, 0, NULL, "y", false);
    LISTS(f, &f->who, NULL, true, 0, NULL, "x", false);
    assert_int_equal(libraries(f), 2);
    library_file_done(&got);
}

static void members_say_who_may(void **state)
{
    struct kept *f = *state;
    char file[ID_MAX], home[ID_MAX], domain[BLOB_OWNER];
    struct library_file made;
    char *path;

    add(f, "x", "p", "x", file);
    path_of(f, file, home, &path);
    free(path);
    MUST(f,
         workspace_member_set(f->w, &f->who, home, "*", ROLE_VIEWER, &f->err));
    MUST(f, get(f, &colleague, file));
    assert_int_equal(library_remove(f->w, &colleague, file, &f->err),
                     -ERR_FORBIDDEN);
    assert_int_equal(library_blob_owner(f->w, &colleague, domain, &f->err),
                     -ERR_FORBIDDEN);
    MUST(f,
         workspace_member_set(f->w, &f->who, home, "*", ROLE_NONE, &f->err));
    assert_int_equal(get(f, &colleague, file), -ERR_NOT_FOUND);
    LISTS(f, &colleague, NULL, true, 0, NULL, "", false);
    assert_int_equal(library_blob_owner(f->w, &colleague, domain, &f->err),
                     -ERR_FORBIDDEN);
    assert_int_equal(
        add_spec(f, &colleague,
                 (struct library_spec){.filename = "y", .purpose = "p"}, "y",
                 &made),
        -ERR_FORBIDDEN);
    assert_int_equal(libraries(f), 1);
    MUST(f, library_blob_owner(f->w, &f->who, domain, &f->err));
    assert_string_equal(domain, f->domain);
}

static void quota_of_the_tenant_holds(void **state)
{
    struct kept *f = *state;
    struct library_spec spec = {.filename = "x", .purpose = "p"};
    struct library_file made;
    struct library_upload u;

    f->settings.tenant_quota_bytes = 10;
    kept_reopen(f);
    MUST(f, add_spec(f, &f->who, spec, "1234567", &made));
    library_file_done(&made);
    assert_int_equal(add_spec(f, &f->who, spec, "1234", &made), -ERR_SPACE);
    spec.size = 4;
    assert_int_equal(library_upload_begin(f->w, &f->who, &spec, &u, &f->err),
                     -ERR_SPACE);
    MUST(f, add_spec(f, &f->who, spec, "123", &made));
    library_file_done(&made);
    assert_int_equal(
        NUMBER(f, "SELECT count(*) FROM library WHERE file <> ?1", ""), 2);
}

/* ---- any file ----------------------------------------------------------- */

static void files_of_other_workspaces_have_a_purpose_too(void **state)
{
    struct kept *f = *state;
    char sha256[BLOB_NAME], unknown[ID_MAX], put_id[ID_MAX], made_id[ID_MAX];
    const struct workspace_change change = {.kind = CHANGE_PUT,
                                            .path = "out/plot.png",
                                            .sha256 = sha256,
                                            .size = 3};
    struct workspace_commit_spec spec = {
        .kind = "execution",
        .session = "sess_11111111111111111111111111111111",
        .execution = "exec_11111111111111111111111111111111",
        .changes = &change,
        .count = 1};
    struct workspace_commit done;
    struct workspace_file file;
    struct library_file got;

    (void)put(f, "in/data.csv", "a");
    MUST(f, workspace_file_get(f->w, &f->who, f->ws, "in/data.csv", NULL,
                               &file, &f->err));
    memcpy(put_id, file.file, ID_MAX);
    workspace_file_done(&file);
    store_bytes_of(f, "png", 3, sha256);
    MUST(f, workspace_commit(f->w, &f->who, f->ws, &spec, &done, &f->err));
    memcpy(made_id, done.results[0].file.file, ID_MAX);
    workspace_commit_done(&done);
    MUST(f, library_get(f->w, &f->who, put_id, &got, &f->err));
    assert_string_equal(got.purpose, "user_data");
    assert_string_equal(got.filename, "data.csv");
    assert_string_equal(got.workspace, f->ws);
    assert_int_equal(got.expires_at_ms, 0);
    assert_true(got.created_at_ms > 0);
    library_file_done(&got);
    MUST(f, library_get(f->w, &f->who, made_id, &got, &f->err));
    assert_string_equal(got.purpose, "assistants_output");
    assert_string_equal(got.filename, "plot.png");
    library_file_done(&got);
    /* Neither is of the library, which is not even there. */
    LISTS(f, &f->who, NULL, true, 0, NULL, "", false);
    LISTS(f, &f->who, NULL, true, 0, put_id, "", false);
    assert_int_equal(get(f, &colleague, put_id), -ERR_NOT_FOUND);
    assert_int_equal(library_remove(f->w, &colleague, put_id, &f->err),
                     -ERR_NOT_FOUND);
    MUST(f, workspace_member_set(f->w, &f->who, f->ws, VIEWER, ROLE_VIEWER,
                                 &f->err));
    assert_int_equal(
        library_remove(f->w, &(struct actor){.tenant = "t", .key = VIEWER},
                       put_id, &f->err),
        -ERR_FORBIDDEN);
    MUST(f, library_remove(f->w, &f->who, put_id, &f->err));
    assert_int_equal(get(f, &f->who, put_id), -ERR_NOT_FOUND);
    assert_int_equal(library_remove(f->w, &f->who, put_id, &f->err),
                     -ERR_NOT_FOUND);
    MUST(f, get(f, &f->who, made_id));
    ids_make("file", unknown);
    assert_int_equal(get(f, &f->who, unknown), -ERR_NOT_FOUND);
}

static void removal_is_a_commit(void **state)
{
    struct kept *f = *state;
    char file[ID_MAX], home[ID_MAX];
    struct library_file made;
    struct workspace_commit done;
    char *path;

    MUST(f, add_spec(f, &f->who,
                     (struct library_spec){.filename = "x", .purpose = "p"},
                     "bytes", &made));
    memcpy(file, made.file, ID_MAX);
    path_of(f, file, home, &path);
    MUST(f, library_remove(f->w, &f->who, file, &f->err));
    assert_int_equal(get(f, &f->who, file), -ERR_NOT_FOUND);
    assert_int_equal(events(f, "file.delete"), 1);
    LISTS(f, &f->who, NULL, true, 0, NULL, "", false);
    /* History has it: brought back, it is a file like others. */
    MUST(f, workspace_restore(f->w, &f->who, home,
                              &(struct workspace_restore_spec){
                                  .version = made.version, .path = path},
                              NULL, 0, &done, &f->err));
    assert_string_equal(done.results[0].file.file, file);
    workspace_commit_done(&done);
    library_file_done(&made);
    MUST(f, library_get(f->w, &f->who, file, &made, &f->err));
    assert_string_equal(made.purpose, "user_data");
    assert_string_equal(made.filename, "x");
    assert_bytes(f, &made, "bytes");
    library_file_done(&made);
    free(path);
}

static void deleted_in_the_workspace_is_not_found(void **state)
{
    struct kept *f = *state;
    char file[ID_MAX], home[ID_MAX];
    struct workspace_change change = {.kind = CHANGE_REMOVE};
    struct workspace_commit done;
    struct library_file made;
    char *path;

    add(f, "x", "vision", "x", file);
    MUST(f, library_get(f->w, &f->who, file, &made, &f->err));
    path_of(f, file, home, &path);
    change.path = path;
    (void)commit(f, home, &change, 1);
    assert_int_equal(get(f, &f->who, file), -ERR_NOT_FOUND);
    assert_int_equal(library_remove(f->w, &f->who, file, &f->err),
                     -ERR_NOT_FOUND);
    LISTS(f, &f->who, NULL, true, 0, NULL, "", false);
    /* Brought back there, it is one of the library again. */
    MUST(f, workspace_restore(f->w, &f->who, home,
                              &(struct workspace_restore_spec){
                                  .version = made.version, .path = path},
                              NULL, 0, &done, &f->err));
    workspace_commit_done(&done);
    library_file_done(&made);
    MUST(f, library_get(f->w, &f->who, file, &made, &f->err));
    assert_string_equal(made.purpose, "vision");
    LISTS(f, &f->who, NULL, true, 0, NULL, "x", false);
    library_file_done(&made);
    free(path);
}

static void expired_files_are_gone_before_the_sweep(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;
    struct workspace_lock lock;
    char old[ID_MAX], held[ID_MAX], dead[ID_MAX], kept[ID_MAX], home[ID_MAX];
    char token[65], sha256[BLOB_NAME];
    struct workspace_change change = {.kind = CHANGE_REMOVE};
    uint64_t removed = 99;
    char *path;

    add(f, "old", "p", "old bytes", old);
    add(f, "held", "p", "held bytes", held);
    add(f, "dead", "p", "dead bytes", dead);
    add(f, "kept", "p", "kept bytes", kept);
    path_of(f, dead, home, &path);
    change.path = path;
    (void)commit(f, home, &change, 1);
    free(path);
    path_of(f, held, home, &path);
    MUST(f, workspace_lock(
                f->w, &f->who, home,
                &(struct workspace_lock_spec){.path = path, .ttl_s = 60},
                &lock, token, &f->err));
    expire(f, old);
    expire(f, held);
    expire(f, dead);
    assert_int_equal(get(f, &f->who, old), -ERR_NOT_FOUND);
    assert_int_equal(library_remove(f->w, &f->who, old, &f->err),
                     -ERR_NOT_FOUND);
    LISTS(f, &f->who, NULL, true, 0, NULL, "kept", false);
    MUST(f, library_sweep(f->w, &removed, &f->err));
    assert_int_equal(removed, 1); /* the held one waits, the dead one is */
    assert_int_equal(events(f, "file.expire"), 1);
    assert_int_equal(
        NUMBER(f, "SELECT count(*) FROM library WHERE file <> ?1", ""), 2);
    MUST(f, workspace_unlock(f->w, &f->who, home, lock.id, token, &f->err));
    MUST(f, library_sweep(f->w, &removed, &f->err));
    assert_int_equal(removed, 1);
    MUST(f, library_sweep(f->w, &removed, &f->err));
    assert_int_equal(removed, 0);
    LISTS(f, &f->who, NULL, true, 0, NULL, "kept", false);
    MUST(f, get(f, &f->who, kept));
    /* The collector's round does it too, and retention takes the bytes. */
    expire(f, kept);
    sha_of("kept bytes", 10, sha256);
    f->w->upkeep->grace_ms = 0;
    clock_test_advance(20);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(events(f, "file.expire"), 3);
    assert_true(blob_is_there(f, sha256));
    ALTER(f, "UPDATE commits SET at_ms = 1 WHERE workspace = ?1", "t", home);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(done.versions, 4);
    clock_test_advance(20);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_false(blob_is_there(f, sha256));
    workspace_lock_done(&lock);
    free(path);
}

static void purged_with_its_workspace(void **state)
{
    struct kept *f = *state;
    char file[ID_MAX], home[ID_MAX];
    struct library_upload u;
    char *path;

    add(f, "x", "p", "x", file);
    path_of(f, file, home, &path);
    free(path);
    MUST(f,
         library_upload_begin(f->w, &f->who,
                              &(struct library_spec){
                                  .filename = "u", .purpose = "p", .size = 1},
                              &u, &f->err));
    library_upload_done(&u);
    MUST(f, workspace_destroy(f->w, &f->who, home, &f->err));
    assert_int_equal(libraries(f), 0);
    assert_int_equal(
        NUMBER(f, "SELECT count(*) FROM library WHERE file <> ?1", ""), 0);
    assert_int_equal(library_upload_get(f->w, &f->who, u.id, &u, &f->err),
                     -ERR_NOT_FOUND);
    add(f, "y", "p", "y", file);
    MUST(f, library_upload_get(f->w, &f->who, u.id, &u, &f->err));
    assert_int_equal(u.status, LIBRARY_EXPIRED);
    library_upload_done(&u);
}

static void another_tenants_workspace_is_no_library(void **state)
{
    struct kept *f = *state;
    struct actor admin = {.tenant = "t", .key = "key_a", .admin = true};
    struct actor other = {.tenant = "o",
                          .key = "key_00000000000000000000000000000002"};
    char file[ID_MAX], home[ID_MAX];
    struct workspace_info info;
    struct library_file got;
    char *path;

    add(f, "x", "fine-tune", "x", file);
    path_of(f, file, home, &path);
    free(path);
    MUST(f, workspace_transfer(f->w, &admin, home, other.key, "o", &info,
                               &f->err));
    LISTS(f, &f->who, NULL, true, 0, NULL, "", false);
    LISTS(f, &other, NULL, true, 0, NULL, "", false);
    MUST(f, library_get(f->w, &other, file, &got, &f->err));
    assert_string_equal(got.purpose, "user_data");
    library_file_done(&got);
    assert_int_equal(libraries(f), 0);
    add(f, "y", "p", "y", file);
    LISTS(f, &f->who, NULL, true, 0, NULL, "y", false);
}

/* ---- lists -------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Twelve files, four each of three moments, all pages of all sizes. */
static void pages_have_no_gap_and_no_repeat(void **state)
{
    struct kept *f = *state;
    enum {
        FILES = 12
    };
    char ids[FILES][ID_MAX];

    for (int i = 0; i < FILES; i++)
        add(f, "x", "p", "x", ids[i]);
    qsort(ids, FILES, sizeof(ids[0]), by_id);
    for (int i = 0; i < FILES; i++)
        set_age(f, ids[i], 1000 + i / 4);
    for (int back = 0; back < 2; back++)
        for (unsigned limit = 1; limit <= FILES + 1; limit++) {
            char after[ID_MAX] = "";
            size_t seen = 0;
            bool more = true;

            while (more) {
                struct library_file *files;
                struct page_result got = {0};

                MUST(f, library_list(
                            f->w, &f->who, NULL, !back,
                            &(struct page){.limit = limit,
                                           .after = after[0] ? after : NULL},
                            &files, &got, &f->err));
                assert_true(got.count <= limit &&
                            (got.count == limit || !got.has_more));
                for (size_t i = 0; i < got.count; i++, seen++)
                    assert_string_equal(files[i].file,
                                        ids[back ? FILES - 1 - seen : seen]);
                memcpy(after, files[got.count - 1].file, ID_MAX);
                assert_int_equal(got.has_more, seen < FILES);
                library_files_free(files, got.count);
                more = got.has_more;
            }
            assert_int_equal(seen, FILES);
        }
}

static void lists_go_by_purpose_and_survive_removal(void **state)
{
    struct kept *f = *state;
    char ids[4][ID_MAX], unknown[ID_MAX];

    add(f, "a", "user_data", "x", ids[0]);
    add(f, "b", "vision", "x", ids[1]);
    add(f, "c", "user_data", "x", ids[2]);
    add(f, "d", "vision", "x", ids[3]);
    for (int i = 0; i < 4; i++)
        set_age(f, ids[i], 10 + i);
    LISTS(f, &f->who, NULL, true, 0, NULL, "a b c d", false);
    LISTS(f, &f->who, NULL, false, 0, NULL, "d c b a", false);
    LISTS(f, &f->who, "vision", true, 0, NULL, "b d", false);
    LISTS(f, &f->who, "vision", false, 1, NULL, "d", true);
    LISTS(f, &f->who, "vision", false, 1, ids[3], "b", false);
    LISTS(f, &f->who, "vision", true, 1, ids[0], "b", true);
    LISTS(f, &f->who, "nothing", true, 0, NULL, "", false);
    LISTS(f, &f->who, NULL, true, LIBRARY_LIST_MAX + 1, NULL, "a b c d",
          false);
    ids_make("file", unknown);
    LISTS(f, &f->who, NULL, true, 0, unknown, "", false);
    LISTS(f, &f->who, NULL, true, 0, "", "", false);
    /* Who removes what it has listed goes on where it was. */
    MUST(f, library_remove(f->w, &f->who, ids[1], &f->err));
    LISTS(f, &f->who, NULL, true, 0, ids[1], "c d", false);
    LISTS(f, &f->who, NULL, false, 0, ids[1], "a", false);
}

/* ---- by age ------------------------------------------------------------- */

static void files_by_age_in_pages(void **state)
{
    struct kept *f = *state;
    enum {
        FILES = 9
    };
    char ids[FILES][ID_MAX], sha256[BLOB_NAME];
    struct workspace_change changes[FILES] = {0};
    struct workspace_aged_file *files, one;
    struct page_result got = {0};

    store_bytes_of(f, "x", 1, sha256);
    for (int i = 0; i < FILES; i++) {
        static const char *const names[FILES] = {"i", "h", "g", "f", "e",
                                                 "d", "c", "b", "a"};

        changes[i] = (struct workspace_change){
            .kind = CHANGE_PUT, .path = names[i], .sha256 = sha256, .size = 1};
    }
    (void)commit(f, f->ws, changes, FILES); /* all at one moment */
    MUST(f, workspace_list_by_age(f->w, &f->who, f->ws, true,
                                  &(struct page){.limit = 0}, &files, &got,
                                  &f->err));
    assert_int_equal(got.count, FILES);
    assert_false(got.has_more);
    for (int i = 0; i < FILES; i++) {
        memcpy(ids[i], files[i].file.file, ID_MAX);
        assert_true(i == 0 || strcmp(ids[i - 1], ids[i]) < 0);
        assert_int_equal(files[i].created_at_ms, files[0].created_at_ms);
        assert_false(files[i].by_execution);
    }
    workspace_list_by_age_free(files, got.count);
    for (int i = 0; i < FILES; i++)
        ALTER(f, "UPDATE files SET created_at_ms = ?2 WHERE id = ?1", "ti",
              ids[i], (int64_t)(100 + i / 3));
    for (int back = 0; back < 2; back++)
        for (unsigned limit = 1; limit <= FILES + 1; limit++) {
            char after[ID_MAX] = "";
            size_t seen = 0;

            do {
                MUST(f, workspace_list_by_age(
                            f->w, &f->who, f->ws, !back,
                            &(struct page){.limit = limit,
                                           .after = after[0] ? after : NULL},
                            &files, &got, &f->err));
                for (size_t i = 0; i < got.count; i++, seen++)
                    assert_string_equal(files[i].file.file,
                                        ids[back ? FILES - 1 - seen : seen]);
                memcpy(after, files[got.count - 1].file.file, ID_MAX);
                workspace_list_by_age_free(files, got.count);
                assert_int_equal(got.has_more, seen < FILES);
            } while (got.has_more);
            assert_int_equal(seen, FILES);
        }
    MUST(f, workspace_list_by_age_find(f->w, &f->who, f->ws, ids[4], &one,
                                       &f->err));
    assert_int_equal(one.created_at_ms, 101);
    assert_int_equal(one.file.size, 1);
    workspace_file_done(&one.file);
}

static void age_is_that_of_the_first_version(void **state)
{
    struct kept *f = *state;
    struct workspace_aged_file *files, one;
    char id[ID_MAX], unknown[ID_MAX];
    struct page_result got = {0};

    (void)put(f, "first", "1");
    (void)put(f, "second", "2");
    MUST(f, workspace_list_by_age(f->w, &f->who, f->ws, true,
                                  &(struct page){.limit = 1}, &files, &got,
                                  &f->err));
    memcpy(id, files[0].file.file, ID_MAX);
    assert_true(got.has_more);
    workspace_list_by_age_free(files, got.count);
    ALTER(f, "UPDATE files SET created_at_ms = 7 WHERE id = ?1", "t", id);
    MUST(f,
         workspace_list_by_age_find(f->w, &f->who, f->ws, id, &one, &f->err));
    (void)put(f, one.file.path, "overwritten");
    (void)move(f, one.file.path, "moved");
    workspace_file_done(&one.file);
    MUST(f,
         workspace_list_by_age_find(f->w, &f->who, f->ws, id, &one, &f->err));
    assert_string_equal(one.file.path, "moved");
    assert_int_equal(one.created_at_ms, 7);
    assert_true(one.file.modified_at_ms > 7);
    workspace_file_done(&one.file);
    /* One that left the head is no answer, but still a place to go on. */
    (void)take(f, "moved");
    assert_int_equal(
        workspace_list_by_age_find(f->w, &f->who, f->ws, id, &one, &f->err),
        -ERR_NOT_FOUND);
    MUST(f, workspace_list_by_age(f->w, &f->who, f->ws, true,
                                  &(struct page){.limit = 5, .after = id},
                                  &files, &got, &f->err));
    assert_int_equal(got.count, 1);
    workspace_list_by_age_free(files, got.count);
    ids_make("file", unknown);
    MUST(f, workspace_list_by_age(f->w, &f->who, f->ws, true,
                                  &(struct page){.limit = 5, .after = unknown},
                                  &files, &got, &f->err));
    assert_int_equal(got.count, 0);
    assert_false(got.has_more);
    workspace_list_by_age_free(files, got.count);
    assert_int_equal(workspace_list_by_age_find(f->w, &f->who, f->ws, unknown,
                                                &one, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(workspace_list_by_age(f->w, &stranger, f->ws, true,
                                           &(struct page){.limit = 5}, &files,
                                           &got, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(
        workspace_list_by_age_find(f->w, &stranger, f->ws, id, &one, &f->err),
        -ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(added_file_is_there_with_all_it_was_given),
        KEPT(given_type_wins_and_a_bad_one_does_not),
        KEPT(same_name_and_bytes_are_another_file),
        KEPT(purposes_are_checked),
        KEPT(names_of_all_kinds_become_paths),
        KEPT(long_names_keep_their_ending),
        KEPT(many_at_once_make_one_library),
        KEPT(library_is_found_after_a_restart_and_made_anew_when_gone),
        KEPT(I3_foreign_files_are_unknown_ones),
        KEPT(members_say_who_may),
        KEPT(quota_of_the_tenant_holds),
        KEPT(files_of_other_workspaces_have_a_purpose_too),
        KEPT(removal_is_a_commit),
        KEPT(deleted_in_the_workspace_is_not_found),
        KEPT(expired_files_are_gone_before_the_sweep),
        KEPT(purged_with_its_workspace),
        KEPT(another_tenants_workspace_is_no_library),
        KEPT(pages_have_no_gap_and_no_repeat),
        KEPT(lists_go_by_purpose_and_survive_removal),
        KEPT(files_by_age_in_pages),
        KEPT(age_is_that_of_the_first_version),
    };

    return cmocka_run_group_tests_name("workspace_library", tests, NULL, NULL);
}
