/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets as rows: put, shown without their value, removed, and revealed to
 * the proxy. Runs in gloveboxd on the caller's thread. Each act is one
 * transaction with its event of the trail; a foreign name is an unknown one.
 */
#include "vault/vault.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "egress/host.h"
#include "store/store.h"
#include "vault/vault_int.h"

struct vault {
    struct store *store; /* borrowed, as is the next */
    struct audit *audit;
    unsigned char key[VAULT_KEY_SIZE];
    void (*changed)(void *ctx, const char *tenant, const char *name);
    void *ctx;
};

#define COLUMNS                                                               \
    "name, header, prefix, destinations, made_by, created_at_ms,"             \
    " updated_at_ms, used_at_ms"

static void read_row(struct store_rows *rows, struct vault_info *ret)
{
    *ret = (struct vault_info){.created_at_ms = store_int(rows, 5),
                               .updated_at_ms = store_int(rows, 6),
                               .used_at_ms = store_int(rows, 7)};
    store_copy(rows, 0, ret->name, sizeof(ret->name));
    store_copy(rows, 1, ret->header, sizeof(ret->header));
    store_copy(rows, 2, ret->prefix, sizeof(ret->prefix));
    store_copy(rows, 3, ret->destinations, sizeof(ret->destinations));
    store_copy(rows, 4, ret->made_by, sizeof(ret->made_by));
}

static int unknown_secret(const char *name, struct error *err)
{
    (void)error_set(err, ERR_NOT_FOUND, "no secret is called '%s'", name);
    return error_hint(err, "GET /api/secrets lists them");
}

static int vault_begin(struct vault *v, enum store_mode mode, const char *what,
                       struct store_tx **ret, struct error *err)
{
    if (!v)
        return error_set(err, ERR_UNAVAILABLE, "there is no vault");
    return store_begin(v->store, mode, what, ret, err);
}

/* The row of that name: 1, 0, or -code. */
static int find_secret(struct store_tx *tx, const char *tenant,
                       const char *name, struct vault_info *ret,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_one(tx, &rows, err,
                       "SELECT " COLUMNS
                       " FROM secrets WHERE tenant = ?1 AND name = ?2",
                       "tt", tenant, name);

    if (rc == 1)
        read_row(rows, ret);
    return rc;
}

/* ---- opening ------------------------------------------------------------ */

static int any_rows(struct store *store, bool *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(store, STORE_READ, "opening the vault", &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err, "SELECT 1 FROM secrets LIMIT 1", "");
    *ret = rc > 0;
    return MIN(rc, 0);
}

int vault_open(struct store *store, struct audit *audit, const char *data_dir,
               struct vault **ret, struct error *err)
{
    struct vault *v = xcalloc(1, sizeof(*v));
    bool used = false;
    int rc = any_rows(store, &used, err);

    v->store = store;
    v->audit = audit;
    if (rc == 0)
        rc = vault_key_open(data_dir, !used, v->key, err);
    if (rc < 0) {
        vault_close(v);
        return rc;
    }
    *ret = v;
    return 0;
}

void vault_close(struct vault *v)
{
    if (!v)
        return;
    explicit_bzero(v->key, sizeof(v->key));
    free(v);
}

void vault_listen(struct vault *v,
                  void (*changed)(void *ctx, const char *tenant,
                                  const char *name),
                  void *ctx)
{
    if (!v)
        return;
    v->changed = changed;
    v->ctx = ctx;
}

static void notify_change(struct vault *v, const char *tenant,
                          const char *name)
{
    if (v->changed)
        v->changed(v->ctx, tenant, name);
}

int vault_derive(const struct vault *v, const char *purpose,
                 unsigned char ret[VAULT_DERIVED], struct error *err)
{
    _Static_assert(VAULT_DERIVED == HASH_SIZE, "one HMAC is one key");
    if (!v)
        return error_set(err, ERR_UNAVAILABLE, "there is no vault");
    hash_hmac(v->key, sizeof(v->key), purpose, strlen(purpose), ret);
    return 0;
}

/* ---- putting and removing ----------------------------------------------- */

static int check_secret_count(struct store_tx *tx, const char *tenant,
                              struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_one(tx, &rows, err,
                       "SELECT count(*) FROM secrets WHERE tenant = ?1", "t",
                       tenant);

    if (rc > 0 && store_int(rows, 0) >= (int64_t)VAULT_PER_TENANT)
        return error_set(err, ERR_LIMIT, "a tenant may have %u secrets",
                         VAULT_PER_TENANT);
    return MIN(rc, 0);
}

static int write_row(struct store_tx *tx, const char *tenant,
                     const struct vault_info *row, const void *sealed,
                     size_t len, struct error *err)
{
    return MIN(store_exec(tx, err,
                          "INSERT INTO secrets (tenant, name, header, prefix,"
                          " destinations, sealed, made_by, created_at_ms,"
                          " updated_at_ms, used_at_ms)"
                          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
                          " ON CONFLICT (tenant, name) DO UPDATE SET"
                          " header = ?3, prefix = ?4, destinations = ?5,"
                          " sealed = ?6, made_by = ?7, updated_at_ms = ?9",
                          "tttttbtiii", tenant, row->name, row->header,
                          row->prefix, row->destinations, sealed, len,
                          row->made_by, row->created_at_ms, row->updated_at_ms,
                          row->used_at_ms),
               0);
}

static int store_row(struct vault *v, const struct actor *who,
                     struct vault_info *row, const unsigned char *sealed,
                     size_t len, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {.action = "secret.put",
                                .object = row->name,
                                .detail = row->destinations};
    struct vault_info old = {.created_at_ms = 0};
    int rc = vault_begin(v, STORE_WRITE, "storing a secret", &tx, err);

    if (rc == 0)
        rc = find_secret(tx, who->tenant, row->name, &old, err);
    if (rc == 1) {
        row->created_at_ms = old.created_at_ms;
        row->used_at_ms = old.used_at_ms;
        event.before = old.destinations;
        rc = 0;
    } else if (rc == 0) {
        row->created_at_ms = row->updated_at_ms;
        rc = check_secret_count(tx, who->tenant, err);
    }
    if (rc == 0)
        rc = write_row(tx, who->tenant, row, sealed, len, err);
    if (rc == 0)
        rc = audit_add(v->audit, tx, who, &event, err);
    return rc < 0 ? rc : store_commit(&tx, err);
}

int vault_preview(struct vault *v, const struct vault_info *spec,
                  const char *value, size_t len, struct vault_info *ret,
                  char ret_fingerprint[VAULT_FINGERPRINT], struct error *err)
{
    static const char purpose[] = "glovebox vault fingerprint";
    unsigned char key[HASH_SIZE], hash[HASH_SIZE];
    struct vault_info row;
    int rc = vault_check(spec, value, len, &row, err);

    if (rc == 0 && !v)
        rc = error_set(err, ERR_UNAVAILABLE, "there is no vault");
    if (rc < 0)
        return rc;
    /* A key of its own: the vault's is for encryption. */
    hash_hmac(v->key, sizeof(v->key), purpose, sizeof(purpose) - 1, key);
    hash_hmac(key, sizeof(key), value, len, hash);
    explicit_bzero(key, sizeof(key));
    *ret = row;
    (void)ids_hex(hash, (VAULT_FINGERPRINT - 1) / 2, ret_fingerprint);
    return 0;
}

int vault_put(struct vault *v, const struct actor *who,
              const struct vault_info *spec, const char *value, size_t len,
              struct vault_info *ret, struct error *err)
{
    unsigned char sealed[VAULT_SEALED_MAX];
    struct vault_info row;
    size_t sealed_len = 0;
    int rc = vault_check(spec, value, len, &row, err);

    if (rc == 0 && !v)
        rc = error_set(err, ERR_UNAVAILABLE, "there is no vault");
    if (rc == 0) {
        (void)snprintf(row.made_by, sizeof(row.made_by), "%s", who->key);
        row.updated_at_ms = clock_real_ms();
        rc = vault_seal(v->key, who->tenant, &row, value, len, sealed,
                        &sealed_len, err);
    }
    if (rc == 0)
        rc = store_row(v, who, &row, sealed, sealed_len, err);
    if (rc < 0)
        return rc;
    *ret = row;
    notify_change(v, who->tenant, row.name);
    return 0;
}

int vault_remove(struct vault *v, const struct actor *who, const char *name,
                 struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {.action = "secret.remove", .object = name};
    int rc = vault_begin(v, STORE_WRITE, "removing a secret", &tx, err);

    if (rc == 0)
        rc = store_exec(tx, err,
                        "DELETE FROM secrets WHERE tenant = ?1 AND name = ?2",
                        "tt", who->tenant, name);
    if (rc == 0)
        return unknown_secret(name, err);
    rc = MIN(rc, 0);
    if (rc == 0)
        rc = audit_add(v->audit, tx, who, &event, err);
    if (rc == 0)
        rc = store_commit(&tx, err);
    if (rc == 0)
        notify_change(v, who->tenant, name);
    return rc;
}

/* ---- looking ------------------------------------------------------------ */

int vault_list(struct vault *v, const struct actor *who,
               struct vault_info **ret, size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct vault_info *list cleanup(mem_free) =
        xcalloc(VAULT_PER_TENANT, sizeof(*list));
    size_t count = 0;
    int rc = vault_begin(v, STORE_READ, "listing secrets", &tx, err);

    if (rc == 0)
        rc = store_query(tx, &rows, err,
                         "SELECT " COLUMNS " FROM secrets WHERE tenant = ?1"
                         " ORDER BY name LIMIT ?2",
                         "ti", who->tenant, (int64_t)VAULT_PER_TENANT);
    while (rc == 0 && (rc = store_next(rows, err)) > 0) {
        read_row(rows, &list[count++]);
        rc = 0;
    }
    if (rc < 0)
        return rc;
    *ret = take_ptr(list);
    *ret_count = count;
    return 0;
}

int vault_get(struct vault *v, const struct actor *who, const char *name,
              struct vault_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = vault_begin(v, STORE_READ, "looking for a secret", &tx, err);

    if (rc == 0)
        rc = find_secret(tx, who->tenant, name, ret, err);
    return rc == 0 ? unknown_secret(name, err) : MIN(rc, 0);
}

bool vault_goes_to(const struct vault_info *info, const char *host)
{
    char copy[sizeof(info->destinations)];
    char *rest = copy, *word;

    memcpy(copy, info->destinations, sizeof(copy));
    while ((word = strsep(&rest, ",")))
        if (strcmp(word, host) == 0 || egress_host_matches(word, host))
            return true;
    return false;
}

/* ---- for the proxy ------------------------------------------------------ */

static int open_row(struct vault *v, struct store_tx *tx, const char *tenant,
                    const char *name, struct vault_info *ret, char **ret_value,
                    struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    const void *sealed;
    size_t len = 0;
    int rc = store_one(tx, &rows, err,
                       "SELECT " COLUMNS ", sealed"
                       " FROM secrets WHERE tenant = ?1 AND name = ?2",
                       "tt", tenant, name);

    if (rc <= 0)
        return rc < 0 ? rc : unknown_secret(name, err);
    read_row(rows, ret);
    sealed = store_bytes(rows, 8, &len);
    return vault_unseal(v->key, tenant, ret, sealed, len, ret_value, err);
}

int vault_reveal(struct vault *v, const struct actor *who, const char *name,
                 const char *session, struct vault_info *ret, char **ret_value,
                 struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {
        .action = "secret.use", .object = session, .detail = name};
    char *value cleanup(vault_forget) = NULL;
    int rc = vault_begin(v, STORE_WRITE, "using a secret", &tx, err);

    if (rc == 0)
        rc = open_row(v, tx, who->tenant, name, ret, &value, err);
    if (rc == 0)
        rc = MIN(store_exec(tx, err,
                            "UPDATE secrets SET used_at_ms = ?3"
                            " WHERE tenant = ?1 AND name = ?2",
                            "tti", who->tenant, name, clock_real_ms()),
                 0);
    if (rc == 0)
        rc = audit_add(v->audit, tx, who, &event, err);
    if (rc == 0)
        rc = store_commit(&tx, err);
    if (rc == 0)
        *ret_value = take_ptr(value);
    return rc;
}

void vault_forget(char **value)
{
    if (*value)
        explicit_bzero(*value, strlen(*value));
    free(take_ptr(*value));
}
