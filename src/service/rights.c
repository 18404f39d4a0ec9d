/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the daemon is and what it owns: the walls the operator does without,
 * the account, the data directory, and giving up root. Runs in gloveboxd
 * before it reads a byte from outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "conf/descriptors.h"
#include "service/service_int.h"
#include "wire/warden_msg.h"

static const struct {
    const char *name;
    uint32_t bit;
} walls[] = {
    {"uids", WARDEN_WALL_UIDS},
    {"memory", WARDEN_WALL_MEMORY},
    {"pids", WARDEN_WALL_PIDS},
    {"cpu", WARDEN_WALL_CPU},
    {"scratch", WARDEN_WALL_SCRATCH},
    {"landlock", WARDEN_WALL_LANDLOCK},
    {"seccomp", WARDEN_WALL_SECCOMP},
    {"userns", WARDEN_WALL_USERNS},
    {"service_user", WARDEN_WALL_SERVICE_USER},
};

/* accept_missing_walls: names with commas or spaces between. */
int service_rights_walls(struct service *s, struct error *err)
{
    const char *text = s->conf->accept_missing_walls;

    s->accepted = 0;
    while (*(text += strspn(text, ", "))) {
        size_t len = strcspn(text, ", "), i;

        for (i = 0; i < ARRAY_SIZE(walls); i++)
            if (strlen(walls[i].name) == len &&
                memcmp(walls[i].name, text, len) == 0)
                break;
        if (i == ARRAY_SIZE(walls)) {
            (void)error_set(err, ERR_INVALID,
                            "accept_missing_walls: no wall '%.*s'",
                            (int)MIN(len, (size_t)40), text);
            return error_hint(err, "Walls are uids, memory, pids, cpu, "
                                   "scratch, landlock, seccomp, userns and "
                                   "service_user.");
        }
        s->accepted |= walls[i].bit;
        text += len;
    }
    return 0;
}

/* Root becomes the service's account; an ordinary user stays. */
int service_rights_user(struct service *s, struct error *err)
{
    int r;

    s->user = (struct priv_user){geteuid(), getegid()};
    if (geteuid() != 0)
        return 0;
    r = priv_find(s->conf->service_user, &s->user);
    s->drop = r == 0;
    if (r == 0 || (s->accepted & WARDEN_WALL_SERVICE_USER))
        return 0;
    (void)error_errno(err, ERR_INVALID, -r, "cannot run as the account '%s'",
                      s->conf->service_user);
    return error_hint(err,
                      "Make it with: useradd --system --no-create-home "
                      "%s",
                      s->conf->service_user);
}

int service_rights_data(struct service *s, struct error *err)
{
    const char *dir = s->conf->data_dir;
    int r = priv_claim_dir(dir, &s->user, &s->data_fd);

    if (r == -ENOTEMPTY)
        return error_set(err, ERR_INVALID,
                         "%s exists, is not empty and not a data directory "
                         "of ours (owner, mode 0700)",
                         dir);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r,
                           "cannot use %s as data directory", dir);
    s->lock_fd = openat(s->data_fd, "lock",
                        O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot lock %s", dir);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, ERR_CONFLICT,
                         "another gloveboxd serves %s already", dir);
    if (mkdirat(s->data_fd, "scratch", 0700) < 0 && errno != EEXIST)
        return error_errno(err, ERR_INVALID, errno, "cannot make %s/scratch",
                           dir);
    return 0;
}

/* A session that got no descriptor would fail somewhere in the middle, and
 * so would everything else. So no more are allowed than have room. */
int service_rights_descriptors(struct conf *conf, struct error *err)
{
    struct rlimit files;
    uint64_t fit;
    char from[16], to[24], limit[24], needed[24];

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot read the limit of open files");
    fit = conf_descriptors_sessions(conf, files.rlim_max);
    (void)snprintf(needed, sizeof(needed), "%" PRIu64,
                   conf_descriptors_needed(conf));
    if (fit == 0) {
        (void)error_set(err, ERR_INVALID,
                        "the limit of %" PRIu64
                        " open files has no room for sessions beside those "
                        "kept ready",
                        (uint64_t)files.rlim_max);
        return error_hint(err,
                          "Raise it to %s (LimitNOFILE= of the unit, ulimit "
                          "-Hn of a shell), or set `ready` lower.",
                          needed);
    }
    if (fit >= conf->max_sessions)
        return 0;
    (void)snprintf(from, sizeof(from), "%u", conf->max_sessions);
    (void)snprintf(to, sizeof(to), "%" PRIu64, fit);
    (void)snprintf(limit, sizeof(limit), "%" PRIu64, (uint64_t)files.rlim_max);
    log_event(LOG_WARN, "max_sessions_lowered", "from", from, "to", to,
              "open_files_limit", limit, "open_files_needed", needed, NULL);
    conf->max_sessions = (uint32_t)fit;
    return 0;
}

const char *const service_public_names[SERVICE_PUBLIC_FILES] = {
    [SERVICE_ENDPOINT] = "endpoint",
    [SERVICE_PIN] = "endpoint.pin",
};

/* The data directory is locked, so at most one service on the machine gets
 * here: services on other data directories never write these files. */
void service_rights_publish(struct service *s)
{
    if (geteuid() != 0 || !conf_is_system_data(s->conf->data_dir))
        return;
    for (size_t i = 0; i < SERVICE_PUBLIC_FILES; i++) {
        char *path cleanup(mem_free) =
            xasprintf(SERVICE_RUN_DIR "/%s", service_public_names[i]);
        int fd cleanup(fd_close) =
            open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

        if (fd < 0 || fchown(fd, s->user.uid, s->user.gid) < 0 ||
            fchmod(fd, 0644) < 0 || ftruncate(fd, 0) < 0) {
            log_event(LOG_WARN, "endpoint_not_published", "file",
                      service_public_names[i], "error", strerrordesc_np(errno),
                      NULL);
            return;
        }
        s->public_fds[i] = take_fd(fd);
    }
}

void service_rights_definitions(struct service *s)
{
    if (s->drop)
        s->defs_fd =
            open(s->conf->runtime_defs, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* From root with every capability to the service's account with none; what
 * comes after reads bytes from outside. */
int service_rights_drop(struct service *s, struct error *err)
{
    struct rlimit files;
    int r;

    /* As many as we may have; service_rights_descriptors has counted on it. */
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    fd_reserve_set(conf_descriptors_reserve(s->conf, files.rlim_max));
    if (geteuid() == 0 && !s->drop) {
        log_event(LOG_WARN, "running_as_root", NULL);
        return 0;
    }
    r = priv_drop(&s->user);
    return r < 0
               ? error_errno(err, ERR_INTERNAL, -r, "cannot give up privilege")
               : 0;
}

void service_rights_definitions_keep(struct service *s, struct conf *conf)
{
    char *open_path cleanup(mem_free) = NULL;

    if (s->defs_fd < 0)
        return;
    open_path = xasprintf("/proc/self/fd/%d", s->defs_fd);
    if (access(conf->runtime_defs, R_OK | X_OK) == 0 ||
        access(open_path, R_OK | X_OK) < 0) {
        fd_close(&s->defs_fd);
        return;
    }
    log_event(LOG_INFO, "runtime_defs_kept_open", "file", conf->runtime_defs,
              NULL);
    conf->runtime_defs = s->defs_path = take_ptr(open_path);
}
