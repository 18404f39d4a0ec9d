/* SPDX-License-Identifier: Apache-2.0 */
/* The quotas by name: the one table. Runs in gloveboxd; constant. */
#include <string.h>

#include "quota/quota_int.h"

#define HOUR_MS 3600000
#define DAY_MS 86400000

#define LESS_SESSIONS                                                         \
    "delete sessions that are no longer needed, or try again later"
#define LATER "try again once the time is over, or ask for more"

const struct quota_def quota_defs[QUOTA_KINDS] = {
    [QUOTA_SESSIONS] = {"live_sessions", SORT_HELD, 0, 5,
                        "%llu sessions are awake already, which is the most",
                        LESS_SESSIONS},
    [QUOTA_EXECUTIONS] = {"executions", SORT_HELD, 0, 1,
                          "%llu executions of this tenant are running or "
                          "waiting, which is the most",
                          "wait for one to finish"},
    [QUOTA_MEMORY] = {"memory_bytes", SORT_HELD, 0, 5,
                      "live sessions of this tenant may have %llu bytes of "
                      "memory together, and this one does not fit",
                      "ask for less memory, or delete sessions that are no "
                      "longer needed"},
    [QUOTA_CREATIONS] = {"creations_per_s", SORT_BUCKET, 0, 1,
                         "more than %llu sessions a second were created",
                         LESS_SESSIONS},
    [QUOTA_RUNS_PER_HOUR] = {"executions_per_hour", SORT_WINDOW, HOUR_MS, 1,
                             "%llu executions were run within an hour, which "
                             "is the most",
                             LATER},
    [QUOTA_CPU] = {"cpu_s_per_hour", SORT_WINDOW, HOUR_MS, 1,
                   "%llu seconds of processor time were used within an hour, "
                   "which is the most",
                   LATER},
    [QUOTA_EGRESS] = {"egress_bytes_per_day", SORT_WINDOW, DAY_MS, 1,
                      "%llu bytes were sent and received within a day, which "
                      "is the most",
                      LATER},
    [QUOTA_OUTPUT] = {"output_tokens_per_hour", SORT_WINDOW, HOUR_MS, 1,
                      "%llu tokens of output were written within an hour, "
                      "which is the most",
                      "print less, or try again once the time is over"},
    [QUOTA_STORAGE] = {"storage_bytes", SORT_LIMIT, 0, 0,
                       "%llu bytes are stored, which is the most",
                       "delete files or workspaces that are no longer "
                       "needed"},
};

enum quota_kind quota_find(const char *name)
{
    enum quota_kind kind = 0;

    while (kind < QUOTA_KINDS && strcmp(quota_defs[kind].name, name) != 0)
        kind++;
    return kind;
}

const char *quota_name(enum quota_kind kind)
{
    return kind < QUOTA_KINDS ? quota_defs[kind].name : QUOTA_LOOP_NAME;
}
