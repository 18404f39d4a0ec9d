/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of blobs and of files being written. Runs in the daemon. Whatever
 * becomes a path below DIR/blobs has passed here.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/ids.h"
#include "blob/blob_int.h"

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

int blob_name_parse(const char *sha256, struct blob_name *ret,
                    struct error *err)
{
    unsigned char hash[HASH_SIZE];

    for (size_t i = 0; i < sizeof(hash); i++) {
        int high = digit(sha256[2 * i]);
        int low = high < 0 ? -1 : digit(sha256[2 * i + 1]);

        if (low < 0)
            return error_set(err, ERR_INVALID, "not a SHA-256 in hex");
        hash[i] = (unsigned char)(high << 4 | low);
    }
    if (sha256[2 * sizeof(hash)])
        return error_set(err, ERR_INVALID, "not a SHA-256 in hex");
    blob_name_of(hash, ret);
    return 0;
}

void blob_name_of(const unsigned char hash[HASH_SIZE], struct blob_name *ret)
{
    memcpy(ret->hash, hash, sizeof(ret->hash));
    (void)ids_hex(hash, HASH_SIZE, ret->path + 3);
    memcpy(ret->path, ret->path + 3, 2);
    ret->path[2] = '/';
}

void blob_name_temp(char ret[BLOB_TEMP])
{
    unsigned char bytes[(BLOB_TEMP - 1) / 2];

    ids_random(bytes, sizeof(bytes));
    (void)ids_hex(bytes, sizeof(bytes), ret);
}
