/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a bucket: from a file in the format that Amazon's tools use, or
 * from the environment. Runs in gloveboxd at the start, and again when the
 * server says that a session token has expired, so that whatever renews the
 * file needs no restart. Keys are never logged.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "s3/s3_int.h"

#define FILE_MAX (16u << 10)

void s3_keys_wipe(struct s3_keys *keys)
{
    OPENSSL_cleanse(keys, sizeof(*keys));
}

/* They become part of a header. */
static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

static int set_field(struct s3_keys *keys, const char *name, size_t name_len,
                     const char *value, size_t len, struct error *err)
{
    const struct {
        const char *name;
        char *to;
        size_t size;
    } fields[] = {
        {"access_key_id", keys->id, sizeof(keys->id)},
        {"secret_access_key", keys->secret, sizeof(keys->secret)},
        {"session_token", keys->token, sizeof(keys->token)},
    };

    if (name_len > 4 && strncasecmp(name, "aws_", 4) == 0) {
        name += 4;
        name_len -= 4;
    }
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        if (strlen(fields[i].name) != name_len ||
            strncasecmp(name, fields[i].name, name_len) != 0)
            continue;
        if (len >= fields[i].size || !is_token(value, len))
            return error_set(err, ERR_INVALID,
                             "%s is longer than %zu bytes or has bytes that "
                             "no key has",
                             fields[i].name, fields[i].size - 1);
        memcpy(fields[i].to, value, len);
        fields[i].to[len] = '\0';
    }
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int set_line(struct s3_keys *keys, const char *line, size_t len,
                    struct error *err)
{
    const char *equals, *value;
    size_t name_len, value_len;

    while (len && is_blank(*line)) {
        line++;
        len--;
    }
    while (len && is_blank(line[len - 1]))
        len--;
    equals = len ? memchr(line, '=', len) : NULL;
    if (!equals || *line == '#' || *line == ';' || *line == '[')
        return 0;
    name_len = (size_t)(equals - line);
    value = equals + 1;
    value_len = len - name_len - 1;
    while (name_len && is_blank(line[name_len - 1]))
        name_len--;
    while (value_len && is_blank(*value)) {
        value++;
        value_len--;
    }
    return set_field(keys, line, name_len, value, value_len, err);
}

int s3_keys_parse(const char *text, size_t len, struct s3_keys *ret,
                  struct error *err)
{
    struct s3_keys keys cleanup(s3_keys_wipe) = {0};
    const char *end = text + len;

    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line = stop ? (size_t)(stop - text) : (size_t)(end - text);
        int r = set_line(&keys, text, line, err);

        if (r < 0)
            return r;
        text += line + 1;
    }
    if (!keys.id[0] || !keys.secret[0])
        return error_set(err, ERR_INVALID,
                         "access_key_id and secret_access_key are needed");
    *ret = keys;
    return 0;
}

static int read_environment(struct s3_keys *ret, struct error *err)
{
    static const char *const names[] = {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};
    struct s3_keys keys cleanup(s3_keys_wipe) = {0};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
        const char *value = getenv(names[i]);

        if (value)
            r = set_field(&keys, names[i], strlen(names[i]), value,
                          strlen(value), err);
    }
    if (r < 0)
        return r;
    if (!keys.id[0] || !keys.secret[0])
        return error_set(err, ERR_INVALID,
                         "it has no key_file, and AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY are not set");
    *ret = keys;
    return 0;
}

int s3_keys_read(const char *path, struct s3_keys *ret, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    char text[FILE_MAX + 1];
    ssize_t n;
    int r;

    if (!*path)
        return read_environment(ret, err);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -errno : fd_read_all(fd, text, sizeof(text));
    if (n < 0)
        return error_errno(err, ERR_INVALID, (int)-n, "cannot read %.200s",
                           path);
    if ((size_t)n == sizeof(text))
        r = error_set(err, ERR_INVALID, "it is larger than %u bytes",
                      FILE_MAX);
    else
        r = s3_keys_parse(text, (size_t)n, ret, err);
    OPENSSL_cleanse(text, sizeof(text));
    return r < 0 ? error_wrap(err, "key_file %.200s", path) : 0;
}
