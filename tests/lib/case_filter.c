/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into every unit test program. Restricts the program to the cases
 * whose names match the glob in CMOCKA_TEST_FILTER, if that is set; see
 * `make check`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void case_filter_init(void)
{
    const char *pattern = getenv("CMOCKA_TEST_FILTER");

    if (pattern && *pattern)
        cmocka_set_test_filter(pattern);
}
