/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace/shares and visit: a link opens its own path and nothing else, for
 * as long and as often as it was made for, and only to who has its secret and
 * its password.
 */
#include <pthread.h>

#include "base/buf.h"
#include "workspace/shares_int.h"
#include "workspace_keep.h"

/* ---- help --------------------------------------------------------------- */

struct shared {
    struct workspace_share share;
    char secret[65];
};

static int make(struct kept *f, const struct workspace_share_spec *spec,
                struct shared *ret)
{
    return workspace_share(f->w, &f->who, f->ws, spec, &ret->share,
                           ret->secret, &f->err);
}

static void must_make(struct kept *f, const char *path, enum share_mode mode,
                      struct shared *ret)
{
    struct workspace_share_spec spec = {.path = path, .mode = mode};

    MUST(f, make(f, &spec, ret));
}

static int visit(struct kept *f, const char *secret, const char *password)
{
    struct workspace_share s;
    int r =
        workspace_share_open(f->w, secret, password, "1.2.3.4", &s, &f->err);

    if (r == 0)
        workspace_share_done(&s);
    return r;
}

static int get(struct kept *f, const struct shared *s, const char *path,
               char ret_path[64])
{
    struct workspace_file file;
    int r =
        workspace_share_get(f->w, &s->share, path, "1.2.3.4", &file, &f->err);

    if (r < 0)
        return r;
    if (ret_path)
        (void)snprintf(ret_path, 64, "%s", file.path);
    workspace_file_done(&file);
    return 0;
}

static int leave(struct kept *f, const struct shared *s, const char *path,
                 const char *text)
{
    struct workspace_commit done;
    char sha256[BLOB_NAME];
    int r;

    store_bytes_of(f, text, strlen(text), sha256);
    r = workspace_share_put(f->w, &s->share, path, sha256, strlen(text),
                            "1.2.3.4", &done, &f->err);
    blob_release(f->blobs, sha256);
    if (r == 0)
        workspace_commit_done(&done);
    return r;
}

static char *list(struct kept *f, const struct shared *s, const char *after)
{
    struct workspace_file *files;
    struct buf out = {0};
    struct page_result got = {0};

    MUST(f, workspace_share_list(f->w, &s->share,
                                 &(struct page){.limit = 100, .after = after},
                                 &files, &got, &f->err));
    buf_adds(&out, "");
    for (size_t i = 0; i < got.count; i++)
        buf_addf(&out, "%s;", files[i].path);
    workspace_files_free(files, got.count);
    return buf_take(&out, NULL);
}

/* ---- reading ------------------------------------------------------------ */

static void file_link_opens_one_file(void **state)
{
    struct kept *f = *state;
    struct shared s;
    char path[64];
    char *listing cleanup(mem_free) = NULL;

    (void)put(f, "d/a.txt", "1");
    (void)put(f, "d/b.txt", "2");
    must_make(f, "d/a.txt", SHARE_READ, &s);
    assert_int_equal(strlen(s.secret), 64);
    assert_int_equal(strncmp(s.share.id, "share_", 6), 0);
    MUST(f, visit(f, s.secret, NULL));
    MUST(f, visit(f, s.secret, "one that nobody asked for"));
    MUST(f, get(f, &s, "", path));
    assert_string_equal(path, "a.txt"); /* not where it is */
    assert_int_equal(get(f, &s, "b.txt", NULL), -ERR_NOT_FOUND);
    assert_int_equal(get(f, &s, "a.txt", NULL), -ERR_NOT_FOUND);
    assert_int_equal(get(f, &s, "../b.txt", NULL), -ERR_NOT_FOUND);
    listing = list(f, &s, NULL);
    assert_string_equal(listing, ";");
    (void)take(f, "d/a.txt");
    assert_int_equal(get(f, &s, "", NULL), -ERR_NOT_FOUND);
    workspace_share_done(&s.share);
}

static void F1_folder_link_ends_at_its_folder(void **state)
{
    static const char *const outside[] = {
        "../secret", "..",   "/etc/passwd", "a/../../secret", "./a",
        "a//b",      "",     "sub/",        "%2e%2e/secret",  "secret",
        "a\n",       "\xff", "a/../a"};
    struct kept *f = *state;
    struct shared s;
    char *all cleanup(mem_free) = NULL, *rest cleanup(mem_free) = NULL;
    char path[64];

    (void)put(f, "pub/a", "1");
    (void)put(f, "pub/sub/b", "2");
    (void)put(f, "pub-not/c", "3");
    (void)put(f, "secret", "4");
    must_make(f, "pub", SHARE_READ, &s); /* a folder though not called so */
    assert_string_equal(s.share.path, "pub/");
    all = list(f, &s, NULL);
    assert_string_equal(all, "a;sub/b;");
    rest = list(f, &s, "a");
    assert_string_equal(rest, "sub/b;");
    MUST(f, get(f, &s, "sub/b", path));
    assert_string_equal(path, "sub/b");
    for (size_t i = 0; i < ARRAY_SIZE(outside); i++) {
        int r = get(f, &s, outside[i], NULL);

        assert_true(r == -ERR_NOT_FOUND || r == -ERR_INVALID);
    }
    workspace_share_done(&s.share);
}

static void F5_path_behind_a_link_has_the_same_limits(void **state)
{
    struct kept *f = *state;
    struct shared s;
    char part[260], *longest cleanup(mem_free) = NULL;

    memset(part, 'p', 255);
    part[255] = 0;
    (void)put(f, "pub/a", "1");
    must_make(f, "pub/", SHARE_WRITE, &s);
    MUST(f, leave(f, &s, part, "255"));
    part[255] = 'p';
    part[256] = 0;
    assert_int_equal(leave(f, &s, part, "256"), -ERR_INVALID);
    /* 1024 bytes with the link's own path, and one more. */
    longest = xasprintf("%0255d/%0255d/%0255d/%0252d", 1, 2, 3, 4);
    assert_int_equal(strlen(longest) + 4, 1024);
    MUST(f, leave(f, &s, longest, "longest"));
    free(longest);
    longest = xasprintf("%0255d/%0255d/%0255d/%0253d", 1, 2, 3, 4);
    assert_int_equal(leave(f, &s, longest, "too long"), -ERR_INVALID);
    assert_int_equal(leave(f, &s, "a\tb", "x"), -ERR_INVALID);
    assert_int_equal(leave(f, &s, "", "x"), -ERR_INVALID);
    workspace_share_done(&s.share);
}

static void pinned_version_stays(void **state)
{
    struct kept *f = *state;
    struct workspace_file old, got;
    struct workspace_share_spec spec = {.path = "a", .mode = SHARE_READ};
    struct shared s;

    (void)put(f, "a", "old");
    MUST(f,
         workspace_file_get(f->w, &f->who, f->ws, "a", NULL, &old, &f->err));
    spec.version = old.version;
    MUST(f, make(f, &spec, &s));
    (void)put(f, "a", "new");
    MUST(f, workspace_share_get(f->w, &s.share, "", "x", &got, &f->err));
    assert_string_equal(got.version, old.version);
    workspace_file_done(&got);
    (void)move(f, "a", "b"); /* the file goes on elsewhere */
    MUST(f, get(f, &s, "", NULL));
    spec.mode = SHARE_WRITE;
    assert_int_equal(make(f, &spec, &s), -ERR_INVALID);
    spec.mode = SHARE_READ;
    spec.version = "ver_none";
    assert_int_equal(make(f, &spec, &s), -ERR_NOT_FOUND);
    workspace_file_done(&old);
    workspace_share_done(&s.share);
}

/* ---- the ways it ends --------------------------------------------------- */

static void ended_links_all_look_unknown(void **state)
{
    struct kept *f = *state;
    struct shared s[5];
    struct workspace_share_spec once = {
        .path = "a", .mode = SHARE_READ, .max_downloads = 1};
    struct workspace_share_spec short_lived = {
        .path = "a", .mode = SHARE_READ, .expires_in_s = 100};
    char unknown[] =
        "00000000000000000000000000000000000000000000000000000000deadbeef";
    char message[320];

    (void)put(f, "a", "1");
    assert_int_equal(visit(f, unknown, NULL), -ERR_NOT_FOUND);
    (void)snprintf(message, sizeof(message), "%s", f->err.message);
    assert_int_equal(visit(f, "short", NULL), -ERR_NOT_FOUND);
    assert_string_equal(f->err.message, message);

    MUST(f, make(f, &once, &s[0]));
    MUST(f, visit(f, s[0].secret, NULL));
    MUST(f, get(f, &s[0], "", NULL));
    assert_int_equal(visit(f, s[0].secret, NULL), -ERR_NOT_FOUND);
    assert_string_equal(f->err.message, message);
    assert_int_equal(get(f, &s[0], "", NULL), -ERR_NOT_FOUND);

    MUST(f, make(f, &short_lived, &s[1]));
    MUST(f, visit(f, s[1].secret, NULL));
    ALTER(f, "UPDATE shares SET expires_at_ms = 1 WHERE id = ?1", "t",
          s[1].share.id);
    assert_int_equal(visit(f, s[1].secret, NULL), -ERR_NOT_FOUND);
    assert_int_equal(get(f, &s[1], "", NULL), -ERR_NOT_FOUND);

    must_make(f, "a", SHARE_READ, &s[2]);
    MUST(f, workspace_share_revoke(f->w, &f->who, s[2].share.id, &f->err));
    MUST(f, workspace_share_revoke(f->w, &f->who, s[2].share.id, &f->err));
    assert_int_equal(visit(f, s[2].secret, NULL), -ERR_NOT_FOUND);
    assert_string_equal(f->err.message, message);
    assert_int_equal(get(f, &s[2], "", NULL), -ERR_NOT_FOUND);
    assert_int_equal(leave(f, &s[2], "", "x"), -ERR_NOT_FOUND);

    must_make(f, "a", SHARE_READ, &s[3]);
    MUST(f, workspace_delete(f->w, &f->who, f->ws, &f->err));
    assert_int_equal(visit(f, s[3].secret, NULL), -ERR_NOT_FOUND);
    assert_string_equal(f->err.message, message);
    assert_int_equal(get(f, &s[3], "", NULL), -ERR_NOT_FOUND);
    for (int i = 0; i < 4; i++)
        workspace_share_done(&s[i].share);
}

struct racer {
    struct kept own;
    struct shared *s;
    int got;
};

static void *race_run(void *arg)
{
    struct racer *r = arg;

    for (int i = 0; i < 5; i++)
        r->got += get(&r->own, r->s, "", NULL) == 0;
    return NULL;
}

static void downloads_are_counted_exactly(void **state)
{
    struct kept *f = *state;
    struct workspace_share_spec spec = {
        .path = "a", .mode = SHARE_READ, .max_downloads = 7};
    struct workspace_file file;
    struct racer racers[4];
    pthread_t threads[4];
    struct shared s;
    int got = 0;

    (void)put(f, "a", "1");
    MUST(f, make(f, &spec, &s));
    for (int i = 0; i < 3; i++) { /* only looked at: not counted */
        MUST(f, workspace_share_get(f->w, &s.share, "", NULL, &file, &f->err));
        workspace_file_done(&file);
    }
    for (int i = 0; i < 4; i++) {
        racers[i] = (struct racer){.own = *f, .s = &s};
        assert_int_equal(
            pthread_create(&threads[i], NULL, race_run, &racers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        got += racers[i].got;
    }
    assert_int_equal(got, 7);
    assert_int_equal(
        workspace_share_get(f->w, &s.share, "", NULL, &file, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(NUMBER(f,
                            "SELECT count(*) FROM audit WHERE action ="
                            " 'share.download' AND actor = ?1",
                            s.share.id),
                     7);
    workspace_share_done(&s.share);
}

/* ---- passwords ---------------------------------------------------------- */

static void password_is_asked_for(void **state)
{
    struct kept *f = *state;
    struct workspace_share_spec spec = {
        .path = "a", .mode = SHARE_READ, .password = "open sesame"};
    struct shared s;

    (void)put(f, "a", "1");
    MUST(f, make(f, &spec, &s));
    assert_true(s.share.has_password);
    assert_int_equal(visit(f, s.secret, NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(visit(f, s.secret, ""), -ERR_UNAUTHENTICATED);
    assert_int_equal(visit(f, s.secret, "open sesam"), -ERR_UNAUTHENTICATED);
    assert_int_equal(visit(f, s.secret, "open sesamee"), -ERR_UNAUTHENTICATED);
    MUST(f, visit(f, s.secret, "open sesame"));
    /* Neither it nor the secret is in the store. */
    assert_int_equal(
        store_choice_server()
            ? NUMBER(f,
                     "SELECT count(*) FROM shares WHERE password LIKE"
                     " '%sesame%' OR secret_hash = convert_to(?1, 'UTF8')",
                     s.secret)
            : NUMBER(f,
                     "SELECT count(*) FROM shares WHERE password LIKE"
                     " '%sesame%' OR secret_hash = CAST(?1 AS BLOB)",
                     s.secret),
        0);
    workspace_share_done(&s.share);
}

static int visit_from(struct kept *f, const char *secret, const char *password,
                      const char *source)
{
    struct workspace_share s;
    int r = workspace_share_open(f->w, secret, password, source, &s, &f->err);

    if (r == 0)
        workspace_share_done(&s);
    return r;
}

static void make_locked(struct kept *f, struct shared *ret)
{
    struct workspace_share_spec spec = {
        .path = "a", .mode = SHARE_READ, .password = "right"};

    (void)put(f, "a", "1");
    MUST(f, make(f, &spec, ret));
}

static int guess(struct kept *f, const struct shared *s, unsigned number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "wrong %u", number);
    return visit(f, s->secret, text);
}

/* Hashes that were computed for wrong passwords: each is audited. */
static int64_t wrong_ones(struct kept *f, const struct shared *s)
{
    return NUMBER(f,
                  "SELECT count(*) FROM audit WHERE detail ="
                  " 'wrong password' AND object = ?1",
                  s->share.id);
}

static void I5_guessing_pauses_this_source_alone(void **state)
{
    struct kept *f = *state;
    struct shared s;

    make_locked(f, &s);
    for (unsigned i = 0; i < SHARE_TRIES - 1; i++)
        assert_int_equal(guess(f, &s, i), -ERR_UNAUTHENTICATED);
    MUST(f, visit(f, s.secret, "right")); /* the rest is forgotten */
    for (unsigned i = 0; i < SHARE_TRIES; i++)
        assert_int_equal(guess(f, &s, 100 + i), -ERR_UNAUTHENTICATED);
    assert_int_equal(guess(f, &s, 200), -ERR_LIMIT);
    assert_in_range(f->err.retry_after_s, 1, 15);
    assert_int_equal(visit(f, s.secret, "right"), -ERR_LIMIT);
    /* Asking for the password is no try. */
    assert_int_equal(visit(f, s.secret, NULL), -ERR_UNAUTHENTICATED);
    MUST(f, visit_from(f, s.secret, "right", "5.6.7.8"));
    MUST(f, visit_from(f, s.secret, "right", "2001:db8::1"));
    assert_int_equal(wrong_ones(f, &s), 2 * SHARE_TRIES - 1);
    workspace_share_done(&s.share);
}

struct guesser {
    struct kept own;
    const struct shared *s;
    unsigned first;
    int limited;
};

static void *guess_many(void *arg)
{
    struct guesser *g = arg;

    for (unsigned i = 0; i < 5; i++)
        g->limited += guess(&g->own, g->s, g->first + i) == -ERR_LIMIT;
    return NULL;
}

/* 200 wrong passwords from 40 threads, and the right one in the midst of
 * them from elsewhere. */
static void I5_parallel_guesses_are_charged_before_they_are_hashed(
    void **state)
{
    enum {
        THREADS = 40
    };
    struct kept *f = *state;
    struct guesser guessers[THREADS];
    pthread_t threads[THREADS];
    struct shared s;
    int limited = 0;

    make_locked(f, &s);
    for (unsigned i = 0; i < THREADS; i++) {
        guessers[i] = (struct guesser){.own = *f, .s = &s, .first = i * 5};
        assert_int_equal(
            pthread_create(&threads[i], NULL, guess_many, &guessers[i]), 0);
    }
    MUST(f, visit_from(f, s.secret, "right", "5.6.7.8"));
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        limited += guessers[i].limited;
    }
    assert_in_range(wrong_ones(f, &s), 1, SHARE_TRIES);
    assert_int_equal(limited, 200 - wrong_ones(f, &s));
    workspace_share_done(&s.share);
}

static void *visit_right(void *arg)
{
    struct guesser *g = arg;

    g->limited = visit(&g->own, g->s->secret, "right");
    return NULL;
}

/* The right password, from many requests of one client at once. */
static void parallel_visits_with_one_password_are_one_try(void **state)
{
    enum {
        THREADS = 30
    };
    struct kept *f = *state;
    struct guesser guessers[THREADS];
    pthread_t threads[THREADS];
    struct shared s;

    make_locked(f, &s);
    for (unsigned i = 0; i < THREADS; i++) {
        guessers[i] = (struct guesser){.own = *f, .s = &s};
        assert_int_equal(
            pthread_create(&threads[i], NULL, visit_right, &guessers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(guessers[i].limited, 0);
    }
    workspace_share_done(&s.share);
}

/* ---- the allowance, by a clock of our own ------------------------------- */

struct table {
    struct share_attempts *g;
    uint64_t now_ms;
    int wait_s;
    unsigned number; /* makes each password another one */
};

static enum share_attempt_answer begin_as(struct table *t, const char *link,
                                          const char *source,
                                          const char *password,
                                          struct share_attempt *ret)
{
    struct share_attempt_spec spec = {link, source, "hash", password};

    return share_attempt_begin(t->g, &spec, t->now_ms, ret, &t->wait_s);
}

/* A new wrong password. */
static enum share_attempt_answer fail_as(struct table *t, const char *link,
                                         const char *source)
{
    struct share_attempt try;
    enum share_attempt_answer got;
    char text[32];

    (void)snprintf(text, sizeof(text), "%u", t->number++);
    got = begin_as(t, link, source, text, &try);
    if (got == SHARE_ATTEMPT_HASH)
        share_attempt_end(t->g, &try, false, t->now_ms);
    return got;
}

static void I5_pauses_grow_to_a_minute_and_end_on_time(void **state)
{
    static const int pauses[] = {15, 30, 60, 60, 60};
    struct table t = {.g = share_attempts_new(), .now_ms = 1000};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
        for (unsigned n = 0; n < (i ? SHARE_TRIES_FRESH : SHARE_TRIES); n++)
            assert_int_equal(fail_as(&t, "l", "1.1.1.1"), SHARE_ATTEMPT_HASH);
        assert_int_equal(fail_as(&t, "l", "1.1.1.1"), SHARE_ATTEMPT_WAIT);
        assert_int_equal(t.wait_s, pauses[i]);
        /* What is tried meanwhile does not prolong it. */
        t.now_ms += (uint64_t)pauses[i] * 1000 - 1;
        assert_int_equal(fail_as(&t, "l", "1.1.1.1"), SHARE_ATTEMPT_WAIT);
        assert_int_equal(t.wait_s, 1);
        t.now_ms += 1;
    }
    /* Quiet for long enough, it is a new source. */
    t.now_ms += SHARE_FORGET_MS;
    for (unsigned n = 0; n < SHARE_TRIES; n++)
        assert_int_equal(fail_as(&t, "l", "1.1.1.1"), SHARE_ATTEMPT_HASH);
    assert_int_equal(fail_as(&t, "l", "1.1.1.1"), SHARE_ATTEMPT_WAIT);
    assert_int_equal(t.wait_s, 15);
    /* Another link, and another address, are not concerned. */
    assert_int_equal(fail_as(&t, "m", "1.1.1.1"), SHARE_ATTEMPT_HASH);
    assert_int_equal(fail_as(&t, "l", "1.1.1.2"), SHARE_ATTEMPT_HASH);
    share_attempts_free(t.g);
}

static void I5_many_sources_leave_a_new_one_its_first_tries(void **state)
{
    struct table t = {.g = share_attempts_new(), .now_ms = 1000};
    char source[32];

    (void)state;
    for (unsigned i = 0; i < SHARE_WIDE_TRIES; i++) {
        (void)snprintf(source, sizeof(source), "10.0.0.%u", i % 20);
        assert_int_equal(fail_as(&t, "l", source), SHARE_ATTEMPT_HASH);
    }
    /* All is used up: three more of a new source, and none of an old one. */
    for (unsigned n = 0; n < SHARE_TRIES_FRESH; n++)
        assert_int_equal(fail_as(&t, "l", "10.1.1.1"), SHARE_ATTEMPT_HASH);
    assert_int_equal(fail_as(&t, "l", "10.1.1.1"), SHARE_ATTEMPT_WAIT);
    assert_int_equal(t.wait_s, 1);
    assert_int_equal(fail_as(&t, "l", "10.0.0.1"), SHARE_ATTEMPT_WAIT);
    t.now_ms += SHARE_WIDE_REFILL_MS - 1;
    assert_int_equal(fail_as(&t, "l", "10.0.0.1"), SHARE_ATTEMPT_WAIT);
    t.now_ms += 1;
    assert_int_equal(fail_as(&t, "l", "10.0.0.1"), SHARE_ATTEMPT_HASH);
    assert_int_equal(fail_as(&t, "l", "10.0.0.1"), SHARE_ATTEMPT_WAIT);
    /* One IPv6 network is one source. */
    for (unsigned n = 0; n < SHARE_TRIES_FRESH; n++) {
        (void)snprintf(source, sizeof(source), "2001:db8::%u", n + 1);
        assert_int_equal(fail_as(&t, "l", source), SHARE_ATTEMPT_HASH);
    }
    assert_int_equal(fail_as(&t, "l", "2001:db8::ffff"), SHARE_ATTEMPT_WAIT);
    assert_int_equal(fail_as(&t, "l", "2001:db8:0:1::1"), SHARE_ATTEMPT_HASH);
    share_attempts_free(t.g);
}

static void I5_hashes_at_once_are_bounded(void **state)
{
    struct table t = {
        .g = share_attempts_new(), .now_ms = 1000, .number = 100};
    static const char *const sources[] = {"1", "1", "2", "2"};
    struct share_attempt tries[SHARE_HASHES], more;
    char text[8];

    (void)state;
    for (unsigned i = 0; i < SHARE_HASHES_LINK; i++) {
        (void)snprintf(text, sizeof(text), "%u", i);
        assert_int_equal(begin_as(&t, "l", sources[i], text, &tries[i]),
                         SHARE_ATTEMPT_HASH);
        if (i + 1 == SHARE_HASHES_SOURCE) /* of one source: no third */
            assert_int_equal(begin_as(&t, "l", "1", "x", &more),
                             SHARE_ATTEMPT_WAIT);
    }
    assert_int_equal(begin_as(&t, "l", "3", "x", &more), SHARE_ATTEMPT_WAIT);
    for (unsigned i = SHARE_HASHES_LINK; i < SHARE_HASHES; i++) {
        (void)snprintf(text, sizeof(text), "%u", i);
        assert_int_equal(begin_as(&t, "m", text, text, &tries[i]),
                         SHARE_ATTEMPT_HASH);
    }
    assert_int_equal(begin_as(&t, "n", "1", "x", &more), SHARE_ATTEMPT_WAIT);
    for (unsigned i = 0; i < SHARE_HASHES; i++)
        share_attempt_end(t.g, &tries[i], false, t.now_ms);
    /* What had to wait was not charged. */
    for (unsigned n = 2; n < SHARE_TRIES; n++)
        assert_int_equal(fail_as(&t, "l", "1"), SHARE_ATTEMPT_HASH);
    assert_int_equal(fail_as(&t, "l", "1"), SHARE_ATTEMPT_WAIT);
    share_attempts_free(t.g);
}

static void repeated_passwords_cost_nothing(void **state)
{
    struct table t = {.g = share_attempts_new(), .now_ms = 1000};
    struct share_attempt try;

    (void)state;
    assert_int_equal(begin_as(&t, "l", "1", "old", &try), SHARE_ATTEMPT_HASH);
    share_attempt_end(t.g, &try, false, t.now_ms);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(begin_as(&t, "l", "1", "old", &try),
                         SHARE_ATTEMPT_WRONG);
    assert_int_equal(begin_as(&t, "l", "1", "right", &try),
                     SHARE_ATTEMPT_HASH);
    share_attempt_end(t.g, &try, true, t.now_ms);
    t.now_ms += SHARE_KNOWN_MS - 1;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(begin_as(&t, "l", "1", "right", &try),
                         SHARE_ATTEMPT_RIGHT);
    /* Elsewhere, of another link, and later it is computed again. */
    assert_int_equal(begin_as(&t, "l", "2", "right", &try),
                     SHARE_ATTEMPT_HASH);
    share_attempt_end(t.g, &try, true, t.now_ms);
    assert_int_equal(begin_as(&t, "m", "1", "right", &try),
                     SHARE_ATTEMPT_HASH);
    share_attempt_end(t.g, &try, false, t.now_ms);
    t.now_ms += 1;
    assert_int_equal(begin_as(&t, "l", "1", "right", &try),
                     SHARE_ATTEMPT_HASH);
    share_attempt_end(t.g, &try, true, t.now_ms);
    /* A source that is paused is not told, or it could guess on for free. */
    while (fail_as(&t, "l", "1") == SHARE_ATTEMPT_HASH)
        t.now_ms++;
    assert_int_equal(begin_as(&t, "l", "1", "right", &try),
                     SHARE_ATTEMPT_WAIT);
    share_attempts_free(t.g);
}

/* However many sources there are, memory is the same, and one that is paused
 * stays so while others come and go. */
static void I5_table_of_sources_is_bounded(void **state)
{
    struct table t = {.g = share_attempts_new(), .now_ms = 1000};
    char link[32], source[32];

    (void)state;
    for (unsigned n = 0; n < SHARE_TRIES; n++)
        assert_int_equal(fail_as(&t, "l", "9.9.9.9"), SHARE_ATTEMPT_HASH);
    for (unsigned i = 0; i < 20000; i++) {
        (void)snprintf(link, sizeof(link), "l%u", i % 5000);
        (void)snprintf(source, sizeof(source), "10.%u.%u.1", i / 256, i % 256);
        assert_int_equal(fail_as(&t, link, source), SHARE_ATTEMPT_HASH);
    }
    assert_int_equal(fail_as(&t, "l", "9.9.9.9"), SHARE_ATTEMPT_WAIT);
    assert_int_equal(t.wait_s, 15);
    share_attempts_free(t.g);
}

static void password_hashes_differ_and_match(void **state)
{
    char *one cleanup(mem_free) = share_password_hash("same");
    char *two cleanup(mem_free) = share_password_hash("same");
    char longest[SHARE_PASSWORD_MAX + 2];

    (void)state;
    assert_string_not_equal(one, two); /* salted */
    assert_true(share_password_matches(one, "same"));
    assert_true(share_password_matches(two, "same"));
    assert_false(share_password_matches(one, "Same"));
    assert_false(share_password_matches("", "same"));
    assert_false(share_password_matches("scrypt$14$8$1$00$00", "same"));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    assert_false(share_password_matches(one, longest));
}

/* ---- writing ------------------------------------------------------------ */

static void write_link_takes_uploads_below_it(void **state)
{
    struct kept *f = *state;
    struct shared s, read_only, single;
    struct workspace_event *events;
    struct page_result got = {0};

    (void)put(f, "in/a", "1");
    must_make(f, "in", SHARE_READ, &read_only);
    must_make(f, "in/", SHARE_WRITE, &s);
    must_make(f, "in/a", SHARE_WRITE, &single);
    assert_int_equal(leave(f, &read_only, "b", "x"), -ERR_FORBIDDEN);
    MUST(f, leave(f, &s, "new/b", "2"));
    MUST(f, leave(f, &single, "", "3"));
    assert_int_equal(leave(f, &single, "b", "3"), -ERR_NOT_FOUND);
    assert_int_equal(leave(f, &s, "../out", "x"), -ERR_INVALID);
    MUST(f, workspace_history(f->w, &f->who, f->ws,
                              &(struct workspace_history_spec){
                                  .path = "in/new/b", .limit = 10},
                              &events, &got, &f->err));
    assert_int_equal(got.count, 1);
    assert_string_equal(events[0].author, s.share.id);
    assert_string_equal(events[0].kind, "share");
    workspace_events_free(events, got.count);
    assert_int_equal(NUMBER(f,
                            "SELECT count(*) FROM audit WHERE action ="
                            " 'share.put' AND actor = ?1",
                            s.share.id),
                     1);
    workspace_share_done(&s.share);
    workspace_share_done(&single.share);
    workspace_share_done(&read_only.share);
}

static void write_link_stops_at_locks_and_quota(void **state)
{
    struct kept *f = *state;
    struct workspace_lock lock;
    struct shared s;
    char token[65];

    f->settings.workspace_quota_bytes = 20;
    kept_reopen(f);
    (void)put(f, "in/a", "1");
    must_make(f, "in/", SHARE_WRITE, &s);
    MUST(f, workspace_lock(
                f->w, &f->who, f->ws,
                &(struct workspace_lock_spec){.path = "in/a", .ttl_s = 60},
                &lock, token, &f->err));
    assert_int_equal(leave(f, &s, "a", "2"), -ERR_LOCKED);
    assert_int_equal(leave(f, &s, "b", "far too many bytes for it"),
                     -ERR_SPACE);
    MUST(f, leave(f, &s, "b", "fits"));
    workspace_lock_done(&lock);
    workspace_share_done(&s.share);
}

/* ---- who makes them ----------------------------------------------------- */

static void making_and_revoking_take_an_editor(void **state)
{
    struct kept *f = *state;
    struct actor viewer = {.tenant = "t", .key = VIEWER};
    struct actor foreign = {.tenant = "o", .key = "key_o"};
    struct workspace_share_spec spec = {.path = "a", .mode = SHARE_READ};
    struct workspace_share *shares, ret;
    struct shared s;
    struct error err;
    char secret[65], unknown[ID_MAX];
    size_t count;

    (void)put(f, "a", "1");
    MUST(f, make(f, &spec, &s));
    MUST(f, workspace_member_set(f->w, &f->who, f->ws, VIEWER, ROLE_VIEWER,
                                 &f->err));
    assert_int_equal(
        workspace_share(f->w, &viewer, f->ws, &spec, &ret, secret, &f->err),
        -ERR_FORBIDDEN);
    assert_int_equal(
        workspace_share_revoke(f->w, &viewer, s.share.id, &f->err),
        -ERR_FORBIDDEN);
    assert_int_equal(
        workspace_share(f->w, &foreign, f->ws, &spec, &ret, secret, &f->err),
        -ERR_NOT_FOUND);
    ids_make("share", unknown);
    assert_int_equal(
        workspace_share_revoke(f->w, &foreign, s.share.id, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(workspace_share_revoke(f->w, &f->who, unknown, &err),
                     -ERR_NOT_FOUND);
    assert_string_equal(err.message, f->err.message);
    MUST(f, workspace_shares(f->w, &f->who, f->ws, &shares, &count, &f->err));
    assert_int_equal(count, 1);
    assert_string_equal(shares[0].id, s.share.id);
    workspace_shares_free(shares, count);
    workspace_share_done(&s.share);
}

static void bad_specs_are_refused(void **state)
{
    static const struct workspace_share_spec bad[] = {
        {.path = "../a", .mode = SHARE_READ},
        {.path = "/a", .mode = SHARE_READ},
        {.path = "/", .mode = SHARE_READ},
        {.path = "a//", .mode = SHARE_READ},
        {.path = "a", .mode = (enum share_mode)7},
        {.path = "a", .mode = SHARE_READ, .password = ""},
        {.path = "a", .mode = SHARE_READ, .max_downloads = -1},
        {.path = "d/", .mode = SHARE_READ, .version = "ver_x"},
    };
    struct kept *f = *state;
    char longest[SHARE_PASSWORD_MAX + 2];
    struct workspace_share_spec spec = {
        .path = "a", .mode = SHARE_READ, .password = longest};
    struct shared s;

    (void)put(f, "a", "1");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(make(f, &bad[i], &s), -ERR_INVALID);
    memset(longest, 'x', sizeof(longest));
    longest[SHARE_PASSWORD_MAX + 1] = 0;
    assert_int_equal(make(f, &spec, &s), -ERR_INVALID);
    longest[SHARE_PASSWORD_MAX] = 0;
    MUST(f, make(f, &spec, &s));
    workspace_share_done(&s.share);
    spec =
        (struct workspace_share_spec){.path = "nothing", .mode = SHARE_READ};
    assert_int_equal(make(f, &spec, &s), -ERR_NOT_FOUND);
    spec.path = ""; /* all of it */
    MUST(f, make(f, &spec, &s));
    workspace_share_done(&s.share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(file_link_opens_one_file),
        KEPT(F1_folder_link_ends_at_its_folder),
        KEPT(F5_path_behind_a_link_has_the_same_limits),
        KEPT(pinned_version_stays),
        KEPT(ended_links_all_look_unknown),
        KEPT(downloads_are_counted_exactly),
        KEPT(password_is_asked_for),
        KEPT(I5_guessing_pauses_this_source_alone),
        KEPT(I5_parallel_guesses_are_charged_before_they_are_hashed),
        KEPT(parallel_visits_with_one_password_are_one_try),
        cmocka_unit_test(I5_pauses_grow_to_a_minute_and_end_on_time),
        cmocka_unit_test(I5_many_sources_leave_a_new_one_its_first_tries),
        cmocka_unit_test(I5_hashes_at_once_are_bounded),
        cmocka_unit_test(repeated_passwords_cost_nothing),
        cmocka_unit_test(I5_table_of_sources_is_bounded),
        KEPT(password_hashes_differ_and_match),
        KEPT(write_link_takes_uploads_below_it),
        KEPT(write_link_stops_at_locks_and_quota),
        KEPT(making_and_revoking_take_an_editor),
        KEPT(bad_specs_are_refused),
    };

    return cmocka_run_group_tests_name("workspace_share", tests, NULL, NULL);
}
