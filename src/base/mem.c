/* SPDX-License-Identifier: Apache-2.0 */
/* Aborting allocators; see mem.h. Runs in every process. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *or_abort(void *p)
{
    if (!p)
        abort();
    return p;
}

void *xmalloc(size_t size)
{
    return or_abort(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
    return or_abort(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *old, size_t size)
{
    return or_abort(realloc(old, size ? size : 1));
}

char *xstrdup(const char *s)
{
    return s ? or_abort(strdup(s)) : NULL;
}

char *xstrndup(const char *s, size_t len)
{
    return or_abort(strndup(s, len));
}

char *xasprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        abort();
    va_end(ap);
    return s;
}
