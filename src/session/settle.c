/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the end: which files changed, and what the kernel counted. Runs in
 * gloveboxd on the execution's thread. pid 1 scans while the warden reads the
 * cgroup, so the two cost the time of one.
 */
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"

#define CHANGES_MAX 1000u
#define SCANS_MAX 400u  /* replies of one scan: 100,000 inodes and room */
#define SCAN_MS 5000u   /* all of them */
#define REAP_TRIES 100u /* until the warden has seen the end too */
#define REAP_NS 10000000L

struct change {
    uint16_t kind;
    uint64_t size;
    size_t path; /* offset */
};

struct changes {
    struct change *items;
    size_t count, cap;
    size_t of_kind[INIT_ENTRY_SKIPPED + 1];
    struct buf paths;
    bool truncated;
};

static void changes_done(struct changes *ch)
{
    free(ch->items);
    buf_done(&ch->paths);
}

static void add_change(struct changes *ch, const struct init_entry *entry,
                       const char *path)
{
    struct error ignored; /* a name we cannot carry is left out, and said */

    if (entry->kind < INIT_ENTRY_CREATED || entry->kind > INIT_ENTRY_DELETED ||
        ch->count >= CHANGES_MAX ||
        session_text_path(path, entry->path_len, &ignored) < 0) {
        ch->truncated = true;
        return;
    }
    if (ch->count == ch->cap) {
        ch->cap = ch->cap ? ch->cap * 2 : 8;
        ch->items = xrealloc(ch->items, ch->cap * sizeof(*ch->items));
    }
    ch->items[ch->count++] = (struct change){
        .kind = entry->kind, .size = entry->size, .path = ch->paths.len};
    ch->of_kind[entry->kind]++;
    buf_add(&ch->paths, path, entry->path_len);
    buf_add(&ch->paths, "", 1);
}

static bool read_payload(struct changes *ch, const struct broker_reply *reply)
{
    struct init_entry entry;
    const char *path;
    size_t pos = 0;
    int rc;

    while ((rc = session_broker_entry(reply->payload, reply->payload_len, &pos,
                                      &entry, &path)) > 0)
        add_change(ch, &entry, path);
    return rc == 0;
}

/* The rest of a scan whose first request is already sent. */
static void read_scan(struct collect *c, struct changes *ch)
{
    struct broker_request again = {.type = INIT_SCAN, .arg = 1};
    uint64_t deadline = clock_mono_ms() + SCAN_MS;
    struct broker_reply reply;
    struct error err;
    int rc = session_broker_end(c->box, c->runner->io, SESSION_IO_SIZE, false,
                                &reply, &err);

    for (unsigned i = 0; rc == 0 && reply.errnum == 0; i++) {
        c->facts->scanned = true;
        c->facts->scratch_free_bytes = reply.free_bytes;
        c->facts->scratch_free_inodes = reply.free_inodes;
        if (!read_payload(ch, &reply)) {
            atomic_store(&c->box->broken, true);
            session_box_kill(c->box);
            return;
        }
        if (reply.arg == 0)
            return;
        if (i + 1 >= SCANS_MAX || clock_left_ms(deadline) == 0)
            break;
        rc = session_broker_call(c->box, &again, c->runner->io,
                                 SESSION_IO_SIZE, false, &reply, &err);
    }
    ch->truncated = true;
}

static void store_changes(struct execution *e, struct changes *ch)
{
    size_t at[INIT_ENTRY_SKIPPED + 1] = {0};
    struct exec_file_change *all;
    struct exec_info *info = &e->info;

    at[INIT_ENTRY_MODIFIED] = ch->of_kind[INIT_ENTRY_CREATED];
    at[INIT_ENTRY_DELETED] =
        at[INIT_ENTRY_MODIFIED] + ch->of_kind[INIT_ENTRY_MODIFIED];
    all = ch->count ? xcalloc(ch->count, sizeof(*all)) : NULL;
    pthread_mutex_lock(&e->lock);
    info->files_truncated = ch->truncated;
    if (all) {
        e->change_bytes = ch->count * sizeof(*all) + ch->paths.len;
        e->paths = buf_take(&ch->paths, NULL);
        e->changes = all;
        info->created = all;
        info->created_count = ch->of_kind[INIT_ENTRY_CREATED];
        info->modified = all + at[INIT_ENTRY_MODIFIED];
        info->modified_count = ch->of_kind[INIT_ENTRY_MODIFIED];
        info->deleted = all + at[INIT_ENTRY_DELETED];
        info->deleted_count = ch->of_kind[INIT_ENTRY_DELETED];
        for (size_t i = 0; i < ch->count; i++)
            all[at[ch->items[i].kind]++] =
                (struct exec_file_change){.path = e->paths + ch->items[i].path,
                                          .size = ch->items[i].size};
    }
    pthread_mutex_unlock(&e->lock);
}

/* Its counters only grow while the sandbox lives; a fresh one starts at 0. */
static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void read_usage(struct collect *c)
{
    struct warden_usage *base = &c->box->base;
    struct facts *f = c->facts;
    struct warden_usage now;
    struct error err;

    for (unsigned i = 0; i < REAP_TRIES; i++) {
        if (session_box_usage(c->box, &now, &err) < 0)
            return; /* released under us: the session was deleted */
        /* Each reading starts a new peak. */
        f->peak_memory_bytes =
            MAX(f->peak_memory_bytes, now.memory_peak_bytes);
        if (f->end != END_GONE || !now.alive)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = REAP_NS}, NULL);
    }
    if (f->end == END_GONE) {
        f->wait_status = now.wait_status;
        f->locks = now.locks;
    }
    f->cpu_ms = grown(now.cpu_ns, base->cpu_ns) / 1000000;
    f->oom_kills = grown(now.oom_kills, base->oom_kills);
    f->pids_denied = grown(now.pids_denied, base->pids_denied);
    *base = now;
}

void session_settle(struct collect *c)
{
    struct broker_request scan = {.type = INIT_SCAN};
    struct changes ch cleanup(changes_done) = {0};
    bool scanning = false;
    struct error err;

    if (c->facts->end != END_GONE && !atomic_load(&c->box->broken))
        scanning = session_broker_begin(c->box, &scan, &err) == 0;
    read_usage(c);
    if (!scanning) {
        ch.truncated = c->facts->end != END_UNMADE;
        store_changes(c->e, &ch);
        return;
    }
    read_scan(c, &ch);
    store_changes(c->e, &ch);
}
