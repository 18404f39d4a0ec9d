/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox runtime`: builds, lists, shows and removes runtime images. Works
 * on this machine's cache without a service. Building is the job of
 * tools/runtime-build, which gets the plan on standard input; this file never
 * runs anything of an image.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/runtime.h"
#include "conf/runtime.h"

extern char **environ;

static void places_done(struct cli_runtimes *p)
{
    free(p->defs);
    free(p->cache);
}

static void places_find(struct cli_runtimes *p)
{
    p->defs = p->defs_flag ? xstrdup(p->defs_flag) : conf_runtime_defs_dir();
    p->cache =
        p->cache_flag ? xstrdup(p->cache_flag) : conf_runtime_cache_dir();
}

/* --- build ------------------------------------------------------------- */

/* The plan as a file of its own, for the builder's standard input. */
static int plan_open(const struct conf_runtime *rt, int *ret_fd,
                     struct error *err)
{
    size_t len;
    char *plan cleanup(mem_free) = conf_runtime_plan(rt->def, &len);
    int fd cleanup(fd_close) = memfd_create("plan", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, plan, len);

    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot hand on the plan");
    *ret_fd = take_fd(fd);
    return 0;
}

/* Signals that this program blocks must reach the builder. */
static int builder_start(char *const argv[], int plan, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, plan, STDIN_FILENO);
    r = posix_spawn(ret_pid, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return -r;
}

static int builder_run(const struct cli_runtimes *p,
                       const struct conf_runtime *rt, struct error *err)
{
    char *builder cleanup(mem_free) = NULL;
    int plan cleanup(fd_close) = -1;
    pid_t pid;
    int status, r;

    r = conf_runtime_builder(&builder, err);
    if (r < 0)
        return r;
    r = plan_open(rt, &plan, err);
    if (r < 0)
        return r;
    r = builder_start((char *[]){builder, (char *)rt->name, (char *)rt->hash,
                                 p->cache, rt->definition_path,
                                 p->force ? (char *)"--force" : NULL, NULL},
                      plan, &pid);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot start %s", builder);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, ERR_INTERNAL, errno, "waitpid");
    if (status != 0)
        return error_set(err, ERR_INTERNAL, "%s was not built", rt->name);
    return 0;
}

static int verb_build(struct cli *c, const struct cli_words *words, void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    json_t *object cleanup(json_unref) = NULL;
    struct cli_runtimes *p = arg;
    struct error err = {0};

    if (conf_runtime_find(p->defs, p->cache, words->items[0], &rt, &err) < 0 ||
        builder_run(p, &rt, &err) < 0)
        return cli_fail(c, &err);
    rt.built = true;
    object = cli_runtime_json(&rt);
    if (c->json)
        cli_print_json(object);
    else
        cli_runtime_missing(json_object_get(object, "manifest"), stderr);
    return CLI_EXIT_OK;
}

/* --- remove ------------------------------------------------------------ */

static int verb_remove(struct cli *c, const struct cli_words *words, void *arg)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    const char *name = words->items[0];
    struct cli_runtimes *p = arg;
    struct error err = {0};
    size_t count;

    if (!conf_runtime_name_valid(name))
        return cli_usage_error(c, "'%s' is not a runtime's name", name);
    /* The image of a definition that is gone can still be removed. */
    if (p->stale &&
        conf_runtime_find(p->defs, p->cache, name, &rt, &err) < 0 &&
        err.code != ERR_NOT_FOUND)
        return cli_fail(c, &err);
    if (cli_runtime_remove(p, name, p->stale ? rt.hash : NULL, &count, &err) <
        0)
        return cli_fail(c, &err);
    if (c->json) {
        json_t *answer cleanup(json_unref) = json_pack(
            "{s:s, s:I}", "name", name, "removed", (json_int_t)count);
        cli_print_json(answer);
    } else if (count == 0) {
        fprintf(stderr, "%s has no %simage in %s\n", name,
                p->stale ? "outdated " : "", p->cache);
    } else {
        fprintf(stderr, "removed %zu image%s of %s\n", count,
                count == 1 ? "" : "s", name);
    }
    return CLI_EXIT_OK;
}

/* --- The command ------------------------------------------------------- */

static const char notes[] =
    "A runtime is a folder with a runtime.yaml: suite, packages, fonts,\n"
    "preload, environment, files. `build` makes its image of Debian's\n"
    "packages, from the archive this machine's own apt uses, and does nothing\n"
    "when the image is there already. Sessions running on an image break when\n"
    "it is removed or rebuilt by force: stop the service first.\n";

int cli_runtime(int argc, char **argv)
{
    static const struct cli_subverb verbs[] = {
        {"list", 0, 0, cli_runtime_list},
        {"show", 1, 1, cli_runtime_show},
        {"build", 1, 1, verb_build},
        {"remove", 1, 1, verb_remove},
    };
    struct cli_runtimes p cleanup(places_done) = {0};
    const struct cli_opt table[] = {
        {"cache", 0, CLI_OPT_TEXT, &p.cache_flag, "DIR",
         "where images are (GLOVEBOX_RUNTIME_DIR)", NULL},
        {"defs", 0, CLI_OPT_TEXT, &p.defs_flag, "DIR",
         "where definitions are (GLOVEBOX_RUNTIME_DEFS)", NULL},
        {"force", 0, CLI_OPT_FLAG, &p.force, NULL,
         "build: again, with today's packages", "build"},
        {"stale", 0, CLI_OPT_FLAG, &p.stale, NULL,
         "remove: only images of earlier definitions", "remove"},
    };
    const struct cli_opts opts = {table, ARRAY_SIZE(table), notes};
    struct cli c cleanup(cli_done) = {.signal_fd = -1};
    struct cli_words words = {.count = 0};
    int status;

    cli_init(&c, "runtime");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    places_find(&p);
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &p);
}
