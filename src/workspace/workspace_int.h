/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to workspace/ and its tests. The files:
 *
 *   manager.c       opens and closes; the listener of commits
 *   access.c        permission checks, with which every call begins
 *   workspaces.c    creating, listing, changing, deleting; members.c has
 *                   members and ownership, quota.c the limits
 *   commit.c        spine of the one way a tree changes: commit_plan.c decides
 *                   what each path becomes, conflict.c which of that may
 *                   happen, commit_tree.c keeps the tree valid, commit_write.c
 *                   writes the rows
 *   files.c history.c diff.c archive.c restore.c   the present and the past
 *   locks.c shares.c uploads.c   leases, links, files in parts
 *   govern.c        requests to policy about all of these
 *   library*.c      files uploaded on their own; see library_int.h
 *
 * Below it, tree/ builds what sessions mount, and upkeep/ collects, verifies
 * and backs up what is stored.
 *
 * Rules about rows that several files rely on:
 *
 *   - A version row is never removed while its workspace is there: a file's
 *     versions are numbered without a gap, so that number + 1 is the next.
 *     Giving up bytes sets `purged` and leaves the rest.
 *   - A file has one path at a time. Where it was at commit n says its
 *     version with the largest seq <= n. A rename is one version, at the new
 *     path, with from_path; the old path gets no row of its own. A restore
 *     may do the same: change "restored" with a from_path that is not "".
 *   - A tombstone (change "deleted") has sha256 "" and size 0.
 *   - In the head no file is below another: no "a" beside "a/b".
 *   - workspaces.stored_bytes counts each file's distinct bytes once: the
 *     sizes of (file, sha256) over versions that are not purged. Commits add
 *     to it, at most too much; the collector makes it exact.
 */
#ifndef GLOVEBOX_WORKSPACE_WORKSPACE_INT_H
#define GLOVEBOX_WORKSPACE_WORKSPACE_INT_H

#include "base/thread.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define QUOTA_MEMOS 64u

/* How many bytes a tenant may surely still add; see quota.c. */
struct quota_memo {
    char tenant[64];
    uint64_t quota; /* room was counted by this one */
    uint64_t room;
};

/* Deletes what `unnamed_days` no longer keeps; adds how many. In a collection.
 */
int workspaces_expire_unnamed(struct workspaces *w, uint64_t *ret_removed,
                              struct error *err);
#define LIBRARY_MADE_FOR "library" /* workspaces.made_for of a library */
#define LIBRARY_MEMOS 64u

/* Which workspace was a tenant's library when last asked; library_home.c. */
struct library_memo {
    char tenant[64], id[ID_MAX];
};

struct workspaces {
    struct workspaces_settings settings;
    char *data_dir; /* owned; settings.data_dir points to it */
    /* Of struct core; borrowed: */
    struct nodes *nodes;
    struct store *store;
    struct blobs *blobs;
    struct audit *audit;
    struct quotas *quotas;
    struct govern govern;

    struct mutex expire_lock; /* on_expire; held while it runs */
    workspaces_expire_fn *on_expire;
    void *on_expire_ctx;
    struct mutex lock; /* listener, memos; a leaf */
    void (*on_commit)(void *ctx);
    void *on_commit_ctx;
    uint64_t commits;
    struct quota_memo memos[QUOTA_MEMOS];
    struct library_memo libraries[LIBRARY_MEMOS];
    int64_t last_made_ms; /* when the newest workspace was made */

    struct share_attempts *attempts; /* password.c's */
    struct trees *trees;
    struct upkeep *upkeep;
};

/* ---- manager.c --------------------------------------------------------- */

/* Tells the listener; after store_commit of anything that made a commit. */
void workspaces_committed(struct workspaces *w);

/* ---- govern.c ---------------------------------------------------------- */

int workspace_govern_commit(struct workspaces *w, const struct actor *who,
                            const char *id,
                            const struct workspace_commit_spec *spec,
                            struct error *err);
/* The policy result of files that a commit copies from stored versions
 * (govern.c). workspace_govern_copied requests the approval and sets
 * `approved`. */
struct commit_policy_result {
    struct policy_decision by; /* the strictest */
    char *path;                /* the first of these files; owned */
    size_t count;              /* files that need approval */
    char sha256[BLOB_NAME];    /* of their paths and contents */
    bool approved;
};
void commit_policy_result_done(struct commit_policy_result *j);
int workspace_govern_copied(struct workspaces *w, const struct actor *who,
                            const char *id, const char *kind,
                            struct commit_policy_result *policy,
                            struct error *err);
int workspace_govern_fetch(struct workspaces *w, const struct actor *who,
                           const struct workspace_file *f, struct error *err);
/* Every file below prefix as of commit seq, before the first byte. */
int workspace_govern_archive(struct workspaces *w, const struct actor *who,
                             const char *id, const char *prefix, int64_t seq,
                             struct error *err);
int workspace_govern_share(struct workspaces *w, const struct actor *who,
                           const char *id,
                           const struct workspace_share_spec *spec,
                           struct error *err);
int workspace_govern_member(struct workspaces *w, const struct actor *who,
                            const char *id, const char *principal,
                            enum workspace_role role, struct error *err);
/* to NULL: by a token. */
int workspace_govern_transfer(struct workspaces *w, const struct actor *who,
                              const char *id, const char *to,
                              struct error *err);
int workspace_govern_claim(struct workspaces *w, const struct actor *who,
                           struct error *err);

/* ---- access.c ---------------------------------------------------------- */

struct workspace_row {
    char id[ID_MAX], tenant[64], owner[ID_MAX], made_for[ID_MAX];
    char name[WORKSPACE_NAME_MAX + 4];
    enum workspace_role role; /* the actor's; ROLE_NONE from row_get */
    int64_t created_at_ms, updated_at_ms, deleted_at_ms;
    int64_t head, files, bytes, stored_bytes;
    int64_t quota_bytes; /* 0: the default */
    int64_t keep_versions, keep_days;
    bool legal_hold, intelligence;
};

/* What workspace_row_read reads of `workspaces AS w`; a role must follow. */
#define WORKSPACE_ROW_COLUMNS                                                 \
    "w.id, w.tenant, w.owner, w.made_for, w.name, w.created_at_ms,"           \
    " w.updated_at_ms, w.deleted_at_ms, w.head, w.files, w.bytes,"            \
    " w.stored_bytes, w.quota_bytes, w.keep_versions, w.keep_days,"           \
    " w.legal_hold, w.intelligence = 1, "
void workspace_row_read(struct store_rows *rows, struct workspace_row *ret);

/*
 * SQL for the role of an actor in `workspaces AS w`; the arguments are the
 * parameters that hold its key, whether it is an admin (0, 1), its tenant and
 * what it is bound to (WORKSPACE_BOUNDS). 0 is no role: put `> 0` of it into
 * the query (I3).
 */
#define WORKSPACE_ROLE_SQL(key, admin, tenant, workspaces, sessions)           \
    "CASE WHEN NOT (" WORKSPACE_WITHIN_SQL(                                    \
        tenant, workspaces,                                                    \
        sessions) ") THEN 0"                                                   \
                  " WHEN w.owner = " key " OR (" admin                         \
                  " = 1 AND w.tenant = " tenant                                \
                  ") THEN 3 ELSE coalesce((SELECT m.role FROM members AS m"    \
                  " WHERE m.workspace = w.id AND m.principal = " key "),"      \
                  " (SELECT m.role FROM members AS m WHERE m.workspace = w.id" \
                  " AND m.principal = '*' AND w.tenant = " tenant "), 0) END"

/* Is the actor bound to certain workspaces, or to sessions and so to theirs?
 */
bool workspace_bounded(const struct actor *who);
/* ERR_FORBIDDEN if so; what: "make others". */
int workspace_unbound(const struct actor *who, const char *what,
                      struct error *err);

/* ERR_NOT_FOUND "no such workspace" for what the actor may not see or is
 * deleted, ERR_FORBIDDEN (audited) for a lesser role. ret may be NULL. */
int workspace_access(struct store_tx *tx, struct workspaces *w,
                     const struct actor *who, const char *id,
                     enum workspace_role least, struct workspace_row *ret,
                     struct error *err);
/* The same for a deleted one; one that is not is not found. */
int workspace_access_deleted(struct store_tx *tx, struct workspaces *w,
                             const struct actor *who, const char *id,
                             enum workspace_role least,
                             struct workspace_row *ret, struct error *err);
/* Begins a transaction and does that; on failure there is none. what: as of
 * store_begin. */
int workspace_enter(struct workspaces *w, const struct actor *who,
                    const char *id, enum workspace_role least,
                    enum store_mode mode, const char *what,
                    struct store_tx **ret_tx, struct workspace_row *ret,
                    struct error *err);
/* For any caller (links, maintenance); not a deleted one. */
int workspace_row_get(struct store_tx *tx, const char *id,
                      struct workspace_row *ret, struct error *err);
int workspace_row_info(struct workspaces *w, struct store_tx *tx,
                       const struct workspace_row *row,
                       struct workspace_info *ret, struct error *err);
/* For a refusal that is not about a role: audited later. */
void workspace_refused(struct workspaces *w, const struct actor *who,
                       const char *action, const char *id, const char *path,
                       const struct error *err);

/* ---- access.c: tokens
 * ----------------------------------------------------------- */

/* 256 random bits, shown once; only the hash is kept. */
void workspace_token_make(char ret_token[65], unsigned char ret_hash[32]);
void workspace_token_hash(const char *token, unsigned char ret_hash[32]);

/* ---- quota.c ----------------------------------------------------------- */

/* In force for this workspace; 0: none. */
uint64_t workspace_quota(const struct workspaces *w,
                         const struct workspace_row *row);
/* May it hold `more` bytes more, by its own quota and its tenant's? Taken off
 * the tenant's room if so. already: let in before in the same transaction and
 * not yet in the row. ERR_SPACE names limit and use. */
int workspace_quota_take(struct workspaces *w, struct store_tx *tx,
                         const struct workspace_row *row, uint64_t already,
                         uint64_t more, struct error *err);
/* A workspace with that many bytes comes to the tenant (a transfer, an
 * undelete; of one it makes itself: 0). ERR_LIMIT, ERR_SPACE. */
int workspace_quota_enter(struct workspaces *w, struct store_tx *tx,
                          const char *tenant, uint64_t bytes,
                          struct error *err);

/* ---- commit.c ---------------------------------------------------------- */

/* Commits within the caller's WRITE transaction, which has checked permission
 * (links, uploads, restores). row: read in the same transaction; its head and
 * counts are updated. The caller calls workspaces_committed after
 * store_commit. */
int workspace_commit_in(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who, struct workspace_row *row,
                        const struct workspace_commit_spec *spec,
                        struct workspace_commit *ret, struct error *err);

/* ---- library_home.c ---------------------------------------------------- */

/* The workspace goes to another tenant, within the caller's transaction: if
 * it was a library, it is an ordinary one from then on. */
int library_leave(struct store_tx *tx, const struct workspace_row *row,
                  struct error *err);

/* ---- files.c, history.c ----------------------------- */

/* What workspace_file_read reads, of `files AS f` or `versions AS v`; the
 * latter needs `commits AS c` beside it for the time. */
#define WORKSPACE_FILE_COLUMNS                                                \
    "f.id, f.version, f.number, f.seq, f.path, f.sha256, f.size, f.mime,"     \
    " f.executable, f.modified_at_ms"
#define WORKSPACE_VERSION_COLUMNS                                             \
    "v.file, v.id, v.number, v.seq, v.path, v.sha256, v.size, v.mime,"        \
    " v.executable, c.at_ms"
#define WORKSPACE_FILE_COLUMN_COUNT 10
/* From column `first` on; ret's path is owned by caller. */
void workspace_file_read(struct store_rows *rows, int first,
                         struct workspace_file *ret);
/* The file at path in the head, within a transaction; ERR_NOT_FOUND. */
int workspace_file_at(struct store_tx *tx, const char *id, const char *path,
                      struct workspace_file *ret, struct error *err);
/* As workspace_files_list and workspace_changes, without asking who. */
int workspace_files_list_in(struct store_tx *tx, const char *id,
                            const struct workspace_files_spec *spec,
                            struct workspace_file **ret,
                            struct page_result *ret_page, struct error *err);
int workspace_changes_in(struct store_tx *tx, const char *id, int64_t from,
                         const char *except_session,
                         struct workspace_file **ret, size_t *ret_count,
                         struct error *err);

/* ---- name_check.c: names ----------------------------------------------- */

/* ERR_INVALID unless the path follows F5. */
int workspace_path_check(const char *path, struct error *err);
/* ERR_INVALID unless it is at most `most` bytes of UTF-8 without control
 * characters; what: "name". NULL passes. */
int workspace_text_check(const char *what, const char *text, size_t most,
                         struct error *err);
/* The least text that is greater than everything that starts with prefix:
 * `path >= prefix AND path < that` is an index range. Owned by caller. */
char *workspace_path_end(const char *prefix);
/* The part of a path that fits into a message. Returns ret. */
#define WORKSPACE_SHORT 120
char *workspace_path_short(const char *path, char ret[WORKSPACE_SHORT]);

/* A principal that can own a workspace: a key, or the subject of an issuer's
 * token. */
static inline bool workspace_is_key(const char *id)
{
    return ids_valid("key", id) || ids_valid("jwt", id);
}

#endif
