/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks every field of every request again, as if an attacker controlled the
 * daemon: no value may exceed what SETUP allowed, and names must be single
 * path components of a plain alphabet. Runs in the warden.
 */
#include <string.h>

#include "base/mem.h"
#include "warden/warden_int.h"

#define MIB ((uint64_t)1 << 20)

static bool terminated(const char *s, size_t size)
{
    return memchr(s, 0, size) != NULL;
}

/* Lower-case letters, digits and dashes: no dot, no slash, not empty. */
static bool plain_name(const char *s, size_t size)
{
    return terminated(s, size) && *s &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s);
}

static bool absolute_path(const char *s, size_t size)
{
    return terminated(s, size) && s[0] == '/' && !strstr(s, "/../") &&
           !strchr(s, '\n');
}

#define CHECK(condition, why)                                                 \
    do {                                                                      \
        if (!(condition)) {                                                   \
            *ret_why = (why);                                                 \
            return false;                                                     \
        }                                                                     \
    } while (0)

bool warden_policy_setup(const struct warden_setup *s, const char **ret_why)
{
    CHECK(absolute_path(s->scratch_dir, sizeof(s->scratch_dir)) &&
              absolute_path(s->cache_dir, sizeof(s->cache_dir)) &&
              absolute_path(s->kernel_dir, sizeof(s->kernel_dir)),
          "a folder of the set-up is not an absolute path");
    CHECK(plain_name(s->instance, sizeof(s->instance)),
          "the instance name is not plain");
    CHECK(s->uid_base >= 65536 && s->uid_base < 0xf0000000u,
          "uid_base must be 65536 or more: sessions never share a host uid");
    CHECK(s->uid_count >= 16 && s->uid_count <= 0x0fffffffu,
          "uid_count is out of range");
    CHECK(s->spare_scratches <= 64, "spare_scratches is out of range");
    CHECK(s->max_slots >= 1 && s->max_slots <= 65536 &&
              s->max_slots + s->spare_scratches < s->uid_count,
          "max_slots is out of range");
    CHECK(s->zygote_max_age_s >= 1 && s->zygote_max_spawns >= 1,
          "a zygote must live for a second and a session");
    CHECK(s->max_memory_bytes >= 16 * MIB, "max_memory_bytes is too small");
    CHECK(s->max_scratch_bytes >= MIB, "max_scratch_bytes is too small");
    CHECK(s->max_processes >= 8 && s->max_processes <= 32768,
          "max_processes is out of range");
    CHECK(s->max_cores >= 1 && s->max_cores <= SANDBOX_CPU_WORDS * 64,
          "max_cores is out of range");
    return true;
}

bool warden_policy_runtime(const struct warden *w,
                           const struct warden_runtime *r,
                           const char **ret_why)
{
    CHECK(plain_name(r->image, sizeof(r->image)),
          "the image name is not plain");
    CHECK(r->fresh_exec <= 1, "fresh_exec is not a flag");
    CHECK(r->replaces <= w->runtime_count, "no such runtime to replace");
    return true;
}

bool warden_policy_spawn(const struct warden *w, const struct warden_spawn *s,
                         const char **ret_why)
{
    const struct warden_setup *max = &w->setup;
    const struct warden_limits *l = &s->limits;

    CHECK(s->runtime < w->runtime_count, "no such runtime");
    CHECK(plain_name(s->tier, sizeof(s->tier)),
          "the name of the isolation tier is not plain");
    CHECK(s->layers <= WARDEN_LAYERS_MAX, "layers is out of bounds");
    CHECK(s->layers == 0 || w->layers,
          "layers: this host cannot lay files below a session");
    CHECK(l->memory_bytes >= 16 * MIB &&
              l->memory_bytes <= max->max_memory_bytes,
          "memory_bytes is out of bounds");
    CHECK(l->scratch_bytes >= MIB &&
              l->scratch_bytes <= max->max_scratch_bytes,
          "scratch_bytes is out of bounds");
    CHECK(l->scratch_inodes >= 16 && l->scratch_inodes <= 10000000,
          "scratch_inodes is out of bounds");
    CHECK(l->tmp_bytes >= MIB && l->tmp_bytes <= max->max_memory_bytes,
          "tmp_bytes is out of bounds");
    CHECK(l->shm_bytes >= 4096 && l->shm_bytes <= max->max_memory_bytes,
          "shm_bytes is out of bounds");
    CHECK(l->processes >= 4 && l->processes <= max->max_processes,
          "processes is out of bounds");
    CHECK(l->cores >= 1 && l->cores <= max->max_cores,
          "cores is out of bounds");
    CHECK(l->descriptors >= 64 && l->descriptors <= 1048576,
          "descriptors is out of bounds");
    return true;
}
