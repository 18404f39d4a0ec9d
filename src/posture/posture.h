/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: what must be so before code nobody has read may run. Looked at
 * when the service starts, and whenever somebody asks (GET /api/posture,
 * `glovebox doctor --gate`). A check that fails closes the gate: sessions are
 * neither made nor used until it holds, unless the operator has accepted it
 * by name (accept_gate). Each row says what was found, not what was meant.
 */
#ifndef GLOVEBOX_POSTURE_POSTURE_H
#define GLOVEBOX_POSTURE_POSTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit;
struct auth;
struct conf;
struct policy;
struct warden_link;

enum posture_state {
    POSTURE_OK,
    POSTURE_ACCEPTED, /* fails, and the operator has named it */
    POSTURE_FAILED
};

struct posture_row {
    const char *name; /* static */
    enum posture_state state;
    bool itself; /* what fails refuses by itself, and heals by itself */
    char why[320];
    char fix[200]; /* "" when it holds */
};

#define POSTURE_ROWS 7

/* What is looked at; borrowed. NULL: that row fails. */
struct posture {
    const struct conf *conf;
    struct warden_link *warden;
    uint32_t accepted_walls;
    struct auth *auth;
    struct audit *audit;
    struct policy *policy;
};

void posture_look(const struct posture *p,
                  struct posture_row ret[POSTURE_ROWS]);
/* The first row that fails, or NULL: the gate is open. */
const struct posture_row *posture_closed(
    const struct posture_row list[POSTURE_ROWS]);
/* The first of these that nothing else refuses code for. */
const struct posture_row *posture_barred(
    const struct posture_row list[POSTURE_ROWS]);
const char *posture_state_name(enum posture_state state);

/* ---- names.c: the environment ------------------------------------------- */

/* Does a variable of that name usually hold a secret? */
bool posture_secret_name(const char *name, size_t len);
/* Starts this program anew without such variables, but for those in keep
 * (with commas between). Returns when there are none, or it cannot. */
void posture_clean_environment(const char *keep, char *const *argv);

#endif
