/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8, strictly: shortest forms only, no surrogates, nothing above
 * U+10FFFF. The one place that knows; JSON, paths, names and listings ask.
 */
#ifndef GLOVEBOX_BASE_UTF8_H
#define GLOVEBOX_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the valid sequence at text, 0 when there is none. len > 0. */
size_t utf8_length(const char *text, size_t len);
/* Bytes at the end that begin a sequence whose rest is still to come. */
size_t utf8_partial(const char *text, size_t len);
/* The length of the longest prefix of at most `most` bytes that does not end
 * within a character; text is valid. */
size_t utf8_cut(const char *text, size_t len, size_t most);
bool utf8_valid(const char *text, size_t len);
/* The character of a valid sequence of that length. */
uint32_t utf8_decode(const char *text, size_t len);

#endif
