/* SPDX-License-Identifier: Apache-2.0 */
/* Doctor's rows. */
#ifndef GLOVEBOX_CLI_DOCTOR_H
#define GLOVEBOX_CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

struct cli;

/* ---- rows --------------------------------------------------------------- */

struct cli_check {
    char name[32];
    char state[8]; /* "ok", "warn", "missing" */
    bool required;
    char why[240];
    char fix[240];
};

#define CLI_CHECKS_MAX 96

struct cli_checks {
    struct cli_check rows[CLI_CHECKS_MAX];
    size_t count;
};

/* One `name\tstate\trequired\twhy\tfix` line of the warden's; false when it is
 * not one. */
bool cli_checks_line(struct cli_checks *k, const char *line, size_t len);
void cli_checks_add(struct cli_checks *k, const char *name, const char *state,
                    bool required, const char *why, const char *fix);
/* What this side can see: programs, images, user, service, disk. */
void cli_checks_host(struct cli *c, struct cli_checks *k);

#endif
