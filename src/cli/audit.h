/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox audit` share. */
#ifndef GLOVEBOX_CLI_AUDIT_H
#define GLOVEBOX_CLI_AUDIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct audit_line;
struct cli;
struct cli_words;

struct cli_audit { /* its flags; borrowed */
    const char *actor, *action, *object, *workspace;
    const char *format, *output, *public_key, *checkpoint;
    int64_t from_ms, to_ms;
    uint64_t limit;
    bool follow;
};

/* audit.c: sleeps a while; false when it is time to leave. */
bool cli_audit_nap(const struct cli *c);

/* audit_line.c: an event as the service wrote it, with its at_ms; texts are
 * borrowed from it. False when it is none. */
bool cli_audit_line(const json_t *event, struct audit_line *ret);

/* audit_export.c, audit_check.c, evidence.c; arg: struct cli_audit */
int cli_audit_export(struct cli *c, const struct cli_words *words, void *arg);
int cli_audit_check(struct cli *c, const char *path,
                    const struct cli_audit *a);
int cli_evidence_show(struct cli *c, const struct cli_words *words, void *arg);

#endif
