/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service's core for the unit tests of src/session/: the real store, blobs,
 * trail and workspaces in a directory of their own, and the other side of a
 * session from session_fake.h.
 */
#ifndef GLOVEBOX_TESTS_UNIT_SESSION_FIXTURE_H
#define GLOVEBOX_TESTS_UNIT_SESSION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/audit.h"
#include "core/core.h"
#include "quota/quota.h"
#include "scratch.h"
#include "session_fake.h"
#include "store/store.h"
#include "store_choice.h"

#define TENANT "acme"

static const struct actor WHO = {.tenant = TENANT, .key = "key_acme"};
static const struct actor OTHER = {.tenant = "other", .key = "key_other"};

/* The principal of a tenant that makes its sessions here. */
#define ACTOR(name)                                                           \
    (&(const struct actor){.tenant = (name),                                  \
                           .key = strcmp((name), TENANT) == 0 ? WHO.key       \
                                                              : OTHER.key})

/* ---- help --------------------------------------------------------------- */

struct fixture {
    struct conf conf;
    struct warden_link link;
    struct store *store;
    struct blobs *blobs;
    struct audit *audit;
    struct quotas *quotas;
    struct core core; /* of these */
    struct workspaces *w;
    struct sessions *s;
    struct executions *x;
    struct error err;
    char id[ID_MAX];
    char dir[64];
};

static inline int set_up_conf(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void)signal(SIGPIPE, SIG_IGN);
    f->conf = (struct conf){.runtime_defs = (char *)"defs",
                            .runtime_dir = (char *)"cache",
                            .max_executions = 20,
                            .queue_per_session = 4,
                            .sessions_per_tenant = 5,
                            .max_sessions = 8,
                            .code_bytes = 4096,
                            .upload_bytes = 1000,
                            .file_bytes = 1 << 20,
                            .history_bytes = 64 << 20,
                            .history_per_session = 50,
                            .pool_count = 2};
    f->conf.pools[0] = (struct conf_pool){.name = (char *)"default",
                                          .runtime = (char *)"fake",
                                          .zygote = true,
                                          .isolation = (char *)"process",
                                          .persistence = (char *)"workspace",
                                          .memory_bytes = 1 << 30,
                                          .max_memory_bytes = 4ull << 30,
                                          .processes = 128,
                                          .cores = 1,
                                          .max_cores = 2,
                                          .descriptors = 1024,
                                          .scratch_bytes = 1 << 30,
                                          .scratch_inodes = 1000,
                                          .tmp_bytes = 1 << 20,
                                          .shm_bytes = 1 << 20,
                                          .max_sessions = 6,
                                          .cooldown_s = 100,
                                          .lifetime_s = 1000,
                                          .python_timeout_s = 20,
                                          .python_timeout_max_s = 30,
                                          .shell_timeout_s = 10,
                                          .shell_timeout_max_s = 15,
                                          .output_bytes = 1 << 20};
    f->conf.pools[1] = f->conf.pools[0];
    f->conf.pools[1].name = (char *)"second";
    f->conf.pools[1].max_sessions = 1;
    if (!scratch_dir(f->dir, sizeof(f->dir), "test_session"))
        abort();
    *state = f;
    return 0;
}

static inline void close_sessions(struct fixture *f, unsigned deadline_s)
{
    if (!sessions_close(f->s, deadline_s))
        fail_msg("a call still runs");
    executions_close(f->x);
    f->s = NULL;
    f->x = NULL;
}

static inline void close_it(struct fixture *f)
{
    close_sessions(f, 1);
    workspaces_close(f->w);
    blobs_close(f->blobs);
    quotas_close(f->quotas);
    audit_close(f->audit);
    store_close(f->store);
    f->s = NULL;
    f->w = NULL;
    f->blobs = NULL;
    f->quotas = NULL;
    f->audit = NULL;
    f->store = NULL;
}

static inline int open_sessions(struct fixture *f, struct egress_link *egress)
{
    f->core = (struct core){.store = f->store,
                            .audit = f->audit,
                            .blobs = f->blobs,
                            .quotas = f->quotas};
    if (sessions_open(&(struct sessions_parts){.conf = &f->conf,
                                               .core = &f->core,
                                               .warden = &f->link,
                                               .workspaces = f->w,
                                               .egress = egress},
                      &f->s, &f->err) < 0)
        return -(int)f->err.code;
    executions_open(&(struct executions_parts){.conf = &f->conf,
                                               .core = &f->core,
                                               .workspaces = f->w,
                                               .sessions = f->s},
                    &f->x);
    return 0;
}

/* As the service does, in the same data directory each time. */
static inline void open_it(struct fixture *f)
{
    struct workspaces_settings settings = {.data_dir = f->dir,
                                           .file_bytes = 1 << 20};
    struct quota_limits quotas = {
        .most = {[QUOTA_SESSIONS] = f->conf.sessions_per_tenant,
                 [QUOTA_CREATIONS] = f->conf.creations_per_s}};

    if (!f->w &&
        (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                           &f->store, &f->err) < 0 ||
         audit_open(f->store, f->dir, &f->audit, &f->err) < 0 ||
         blobs_open(&(struct blobs_settings){.data_dir = f->dir}, &f->blobs,
                    &f->err) < 0 ||
         quotas_open(&quotas, f->store, f->audit, &f->quotas, &f->err) < 0 ||
         workspaces_open(&settings,
                         &(struct core){.store = f->store,
                                        .blobs = f->blobs,
                                        .audit = f->audit},
                         &f->w, &f->err) < 0))
        fail_msg("%s", f->err.message);
    if (open_sessions(f, NULL) < 0)
        fail_msg("%s", f->err.message);
}

static inline void set_quota(struct fixture *f, const char *tenant,
                             enum quota_kind kind, uint64_t most)
{
    const uint64_t *values[QUOTA_KINDS] = {0};

    values[kind] = &most;
    if (quota_set(f->quotas, NULL, tenant, values, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static inline void create(struct fixture *f)
{
    struct session_spec spec = {0};
    struct session_info info;

    if (session_create(f->s, &WHO, &spec, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    memcpy(f->id, info.id, sizeof(f->id));
    session_info_done(&info);
}

/* Pools without ready sandboxes make one to see that they can. */
static inline void wait_proven(struct fixture *f)
{
    while (!sessions_ready(f->s) || fake.releases < fake.spawns)
        fake_nap(1);
    fake.spawns = fake.releases = 0;
}

static inline int set_up(void **state)
{
    (void)set_up_conf(state);
    open_it(*state);
    wait_proven(*state);
    create(*state);
    return 0;
}

static inline int open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

/* The fake's threads close their copies a moment later. */
static inline void expect_fds(int count)
{
    for (int i = 0; i < 1000 && open_fds() != count; i++)
        fake_nap(1);
    assert_int_equal(open_fds(), count);
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    close_it(f);
    fake_reset();
    (void)scratch_remove(f->dir);
    free(f);
    return 0;
}

static inline struct execution *run_for(struct fixture *f,
                                        enum exec_language lang,
                                        const char *code, uint32_t timeout_s)
{
    struct exec_spec spec = {.language = lang,
                             .code = code,
                             .code_len = strlen(code),
                             .timeout_s = timeout_s};
    struct execution *e;

    if (execution_run(f->s, &WHO, f->id, &spec, &e, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return e;
}

/* Every event as one line of text: "type:data|…". */
static inline char *told(struct execution *e)
{
    static const char *const names[] = {
        [EVENT_STATUS] = "status",       [EVENT_STDOUT] = "out",
        [EVENT_STDERR] = "err",          [EVENT_DISPLAY] = "display",
        [EVENT_RESULT] = "result",       [EVENT_ERROR] = "error",
        [EVENT_CLEAR] = "clear",         [EVENT_DONE] = "done",
        [EVENT_INPUT] = "input_request",
    };
    struct buf b = {0};
    struct exec_event ev;

    for (uint32_t n = 0; execution_event(e, n, &ev); n++) {
        struct kernel_pair pair = {0};
        size_t pos = 0;

        assert_int_equal(ev.number, n + 1);
        if (n)
            buf_adds(&b, "|");
        buf_adds(&b, names[ev.type]);
        buf_adds(&b, ":");
        if (ev.type == EVENT_RESULT || ev.type == EVENT_ERROR ||
            ev.type == EVENT_DISPLAY) {
            while (wire_pairs_next(ev.data, ev.len, &pos, &pair) == 1) {
                buf_add(&b, pair.value, MIN(pair.value_len, 40u));
                buf_adds(&b, ";");
            }
        } else {
            buf_add(&b, ev.data, MIN(ev.len, 200u));
        }
    }
    return buf_take(&b, NULL);
}

static inline void expect(struct execution *e, enum exec_outcome outcome,
                          bool lost, const char *events)
{
    char *text cleanup(mem_free) = told(e);
    struct exec_info info;

    execution_info(e, &info);
    assert_string_equal(exec_outcome_name(info.outcome),
                        exec_outcome_name(outcome));
    assert_int_equal(info.status, EXEC_COMPLETED);
    assert_int_equal(info.interpreter_lost, lost);
    if (events)
        assert_string_equal(text, events);
    execution_unref(e);
}

static inline void check_run(struct fixture *f, const char *code,
                             enum exec_outcome outcome, bool lost,
                             const char *events)
{
    expect(run_for(f, EXEC_PYTHON, code, 0), outcome, lost, events);
}

static inline struct session_info get(struct fixture *f)
{
    struct session_info info;

    if (session_get(f->s, &WHO, f->id, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    session_info_done(&info);
    return info;
}

/* An execution on a thread of its own. */
struct bg {
    struct fixture *f;
    pthread_t thread;
    const char *code;
    enum exec_language language;
    uint32_t timeout_s;
    struct execution *e;
    int rc;
    struct error err;
};

static inline void *on_bg(void *arg)
{
    struct bg *b = arg;
    struct exec_spec spec = {.language = b->language,
                             .code = b->code,
                             .code_len = strlen(b->code),
                             .timeout_s = b->timeout_s};

    b->rc = execution_run(b->f->s, &WHO, b->f->id, &spec, &b->e, &b->err);
    return NULL;
}

static inline void bg_start(struct bg *b)
{
    assert_int_equal(pthread_create(&b->thread, NULL, on_bg, b), 0);
}

static inline void wait_state(struct fixture *f, enum session_state state,
                              uint32_t queued)
{
    for (int i = 0; i < 2000; i++) {
        struct session_info info = get(f);

        if (info.state == state && info.queued == queued)
            return;
        fake_nap(1);
    }
    fail_msg("state %s with %u queued not reached", session_state_name(state),
             queued);
}

static inline void put(struct fixture *f, const char *path)
{
    struct session_upload *u;
    struct session_file file;

    if (session_upload_begin(f->s, &WHO, f->id, path, &u, &f->err) < 0 ||
        session_upload_write(u, "ab", 2, &f->err) < 0 ||
        session_upload_write(u, "c", 1, &f->err) < 0 ||
        session_upload_commit(u, &file, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(file.size, 3);
    free(file.path);
    assert_string_equal(file.sha256, "ba7816bf8f01cfea414140de5dae2223"
                                     "b00361a396177a9cb410ff61f20015ad");
}

#endif
