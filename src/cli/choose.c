/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which service a command uses. This table is the only place that decides
 * it; connect.c finds the facts before and carries out the choice after.
 *
 * A throwaway service ignores the policy, the audit trail and the files of
 * the real one. It is therefore used only when the caller asks for it with
 * --embedded, or when this machine shows no sign of a real service: no
 * address is named, no data directory holds an address, and no data directory
 * exists. An address that does not answer, or whose certificate cannot be
 * verified, is an error.
 */
#include "base/mem.h"
#include "cli/cli_int.h"

#define REFUSE CLI_CHOICE_REFUSE
#define USE CLI_CHOICE_USE
#define EMBED CLI_CHOICE_EMBED
#define START CLI_CHOICE_START

/* Without --embedded: [what the command needs][address][data directory]. */
static const enum cli_choice choices[][CLI_ENDPOINTS][2] = {
    [CLI_NEED_RUNNING] =
        {
            [CLI_ENDPOINT_NONE] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_NAMED] = {USE, USE},
            [CLI_ENDPOINT_ANSWERS] = {USE, USE},
            [CLI_ENDPOINT_SILENT] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_UNTRUSTED] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_HIDDEN] = {REFUSE, REFUSE},
        },
    [CLI_NEED_ANY] =
        {
            [CLI_ENDPOINT_NONE] = {EMBED, REFUSE},
            [CLI_ENDPOINT_NAMED] = {USE, USE},
            [CLI_ENDPOINT_ANSWERS] = {USE, USE},
            [CLI_ENDPOINT_SILENT] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_UNTRUSTED] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_HIDDEN] = {REFUSE, REFUSE},
        },
    /* A service on the data directory keeps its files, its policy and its
     * trail, and the directory's lock keeps a second one from starting. So
     * an address that a killed service left behind is no reason to refuse. */
    [CLI_NEED_DATA] =
        {
            [CLI_ENDPOINT_NONE] = {START, START},
            [CLI_ENDPOINT_NAMED] = {USE, USE},
            [CLI_ENDPOINT_ANSWERS] = {USE, USE},
            [CLI_ENDPOINT_SILENT] = {START, START},
            [CLI_ENDPOINT_UNTRUSTED] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_HIDDEN] = {REFUSE, START},
        },
};

enum cli_choice cli_choose(enum cli_need need, const struct cli_facts *facts)
{
    if (facts->embedded)
        return need == CLI_NEED_ANY ? EMBED : REFUSE;
    return choices[need][facts->endpoint][facts->data_dir];
}
