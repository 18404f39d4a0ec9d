/* SPDX-License-Identifier: Apache-2.0 */
/* The word after a command, from the command's own table: `sessions list`. */
#include <string.h>

#include "cli/cli_int.h"

static const struct cli_subverb *by_name(const struct cli_subverb *verbs,
                                         size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static const struct cli_subverb *unknown(const struct cli *c,
                                         const struct cli_subverb *verbs,
                                         size_t count, const char *name)
{
    const char *near =
        cli_format_nearest(name, &verbs[0].name, sizeof(*verbs), count);

    if (near)
        cli_usage_error(c, "there is no '%s'; did you mean '%s'?", name, near);
    else
        cli_usage_error(c, "there is no '%s'", name);
    return NULL;
}

/* False after having complained of a flag that is for other verbs. */
static bool flags_fit(const struct cli *c, const struct cli_subverb *verb)
{
    for (size_t i = 0; i < c->given_count; i++)
        if (c->given[i].only &&
            !cli_command_listed(c->given[i].only, verb->name)) {
            cli_usage_error(c, "--%s is not for '%s'", c->given[i].option,
                            verb->name);
            return false;
        }
    return true;
}

/* NULL after having complained. */
static const struct cli_subverb *choose(const struct cli *c,
                                        const struct cli_subverb *verbs,
                                        size_t count,
                                        const struct cli_words *words,
                                        struct cli_words *ret_rest)
{
    const struct cli_subverb *verb = &verbs[0];
    struct cli_words rest = {0};

    if (words->count > 0)
        verb = by_name(verbs, count, words->items[0]);
    if (!verb)
        return unknown(c, verbs, count, words->items[0]);
    for (size_t i = 1; i < words->count; i++)
        rest.items[rest.count++] = words->items[i];
    if (rest.count < verb->least || rest.count > verb->most) {
        if (rest.count > verb->most)
            cli_usage_error(c, "%s: unexpected '%s'", verb->name,
                            rest.items[verb->most]);
        else
            cli_usage_error(c, "%s: something is left out", verb->name);
        return NULL;
    }
    if (!flags_fit(c, verb))
        return NULL;
    *ret_rest = rest;
    return verb;
}

int cli_verb_run(struct cli *c, const struct cli_subverb *verbs, size_t count,
                 const struct cli_words *words, void *arg)
{
    struct cli_words rest;
    const struct cli_subverb *verb = choose(c, verbs, count, words, &rest);

    return verb ? verb->run(c, &rest, arg) : CLI_EXIT_USAGE;
}
