/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth: keys are made, recognised and revoked; nothing secret is kept or
 * told; guessing is slowed, and nobody is locked out by it.
 */
#include <dirent.h>
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

#include "auth/auth_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "scratch.h"
#include "store_choice.h"

#define LIMIT 10
#define FILE_CAP (16 << 20)

/* ---- help --------------------------------------------------------------- */

struct fixture {
    char dir[64];
    struct store *store;
    struct auth *auth;
    struct error err;
};

static void must_open(struct fixture *f)
{
    if (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0 ||
        auth_open(f->store, f->dir, LIMIT, &f->auth, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void shut(struct fixture *f)
{
    auth_close(f->auth);
    store_close(f->store);
    f->auth = NULL;
    f->store = NULL;
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_auth"));
    must_open(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    shut(f);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

/* The content of a file of the data directory; owned by caller. */
static char *content(struct fixture *f, const char *name, size_t *ret_len)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, name);
    char *text = NULL;

    assert_int_equal(fd_read_file(AT_FDCWD, path, FILE_CAP, &text, ret_len),
                     0);
    return text;
}

static char *admin_secret(struct fixture *f)
{
    char *text = content(f, "admin.key", NULL);

    text[strcspn(text, "\n")] = '\0';
    return text;
}

static int check(struct fixture *f, const char *secret, const char *source,
                 struct principal *ret)
{
    char *header cleanup(mem_free) = xasprintf("Bearer %s", secret);
    struct principal scratch;

    memset(&f->err, 0, sizeof(f->err));
    return auth_check(f->auth, header, source, ret ? ret : &scratch, &f->err);
}

static char *create(struct fixture *f, uint32_t scopes, struct auth_key *ret)
{
    struct auth_key scratch;
    char *secret = NULL;

    if (auth_key_create(f->auth, "acme", "a key", scopes, ret ? ret : &scratch,
                        &secret, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return secret;
}

/* A key of the right shape that is not one of ours. */
static const char *wrong(unsigned n)
{
    static char text[AUTH_SECRET_LEN + 1];

    (void)snprintf(text, sizeof(text), "gbx_%08x%056x", n, n);
    return text;
}

static size_t list(struct fixture *f, struct auth_key **ret)
{
    size_t count = 0;

    if (auth_key_list(f->auth, ret, &count, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return count;
}

/* ---- the first key ------------------------------------------------------ */

static void I6_first_start_makes_a_random_admin_key(void **state)
{
    struct fixture *f = *state, *other;
    char *mine cleanup(mem_free) = admin_secret(f);
    char *theirs cleanup(mem_free) = NULL;
    struct principal p;
    void *second = NULL;

    set_up(&second);
    other = second;
    theirs = admin_secret(other);
    assert_string_not_equal(mine, theirs);
    assert_int_equal(check(f, mine, "127.0.0.1", &p), 0);
    assert_string_equal(p.tenant, "default");
    assert_int_equal(p.scopes, AUTH_SCOPES_ALL);
    assert_int_equal(check(f, theirs, "127.0.0.1", &p), -ERR_UNAUTHENTICATED);
    tear_down(&second);
}

static void I6_no_default_credential_works(void **state)
{
    static const char *const guesses[] = {
        "",
        "admin",
        "default",
        "glovebox",
        "gbx_",
        "changeme",
        "gbx_"
        "0000000000000000000000000000000000000000000000000000000000000000",
        "gbx_"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(guesses); i++)
        assert_int_equal(check(f, guesses[i], "127.0.0.1", NULL),
                         -ERR_UNAUTHENTICATED);
}

static void admin_key_is_private_and_stays(void **state)
{
    static const char *const names[] = {"admin.key", "auth.secret"};
    struct fixture *f = *state;
    char *before cleanup(mem_free) = content(f, "admin.key", NULL);
    char *after cleanup(mem_free) = NULL;

    assert_int_equal(strlen(before), AUTH_SECRET_LEN + 1);
    assert_int_equal(before[AUTH_SECRET_LEN], '\n');
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, names[i]);
        struct stat st;

        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
    }
    shut(f);
    must_open(f);
    after = content(f, "admin.key", NULL);
    assert_string_equal(before, after);
    before[AUTH_SECRET_LEN] = '\0';
    assert_int_equal(check(f, before, "127.0.0.1", NULL), 0);
}

static void admin_key_file_may_be_taken_away(void **state)
{
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = admin_secret(f);
    char *path cleanup(mem_free) = xasprintf("%s/admin.key", f->dir);

    assert_int_equal(unlink(path), 0);
    shut(f);
    must_open(f);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(check(f, secret, "127.0.0.1", NULL), 0);
}

/* As another program would. */
static void on_the_keys(struct fixture *f, const char *sql)
{
    struct store_tx *tx = NULL;

    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_true(store_exec(tx, &f->err, sql, "") >= 0);
    assert_int_equal(store_commit(&tx, &f->err), 0);
}

/* A first start cut between the file and the row. */
static void D11_admin_key_of_the_file_is_taken_when_there_is_no_key(
    void **state)
{
    struct fixture *f = *state;
    char *old cleanup(mem_free) = admin_secret(f);
    char *now cleanup(mem_free) = NULL;

    on_the_keys(f, "DELETE FROM keys");
    shut(f);
    must_open(f);
    now = admin_secret(f);
    assert_string_equal(old, now);
    assert_int_equal(check(f, now, "127.0.0.1", NULL), 0);
}

static int try_auth(struct fixture *f)
{
    assert_int_equal(
        store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err),
        0);
    return auth_open(f->store, f->dir, 60, &f->auth, &f->err);
}

static void D11_admin_key_file_is_never_replaced(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/admin.key", f->dir);
    char *old cleanup(mem_free) = content(f, "admin.key", NULL);
    char *now cleanup(mem_free) = NULL;
    char *half cleanup(mem_free) = NULL;

    /* It holds a key that was revoked, and there is no other. */
    on_the_keys(f, "UPDATE keys SET revoked_at_ms = 1");
    shut(f);
    assert_int_equal(try_auth(f), -ERR_INTERNAL);
    assert_non_null(strstr(f->err.message, "admin.key"));
    assert_non_null(strstr(f->err.hint, "move admin.key away"));
    now = content(f, "admin.key", NULL);
    assert_string_equal(old, now);
    /* It is damaged. */
    on_the_keys(f, "DELETE FROM keys");
    shut(f);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(try_auth(f), -ERR_INTERNAL);
    assert_non_null(strstr(f->err.hint, "move admin.key away"));
    half = content(f, "admin.key", NULL);
    assert_int_equal(strlen(half), 20);
    /* Taken away, there is a new one. */
    shut(f);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_auth(f), 0);
    free(now);
    now = admin_secret(f);
    assert_int_equal(strlen(now), AUTH_SECRET_LEN);
    assert_string_not_equal(old, now);
}

static void secret_missing_damaged_or_open_is_refused(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/auth.secret", f->dir);
    char *kept cleanup(mem_free) = content(f, "auth.secret", NULL);
    int fd cleanup(fd_close) = -1;

    shut(f);
    assert_int_equal(
        store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err),
        0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(auth_open(f->store, f->dir, 1, &f->auth, &f->err),
                     -ERR_INTERNAL);
    assert_non_null(strstr(f->err.hint, "600"));
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 64), 0);
    assert_int_equal(auth_open(f->store, f->dir, 1, &f->auth, &f->err),
                     -ERR_INTERNAL);
    assert_non_null(strstr(f->err.message, "damaged"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(auth_open(f->store, f->dir, 1, &f->auth, &f->err),
                     -ERR_INTERNAL);
    assert_non_null(strstr(f->err.message, "missing"));
    assert_null(f->auth);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, kept, strlen(kept)), 0);
    assert_int_equal(auth_open(f->store, f->dir, 1, &f->auth, &f->err), 0);
}

/* ---- secrets stay secret ------------------------------------------------ */

static bool file_holds(struct fixture *f, const char *name, const void *needle,
                       size_t len)
{
    size_t size;
    char *text cleanup(mem_free) = content(f, name, &size);

    return memmem(text, size, needle, len) != NULL;
}

/* Whether a file other than `but` holds the bytes; "" looks at all. */
static bool directory_holds(struct fixture *f, const char *but,
                            const void *needle, size_t len)
{
    DIR *d cleanup(fd_closedir) = opendir(f->dir);
    struct dirent *e;

    while ((e = readdir(d)))
        if (e->d_name[0] != '.' && strcmp(e->d_name, but) != 0 &&
            file_holds(f, e->d_name, needle, len))
            return true;
    return false;
}

static void I2_secret_is_stored_as_hash_only(void **state)
{
    struct fixture *f = *state;
    char *admin cleanup(mem_free) = admin_secret(f);
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);
    unsigned char hash[HASH_SIZE], plain[HASH_SIZE];
    size_t random = strlen(AUTH_PREFIX);

    for (int closed = 0; closed < 2; closed++) {
        /* Positive control: the search finds what is there. */
        assert_true(directory_holds(f, "", admin, AUTH_SECRET_LEN));
        assert_true(store_choice_server() || /* not in files, then */
                    directory_holds(f, "", "acme", 4));
        assert_false(directory_holds(f, "admin.key", admin + random, 16));
        assert_false(directory_holds(f, "", secret + random, 16));
        /* The hash is keyed: the plain one of the secret is not there. */
        hash_sha256(secret, AUTH_SECRET_LEN, plain);
        assert_false(directory_holds(f, "", plain, sizeof(plain)));
        if (!closed) {
            hash_hmac(f->auth->secret, HASH_SIZE, secret, AUTH_SECRET_LEN,
                      hash);
            shut(f);
        }
        assert_true(store_choice_server() ||
                    directory_holds(f, "", hash, sizeof(hash)));
    }
    must_open(f);
    assert_int_equal(check(f, secret, "127.0.0.1", NULL), 0);
}

static void I2_I4_secrets_are_256_random_bits_and_ids_128(void **state)
{
    struct fixture *f = *state;
    char *seen[32] = {NULL};
    struct auth_key keys[ARRAY_SIZE(seen)];
    unsigned bits = 0;

    for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
        seen[i] = create(f, AUTH_EXECUTE, &keys[i]);
        assert_int_equal(strlen(seen[i]), 68);
        assert_int_equal(strspn(seen[i] + 4, "0123456789abcdef"), 64);
        assert_true(ids_valid("key", keys[i].id));
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(seen[i], seen[j]);
            assert_string_not_equal(keys[i].id, keys[j].id);
        }
        for (const char *p = seen[i] + 4; *p; p++)
            bits += (unsigned)__builtin_popcount(
                (unsigned)(*p <= '9' ? *p - '0' : *p - 'a' + 10));
    }
    /* 8192 bits, half of them set: 4096, and 300 is over six sigma. */
    assert_in_range(bits, 4096 - 300, 4096 + 300);
    for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
        free(seen[i]);
}

static void I2_near_misses_are_refused(void **state)
{
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);
    char *longer cleanup(mem_free) = xasprintf("%s0", secret);

    assert_int_equal(check(f, longer, "10.0.0.1", NULL), -ERR_UNAUTHENTICATED);
    for (size_t i = 0; i < AUTH_SECRET_LEN; i++) {
        char *source cleanup(mem_free) = xasprintf("10.1.0.%zu", i);
        char kept = secret[i];

        secret[i] = kept == 'a' ? 'b' : 'a';
        /* The prefix is slowed after a while, but it stays refused. */
        assert_true(check(f, secret, source, NULL) < 0);
        secret[i] = kept;
    }
    secret[AUTH_SECRET_LEN - 1] = '\0';
    assert_true(check(f, secret, "10.0.0.1", NULL) < 0);
}

static void I7_errors_never_hold_the_key(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3 * LIMIT; i++) {
        assert_true(check(f, wrong(7), "127.0.0.1", NULL) < 0);
        assert_null(strstr(f->err.message, "0007"));
        assert_null(strstr(f->err.message, "gbx_"));
        assert_null(strstr(f->err.hint, "gbx_"));
    }
}

static void I7_logs_never_hold_the_key(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/test_auth_log.XXXXXX";
    int log cleanup(fd_close) = mkstemp(path);
    int saved cleanup(fd_close) = fd_dup(STDERR_FILENO, 3);
    char *secret cleanup(mem_free) = NULL;
    char *text cleanup(mem_free) = NULL;
    struct auth_key key;

    assert_true(dup2(log, STDERR_FILENO) >= 0);
    secret = create(f, AUTH_EXECUTE, &key);
    (void)check(f, secret, "127.0.0.1", NULL);
    (void)check(f, wrong(3), "127.0.0.1", NULL);
    (void)auth_key_revoke(f->auth, key.id, &f->err);
    shut(f);
    must_open(f);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(fd_read_file(AT_FDCWD, path, FILE_CAP, &text, NULL), 0);
    unlink(path);
    assert_null(strstr(text, "gbx_"));
    assert_null(strstr(text, secret + 4));
}

/* ---- the header --------------------------------------------------------- */

static void check_header_forms(void **state)
{
    static const struct {
        const char *before, *after;
        bool good;
    } cases[] = {
        {"Bearer ", "", true},         {"bearer ", "", true},
        {"BEARER ", "", true},         {"Bearer    ", "", true},
        {"Bearer", "", false},         {"Bearer\t", "", false},
        {" Bearer ", "", false},       {"Bearer ", " ", false},
        {"Basic ", "", false},         {"", "", false},
        {"Bearer Bearer ", "", false}, {"Bearer ", ",x", false},
        {"Bearer: ", "", false},       {"Bearer \"", "\"", false},
    };
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *header cleanup(mem_free) =
            xasprintf("%s%s%s", cases[i].before, secret, cases[i].after);
        char *source cleanup(mem_free) = xasprintf("10.0.0.%zu", i);
        struct principal p;

        if ((auth_check(f->auth, header, source, &p, &f->err) == 0) !=
            cases[i].good)
            fail_msg("header '%s...%s'", cases[i].before, cases[i].after);
    }
}

static void check_header_length(void **state)
{
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);

    for (int over = -1; over <= 1; over++) {
        int blanks = AUTH_HEADER_MAX - 6 - (int)AUTH_SECRET_LEN + over;
        char *header cleanup(mem_free) =
            xasprintf("Bearer%*s%s", blanks, "", secret);
        struct principal p;

        assert_int_equal(strlen(header), AUTH_HEADER_MAX + over);
        assert_int_equal(auth_check(f->auth, header, "10.0.0.1", &p, &f->err),
                         over <= 0 ? 0 : -ERR_UNAUTHENTICATED);
    }
}

static void check_without_header_is_not_counted(void **state)
{
    struct fixture *f = *state;
    struct principal p;

    for (int i = 0; i < 5 * LIMIT; i++)
        assert_int_equal(auth_check(f->auth, NULL, "10.0.0.1", &p, &f->err),
                         -ERR_UNAUTHENTICATED);
    assert_non_null(strstr(f->err.hint, "Bearer"));
    assert_int_equal(auth_throttle_count(f->auth->sources), 0);
}

/* ---- guessing ----------------------------------------------------------- */

static void I5_guessing_from_one_source_is_slowed(void **state)
{
    struct fixture *f = *state;

    struct principal p;

    for (unsigned i = 0; i < LIMIT + 3; i++) {
        assert_int_equal(check(f, wrong(i), "10.0.0.1", &p),
                         -ERR_UNAUTHENTICATED);
        assert_int_equal(p.slowed, i >= LIMIT);
        assert_int_equal(f->err.retry_after_s, 0);
    }
    /* Elsewhere nothing changed. */
    assert_int_equal(check(f, wrong(200), "10.0.0.2", &p),
                     -ERR_UNAUTHENTICATED);
    assert_false(p.slowed);
}

static void I5_guessing_beside_one_key_is_slowed(void **state)
{
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);
    char *guess cleanup(mem_free) = xstrdup(secret);

    memset(guess + AUTH_PENALTY_PREFIX, '0',
           AUTH_SECRET_LEN - AUTH_PENALTY_PREFIX);
    for (unsigned i = 0; i <= LIMIT; i++) {
        char *source cleanup(mem_free) = xasprintf("10.0.%u.1", i);
        struct principal p;

        assert_int_equal(check(f, guess, source, &p), -ERR_UNAUTHENTICATED);
        assert_int_equal(p.slowed, i == LIMIT);
    }
    /* The victim, even from an address that guessed. */
    assert_int_equal(check(f, secret, "10.0.3.1", NULL), 0);
    assert_int_equal(check(f, secret, "10.9.9.9", NULL), 0);
}

static void I5_a_right_key_is_never_locked_out(void **state)
{
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);

    struct principal p;

    for (unsigned i = 0; i < 5 * LIMIT; i++)
        assert_true(check(f, wrong(i), "10.0.0.1", &p) < 0);
    assert_true(p.slowed);
    assert_int_equal(check(f, secret, "10.0.0.1", &p), 0);
    assert_false(p.slowed);
    /* And it does not clear the record of who guesses beside it. */
    assert_true(check(f, wrong(1), "10.0.0.1", &p) < 0);
    assert_true(p.slowed);
}

static void I5_refusal_grows_expires_and_is_capped(void **state)
{
    struct auth_throttle *s = auth_throttle_new(LIMIT);
    uint64_t now = 1000000, want = AUTH_THROTTLE_FIRST_MS;

    (void)state;
    for (int round = 0; round < 9; round++) {
        for (int i = 0; i < LIMIT; i++)
            assert_int_equal(auth_throttle_fail(s, "x", 1, now), 0);
        assert_int_equal(auth_throttle_fail(s, "x", 1, now), want);
        assert_int_equal(auth_throttle_fail(s, "x", 1, now + 1), want - 1);
        assert_int_equal(auth_throttle_fail(s, "x", 1, now + want - 1), 1);
        now += want;
        want = MIN(2 * want, (uint64_t)AUTH_THROTTLE_MAX_MS);
    }
    assert_int_equal(want, AUTH_THROTTLE_MAX_MS);
    /* Long quiet, and it starts over. */
    now += AUTH_THROTTLE_FORGET_MS;
    for (int i = 0; i < LIMIT; i++)
        assert_int_equal(auth_throttle_fail(s, "x", 1, now), 0);
    assert_int_equal(auth_throttle_fail(s, "x", 1, now),
                     AUTH_THROTTLE_FIRST_MS);
    auth_throttle_free(s);
}

static void I5_slow_failures_are_not_punished(void **state)
{
    struct auth_throttle *s = auth_throttle_new(LIMIT);

    (void)state;
    for (int minute = 0; minute < 50; minute++)
        for (int i = 0; i < LIMIT; i++)
            assert_int_equal(
                auth_throttle_fail(
                    s, "x", 1, 1 + (uint64_t)minute * AUTH_THROTTLE_WINDOW_MS),
                0);
    auth_throttle_free(s);
}

static void I5_table_is_bounded_and_drops_the_oldest(void **state)
{
    struct auth_throttle *s = auth_throttle_new(1);
    uint32_t name;

    (void)state;
    for (name = 0; name < AUTH_THROTTLE_ENTRIES; name++) {
        assert_int_equal(auth_throttle_fail(s, &name, sizeof(name), 5), 0);
        assert_int_equal(auth_throttle_count(s), name + 1);
    }
    /* Name 0 fails again and so is no longer the oldest. */
    name = 0;
    assert_true(auth_throttle_fail(s, &name, sizeof(name), 6) > 0);
    for (name = 10000; name < 10010; name++)
        assert_int_equal(auth_throttle_fail(s, &name, sizeof(name), 7), 0);
    assert_int_equal(auth_throttle_count(s), AUTH_THROTTLE_ENTRIES);
    name = 0;
    assert_true(auth_throttle_fail(s, &name, sizeof(name), 8) > 0);
    name = 11; /* still known: a second failure is one too many */
    assert_true(auth_throttle_fail(s, &name, sizeof(name), 8) > 0);
    name = 1; /* forgotten */
    assert_int_equal(auth_throttle_fail(s, &name, sizeof(name), 8), 0);
    for (name = 20000; name < 50000; name++)
        (void)auth_throttle_fail(s, &name, sizeof(name), 9);
    assert_int_equal(auth_throttle_count(s), AUTH_THROTTLE_ENTRIES);
    auth_throttle_free(s);
}

static void I5_one_source_cannot_fill_the_prefixes(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 1000; i++)
        (void)check(f, wrong(i), "10.0.0.1", NULL);
    assert_int_equal(auth_throttle_count(f->auth->sources), 1);
    assert_int_equal(auth_throttle_count(f->auth->prefixes), LIMIT);
}

static void I5_an_ipv6_network_is_one_source(void **state)
{
    char a[64], b[64], c[64], d[64];
    size_t len;

    (void)state;
    len = auth_throttle_source("2001:db8:1:2::1", a);
    assert_int_equal(auth_throttle_source("2001:db8:1:2:ffff::9", b), len);
    assert_memory_equal(a, b, len);
    assert_int_equal(auth_throttle_source("2001:db8:1:3::1", c), len);
    assert_memory_not_equal(a, c, len);
    len = auth_throttle_source("::ffff:10.0.0.1", a);
    assert_int_equal(auth_throttle_source("::ffff:10.0.0.2", d), len);
    assert_memory_not_equal(a, d, len);
}

/* ---- keys --------------------------------------------------------------- */

static void key_create_checks_tenant_and_name(void **state)
{
    static const struct {
        const char *tenant, *name;
        bool good;
    } cases[] = {
        {"a", "", true},
        {"a-b_9", NULL, true},
        {"a", "caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\xa7\xa4", true},
        {"", "x", false},
        {"A", "x", false},
        {"a b", "x", false},
        {"a/b", "x", false},
        {"\xc3\xa9", "x", false},
        {"a", "tab\there", false},
        {"a", "line\nfeed", false},
        {"a", "\x7f", false},
        {"a", "\x1b[2J", false},
        {"a", "\xc2\x85", false},         /* a C1 control */
        {"a", "\xe2\x80\xae", false},     /* right-to-left override */
        {"a", "\xff", false},             /* not UTF-8 */
        {"a", "\xc3", false},             /* cut short */
        {"a", "\xc0\xaf", false},         /* too long a form */
        {"a", "\xe0\x80\xaf", false},     /* too long a form */
        {"a", "\xed\xa0\x80", false},     /* a surrogate */
        {"a", "\xf4\x90\x80\x80", false}, /* beyond Unicode */
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *secret cleanup(mem_free) = NULL;
        struct auth_key key;
        int r = auth_key_create(f->auth, cases[i].tenant, cases[i].name,
                                AUTH_EXECUTE, &key, &secret, &f->err);

        if (r != (cases[i].good ? 0 : -ERR_INVALID))
            fail_msg("case %zu: %d", i, r);
        if (r == 0)
            assert_string_equal(key.name, cases[i].name ? cases[i].name : "");
    }
}

static void key_create_length_limits(void **state)
{
    struct fixture *f = *state;

    for (size_t len = 62; len <= 64; len++)
        for (int which = 0; which < 2; which++) {
            char *secret cleanup(mem_free) = NULL;
            char text[65] = "";
            struct auth_key key;

            memset(text, 'a', len);
            assert_int_equal(auth_key_create(f->auth, which ? text : "t",
                                             which ? "n" : text, AUTH_EXECUTE,
                                             &key, &secret, &f->err),
                             len <= 63 ? 0 : -ERR_INVALID);
        }
}

static void key_create_needs_known_scopes(void **state)
{
    struct fixture *f = *state;
    struct auth_key key;
    char *secret = NULL;

    assert_int_equal(
        auth_key_create(f->auth, "t", "n", 0, &key, &secret, &f->err),
        -ERR_INVALID);
    assert_int_equal(
        auth_key_create(f->auth, "t", "n", 1 << 30, &key, &secret, &f->err),
        -ERR_INVALID);
    assert_null(secret);
}

static void key_create_number_limit(void **state)
{
    struct fixture *f = *state;
    size_t kept = f->auth->count;
    char *secret = NULL;
    struct auth_key key;

    f->auth->count = AUTH_KEYS_MAX;
    assert_int_equal(auth_key_create(f->auth, "t", "n", AUTH_EXECUTE, &key,
                                     &secret, &f->err),
                     -ERR_LIMIT);
    f->auth->count = AUTH_KEYS_MAX - 1;
    assert_int_equal(auth_key_create(f->auth, "t", "n", AUTH_EXECUTE, &key,
                                     &secret, &f->err),
                     0);
    free(secret);
    f->auth->count = kept + 1;
}

static void key_gives_its_tenant_and_scopes_only(void **state)
{
    struct fixture *f = *state;
    struct auth_key key;
    struct principal p;
    char *secret cleanup(mem_free) =
        create(f, AUTH_EXECUTE | AUTH_FILES_READ, &key);

    assert_int_equal(check(f, secret, "10.0.0.1", &p), 0);
    assert_string_equal(p.tenant, "acme");
    assert_string_equal(p.key_id, key.id);
    assert_int_equal(p.scopes, AUTH_EXECUTE | AUTH_FILES_READ);
}

static void key_revoke_takes_effect_at_once_and_stays(void **state)
{
    struct fixture *f = *state;
    struct auth_key key, *keys cleanup(mem_free) = NULL;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, &key);

    assert_int_equal(check(f, secret, "10.0.0.1", NULL), 0);
    assert_int_equal(auth_key_revoke(f->auth, key.id, &f->err), 0);
    assert_int_equal(check(f, secret, "10.0.0.1", NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(auth_key_revoke(f->auth, key.id, &f->err), 0);
    shut(f);
    must_open(f);
    assert_int_equal(check(f, secret, "10.0.0.1", NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(list(f, &keys), 2);
    assert_string_equal(keys[0].id, key.id);
    assert_true(keys[0].revoked_at_ms > 0);
    assert_int_equal(keys[1].revoked_at_ms, 0);
}

static void key_revoke_unknown_is_not_found(void **state)
{
    static const char *const ids[] = {"",
                                      "key_",
                                      "key_x",
                                      "sess_00000000000000000000000000000000",
                                      "key_00000000000000000000000000000000",
                                      "' OR 1=1 --"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
        assert_int_equal(auth_key_revoke(f->auth, ids[i], &f->err),
                         -ERR_NOT_FOUND);
}

static void key_revoke_spares_the_last_admin(void **state)
{
    struct fixture *f = *state;
    struct auth_key second, *keys cleanup(mem_free) = NULL;
    char *first cleanup(mem_free) = admin_secret(f);
    char *secret cleanup(mem_free) = NULL;

    assert_int_equal(list(f, &keys), 1);
    assert_int_equal(auth_key_revoke(f->auth, keys[0].id, &f->err),
                     -ERR_CONFLICT);
    assert_int_equal(check(f, first, "10.0.0.1", NULL), 0);
    secret = create(f, AUTH_ADMIN, &second);
    assert_int_equal(auth_key_revoke(f->auth, keys[0].id, &f->err), 0);
    assert_int_equal(auth_key_revoke(f->auth, second.id, &f->err),
                     -ERR_CONFLICT);
    shut(f);
    must_open(f); /* another admin is there, so no new key is made */
    assert_int_equal(check(f, first, "10.0.0.1", NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(check(f, secret, "10.0.0.1", NULL), 0);
}

static void key_narrow_takes_rights_away_and_ends_tokens(void **state)
{
    struct fixture *f = *state;
    struct auth_key key, token, changed;
    struct principal p;
    char *secret cleanup(mem_free) =
        create(f, AUTH_EXECUTE | AUTH_FILES_READ, &key);
    char *minted cleanup(mem_free) = NULL;
    struct actor_bounds pools = {.ids = {[ACTOR_POOLS] = "small"}};
    struct actor_bounds others = {.ids = {[ACTOR_POOLS] = "small,large"}};

    assert_int_equal(check(f, secret, "10.0.0.1", &p), 0);
    assert_int_equal(auth_token_mint(f->auth, &p,
                                     &(struct auth_token_spec){.ttl_s = 60},
                                     &token, &minted, &f->err),
                     0);
    /* A new name alone takes nothing away. */
    assert_int_equal(auth_key_narrow(f->auth, key.id,
                                     &(struct auth_key_patch){.name = "new"},
                                     &changed, &f->err),
                     0);
    assert_string_equal(changed.name, "new");
    assert_int_equal(check(f, minted, "10.0.0.1", &p), 0);
    assert_string_equal(p.name, "new");
    assert_int_equal(
        auth_key_narrow(f->auth, key.id,
                        &(struct auth_key_patch){.scopes = AUTH_FILES_READ,
                                                 .bounds = &pools,
                                                 .expires_in_s = 60},
                        &changed, &f->err),
        0);
    assert_int_equal(check(f, minted, "10.0.0.1", NULL), -ERR_UNAUTHENTICATED);
    for (int start = 0; start < 2; start++) {
        assert_int_equal(check(f, secret, "10.0.0.1", &p), 0);
        assert_int_equal(p.scopes, AUTH_FILES_READ);
        assert_string_equal(p.bounds.ids[ACTOR_POOLS], "small");
        assert_true(p.expires_at_ms > 0);
        shut(f);
        must_open(f);
    }
    /* Nothing comes back. */
    assert_int_equal(
        auth_key_narrow(f->auth, key.id,
                        &(struct auth_key_patch){.scopes = AUTH_EXECUTE},
                        &changed, &f->err),
        -ERR_INVALID);
    assert_int_equal(
        auth_key_narrow(f->auth, key.id,
                        &(struct auth_key_patch){.bounds = &others}, &changed,
                        &f->err),
        -ERR_INVALID);
    assert_int_equal(
        auth_key_narrow(f->auth, key.id,
                        &(struct auth_key_patch){.expires_in_s = 3600},
                        &changed, &f->err),
        -ERR_INVALID);
    assert_int_equal(auth_key_narrow(f->auth, token.id,
                                     &(struct auth_key_patch){.name = "x"},
                                     &changed, &f->err),
                     -ERR_NOT_FOUND);
}

static void key_narrow_spares_the_last_admin(void **state)
{
    struct fixture *f = *state;
    struct auth_key changed, *keys cleanup(mem_free) = NULL;
    char *first cleanup(mem_free) = admin_secret(f);
    const struct auth_key_patch less = {.scopes = AUTH_EXECUTE},
                                ends = {.expires_in_s = 60};

    assert_int_equal(list(f, &keys), 1);
    assert_int_equal(
        auth_key_narrow(f->auth, keys[0].id, &less, &changed, &f->err),
        -ERR_CONFLICT);
    assert_int_equal(
        auth_key_narrow(f->auth, keys[0].id, &ends, &changed, &f->err),
        -ERR_CONFLICT);
    assert_int_equal(check(f, first, "10.0.0.1", NULL), 0);
}

static void key_rotate_replaces_the_secret_only(void **state)
{
    struct fixture *f = *state;
    struct auth_key key, token, rotated;
    struct principal p;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, &key);
    char *minted cleanup(mem_free) = NULL;
    char *fresh cleanup(mem_free) = NULL;

    assert_int_equal(check(f, secret, "10.0.0.1", &p), 0);
    assert_int_equal(auth_token_mint(f->auth, &p,
                                     &(struct auth_token_spec){.ttl_s = 60},
                                     &token, &minted, &f->err),
                     0);
    assert_int_equal(
        auth_key_rotate(f->auth, key.id, &rotated, &fresh, &f->err), 0);
    assert_string_equal(rotated.id, key.id);
    assert_string_not_equal(fresh, secret);
    for (int start = 0; start < 2; start++) {
        assert_int_equal(check(f, secret, "10.0.0.1", NULL),
                         -ERR_UNAUTHENTICATED);
        assert_int_equal(check(f, minted, "10.0.0.1", NULL),
                         -ERR_UNAUTHENTICATED);
        assert_int_equal(check(f, fresh, "10.0.0.1", &p), 0);
        assert_string_equal(p.key_id, key.id);
        assert_int_equal(p.scopes, AUTH_EXECUTE);
        shut(f);
        must_open(f);
    }
    assert_int_equal(auth_key_revoke(f->auth, key.id, &f->err), 0);
    free(fresh);
    fresh = NULL;
    assert_int_equal(
        auth_key_rotate(f->auth, key.id, &rotated, &fresh, &f->err),
        -ERR_NOT_FOUND);
}

static void key_use_is_noted(void **state)
{
    struct fixture *f = *state;
    struct auth_key *keys = NULL;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);
    int64_t before = clock_real_ms(), noted;

    assert_int_equal(list(f, &keys), 2);
    assert_int_equal(keys[0].last_used_at_ms, 0);
    free(keys);
    assert_int_equal(check(f, secret, "10.0.0.1", NULL), 0);
    assert_int_equal(list(f, &keys), 2);
    noted = keys[0].last_used_at_ms;
    assert_in_range(noted, before, before + 60000);
    free(keys);
    /* Within the minute no more is written. */
    assert_int_equal(check(f, secret, "10.0.0.1", NULL), 0);
    assert_int_equal(list(f, &keys), 2);
    assert_int_equal(keys[0].last_used_at_ms, noted);
    free(keys);
    shut(f);
    must_open(f);
    assert_int_equal(list(f, &keys), 2);
    assert_int_equal(keys[0].last_used_at_ms, noted);
    free(keys);
}

static void key_use_is_written_at_close(void **state)
{
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = create(f, AUTH_EXECUTE, NULL);
    struct auth_key *keys cleanup(mem_free) = NULL;

    assert_int_equal(check(f, secret, "10.0.0.1", NULL), 0);
    shut(f);
    must_open(f);
    assert_int_equal(list(f, &keys), 2);
    assert_true(keys[0].last_used_at_ms > 0);
}

static void *churn(void *arg)
{
    struct fixture *f = arg;

    for (int i = 0; i < 10; i++) {
        char *secret cleanup(mem_free) = NULL;
        char *header cleanup(mem_free) = NULL;
        struct auth_key key;
        struct principal p;
        struct error err;

        if (auth_key_create(f->auth, "t", "n", AUTH_ADMIN, &key, &secret,
                            &err) < 0)
            return arg;
        header = xasprintf("Bearer %s", secret);
        for (int j = 0; j < 50; j++)
            if (auth_check(f->auth, header, "10.0.0.1", &p, &err) < 0)
                return arg;
        if (auth_key_revoke(f->auth, key.id, &err) < 0 ||
            auth_check(f->auth, header, "10.0.0.1", &p, &err) == 0)
            return arg;
    }
    return NULL;
}

static void keys_from_many_threads(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[4];

    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, f), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        void *bad;

        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    assert_int_equal(f->auth->count, 1);
    assert_int_equal(f->auth->admins, 1);
}

/* ---- rows of the keys --------------------------------------------------- */

static struct auth_row row_of(unsigned n)
{
    struct auth_row row = {.scopes = n, .created_at_ms = 1000 + n};

    (void)snprintf(row.id, sizeof(row.id), "key_%032x", n);
    memset(row.hash, 0xab, sizeof(row.hash));
    memcpy(row.hash, &n, sizeof(n));
    (void)snprintf(row.tenant, sizeof(row.tenant), "tenant-%u", n);
    (void)snprintf(row.name, sizeof(row.name), "'); DROP TABLE keys; --%u", n);
    return row;
}

static void put_row(struct fixture *f, unsigned n)
{
    struct auth_row row = row_of(n);

    if (auth_key_store_put(f->store, &row, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

/* Newest first, so the admin's key, made now, is the first of them. */
static size_t list_rows(struct fixture *f, struct auth_row **ret)
{
    size_t count = 0;

    if (auth_key_store_list(f->store, ret, &count, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return count;
}

static size_t count_rows(struct fixture *f)
{
    struct auth_row *rows cleanup(mem_free) = NULL;

    return list_rows(f, &rows);
}

static void key_store_put_survives_reopen(void **state)
{
    struct fixture *f = *state;
    struct auth_row *rows cleanup(mem_free) = NULL;
    struct auth_row want = row_of(2);

    put_row(f, 1);
    put_row(f, 2);
    shut(f);
    must_open(f);
    assert_int_equal(list_rows(f, &rows), 3);
    assert_memory_equal(&rows[1], &want, sizeof(want));
    assert_string_equal(rows[2].tenant, "tenant-1");
}

static void key_store_put_twice_conflicts(void **state)
{
    struct fixture *f = *state;
    struct auth_row same = row_of(1);

    put_row(f, 1);
    assert_int_equal(auth_key_store_put(f->store, &same, &f->err),
                     -ERR_CONFLICT);
    (void)snprintf(same.id, sizeof(same.id), "key_other"); /* same hash */
    assert_int_equal(auth_key_store_put(f->store, &same, &f->err),
                     -ERR_CONFLICT);
    put_row(f, 2); /* the failed ones left no transaction behind */
    assert_int_equal(count_rows(f), 3);
}

static void key_store_put_longest_texts(void **state)
{
    struct fixture *f = *state;
    struct auth_row *rows cleanup(mem_free) = NULL;
    struct auth_row row = row_of(1);

    memset(row.name, 'n', sizeof(row.name) - 1);
    memset(row.tenant, 't', sizeof(row.tenant) - 1);
    assert_int_equal(auth_key_store_put(f->store, &row, &f->err), 0);
    assert_int_equal(list_rows(f, &rows), 2);
    assert_memory_equal(&rows[1], &row, sizeof(row));
}

static void key_store_revoke_keeps_the_first_time(void **state)
{
    struct fixture *f = *state;
    struct auth_row *rows cleanup(mem_free) = NULL;
    struct auth_row row = row_of(1);

    put_row(f, 1);
    assert_int_equal(auth_key_store_revoke(f->store, row.id, 500, &f->err), 0);
    assert_int_equal(auth_key_store_revoke(f->store, row.id, 900, &f->err), 0);
    assert_int_equal(auth_key_store_revoke(f->store, "key_x", 500, &f->err),
                     -ERR_NOT_FOUND);
    shut(f);
    must_open(f);
    assert_int_equal(list_rows(f, &rows), 2);
    assert_int_equal(rows[1].revoked_at_ms, 500);
}

/* n revoked keys "old_1", "old_2", … in one transaction. */
static void put_revoked(struct fixture *f, int64_t count)
{
    struct store_tx *tx = NULL;

    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err), 0);
    for (int64_t i = 1; i <= count; i++) {
        unsigned char hash[HASH_SIZE] = {0xee};
        char id[32];

        memcpy(hash + 1, &i, sizeof(i));
        (void)snprintf(id, sizeof(id), "old_%lld", (long long)i);
        assert_int_equal(store_exec(tx, &f->err,
                                    "INSERT INTO keys (id, hash, tenant, name,"
                                    " scopes, created_at_ms, revoked_at_ms)"
                                    " VALUES (?1, ?2, 't', 'n', 1, ?3, ?3)",
                                    "tbi", id, hash, sizeof(hash), i),
                         1);
    }
    assert_int_equal(store_commit(&tx, &f->err), 0);
}

static void key_store_revoke_remembers_a_bounded_number(void **state)
{
    struct fixture *f = *state;
    struct auth_row row;

    put_revoked(f, AUTH_REVOKED_KEPT - 1);
    for (unsigned n = 1; n <= 3; n++)
        put_row(f, n);
    row = row_of(1);
    assert_int_equal(count_rows(f), AUTH_REVOKED_KEPT + 3);
    assert_int_equal(auth_key_store_revoke(f->store, row.id, 5000, &f->err),
                     0);
    assert_int_equal(count_rows(f), AUTH_REVOKED_KEPT + 3); /* all kept */
    row = row_of(2);
    assert_int_equal(auth_key_store_revoke(f->store, row.id, 5001, &f->err),
                     0);
    assert_int_equal(count_rows(f), AUTH_REVOKED_KEPT + 2); /* the oldest */
    assert_int_equal(auth_key_store_revoke(f->store, "old_1", 1, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(auth_key_store_revoke(f->store, "old_2", 1, &f->err), 0);
}

static void key_store_touch_moves_forward_only(void **state)
{
    struct fixture *f = *state;
    struct auth_row *rows cleanup(mem_free) = NULL;
    struct auth_touch uses[3] = {{.used_at_ms = 70}, {.used_at_ms = 60}};

    put_row(f, 1);
    put_row(f, 2);
    memcpy(uses[0].id, row_of(1).id, sizeof(uses[0].id));
    memcpy(uses[1].id, row_of(2).id, sizeof(uses[1].id));
    (void)snprintf(uses[2].id, sizeof(uses[2].id), "key_unknown");
    assert_int_equal(auth_key_store_touch(f->store, uses, 3, &f->err), 0);
    uses[0].used_at_ms = 65;
    uses[1].used_at_ms = 65;
    assert_int_equal(auth_key_store_touch(f->store, uses, 2, &f->err), 0);
    assert_int_equal(list_rows(f, &rows), 3);
    assert_int_equal(rows[2].last_used_at_ms, 70);
    assert_int_equal(rows[1].last_used_at_ms, 65);
}

static void key_list_is_in_the_order_of_making(void **state)
{
    struct fixture *f = *state;
    struct auth_key made[20], *keys cleanup(mem_free) = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(made); i++)
        free(create(f, AUTH_EXECUTE, &made[i]));
    assert_int_equal(list(f, &keys), ARRAY_SIZE(made) + 1);
    for (size_t i = 0; i < ARRAY_SIZE(made); i++)
        assert_string_equal(keys[i].id, made[ARRAY_SIZE(made) - 1 - i].id);
}

/* ---- scopes ------------------------------------------------------------- */

static void scopes_parse_and_format(void **state)
{
    static const struct {
        const char *text;
        uint32_t scopes; /* 0: refused */
        const char *canonical;
    } cases[] = {
        {"execute", AUTH_EXECUTE, "execute"},
        {"files:write,execute", AUTH_EXECUTE | AUTH_FILES_WRITE,
         "execute,files:write"},
        {"admin,admin", AUTH_ADMIN, "admin"},
        {"approve,policy:admin,audit:read,workspaces:admin",
         AUTH_WORKSPACES_ADMIN | AUTH_AUDIT_READ | AUTH_POLICY_ADMIN |
             AUTH_APPROVE,
         "workspaces:admin,audit:read,policy:admin,approve"},
        {"execute,files:read,files:write,workspaces:admin,audit:read,"
         "policy:admin,approve,admin",
         AUTH_SCOPES_ALL,
         "execute,files:read,files:write,workspaces:admin,audit:read,"
         "policy:admin,approve,admin"},
        {"", 0, NULL},
        {",", 0, NULL},
        {"execute,", 0, NULL},
        {",execute", 0, NULL},
        {"execute files:read", 0, NULL},
        {"Execute", 0, NULL},
        {"exec", 0, NULL},
        {"executes", 0, NULL},
        {"files", 0, NULL},
    };
    char text[96];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err;
        uint32_t scopes = 0;
        int r = auth_scopes_parse(cases[i].text, &scopes, &err);

        if (r != (cases[i].scopes ? 0 : -ERR_INVALID))
            fail_msg("scopes '%s'", cases[i].text);
        assert_int_equal(scopes, cases[i].scopes);
        if (r == 0)
            assert_string_equal(auth_scopes_format(scopes, text),
                                cases[i].canonical);
    }
    assert_string_equal(auth_scopes_format(0, text), "");
}

static void new_key(struct fixture *f, const char *tenant, const char *name,
                    struct auth_key *ret)
{
    char *secret cleanup(mem_free) = NULL;

    if (auth_key_create(f->auth, tenant, name, AUTH_EXECUTE, ret, &secret,
                        &f->err) < 0)
        fail_msg("%s", f->err.message);
}

/* An id wins, a name must be unique among the valid keys of the tenant. */
static void key_resolve_by_id_or_unique_name(void **state)
{
    struct fixture *f = *state;
    struct auth_key one, two, other, found;

    new_key(f, "acme", "build", &one);
    new_key(f, "acme", "report", &two);
    new_key(f, "other", "build", &other);
    assert_int_equal(auth_key_resolve(f->auth, NULL, one.id, &found, &f->err),
                     0);
    assert_string_equal(found.id, one.id);
    assert_int_equal(
        auth_key_resolve(f->auth, "acme", "build", &found, &f->err), 0);
    assert_string_equal(found.id, one.id);
    assert_int_equal(auth_key_resolve(f->auth, NULL, "build", &found, &f->err),
                     -ERR_CONFLICT);
    assert_int_equal(
        auth_key_resolve(f->auth, "acme", other.id, &found, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(auth_key_resolve(f->auth, NULL, "", &found, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(auth_key_revoke(f->auth, other.id, &f->err), 0);
    assert_int_equal(auth_key_resolve(f->auth, NULL, "build", &found, &f->err),
                     0);
    assert_string_equal(found.id, one.id);
    assert_int_equal(auth_key_get(f->auth, other.id, &found, &f->err), 0);
    assert_string_equal(found.tenant, "other");
    assert_int_equal(auth_key_get(f->auth, "key_none", &found, &f->err),
                     -ERR_NOT_FOUND);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(I6_first_start_makes_a_random_admin_key),
        CASE(I6_no_default_credential_works),
        CASE(admin_key_is_private_and_stays),
        CASE(admin_key_file_may_be_taken_away),
        CASE(D11_admin_key_of_the_file_is_taken_when_there_is_no_key),
        CASE(D11_admin_key_file_is_never_replaced),
        CASE(secret_missing_damaged_or_open_is_refused),
        CASE(I2_secret_is_stored_as_hash_only),
        CASE(I2_I4_secrets_are_256_random_bits_and_ids_128),
        CASE(I2_near_misses_are_refused),
        CASE(I7_errors_never_hold_the_key),
        CASE(I7_logs_never_hold_the_key),
        CASE(check_header_forms),
        CASE(check_header_length),
        CASE(check_without_header_is_not_counted),
        CASE(I5_guessing_from_one_source_is_slowed),
        CASE(I5_guessing_beside_one_key_is_slowed),
        CASE(I5_a_right_key_is_never_locked_out),
        CASE(I5_refusal_grows_expires_and_is_capped),
        CASE(I5_slow_failures_are_not_punished),
        CASE(I5_table_is_bounded_and_drops_the_oldest),
        CASE(I5_one_source_cannot_fill_the_prefixes),
        CASE(I5_an_ipv6_network_is_one_source),
        CASE(key_create_checks_tenant_and_name),
        CASE(key_create_length_limits),
        CASE(key_create_needs_known_scopes),
        CASE(key_create_number_limit),
        CASE(key_gives_its_tenant_and_scopes_only),
        CASE(key_revoke_takes_effect_at_once_and_stays),
        CASE(key_revoke_unknown_is_not_found),
        CASE(key_revoke_spares_the_last_admin),
        CASE(key_narrow_takes_rights_away_and_ends_tokens),
        CASE(key_narrow_spares_the_last_admin),
        CASE(key_rotate_replaces_the_secret_only),
        CASE(key_use_is_noted),
        CASE(key_use_is_written_at_close),
        CASE(keys_from_many_threads),
        CASE(key_store_put_survives_reopen),
        CASE(key_store_put_twice_conflicts),
        CASE(key_store_put_longest_texts),
        CASE(key_store_revoke_keeps_the_first_time),
        CASE(key_store_revoke_remembers_a_bounded_number),
        CASE(key_store_touch_moves_forward_only),
        CASE(key_list_is_in_the_order_of_making),
        CASE(key_resolve_by_id_or_unique_name),
        cmocka_unit_test(scopes_parse_and_format),
    };

    return cmocka_run_group_tests_name("auth", tests, NULL, NULL);
}
