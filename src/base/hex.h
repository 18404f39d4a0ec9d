/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal text to bytes; ids_hex (ids.h) is the other direction. */
#ifndef GLOVEBOX_BASE_HEX_H
#define GLOVEBOX_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a digit of either case, or -1. */
int hex_digit(char c);
/* Decodes 2 * len lower-case digits. False when one is not; what follows them
 * is not looked at. A text that is too short is false, too. */
bool hex_decode(const char *text, unsigned char *ret, size_t len);

#endif
