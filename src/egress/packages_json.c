/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of a simple index in JSON (PEP 691), read for its files: each must
 * have a sha256 and be a file of the project that was asked for. Everything
 * else in it is passed over; text that is no JSON has no files after the
 * fault. There is no JSON library in this process, so this reads just enough.
 * Pure; runs in glovebox-egress on untrusted bytes.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "egress/packages_int.h"

#define DEPTH_MAX 16

struct cursor {
    const char *at, *end;
    unsigned depth;
};

struct entry {
    char filename[PACKAGE_FILE_MAX];
    char url[PACKAGE_URL_MAX];
    char sha256[HASH_HEX];
    char requires[100];
    bool yanked;
};

struct reading {
    const char *base, *project;
    struct package_list list;
    struct entry one;
};

/* Reads the value of that member, or element; false: that is no JSON. */
typedef bool value_fn(struct reading *r, struct cursor *c, const char *name);

/* ---- JSON --------------------------------------------------------------- */

static void skip_blanks(struct cursor *c)
{
    while (c->at < c->end && memchr(" \t\r\n", *c->at, 4))
        c->at++;
}

static bool take_mark(struct cursor *c, char what)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != what)
        return false;
    c->at++;
    return true;
}

static int read_hex4(struct cursor *c)
{
    int value = 0;

    if (c->end - c->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char d = *c->at++;

        if (d >= '0' && d <= '9')
            value = value * 16 + d - '0';
        else if ((d | 0x20) >= 'a' && (d | 0x20) <= 'f')
            value = value * 16 + (d | 0x20) - 'a' + 10;
        else
            return -1;
    }
    return value;
}

/* Reads a character or an escape; -1: neither is there. */
static int read_escape(struct cursor *c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned char one = (unsigned char)*c->at++;
    const char *found;

    if (one < ' ')
        return -1;
    if (one != '\\')
        return one;
    if (c->at == c->end)
        return -1;
    one = (unsigned char)*c->at++;
    if (one == 'u')
        return read_hex4(c);
    found = one ? strchr(from, one) : NULL;
    return found ? to[found - from] : -1;
}

/* ret: "" when it is too long or has anything but printable ASCII. */
static bool read_string(struct cursor *c, char *ret, size_t size)
{
    size_t len = 0;
    bool fits = true;

    if (!take_mark(c, '"'))
        return false;
    while (c->at < c->end && *c->at != '"') {
        int one = read_escape(c);

        if (one < 0)
            return false;
        fits = fits && one >= ' ' && one < 0x7f && len + 1 < size;
        if (fits)
            ret[len++] = (char)one;
    }
    if (c->at == c->end)
        return false;
    c->at++;
    ret[fits ? len : 0] = '\0';
    return true;
}

static bool read_list(struct reading *r, struct cursor *c, bool object,
                      value_fn *fn)
{
    char name[32] = "";
    bool good = ++c->depth <= DEPTH_MAX && take_mark(c, object ? '{' : '[');

    if (good && take_mark(c, object ? '}' : ']')) {
        c->depth--;
        return true;
    }
    while (good) {
        if (object)
            good = read_string(c, name, sizeof(name)) && take_mark(c, ':');
        good = good && fn(r, c, name);
        if (good && take_mark(c, object ? '}' : ']')) {
            c->depth--;
            return true;
        }
        good = good && take_mark(c, ',');
    }
    return false;
}

/* Passes over whatever it is. */
static bool skip_value(struct reading *r, struct cursor *c, const char *name)
{
    const char *from;
    char text[2];

    (void)name;
    skip_blanks(c);
    if (c->at == c->end)
        return false;
    if (*c->at == '{' || *c->at == '[')
        return read_list(r, c, *c->at == '{', skip_value);
    if (*c->at == '"')
        return read_string(c, text, sizeof(text));
    for (from = c->at; c->at < c->end && !memchr(" \t\r\n,]}", *c->at, 7);
         c->at++)
        ; /* a number or a word */
    return c->at > from;
}

/* ---- a page ------------------------------------------------------------- */

static bool read_hash(struct reading *r, struct cursor *c, const char *name)
{
    if (strcmp(name, "sha256") != 0)
        return skip_value(r, c, name);
    return read_string(c, r->one.sha256, sizeof(r->one.sha256));
}

static bool read_text(struct reading *r, struct cursor *c, char *ret,
                      size_t size)
{
    skip_blanks(c);
    if (c->at < c->end && *c->at == 'n') /* null */
        return skip_value(r, c, "");
    return read_string(c, ret, size);
}

static bool read_member(struct reading *r, struct cursor *c, const char *name)
{
    struct entry *e = &r->one;

    if (strcmp(name, "filename") == 0)
        return read_text(r, c, e->filename, sizeof(e->filename));
    if (strcmp(name, "url") == 0)
        return read_text(r, c, e->url, sizeof(e->url));
    if (strcmp(name, "requires-python") == 0)
        return read_text(r, c, e->requires, sizeof(e->requires));
    if (strcmp(name, "hashes") == 0)
        return read_list(r, c, true, read_hash);
    if (strcmp(name, "yanked") == 0) {
        skip_blanks(c);
        e->yanked = c->at < c->end && *c->at != 'f';
    }
    return skip_value(r, c, name);
}

/* As it would be written in HTML, where our own list has it. */
static void escape_name(const char *text, char *ret, size_t size)
{
    size_t len = 0;

    for (; *text; text++) {
        const char *as = *text == '<'   ? "&lt;"
                         : *text == '>' ? "&gt;"
                         : *text == '&' ? "&amp;"
                         : *text == '"' ? "&quot;"
                                        : NULL;
        int n = as ? snprintf(ret + len, size - len, "%s", as)
                   : snprintf(ret + len, size - len, "%c", *text);

        len += (size_t)n;
        if (len >= size) { /* a part of it would mean something else */
            ret[0] = '\0';
            return;
        }
    }
}

static bool usable_file(const struct reading *r, struct package_file *ret)
{
    const struct entry *e = &r->one;
    char found[PACKAGE_NAME_MAX];

    if (e->yanked || !e->url[0] || strpbrk(e->url, " \"<>#") ||
        strspn(e->sha256, "0123456789abcdef") != HASH_HEX - 1 ||
        !egress_packages_file(e->filename, found, ret->version) ||
        strcmp(found, r->project) != 0)
        return false;
    memcpy(ret->name, e->filename, sizeof(ret->name));
    memcpy(ret->sha256, e->sha256, sizeof(ret->sha256));
    escape_name(e->requires, ret->requires, sizeof(ret->requires));
    ret->url = egress_packages_resolve(r->base, e->url);
    return ret->url != NULL;
}

static bool read_file(struct reading *r, struct cursor *c, const char *name)
{
    struct package_file file = {.allowed = false};

    (void)name;
    memset(&r->one, 0, sizeof(r->one));
    if (!read_list(r, c, true, read_member))
        return false;
    if (usable_file(r, &file))
        egress_packages_keep(&r->list, file);
    return true;
}

static bool read_top(struct reading *r, struct cursor *c, const char *name)
{
    return strcmp(name, "files") == 0 ? read_list(r, c, false, read_file)
                                      : skip_value(r, c, name);
}

size_t egress_packages_json(const char *json, size_t len, const char *base,
                            const char *project, struct package_file **ret)
{
    struct cursor c = {.at = json, .end = json + len};
    struct reading r = {.base = base, .project = project};

    (void)read_list(&r, &c, true,
                    read_top); /* up to a fault, if there is one */
    *ret = r.list.files;
    return r.list.count;
}
