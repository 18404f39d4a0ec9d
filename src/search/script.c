/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries extract.py, as it is, in the daemon's read-only data. The daemon
 * never runs it: documents.c sends it into a session.
 */
#include "search/search_int.h"

/* Found along the include path, like a header. */
__asm__(".pushsection .rodata\n"
        ".globl search_script\n"
        ".hidden search_script\n"
        "search_script:\n"
        ".incbin \"search/extract.py\"\n"
        ".byte 0\n"
        ".popsection\n");
