/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtimes known to the warden: one entry for each name and mode that a pool
 * uses, registered when its image is found in the cache. Runs in gloveboxd
 * when a sandbox is created. Never builds an image.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "conf/runtime.h"
#include "pool/pool_int.h"

/* The zygote's input is a few strings; writing them takes no JSON library. */
static void add_json_string(struct buf *b, const char *text, size_t len)
{
    buf_adds(b, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '"' || c == '\\')
            buf_addf(b, "\\%c", c);
        else if (c < 0x20)
            buf_addf(b, "\\u%04x", c);
        else
            buf_add(b, &c, 1);
    }
    buf_adds(b, "\"");
}

static int spec_memfd(const struct conf_runtime_def *def, int *ret_fd,
                      struct error *err)
{
    struct buf spec cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        memfd_create("runtime", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc;

    if (fd < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot make a memory file");

    buf_adds(&spec, "{\"preload\":[");
    for (unsigned i = 0; i < def->preload_count; i++) {
        if (i)
            buf_adds(&spec, ",");
        add_json_string(&spec, def->preload[i], strlen(def->preload[i]));
    }
    buf_adds(&spec, "],\"environment\":{");
    for (unsigned i = 0; i < def->environment_count; i++) {
        const char *pair = def->environment[i];
        size_t name = strcspn(pair, "=");
        const char *value = pair[name] ? pair + name + 1 : "";

        if (i)
            buf_adds(&spec, ",");
        add_json_string(&spec, pair, name);
        buf_adds(&spec, ":");
        add_json_string(&spec, value, strlen(value));
    }
    buf_adds(&spec, "}}");

    rc = fd_write_all(fd, spec.data, spec.len);
    if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
        rc = -errno;
    if (rc < 0)
        return error_errno(err, ERR_INTERNAL, -rc,
                           "cannot write a memory file");
    *ret_fd = take_fd(fd);
    return 0;
}

static int register_runtime(struct pools *ps, struct runtime *rt,
                            struct error *err)
{
    struct conf_runtime found cleanup(conf_runtime_done) = {0};
    int fd cleanup(fd_close) = -1;
    const char *image;
    int rc = conf_runtime_find(ps->conf->runtime_defs, ps->conf->runtime_dir,
                               rt->name, &found, err);

    if (rc < 0) {
        /* The cause names paths of this host: for the operator only. */
        if (!rt->known && rc != -ERR_NOT_FOUND)
            log_event(LOG_WARN, "runtime_definition_not_read", "runtime",
                      rt->name, "error", err->message, NULL);
        (void)error_set(err, ERR_UNAVAILABLE, "the runtime '%s' %s", rt->name,
                        rc == -ERR_NOT_FOUND ? "is not defined"
                                             : "has a faulty definition");
        return error_hint(err, "see 'glovebox runtime list'");
    }
    if (!found.built) {
        (void)error_set(err, ERR_UNAVAILABLE, "the runtime '%s' is not built",
                        rt->name);
        return error_hint(err, "run 'glovebox runtime build %s'", rt->name);
    }
    image = strrchr(found.image_path, '/');
    image = image ? image + 1 : found.image_path;
    if (rt->known && strcmp(rt->image, image) == 0)
        return 0;
    rc = spec_memfd(found.def, &fd, err);
    if (rc < 0)
        return rc;
    rc = rt->known ? warden_call_runtime_change(ps->parts.link, rt->handle,
                                                image, fd, !rt->zygote, err)
                   : warden_call_runtime(ps->parts.link, image, fd,
                                         !rt->zygote, &rt->handle, err);
    if (rc < 0)
        return error_wrap(err, "the runtime '%s' cannot be started", rt->name);
    log_event(LOG_INFO, rt->known ? "runtime_changed" : "runtime_registered",
              "runtime", rt->name, "image", image, "mode",
              rt->zygote ? "zygote" : "exec", NULL);
    rt->known = true;
    (void)snprintf(rt->image, sizeof(rt->image), "%s", image);
    return 0;
}

void runtimes_look(struct pools *ps)
{
    struct warden_status status = {0};
    struct error err;

    for (size_t i = 0; i < ps->runtime_count; i++) {
        struct runtime *rt = &ps->runtimes[i];

        mutex_lock(&rt->lock);
        /* While a definition has a fault or its image is being built, the
         * one in use stays. */
        if (rt->known)
            (void)register_runtime(ps, rt, &err);
        mutex_unlock(&rt->lock);
    }
    if (warden_call_status(ps->parts.link, &status, &err) < 0 ||
        status.image_swaps == ps->image_swaps)
        return;
    ps->image_swaps = status.image_swaps;
    pools_renew(ps);
}

int runtime_handle(struct pools *ps, struct runtime *rt, uint32_t *ret,
                   struct error *err)
{
    int rc = 0;

    mutex_lock(&rt->lock);
    if (!rt->known)
        rc = register_runtime(ps, rt, err);
    if (rc == 0)
        *ret = rt->handle;
    mutex_unlock(&rt->lock);
    return rc;
}

static struct runtime *runtime_of(struct pools *ps, const char *name,
                                  bool zygote)
{
    struct runtime *rt;

    for (size_t i = 0; i < ps->runtime_count; i++) {
        rt = &ps->runtimes[i];
        if (rt->zygote == zygote && strcmp(rt->name, name) == 0)
            return rt;
    }
    /* One per pool at most, so there is room. */
    rt = &ps->runtimes[ps->runtime_count++];
    rt->name = name;
    rt->zygote = zygote;
    mutex_init(&rt->lock); /* cannot fail on Linux */
    return rt;
}

void runtimes_init(struct pools *ps)
{
    for (size_t i = 0; i < ps->pool_count; i++)
        ps->pools[i].runtime = runtime_of(ps, ps->pools[i].conf->runtime,
                                          ps->pools[i].conf->zygote);
}

struct runtime *runtime_adopt(struct pools *ps, const char *name)
{
    struct conf_runtime found cleanup(conf_runtime_done) = {0};
    struct error ignored;
    size_t count = ps->runtime_count;
    struct runtime *rt = &ps->runtimes[count];

    if (count >= ARRAY_SIZE(ps->runtimes) ||
        conf_runtime_find(ps->conf->runtime_defs, ps->conf->runtime_dir, name,
                          &found, &ignored) < 0 ||
        !found.built || !found.def->image[0])
        return NULL;
    rt->name = xstrdup(name);
    rt->adopted = true;
    rt->zygote = ps->conf->pools[0].zygote;
    mutex_init(&rt->lock);
    ps->runtime_count = count + 1; /* whole from here on */
    return rt;
}

void runtimes_done(struct pools *ps)
{
    for (size_t i = 0; i < ps->runtime_count; i++) {
        mutex_done(&ps->runtimes[i].lock);
        if (ps->runtimes[i].adopted)
            free((char *)(uintptr_t)ps->runtimes[i].name);
    }
}

struct runtime *runtime_find(struct pools *ps, struct pool *pool,
                             const char *name)
{
    if (!name || strcmp(name, pool->conf->runtime) == 0)
        return pool->runtime;
    for (size_t i = 0; i < ps->runtime_count; i++)
        if (strcmp(ps->runtimes[i].name, name) == 0)
            return &ps->runtimes[i];
    return NULL;
}

const char *runtime_name(const struct runtime *rt)
{
    return rt->name;
}

bool runtime_forks(const struct runtime *rt)
{
    return rt->zygote;
}

static uint32_t languages_of(const struct conf *conf, const char *name)
{
    struct conf_runtime found cleanup(conf_runtime_done) = {0};
    struct error ignored;

    if (conf_runtime_find(conf->runtime_defs, conf->runtime_dir, name, &found,
                          &ignored) < 0 ||
        !found.built || !found.root_path)
        return 0;
    return language_offered(found.root_path);
}

/* Looked for once: the image of a running service is replaced as a whole, with
 * a new runtime at the warden. */
uint32_t runtime_languages(const struct conf *conf, struct runtime *rt)
{
    uint32_t set = atomic_load(&rt->languages);

    if (!set) {
        set = languages_of(conf, rt->name);
        atomic_store(&rt->languages, set);
    }
    return set;
}

#define WITH_MAX 3u /* names in a message */

char *runtime_with_language(const struct conf *conf, enum exec_language which)
{
    char **names cleanup(conf_runtime_names_free) = NULL;
    struct buf out = {0};
    struct error ignored;
    unsigned count = 0;
    size_t len;

    if (conf_runtime_names(conf->runtime_defs, conf->runtime_dir, &names,
                           &ignored) < 0)
        return NULL;
    for (char **name = names; *name && count < WITH_MAX; name++)
        if (languages_of(conf, *name) & LANGUAGE_BIT(which))
            buf_addf(&out, "%s%s", count++ ? " or " : "", *name);
    return count ? buf_take(&out, &len) : NULL;
}

void runtime_set_up(struct runtime *rt)
{
    atomic_store(&rt->up, true);
}
