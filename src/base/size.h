/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes in bytes, as people read them. */
#ifndef GLOVEBOX_BASE_SIZE_H
#define GLOVEBOX_BASE_SIZE_H

#include <stdint.h>

#define SIZE_TEXT_MAX 16

/* "512 B", "1 KiB", "1.5 GiB": binary units, at most one decimal, rounded
 * down. Returns ret. */
char *size_format(uint64_t bytes, char ret[SIZE_TEXT_MAX]);

#endif
