/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed backups by a schedule. A thread of the daemon makes them; a request
 * can make one, too, on its worker. One at a time.
 *
 * DIR/backup.schedule has the schedule and how the last attempt ended, so that
 * a restart neither forgets nor repeats a backup. A backup is written as
 * NAME.partial, synced and renamed; only then are old ones removed. A failure
 * removes what it wrote, keeps every older backup, and is repeated after
 * RETRY_S; state, metrics, log and audit trail report it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/size.h"
#include "upkeep/backup_int.h"
#include "upkeep/upkeep_int.h"

#define FILE_NAME "backup.schedule"
#define FILE_NEW FILE_NAME ".new"
#define FILE_HEAD "glovebox backup schedule 1\n"
#define FILE_MAX 4096u
#define RETRY_S 900u
#define LOOK_MS 60000u /* the wall clock may be set meanwhile */
#define NAME_PREFIX "glovebox-"
#define NAME_SUFFIX ".backup"
#define PARTIAL ".partial"
#define NAME_LEN (sizeof("glovebox-20260131T235959Z.backup") - 1)

/* ---- the file ----------------------------------------------------------- */

static int save_state(struct upkeep *u, const struct upkeep_backup_state *s,
                      struct error *err)
{
    int dir cleanup(fd_close) =
        open(u->settings.data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd cleanup(fd_close) = -1;
    char *text cleanup(mem_free) =
        xasprintf(FILE_HEAD "every_s %" PRIu32 "\nkeep %" PRIu32
                            "\nattempted_ms %" PRId64 "\nsucceeded_ms %" PRId64
                            "\nfailures %" PRIu64 "\nbytes %" PRIu64
                            "\nname %s\nerror %s\n",
                  s->every_s, s->keep, s->attempted_at_ms, s->succeeded_at_ms,
                  s->failures, s->bytes, s->name, s->error);
    int r = dir < 0 ? -errno : 0;

    if (r == 0) {
        fd = openat(dir, FILE_NEW,
                    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                    0600);
        r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    }
    if (r == 0 &&
        (fsync(fd) < 0 || renameat(dir, FILE_NEW, dir, FILE_NAME) < 0 ||
         fsync(dir) < 0))
        r = -errno;
    return r < 0 ? backup_copy_failed(-r, "write " FILE_NAME, err) : 0;
}

static void copy_line(char *ret, size_t size, const char *text, size_t len)
{
    (void)snprintf(ret, size, "%.*s", (int)MIN(len, size - 1), text);
}

/* One "member value" line. Unknown members are of a newer version. */
static void read_line(struct upkeep_backup_state *s, const char *line,
                      size_t len)
{
    const char *value = memchr(line, ' ', len);
    size_t name_len = value ? (size_t)(value - line) : 0;
    const struct {
        const char *name;
        int64_t *i64;
        uint64_t *u64;
        uint32_t *u32;
        char *text;
        size_t size;
    } members[] = {
        {"every_s", .u32 = &s->every_s},
        {"keep", .u32 = &s->keep},
        {"attempted_ms", .i64 = &s->attempted_at_ms},
        {"succeeded_ms", .i64 = &s->succeeded_at_ms},
        {"failures", .u64 = &s->failures},
        {"bytes", .u64 = &s->bytes},
        {"name", .text = s->name, .size = sizeof(s->name)},
        {"error", .text = s->error, .size = sizeof(s->error)},
    };

    for (size_t i = 0; value && i < ARRAY_SIZE(members); i++) {
        if (strlen(members[i].name) != name_len ||
            memcmp(members[i].name, line, name_len) != 0)
            continue;
        if (members[i].text)
            copy_line(members[i].text, members[i].size, value + 1,
                      len - name_len - 1);
        else if (members[i].i64)
            *members[i].i64 = (int64_t)strtoll(value, NULL, 10);
        else if (members[i].u64)
            *members[i].u64 = strtoull(value, NULL, 10);
        else
            *members[i].u32 = (uint32_t)strtoul(value, NULL, 10);
    }
}

static int load_state(struct upkeep *u, struct error *err)
{
    struct upkeep_backup_state *s = &u->backups.state;
    char *path cleanup(mem_free) =
        xasprintf("%s/" FILE_NAME, u->settings.data_dir);
    char *text cleanup(mem_free) = NULL;
    size_t len;
    int r = fd_read_file(AT_FDCWD, path, FILE_MAX, &text, &len);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot read %s", path);
    if (strncmp(text, FILE_HEAD, strlen(FILE_HEAD)) != 0) {
        (void)error_set(err, ERR_CORRUPT,
                        "%s is damaged, or of a newer "
                        "version",
                        path);
        return error_hint(err, "remove it and set the schedule again: "
                               "glovebox backup --every 24h --keep 14");
    }
    for (char *at = text + strlen(FILE_HEAD); *at;) {
        size_t n = strcspn(at, "\n");

        read_line(s, at, n);
        at += n + (at[n] == '\n');
    }
    if (s->every_s &&
        (s->every_s < UPKEEP_EVERY_MIN || s->every_s > UPKEEP_EVERY_MAX ||
         s->keep < 1 || s->keep > UPKEEP_KEEP_MAX))
        return error_set(err, ERR_CORRUPT, "%s has values out of range", path);
    return 0;
}

/* ---- when --------------------------------------------------------------- */

int64_t upkeep_schedule_next(const struct upkeep_backup_state *s,
                             int64_t now_ms)
{
    int64_t every_ms = (int64_t)s->every_s * 1000;
    int64_t retry_ms = MIN(every_ms, (int64_t)RETRY_S * 1000);
    int64_t next;

    if (!s->every_s)
        return 0;
    if (s->failures)
        next = s->attempted_at_ms + retry_ms;
    else if (s->succeeded_at_ms)
        next = s->succeeded_at_ms + every_ms;
    else
        next = now_ms;
    /* A clock that was set back does not postpone it. */
    return MIN(next, now_ms + every_ms);
}

/* ---- files of the folder ------------------------------------------------ */

static bool is_backup_name(const char *name)
{
    size_t len = strlen(name), digits = strlen(NAME_PREFIX);

    if (len != NAME_LEN || strncmp(name, NAME_PREFIX, digits) != 0 ||
        strcmp(name + len - strlen(NAME_SUFFIX), NAME_SUFFIX) != 0)
        return false;
    for (size_t i = digits; i < digits + 16; i++) {
        char want = i == digits + 8 ? 'T' : i == digits + 15 ? 'Z' : '0';

        if (want == '0' ? name[i] < '0' || name[i] > '9' : name[i] != want)
            return false;
    }
    return true;
}

static bool is_partial_name(const char *name)
{
    char base[NAME_LEN + 1];
    size_t len = strlen(name);

    if (len != NAME_LEN + strlen(PARTIAL) ||
        strcmp(name + NAME_LEN, PARTIAL) != 0)
        return false;
    (void)snprintf(base, sizeof(base), "%.*s", (int)NAME_LEN, name);
    return is_backup_name(base);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Removes unfinished ones, and of the others all but the newest `keep`
 * (0: all stay). Returns how many there are. */
static uint64_t tidy_folder(int dir, uint32_t keep)
{
    int own = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list cleanup(fd_closedir) = own < 0 ? NULL : fdopendir(own);
    struct dirent *entry;
    char **names = NULL;
    size_t count = 0, first = 0;

    while (list && (entry = readdir(list))) {
        if (is_partial_name(entry->d_name))
            (void)unlinkat(dir, entry->d_name, 0); /* tried again next time */
        if (!is_backup_name(entry->d_name))
            continue;
        names = xrealloc(names, (count + 1) * sizeof(*names));
        names[count++] = xstrdup(entry->d_name);
    }
    if (count)
        qsort(names, count, sizeof(*names), compare_names);
    for (; keep && count - first > keep; first++)
        if (unlinkat(dir, names[first], 0) < 0)
            log_event(LOG_WARN, "backup_not_removed", "name", names[first],
                      "error", strerrordesc_np(errno), NULL);
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return count - first;
}

static int open_folder(struct upkeep *u, int *ret, struct error *err)
{
    const char *path = u->settings.backup_dir;

    if (!path)
        return error_set(err, ERR_INVALID, "backup_dir is not set");
    (void)mkdir(path, 0700); /* opening it tells what is wrong */
    *ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret >= 0 && faccessat(*ret, ".", W_OK | X_OK, AT_EACCESS) == 0)
        return 0;
    (void)error_errno(err, ERR_INVALID, errno,
                      "cannot write to the folder of backups, %s", path);
    fd_close(ret);
    return error_hint(err, "make it for the service's account, for example: "
                           "install -d -o glovebox -g glovebox -m 700 DIR; "
                           "under systemd, ReadWritePaths= must list it");
}

/* A backup does not take the space that deletes and the trail need. */
static int check_room(struct upkeep *u, int dir, struct error *err)
{
    char *db cleanup(mem_free) =
        xasprintf("%s/" BACKUP_DB, u->settings.data_dir);
    uint64_t bytes = 0, count = 0, need, room;
    struct stat ours, theirs, store;
    char need_text[16], room_text[16];
    struct statvfs fs;

    blobs_usage(u->blobs, &bytes, &count);
    if (stat(db, &store) == 0)
        bytes += (uint64_t)store.st_size;
    need = bytes + bytes / 1024 + (1u << 20); /* tags and records */
    if (fstatvfs(dir, &fs) < 0 || fstat(dir, &theirs) < 0 ||
        stat(u->settings.data_dir, &ours) < 0)
        return backup_copy_failed(errno, "look at the folder of backups", err);
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (ours.st_dev == theirs.st_dev)
        need += u->settings.backup_free_bytes;
    if (need <= room)
        return 0;
    (void)error_set(err, ERR_SPACE,
                    "no room for a backup: it may need %s, and %s are free",
                    size_format(need, need_text),
                    size_format(room, room_text));
    return error_hint(err, "free space in the folder of backups, or keep "
                           "fewer of them");
}

/* ---- one backup --------------------------------------------------------- */

static int read_secret(struct upkeep *u, struct upkeep_secret *ret,
                       struct error *err)
{
    const char *file = u->settings.backup_key_file;

    return file[0] ? backup_key_read(file, &ret->text, &ret->len, err)
                   : backup_key_own(u->settings.data_dir, &ret->text,
                                    &ret->len, err);
}

/* By the time, in whole seconds; the next free one. */
static void make_name(int dir, char ret[NAME_LEN + 1])
{
    time_t at = (time_t)(clock_real_ms() / 1000);
    struct tm tm;

    do {
        (void)gmtime_r(&at, &tm);
        (void)strftime(ret, NAME_LEN + 1, "glovebox-%Y%m%dT%H%M%SZ.backup",
                       &tm);
        at++;
    } while (faccessat(dir, ret, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

/* The file, under its name only when it is whole and on disk. */
static int write_backup(struct upkeep *u, int dir,
                        struct backup_progress progress,
                        struct upkeep_backup_state *done, struct error *err)
{
    struct upkeep_secret secret cleanup(upkeep_secret_done) = {0};
    char partial[sizeof(done->name) + sizeof(PARTIAL)];
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r = read_secret(u, &secret, err);

    if (r < 0)
        return r;
    make_name(dir, done->name);
    (void)snprintf(partial, sizeof(partial), "%s" PARTIAL, done->name);
    fd = openat(dir, partial,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return backup_copy_failed(errno, "make the file of the backup", err);
    r = backup_sealed(u, fd, secret.text, secret.len, progress, err);
    if (r == 0 && fstat(fd, &st) == 0)
        done->bytes = (uint64_t)st.st_size;
    if (r == 0) {
        r = fd_rename_new(dir, partial, done->name);
        if (r == 0 && fsync(dir) < 0)
            r = -errno;
        if (r < 0)
            r = backup_copy_failed(-r, "name the backup", err);
    }
    if (r < 0)
        (void)unlinkat(dir, partial, 0);
    return r;
}

static int make_backup(struct upkeep *u, struct backup_progress progress,
                       struct upkeep_backup_state *done, struct error *err)
{
    int dir cleanup(fd_close) = -1;
    int r = open_folder(u, &dir, err);

    if (r < 0)
        return r;
    done->kept = tidy_folder(dir, 0);
    r = check_room(u, dir, err);
    if (r == 0)
        r = write_backup(u, dir, progress, done, err);
    if (r == 0)
        done->kept = tidy_folder(dir, done->every_s ? done->keep : 0);
    return r;
}

static int begin(struct upkeep *u, struct upkeep_backup_state *ret,
                 struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->backups.lock);
    struct upkeep_backup_state *s = &u->backups.state;

    if (s->running) {
        (void)error_set(err, ERR_CONFLICT, "a backup is being made");
        return error_hint(err, "wait for it; glovebox backup --status shows "
                               "it");
    }
    s->running = true;
    s->attempted_at_ms = clock_real_ms();
    *ret = *s;
    return 0;
}

/* The schedule may have been changed meanwhile and stays. */
static void end(struct upkeep *u, const struct upkeep_backup_state *done,
                int r, const struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->backups.lock);
    struct upkeep_backup_state *s = &u->backups.state;
    struct error unsaved;

    s->running = false;
    s->kept = done->kept;
    if (r == 0) {
        s->succeeded_at_ms = clock_real_ms();
        s->failures = 0;
        s->made++;
        s->bytes = done->bytes;
        memcpy(s->name, done->name, sizeof(s->name));
        s->error[0] = '\0';
    } else {
        s->failures++;
        s->failed++;
        (void)snprintf(s->error, sizeof(s->error), "%s", err->message);
        for (char *at = s->error; *at; at++)
            if ((unsigned char)*at < ' ')
                *at = ' ';
    }
    if (save_state(u, s, &unsaved) < 0)
        log_event(LOG_WARN, "backup_state_not_saved", "error", unsaved.message,
                  NULL);
}

static int note(struct upkeep *u, const struct actor *who,
                const struct upkeep_backup_state *done, int r,
                struct error *err)
{
    struct error failed;
    int n = audit_note(u->audit, who,
                       &(struct audit_event){
                           .action = "storage.backup",
                           .path = r < 0 ? NULL : done->name,
                           .result = r < 0 ? error_code_name(err->code) : NULL,
                           .detail = r < 0 ? err->message : NULL,
                       },
                       &failed);

    if (n < 0 && r == 0) {
        *err = failed;
        return n;
    }
    return r;
}

int upkeep_backup_now(struct upkeep *u, const struct actor *who,
                      void (*progress)(void *ctx, const char *what,
                                       uint64_t done, uint64_t total),
                      void *ctx, struct error *err)
{
    struct upkeep_backup_state done;
    char bytes[24];
    int r = begin(u, &done, err);

    if (r < 0)
        return r;
    r = make_backup(u, (struct backup_progress){.fn = progress, .ctx = ctx},
                    &done, err);
    if (r < 0 && upkeep_wait(u, 0)) {
        /* The next start makes it: nothing has failed. */
        struct mutex *held cleanup(mutex_release) =
            mutex_hold(&u->backups.lock);

        u->backups.state.running = false;
        return r;
    }
    r = note(u, who, &done, r, err);
    end(u, &done, r, err);
    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, done.bytes);
    if (r < 0)
        log_event(LOG_ERROR, "backup_failed", "error", err->message, "hint",
                  err->hint, NULL);
    else
        log_event(LOG_INFO, "backup_made", "name", done.name, "bytes", bytes,
                  NULL);
    return r;
}

/* ---- the thread --------------------------------------------------------- */

static uint64_t wait_ms(struct upkeep *u)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->backups.lock);
    int64_t now = clock_real_ms();
    int64_t next = upkeep_schedule_next(&u->backups.state, now);

    if (!next || u->backups.state.running)
        return LOOK_MS;
    return next <= now ? 0 : MIN((uint64_t)(next - now), LOOK_MS);
}

static void schedule_main(void *arg)
{
    struct upkeep *u = arg;
    uint64_t ms;

    while (worker_wait(&u->backups.worker, MAX(ms = wait_ms(u), 1ull))) {
        struct error err;

        if (wait_ms(u) == 0)
            (void)upkeep_backup_now(u, NULL, NULL, NULL, &err);
    }
}

int upkeep_schedule_open(struct upkeep *u, struct error *err)
{
    int r;

    if (!u->settings.backup_dir)
        return 0;
    r = load_state(u, err);
    if (r == 0) {
        int dir cleanup(fd_close) =
            open(u->settings.backup_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        u->backups.state.kept = dir < 0 ? 0 : tidy_folder(dir, 0);
        r = worker_start(&u->backups.worker, "backups", schedule_main, u, err);
    }
    return r;
}

void upkeep_schedule_close(struct upkeep *u)
{
    worker_stop(&u->backups.worker);
    worker_done(&u->backups.worker);
    mutex_done(&u->backups.lock);
}

/* ---- for the doors ------------------------------------------------------ */

void upkeep_backup_state(struct upkeep *u, struct upkeep_backup_state *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->backups.lock);

    *ret = u->backups.state;
    ret->next_at_ms = upkeep_schedule_next(ret, clock_real_ms());
    ret->dir = u->settings.backup_dir;
    ret->key_file = u->settings.backup_key_file;
}

int upkeep_backup_schedule(struct upkeep *u, uint32_t every_s, uint32_t keep,
                           struct error *err)
{
    int dir cleanup(fd_close) = -1;
    int r = every_s ? open_folder(u, &dir, err) : 0;

    if (r == 0) {
        struct upkeep_secret secret cleanup(upkeep_secret_done) = {0};

        r = every_s ? read_secret(u, &secret, err) : 0;
    }
    if (r == 0) {
        struct mutex *held cleanup(mutex_release) =
            mutex_hold(&u->backups.lock);
        struct upkeep_backup_state next = u->backups.state;

        next.every_s = every_s;
        next.keep = every_s ? keep : 0;
        if (!every_s) {
            next.failures = 0;
            next.error[0] = '\0';
        }
        r = save_state(u, &next, err);
        if (r == 0)
            u->backups.state = next;
    }
    if (r == 0)
        worker_wake(&u->backups.worker);
    return r;
}
