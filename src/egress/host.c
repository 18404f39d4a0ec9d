/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and numbers of hosts in one form; see host.h. Pure. Runs in
 * glovebox-egress on what sessions wrote and in gloveboxd on what people
 * wrote; trusts neither.
 */
#include "egress/host.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <idn2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

#define NAME_MAX_BYTES 253u
#define LABEL_MAX_BYTES 63u
#define TEXT_MAX_BYTES 1024u /* before what is not ASCII is mapped */

static int invalid_host(struct error *err, const char *why)
{
    return error_set(err, ERR_INVALID, "not a host: %s", why);
}

/* ---- numbers ------------------------------------------------------------ */

/* One part of an IPv4 number: decimal, 0 octal or 0x hex, as inet_aton. */
static bool parse_part(const char *text, size_t len, uint64_t *ret)
{
    unsigned base = 10;
    uint64_t v = 0;

    if (len >= 2 && text[0] == '0' && text[1] == 'x') {
        base = 16;
        text += 2;
        len -= 2;
    } else if (len >= 2 && text[0] == '0') {
        base = 8;
    }
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];
        unsigned digit = isdigit(c)    ? (unsigned)(c - '0')
                         : isxdigit(c) ? (unsigned)(c - 'a' + 10)
                                       : 99;

        if (digit >= base)
            return false;
        v = v * base + digit;
        if (v > UINT32_MAX)
            return false;
    }
    *ret = v;
    return true;
}

/* Browsers, curl and libc treat a name that ends in a number as an address, so
 * a host name must not end in one. */
static bool ends_in_number(const char *name)
{
    const char *last = strrchr(name, '.');
    uint64_t v;

    last = last ? last + 1 : name;
    if (last[0] && strspn(last, "0123456789") == strlen(last))
        return true;
    return last[0] == '0' && last[1] == 'x' &&
           parse_part(last, strlen(last), &v);
}

static bool parse_number(const char *name, uint32_t *ret)
{
    uint64_t parts[4];
    size_t count = 0;
    uint32_t v = 0;

    for (const char *at = name;; at++) {
        size_t len = strcspn(at, ".");

        if (!len || count == 4 || !parse_part(at, len, &parts[count]))
            return false;
        count++;
        at += len;
        if (!*at)
            break;
    }
    for (size_t i = 0; i + 1 < count; i++) {
        if (parts[i] > 255)
            return false;
        v |= (uint32_t)parts[i] << (24 - 8 * i);
    }
    if (parts[count - 1] >= UINT64_C(1) << (8 * (5 - count)))
        return false;
    *ret = v | (uint32_t)parts[count - 1];
    return true;
}

static void print_v4(uint32_t v, char ret[EGRESS_HOST_MAX])
{
    (void)snprintf(ret, EGRESS_HOST_MAX, "%u.%u.%u.%u", v >> 24,
                   (v >> 16) & 255, (v >> 8) & 255, v & 255);
}

static int canonical_v6(const char *text, size_t len,
                        char ret[EGRESS_HOST_MAX], struct error *err)
{
    char copy[INET6_ADDRSTRLEN + 1];
    struct in6_addr a;

    if (len >= sizeof(copy))
        return invalid_host(err, "too long for an IPv6 address");
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (strlen(copy) != len || inet_pton(AF_INET6, copy, &a) != 1)
        return invalid_host(err, "not an IPv6 address");
    if (IN6_IS_ADDR_V4MAPPED(&a)) {
        uint32_t v;

        memcpy(&v, &a.s6_addr[12], sizeof(v));
        print_v4(ntohl(v), ret);
        return 0;
    }
    (void)inet_ntop(AF_INET6, &a, ret, EGRESS_HOST_MAX);
    return 0;
}

/* ---- names -------------------------------------------------------------- */

static int check_labels(const char *name, struct error *err)
{
    for (const char *at = name;; at++) {
        size_t len = strcspn(at, ".");

        if (!len)
            return invalid_host(err, "it has an empty part");
        if (len > LABEL_MAX_BYTES)
            return invalid_host(err, "a part is longer than 63 bytes");
        if (strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-_") < len)
            return invalid_host(err, "it has a character no name has");
        if (at[0] == '-' || at[len - 1] == '-')
            return invalid_host(err, "a part begins or ends with '-'");
        at += len;
        if (!*at)
            return 0;
    }
}

/* Characters that would end the host, or hide one, in some reader's eyes. */
static int check_characters(const char *text, size_t len, struct error *err)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c <= ' ' || c == 0x7f)
            return invalid_host(err, "it has a blank or a control character");
        if (strchr("%@/\\?#[]<>^|\"'`{}()!$&*+,;=~", c))
            return invalid_host(err, "it has a character no name has");
    }
    return utf8_valid(text, len) ? 0 : invalid_host(err, "it is not UTF-8");
}

/* Mapped by IDNA 2008 as browsers do (UTS 46, non-transitional). Text that
 * claims to be punycode goes the same way, which checks it. */
static int map_name(const char *text, size_t len, char ret[EGRESS_HOST_MAX],
                    struct error *err)
{
    char *copy cleanup(mem_free) = xstrndup(text, len);
    char *mapped = NULL;
    bool plain = !strcasestr(copy, "xn--");
    int r;

    for (size_t i = 0; i < len; i++)
        plain &= (unsigned char)copy[i] < 0x80;
    if (plain) {
        if (len > NAME_MAX_BYTES)
            return invalid_host(err, "it is longer than 253 bytes");
        for (size_t i = 0; i <= len; i++)
            ret[i] = (char)tolower((unsigned char)copy[i]);
        return 0;
    }
    r = idn2_to_ascii_8z(copy, &mapped, IDN2_NONTRANSITIONAL | IDN2_NFC_INPUT);
    if (r != IDN2_OK)
        return invalid_host(err, idn2_strerror(r));
    if (strlen(mapped) > NAME_MAX_BYTES) {
        idn2_free(mapped);
        return invalid_host(err, "it is longer than 253 bytes");
    }
    for (size_t i = 0; i <= strlen(mapped); i++)
        ret[i] = (char)tolower((unsigned char)mapped[i]);
    idn2_free(mapped);
    return 0;
}

int egress_host_canonical(const char *text, size_t len,
                          char ret[EGRESS_HOST_MAX], bool *ret_address,
                          struct error *err)
{
    char name[EGRESS_HOST_MAX] = "";
    bool number = false;
    uint32_t v4;
    int r;

    if (len == 0)
        return invalid_host(err, "it is empty");
    if (len > TEXT_MAX_BYTES)
        return invalid_host(err, "it is longer than 253 bytes");
    if (text[0] == '[') {
        if (text[len - 1] != ']')
            return invalid_host(err, "a bracket is not closed");
        r = canonical_v6(text + 1, len - 2, ret, err);
        number = true;
    } else if (memchr(text, ':', len)) {
        r = canonical_v6(text, len, ret, err);
        number = true;
    } else {
        r = check_characters(text, len, err);
        if (r == 0 && text[len - 1] == '.')
            len--;
        if (r == 0 && len == 0)
            r = invalid_host(err, "it is empty");
        if (r == 0)
            r = map_name(text, len, name, err);
        if (r == 0 && ends_in_number(name)) {
            number = true;
            if (parse_number(name, &v4))
                print_v4(v4, ret);
            else
                r = invalid_host(err, "it ends in a number but is no address");
        } else if (r == 0) {
            r = check_labels(name, err);
            if (r == 0)
                memcpy(ret, name, strlen(name) + 1);
        }
    }
    if (r == 0 && ret_address)
        *ret_address = number;
    return r;
}

/* ---- patterns ----------------------------------------------------------- */

bool egress_host_matches(const char *pattern, const char *host)
{
    size_t below, len = strlen(host);

    if (strncmp(pattern, "*.", 2) != 0)
        return pattern[0] && strcmp(pattern, host) == 0;
    below = strlen(pattern + 1); /* with its dot */
    return below > 1 && len > below &&
           strcmp(host + len - below, pattern + 1) == 0;
}

int egress_host_pattern(const char *text, char ret[EGRESS_HOST_MAX],
                        struct error *err)
{
    char name[EGRESS_HOST_MAX] = "";
    bool address = false;
    int r;

    if (strncmp(text, "*.", 2) != 0) {
        r = egress_host_canonical(text, strlen(text), name, NULL, err);
        if (r == 0)
            memcpy(ret, name, strlen(name) + 1);
        return r;
    }
    r = egress_host_canonical(text + 2, strlen(text + 2), name, &address, err);
    if (r < 0)
        return r;
    if (address || !strchr(name, '.')) {
        (void)error_set(err, ERR_INVALID, "'%.80s' matches too much", text);
        return error_hint(err, "Write at least two labels behind the star: "
                               "*.example.org");
    }
    if (strlen(name) + 2 > NAME_MAX_BYTES)
        return invalid_host(err, "it is longer than 253 bytes");
    ret[0] = '*';
    ret[1] = '.';
    memcpy(ret + 2, name, strlen(name) + 1);
    return 0;
}
