/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that Tab completes at the prompt: the language's own, and names that
 * the statements of this prompt have used, with their dots ("np.zeros"). The
 * interpreter is not asked: that would be an execution, with its record, its
 * policy and its approval. No I/O; called by shell.c.
 */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "cli/common.h"

#define LEARNED_MAX 5000u
#define NAME_LEN_MAX 128u

struct cli_completion {
    char **learned; /* owned, each once, in the order they were seen */
    size_t count;
};

static const char python_words[] =
    "False None True and as assert async await break class continue def del "
    "elif else except finally for from global if import in is lambda nonlocal "
    "not or pass raise return try while with yield "
    "abs all any bool bytes callable chr dict dir display divmod enumerate "
    "eval exec filter float format frozenset getattr globals hasattr hash "
    "help hex id input int isinstance issubclass iter len list locals map max "
    "min next object open ord pow print property range repr reversed round "
    "set setattr slice sorted str sum super tuple type vars zip "
    "Exception FileNotFoundError IndexError KeyError KeyboardInterrupt "
    "NotImplementedError OSError RuntimeError StopIteration TypeError "
    "ValueError ZeroDivisionError exit quit";

static const char shell_words[] =
    "alias awk bash break case cat cd chmod continue cp cut date declare diff "
    "do done du echo elif else esac eval exec exit export false fi find for "
    "function git grep gzip head history if in jobs kill less local ls make "
    "mkdir mv printf pwd python3 read readonly return rm sed set shift sort "
    "source tail tar tee test then touch tr trap true type umask unset until "
    "wc which while xargs zip";

struct cli_completion *cli_completion_new(void)
{
    return xcalloc(1, sizeof(struct cli_completion));
}

void cli_completion_free(struct cli_completion *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->count; i++)
        free(k->learned[i]);
    free(k->learned);
    free(k);
}

static bool is_listed(const char *list, const char *word, size_t len)
{
    for (const char *p = list; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");

        if (n == len && memcmp(p, word, len) == 0)
            return true;
        p += n;
    }
    return false;
}

static void learn_name(struct cli_completion *k, const char *name, size_t len)
{
    if (len < 2 || len > NAME_LEN_MAX || k->count == LEARNED_MAX ||
        is_listed(python_words, name, len))
        return;
    for (size_t i = 0; i < k->count; i++)
        if (strlen(k->learned[i]) == len &&
            memcmp(k->learned[i], name, len) == 0)
            return;
    k->learned = xrealloc(k->learned, (k->count + 1) * sizeof(*k->learned));
    k->learned[k->count++] = xstrndup(name, len);
}

void cli_completion_learn(struct cli_completion *k, const char *text)
{
    while (*text) {
        size_t len = 0, first = 0;

        if (!isalpha((unsigned char)*text) && *text != '_') {
            text++;
            continue;
        }
        while (isalnum((unsigned char)text[len]) || text[len] == '_' ||
               (text[len] == '.' && (isalpha((unsigned char)text[len + 1]) ||
                                     text[len + 1] == '_'))) {
            if (text[len] == '.' && !first)
                first = len;
            len++;
        }
        if (first) /* "np" as well as "np.zeros" */
            learn_name(k, text, first);
        learn_name(k, text, len);
        text += len;
    }
}

char *cli_completion_match(const struct cli_completion *k, bool python,
                           const char *prefix, size_t n)
{
    size_t len = strlen(prefix);

    for (const char *p = python ? python_words : shell_words; *p;
         p += strspn(p, " ")) {
        size_t word = strcspn(p, " ");

        if (word >= len && memcmp(p, prefix, len) == 0 && n-- == 0)
            return xstrndup(p, word);
        p += word;
    }
    for (size_t i = 0; i < k->count; i++)
        if (strncmp(k->learned[i], prefix, len) == 0 && n-- == 0)
            return xstrdup(k->learned[i]);
    return NULL;
}
