/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file may be called (F5): relative, UTF-8, no control characters, no
 * empty, "." or ".." part, 1024 bytes, 255 a part, 32 deep. The same rule on
 * the way in and for names a session made.
 */
#ifndef GLOVEBOX_BASE_PATH_H
#define GLOVEBOX_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define PATH_BYTES_MAX 1024u
#define PATH_PART_MAX 255u
#define PATH_DEPTH_MAX 32u

/* NULL, or what is wrong: "has an empty part" (to follow "the path "). */
const char *path_fault(const char *path, size_t len);
/* UTF-8 without control characters. */
bool path_plain(const char *text, size_t len);
/* Is path `folder` itself or below it? An empty folder holds everything; a
 * "/" at its end does not matter. */
bool path_below(const char *path, const char *folder);

#endif
