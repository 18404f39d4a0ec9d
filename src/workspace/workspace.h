/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product, second half: durable, versioned trees of files. Doors and
 * sessions call these functions and nothing below them.
 *
 *   workspace   a tree, its members, its quota and its rules
 *   commit      one atomic set of changes, numbered within the workspace
 *   file        an identity that survives overwriting and renaming
 *   version     a file as of a commit; never changes
 *   blob        its bytes (blob/blob.h), stored before anything refers to it
 *
 * Every call names its actor. What the actor may not see is answered exactly
 * as an unknown id (ERR_NOT_FOUND, I3), with the same work; what it may see
 * but not do, with ERR_FORBIDDEN. A call that changes something is one
 * transaction with its audit event, on disk when it returns (D1). Any thread
 * may call. Strings in results are owned by the result and freed with it.
 *
 * Paths follow F5 (base/path.h): relative, UTF-8, no control characters, no
 * empty, "." or ".." part, 1024 bytes, 255 a part, 32 deep.
 */
#ifndef GLOVEBOX_WORKSPACE_WORKSPACE_H
#define GLOVEBOX_WORKSPACE_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/ids.h"
#include "base/page.h"
#include "blob/blob.h"
#include "govern/govern.h"
#include "tree/tree.h"
#include "upkeep/upkeep.h"

struct core;
struct error;
struct store;
struct store_tx;
struct workspaces;

#define WORKSPACE_NAME_MAX 128
#define WORKSPACE_LIST_MAX 1000u

/* ---- the manager ------------------------------------------------------- */

/* 0 in a limit: none. */
struct workspaces_settings {
    const char *data_dir;
    uint64_t workspace_quota_bytes; /* of all kept versions of one */
    uint64_t tenant_quota_bytes;
    uint64_t tenant_workspaces;
    uint32_t restore_window_s; /* deleted until purged */
    uint32_t unnamed_days;    /* without a change until one that was made for a
                                 session and never named is deleted; 0: never */
    uint32_t collect_every_s; /* the collector's round; 0: no thread */
    uint64_t scrub_bytes_per_s;
    const char *backup_dir, *backup_key_file; /* as upkeep_settings; borrowed
                                                 until open returns */
    uint64_t backup_free_bytes;
    uint64_t file_bytes; /* largest file by parts */
};

/* Starts the collector and the scrubber. core: its members are borrowed until
 * close. Without policy and approvals (unit tests) everything is allowed,
 * without quotas no tenant has limits of its own. */
int workspaces_open(const struct workspaces_settings *settings,
                    const struct core *core, struct workspaces **ret,
                    struct error *err);
void workspaces_close(struct workspaces *w); /* accepts NULL */
/* For blob_begin: the owner tag of the workspace's tenant. Checks no
 * permission. */
int workspace_blob_owner(struct workspaces *w, const char *id,
                         char ret[BLOB_OWNER], struct error *err);
/* May the caller write to the workspace? The same owner tag, if so. For use
 * before a body is read; a commit checks again. */
int workspace_check_write(struct workspaces *w, const struct actor *who,
                          const char *id, char ret[BLOB_OWNER],
                          struct error *err);
/* False once a sync of the store or of the blobs failed (D4).
 */
bool workspaces_writable(struct workspaces *w);
/* Does the database answer? As store_ready. */
int workspaces_reachable(struct workspaces *w, struct error *err);
/* fn is called at the start of each round of the collector: it removes what is
 * over its time elsewhere, and adds how much that was. NULL: no longer; it is
 * not running when this returns. */
typedef int workspaces_expire_fn(void *ctx, uint64_t *ret_removed,
                                 struct error *err);
void workspaces_on_expire(struct workspaces *w, workspaces_expire_fn *fn,
                          void *ctx);
/* Is the workspace of this id, or one that this session used or was made with,
 * under legal hold? Each may be "". 1, 0 or -code. */
int workspace_held(struct store_tx *tx, const char *workspace,
                   const char *session, struct error *err);
/* fn is called after every commit, on the committing thread; must be quick.
 * One listener: the search index. */
void workspaces_on_commit(struct workspaces *w, void (*fn)(void *ctx),
                          void *ctx);
/* How many there were since the start: has anything changed since? */
uint64_t workspaces_commits(struct workspaces *w);

/* ---- workspaces.c, members.c ------------------------------- */

/*
 * SQL: is `workspaces AS w` one of those an actor is bound to, by itself or
 * as the workspace of a session it is bound to? The arguments are the
 * parameters that hold its tenant and, as WORKSPACE_BOUNDS gives them ("tt"),
 * the two lists. Ids are of one length, so that one is found in a list only
 * where it stands.
 */
#define WORKSPACE_WITHIN_SQL(tenant, workspaces, sessions)                    \
    "(" workspaces " = '' OR replace(" workspaces                             \
    ", w.id, '') <> " workspaces ") AND (" sessions                           \
    " = '' OR EXISTS (SELECT 1 FROM sessions AS se"                           \
    " WHERE se.workspace = w.id AND se.tenant = " tenant                      \
    " AND replace(" sessions ", se.id, '') <> " sessions "))"
#define WORKSPACE_BOUNDS(who)                                                 \
    actor_bound(who, ACTOR_WORKSPACES), actor_bound(who, ACTOR_SESSIONS)

enum workspace_role {
    ROLE_NONE,
    ROLE_VIEWER, /* reads */
    ROLE_EDITOR, /* and writes, locks, shares */
    ROLE_OWNER,  /* and members, rules, transfer, delete, break locks */
};

const char *workspace_role_name(enum workspace_role role);
/* ROLE_NONE when there is no such name. */
enum workspace_role workspace_role_parse(const char *name);

struct workspace_info {
    char id[ID_MAX];
    char tenant[64];
    char name[WORKSPACE_NAME_MAX + 4];
    char owner[ID_MAX];
    enum workspace_role role; /* the asking actor's */
    int64_t created_at_ms, updated_at_ms;
    int64_t deleted_at_ms, purge_at_ms; /* 0: not deleted */
    int64_t head;                       /* seq of the last commit, 0: none */
    char head_commit[ID_MAX];           /* "" : none */
    uint64_t files, bytes;              /* at the head */
    uint64_t stored_bytes;              /* of all kept versions */
    uint64_t quota_bytes;               /* in force; 0: none */
    uint32_t keep_versions, keep_days;  /* 0: all, forever */
    bool legal_hold;
    bool intelligence;     /* its files are searched by meaning, too */
    bool made_for_session; /* with the session, not by a client */
};

struct workspace_spec {
    const char *name;      /* NULL: "" */
    const char *made_for;  /* a session's id, "library", or NULL */
    const char *id;        /* chosen by the caller (ids_make "ws"), or NULL */
    bool private_to_owner; /* else "*" becomes an editor: the whole tenant */
};

/* The maker becomes its owner. */
int workspace_create(struct workspaces *w, const struct actor *who,
                     const struct workspace_spec *spec,
                     struct workspace_info *ret, struct error *err);
/* The same within a transaction of the caller's (a session and its workspace
 * are made together). */
int workspace_create_in(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who,
                        const struct workspace_spec *spec,
                        struct workspace_info *ret, struct error *err);
int workspace_get(struct workspaces *w, const struct actor *who,
                  const char *id, struct workspace_info *ret,
                  struct error *err);
/* The workspaces in which the actor has a role, newest first; page->after: an
 * id. deleted: only those waiting to be purged. ret: owned by caller, one
 * block. */
int workspace_list(struct workspaces *w, const struct actor *who, bool deleted,
                   const struct page *page, struct workspace_info **ret,
                   struct page_result *ret_page, struct error *err);

enum workspace_switch {
    SWITCH_LEAVE, /* as it is */
    SWITCH_ON,
    SWITCH_OFF,
};

struct workspace_patch { /* NULL, -1: leave alone */
    const char *name;
    int64_t quota_bytes; /* admins only */
    int64_t keep_versions, keep_days;
    int legal_hold; /* admins only */
    enum workspace_switch intelligence;
};
int workspace_patch(struct workspaces *w, const struct actor *who,
                    const char *id, const struct workspace_patch *patch,
                    struct workspace_info *ret, struct error *err);
/* Gone from every answer but the list of deleted ones; purged after the
 * window unless undeleted. ERR_CONFLICT under legal hold. */
int workspace_delete(struct workspaces *w, const struct actor *who,
                     const char *id, struct error *err);
int workspace_undelete(struct workspaces *w, const struct actor *who,
                       const char *id, struct workspace_info *ret,
                       struct error *err);
/* Gives up for good, and frees at once, what was deleted or superseded: files
 * at or below the path ("": all of them) lose every version but the current
 * one. A deleted workspace goes altogether. For owners; ERR_CONFLICT under
 * legal hold. */
int workspace_purge_now(struct workspaces *w, const struct actor *who,
                        const char *id, const char *path,
                        struct workspace_collected *ret, struct error *err);
/* Ephemeral sessions: gone at once, rows, names and (if nobody else has
 * them) bytes. The audit trail keeps only that it happened. */
int workspace_destroy(struct workspaces *w, const struct actor *who,
                      const char *id, struct error *err);

struct workspace_member {
    char principal[ID_MAX]; /* key_… or "*" */
    enum workspace_role role;
    int64_t added_at_ms;
    char added_by[ID_MAX];
};
int workspace_members(struct workspaces *w, const struct actor *who,
                      const char *id, struct workspace_member **ret,
                      size_t *ret_count, struct error *err);
/* ROLE_NONE removes. The owner's own entry changes only by a transfer. */
int workspace_member_set(struct workspaces *w, const struct actor *who,
                         const char *id, const char *principal,
                         enum workspace_role role, struct error *err);
/* The workspace that was made for a session goes with it: the whole tenant is
 * its editor, or has no role. One with another owner by now, and any other, is
 * left as it is. In the caller's transaction, which has asked whether it may.
 */
int workspace_member_follow(struct workspaces *w, struct store_tx *tx,
                            const struct actor *who, const char *id,
                            const char *made_for, const char *owner,
                            bool whole_tenant, struct error *err);

/* Direct: `to` is a key of the same tenant (checked by the door) or, for an
 * admin, of any; to_tenant is that key's. The former owner stays an editor. */
int workspace_transfer(struct workspaces *w, const struct actor *who,
                       const char *id, const char *to, const char *to_tenant,
                       struct workspace_info *ret, struct error *err);
/* By token: offered by the owner, claimed once by any other key within 72 h.
 * ret_token: 65 bytes, shown once. */
struct workspace_offer {
    char id[ID_MAX]; /* xfer_… */
    char offered_by[ID_MAX];
    int64_t created_at_ms, expires_at_ms;
};
int workspace_offer(struct workspaces *w, const struct actor *who,
                    const char *id, uint32_t ttl_s,
                    struct workspace_offer *ret, char ret_token[65],
                    struct error *err);
int workspace_offers(struct workspaces *w, const struct actor *who,
                     const char *id, struct workspace_offer **ret,
                     size_t *ret_count, struct error *err);
int workspace_offer_revoke(struct workspaces *w, const struct actor *who,
                           const char *id, const char *offer,
                           struct error *err);
int workspace_claim(struct workspaces *w, const struct actor *who,
                    const char *token, struct workspace_info *ret,
                    struct error *err);

struct workspace_usage {
    uint64_t workspaces, max_workspaces;
    uint64_t stored_bytes, quota_bytes; /* of the tenant; 0: no quota */
};
int workspace_usage(struct workspaces *w, const struct actor *who,
                    struct workspace_usage *ret, struct error *err);
/* Takes room for the image of a session (session/image.c) from the tenant's
 * quota, in the transaction that stores it. ERR_SPACE. */
struct store_tx;
int workspace_storage_take(struct workspaces *w, struct store_tx *tx,
                           const char *tenant, const char *session,
                           uint64_t bytes, struct error *err);
/* The same for what is only added: text of conversations (chat/). What went
 * again is counted by the store. */
int workspace_storage_add(struct workspaces *w, struct store_tx *tx,
                          const char *tenant, uint64_t bytes,
                          struct error *err);
/* How many bytes the actor's next commit may add, by the quotas of the
 * workspace (id NULL: of one that is still to be made) and of its tenant.
 * UINT64_MAX: there is no quota. May tell less than there is, but not less
 * than `want` where that fits. */
int workspace_room(struct workspaces *w, const struct actor *who,
                   const char *id, uint64_t want, uint64_t *ret,
                   struct error *err);

/* ---- commit.c: the one way a tree changes ------------------------------ */

/* The changes of a session describe its own tree: a folder where it puts a
 * file, or a file where it needs a folder, is gone. For any other author that
 * is ERR_CONFLICT, unless the set removed it before. */
enum workspace_change_kind {
    CHANGE_PUT,    /* the file at path has these bytes now */
    CHANGE_REMOVE, /* what is at path, file or folder, is gone */
    CHANGE_CLEAR,  /* what was at or below path is gone, except what later
                      changes of the same set put there; "" is everything */
    CHANGE_MOVE,   /* from -> path, file or folder, ids kept; a file at
                      path is replaced by a file, else ERR_CONFLICT */
    CHANGE_COPY,   /* from -> path, new ids; as MOVE otherwise */
};

struct workspace_change {
    enum workspace_change_kind kind;
    const char *path;
    const char *from;   /* MOVE, COPY */
    const char *sha256; /* PUT: a blob that is there and pinned */
    bool unstored;      /* PUT of a session: that blob is not there, because
                           there is no room for it: FATE_QUOTA, unless the
                           workspace has these bytes at the head */
    uint64_t size;
    bool executable;
    bool as_was;      /* PUT over a file: as executable as that one is */
    const char *mime; /* PUT; NULL: by the name */
    /* PUT: where it comes from, for history; NULL: nowhere */
    const char *from_version;
    const char *file_id; /* PUT: the identity it must have (a restore) */
};

struct commit_policy_result;

struct workspace_commit_spec {
    const char *kind; /* "execution", "upload", "delete", "move", "copy",
                         "restore", "share" */
    /* The head the author had seen. A path that others (another session, or
     * no session) changed later is a conflict: with `session` set the
     * change is kept beside it under a conflict name, and a removal is not
     * done; without, unless if_* say so, changes simply apply. */
    int64_t base;
    const char *session, *execution, *language;
    int64_t fence; /* under which this node has the session; 0: not leased */
    const char *code_sha256; /* pinned blob of the code, or NULL */
    const char *conversation, *message, *note;
    const char *action; /* of the audit event; NULL: "commit" */
    const struct workspace_change *changes;
    size_t count;
    /* Locks: a path under someone else's lock is refused unless a token
     * here opens it or the lock was taken for this session. With `session`
     * set only that path is refused and the rest goes on; else the whole. */
    const char *const *lock_tokens;
    size_t lock_count;
    /* Of the first change's path. */
    const char *if_match; /* a version id, an ETag (sha256), or "*" */
    bool if_none_match;   /* must not exist: ERR_PRECONDITION */
    /* Policy has been asked by the caller, or has nothing to say: code wrote
     * it, or it was here before. Else it is asked about each PUT, and in the
     * transaction about what is copied, moved or restored. */
    bool governed;
    /* Of govern.c; NULL: files that need approval are refused. */
    struct commit_policy_result *policy;
};

struct workspace_file {
    char file[ID_MAX];
    char version[ID_MAX];
    int64_t number; /* of the version: 1, 2, … */
    int64_t seq;    /* of its commit */
    char *path;     /* owned */
    char sha256[BLOB_NAME];
    uint64_t size;
    char mime[96];
    bool executable;
    int64_t modified_at_ms;
};

enum workspace_fate {
    FATE_DONE,
    FATE_SAME,     /* the bytes were there already: no version made */
    FATE_CONFLICT, /* kept beside: file.path is the conflict name */
    FATE_KEPT,     /* a removal not done: others changed the file since */
    FATE_LOCKED,   /* refused: holder, lock_expires_at_ms */
    FATE_QUOTA,    /* session commits: no room; other paths went in */
};

/* The result for each path; a folder's change counts once for each file. */
struct workspace_result {
    enum workspace_fate fate;
    char change[16]; /* created, modified, deleted, renamed, copied,
                        restored */
    char *wanted;    /* the path asked for, owned; "" : as file.path */
    char *from;      /* renamed, copied: from where, owned; or "" */
    struct workspace_file file;
    char holder[ID_MAX];
    int64_t lock_expires_at_ms;
};

struct workspace_commit {
    char id[ID_MAX]; /* "" when nothing changed: no commit was made */
    int64_t seq;     /* the head after it, either way */
    int64_t at_ms;
    struct workspace_result *results;
    size_t count;
};

int workspace_commit(struct workspaces *w, const struct actor *who,
                     const char *id, const struct workspace_commit_spec *spec,
                     struct workspace_commit *ret, struct error *err);
void workspace_commit_done(struct workspace_commit *c);

/* ---- files.c, history.c, restore.c, diff.c ----------------------------- */

void workspace_file_done(struct workspace_file *f);
void workspace_files_free(struct workspace_file *files, size_t count);

/* version: NULL for the head's, or a version id of that path's file. */
int workspace_file_get(struct workspaces *w, const struct actor *who,
                       const char *id, const char *path, const char *version,
                       struct workspace_file *ret, struct error *err);
/* By its own id, whatever workspace it is in (ret_workspace: ID_MAX). */
int workspace_file_find(struct workspaces *w, const struct actor *who,
                        const char *file_id, const char *version,
                        struct workspace_file *ret, char *ret_workspace,
                        struct error *err);
struct workspace_files_spec {
    const char *prefix; /* any start of a path; NULL: all */
    int64_t at;         /* as of this commit; 0: the head */
    /* Only entries directly below prefix; a folder is one entry: its path with
     * "/" at its end, file "". */
    bool level;
    unsigned limit;    /* 0: WORKSPACE_LIST_MAX */
    const char *after; /* path of the last entry before, or NULL */
};
/* In byte order of path. */
int workspace_files_list(struct workspaces *w, const struct actor *who,
                         const char *id,
                         const struct workspace_files_spec *spec,
                         struct workspace_file **ret,
                         struct page_result *ret_page, struct error *err);

/* A commit's id by its number, of a workspace the caller may
 * see; 0 and
 * "" when there is none. */
int workspace_commit_id(struct workspaces *w, const char *id, int64_t seq,
                        char ret[ID_MAX], struct error *err);
/* A commit's number in its workspace, by its id. */
int workspace_commit_number(struct workspaces *w, const struct actor *who,
                            const char *id, const char *commit, int64_t *ret,
                            struct error *err);

struct workspace_event {
    char commit[ID_MAX];
    int64_t seq, at_ms;
    char kind[16], author[ID_MAX], session[ID_MAX], execution[ID_MAX];
    char language[16], code_sha256[BLOB_NAME];
    char *conversation, *message, *note, *from_path; /* owned */
    char change[16], from_version[ID_MAX];
    bool purged;                /* its bytes were given up by retention */
    struct workspace_file file; /* sha256 "" for a deletion */
};
void workspace_events_free(struct workspace_event *events, size_t count);

struct workspace_history_spec {
    const char *path;    /* NULL: all */
    const char *file_id; /* NULL: by path */
    int64_t before_seq;  /* page: older than this; 0: the newest */
    const char *after;   /* page: a version id to go on after, or NULL */
    unsigned limit;
};
/* Newest first. */
int workspace_history(struct workspaces *w, const struct actor *who,
                      const char *id,
                      const struct workspace_history_spec *spec,
                      struct workspace_event **ret,
                      struct page_result *ret_page, struct error *err);
/* One version with its commit; ret_base: the commit id its author had seen
 * (what it could have read), ID_MAX, "" for none. */
int workspace_provenance(struct workspaces *w, const struct actor *who,
                         const char *version, struct workspace_event *ret,
                         char *ret_workspace, char *ret_base,
                         struct error *err);
void workspace_event_done(struct workspace_event *e);
struct workspace_conversation_info {
    char *id; /* chosen by clients; owned */
    int64_t first_at_ms, last_at_ms;
    uint64_t messages, executions, files, workspaces; /* how many */
};
void workspace_conversations_free(struct workspace_conversation_info *list,
                                  size_t count);
struct workspace_conversation_query {
    const char *part; /* of its id; NULL: any */
    const char *only; /* this one; NULL: all */
    /* Those after this place of the list; INT64_MAX: from its beginning. */
    int64_t at_ms;
    const char *after;
    unsigned limit;
};
/* The conversations that changed files in workspaces the actor sees, the most
 * recent first, without those that chat/ keeps for the actor. */
int workspace_conversations(struct workspaces *w, const struct actor *who,
                            const struct workspace_conversation_query *query,
                            struct workspace_conversation_info **ret,
                            struct page_result *ret_page, struct error *err);
/* Every version a conversation caused, oldest first, in all workspaces the
 * actor sees; page->after: a version id. ret_workspaces: one id each,
 * ID_MAX apart, owned. */
int workspace_conversation(struct workspaces *w, const struct actor *who,
                           const char *conversation, const struct page *page,
                           struct workspace_event **ret, char **ret_workspaces,
                           struct page_result *ret_page, struct error *err);

/* Bytes of a version, verified; ret_fd owned by caller. who: whom policy
 * must let fetch it; NULL where it does not leave (a session's own sandbox)
 * or has been asked about. */
int workspace_file_open(struct workspaces *w, const struct actor *who,
                        const struct workspace_file *f, int *ret_fd,
                        struct error *err);

struct workspace_restore_spec {
    const char *commit;  /* to its state: a file, a folder or everything */
    const char *version; /* or to this version of a file */
    const char *path;    /* NULL: everything (with commit) */
};
/* Itself a commit. */
int workspace_restore(struct workspaces *w, const struct actor *who,
                      const char *id,
                      const struct workspace_restore_spec *spec,
                      const char *const *lock_tokens, size_t lock_count,
                      struct workspace_commit *ret, struct error *err);

/* Takes back what a session changed after a commit: each path it touched is as
 * it was before its first change. A path that others changed after it stays as
 * it is. Itself a commit. */
#define WORKSPACE_KEPT_MAX 100u
struct workspace_undo_spec {
    const char *session;
    int64_t fence; /* as of workspace_commit_spec */
    int64_t since; /* a commit's number */
    const char *const *lock_tokens;
    size_t lock_count;
};
struct workspace_undone {
    struct workspace_commit commit;
    char *kept[WORKSPACE_KEPT_MAX]; /* paths that others changed; owned */
    size_t kept_count;
};
int workspace_undo(struct workspaces *w, const struct actor *who,
                   const char *id, const struct workspace_undo_spec *spec,
                   struct workspace_undone *ret, struct error *err);
void workspace_undone_done(struct workspace_undone *u);
/* Copies the files as of a commit into another workspace, without copying
 * bytes. ret_seq: the head there. */
int workspace_branch(struct workspaces *w, const struct actor *who,
                     const char *from, int64_t seq, const char *to,
                     int64_t *ret_seq, struct error *err);
struct workspace_merge_spec {
    const char *from, *to;
    int64_t since;       /* of `from`: only what changed after it */
    int64_t base;        /* of `to`: what `from` was branched from */
    const char *session; /* whose conflict rules: see workspace_commit */
    int64_t fence;       /* as of workspace_commit_spec */
    const char *const *lock_tokens;
    size_t lock_count;
};
/* ret_head: of `from`, as merged. */
int workspace_merge(struct workspaces *w, const struct actor *who,
                    const struct workspace_merge_spec *merge,
                    struct workspace_commit *ret, int64_t *ret_head,
                    struct error *err);

/* Unified diff of two versions of text, at most 1 MiB each; ERR_INVALID for
 * anything else. from, to: version ids; from NULL: the one before `to`. */
int workspace_diff(struct workspaces *w, const struct actor *who,
                   const char *id, const char *path, const char *from,
                   const char *to, struct buf *out, struct error *err);

/* A zip of everything below prefix, written in pieces: write returns 0 or a
 * negative code to stop. Verified as it goes. */
int workspace_archive(struct workspaces *w, const struct actor *who,
                      const char *id, const char *prefix,
                      int (*write)(void *ctx, const void *bytes, size_t len),
                      void *ctx, struct error *err);

/* ---- locks.c ----------------------------------------------------------- */

#define LOCK_TTL_MIN_S 1u
#define LOCK_TTL_MAX_S 86400u
#define LOCK_LABEL_MAX 128u /* bytes */
#define LOCK_TOKEN_MAX 256u /* bytes; no token is longer */

struct workspace_lock {
    char id[ID_MAX]; /* lock_… */
    char *path;      /* owned */
    char holder[ID_MAX], session[ID_MAX];
    char label[LOCK_LABEL_MAX + 4];
    int64_t fence, acquired_at_ms, expires_at_ms;
};
void workspace_lock_done(struct workspace_lock *l);
void workspace_locks_free(struct workspace_lock *locks, size_t count);

struct workspace_lock_spec {
    const char *path; /* may not exist yet */
    uint32_t ttl_s;
    const char *session; /* whose executions may write it, or NULL */
    const char *label;   /* or NULL */
};
/* ERR_LOCKED names holder, expiry and fence. */
int workspace_lock(struct workspaces *w, const struct actor *who,
                   const char *id, const struct workspace_lock_spec *spec,
                   struct workspace_lock *ret, char ret_token[65],
                   struct error *err);
int workspace_locks(struct workspaces *w, const struct actor *who,
                    const char *id, struct workspace_lock **ret,
                    size_t *ret_count, struct error *err);
int workspace_lock_renew(struct workspaces *w, const struct actor *who,
                         const char *id, const char *lock, const char *token,
                         uint32_t ttl_s, struct workspace_lock *ret,
                         struct error *err);
/* token NULL: by force, which an owner may; it is audited as such. */
int workspace_unlock(struct workspaces *w, const struct actor *who,
                     const char *id, const char *lock, const char *token,
                     struct error *err);

/* ---- shares.c ---------------------------------------------------------- */

enum share_mode {
    SHARE_READ,
    SHARE_WRITE, /* also takes uploads below its path */
    /* Takes one upload to its path, which is a file that need not exist, and
     * gives nothing to read. Lives SHARE_SHORT_MAX_S at most. */
    SHARE_UPLOAD,
};

#define SHARE_PASSWORD_MAX 128u /* bytes */
/* How long links live that are made for one fetch or one upload. */
#define SHARE_SHORT_S 3600u
#define SHARE_SHORT_MAX_S 86400u

struct workspace_share {
    char id[ID_MAX]; /* share_… */
    char workspace[ID_MAX];
    char *path; /* owned; a file, or a folder ("x/", "" foreverything) */
    char version[ID_MAX];
    enum share_mode mode;
    bool has_password;
    int64_t downloads, max_downloads; /* max 0: any number */
    char created_by[ID_MAX];
    int64_t created_at_ms, expires_at_ms, revoked_at_ms; /* 0: never, not */
};
void workspace_share_done(struct workspace_share *s);
void workspace_shares_free(struct workspace_share *shares, size_t count);

struct workspace_share_spec {
    const char *path;    /* "" : everything */
    const char *version; /* pinned, or NULL */
    enum share_mode mode;
    uint32_t expires_in_s; /* 0: never */
    const char *password;  /* NULL: none; 1 to 128 bytes */
    int64_t max_downloads;
};
/* ret_secret: 65 bytes, shown once; only its hash is kept. */
int workspace_share(struct workspaces *w, const struct actor *who,
                    const char *id, const struct workspace_share_spec *spec,
                    struct workspace_share *ret, char ret_secret[65],
                    struct error *err);
int workspace_shares(struct workspaces *w, const struct actor *who,
                     const char *id, struct workspace_share **ret,
                     size_t *ret_count, struct error *err);
int workspace_share_revoke(struct workspaces *w, const struct actor *who,
                           const char *share, struct error *err);

/* A visitor with the secret. Unknown, expired, revoked and used up are all
 * ERR_NOT_FOUND; a missing or wrong password ERR_UNAUTHENTICATED; too many
 * tries from source ERR_LIMIT, for a minute at most (password.c).
 * ret_actor: what the visitor may act as in the calls above, strings borrowed
 * from ret. */
int workspace_share_open(struct workspaces *w, const char *secret,
                         const char *password, const char *source,
                         struct workspace_share *ret, struct error *err);
/* Files below the share; path relative to it ("" for the shared file). */
int workspace_share_list(struct workspaces *w, const struct workspace_share *s,
                         const struct page *page, struct workspace_file **ret,
                         struct page_result *ret_page, struct error *err);
/* Counts one download (in the same transaction as the limit is checked) and
 * audits it. source NULL: only looked at (HEAD), neither counted nor audited;
 * one that is used up is not found all the same. */
int workspace_share_get(struct workspaces *w, const struct workspace_share *s,
                        const char *path, const char *source,
                        struct workspace_file *ret, struct error *err);
int workspace_share_put(struct workspaces *w, const struct workspace_share *s,
                        const char *path, const char *sha256, uint64_t size,
                        const char *source, struct workspace_commit *ret,
                        struct error *err);

/* ---- uploads.c: in parts, resumable ------------------------------------ */

#define UPLOAD_PARTS_MAX 10000u

struct workspace_upload_part {
    uint32_t number;
    uint64_t size;
    char sha256[BLOB_NAME];
};

struct workspace_upload {
    char id[ID_MAX]; /* up_… */
    char workspace[ID_MAX];
    char *path;   /* owned */
    int64_t size; /* declared; -1 unknown */
    int64_t created_at_ms, expires_at_ms;
    struct workspace_upload_part *parts; /* those that are there, in order;
                                            owned */
    size_t part_count;
};
void workspace_upload_done(struct workspace_upload *u);

int workspace_upload_begin(struct workspaces *w, const struct actor *who,
                           const char *id, const char *path, int64_t size,
                           struct workspace_upload *ret, struct error *err);
int workspace_upload_get(struct workspaces *w, const struct actor *who,
                         const char *upload, struct workspace_upload *ret,
                         struct error *err);
/* A part that is there already is replaced. sha256: a pinned blob. */
int workspace_upload_part(struct workspaces *w, const struct actor *who,
                          const char *upload, uint32_t number,
                          const char *sha256, uint64_t size,
                          struct error *err);
/* Parts 1 to n, joined; spec: for if_*, locks, conversation; its changes:
 * NULL, or one that says whether it is executable. A wrong declared size or
 * sha256 (NULL: unchecked) is refused. */
int workspace_upload_complete(struct workspaces *w, const struct actor *who,
                              const char *upload, const char *sha256,
                              const struct workspace_commit_spec *spec,
                              struct workspace_commit *ret, struct error *err);
int workspace_upload_abort(struct workspaces *w, const struct actor *who,
                           const char *upload, struct error *err);

/* ---- manager.c: the trees that sessions mount (tree/tree.h) ------------ */

/* For an actor that may read the workspace. */
int workspace_tree_acquire(struct workspaces *w, const struct actor *who,
                           const char *id, struct workspace_tree *ret,
                           struct error *err);
int workspace_tree_check(struct workspaces *w,
                         const struct workspace_tree *tree, struct error *err);
void workspace_tree_release(struct workspaces *w, struct workspace_tree *tree);

/* The changes from commit seq `from` (exclusive) to the head, one row per
 * path, newest state; removed files have sha256 "". except_session: leave out
 * this session's own changes, or NULL. */
int workspace_changes(struct workspaces *w, const struct actor *who,
                      const char *id, int64_t from, const char *except_session,
                      struct workspace_file **ret, size_t *ret_count,
                      int64_t *ret_head, struct error *err);

/* ---- manager.c: upkeep of everything stored (upkeep/upkeep.h) ---------- */

int workspaces_collect(struct workspaces *w, struct workspace_collected *ret,
                       struct error *err);
int workspaces_verify(struct workspaces *w,
                      void (*progress)(void *ctx, uint64_t done,
                                       uint64_t total),
                      void *ctx, struct workspace_verified *ret,
                      struct error *err);
void workspaces_scrub_state(struct workspaces *w, struct workspace_scrub *ret);
int workspaces_backup(struct workspaces *w, const char *dir,
                      void (*progress)(void *ctx, const char *what,
                                       uint64_t done, uint64_t total),
                      void *ctx, struct error *err);
/* Sealed backups; see upkeep.h. */
void workspaces_backup_state(struct workspaces *w,
                             struct upkeep_backup_state *ret);
int workspaces_backup_schedule(struct workspaces *w, uint32_t every_s,
                               uint32_t keep, struct error *err);
int workspaces_backup_now(struct workspaces *w, const struct actor *who,
                          void (*progress)(void *ctx, const char *what,
                                           uint64_t done, uint64_t total),
                          void *ctx, struct error *err);

/* ---- govern.c ---------------------------------------------------------- */

/* Would policy allow this actor to fetch the file, without an approval?
 * Nothing is recorded. */
bool workspace_may_fetch(struct workspaces *w, const struct actor *who,
                         const char *path, const char *mime);

#endif
