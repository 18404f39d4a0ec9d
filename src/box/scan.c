/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a session, as reported by its pid 1. Runs in gloveboxd on the
 * thread that has the turn. The input is hostile: names that break the rules
 * are kept only as skipped, and both the number of replies and the total time
 * are bounded here.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "box/box_int.h"

#define CHANGES_MAX 250000u /* more than a walk of pid 1 may tell */
#define REPLIES_MAX 1500u
#define SCAN_MS 30000u /* all of them */

enum {
    SCAN_SINCE = 0,
    SCAN_GO_ON = 1,
    SCAN_ALL = 2
};

void box_changes_done(struct changes *ch)
{
    free(ch->items);
    buf_done(&ch->paths);
}

const char *box_changes_path(const struct changes *ch, size_t i)
{
    return ch->paths.data + ch->items[i].path;
}

static void add_change(struct changes *ch, const struct init_entry *entry,
                       const char *path)
{
    bool odd = path_fault(path, entry->path_len) != NULL;

    if (entry->kind == INIT_ENTRY_FILE || ch->count >= CHANGES_MAX ||
        entry->path_len > PATH_BYTES_MAX) {
        ch->cut = true;
        return;
    }
    if (ch->count == ch->cap) {
        ch->cap = ch->cap ? ch->cap * 2 : 8;
        ch->items = xrealloc(ch->items, ch->cap * sizeof(*ch->items));
    }
    ch->items[ch->count++] = (struct change){
        .kind = odd ? INIT_ENTRY_SKIPPED : entry->kind,
        .executable = entry->executable != 0,
        .size =
            odd && entry->kind != INIT_ENTRY_SKIPPED ? EILSEQ : entry->size,
        .inode = entry->inode,
        .stored = entry->stored,
        .path = ch->paths.len};
    buf_add(&ch->paths, path, entry->path_len);
    buf_add(&ch->paths, "", 1);
}

static bool read_payload(struct changes *ch, const struct broker_reply *reply)
{
    struct init_entry entry;
    const char *path;
    size_t pos = 0;
    int rc;

    while ((rc = box_broker_entry(reply->payload, reply->payload_len, &pos,
                                  &entry, &path)) > 0)
        add_change(ch, &entry, path);
    return rc == 0;
}

bool box_scan_begin(struct box *box, bool all)
{
    struct broker_request scan = {.type = INIT_SCAN,
                                  .arg = all ? SCAN_ALL : SCAN_SINCE,
                                  .timeout_ms = SCAN_MS};
    struct error err;

    return !box_is_broken(box) && box_broker_begin(box, &scan, &err) == 0;
}

int box_scan_end(struct box *box, char *io, struct changes *ret,
                 struct broker_reply *ret_last)
{
    struct broker_request again = {.type = INIT_SCAN, .arg = SCAN_GO_ON};
    uint64_t deadline = clock_mono_ms() + SCAN_MS;
    struct error err;
    int rc = box_broker_end(box, io, BOX_IO_SIZE, false, ret_last, &err);

    for (unsigned i = 0; rc == 0 && ret_last->errnum == 0; i++) {
        if (!read_payload(ret, ret_last)) {
            box_break(box);
            return -1;
        }
        ret->cut |= ret_last->arg == INIT_SCAN_CUT;
        if (ret_last->arg != INIT_SCAN_MORE)
            return 0;
        if (i + 1 >= REPLIES_MAX || clock_left_ms(deadline) == 0)
            break;
        rc = box_broker_call(box, &again, io, BOX_IO_SIZE, false, ret_last,
                             &err);
    }
    ret->cut = true;
    return -1;
}
