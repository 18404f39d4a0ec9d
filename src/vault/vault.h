/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets for the traffic of sessions, which the sessions themselves never
 * hold. Each secret names its destinations and the header it is sent in; the
 * proxy adds it to outgoing requests. Secrets are stored encrypted
 * (AES-256-GCM under DIR/vault.key, bound to tenant, name, header and
 * destinations), and no door ever returns a value. Any thread may call. With v
 * NULL (unit tests) there are no secrets.
 */
#ifndef GLOVEBOX_VAULT_VAULT_H
#define GLOVEBOX_VAULT_VAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct actor;
struct audit;
struct error;
struct store;
struct vault;

#define VAULT_VALUE_MAX 8192u
#define VAULT_PER_TENANT 1000u

struct vault_info {
    char name[64];          /* [a-zA-Z0-9_.-]{1,63} */
    char header[64];        /* "Authorization" */
    char prefix[64];        /* "Bearer " */
    char destinations[512]; /* canonical hosts, with commas between */
    char made_by[ID_MAX];
    int64_t created_at_ms, updated_at_ms, used_at_ms;
};

/* Makes DIR/vault.key (0600) at the first start; fails when it is missing and
 * there are secrets. store, audit: borrowed until close. */
int vault_open(struct store *store, struct audit *audit, const char *data_dir,
               struct vault **ret, struct error *err);
void vault_close(struct vault *v); /* accepts NULL */

#define VAULT_DERIVED 32
/* A key for another purpose, named by a sentence that is used for nothing
 * else; the same at every start. ERR_UNAVAILABLE without a vault. */
int vault_derive(const struct vault *v, const char *purpose,
                 unsigned char ret[VAULT_DERIVED], struct error *err);

#define VAULT_FINGERPRINT 33 /* 128 bits in hex, and NUL */
/* Validates the secret as vault_put would. The fingerprint shows whether two
 * values are equal, and nothing else without the vault's key. */
int vault_preview(struct vault *v, const struct vault_info *spec,
                  const char *value, size_t len, struct vault_info *ret,
                  char ret_fingerprint[VAULT_FINGERPRINT], struct error *err);
int vault_put(struct vault *v, const struct actor *who,
              const struct vault_info *spec, const char *value, size_t len,
              struct vault_info *ret, struct error *err);
int vault_list(struct vault *v, const struct actor *who,
               struct vault_info **ret, size_t *ret_count, struct error *err);
int vault_get(struct vault *v, const struct actor *who, const char *name,
              struct vault_info *ret, struct error *err);
int vault_remove(struct vault *v, const struct actor *who, const char *name,
                 struct error *err);
/* For the proxy alone: its value, wiped and freed by vault_forget. In the
 * trail as "secret.use" by who, in that session (sess_…). */
int vault_reveal(struct vault *v, const struct actor *who, const char *name,
                 const char *session, struct vault_info *ret, char **ret_value,
                 struct error *err);
void vault_forget(char **value); /* for cleanup(); accepts a NULL one */
/* May it go to that host, or to all a pattern of a list means? */
bool vault_goes_to(const struct vault_info *info, const char *host);
/* Told, on the caller's thread, of each secret that was changed or removed.
 * Set once, before the first change. */
void vault_listen(struct vault *v,
                  void (*changed)(void *ctx, const char *tenant,
                                  const char *name),
                  void *ctx);

#endif
