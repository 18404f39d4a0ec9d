/* SPDX-License-Identifier: Apache-2.0 */
/* Versions with their commits, as history.c and conversation.c read them. */
#ifndef GLOVEBOX_WORKSPACE_HISTORY_INT_H
#define GLOVEBOX_WORKSPACE_HISTORY_INT_H

#include "workspace/workspace_int.h"

/* Of `versions AS v` and its `commits AS c`. */
#define WORKSPACE_EVENT_COLUMNS                                               \
    WORKSPACE_VERSION_COLUMNS                                                 \
    ", c.id, c.kind, c.author, c.session, c.execution, c.language,"           \
    " c.code_sha256, c.conversation, c.message, c.note, v.from_path,"         \
    " v.change, v.from_version, v.purged"
#define WORKSPACE_EVENT_COLUMN_COUNT (WORKSPACE_FILE_COLUMN_COUNT + 14)

void workspace_event_read(struct store_rows *rows,
                          struct workspace_event *ret);
/* Up to limit of the rows, and whether there was one more. */
int workspace_events_take(struct store_rows *rows, unsigned limit,
                          struct workspace_event **ret,
                          struct page_result *ret_page, struct error *err);

#endif
