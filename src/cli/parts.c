/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large file in parts. Each part is hashed here, sent, and the service's
 * hash of it compared; the whole file's hash goes with the completion. What
 * identifies an upload is remembered in a small file of the user's, so that
 * the same command, given again after an interruption, asks which parts are
 * there and sends the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define PART_BYTES (64ull << 20)
#define TRIES 5
#define NAP_MS 250
#define CHUNK ((size_t)1 << 20)

struct parts {
    struct cli *c;
    const struct cli_place *place;
    const struct cli_upload *what;
    int fd;
    uint64_t size, part, sent;
    char id[ID_MAX];
    char *memory; /* the file that remembers; NULL: none */
    json_t *there;
    struct hash_stream *hash; /* of the whole */
};

static void parts_done(struct parts *p)
{
    free(p->memory);
    json_decref(p->there);
    hash_stream_free(p->hash);
}

uint64_t cli_parts_size(uint64_t size, uint64_t part, uint64_t number)
{
    uint64_t before = (number - 1) * part;

    return before < size ? MIN(part, size - before) : 0;
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
static char *memory_path(const struct parts *p)
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

static void remember(const struct parts *p)
{
    int fd cleanup(fd_close) = -1;

    if (p->memory)
        fd = open(p->memory, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    /* Without it the upload works; only going on later does not. */
    if (fd >= 0)
        (void)fd_write_all(fd, p->id, strlen(p->id));
}

/* ---- the upload --------------------------------------------------------- */

static char *url_of(const struct parts *p, const char *suffix)
{
    return xasprintf("/api/uploads/%s%s", p->id, suffix);
}

/* As large as we like and the service allows. */
static void choose_part(struct parts *p, const json_t *upload)
{
    uint64_t most = cli_json_number(upload, "part_bytes");

    p->part = most ? MIN(PART_BYTES, most) : PART_BYTES;
}

/* One that was interrupted, if the service still has it. */
static bool take_up(struct parts *p)
{
    char *id cleanup(mem_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    json_t *answer cleanup(json_unref) = NULL;
    struct error ignored;

    if (!p->memory || cli_connect_line(AT_FDCWD, p->memory, 128, &id) < 0 ||
        !ids_valid("up", id))
        return false;
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    url = url_of(p, "");
    if (cli_http_json(p->c, "GET", url, NULL, &answer, &ignored) < 0)
        return false;
    choose_part(p, answer);
    p->there = json_incref(json_object_get(answer, "parts"));
    return true;
}

static int begin(struct parts *p, struct error *err)
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

/* Into the whole's hash, and its own. */
static int hash_part(struct parts *p, uint64_t at, uint64_t len,
                     char ret[HASH_HEX], struct error *err)
{
    char *room cleanup(mem_free) = xmalloc(CHUNK);
    struct hash_stream *own = hash_stream_new();
    unsigned char hash[HASH_SIZE];
    ssize_t n = 1;

    for (uint64_t done = 0; done < len && n > 0; done += (uint64_t)n) {
        n = pread(p->fd, room, MIN((uint64_t)CHUNK, len - done),
                  (off_t)(at + done));
        if (n > 0) {
            hash_stream_add(own, room, (size_t)n);
            hash_stream_add(p->hash, room, (size_t)n);
        }
    }
    hash_stream_end(own, hash);
    (void)ids_hex(hash, sizeof(hash), ret);
    if (n < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot read the file");
    return n > 0 ? 0
                 : error_set(err, ERR_CONFLICT,
                             "the file became shorter while it was sent");
}

static bool is_there(const struct parts *p, uint64_t number, uint64_t len,
                     const char *sha256)
{
    for (size_t i = 0; i < json_array_size(p->there); i++) {
        const json_t *one = json_array_get(p->there, i);

        if (cli_json_number(one, "number") == number)
            return cli_json_number(one, "size") == len &&
                   strcmp(cli_json_text(one, "sha256", ""), sha256) == 0;
    }
    return false;
}

static int send_once(struct parts *p, uint64_t number, uint64_t len,
                     const char *sha256, bool *ret_again, struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    json_t *answer cleanup(json_unref) = NULL;
    char *line cleanup(mem_free) = xasprintf("X-Content-SHA256: %s", sha256);
    char suffix[40];
    char *url cleanup(mem_free) = NULL;
    int r;

    (void)snprintf(suffix, sizeof(suffix), "/parts/%llu",
                   (unsigned long long)number);
    url = url_of(p, suffix);
    if (lseek(p->fd, (off_t)((number - 1) * p->part), SEEK_SET) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot read the file");
    t.method = "PUT";
    t.path = url;
    t.in = p->fd;
    t.in_size = len;
    t.headers = (const char *const[]){line, NULL};
    t.label = p->what->label;
    t.bar_before = p->sent;
    t.bar_total = p->size;
    r = cli_transfer_run(p->c, &t, err);
    *ret_again = t.broken || t.status == 429 || t.status == 408;
    if (r < 0)
        return r;
    r = cli_http_answer(p->c, &t, &answer, err);
    if (r == 0 &&
        strcmp(cli_json_text(answer, "sha256", sha256), sha256) != 0) {
        *ret_again = true;
        return error_set(err, ERR_CONFLICT,
                         "the file changed while it was sent");
    }
    return r;
}

static int send_part(struct parts *p, uint64_t number, struct error *err)
{
    uint64_t len = cli_parts_size(p->size, p->part, number);
    char sha256[HASH_HEX];
    bool again = true;
    int r = hash_part(p, (number - 1) * p->part, len, sha256, err);

    if (r < 0)
        return r;
    if (!is_there(p, number, len, sha256)) {
        r = -1;
        for (int i = 0; r < 0 && again && i < TRIES; i++) {
            long ms = NAP_MS * i * i;
            struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

            (void)nanosleep(&nap, NULL);
            r = send_once(p, number, len, sha256, &again, err);
        }
    }
    p->sent += len;
    return r;
}

static int complete(struct parts *p, json_t **ret, struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    char *url cleanup(mem_free) = url_of(p, "/complete");
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
    struct parts p cleanup(parts_done) = {.c = c,
                                          .place = place,
                                          .what = what,
                                          .fd = fd,
                                          .size = size,
                                          .hash = hash_stream_new()};
    int r = 0;

    p.memory = memory_path(&p);
    if (!take_up(&p))
        r = begin(&p, err);
    for (uint64_t n = 1; r == 0 && (n - 1) * p.part < size; n++)
        r = send_part(&p, n, err);
    if (r == 0)
        r = complete(&p, ret, err);
    if (p.memory && (r == 0 || err->code == ERR_NOT_FOUND))
        (void)unlink(p.memory);
    if (r < 0 && p.id[0] && p.memory && !err->hint[0])
        return error_hint(err, "The same command goes on with the parts that "
                               "are missing.");
    return r;
}
