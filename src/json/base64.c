/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64 of foreign text, by libcrypto. Runs in the daemon and the command
 * line. libcrypto forgives padding in the middle and white space around; we
 * do not, so the alphabet is checked first.
 */
#include "json/json.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static bool in_alphabet(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= '0' && c <= '9') || c == '+' || c == '/';
}

int json_base64_decode(const char *text, size_t len, unsigned char **ret,
                       size_t *ret_len, struct error *err)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    size_t padding = 0, i;
    int n;

    while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
        padding++;
    for (i = 0; i < len - padding && in_alphabet((unsigned char)text[i]); i++)
        ;
    if (len % 4 != 0 || i != len - padding || len > INT_MAX)
        return error_set(err, ERR_INVALID,
                         "not base64: the standard alphabet with padding and "
                         "no white space is expected");
    bytes = xmalloc(len / 4 * 3 + 1); /* less than the text we hold */
    n = len ? EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len)
            : 0;
    if (n < 0)
        return error_set(err, ERR_INVALID, "not base64");
    *ret_len = (size_t)n - padding;
    *ret = take_ptr(bytes);
    return 0;
}
