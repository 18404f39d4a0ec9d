/* SPDX-License-Identifier: Apache-2.0 */
/* An upload in parts: what parts.c and parts_send.c share. */
#ifndef GLOVEBOX_CLI_PARTS_H
#define GLOVEBOX_CLI_PARTS_H

#include "base/hash.h"
#include "cli/cli_int.h"

struct cli_parts {
    struct cli *c;
    const struct cli_place *place;
    const struct cli_upload *what;
    int fd;
    uint64_t size, part;
    char id[ID_MAX];
    char *memory;             /* the file that remembers; NULL: none */
    json_t *there;            /* as the service told; NULL: none */
    struct hash_stream *hash; /* of the whole, as far as it was read */
};

/* "/api/uploads/ID" and suffix; owned by caller. */
char *cli_parts_url(const struct cli_parts *p, const char *suffix);
/* Sends what is not there, several parts at once; p->hash has seen all of the
 * file when it returns 0. The first failure stops the others. */
int cli_parts_send(struct cli_parts *p, struct error *err);

#endif
