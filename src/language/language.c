/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of languages. Runs in gloveboxd and glovebox. A new language is a
 * value of the enum, a row here and, for a HELPER, a driver.
 */
#include "language/language.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

/* The source goes into a folder of its own in /tmp, so that the compiler names
 * the file as a programmer would; the program runs in /mnt/data. What an
 * earlier program that was killed left there is removed first. */
#define IN_FOLDER(file, compile, run)                                         \
    "rm -rf /tmp/.glovebox-code.*; "                                          \
    "d=$(mktemp -d /tmp/.glovebox-code.XXXXXX) && cat <&4 >\"$d/" file        \
    "\" || exit 126; trap 'rm -rf \"$d\"' EXIT; exec 4<&-; "                  \
    "(cd \"$d\" && " compile ") || exit 125; " run

static const struct language table[EXEC_LANGUAGES] = {
    [EXEC_PYTHON] = {.name = "python",
                     .title = "Python",
                     .suffixes = " .py .ipynb ",
                     .how = LANGUAGE_KERNEL,
                     .programs = {"python3"},
                     .package = "python3"},
    [EXEC_SHELL] = {.name = "shell",
                    .title = "the shell",
                    .suffixes = " .sh .bash ",
                    .how = LANGUAGE_COMMAND,
                    .programs = {"bash", "sh"},
                    .package = "bash"},
    [EXEC_JAVASCRIPT] =
        {.name = "javascript",
         .title = "JavaScript",
         .suffixes = " .js .mjs .cjs ",
         .how = LANGUAGE_HELPER,
         .helper = 1,
         .programs = {"node", "nodejs"},
         .package = "nodejs",
         /* The parser that Node carries is one of its internals. */
         .command = "n=$(command -v node || command -v nodejs) || exit 127; "
                    "exec \"$n\" --no-warnings --expose-internals -e '"
                    "require(\"vm\").runInThisContext("
                    "require(\"fs\").readFileSync(4, \"utf8\"), "
                    "{filename: \"glovebox-driver\"})(require)'"},
    [EXEC_R] = {.name = "r",
                .title = "R",
                .suffixes = " .R .r ",
                .how = LANGUAGE_HELPER,
                .helper = 2,
                .programs = {"R"},
                .package = "r-base-core",
                .command = "exec R --no-echo --no-restore --no-save "
                           "--no-readline -e 'source(\"/dev/fd/4\", "
                           "keep.source = FALSE)'"},
    [EXEC_C] = {.name = "c",
                .title = "C",
                .suffixes = " .c ",
                .how = LANGUAGE_COMPILED,
                .programs = {"gcc", "cc", "clang"},
                .package = "gcc and libc6-dev",
                .command =
                    IN_FOLDER("main.c",
                              "$(command -v gcc || command -v cc || command "
                              "-v clang) -std=gnu17 -g -O1 -Wall -o main "
                              "main.c -lm",
                              "\"$d/main\"")},
    [EXEC_GO] = {.name = "go",
                 .title = "Go",
                 .suffixes = " .go ",
                 .how = LANGUAGE_COMPILED,
                 .programs = {"go"},
                 .package = "golang-go",
                 .command = IN_FOLDER(
                     "main.go",
                     "GOCACHE=${GOCACHE:-$HOME/.cache/go-build} GOFLAGS=-mod="
                     "mod GO111MODULE=${GO111MODULE:-auto} GOTELEMETRY=off "
                     "go build -o main main.go",
                     "\"$d/main\"")},
    [EXEC_JAVA] = {.name = "java",
                   .title = "Java",
                   .suffixes = " .java ",
                   .how = LANGUAGE_COMPILED,
                   .programs = {"javac"},
                   .package = "default-jdk-headless",
                   /* Any class may hold main, so the file has no class's name
                    * and javac writes every class; the one with main runs. */
                   .command = IN_FOLDER(
                       "Main.java",
                       "sed 's/^\\([ \\t]*\\)public\\([ \\t][ \\t]*\\(final[ "
                       "\\t][ \\t]*\\|abstract[ \\t][ \\t]*\\)*\\(class\\|"
                       "interface\\|enum\\|record\\)[ \\t]\\)/\\1      \\2/' "
                       "Main.java >M.tmp && mv M.tmp Main.java && "
                       "javac -g -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 "
                       "-d classes Main.java",
                       "m=$(cd \"$d/classes\" && grep -rl 'main' --include="
                       "'*.class' . | sed 's#^\\./##;s#\\.class$##' | while "
                       "read -r k; do javap -cp . -public \"$k\" 2>/dev/null "
                       "| grep -q 'static.* void main(' && { echo \"$k\"; "
                       "break; }; done); "
                       "java -XX:+UseSerialGC -cp \"$d/classes\" "
                       "\"${m:-Main}\"")},
};

const char *const language_names[] = {
    "python", "shell", "javascript", "r", "c", "go", "java", "bash", NULL};

const char *const language_canonical_names[] = {
    "python", "shell", "javascript", "r", "c", "go", "java", NULL};

const struct language *language_get(enum exec_language which)
{
    return &table[which < EXEC_LANGUAGES ? which : EXEC_PYTHON];
}

enum exec_language language_canonical(unsigned index)
{
    return index < EXEC_LANGUAGES ? (enum exec_language)index : EXEC_SHELL;
}

int language_find(const char *name)
{
    for (unsigned i = 0; language_names[i]; i++)
        if (strcmp(language_names[i], name) == 0)
            return (int)language_canonical(i);
    return -1;
}

int language_of_file(const char *file)
{
    const char *dot = file ? strrchr(file, '.') : NULL;

    if (!dot || strchr(dot, '/') || strchr(dot, ' '))
        return -1;
    for (unsigned i = 0; i < EXEC_LANGUAGES; i++) {
        const char *at = strstr(table[i].suffixes, dot);

        while (at && (at[-1] != ' ' || at[strlen(dot)] != ' '))
            at = strstr(at + 1, dot);
        if (at)
            return (int)i;
    }
    return -1;
}

/* ---- what an image offers ----------------------------------------------- */

/* Links in the image lead within the image. */
static bool is_program(int root, const char *folder, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT};
    char path[64];
    struct stat st;
    int fd cleanup(fd_close) = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_mode & 0111;
}

static bool has_program(int root, const char *name)
{
    static const char *const folders[] = {"usr/local/bin", "usr/bin", "bin"};

    for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
        if (is_program(root, folders[i], name))
            return true;
    return false;
}

uint32_t language_offered(const char *root)
{
    int fd cleanup(fd_close) = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    uint32_t set = 0;

    for (unsigned i = 0; fd >= 0 && i < EXEC_LANGUAGES; i++)
        for (size_t k = 0; k < ARRAY_SIZE(table[i].programs); k++)
            if (table[i].programs[k] && has_program(fd, table[i].programs[k]))
                set |= LANGUAGE_BIT(i);
    return set;
}

char *language_list(uint32_t set)
{
    struct buf out = {0};
    size_t len;

    for (unsigned i = 0; i < EXEC_LANGUAGES; i++)
        if (set & LANGUAGE_BIT(i))
            buf_addf(&out, "%s%s", out.len ? ", " : "", table[i].name);
    return out.len ? buf_take(&out, &len) : xstrdup("none");
}
