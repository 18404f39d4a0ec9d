/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads a file, in one request if the service accepts its size, else in
 * parts. Standard input is one request, however long.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cli/common.h"

#define ASK_BYTES (1ull << 20) /* above, the limit is asked for first */

/* One line of room; lines are apart by NUL. */
static void add_line(struct buf *room, size_t *starts, size_t *count,
                     const char *name, const char *value)
{
    if (!value || *count == CLI_UPLOAD_HEADERS - 1)
        return;
    starts[(*count)++] = room->len;
    buf_addf(room, "%s: %s", name, value);
    buf_add(room, "", 1);
}

void cli_upload_headers(const struct cli_upload *what, struct buf *room,
                        const char *ret[CLI_UPLOAD_HEADERS])
{
    size_t starts[CLI_UPLOAD_HEADERS];
    size_t count = 0;

    add_line(room, starts, &count, "If-Match", what->if_match);
    add_line(room, starts, &count, "If-None-Match", what->create ? "*" : NULL);
    add_line(room, starts, &count, "X-Glovebox-Lock", what->lock);
    for (size_t i = 0; i < count; i++)
        ret[i] = room->data + starts[i];
    ret[count] = NULL;
}

static int upload_whole(struct cli *c, const struct cli_place *place, int fd,
                        uint64_t size, const struct cli_upload *what,
                        json_t **ret, struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    char *base cleanup(mem_free) = cli_place_file_url(place);
    struct buf url cleanup(buf_done) = {0};
    struct buf room cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    int r;

    buf_adds(&url, base);
    if (place->kind == CLI_PLACE_WORKSPACE) {
        cli_http_query(&url, "conversation", what->conversation);
        cli_http_query(&url, "message", what->message);
        if (strcmp(what->local, "-") != 0)
            cli_http_query(&url, "executable",
                           what->executable ? "true" : "false");
    }
    cli_upload_headers(what, &room, headers);
    t.method = "PUT";
    t.path = url.data;
    t.in = fd;
    t.in_size = size;
    t.headers = headers;
    t.label = what->label;
    r = cli_transfer_run(c, &t, err);
    return r < 0 ? r : cli_http_answer(c, &t, ret, err);
}

/* Does the service take it in one piece? Unknown counts as yes. */
static bool fits_one_request(struct cli *c, uint64_t size)
{
    json_t *limits cleanup(json_unref) = NULL;
    struct error ignored;

    if (!c->upload_bytes &&
        cli_http_json(c, "GET", "/api/limits", NULL, &limits, &ignored) == 0)
        c->upload_bytes = cli_json_number(limits, "upload_bytes");
    return !c->upload_bytes || size <= c->upload_bytes;
}

static int upload_fd(struct cli *c, const struct cli_place *place, int fd,
                     uint64_t size, const struct cli_upload *what,
                     json_t **ret, struct error *err)
{
    bool known = size != UINT64_MAX;
    int r = 0;

    if (size <= ASK_BYTES || !known || fits_one_request(c, size)) {
        r = upload_whole(c, place, fd, size, what, ret, err);
        /* A refusal may be lost when it closes the connection under the
         * upload: then a broken one means the same. */
        if (r == 0 || c->interrupted ||
            (err->code != ERR_TOO_LARGE && err->code != ERR_UNAVAILABLE) ||
            !known || fits_one_request(c, size))
            return r;
    }
    if (place->kind == CLI_PLACE_WORKSPACE)
        return cli_multipart_upload(c, place, fd, size, what, ret, err);
    (void)error_set(err, ERR_TOO_LARGE,
                    "the file is larger than the service accepts at once");
    return error_hint(err, "Store it in the workspace instead: `glovebox "
                           "files put FILE WORKSPACE:PATH`, then `glovebox "
                           "sessions refresh SESSION`.");
}

int cli_upload(struct cli *c, const struct cli_place *place,
               const struct cli_upload *what, json_t **ret, struct error *err)
{
    bool input = strcmp(what->local, "-") == 0;
    struct cli_upload with_mode = *what;
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r;

    if (input)
        return upload_fd(c, place, STDIN_FILENO, UINT64_MAX, what, ret, err);
    fd = open(what->local, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot open %s",
                           what->local);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERR_INVALID, "%s is not a regular file",
                         what->local);
    with_mode.executable = (st.st_mode & S_IXUSR) != 0;
    r = upload_fd(c, place, fd, (uint64_t)st.st_size, &with_mode, ret, err);
    return r < 0 ? error_wrap(err, "%s", what->local) : 0;
}

/* ---- in parts ----------------------------------------------------------- */

/*
 * Uploads of large files in parts, a few at once with one progress bar. Each
 * part is hashed here and compared with the service's hash of it; the hash of
 * the whole file goes with the completion. A part that fails is sent again
 * after a while; a service that is too busy gets fewer at a time.
 *
 * The upload's id is stored in a small file of the user's, so that the same
 * command, repeated after an interruption, asks which parts the service has
 * and sends the rest.
 */

#define PART_BYTES (64ull << 20)
#define AT_ONCE 4u
#define TRIES 5u
#define NAP_MS 250u
#define CHUNK ((size_t)1 << 20)

struct multipart {
    struct cli *c;
    const struct cli_place *place;
    const struct cli_upload *what;
    int fd;
    uint64_t size, part;
    char id[ID_MAX];
    char *id_file;            /* where its id is stored; NULL: nowhere */
    json_t *there;            /* parts the service has; NULL: none */
    struct hash_stream *hash; /* of the whole, as far as it was read */
};

static void parts_done(struct multipart *p)
{
    free(p->id_file);
    json_decref(p->there);
    hash_stream_free(p->hash);
}

static char *upload_url(const struct multipart *p, const char *suffix)
{
    return xasprintf("/api/uploads/%s%s", p->id, suffix);
}

/* ---- the stored id ------------------------------------------------------ */

static char *id_dir(void)
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
static char *id_path(const struct multipart *p)
{
    char *dir cleanup(mem_free) = id_dir();
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

struct part {
    uint64_t number, len; /* number 0: this place is free */
    char sha256[HASH_HEX];
    unsigned tries;
    uint64_t not_before_ms;
    bool running;
    char *url, *line;       /* of the request; owned */
    const char *headers[2]; /* line, NULL */
    struct cli_transfer t;
};

struct sending {
    struct multipart *p;
    struct part parts[AT_ONCE];
    size_t width;  /* how many may run */
    uint64_t next; /* number of the next part to look at */
    struct cli_bar bar;
};

static void part_done(struct part *part)
{
    cli_transfer_done(&part->t);
    free(part->url);
    free(part->line);
    *part = (struct part){0};
}

static void sending_done(struct sending *s)
{
    for (size_t i = 0; i < AT_ONCE; i++)
        part_done(&s->parts[i]);
    cli_progress_end(&s->bar.progress);
}

uint64_t cli_multipart_part_size(uint64_t size, uint64_t part, uint64_t number)
{
    uint64_t before = (number - 1) * part;

    return before < size ? MIN(part, size - before) : 0;
}

/* ---- what to send ------------------------------------------------------- */

/* Into the whole's hash, and its own. */
static int hash_part(struct multipart *p, uint64_t at, uint64_t len,
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

static bool is_there(const struct multipart *p, uint64_t number, uint64_t len,
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

/* The next part that is not there, into a free place. 1, or 0: none is left.
 */
static int next_part(struct sending *s, struct part *ret, struct error *err)
{
    struct multipart *p = s->p;

    for (; cli_multipart_part_size(p->size, p->part, s->next); s->next++) {
        uint64_t len = cli_multipart_part_size(p->size, p->part, s->next);
        char sha256[HASH_HEX];
        int r = hash_part(p, (s->next - 1) * p->part, len, sha256, err);

        if (r < 0)
            return r;
        if (is_there(p, s->next, len, sha256)) {
            s->bar.done += len;
            continue;
        }
        *ret = (struct part){.number = s->next++, .len = len};
        memcpy(ret->sha256, sha256, sizeof(sha256));
        return 1;
    }
    return 0;
}

/* ---- sending ------------------------------------------------------------ */

static void start_part(struct sending *s, struct part *part)
{
    struct multipart *p = s->p;
    char suffix[40];

    (void)snprintf(suffix, sizeof(suffix), "/parts/%llu",
                   (unsigned long long)part->number);
    if (!part->url) {
        part->url = upload_url(p, suffix);
        part->line = xasprintf("X-Content-SHA256: %s", part->sha256);
        part->headers[0] = part->line;
    }
    part->t = (struct cli_transfer)CLI_TRANSFER_INIT;
    part->t.method = "PUT";
    part->t.path = part->url;
    part->t.in = p->fd;
    part->t.in_size = part->len;
    part->t.in_place = true;
    part->t.in_from = (part->number - 1) * p->part;
    part->t.headers = part->headers;
    part->t.bar = &s->bar;
    part->running = true;
}

static enum cli_parallel_next on_next_part(void *ctx,
                                           struct cli_transfer **ret,
                                           struct error *err)
{
    struct sending *s = ctx;
    struct part *ready = NULL, *empty = NULL;
    size_t running = 0, waiting = 0;
    int r = 1;

    for (size_t i = 0; i < AT_ONCE; i++) {
        struct part *part = &s->parts[i];

        running += part->running;
        waiting += part->number && !part->running;
        if (!part->number)
            empty = part;
        else if (!part->running && clock_mono_ms() >= part->not_before_ms)
            ready = part;
    }
    if (running >= s->width)
        return CLI_PARALLEL_LATER;
    if (!ready && empty && running + waiting < s->width) {
        r = next_part(s, empty, err);
        ready = r > 0 ? empty : NULL;
    }
    if (r < 0)
        return CLI_PARALLEL_FAILED;
    if (!ready)
        return running + waiting ? CLI_PARALLEL_LATER : CLI_PARALLEL_NONE;
    start_part(s, ready);
    *ret = &ready->t;
    return CLI_PARALLEL_READY;
}

static int check_part(struct sending *s, struct part *part, struct error *err)
{
    json_t *answer cleanup(json_unref) = NULL;
    int r = cli_http_answer(s->p->c, &part->t, &answer, err);

    if (r == 0 && strcmp(cli_json_text(answer, "sha256", part->sha256),
                         part->sha256) != 0)
        r = error_set(err, ERR_CONFLICT, "the file changed while it was sent");
    return r;
}

/* Can the part be sent again later? Its bytes no longer count as sent. */
static bool retry_later(struct sending *s, struct part *part, int r)
{
    bool busy = part->t.status == 429;
    bool changed = r == -ERR_CONFLICT && part->t.status / 100 == 2;

    s->bar.done -= MIN(s->bar.done, part->t.moved);
    if (!changed && !busy && !part->t.broken && part->t.status != 408)
        return false;
    if (++part->tries >= TRIES)
        return false;
    if (busy && s->width > 1)
        s->width--;
    part->not_before_ms =
        clock_mono_ms() + (uint64_t)NAP_MS * part->tries * part->tries;
    cli_transfer_done(&part->t);
    part->running = false;
    return true;
}

static int on_part_ended(void *ctx, struct cli_transfer *t, int r,
                         struct error *err)
{
    struct sending *s = ctx;
    struct part *part = s->parts;

    while (&part->t != t) /* it is one of them */
        part++;
    if (r == 0)
        r = check_part(s, part, err);
    if (r < 0)
        return !s->p->c->interrupted && retry_later(s, part, r) ? 0 : r;
    part_done(part);
    return 0;
}

static int send_parts(struct multipart *p, struct error *err)
{
    struct sending s cleanup(sending_done) = {
        .p = p, .width = AT_ONCE, .next = 1};
    const struct cli_parallel parallel = {
        .next = on_next_part, .ended = on_part_ended, .ctx = &s};

    cli_progress_start(&s.bar.progress, p->c, p->what->label, p->size);
    return cli_parallel_run(p->c, &parallel, err);
}

/* ---- the upload --------------------------------------------------------- */

/* PART_BYTES, or less if the service wants less. */
static void choose_part(struct multipart *p, const json_t *upload)
{
    uint64_t most = cli_json_number(upload, "part_bytes");

    p->part = most ? MIN(PART_BYTES, most) : PART_BYTES;
}

/* Finds an interrupted upload, if the service still has it. */
static bool resume_upload(struct multipart *p)
{
    char *id cleanup(mem_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    json_t *answer cleanup(json_unref) = NULL;
    struct error ignored;

    if (!p->id_file || cli_connect_line(AT_FDCWD, p->id_file, 128, &id) < 0 ||
        !ids_valid("up", id))
        return false;
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    url = upload_url(p, "");
    if (cli_http_json(p->c, "GET", url, NULL, &answer, &ignored) < 0)
        return false;
    choose_part(p, answer);
    p->there = json_incref(json_object_get(answer, "parts"));
    return true;
}

static int create_upload(struct multipart *p, struct error *err)
{
    int fd cleanup(fd_close) = -1;
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
        return error_set(err, ERR_INTERNAL,
                         "the service did not return an upload id");
    choose_part(p, answer);
    /* Without the stored id the upload works, but cannot be resumed. */
    if (p->id_file)
        fd = open(p->id_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)fd_write_all(fd, p->id, strlen(p->id));
    return 0;
}

static int complete_upload(struct multipart *p, json_t **ret,
                           struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    char *url cleanup(mem_free) = upload_url(p, "/complete");
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

int cli_multipart_upload(struct cli *c, const struct cli_place *place, int fd,
                         uint64_t size, const struct cli_upload *what,
                         json_t **ret, struct error *err)
{
    struct multipart p cleanup(parts_done) = {.c = c,
                                              .place = place,
                                              .what = what,
                                              .fd = fd,
                                              .size = size,
                                              .hash = hash_stream_new()};
    int r = 0;

    p.id_file = id_path(&p);
    if (!resume_upload(&p))
        r = create_upload(&p, err);
    if (r == 0)
        r = send_parts(&p, err);
    if (r == 0)
        r = complete_upload(&p, ret, err);
    if (p.id_file && (r == 0 || err->code == ERR_NOT_FOUND))
        (void)unlink(p.id_file);
    if (r < 0 && p.id[0] && p.id_file && !err->hint[0])
        return error_hint(err, "The same command goes on with the parts that "
                               "are missing.");
    return r;
}
