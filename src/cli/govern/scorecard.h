/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scorecard's ten controls. Each is a function that probes the running
 * service the way a client would, in real sessions, and notes what it
 * observed. That answers "does it work?"; "is it configured?" is answered by
 * the settings of GET /api/posture.
 *
 * A policy may hold or deny a probe. Such a probe says nothing about the
 * control, so it is noted as not measured, and the approval it asked for is
 * withdrawn.
 */
#ifndef GLOVEBOX_CLI_SCORECARD_H
#define GLOVEBOX_CLI_SCORECARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/ids.h"

struct cli;
struct error;

#define CLI_SCORE_LINES 16

enum cli_score_state {
    CLI_SCORE_FAILS,
    CLI_SCORE_HOLDS,
    CLI_SCORE_UNMEASURED
};

struct cli_score_line {
    enum cli_score_state state;
    char text[240];
};

/* One control while it is being probed. */
struct cli_score {
    struct cli *c;
    const json_t *posture; /* GET /api/posture, borrowed */
    struct cli_score_line lines[CLI_SCORE_LINES];
    size_t count;
};

/* Notes what was observed; returns holds. */
bool cli_score_note(struct cli_score *s, bool holds, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A request that is expected to be answered with JSON; NULL and a note when
 * it is not, or when policy holds or denies it. Owned by caller. */
json_t *cli_score_ask(struct cli_score *s, const char *method,
                      const char *path, json_t *body);
/* The code of the refusal, "" when it was not refused. As: another key. */
void cli_score_refusal(struct cli_score *s, const char *as, const char *method,
                       const char *path, json_t *body, char ret[32]);
/* A session of its own; false and a note when there is none. */
bool cli_score_session(struct cli_score *s, bool ephemeral, char ret[ID_MAX]);
void cli_score_end(struct cli_score *s, const char *session);
/* The finished execution's JSON, or NULL and a note; owned by caller. */
json_t *cli_score_run(struct cli_score *s, const char *session,
                      const char *language, const char *code, int timeout_s);
/* The last line that a probe printed, parsed; NULL and a note. */
json_t *cli_score_probe(struct cli_score *s, const char *session,
                        const char *code);
/* A row of the gate as a line: good only when it is "ok". */
void cli_score_gate(struct cli_score *s, const char *check);

typedef void cli_score_fn(struct cli_score *s);
cli_score_fn cli_score_isolation, cli_score_ephemeral, cli_score_egress,
    cli_score_secrets, cli_score_identity, cli_score_dependencies,
    cli_score_audit, cli_score_quotas, cli_score_approvals,
    cli_score_deployment;

#endif
