/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of evidence/ share: body.c makes JSON of a run, evidence.c
 * queues it and writes it when audit's thread writes events, read.c finds it.
 */
#ifndef GLOVEBOX_EVIDENCE_EVIDENCE_INT_H
#define GLOVEBOX_EVIDENCE_EVIDENCE_INT_H

#include "audit/audit.h"
#include "base/thread.h"
#include "evidence/evidence.h"
#include "store/store.h"

#define EVIDENCE_QUEUE_MAX 4096u
#define EVIDENCE_QUEUE_BYTES ((size_t)64 << 20)

struct evidence_waiting {
    struct evidence_waiting *next;
    char execution[ID_MAX], session[ID_MAX], workspace[ID_MAX];
    char tenant[64], pool[64], actor[ID_MAX], outcome[32];
    char code_sha256[65];
    int64_t at_ms;
    char *body, *code; /* owned; code NULL: not kept */
    size_t bytes;
};

struct evidence {
    struct evidence_settings settings;
    struct store *store;
    struct audit *audit;

    struct mutex lock; /* around what follows, never across I/O */
    struct cond written;
    struct evidence_waiting *first, **end;
    size_t count, bytes;
    size_t aboard;     /* of the first, in the transaction that is written */
    uint64_t dropped;  /* and not told yet */
    unsigned failures; /* in a row */
    uint64_t passes;   /* writes tried, well or not */
    uint64_t sweep_ms; /* when old ones were looked for; 0: not yet */
};

/* body.c: everything but the code's text. */
void evidence_body(const struct evidence_run *run, const char *code_sha256,
                   bool code_kept, size_t output_max, struct buf *out);

#endif
