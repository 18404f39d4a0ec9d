/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first message of a TLS client, read for the name in it; see http.h. A
 * tunnel to one host must not be used to ask that host's server for another
 * (fronting). Pure; runs in glovebox-egress; resumes by being called again
 * with more.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "egress/http.h"

#define HELLO_MAX 16384u
#define EXTENSION_NAME 0u
#define EXTENSION_HIDDEN 0xfe0du /* encrypted_client_hello */

struct view {
    const uint8_t *at;
    size_t left;
};

static bool take_bytes(struct view *v, size_t n, struct view *ret)
{
    if (n > v->left)
        return false;
    *ret = (struct view){v->at, n};
    v->at += n;
    v->left -= n;
    return true;
}

/* A big-endian number of that many bytes. */
static bool take_number(struct view *v, size_t bytes, size_t *ret)
{
    struct view part;
    size_t n = 0;

    if (!take_bytes(v, bytes, &part))
        return false;
    for (size_t i = 0; i < bytes; i++)
        n = n << 8 | part.at[i];
    *ret = n;
    return true;
}

/* What a length in front of it says. */
static bool take_vector(struct view *v, size_t bytes, struct view *ret)
{
    size_t n;

    return take_number(v, bytes, &n) && take_bytes(v, n, ret);
}

/* The handshake message out of its records. */
static enum hello_result join_records(const uint8_t *bytes, size_t len,
                                      uint8_t out[HELLO_MAX], size_t *ret_len)
{
    struct view in = {bytes, len};
    size_t n = 0;

    for (;;) {
        struct view body;
        size_t size;

        if (n >= 4) {
            size_t want =
                4 + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);

            if (want > HELLO_MAX)
                return HELLO_BROKEN;
            if (n >= want) {
                *ret_len = want;
                return HELLO_TLS;
            }
        }
        if (in.left >= 1 && in.at[0] != 0x16)
            return n ? HELLO_BROKEN : HELLO_NOT;
        if (in.left >= 2 && in.at[1] != 3)
            return n ? HELLO_BROKEN : HELLO_NOT;
        if (in.left < 5)
            return HELLO_MORE;
        size = (size_t)in.at[3] << 8 | in.at[4];
        if (size == 0 || size > HELLO_MAX - n)
            return HELLO_BROKEN;
        in.at += 5;
        in.left -= 5;
        if (!take_bytes(&in, MIN(size, in.left), &body))
            return HELLO_BROKEN;
        memcpy(out + n, body.at, body.left);
        n += body.left;
        if (n && out[0] != 1)
            return HELLO_BROKEN;
        if (body.left < size)
            return HELLO_MORE;
    }
}

static bool read_name(struct view list, char ret[EGRESS_HOST_MAX])
{
    struct view names, name;
    size_t type;

    if (!take_vector(&list, 2, &names) || list.left)
        return false;
    if (!take_number(&names, 1, &type) || type != 0 ||
        !take_vector(&names, 2, &name) || names.left)
        return false;
    if (name.left == 0 || name.left >= EGRESS_HOST_MAX ||
        memchr(name.at, 0, name.left))
        return false;
    memcpy(ret, name.at, name.left);
    ret[name.left] = '\0';
    return true;
}

static enum hello_result read_extensions(struct view all,
                                         char ret[EGRESS_HOST_MAX])
{
    bool named = false;

    while (all.left) {
        struct view body;
        size_t type;

        if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &body))
            return HELLO_BROKEN;
        if (type == EXTENSION_HIDDEN)
            return HELLO_HIDDEN;
        if (type != EXTENSION_NAME)
            continue;
        if (named || !read_name(body, ret))
            return HELLO_BROKEN;
        named = true;
    }
    return HELLO_TLS;
}

enum hello_result egress_hello_read(const void *bytes, size_t len,
                                    char ret_name[EGRESS_HOST_MAX])
{
    uint8_t message[HELLO_MAX];
    struct view v, skip, extensions;
    size_t total = 0;
    enum hello_result r = join_records(bytes, len, message, &total);

    ret_name[0] = '\0';
    if (r != HELLO_TLS)
        return r;
    v = (struct view){message + 4, total - 4};
    if (!take_bytes(&v, 2 + 32, &skip) || !take_vector(&v, 1, &skip) ||
        !take_vector(&v, 2, &skip) || !take_vector(&v, 1, &skip))
        return HELLO_BROKEN;
    if (v.left == 0)
        return HELLO_TLS;
    if (!take_vector(&v, 2, &extensions) || v.left)
        return HELLO_BROKEN;
    return read_extensions(extensions, ret_name);
}
