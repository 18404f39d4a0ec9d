/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth: tokens are never wider or longer-lived than what they are minted
 * from, go with it, and are told from strangers when they have ended; keys
 * are bound to what their lists say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/auth_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "scratch.h"
#include "store_choice.h"

#define WS_A "ws_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define WS_B "ws_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SESS_A "sess_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

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
        auth_open(f->store, f->dir, 1000, &f->auth, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void shut(struct fixture *f)
{
    auth_close(f->auth);
    store_close(f->store);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_token"));
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

static int check(struct fixture *f, const char *secret, struct principal *ret)
{
    char *header cleanup(mem_free) = xasprintf("Bearer %s", secret);
    struct principal scratch;

    memset(&f->err, 0, sizeof(f->err));
    return auth_check(f->auth, header, "10.0.0.1", ret ? ret : &scratch,
                      &f->err);
}

/* A key of a tenant as a principal. */
static struct principal key_of(struct fixture *f, const char *tenant,
                               uint32_t scopes, struct auth_key *ret)
{
    struct auth_key key;
    struct principal who;
    char *secret cleanup(mem_free) = NULL;

    if (auth_key_create(f->auth, tenant, "k", scopes, ret ? ret : &key,
                        &secret, &f->err) < 0 ||
        check(f, secret, &who) < 0)
        fail_msg("%s", f->err.message);
    return who;
}

struct minted {
    int r;
    struct auth_key token;
    char secret[AUTH_SECRET_LEN + 1];
    struct principal who; /* when it was minted */
};

static struct minted mint(struct fixture *f, const struct principal *parent,
                          const struct auth_token_spec *spec)
{
    char *secret cleanup(mem_free) = NULL;
    struct minted m = {0};

    m.r = auth_token_mint(f->auth, parent, spec, &m.token, &secret, &f->err);
    if (m.r == 0) {
        (void)snprintf(m.secret, sizeof(m.secret), "%s", secret);
        assert_int_equal(check(f, m.secret, &m.who), 0);
    }
    return m;
}

static struct minted plain(struct fixture *f, const struct principal *parent)
{
    struct minted m = mint(f, parent, &(struct auth_token_spec){.ttl_s = 600});

    if (m.r < 0)
        fail_msg("%s", f->err.message);
    return m;
}

/* ---- minting ------------------------------------------------------------ */

static void I2_token_is_256_bits_and_stands_for_its_key(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct minted a = plain(f, &key), b = plain(f, &key);

    assert_memory_equal(a.secret, "gbt_", 4);
    assert_int_equal(strlen(a.secret), 4 + 64);
    assert_string_not_equal(a.secret, b.secret);
    assert_true(ids_valid("tok", a.token.id));
    assert_string_equal(a.who.key_id, key.key_id);
    assert_string_equal(a.who.token, a.token.id);
    assert_string_equal(a.who.tenant, "acme");
    assert_string_equal(a.token.parent, key.key_id);
    assert_string_equal(auth_shown(&a.who), a.token.id);
    assert_string_equal(auth_shown(&key), key.key_id);
}

/* A token acts as its key, and so under that key's name, even after it was
 * loaded from the store. */
static void name_of_a_token_is_that_of_its_key(void **state)
{
    struct fixture *f = *state;
    char *secret cleanup(mem_free) = NULL;
    char name[AUTH_NAME_MAX];
    struct auth_key made;
    struct principal key;
    struct minted t;

    assert_int_equal(auth_key_create(f->auth, "acme", "nightly", AUTH_EXECUTE,
                                     &made, &secret, &f->err),
                     0);
    assert_int_equal(check(f, secret, &key), 0);
    assert_string_equal(key.name, "nightly");
    assert_string_equal(auth_actor(&key).name, "nightly");
    t = mint(f, &key,
             &(struct auth_token_spec){.ttl_s = 600, .name = "short"});
    assert_int_equal(t.r, 0);
    assert_string_equal(t.who.name, "nightly");
    auth_key_name(f->auth, made.id, name);
    assert_string_equal(name, "nightly");
    auth_key_name(f->auth, t.token.id, name);
    assert_string_equal(name, "short");
    assert_int_equal(auth_key_revoke(f->auth, made.id, &f->err), 0);
    auth_key_name(f->auth, made.id, name);
    assert_string_equal(name, "nightly");
    auth_key_name(f->auth, "key_00000000000000000000000000000000", name);
    assert_string_equal(name, "");
}

static void token_ttl_limits(void **state)
{
    static const struct {
        uint32_t ttl_s;
        bool good;
    } cases[] = {{0, false},    {4, false},     {5, true},
                 {86400, true}, {86401, false}, {UINT32_MAX, false}};
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t now = clock_real_ms();
        struct minted m =
            mint(f, &key, &(struct auth_token_spec){.ttl_s = cases[i].ttl_s});

        assert_int_equal(m.r, cases[i].good ? 0 : -ERR_INVALID);
        if (cases[i].good)
            assert_in_range(m.token.expires_at_ms,
                            now + 1000 * (int64_t)cases[i].ttl_s,
                            clock_real_ms() + 1000 * (int64_t)cases[i].ttl_s);
    }
}

static void token_scopes_are_no_wider(void **state)
{
    const uint32_t two = AUTH_EXECUTE | AUTH_FILES_READ;
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", two, NULL);
    struct principal admin = key_of(f, "acme", AUTH_ADMIN, NULL);
    struct minted m = plain(f, &key), child;

    assert_int_equal(m.who.scopes, two);
    for (uint32_t bit = 1; bit & AUTH_SCOPES_ALL; bit <<= 1) {
        m = mint(f, &key,
                 &(struct auth_token_spec){.ttl_s = 60, .scopes = bit});
        assert_int_equal(m.r, bit & two ? 0 : -ERR_FORBIDDEN);
        if (m.r == 0)
            assert_int_equal(m.who.scopes, bit);
    }
    /* A grandchild cannot regain what its parent gave up. */
    m = mint(
        f, &key,
        &(struct auth_token_spec){.ttl_s = 60, .scopes = AUTH_FILES_READ});
    child =
        mint(f, &m.who, &(struct auth_token_spec){.ttl_s = 60, .scopes = two});
    assert_int_equal(child.r, -ERR_FORBIDDEN);
    /* An admin's token is one only when that was said. */
    m = plain(f, &admin);
    assert_int_equal(m.who.scopes, AUTH_SCOPES_ALL & ~(uint32_t)AUTH_ADMIN);
    m = mint(f, &admin,
             &(struct auth_token_spec){.ttl_s = 60, .scopes = AUTH_ADMIN});
    assert_int_equal(m.who.scopes, AUTH_SCOPES_ALL);
}

static void token_bounds_are_no_wider(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct auth_token_spec a = {.ttl_s = 60,
                                .only = {[ACTOR_WORKSPACES] = WS_A}};
    struct auth_token_spec b = {.ttl_s = 60,
                                .only = {[ACTOR_WORKSPACES] = WS_B}};
    struct auth_token_spec one = {.ttl_s = 60,
                                  .only = {[ACTOR_SESSIONS] = SESS_A}};
    struct auth_token_spec bad = {.ttl_s = 60,
                                  .only = {[ACTOR_WORKSPACES] = "ws_x"}};
    struct minted m = mint(f, &key, &a), child;

    assert_string_equal(m.who.bounds.ids[ACTOR_WORKSPACES], WS_A);
    assert_int_equal(mint(f, &m.who, &b).r, -ERR_FORBIDDEN);
    assert_int_equal(mint(f, &key, &bad).r, -ERR_INVALID);
    child = mint(f, &m.who, &one);
    assert_string_equal(child.who.bounds.ids[ACTOR_WORKSPACES], WS_A);
    assert_string_equal(child.who.bounds.ids[ACTOR_SESSIONS], SESS_A);
    child = plain(f, &m.who); /* nothing said: as its parent */
    assert_string_equal(child.who.bounds.ids[ACTOR_WORKSPACES], WS_A);
}

static void token_ends_no_later_than_its_parent(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct minted m = mint(f, &key, &(struct auth_token_spec){.ttl_s = 60}),
                  child;

    child = mint(f, &m.who, &(struct auth_token_spec){.ttl_s = 86400});
    assert_int_equal(child.token.expires_at_ms, m.token.expires_at_ms);
}

static void token_generations_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct principal who = key_of(f, "acme", AUTH_EXECUTE, NULL);

    for (unsigned i = 0; i < AUTH_TOKEN_DEPTH_MAX; i++)
        who = plain(f, &who).who;
    assert_int_equal(mint(f, &who, &(struct auth_token_spec){.ttl_s = 60}).r,
                     -ERR_LIMIT);
}

/* Live tokens without the store, which would take minutes. */
static void crowd(struct fixture *f, const char *tenant, size_t count,
                  int64_t expires_at_ms)
{
    struct auth_row row = {.expires_at_ms = expires_at_ms,
                           .scopes = AUTH_EXECUTE};

    (void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
    (void)snprintf(row.parent, sizeof(row.parent), "key_x");
    for (size_t i = 0; i < count; i++) {
        ids_make("tok", row.id);
        ids_random(row.hash, sizeof(row.hash));
        auth_entry_add(f->auth, &row);
    }
}

static void R8_tokens_of_a_tenant_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct principal other = key_of(f, "umbra", AUTH_EXECUTE, NULL);
    const struct auth_token_spec spec = {.ttl_s = 60};

    crowd(f, "acme", AUTH_TOKENS_MAX - 1, clock_real_ms() + 600000);
    assert_int_equal(mint(f, &key, &spec).r, 0); /* the last */
    assert_int_equal(mint(f, &key, &spec).r, -ERR_LIMIT);
    assert_in_range(f->err.retry_after_s, 1, 61);
    assert_int_equal(mint(f, &other, &spec).r, 0);
}

static void R8_ended_tokens_do_not_pile_up(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);

    crowd(f, "acme", AUTH_TOKENS_MAX, clock_real_ms() - 1);
    (void)plain(f, &key); /* those do not count, and are swept by it */
    assert_int_equal(f->auth->tokens, 1);
}

/* ---- the end ------------------------------------------------------------ */

static void end_now(struct fixture *f, const char *id)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&f->auth->lock);

    auth_entry_find(f->auth, id)->key.expires_at_ms = clock_real_ms();
}

static void token_that_has_ended_is_told_so(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct minted m = plain(f, &key);

    end_now(f, m.token.id);
    for (int i = 0; i < 2000; i++) /* nothing was guessed */
        assert_int_equal(check(f, m.secret, NULL), -ERR_UNAUTHENTICATED);
    assert_string_equal(f->err.message, "the token has expired");
    assert_int_equal(mint(f, &m.who, &(struct auth_token_spec){.ttl_s = 60}).r,
                     -ERR_UNAUTHENTICATED);
    assert_int_equal(auth_sweep(f->auth, clock_real_ms() + 1, &f->err), 0);
    assert_int_equal(check(f, m.secret, NULL), -ERR_UNAUTHENTICATED);
    assert_string_equal(f->err.message, "the key is not valid");
}

static void key_that_has_ended_is_told_so_and_listed_as_revoked(void **state)
{
    const struct auth_key_spec spec = {
        .tenant = "acme", .scopes = AUTH_ADMIN, .expires_in_s = 1};
    struct fixture *f = *state;
    struct auth_key key, *keys cleanup(mem_free) = NULL;
    char *secret cleanup(mem_free) = NULL;
    size_t count;

    assert_int_equal(
        auth_key_create_as(f->auth, &spec, &key, &secret, &f->err), 0);
    assert_int_equal(f->auth->admins, 1); /* it locks nobody out */
    assert_int_equal(check(f, secret, NULL), 0);
    end_now(f, key.id);
    assert_int_equal(check(f, secret, NULL), -ERR_UNAUTHENTICATED);
    assert_string_equal(f->err.message, "the key has expired");
    assert_int_equal(auth_sweep(f->auth, clock_real_ms() + 5000, &f->err), 0);
    assert_int_equal(auth_key_list(f->auth, &keys, &count, &f->err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(keys[0].id, key.id);
    assert_true(keys[0].revoked_at_ms > 0);
}

static void key_expiry_limits(void **state)
{
    struct fixture *f = *state;
    struct auth_key key;

    for (int over = 0; over < 2; over++) {
        const struct auth_key_spec spec = {.tenant = "acme",
                                           .scopes = AUTH_EXECUTE,
                                           .expires_in_s = AUTH_KEY_TTL_MAX_S +
                                                           (uint32_t)over};
        char *secret cleanup(mem_free) = NULL;

        assert_int_equal(
            auth_key_create_as(f->auth, &spec, &key, &secret, &f->err),
            over ? -ERR_INVALID : 0);
    }
}

static void tokens_survive_a_restart_and_end_with_their_time(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL), again;
    const struct auth_token_spec spec = {
        .ttl_s = 600,
        .name = "for one",
        .only = {[ACTOR_POOLS] = "default", [ACTOR_SESSIONS] = SESS_A}};
    struct minted m = mint(f, &key, &spec);

    shut(f);
    must_open(f);
    assert_int_equal(check(f, m.secret, &again), 0);
    assert_string_equal(again.key_id, m.who.key_id);
    assert_string_equal(again.token, m.who.token);
    assert_int_equal(again.scopes, m.who.scopes);
    assert_int_equal(again.expires_at_ms, m.who.expires_at_ms);
    for (int b = 0; b < ACTOR_BOUNDS; b++)
        assert_string_equal(again.bounds.ids[b], m.who.bounds.ids[b]);
    assert_int_equal(auth_sweep(f->auth, m.token.expires_at_ms + 1, &f->err),
                     0);
    shut(f);
    must_open(f);
    assert_int_equal(check(f, m.secret, NULL), -ERR_UNAUTHENTICATED);
}

/* ---- revoking ----------------------------------------------------------- */

static void revoking_takes_all_below_at_once(void **state)
{
    struct fixture *f = *state;
    struct auth_key row;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, &row);
    struct minted a = plain(f, &key), b = plain(f, &a.who),
                  c = plain(f, &b.who), beside = plain(f, &key);

    assert_int_equal(auth_token_revoke(f->auth, &key, b.token.id, &f->err), 0);
    assert_int_equal(check(f, a.secret, NULL), 0);
    assert_int_equal(check(f, b.secret, NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(check(f, c.secret, NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(check(f, beside.secret, NULL), 0);
    /* One that was let in before cannot leave a child behind. */
    assert_int_equal(mint(f, &b.who, &(struct auth_token_spec){.ttl_s = 60}).r,
                     -ERR_UNAUTHENTICATED);
    c = plain(f, &a.who);
    assert_int_equal(auth_key_revoke(f->auth, row.id, &f->err), 0);
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(check(f, a.secret, NULL), -ERR_UNAUTHENTICATED);
        assert_int_equal(check(f, c.secret, NULL), -ERR_UNAUTHENTICATED);
        assert_int_equal(check(f, beside.secret, NULL), -ERR_UNAUTHENTICATED);
        assert_int_equal(f->auth->tokens, 0);
        shut(f);
        must_open(f);
    }
}

static void revoking_is_for_who_may_see(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct principal other = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct principal admin = key_of(f, "acme", AUTH_ADMIN, NULL);
    struct principal far = key_of(f, "umbra", AUTH_EXECUTE, NULL);
    struct principal operator= key_of(f, "default", AUTH_ADMIN, NULL);
    struct minted a = plain(f, &key), beside = plain(f, &key),
                  child = plain(f, &a.who);
    const struct principal *cannot[] = {&other, &far, &beside.who, &child.who};
    const struct principal *can[] = {&key, &admin, &operator, & a.who };

    for (size_t i = 0; i < ARRAY_SIZE(cannot); i++) {
        assert_int_equal(
            auth_token_revoke(f->auth, cannot[i], a.token.id, &f->err),
            -ERR_NOT_FOUND);
        assert_string_equal(f->err.message, "no such token");
    }
    for (size_t i = 0; i < ARRAY_SIZE(can); i++) {
        assert_int_equal(check(f, a.secret, NULL), 0);
        assert_int_equal(
            auth_token_revoke(f->auth, can[i], a.token.id, &f->err), 0);
        assert_int_equal(check(f, a.secret, NULL), -ERR_UNAUTHENTICATED);
        a = plain(f, &key);
        can[ARRAY_SIZE(can) - 1] = &a.who;
    }
}

static size_t listed(struct fixture *f, const struct principal *who,
                     unsigned limit, const char *after, char ret_last[ID_MAX],
                     bool *ret_more)
{
    struct auth_key *tokens cleanup(mem_free) = NULL;
    size_t count = 0;

    if (auth_token_list(f->auth, who, limit, after, &tokens, &count, ret_more,
                        &f->err) < 0)
        fail_msg("%s", f->err.message);
    if (count)
        memcpy(ret_last, tokens[count - 1].id, ID_MAX);
    return count;
}

static void listing_shows_ones_own_page_by_page(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct principal other = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct principal admin = key_of(f, "acme", AUTH_ADMIN, NULL);
    struct principal far = key_of(f, "umbra", AUTH_ADMIN, NULL);
    struct minted a = plain(f, &key), child = plain(f, &a.who),
                  foreign = plain(f, &other);
    struct auth_key *tokens = NULL;
    char last[ID_MAX] = "";
    size_t count;
    bool more;

    assert_int_equal(listed(f, &key, 10, NULL, last, &more), 2);
    assert_string_equal(last, a.token.id); /* newest first */
    assert_int_equal(listed(f, &a.who, 10, NULL, last, &more), 2);
    assert_int_equal(listed(f, &child.who, 10, NULL, last, &more), 1);
    assert_int_equal(listed(f, &other, 10, NULL, last, &more), 1);
    assert_int_equal(listed(f, &admin, 10, NULL, last, &more), 3);
    assert_int_equal(listed(f, &far, 10, NULL, last, &more), 0);
    assert_int_equal(listed(f, &admin, 2, NULL, last, &more), 2);
    assert_true(more);
    assert_int_equal(listed(f, &admin, 2, last, last, &more), 1);
    assert_false(more);
    assert_int_equal(auth_token_list(f->auth, &key, 10, foreign.token.id,
                                     &tokens, &count, &more, &f->err),
                     -ERR_INVALID);
    for (unsigned limit = 0; limit < 2; limit++)
        assert_int_equal(
            auth_token_list(f->auth, &key, limit ? AUTH_TOKEN_LIST_MAX + 1 : 0,
                            NULL, &tokens, &count, &more, &f->err),
            -ERR_INVALID);
    end_now(f, a.token.id);
    assert_int_equal(listed(f, &key, 10, NULL, last, &more), 1);
}

/* ---- bounds ------------------------------------------------------------- */

static void bounds_take_only_ids_of_their_kind(void **state)
{
    static const struct {
        enum actor_bound what;
        const char *id;
        bool good;
    } cases[] = {
        {ACTOR_POOLS, "default", true},
        {ACTOR_POOLS, "", false},
        {ACTOR_POOLS, "a,b", false},
        {ACTOR_POOLS, "a b", false},
        {ACTOR_WORKSPACES, WS_A, true},
        {ACTOR_WORKSPACES, SESS_A, false},
        {ACTOR_WORKSPACES, WS_A "," WS_B, false},
        {ACTOR_SESSIONS, SESS_A, true},
        {ACTOR_SESSIONS, WS_A, false},
        {ACTOR_SESSIONS, "sess_", false},
        {ACTOR_SESSIONS,
         "cntr_0123456789abcdef0123456789abcdef0123456789abcdef", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct actor_bounds b = {0};
        struct error err;
        int r = auth_restriction_add(&b, cases[i].what, cases[i].id, &err);

        if (r != (cases[i].good ? 0 : -ERR_INVALID))
            fail_msg("'%s'", cases[i].id);
        assert_string_equal(b.ids[cases[i].what],
                            cases[i].good ? cases[i].id : "");
    }
}

static void bounds_have_a_length(void **state)
{
    struct actor_bounds b = {0};
    struct error err;
    char id[ID_MAX];
    size_t count = 0;

    (void)state;
    do
        ids_make("ws", id);
    while (auth_restriction_add(&b, ACTOR_WORKSPACES, id, &err) == 0 &&
           ++count);
    /* 35 characters each and a comma between */
    assert_int_equal(count, ACTOR_BOUND_MAX / 36);
    assert_int_equal(err.code, ERR_INVALID);
    (void)snprintf(id, sizeof(id), "%.35s", b.ids[ACTOR_WORKSPACES]);
    assert_int_equal(auth_restriction_add(&b, ACTOR_WORKSPACES, id, &err), 0);
}

static void actor_may_knows_its_list(void **state)
{
    struct actor_bounds b = {.ids = {[ACTOR_POOLS] = "big,small"}};
    const struct actor bound = {.bounds = &b}, open = {.bounds = NULL};

    (void)state;
    assert_true(actor_may(&bound, ACTOR_POOLS, "big"));
    assert_true(actor_may(&bound, ACTOR_POOLS, "small"));
    assert_false(actor_may(&bound, ACTOR_POOLS, "bi"));
    assert_false(actor_may(&bound, ACTOR_POOLS, "mall"));
    assert_false(actor_may(&bound, ACTOR_POOLS, "big,small"));
    assert_false(actor_may(&bound, ACTOR_POOLS, ""));
    assert_true(actor_may(&bound, ACTOR_SESSIONS, SESS_A));
    assert_true(actor_may(&open, ACTOR_POOLS, "any"));
    assert_true(actor_bounded(&bound));
    assert_false(actor_bounded(&open));
}

/* ---- beside guessing ---------------------------------------------------- */

static void I5_guessing_at_tokens_is_slowed(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct minted m = plain(f, &key);
    char guess[AUTH_SECRET_LEN + 1];
    struct principal p;

    for (unsigned i = 0; i < 1100; i++) {
        (void)snprintf(guess, sizeof(guess), "gbt_%08x%056x", i, i);
        assert_int_equal(check(f, guess, &p), -ERR_UNAUTHENTICATED);
    }
    assert_true(p.slowed);
    assert_int_equal(check(f, m.secret, &p), 0);
    assert_false(p.slowed);
}

static void I7_a_token_is_kept_as_its_hash_alone(void **state)
{
    struct fixture *f = *state;
    struct principal key = key_of(f, "acme", AUTH_EXECUTE, NULL);
    struct minted m = plain(f, &key);
    struct auth_row *rows cleanup(mem_free) = NULL;
    size_t count;

    assert_int_equal(auth_key_store_list(f->store, &rows, &count, &f->err), 0);
    for (size_t i = 0; i < count; i++)
        assert_null(memmem(&rows[i], sizeof(rows[i]), m.secret + 4, 16));
    /* What is stored opens nothing. */
    assert_int_equal(check(f, m.token.id, NULL), -ERR_UNAUTHENTICATED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(I2_token_is_256_bits_and_stands_for_its_key),
        CASE(name_of_a_token_is_that_of_its_key),
        CASE(token_ttl_limits),
        CASE(token_scopes_are_no_wider),
        CASE(token_bounds_are_no_wider),
        CASE(token_ends_no_later_than_its_parent),
        CASE(token_generations_are_bounded),
        CASE(R8_tokens_of_a_tenant_are_bounded),
        CASE(R8_ended_tokens_do_not_pile_up),
        CASE(token_that_has_ended_is_told_so),
        CASE(key_that_has_ended_is_told_so_and_listed_as_revoked),
        CASE(key_expiry_limits),
        CASE(tokens_survive_a_restart_and_end_with_their_time),
        CASE(revoking_takes_all_below_at_once),
        CASE(revoking_is_for_who_may_see),
        CASE(listing_shows_ones_own_page_by_page),
        cmocka_unit_test(bounds_take_only_ids_of_their_kind),
        cmocka_unit_test(bounds_have_a_length),
        cmocka_unit_test(actor_may_knows_its_list),
        CASE(I5_guessing_at_tokens_is_slowed),
        CASE(I7_a_token_is_kept_as_its_hash_alone),
    };

    return cmocka_run_group_tests_name("auth_token", tests, NULL, NULL);
}
