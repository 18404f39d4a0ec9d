/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of workspace/ share: a data directory with a store, blobs,
 * a trail and workspaces over them, a few keys of two tenants, and short ways
 * to put, commit and look.
 */
#ifndef GLOVEBOX_TESTS_WORKSPACE_FIXTURE_H
#define GLOVEBOX_TESTS_WORKSPACE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"
#include "scratch.h"
#include "store/store.h"
#include "store_choice.h"
#include "workspace/workspace.h"

#define KEY_A "key_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define KEY_B "key_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define KEY_C "key_cccccccccccccccccccccccccccccccc"
#define KEY_X "key_eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
#define KEY_R "key_ffffffffffffffffffffffffffffffff"
#define SESSION_1 "sess_11111111111111111111111111111111"
#define SESSION_2 "sess_22222222222222222222222222222222"

struct fixture {
    char dir[64];
    struct store *store;
    struct blobs *blobs;
    struct audit *audit;
    struct workspaces *w;
    struct workspaces_settings settings;
    struct workspace_info ws; /* of key a, the whole tenant its editor */
    struct error err;
};

/* a, b, c: of one tenant; r its admin; x: of another tenant. */
static const struct actor fixture_a = {.tenant = "acme", .key = KEY_A};
static const struct actor fixture_b = {.tenant = "acme", .key = KEY_B};
static const struct actor fixture_c = {.tenant = "acme", .key = KEY_C};
static const struct actor fixture_r = {
    .tenant = "acme", .key = KEY_R, .admin = true};
static const struct actor fixture_x = {.tenant = "other", .key = KEY_X};

#define OK(f, call)                                                           \
    do {                                                                      \
        if ((call) < 0)                                                       \
            fail_msg("%s: %s", #call, (f)->err.message);                      \
    } while (0)
#define REFUSED(f, code, call) assert_int_equal((call), -(code))

static inline void fixture_open(struct fixture *f)
{
    f->settings.data_dir = f->dir;
    OK(f, store_choice_open(&(struct store_settings){.data_dir = f->dir},
                            &f->store, &f->err));
    OK(f, blobs_open(&(struct blobs_settings){.data_dir = f->dir}, &f->blobs,
                     &f->err));
    OK(f, audit_open(f->store, f->dir, &f->audit, &f->err));
    OK(f, workspaces_open(&f->settings,
                          &(struct core){.store = f->store,
                                         .blobs = f->blobs,
                                         .audit = f->audit},
                          &f->w, &f->err));
}

static inline void fixture_close(struct fixture *f)
{
    workspaces_close(f->w);
    audit_close(f->audit);
    blobs_close(f->blobs);
    store_close(f->store);
    f->w = NULL;
    f->audit = NULL;
    f->blobs = NULL;
    f->store = NULL;
}

static inline void fixture_reopen(struct fixture *f)
{
    fixture_close(f);
    fixture_open(f);
}

static inline int fixture_set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct workspace_spec spec = {.name = "desk"};

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_workspace"));
    f->settings.restore_window_s = 3600;
    fixture_open(f);
    OK(f, workspace_create(f->w, &fixture_a, &spec, &f->ws, &f->err));
    *state = f;
    return 0;
}

static inline int fixture_tear_down(void **state)
{
    struct fixture *f = *state;

    fixture_close(f);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

#define CASE(name)                                                            \
    cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

/* ---- short ways --------------------------------------------------------- */

/* Stores text; pinned until the end. */
static inline void fixture_blob(struct fixture *f, const char *text,
                                char ret[BLOB_NAME])
{
    struct blob_writer *b cleanup(blob_abort) = NULL;
    uint64_t size;

    OK(f, blob_begin(f->blobs, "", &b, &f->err));
    OK(f, blob_write(b, text, strlen(text), &f->err));
    OK(f, blob_finish(&b, ret, &size, &f->err));
}

/* A set of changes with the bytes it needs; at most 64. */
struct set {
    struct fixture *f;
    struct workspace_change changes[64];
    char sums[64][BLOB_NAME];
    size_t count;
    struct workspace_commit_spec spec;
};

static inline struct set set_new(struct fixture *f, const char *kind)
{
    struct set s = {.f = f, .spec.kind = kind};

    return s;
}

static inline struct set set_session(struct fixture *f, const char *session,
                                     int64_t base)
{
    struct set s = set_new(f, "execution");

    s.spec.session = session;
    s.spec.base = base;
    return s;
}

static inline struct workspace_change *set_add(struct set *s,
                                               enum workspace_change_kind kind,
                                               const char *path)
{
    struct workspace_change *c = &s->changes[s->count++];

    assert_true(s->count <= ARRAY_SIZE(s->changes));
    c->kind = kind;
    c->path = path;
    return c;
}

static inline struct workspace_change *set_put(struct set *s, const char *path,
                                               const char *text)
{
    struct workspace_change *c = set_add(s, CHANGE_PUT, path);

    fixture_blob(s->f, text, s->sums[s->count - 1]);
    c->size = strlen(text);
    return c;
}

static inline void set_from(struct set *s, enum workspace_change_kind kind,
                            const char *from, const char *to)
{
    set_add(s, kind, to)->from = from;
}

static inline int set_commit(struct set *s, const struct actor *who,
                             struct workspace_commit *ret)
{
    s->spec.changes = s->changes;
    s->spec.count = s->count;
    for (size_t i = 0; i < s->count; i++)
        if (s->changes[i].kind == CHANGE_PUT && !s->changes[i].sha256)
            s->changes[i].sha256 = s->sums[i];
    return workspace_commit(s->f->w, who, s->f->ws.id, &s->spec, ret,
                            &s->f->err);
}

/* Puts one file as key a; gives its version. */
static inline int64_t put(struct fixture *f, const char *path,
                          const char *text, char ret_version[ID_MAX])
{
    struct set s = set_new(f, "upload");
    struct workspace_commit c;
    int64_t seq;

    (void)set_put(&s, path, text);
    OK(f, set_commit(&s, &fixture_a, &c));
    assert_int_equal(c.count, 1);
    if (ret_version)
        memcpy(ret_version, c.results[0].file.version, ID_MAX);
    seq = c.seq;
    workspace_commit_done(&c);
    return seq;
}

static inline int64_t head_of(struct fixture *f)
{
    struct workspace_info info;

    OK(f, workspace_get(f->w, &fixture_a, f->ws.id, &info, &f->err));
    return info.head;
}

/* The tree as "path=text path=text", at commit `at` (0: now). */
static inline char *tree_text(struct fixture *f, int64_t at)
{
    struct buf out = {0};
    struct workspace_file *files;
    struct page_result got = {0};

    buf_adds(&out, "");
    OK(f, workspace_files_list(f->w, &fixture_a, f->ws.id,
                               &(struct workspace_files_spec){.at = at},
                               &files, &got, &f->err));
    for (size_t i = 0; i < got.count; i++) {
        char bytes[256] = "";
        int fd = -1;

        OK(f, workspace_file_open(f->w, NULL, &files[i], &fd, &f->err));
        assert_int_equal(read(fd, bytes, sizeof(bytes) - 1), files[i].size);
        close(fd);
        buf_addf(&out, "%s%s=%s", i ? " " : "", files[i].path, bytes);
    }
    workspace_files_free(files, got.count);
    return buf_take(&out, NULL);
}

#define TREE_IS(f, at, want)                                                  \
    do {                                                                      \
        char *tree_ = tree_text(f, at);                                       \
        assert_string_equal(tree_, want);                                     \
        free(tree_);                                                          \
    } while (0)

/* What a commit did, as "fate change path<from>wanted …" in order. */
static inline char *results_text(const struct workspace_commit *c)
{
    static const char *const fates[] = {"done", "same",   "conflict",
                                        "kept", "locked", "quota"};
    struct buf out = {0};

    buf_adds(&out, "");
    for (size_t i = 0; i < c->count; i++) {
        const struct workspace_result *r = &c->results[i];

        buf_addf(&out, "%s%s %s %s", i ? "; " : "", fates[r->fate], r->change,
                 r->file.path);
        if (r->from[0])
            buf_addf(&out, " < %s", r->from);
        if (r->wanted[0])
            buf_addf(&out, " ? %s", r->wanted);
    }
    return buf_take(&out, NULL);
}

#define RESULTS_ARE(c, want)                                                  \
    do {                                                                      \
        char *results_ = results_text(c);                                     \
        assert_string_equal(results_, want);                                  \
        free(results_);                                                       \
    } while (0)

/* Commits, compares the results and drops them. */
#define COMMITS(s, who, want)                                                 \
    do {                                                                      \
        struct workspace_commit c_;                                           \
        OK((s)->f, set_commit(s, who, &c_));                                  \
        RESULTS_ARE(&c_, want);                                               \
        workspace_commit_done(&c_);                                           \
    } while (0)
#define COMMIT_REFUSED(s, who, code)                                          \
    do {                                                                      \
        struct workspace_commit c_;                                           \
        assert_int_equal(set_commit(s, who, &c_), -(code));                   \
    } while (0)

/* The last event of an action, or fails. Refusals come a little later. */
static inline void last_event(struct fixture *f, const char *action,
                              struct audit_line *ret)
{
    struct audit_filter filter = {.action = action, .limit = 1000};
    struct audit_line *lines;
    size_t count = 0;
    bool more;

    for (int i = 0; i < 300; i++) {
        OK(f, audit_query(f->audit, &filter, &lines, &count, &more, &f->err));
        if (count)
            break;
        audit_lines_free(lines, count);
        usleep(10000);
    }
    if (count == 0)
        fail_msg("no event %s", action);
    *ret = lines[count - 1];
    memset(&lines[count - 1], 0, sizeof(*lines));
    audit_lines_free(lines, count - 1); /* the last one is ours now */
}

static inline void event_done(struct audit_line *line)
{
    struct audit_line *one = xmalloc(sizeof(*one));

    *one = *line;
    audit_lines_free(one, 1);
}

#endif
