/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file is called: a client's file name without its folders, and the
 * name it has inside a container. Pure; runs in the daemon.
 */
#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "doors/openai/openai.h"

const char *openai_name_base(const char *filename)
{
    const char *base = filename ? filename : "";

    for (const char *p = base; *p; p++)
        if (*p == '/' || *p == '\\')
            base = p + 1;
    if (!base[0])
        return "upload";
    return path_fault(base, strlen(base)) ? NULL : base;
}

const char *openai_name_join(struct arena *arena, const char *prefix,
                             const char *name)
{
    size_t room = PATH_PART_MAX - MIN(strlen(prefix), PATH_PART_MAX);
    size_t len = strlen(name);

    /* The end of a name says what it is. */
    while (len > room) {
        size_t n = utf8_length(name, len);

        name += n ? n : 1;
        len -= n ? n : 1;
    }
    return arena_printf(arena, "%s%s", prefix, name);
}

/* What clients say when nobody told them. */
static bool says_nothing(const char *type)
{
    static const char *const unasked[] = {"application/octet-stream",
                                          "binary/octet-stream", "text/plain"};

    for (size_t i = 0; i < ARRAY_SIZE(unasked); i++)
        if (strcmp(type, unasked[i]) == 0)
            return true;
    return false;
}

const char *openai_name_type(struct arena *arena, const char *type)
{
    size_t len = type ? strcspn(type, "; \t") : 0;
    unsigned slashes = 0;
    char *copy;

    if (len < 3 || len >= sizeof(((struct library_file *)0)->mime))
        return NULL;
    copy = arena_strndup(arena, type, len);
    for (char *p = copy; *p; p++) {
        if (!isascii(*p) || (!isalnum(*p) && !strchr("/+.-_", *p)))
            return NULL;
        slashes += *p == '/';
        *p = (char)tolower(*p);
    }
    if (slashes != 1 || copy[0] == '/' || copy[len - 1] == '/')
        return NULL;
    return says_nothing(copy) ? NULL : copy;
}
