/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a session's shell: working directory, variables, functions,
 * aliases, umask and options survive from one shell execution to the next.
 *
 * Each execution is a bash of its own. It reads `prologue` first (through
 * BASH_ENV), which restores the state from a file and saves it in another
 * when the shell exits. Pid 1 then makes the saved file the state, unless a
 * signal ended the shell: so an execution that was stopped, timed out or ran
 * out of memory leaves the state as it was before.
 *
 * The files are in a folder of the session's private /run: outside of
 * /mnt/data, so never in a workspace, and gone with the sandbox. Code in the
 * session can change them and thereby its own next shell, nothing else. Pid 1
 * never reads them: it only renames and removes.
 *
 * Variables are compared with those at the start of the shell, and only what
 * differs is saved: a variable that the daemon changes later (the address of
 * a proxy) is not replaced by an old value.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define STATE_PARENT "/run/glovebox"
#define STATE_FOLDER STATE_PARENT "/shell"
#define STATE_FILE STATE_FOLDER "/state"
#define NEXT_FILE STATE_FOLDER "/next"       /* saved by the shell that runs */
#define BEFORE_FILE STATE_FOLDER "/before"   /* variables at its start */
#define NOW_FILE STATE_FOLDER "/now"         /* and at its end */
#define OPTIONS_FILE STATE_FOLDER "/options" /* options at its start */
#define CHANGED_FILE STATE_FOLDER "/changed" /* and at its end */
#define MOST "1048576"
#define MOST_PLUS_1 "1048577"
#define PROLOGUE_FD 4 /* closed by the first line of the prologue */
#define PROLOGUE_PATH "/dev/fd/4"

/*
 * Runs before the user's code in the same shell, and again at its exit under
 * whatever options, traps and functions that code has set; hence `builtin`.
 * Names begin with __gb_. The function `trap` lets an EXIT trap of the user
 * run after ours. A subshell saves nothing. Options that end a shell at its
 * first error (errexit, nounset) count for one execution only. The text of
 * the command (BASH_EXECUTION_STRING) is written to no file.
 */
/* clang-format off */
static const char prologue[] =
    "exec 4<&-\n"
    "unset -v BASH_ENV BASH_EXECUTION_STRING\n"
    "if [[ -v __gb_env ]]; then\n"
    "    export BASH_ENV=$__gb_env\n"
    "    unset -v __gb_env\n"
    "    [[ -f $BASH_ENV ]] && . \"$BASH_ENV\"\n"
    "fi\n"
    "shopt -s expand_aliases\n"
    "declare -p >|" BEFORE_FILE "\n"
    "{ shopt -p; set +o; } >|" OPTIONS_FILE "\n"
    "__gb_parse() {\n"
    "    local -n __gb_map=$1\n"
    "    builtin mapfile __gb_lines <\"$2\"\n"
    "    for __gb_l in \"${__gb_lines[@]}\"; do\n"
    "        if [[ $__gb_l == 'declare -'* ]]; then\n"
    "            __gb_n=${__gb_l#declare -* }\n"
    "            __gb_n=${__gb_n%%[=$'\\n']*}\n"
    "        fi\n"
    "        __gb_map[$__gb_n]+=$__gb_l\n"
    "    done\n"
    "}\n"
    "__gb_variables() {\n"
    "    builtin local __gb_n __gb_l\n"
    "    builtin local -a __gb_lines\n"
    "    builtin local -A __gb_old __gb_new\n"
    "    __gb_parse __gb_old " BEFORE_FILE "\n"
    "    __gb_parse __gb_new " NOW_FILE "\n"
    "    for __gb_n in \"${!__gb_new[@]}\"; do\n"
    "        case $__gb_n in\n"
    "        _|__gb_*|BASH|BASHOPTS|BASHPID|BASH_ALIASES|BASH_ARG*) ;;\n"
    "        BASH_CMDS|BASH_COMMAND|BASH_EXECUTION_STRING|BASH_LINENO) ;;\n"
    "        BASH_REMATCH|BASH_SOURCE|BASH_SUBSHELL|BASH_VERS*|COMP_*) ;;\n"
    "        DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|LINENO|OLDPWD|OPT*) ;;\n"
    "        PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL) ;;\n"
    "        SRANDOM|UID) ;;\n"
    "        *)\n"
    "            [[ ${__gb_old[$__gb_n]-} == \"${__gb_new[$__gb_n]}\" ]] ||\n"
    "                builtin printf '%s' \"${__gb_new[$__gb_n]}\" ;;\n"
    "        esac\n"
    "    done\n"
    "    for __gb_n in \"${!__gb_old[@]}\"; do\n"
    "        [[ -v __gb_new[$__gb_n] || $__gb_n == @(_|BASH*) ]] ||\n"
    "            builtin printf 'unset -v %s\\n' \"$__gb_n\"\n"
    "    done\n"
    "}\n"
    "__gb_options() {\n"
    "    builtin local -a __gb_old __gb_new\n"
    "    builtin local -i __gb_i\n"
    "    builtin mapfile __gb_old <" OPTIONS_FILE "\n"
    "    builtin mapfile __gb_new <" CHANGED_FILE "\n"
    "    for __gb_i in \"${!__gb_new[@]}\"; do\n"
    "        [[ ${__gb_new[__gb_i]} == \"${__gb_old[__gb_i]-}\" ]] && continue\n"
    "        case ${__gb_new[__gb_i]} in\n"
    "        *' errexit'*|*' nounset'*|*' noexec'*|*' onecmd'*) ;;\n"
    "        \"$1 \"*) builtin printf '%s' \"${__gb_new[__gb_i]}\" ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "__gb_folders() {\n"
    "    builtin local -i __gb_i\n"
    "    builtin printf 'cd -- %q || printf %s %q >&9\\n' \"$PWD\" \"'%s\\n'\" \\\n"
    "        \"bash: the working directory $PWD is gone; using " SANDBOX_DATA "\"\n"
    "    builtin printf 'OLDPWD=%q\\n' \"${OLDPWD-}\"\n"
    "    for ((__gb_i = ${#DIRSTACK[@]} - 1; __gb_i > 0; __gb_i--)); do\n"
    "        builtin printf 'pushd -n -- %q >/dev/null\\n' \\\n"
    "            \"${DIRSTACK[__gb_i]/#\\~/$HOME}\"\n"
    "    done\n"
    "    builtin umask -p\n"
    "}\n"
    "__gb_save() {\n"
    "    builtin local __gb_status=$? __gb_text\n"
    "    [[ $BASHPID == \"$$\" && -f " NEXT_FILE " && -f " NOW_FILE " &&\n"
    "        -f " CHANGED_FILE " ]] || return \"$__gb_status\"\n"
    "    { builtin shopt -p; builtin set +o; } >|" CHANGED_FILE "\n"
    "    builtin declare -p >|" NOW_FILE "\n"
    "    builtin set +efuvx +o posix\n"
    "    builtin shopt -u nocasematch\n"
    "    builtin trap - DEBUG ERR RETURN\n"
    "    builtin local LC_ALL=C IFS=\n"
    "    {\n"
    "        __gb_options shopt\n"
    "        __gb_variables\n"
    "        __gb_folders\n"
    "        __gb_options set >|" BEFORE_FILE "\n"
    "        builtin unset -f trap __gb_parse __gb_variables __gb_options \\\n"
    "            __gb_folders __gb_save\n"
    "        builtin declare -f\n"
    "        builtin alias -p\n"
    "        builtin mapfile __gb_text <" BEFORE_FILE "\n"
    "        builtin printf '%s' \"${__gb_text[@]}\" '#end'\n"
    "    } >|" NEXT_FILE "\n"
    "    builtin read -r -N " MOST_PLUS_1 " __gb_text <" NEXT_FILE "\n"
    "    if ((${#__gb_text} > " MOST ")); then\n"
    "        __gb_text=\"they exceed " MOST " bytes\"\n"
    "    elif [[ $__gb_text != *'#end' ]]; then\n"
    "        __gb_text=\"no space is left in /run\"\n"
    "    else\n"
    "        return \"$__gb_status\"\n"
    "    fi\n"
    "    builtin printf '%s %s: %s\\n' 'bash: warning: variables, functions' \\\n"
    "        'and the working directory are not kept for the next execution' \\\n"
    "        \"$__gb_text\" >&9\n"
    "    builtin : >|" NEXT_FILE "\n"
    "    return \"$__gb_status\"\n"
    "}\n"
    "trap() {\n"
    "    builtin trap \"$@\" || return\n"
    "    [[ $BASHPID == \"$$\" ]] || return 0\n"
    "    builtin set -- \"$(builtin trap -p EXIT)\"\n"
    "    [[ $1 == *__gb_save* ]] && return 0\n"
    "    [[ $1 ]] && builtin eval \"builtin set $1\"\n"
    "    builtin trap \"{ __gb_save; } 9>&2 2>/dev/null\n"
    "${3-}\" EXIT\n"
    "}\n"
    "trap - EXIT\n"
    "if [[ -s " STATE_FILE " ]]; then\n"
    "    { . " STATE_FILE "; } 9>&2 2>/dev/null\n"
    "fi\n";
/* clang-format on */

/* A link in place of a folder would lead the state's files into the
 * workspace. */
static bool is_folder(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool has_state_folder(void)
{
    return is_folder(STATE_PARENT) && is_folder(STATE_FOLDER);
}

/* A hostile session may have put anything in place of the folder or a file;
 * then this shell has no state. Nothing here blocks. */
static bool make_files(void)
{
    static const char *const files[] = {NEXT_FILE, BEFORE_FILE, NOW_FILE,
                                        OPTIONS_FILE, CHANGED_FILE};

    (void)mkdir(STATE_PARENT, 0755); /* there already, or the next fails */
    if (is_folder(STATE_PARENT))
        (void)mkdir(STATE_FOLDER, 0700);
    if (!has_state_folder())
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        int fd cleanup(fd_close) = -1;

        if (unlink(files[i]) < 0 && errno != ENOENT)
            return false;
        fd = open(files[i],
                  O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return false;
    }
    return true;
}

void shell_state_prepare(void)
{
    int fd cleanup(fd_close) = memfd_create("prologue", MFD_CLOEXEC);
    const char *known = getenv("BASH_ENV");

    /* On failure the shell runs without state, which is better than not. */
    if (fd < 0 || !make_files() ||
        fd_write_all(fd, prologue, sizeof(prologue) - 1) < 0)
        return;
    if (fd == PROLOGUE_FD) {
        (void)fcntl(fd, F_SETFD, 0);
        (void)take_fd(fd);
    } else if (dup3(fd, PROLOGUE_FD, 0) < 0) {
        return;
    }
    if (known)
        (void)setenv("__gb_env", known, 1); /* no memory: it is not read */
    (void)setenv("BASH_ENV", PROLOGUE_PATH, 1);
}

void shell_state_adopt(int wait_status)
{
    struct stat st;

    if (WIFEXITED(wait_status) && has_state_folder() &&
        lstat(NEXT_FILE, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= SHELL_STATE_MAX)
        (void)rename(NEXT_FILE, STATE_FILE); /* fails: the old one stays */
}

void shell_state_forget(void)
{
    if (!has_state_folder())
        return;
    (void)unlink(NEXT_FILE); /* there may be none */
    (void)unlink(STATE_FILE);
}
