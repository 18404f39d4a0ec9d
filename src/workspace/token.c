/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of offers and locks: whoever has one may. 256 random bits in hex,
 * of which only a SHA-256 is kept; with so many bits it needs no salt.
 */
#include <string.h>

#include "base/hash.h"
#include "base/ids.h"
#include "workspace/workspace_int.h"

void workspace_token_hash(const char *token, unsigned char ret_hash[32])
{
    hash_sha256(token, strlen(token), ret_hash);
}

void workspace_token_make(char ret_token[65], unsigned char ret_hash[32])
{
    unsigned char raw[32];

    ids_random(raw, sizeof(raw));
    (void)ids_hex(raw, sizeof(raw), ret_token);
    explicit_bzero(raw, sizeof(raw));
    workspace_token_hash(ret_token, ret_hash);
}
