/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of a simple index (PEP 503), read for its links: each must have a
 * sha256 and be a file of the project that was asked for. Everything else on
 * it is passed over. Pure; runs in glovebox-egress on untrusted bytes.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "egress/packages_int.h"

void egress_packages_files_free(struct package_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i].url);
    free(files);
}

/* The value of an attribute inside of one tag, as it is written. */
static bool attribute(struct span tag, const char *name, struct span *ret)
{
    size_t len = strlen(name);

    for (size_t i = 0; i + len + 2 < tag.len; i++) {
        const char *value = tag.at + i + len + 2, *end;

        if (!isspace((unsigned char)tag.at[i]) ||
            strncasecmp(tag.at + i + 1, name, len) != 0 ||
            tag.at[i + 1 + len] != '=' || (*value != '"' && *value != '\''))
            continue;
        end =
            memchr(value + 1, *value, (size_t)(tag.at + tag.len - value - 1));
        if (!end)
            return false;
        *ret = (struct span){value + 1, (size_t)(end - value - 1)};
        return true;
    }
    return false;
}

/* href with &amp; undone; false: too long, or a byte no URL has. */
static bool unescape_attribute(struct span in, char ret[PACKAGE_URL_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < in.len; i++) {
        unsigned char c = (unsigned char)in.at[i];

        if (n + 1 >= PACKAGE_URL_MAX || c <= ' ' || c >= 0x7f || c == '"' ||
            c == '<' || c == '>')
            return false;
        ret[n++] = (char)c;
        if (c == '&' && in.len - i >= 5 && strncmp(in.at + i, "&amp;", 5) == 0)
            i += 4;
    }
    ret[n] = '\0';
    return true;
}

char *egress_packages_resolve(const char *base, const char *link)
{
    const char *authority = strstr(base, "://"), *path, *slash;

    if (strncasecmp(link, "http://", 7) == 0 ||
        strncasecmp(link, "https://", 8) == 0)
        return xstrdup(link);
    if (!authority || strstr(link, "://"))
        return NULL;
    path = strchr(authority + 3, '/');
    if (!path)
        return NULL;
    if (strncmp(link, "//", 2) == 0)
        return xasprintf("%.*s:%s", (int)(authority - base), base, link);
    if (link[0] == '/')
        return xasprintf("%.*s%s", (int)(path - base), base, link);
    slash = path + strcspn(path, "?#");
    while (*slash != '/' || slash == base)
        slash--;
    while (strncmp(link, "../", 3) == 0) {
        link += 3;
        if (slash > path)
            for (slash--; slash > path && *slash != '/'; slash--)
                ;
    }
    return xasprintf("%.*s/%s", (int)(slash - base), base, link);
}

static bool take_hash(char *url, char ret[HASH_HEX])
{
    char *mark = strchr(url, '#'), *hash;

    if (!mark)
        return false;
    *mark = '\0';
    hash = strstr(mark + 1, "sha256=");
    if (!hash || strspn(hash + 7, "0123456789abcdef") < HASH_HEX - 1)
        return false;
    memcpy(ret, hash + 7, HASH_HEX - 1);
    ret[HASH_HEX - 1] = '\0';
    return true;
}

/* One <a …>: true when it is one of ours. */
static bool take_link(struct span tag, const char *base, const char *project,
                      struct package_file *ret)
{
    char link[PACKAGE_URL_MAX], found[PACKAGE_NAME_MAX], *slash;
    struct span href, other;

    *ret = (struct package_file){.allowed = false};
    if (!attribute(tag, "href", &href) || !unescape_attribute(href, link) ||
        attribute(tag, "data-yanked", &other) || !take_hash(link, ret->sha256))
        return false;
    slash = strrchr(link, '/');
    slash = slash ? slash + 1 : link;
    if (!egress_packages_file(slash, found, ret->version) ||
        strcmp(found, project) != 0)
        return false;
    (void)snprintf(ret->name, sizeof(ret->name), "%.199s", slash);
    if (attribute(tag, "data-requires-python", &other) &&
        other.len < sizeof(ret->requires) && !memchr(other.at, '<', other.len))
        memcpy(ret->requires, other.at, other.len);
    ret->url = egress_packages_resolve(base, link);
    return ret->url != NULL;
}

void egress_packages_keep(struct package_list *l, struct package_file one)
{
    if (!l->files)
        l->files = xcalloc(PACKAGE_FILES_MAX, sizeof(*l->files));
    free(l->files[l->next].url);
    l->files[l->next] = one;
    l->next = (l->next + 1) % PACKAGE_FILES_MAX;
    l->count = MIN(l->count + 1, (size_t)PACKAGE_FILES_MAX);
}

size_t egress_packages_page(const char *html, size_t len, const char *base,
                            const char *project, struct package_file **ret)
{
    struct package_list list = {.files = NULL};
    const char *at = html, *end = html + len;

    while (at && (at = memchr(at, '<', (size_t)(end - at)))) {
        const char *close = memchr(at, '>', (size_t)(end - at));
        struct package_file one;

        if (!close)
            break;
        if (close - at > 3 && tolower((unsigned char)at[1]) == 'a' &&
            isspace((unsigned char)at[2]) &&
            take_link((struct span){at, (size_t)(close - at)}, base, project,
                      &one))
            egress_packages_keep(&list, one);
        at = close + 1;
    }
    *ret = list.files;
    return list.count;
}
