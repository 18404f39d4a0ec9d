/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The languages of executions: one table that the doors, policy, evidence, the
 * command line and the sandbox's caller read. Pure data and lookups; nothing
 * here runs code. docs/LANGUAGES.md describes each for users.
 */
#ifndef GLOVEBOX_LANGUAGE_LANGUAGE_H
#define GLOVEBOX_LANGUAGE_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stored and compared by name; the numbers may change. */
enum exec_language {
    EXEC_PYTHON,
    EXEC_SHELL, /* bash; "bash" is another name for it */
    EXEC_JAVASCRIPT,
    EXEC_R,
    EXEC_C,
    EXEC_GO,
    EXEC_JAVA,
    EXEC_LANGUAGES
};

enum language_how {
    LANGUAGE_KERNEL,   /* cells of the session's Python kernel */
    LANGUAGE_COMMAND,  /* a bash that restores and saves its state */
    LANGUAGE_HELPER,   /* cells of a process that lives between executions */
    LANGUAGE_COMPILED, /* a file that is compiled and run; keeps nothing */
};

struct language {
    const char *name;     /* in the API, policies and evidence */
    const char *title;    /* in sentences */
    const char *suffixes; /* of its files, each between spaces */
    enum language_how how;
    /* HELPER: its number for pid 1, from 1 on. */
    uint32_t helper;
    const char *programs[3]; /* one of these must be in the image */
    const char *package;     /* Debian's, which has it */
    /* For /bin/sh. HELPER: starts the interpreter; descriptor 3 is its
     * channel, 4 its driver. COMPILED: reads the source from descriptor 4,
     * compiles and runs it; LANGUAGE_NOT_COMPILED is the compiler's failure.
     */
    const char *command;
};

/* Exit status of a COMPILED command when the compiler refused the source. */
#define LANGUAGE_NOT_COMPILED 125

const struct language *language_get(enum exec_language which);
/* Every name a client may use, in the order of the enum and then the other
 * names; NULL ends it. language_canonical maps an index of it to a language.
 */
extern const char *const language_names[];
enum exec_language language_canonical(unsigned index);
/* The names without the other names: those that policy and evidence use. */
extern const char *const language_canonical_names[];
/* Exact name or another name; -1: unknown. */
int language_find(const char *name);
/* By the suffix of a file name; -1: none. */
int language_of_file(const char *file);

/* ---- what an image offers ----------------------------------------------- */

/* A set of languages: bit 1 << enum exec_language. */
#define LANGUAGE_BIT(which) (UINT32_C(1) << (which))

/* Looks for the programs below root, the folder of an image. 0 when the folder
 * cannot be read. */
uint32_t language_offered(const char *root);
/* "runtime show" and messages: "python, shell, javascript"; owned by caller.
 */
char *language_list(uint32_t set);

/* ---- driver.c: linked into gloveboxd only ------------------------------- */

/* The driver of a HELPER, text; NULL for others. */
const char *language_driver(enum exec_language which, size_t *ret_len);

#endif
