/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators have done to the stored data: collecting, verifying, backing
 * up. Runs on a worker of the daemon, which reports progress as an event
 * stream while it works. A client that leaves does not stop the work.
 */
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/native/native.h"
#include "json/json.h"

#define PROGRESS_MS 200 /* between two events */
#define PATH_MAX_BYTES 4000

/* ---- reporting ---------------------------------------------------------- */

struct report {
    struct http_pipe *pipe;
    unsigned number;
    uint64_t last_ms;
    const char *what;
    bool gone; /* the client has disconnected */
};

static void send_event(struct report *r, const char *event,
                       const struct buf *data)
{
    struct buf text cleanup(buf_done) = {0};
    struct error ignored;

    if (r->gone)
        return;
    buf_addf(&text, "id: %u\nevent: %s\ndata: %s\n\n", ++r->number, event,
             data->data);
    r->gone = http_pipe_write(r->pipe, text.data, text.len, &ignored) < 0;
}

static void progress(struct report *r, const char *what, uint64_t done,
                     uint64_t total)
{
    struct buf data cleanup(buf_done) = {0};
    struct json_writer w = {.out = &data};
    uint64_t now = clock_mono_ms();

    if (done < total && r->last_ms && now - r->last_ms < PROGRESS_MS)
        return;
    r->last_ms = now;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "what", what);
    json_write_int(&w, "done", (int64_t)done);
    json_write_int(&w, "total", (int64_t)total);
    json_write_close(&w, '}');
    send_event(r, "progress", &data);
}

static void on_step(void *ctx, uint64_t done, uint64_t total)
{
    struct report *r = ctx;

    progress(r, r->what, done, total);
}

static void on_named_step(void *ctx, const char *what, uint64_t done,
                          uint64_t total)
{
    progress(ctx, what, done, total);
}

/* The last event, and the end of the stream. */
static void finish(struct report *r, const struct error *err,
                   const struct buf *done)
{
    struct buf failed cleanup(buf_done) = {0};

    if (err) {
        http_error_body(err, &failed);
        send_event(r, "error", &failed);
    } else {
        send_event(r, "done", done);
    }
    http_pipe_end(r->pipe, true);
}

static struct report start(struct doors_call *call, const char *what)
{
    return (struct report){
        .pipe = http_respond_pipe(call->http, "text/event-stream"),
        .what = what,
    };
}

/* Records actor and result; on disk before the client gets its answer. */
static int note(struct doors_call *call, const char *action, int r,
                struct error *err)
{
    struct error failed;
    int n = audit_note(call->doors->core->audit, &call->actor,
                       &(struct audit_event){
                           .action = action,
                           .result = r < 0 ? error_code_name(err->code) : NULL,
                       },
                       &failed);

    if (n < 0 && r == 0) {
        *err = failed;
        return n;
    }
    return r;
}

/* ---- the acts ----------------------------------------------------------- */

/* Backups hold the data of all tenants; collecting and verifying works on it
 * and reports its size. */
#define MAKE_BACKUPS "make backups"
#define CARE_FOR_STORAGE "collect or verify stored data"

#define COLLECTED(member) API_AT(struct workspace_collected, member)

static const struct api_field collected_fields[] = {
    {"versions", API_INT, COLLECTED(versions)},
    {"workspaces", API_INT, COLLECTED(workspaces)},
    {"uploads", API_INT, COLLECTED(uploads)},
    {"blobs", API_INT, COLLECTED(blobs)},
    {"bytes", API_INT, COLLECTED(bytes)},
};
API_OUTPUT(native_collected, "Collected", struct workspace_collected,
           collected_fields, "What was given up.");

int native_upkeep_collect(struct doors_call *call, struct error *err)
{
    struct workspace_collected c = {0};
    int r = native_operators_only(call, CARE_FOR_STORAGE, err);

    if (r < 0)
        return r;
    r = workspaces_collect(call->doors->workspaces, &c, err);
    r = note(call, "storage.collect", r, err);
    if (r == 0)
        native_respond(call, 200, &native_collected, &c);
    return r;
}

struct purge_body {
    const char *path;
};

static const struct api_field purge_spec_fields[] = {
    {"path", API_STRING, API_AT(struct purge_body, path),
     .max = PATH_BYTES_MAX, .help = "a file or folder; else everything"},
};
API_INPUT(native_purge_spec, "PurgeSpec", struct purge_body, purge_spec_fields,
          "What to delete for good.");

int native_upkeep_purge(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct workspace_collected c = {0};
    struct purge_body b = {.path = ""};
    int r = native_read_maybe(call, &native_purge_spec, &b, &json, err);

    if (r == 0)
        r = workspace_purge_now(call->doors->workspaces, &call->actor,
                                call->params[0], b.path ? b.path : "", &c,
                                err);
    if (r == 0)
        native_respond(call, 200, &native_collected, &c);
    return r;
}

int native_upkeep_verify(struct doors_call *call, struct error *err)
{
    struct workspace_verified v = {0};
    struct buf done cleanup(buf_done) = {0};
    struct json_writer w = {.out = &done};
    struct report report;
    int64_t lost = 0;
    int r = native_operators_only(call, CARE_FOR_STORAGE, err);

    if (r < 0)
        return r;
    report = start(call, "files");
    r = workspaces_verify(call->doors->workspaces, on_step, &report, &v, err);
    if (r == 0)
        r = audit_lost(call->doors->core->audit, &lost, err);
    r = note(call, "storage.verify", r, err);
    json_write_open(&w, NULL, '{');
    json_write_bool(&w, "ok", v.bad == 0 && v.missing == 0);
    json_write_int(&w, "blobs", (int64_t)v.blobs);
    json_write_int(&w, "bytes", (int64_t)v.bytes);
    json_write_int(&w, "bad", (int64_t)v.bad);
    json_write_int(&w, "missing", (int64_t)v.missing);
    json_write_int(&w, "orphans", (int64_t)v.orphans);
    json_write_int(&w, "lost", lost);
    json_write_string(&w, "first_bad", v.first_bad[0] ? v.first_bad : NULL);
    json_write_close(&w, '}');
    finish(&report, r < 0 ? err : NULL, &done);
    return 0;
}

struct backup_body {
    const char *path;
};

static const struct api_field backup_spec_fields[] = {
    {"path", API_STRING, API_REQUIRED, API_AT(struct backup_body, path),
     .min = 2, .max = PATH_MAX_BYTES,
     .help = "absolute, on the server; empty or not there"},
};
API_INPUT(native_backup_spec, "BackupSpec", struct backup_body,
          backup_spec_fields, "Where to.");

int native_upkeep_backup(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct backup_body b = {0};
    struct buf done cleanup(buf_done) = {0};
    struct json_writer w = {.out = &done};
    struct report report;
    int r = native_operators_only(call, MAKE_BACKUPS, err);

    if (r == 0)
        r = native_read(call, &native_backup_spec, &b, &json, err);
    if (r == 0 && b.path[0] != '/')
        r = error_set(err, ERR_INVALID,
                      "field 'path' must be an absolute path on the server");
    if (r < 0)
        return r;
    report = start(call, "backup");
    r = workspaces_backup(call->doors->workspaces, b.path, on_named_step,
                          &report, err);
    r = note(call, "storage.backup", r, err);
    if (r < 0 && err->code == ERR_INTERNAL)
        log_event(LOG_ERROR, "backup_failed", "id", http_id(call->http),
                  "error", err->message, NULL);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "path", b.path);
    json_write_close(&w, '}');
    finish(&report, r < 0 ? err : NULL, &done);
    return 0;
}

/* ---- encrypted backups -------------------------------------------------- */

#define SCHEDULE(member) API_AT(struct upkeep_backup_state, member)

static const struct api_field schedule_fields[] = {
    {"every_s", API_INT, SCHEDULE(every_s),
     .help = "seconds between two; 0: no schedule"},
    {"keep", API_INT, SCHEDULE(keep), .help = "how many are kept"},
    {"directory", API_STRING, SCHEDULE(dir)},
    {"key_file", API_STRING, API_NULLABLE, SCHEDULE(key_file),
     .help = "null: backup.key of the data directory"},
    {"running", API_BOOL, SCHEDULE(running)},
    {"kept", API_INT, SCHEDULE(kept), .help = "backups in the directory"},
    {"last_attempt_at", API_TIME, API_NULLABLE, SCHEDULE(attempted_at_ms)},
    {"last_success_at", API_TIME, API_NULLABLE, SCHEDULE(succeeded_at_ms)},
    {"next_at", API_TIME, API_NULLABLE, SCHEDULE(next_at_ms)},
    {"name", API_STRING, API_NULLABLE, SCHEDULE(name),
     .help = "of the last one"},
    {"bytes", API_INT, SCHEDULE(bytes), .help = "of the last one"},
    {"failures", API_INT, SCHEDULE(failures),
     .help = "attempts that failed since the last success"},
    {"error", API_STRING, API_NULLABLE, SCHEDULE(error),
     .help = "why the last attempt failed"},
};
API_OUTPUT(native_backup_schedule, "BackupSchedule",
           struct upkeep_backup_state, schedule_fields,
           "The schedule of encrypted backups, and how the last one ended.");

struct schedule_body {
    int64_t every_s, keep;
};

static const struct api_field schedule_spec_fields[] = {
    {"every_s", API_INT, API_REQUIRED, API_AT(struct schedule_body, every_s),
     .min = 0, .max = UPKEEP_EVERY_MAX,
     .help = "0 ends the schedule, otherwise at least 60"},
    {"keep", API_INT, API_DEFAULT, API_AT(struct schedule_body, keep),
     .min = 1, .max = UPKEEP_KEEP_MAX, .value = 14,
     .help = "older ones are removed after a success"},
};
API_INPUT(native_backup_schedule_spec, "BackupScheduleSpec",
          struct schedule_body, schedule_spec_fields,
          "How often, and how many are kept.");

static void respond_schedule(struct doors_call *call)
{
    struct upkeep_backup_state state;

    workspaces_backup_state(call->doors->workspaces, &state);
    native_respond(call, 200, &native_backup_schedule, &state);
}

int native_upkeep_schedule(struct doors_call *call, struct error *err)
{
    int r = native_operators_only(call, MAKE_BACKUPS, err);

    if (r == 0)
        respond_schedule(call);
    return r;
}

int native_upkeep_set_schedule(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct schedule_body b = {0};
    int r = native_operators_only(call, MAKE_BACKUPS, err);

    if (r == 0)
        r = native_read(call, &native_backup_schedule_spec, &b, &json, err);
    if (r < 0)
        return r;
    if (b.every_s && b.every_s < UPKEEP_EVERY_MIN)
        return error_set(err, ERR_INVALID,
                         "field 'every_s' must be 0 or at least %u",
                         UPKEEP_EVERY_MIN);
    r = workspaces_backup_schedule(call->doors->workspaces,
                                   (uint32_t)b.every_s, (uint32_t)b.keep, err);
    r = note(call, "storage.backup_schedule", r, err);
    if (r == 0)
        respond_schedule(call);
    return r;
}

int native_upkeep_seal(struct doors_call *call, struct error *err)
{
    struct buf done cleanup(buf_done) = {0};
    struct json_writer w = {.out = &done};
    struct upkeep_backup_state state;
    struct report report;
    int r = native_operators_only(call, MAKE_BACKUPS, err);

    if (r < 0)
        return r;
    report = start(call, "backup");
    r = workspaces_backup_now(call->doors->workspaces, &call->actor,
                              on_named_step, &report, err);
    workspaces_backup_state(call->doors->workspaces, &state);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "directory", state.dir);
    json_write_string(&w, "name", state.name);
    json_write_int(&w, "bytes", (int64_t)state.bytes);
    json_write_close(&w, '}');
    finish(&report, r < 0 ? err : NULL, &done);
    return 0;
}
