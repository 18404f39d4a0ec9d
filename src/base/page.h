/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists that are read page by page: what a caller asks for and what it got,
 * beside the array of entries.
 */
#ifndef GLOVEBOX_BASE_PAGE_H
#define GLOVEBOX_BASE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct page {
    unsigned limit;    /* entries; 0: as many as the list allows */
    const char *after; /* the last entry of the page before; NULL: the start */
};

struct page_result {
    size_t count;  /* entries of this page */
    bool has_more; /* there are entries after it */
};

#endif
