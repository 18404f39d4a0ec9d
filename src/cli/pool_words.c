/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words people script the cloud tool with, as fields of a pool of ours.
 * What cannot be had here is refused with the reason, never ignored.
 */
#include "cli/pool.h"

#include <string.h>
#include <strings.h>

/* What a word comes to: a value of ours, or why it cannot be. */
struct word {
    const char *word, *value, *why;
};

static const struct word container_types[] = {
    {"PythonLTS", "python", NULL},
    {"Shell", "shell", NULL},
    {"NodeLTS", NULL, "there is no runtime for JavaScript"},
    {"CustomContainer", NULL,
     "sessions start from runtime images, not from containers"},
    {NULL, "PythonLTS or Shell", NULL},
};

static const struct word network_statuses[] = {
    {"EgressDisabled", "none", NULL},
    {"EgressEnabled", "open", NULL},
    {NULL, "EgressDisabled or EgressEnabled", NULL},
};

static const struct word lifecycle_types[] = {
    {"Timed", "", NULL},
    {"OnContainerExit", NULL, "sessions end by their cooldown"},
    {NULL, "Timed", NULL},
};

/* False after having complained. said: NULL for nothing. */
static bool translate(const struct cli *c, const char *flag,
                      const struct word *words, const char *said,
                      const char **ret)
{
    const struct word *w = words;

    if (!said)
        return true;
    while (w->word && strcasecmp(w->word, said) != 0)
        w++;
    if (w->word && w->value) {
        *ret = w->value;
        return true;
    }
    if (w->word)
        cli_usage_error(c, "--%s %s cannot be had: %s", flag, w->word, w->why);
    else
        cli_usage_error(c, "--%s wants %s, not '%s'", flag, w->value, said);
    return false;
}

static void set_number(json_t *body, const char *member, uint64_t value)
{
    if (value != POOL_NOT_SAID)
        (void)json_object_set_new(body, member,
                                  json_integer((json_int_t)value));
}

static void set_text(json_t *body, const char *member, const char *value)
{
    if (value)
        (void)json_object_set_new(body, member, json_string(value));
}

json_t *cli_pool_body(const struct cli *c, const struct pool_flags *flags)
{
    const char *kind = NULL, *egress = flags->egress, *ignored = NULL;
    json_t *body;

    if (!translate(c, "container-type", container_types, flags->container_type,
                   &kind) ||
        !translate(c, "network-status", network_statuses,
                   flags->network_status, &egress) ||
        !translate(c, "lifecycle-type", lifecycle_types, flags->lifecycle_type,
                   &ignored))
        return NULL;
    if (flags->packages && strcmp(flags->packages, "on") != 0 &&
        strcmp(flags->packages, "off") != 0) {
        cli_usage_error(c, "--packages wants on or off, not '%s'",
                        flags->packages);
        return NULL;
    }
    body = json_object();
    set_text(body, "kind", kind);
    set_text(body, "runtime", flags->runtime);
    set_text(body, "persistence", flags->persistence);
    set_text(body, "sharing", flags->sharing);
    set_text(body, "egress", egress);
    set_text(body, "egress_allow", flags->egress_allow);
    if (flags->packages)
        (void)json_object_set_new(
            body, "packages",
            json_boolean(strcmp(flags->packages, "on") == 0));
    set_number(body, "max_sessions", flags->max_sessions);
    set_number(body, "cooldown_s", flags->cooldown_s);
    set_number(body, "ready_wanted", flags->ready);
    set_number(body, "memory_bytes", flags->memory_bytes);
    return body;
}
