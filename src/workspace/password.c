/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passwords of links, as scrypt hashes: "scrypt$14$8$1$salt$hash". Runs in
 * the daemon on workers. A hash costs some 50 ms and 16 MiB by design, so
 * they are made one at a time: guessing from many connections takes longer,
 * not more memory.
 */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/shares_int.h"

#define SALT_SIZE 16
#define LOG_N 14u
#define BLOCK 8u
#define PARALLEL 1u
#define MEMORY_MAX (64u << 20)

struct hashed {
    unsigned log_n, r, p;
    unsigned char salt[SALT_SIZE];
    unsigned char hash[HASH_SIZE];
};

/* Guards no state, only the machine's memory. */
static struct mutex one_at_a_time = MUTEX_INIT;

static bool derive(const char *password, struct hashed *h)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&one_at_a_time);

    return EVP_PBE_scrypt(password, strlen(password), h->salt, sizeof(h->salt),
                          UINT64_C(1) << h->log_n, h->r, h->p, MEMORY_MAX,
                          h->hash, sizeof(h->hash)) == 1;
}

static bool unhex(const char *text, unsigned char *ret, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        ret[i] = (unsigned char)byte;
    }
    return true;
}

static bool parse(const char *text, struct hashed *ret)
{
    char salt[2 * SALT_SIZE + 1], hash[2 * HASH_SIZE + 1];

    if (sscanf(text, "scrypt$%2u$%2u$%2u$%32[0-9a-f]$%64[0-9a-f]", &ret->log_n,
               &ret->r, &ret->p, salt, hash) != 5)
        return false;
    return ret->log_n >= 1 && ret->log_n <= 16 &&
           strlen(salt) == sizeof(salt) - 1 &&
           strlen(hash) == sizeof(hash) - 1 &&
           unhex(salt, ret->salt, SALT_SIZE) &&
           unhex(hash, ret->hash, HASH_SIZE);
}

char *share_password_hash(const char *password)
{
    struct hashed h = {.log_n = LOG_N, .r = BLOCK, .p = PARALLEL};
    char salt[2 * SALT_SIZE + 1], hash[2 * HASH_SIZE + 1];

    ids_random(h.salt, sizeof(h.salt));
    if (!derive(password, &h))
        abort(); /* only for want of memory, as in the x wrappers */
    return xasprintf("scrypt$%u$%u$%u$%s$%s", h.log_n, h.r, h.p,
                     ids_hex(h.salt, sizeof(h.salt), salt),
                     ids_hex(h.hash, sizeof(h.hash), hash));
}

bool share_password_matches(const char *hash, const char *password)
{
    struct hashed kept = {0}, given;

    if (strnlen(password, SHARE_PASSWORD_MAX + 1) > SHARE_PASSWORD_MAX ||
        !parse(hash, &kept))
        return false;
    given = kept;
    return derive(password, &given) &&
           hash_equal(given.hash, kept.hash, sizeof(kept.hash));
}
