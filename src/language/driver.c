/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries the drivers of persistent helpers, as they are, in the daemon's
 * read-only data. The daemon never runs them: they are sent into sessions.
 */
#include "language/language.h"

#include <string.h>

/* Found along the include path, like headers. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a string, not an expression */
#define CARRY(symbol, file)                                                   \
    __asm__(".pushsection .rodata\n"                                          \
            ".globl " #symbol "\n"                                            \
            ".hidden " #symbol "\n" #symbol ":\n"                             \
            ".incbin \"" file "\"\n"                                          \
            ".byte 0\n"                                                       \
            ".popsection\n");                                                 \
    extern const char symbol[]
/* NOLINTEND(bugprone-macro-parentheses) */

CARRY(language_driver_node, "language/driver/node.js");
CARRY(language_driver_r, "language/driver/r.R");

const char *language_driver(enum exec_language which, size_t *ret_len)
{
    if (which == EXEC_JAVASCRIPT) {
        *ret_len = strlen(language_driver_node);
        return language_driver_node;
    }
    if (which == EXEC_R) {
        *ret_len = strlen(language_driver_r);
        return language_driver_r;
    }
    *ret_len = 0;
    return NULL;
}
