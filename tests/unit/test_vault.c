/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: what they may be, how they are sealed, who sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "scratch.h"
#include "store/store.h"
#include "store_choice.h"
#include "vault/vault_int.h"

static const struct actor WHO = {.tenant = "acme", .key = "key_acme"};
static const struct actor OTHER = {.tenant = "other", .key = "key_other"};

struct fixture {
    char dir[64];
    struct store *store;
    struct audit *audit;
    struct vault *vault;
    struct error err;
};

static void open_it(struct fixture *f)
{
    assert_int_equal(
        store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err),
        0);
    assert_int_equal(audit_open(f->store, f->dir, &f->audit, &f->err), 0);
}

static void close_it(struct fixture *f)
{
    vault_close(take_ptr(f->vault));
    audit_close(take_ptr(f->audit));
    store_close(take_ptr(f->store));
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_vault"));
    open_it(f);
    assert_int_equal(
        vault_open(f->store, f->audit, f->dir, &f->vault, &f->err), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    close_it(f);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static struct vault_info spec(const char *name, const char *to)
{
    struct vault_info s = {.header = "Authorization", .prefix = "Bearer "};

    (void)snprintf(s.name, sizeof(s.name), "%s", name);
    (void)snprintf(s.destinations, sizeof(s.destinations), "%s", to);
    return s;
}

static int put(struct fixture *f, const char *name, const char *to,
               const char *value)
{
    struct vault_info s = spec(name, to), ret;

    return vault_put(f->vault, &WHO, &s, value, strlen(value), &ret, &f->err);
}

/* ---- sealing ------------------------------------------------------------ */

static const unsigned char KEY[VAULT_KEY_SIZE] = {1, 2, 3};

static int unseal(const unsigned char *key, const char *tenant,
                  const struct vault_info *row, const unsigned char *sealed,
                  size_t len, char **ret)
{
    struct error err;

    return vault_unseal(key, tenant, row, sealed, len, ret, &err);
}

static void vault_seal_opens_only_as_it_was(void **state)
{
    struct vault_info row = spec("api", "api.example.org"), other;
    unsigned char sealed[VAULT_SEALED_MAX], wrong[VAULT_KEY_SIZE] = {1, 2, 4};
    struct error err;
    char *value = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(
        vault_seal(KEY, "acme", &row, "s3cret", 6, sealed, &len, &err), 0);
    assert_int_equal(len, 6 + VAULT_SEAL_EXTRA);
    assert_int_equal(unseal(KEY, "acme", &row, sealed, len, &value), 0);
    assert_string_equal(value, "s3cret");
    vault_forget(&value);
    assert_null(value);
    /* another key, tenant, name, destination, header, prefix */
    assert_true(unseal(wrong, "acme", &row, sealed, len, &value) < 0);
    assert_true(unseal(KEY, "other", &row, sealed, len, &value) < 0);
    other = spec("apj", "api.example.org");
    assert_true(unseal(KEY, "acme", &other, sealed, len, &value) < 0);
    other = spec("api", "evil.example.org");
    assert_true(unseal(KEY, "acme", &other, sealed, len, &value) < 0);
    other = row;
    other.header[0] = 'X';
    assert_true(unseal(KEY, "acme", &other, sealed, len, &value) < 0);
    other = row;
    other.prefix[0] = 'X';
    assert_true(unseal(KEY, "acme", &other, sealed, len, &value) < 0);
    /* every bit of it, and every length */
    for (size_t i = 0; i < len; i++) {
        sealed[i] ^= 1;
        assert_true(unseal(KEY, "acme", &row, sealed, len, &value) < 0);
        sealed[i] ^= 1;
    }
    for (size_t i = 0; i < len; i++)
        assert_true(unseal(KEY, "acme", &row, sealed, i, &value) < 0);
    assert_null(value);
}

static void vault_seal_never_the_same_twice(void **state)
{
    struct vault_info row = spec("api", "api.example.org");
    unsigned char a[VAULT_SEALED_MAX], b[VAULT_SEALED_MAX];
    struct error err;
    size_t len;

    (void)state;
    assert_int_equal(vault_seal(KEY, "acme", &row, "x", 1, a, &len, &err), 0);
    assert_int_equal(vault_seal(KEY, "acme", &row, "x", 1, b, &len, &err), 0);
    assert_memory_not_equal(a, b, len);
}

/* ---- what it may be ----------------------------------------------------- */

static void vault_put_checks_what_it_gets(void **state)
{
    struct fixture *f = *state;
    char name[66], value[VAULT_VALUE_MAX + 2];
    static const char *const bad_names[] = {"", "a b", "a/b", "ä", "a,b"};
    static const char *const bad_hosts[] = {"",     ",",    "*",       "*.org",
                                            "a b@", "x..y", "exa%mple"};
    static const char *const bad_headers[] = {"Host",
                                              "host",
                                              "Content-Length",
                                              "Transfer-Encoding",
                                              "Connection",
                                              "Proxy-Authorization",
                                              "a b",
                                              "a:b"};
    struct vault_info s, ret;

    memset(name, 'n', sizeof(name));
    name[63] = '\0';
    assert_int_equal(put(f, name, "example.org", "v"), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad_names); i++)
        assert_int_equal(put(f, bad_names[i], "example.org", "v"),
                         -ERR_INVALID);
    for (size_t i = 0; i < ARRAY_SIZE(bad_hosts); i++)
        assert_int_equal(put(f, "n", bad_hosts[i], "v"), -ERR_INVALID);
    for (size_t i = 0; i < ARRAY_SIZE(bad_headers); i++) {
        s = spec("n", "example.org");
        (void)snprintf(s.header, sizeof(s.header), "%s", bad_headers[i]);
        assert_int_equal(vault_put(f->vault, &WHO, &s, "v", 1, &ret, &f->err),
                         -ERR_INVALID);
    }
    memset(value, 'v', sizeof(value));
    value[VAULT_VALUE_MAX] = '\0';
    assert_int_equal(put(f, "n", "example.org", value), 0);
    value[VAULT_VALUE_MAX] = 'v';
    value[VAULT_VALUE_MAX + 1] = '\0';
    assert_int_equal(put(f, "n", "example.org", value), -ERR_TOO_LARGE);
    assert_int_equal(put(f, "n", "example.org", ""), -ERR_INVALID);
    assert_int_equal(put(f, "n", "example.org", "a\r\nEvil: b"), -ERR_INVALID);
    assert_int_equal(put(f, "n", "example.org", "gr\xc3\xbc"), -ERR_INVALID);
}

static void vault_put_makes_destinations_canonical(void **state)
{
    struct fixture *f = *state;
    struct vault_info ret;

    assert_int_equal(put(f, "n",
                         "API.Example.ORG., *.Sub.example.org,b\xc3\xbc"
                         "cher.de",
                         "v"),
                     0);
    assert_int_equal(vault_get(f->vault, &WHO, "n", &ret, &f->err), 0);
    assert_string_equal(ret.destinations,
                        "api.example.org,*.sub.example.org,xn--bcher-kva.de");
    assert_true(vault_goes_to(&ret, "api.example.org"));
    assert_true(vault_goes_to(&ret, "x.sub.example.org"));
    assert_true(vault_goes_to(&ret, "*.sub.example.org"));
    assert_false(vault_goes_to(&ret, "sub.example.org"));
    assert_false(vault_goes_to(&ret, "*.example.org"));
    assert_false(vault_goes_to(&ret, "api.example.org.evil.org"));
}

static void vault_put_bounds_destinations(void **state)
{
    struct fixture *f = *state;
    char to[600] = "";

    for (int i = 0; i < 16; i++)
        (void)snprintf(to + strlen(to), sizeof(to) - strlen(to), "%sh%d.org",
                       i ? "," : "", i);
    assert_int_equal(put(f, "n", to, "v"), 0);
    (void)snprintf(to + strlen(to), sizeof(to) - strlen(to), ",h16.org");
    assert_int_equal(put(f, "n", to, "v"), -ERR_INVALID);
}

/* ---- rows --------------------------------------------------------------- */

static void vault_reveal_gives_what_was_put(void **state)
{
    struct fixture *f = *state;
    char *value cleanup(vault_forget) = NULL;
    struct vault_info ret;

    assert_int_equal(put(f, "n", "example.org", "first"), 0);
    assert_int_equal(put(f, "n", "example.org", "second"), 0);
    assert_int_equal(
        vault_reveal(f->vault, &WHO, "n", "sess_1", &ret, &value, &f->err), 0);
    assert_string_equal(value, "second");
    assert_string_equal(ret.header, "Authorization");
    assert_int_equal(vault_get(f->vault, &WHO, "n", &ret, &f->err), 0);
    assert_true(ret.used_at_ms > 0);
    /* a foreign one is an unknown one */
    assert_int_equal(vault_get(f->vault, &OTHER, "n", &ret, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(vault_remove(f->vault, &OTHER, "n", &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(vault_remove(f->vault, &WHO, "n", &f->err), 0);
    assert_int_equal(vault_remove(f->vault, &WHO, "n", &f->err),
                     -ERR_NOT_FOUND);
}

/* A fingerprint: of the value and the vault's key, and nothing is kept. */
static void vault_preview_tells_values_apart(void **state)
{
    struct fixture *f = *state;
    struct vault_info s = spec("api", "API.example.org"), kept;
    void *theirs = NULL;
    struct fixture *other;
    char one[VAULT_FINGERPRINT], same[VAULT_FINGERPRINT] = "";
    char two[VAULT_FINGERPRINT] = "", elsewhere[VAULT_FINGERPRINT] = "";

    assert_int_equal(
        vault_preview(f->vault, &s, "hunter2", 7, &kept, one, &f->err), 0);
    assert_string_equal(kept.destinations, "api.example.org");
    assert_int_equal(strlen(one), VAULT_FINGERPRINT - 1);
    assert_int_equal(
        vault_preview(f->vault, &s, "hunter2", 7, &kept, same, &f->err), 0);
    assert_string_equal(one, same);
    assert_int_equal(
        vault_preview(f->vault, &s, "hunter3", 7, &kept, two, &f->err), 0);
    assert_string_not_equal(one, two);
    assert_int_equal(set_up(&theirs), 0);
    other = theirs;
    assert_int_equal(vault_preview(other->vault, &s, "hunter2", 7, &kept,
                                   elsewhere, &f->err),
                     0);
    assert_string_not_equal(one, elsewhere);
    assert_int_equal(tear_down(&theirs), 0);
    assert_int_equal(vault_get(f->vault, &WHO, "api", &kept, &f->err),
                     -ERR_NOT_FOUND);
    s.destinations[0] = '\0';
    assert_int_equal(
        vault_preview(f->vault, &s, "hunter2", 7, &kept, one, &f->err),
        -ERR_INVALID);
    assert_int_equal(vault_preview(NULL, &(struct vault_info){0}, "x", 1,
                                   &kept, one, &f->err),
                     -ERR_INVALID);
}

static int exec(struct fixture *f, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = store_begin(f->store, STORE_WRITE, "test", &tx, &f->err);

    if (rc == 0)
        rc = store_exec(tx, &f->err, sql, "");
    return rc < 0 ? rc : store_commit(&tx, &f->err);
}

static int reveal(struct fixture *f, const struct actor *who, const char *name)
{
    char *value cleanup(vault_forget) = NULL;
    struct vault_info ret;

    return vault_reveal(f->vault, who, name, "sess_1", &ret, &value, &f->err);
}

static void vault_reveal_refuses_rows_that_were_touched(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(put(f, "a", "a.example.org", "va"), 0);
    assert_int_equal(put(f, "b", "b.example.org", "vb"), 0);
    assert_int_equal(reveal(f, &WHO, "a"), 0);
    /* swapped with each other */
    assert_int_equal(
        exec(f, "UPDATE secrets SET sealed = (SELECT s.sealed FROM secrets s"
                " WHERE s.name <> secrets.name)"),
        0);
    assert_int_equal(reveal(f, &WHO, "a"), -ERR_CORRUPT);
    /* sent elsewhere */
    assert_int_equal(put(f, "a", "a.example.org", "va"), 0);
    assert_int_equal(exec(f, "UPDATE secrets SET destinations = 'evil.org'"
                             " WHERE name = 'a'"),
                     0);
    assert_int_equal(reveal(f, &WHO, "a"), -ERR_CORRUPT);
    /* given to somebody else */
    assert_int_equal(put(f, "a", "a.example.org", "va"), 0);
    assert_int_equal(
        exec(f, "UPDATE secrets SET tenant = 'other' WHERE name = 'a'"), 0);
    assert_int_equal(reveal(f, &OTHER, "a"), -ERR_CORRUPT);
}

static void vault_open_fails_without_its_key(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct stat st;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/vault.key", f->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, VAULT_KEY_SIZE);
    assert_int_equal(put(f, "a", "a.example.org", "va"), 0);
    close_it(f);
    open_it(f);
    /* others could read it */
    assert_int_equal(chmod(path, 0644), 0);
    assert_true(vault_open(f->store, f->audit, f->dir, &f->vault, &f->err) <
                0);
    assert_int_equal(chmod(path, 0600), 0);
    /* cut short */
    assert_int_equal(truncate(path, VAULT_KEY_SIZE - 1), 0);
    assert_true(vault_open(f->store, f->audit, f->dir, &f->vault, &f->err) <
                0);
    /* gone, while there are secrets: not made anew */
    assert_int_equal(unlink(path), 0);
    assert_true(vault_open(f->store, f->audit, f->dir, &f->vault, &f->err) <
                0);
    assert_int_equal(access(path, F_OK), -1);
    /* another one opens, and opens nothing */
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, KEY, sizeof(KEY)), 0);
    fd_close(&fd);
    assert_int_equal(
        vault_open(f->store, f->audit, f->dir, &f->vault, &f->err), 0);
    assert_int_equal(reveal(f, &WHO, "a"), -ERR_CORRUPT);
}

static void vault_put_at_most_so_many(void **state)
{
    struct fixture *f = *state;
    struct vault_info *list cleanup(mem_free) = NULL;
    size_t count = 0;

    assert_int_equal(put(f, "s0", "example.org", "v"), 0);
    /* quicker than sealing a thousand */
    assert_int_equal(
        exec(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
                " FROM n WHERE i < 998) INSERT INTO secrets SELECT tenant,"
                " 's' || i, header, prefix, destinations, sealed, made_by,"
                " created_at_ms, updated_at_ms, 0 FROM secrets, n"
                " WHERE name = 's0'"),
        0);
    assert_int_equal(put(f, "last", "example.org", "v"), 0);
    assert_int_equal(put(f, "over", "example.org", "v"), -ERR_LIMIT);
    assert_int_equal(put(f, "last", "example.org", "again"), 0);
    assert_int_equal(vault_list(f->vault, &WHO, &list, &count, &f->err), 0);
    assert_int_equal(count, VAULT_PER_TENANT);
}

static void vault_acts_are_in_the_trail(void **state)
{
    struct fixture *f = *state;
    struct audit_filter filter = {.action = "secret."};
    struct audit_line *lines = NULL;
    size_t count = 0;
    bool more;

    assert_int_equal(put(f, "a", "a.example.org", "Marker-Value"), 0);
    assert_int_equal(reveal(f, &WHO, "a"), 0);
    assert_int_equal(vault_remove(f->vault, &WHO, "a", &f->err), 0);
    filter.tenant = WHO.tenant;
    assert_int_equal(
        audit_query(f->audit, &filter, &lines, &count, &more, &f->err), 0);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++)
        assert_null(strstr(lines[i].detail, "Marker"));
    audit_lines_free(lines, count);
}

static void count_changes(void *ctx, const char *tenant, const char *name)
{
    assert_string_equal(tenant, "acme");
    assert_string_equal(name, "a");
    ++*(int *)ctx;
}

static void vault_listen_hears_of_changes(void **state)
{
    struct fixture *f = *state;
    int changes = 0;

    vault_listen(f->vault, count_changes, &changes);
    assert_int_equal(put(f, "a", "a.example.org", "v"), 0);
    assert_true(put(f, "a", "", "v") < 0);
    assert_int_equal(vault_remove(f->vault, &WHO, "a", &f->err), 0);
    assert_int_equal(changes, 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vault_seal_opens_only_as_it_was),
        cmocka_unit_test(vault_seal_never_the_same_twice),
        CASE(vault_put_checks_what_it_gets),
        CASE(vault_put_makes_destinations_canonical),
        CASE(vault_put_bounds_destinations),
        CASE(vault_reveal_gives_what_was_put),
        CASE(vault_reveal_refuses_rows_that_were_touched),
        CASE(vault_preview_tells_values_apart),
        CASE(vault_open_fails_without_its_key),
        CASE(vault_put_at_most_so_many),
        CASE(vault_acts_are_in_the_trail),
        CASE(vault_listen_hears_of_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
