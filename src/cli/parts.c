/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large file in parts (parts_send.c); the whole file's hash goes with the
 * completion. What identifies an upload is remembered in a small file of the
 * user's, so that the same command, given again after an interruption, asks
 * which parts are there and sends the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/parts.h"

#define PART_BYTES (64ull << 20)

static void parts_done(struct cli_parts *p)
{
    free(p->memory);
    json_decref(p->there);
    hash_stream_free(p->hash);
}

/* ---- what is remembered ------------------------------------------------- */

static char *memory_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char *path;

    if (state && state[0] == '/')
        path = xasprintf("%s/glovebox/uploads/", state);
    else if (home && home[0] == '/')
        path = xasprintf("%s/.local/state/glovebox/uploads/", home);
    else
        return NULL;
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        (void)mkdir(path, 0700); /* mostly there; else writing fails later */
        *p = '/';
    }
    return path;
}

/* One name for this file, as it is now, going to this place. */
static char *memory_path(const struct cli_parts *p)
{
    char *dir cleanup(mem_free) = memory_dir();
    struct buf facts cleanup(buf_done) = {0};
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];
    struct stat st;

    if (!dir || fstat(p->fd, &st) < 0)
        return NULL;
    buf_addf(&facts, "%s %s %llu %llu %lld %lld.%09ld %s", p->c->base,
             p->place->id, (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino, (long long)st.st_size,
             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, p->place->path);
    hash_sha256(facts.data, facts.len, hash);
    return xasprintf("%s%s", dir, ids_hex(hash, sizeof(hash), hex));
}

static void remember(const struct cli_parts *p)
{
    int fd cleanup(fd_close) = -1;

    if (p->memory)
        fd = open(p->memory, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    /* Without it the upload works; only going on later does not. */
    if (fd >= 0)
        (void)fd_write_all(fd, p->id, strlen(p->id));
}

/* ---- the upload --------------------------------------------------------- */

char *cli_parts_url(const struct cli_parts *p, const char *suffix)
{
    return xasprintf("/api/uploads/%s%s", p->id, suffix);
}

/* As large as we like and the service allows. */
static void choose_part(struct cli_parts *p, const json_t *upload)
{
    uint64_t most = cli_json_number(upload, "part_bytes");

    p->part = most ? MIN(PART_BYTES, most) : PART_BYTES;
}

/* One that was interrupted, if the service still has it. */
static bool take_up(struct cli_parts *p)
{
    char *id cleanup(mem_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    json_t *answer cleanup(json_unref) = NULL;
    struct error ignored;

    if (!p->memory || cli_connect_line(AT_FDCWD, p->memory, 128, &id) < 0 ||
        !ids_valid("up", id))
        return false;
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    url = cli_parts_url(p, "");
    if (cli_http_json(p->c, "GET", url, NULL, &answer, &ignored) < 0)
        return false;
    choose_part(p, answer);
    p->there = json_incref(json_object_get(answer, "parts"));
    return true;
}

static int begin(struct cli_parts *p, struct error *err)
{
    char *url cleanup(mem_free) = cli_place_url(p->place, "uploads");
    json_t *body cleanup(json_unref) = json_pack(
        "{s:s, s:I}", "path", p->place->path, "size", (json_int_t)p->size);
    json_t *answer cleanup(json_unref) = NULL;
    int r;

    if (!body)
        return error_set(err, ERR_INVALID, "the path is not valid UTF-8");
    r = cli_http_json(p->c, "POST", url, body, &answer, err);
    if (r < 0)
        return r;
    (void)snprintf(p->id, sizeof(p->id), "%s",
                   cli_json_text(answer, "id", ""));
    if (!ids_valid("up", p->id))
        return error_set(err, ERR_INTERNAL, "the service named no upload");
    choose_part(p, answer);
    remember(p);
    return 0;
}

static int complete(struct cli_parts *p, json_t **ret, struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    char *url cleanup(mem_free) = cli_parts_url(p, "/complete");
    struct buf room cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    json_t *body cleanup(json_unref) = NULL;
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];
    int r;

    hash_stream_end(take_ptr(p->hash), hash);
    body = json_pack("{s:s, s:b, s:s*, s:s*}", "sha256",
                     ids_hex(hash, sizeof(hash), hex), "executable",
                     p->what->executable, "conversation",
                     p->what->conversation, "message", p->what->message);
    if (!body)
        return error_set(err, ERR_INVALID, "an id is not valid UTF-8");
    cli_upload_headers(p->what, &room, headers);
    t.method = "POST";
    t.path = url;
    t.body = body;
    t.headers = headers;
    t.unhurried = true; /* the service joins and reads it all */
    r = cli_transfer_run(p->c, &t, err);
    return r < 0 ? r : cli_http_answer(p->c, &t, ret, err);
}

int cli_parts(struct cli *c, const struct cli_place *place, int fd,
              uint64_t size, const struct cli_upload *what, json_t **ret,
              struct error *err)
{
    struct cli_parts p cleanup(parts_done) = {.c = c,
                                              .place = place,
                                              .what = what,
                                              .fd = fd,
                                              .size = size,
                                              .hash = hash_stream_new()};
    int r = 0;

    p.memory = memory_path(&p);
    if (!take_up(&p))
        r = begin(&p, err);
    if (r == 0)
        r = cli_parts_send(&p, err);
    if (r == 0)
        r = complete(&p, ret, err);
    if (p.memory && (r == 0 || err->code == ERR_NOT_FOUND))
        (void)unlink(p.memory);
    if (r < 0 && p.id[0] && p.memory && !err->hint[0])
        return error_hint(err, "The same command goes on with the parts that "
                               "are missing.");
    return r;
}
