/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox audit` share. */
#ifndef GLOVEBOX_CLI_AUDIT_H
#define GLOVEBOX_CLI_AUDIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cli;
struct cli_call;
struct cli_words;

struct cli_audit { /* its options; borrowed */
    const char *actor, *action, *object, *workspace;
    const char *format, *output, *public_key, *checkpoint;
    int64_t from_ms, to_ms;
    uint64_t limit;
    bool follow;
};

/* audit.c: waits before the next look for events; false when it is time to
 * leave. */
bool cli_audit_wait(const struct cli *c);

/* audit_export.c: the verb `export`, and `verify EXPORT`. */
int cli_audit_export(struct cli *c, const struct cli_words *words, void *arg);
int cli_audit_check(struct cli *c, const char *path,
                    const struct cli_audit *a);

/* evidence.c: prints the answer as a page. */
int cli_evidence_print(struct cli_call *call);

#endif
