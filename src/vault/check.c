/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a secret may be: a name, a value that fits into one header line, the
 * header it travels in, and the destinations it may go to in their canonical
 * form. Pure.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "egress/host.h"
#include "vault/vault_int.h"

#define LETTERS                                                               \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

bool vault_name_valid(const char *name)
{
    size_t len = strspn(name, LETTERS "_.-");

    return len >= 1 && len < sizeof(((struct vault_info *)0)->name) &&
           name[len] == '\0';
}

/* Headers that frame a message, or that only the proxy writes. */
static bool is_reserved_header(const char *header)
{
    static const char *const names[] = {
        "host", "content-length", "transfer-encoding", "connection", "upgrade",
        "te",   "trailer",        "keep-alive",        "expect"};

    if (strncasecmp(header, "proxy-", 6) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcasecmp(header, names[i]) == 0)
            return true;
    return false;
}

static int check_header(const char *header, char ret[64], struct error *err)
{
    if (!header[0])
        header = "Authorization";
    if (header[strspn(header, LETTERS "!#$%&'*+-.^_`|~")] != '\0')
        return error_set(err, ERR_INVALID,
                         "header must be the name of an HTTP header");
    if (is_reserved_header(header))
        return error_set(err, ERR_INVALID,
                         "header must not be '%s', which is not a client's to "
                         "choose",
                         header);
    (void)snprintf(ret, 64, "%s", header);
    return 0;
}

static bool printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

static int check_value(const char *value, size_t len, struct error *err)
{
    if (len == 0)
        return error_set(err, ERR_INVALID, "the value is empty");
    if (len > VAULT_VALUE_MAX)
        return error_set(err, ERR_TOO_LARGE, "the value is over %u bytes",
                         VAULT_VALUE_MAX);
    if (!printable(value, len)) {
        (void)error_set(err, ERR_INVALID,
                        "the value must be printable ASCII: it travels in one "
                        "header line");
        return error_hint(err, "encode what is not, for example in base64");
    }
    return 0;
}

/* One more, unless it is there already. */
static int add_destination(struct buf *out, const char *text, unsigned *count,
                           struct error *err)
{
    char host[EGRESS_HOST_MAX];
    int rc = egress_host_pattern(text, host, err);

    if (rc < 0)
        return error_wrap(err, "destinations");
    if (++*count > VAULT_DESTINATIONS_MAX)
        return error_set(err, ERR_INVALID, "more than %u destinations",
                         VAULT_DESTINATIONS_MAX);
    if (out->len)
        buf_adds(out, ",");
    buf_adds(out, host);
    return 0;
}

static int check_destinations(const char *text, char *ret, size_t size,
                              struct error *err)
{
    struct buf out cleanup(buf_done) = {0};
    char *copy cleanup(mem_free) = xstrdup(text);
    char *rest = copy, *word;
    unsigned count = 0;

    while ((word = strsep(&rest, ", "))) {
        if (word[0] && add_destination(&out, word, &count, err) < 0)
            return -(int)err->code;
    }
    if (count == 0) {
        (void)error_set(err, ERR_INVALID,
                        "a secret must be bound to at least one destination");
        return error_hint(err, "name the hosts it may go to, for example "
                               "api.example.org");
    }
    if (out.len >= size)
        return error_set(err, ERR_INVALID,
                         "destinations are over %zu bytes together", size - 1);
    memcpy(ret, out.data, out.len + 1);
    return 0;
}

int vault_check(const struct vault_info *spec, const char *value, size_t len,
                struct vault_info *ret, struct error *err)
{
    int rc;

    memset(ret, 0, sizeof(*ret));
    if (!vault_name_valid(spec->name))
        return error_set(err, ERR_INVALID,
                         "a secret's name must be 1 to 63 of letters, digits, "
                         "_, . and -");
    (void)snprintf(ret->name, sizeof(ret->name), "%s", spec->name);
    if (!printable(spec->prefix, strlen(spec->prefix)))
        return error_set(err, ERR_INVALID, "prefix must be printable ASCII");
    (void)snprintf(ret->prefix, sizeof(ret->prefix), "%s", spec->prefix);
    rc = check_header(spec->header, ret->header, err);
    if (rc == 0)
        rc = check_destinations(spec->destinations, ret->destinations,
                                sizeof(ret->destinations), err);
    return rc < 0 ? rc : check_value(value, len, err);
}
