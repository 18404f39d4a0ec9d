/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: the conditions that must hold before untrusted code may run. They
 * are checked when the service starts and on request (GET /api/posture,
 * `glovebox doctor --gate`). A failed check closes the gate: no session is
 * created or used until the check passes, unless the operator accepts it by
 * name (accept_gate). Each row reports what was found on this host.
 */
#ifndef GLOVEBOX_POSTURE_POSTURE_H
#define GLOVEBOX_POSTURE_POSTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit;
struct auth;
struct conf;
struct error;
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

#define POSTURE_ROWS 8

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

struct posture_wall {
    const char *name; /* static */
    bool stands;
    bool accepted; /* the operator accepts that it is missing */
};

#define POSTURE_WALLS 8

/* Each wall around a session; standing: the warden's bits. */
void posture_walls(const struct posture *p, uint32_t standing,
                   struct posture_wall ret[POSTURE_WALLS]);

/* ---- settings.c: how the service is configured -------------------------- */

struct posture_setting {
    const char *control; /* the scorecard's name for it; static */
    const char *name;    /* static */
    bool ok;
    char found[240];
    const char *advice; /* what to do; "" when ok; static */
};

#define POSTURE_SETTINGS 18

/* Every setting, whether or not it is fine. What cannot be read is not. */
void posture_settings_check(const struct posture *p,
                            struct posture_setting ret[POSTURE_SETTINGS]);

/* ---- names.c: the environment ------------------------------------------- */

/* Does a variable of that name usually hold a secret? */
bool posture_secret_name(const char *name, size_t len);
/* Starts this program anew without such variables, but for those in keep
 * (with commas between). Returns when there are none, or it cannot. */
void posture_clean_environment(const char *keep, char *const *argv);

/* ---- scorecard.c: ten controls, probed ---------------------------------- */

struct store;

struct posture_scorecard {
    int64_t at_ms;
    char by[64]; /* the key that asked */
    char *body;  /* what `glovebox scorecard --json` printed; owned */
};
void posture_scorecard_done(struct posture_scorecard *card);
/* Takes about half a minute. key: of scope admin. ERR_BUSY while another
 * runs. */
int posture_scorecard_run(struct store *store, const char *data_dir,
                          const char *key, const char *by,
                          struct posture_scorecard *ret, struct error *err);
/* Newest first; ret: owned by caller. */
int posture_scorecard_list(struct store *store, unsigned limit,
                           struct posture_scorecard **ret, size_t *ret_count,
                           struct error *err);

#endif
