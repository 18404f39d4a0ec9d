/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/vault/: vault.c keeps the rows, check.c says what a secret may
 * be, seal.c encrypts and opens one, key.c has the file with the key.
 */
#ifndef GLOVEBOX_VAULT_VAULT_INT_H
#define GLOVEBOX_VAULT_VAULT_INT_H

#include <stdbool.h>

#include "vault/vault.h"

#define VAULT_KEY_SIZE 32u
#define VAULT_SEAL_EXTRA 29u /* version, nonce and tag */
#define VAULT_SEALED_MAX (VAULT_VALUE_MAX + VAULT_SEAL_EXTRA)
#define VAULT_DESTINATIONS_MAX 16u

/* key.c: DIR/vault.key, made when there is none and may_make. */
int vault_key_open(const char *data_dir, bool may_make,
                   unsigned char ret[VAULT_KEY_SIZE], struct error *err);

/* seal.c: bound to the tenant and to all of the row that says where it may
 * go, so that a row that is changed or swapped does not open. */
int vault_seal(const unsigned char key[VAULT_KEY_SIZE], const char *tenant,
               const struct vault_info *row, const char *value, size_t len,
               unsigned char ret[VAULT_SEALED_MAX], size_t *ret_len,
               struct error *err);
/* ret: its length and a NUL; owned by caller, ended by vault_forget. */
int vault_unseal(const unsigned char key[VAULT_KEY_SIZE], const char *tenant,
                 const struct vault_info *row, const void *sealed, size_t len,
                 char **ret, struct error *err);

/* check.c: the form that is stored; ERR_INVALID says what is wrong. */
int vault_check(const struct vault_info *spec, const char *value, size_t len,
                struct vault_info *ret, struct error *err);
bool vault_name_valid(const char *name);

#endif
