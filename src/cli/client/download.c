/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file from the service. It is written beside its place and renamed, so it
 * appears whole or not at all; where the service named the bytes by their
 * hash, they are compared with it first. A connection that breaks is taken up
 * again where it broke, as long as the file is still the same. With `keep`,
 * what is there after a failure stays as NAME.TAG.part, and the next download
 * of the same bytes goes on with it.
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
#include "cli/common.h"

#define TRIES 5
#define TAG 16

struct download {
    struct cli *c;
    const struct cli_download *what;
    char *to;     /* where it will be */
    char *beside; /* where it is meanwhile; NULL: standard output */
    int fd;
    uint64_t have; /* bytes that are there */
    char etag[CLI_ETAG_MAX];
};

static void download_done(struct download *d)
{
    free(d->to);
    free(d->beside);
    fd_close(&d->fd);
}

/* Where a download goes: local, or inside it when it is a folder. */
static char *download_destination(const char *name, const char *local)
{
    struct stat st;

    if (!local)
        return xstrdup(name);
    if (stat(local, &st) == 0 && S_ISDIR(st.st_mode))
        return xasprintf("%s/%s", local, name);
    return xstrdup(local);
}

/* ---- the file beside ---------------------------------------------------- */

static int open_new(struct download *d, struct error *err)
{
    mode_t mask = umask(0);

    d->beside = xasprintf("%s.XXXXXX", d->to);
    d->fd = mkostemp(d->beside, O_CLOEXEC);
    (void)umask(mask);
    if (d->fd < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot write %s", d->to);
    (void)fchmod(d->fd, 0666 & ~mask); /* as any new file of the user's */
    return 0;
}

/* The letters and digits an ETag begins with. */
static void tag_of(const char *etag, char ret[TAG + 1])
{
    size_t len = 0;

    for (; *etag && len < TAG; etag++)
        if (strchr("0123456789abcdefghijklmnopqrstuvwxyz"
                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                   *etag))
            ret[len++] = *etag;
    ret[len] = '\0';
}

static int open_part(struct download *d, struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    char tag[TAG + 1];
    struct stat st;
    int r;

    t.method = "HEAD";
    t.path = d->what->url;
    r = cli_transfer_run(d->c, &t, err);
    if (r < 0)
        return r;
    tag_of(t.etag, tag);
    if (!tag[0])
        return open_new(d, err);
    d->beside = xasprintf("%s.%s.part", d->to, tag);
    d->fd = open(d->beside, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (d->fd < 0 || fstat(d->fd, &st) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot write %s",
                           d->beside);
    if (!S_ISREG(st.st_mode) || lseek(d->fd, 0, SEEK_END) < 0)
        return error_set(err, ERR_INVALID, "%s is not a regular file",
                         d->beside);
    d->have = (uint64_t)st.st_size;
    memcpy(d->etag, t.etag, sizeof(d->etag));
    return 0;
}

/* From the start again; standard output cannot. */
static int start_over(struct download *d, struct error *err)
{
    if (!d->beside)
        return error_set(err, ERR_CONFLICT,
                         "the file changed while it was fetched");
    if (ftruncate(d->fd, 0) < 0 || lseek(d->fd, 0, SEEK_SET) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot write %s", d->to);
    d->have = 0;
    d->etag[0] = '\0';
    return 0;
}

/* ---- bytes -------------------------------------------------------------- */

static int fetch_once(struct download *d, bool *ret_again, struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    int r;

    t.method = "GET";
    t.path = d->what->url;
    t.out = d->beside ? d->fd : STDOUT_FILENO;
    t.label = d->what->name;
    t.from = t.bar_before = d->have;
    t.of = d->etag;
    r = cli_transfer_run(d->c, &t, err);
    if (t.status == 416 && d->have) { /* it was all there */
        *ret_again = false;
        return 0;
    }
    if (t.status / 100 == 2) {
        d->have += t.moved;
        if (!d->etag[0])
            memcpy(d->etag, t.etag, sizeof(d->etag));
    }
    /* Without a strong entity tag the download cannot be resumed. */
    *ret_again = t.broken && d->have > 0 && d->etag[0] == '"';
    return r;
}

static int fetch_rest(struct download *d, struct error *err)
{
    bool again = true;
    int r = 0;

    for (int i = 0; again && i < TRIES; i++) {
        struct timespec nap = {.tv_nsec = 150000000L * i};

        (void)nanosleep(&nap, NULL);
        r = fetch_once(d, &again, err);
        if (r == 0)
            return 0;
        if (err->errnum == ESTALE) {
            r = start_over(d, err);
            again = r == 0;
        }
    }
    return r;
}

/* An ETag that is a SHA-256 says what the bytes must be. */
static int verify_digest(struct download *d, struct error *err)
{
    char *room cleanup(mem_free) = NULL;
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX], want[HASH_HEX + 2];
    struct hash_stream *h;
    off_t at = 0;
    ssize_t n;

    if (strlen(d->etag) != HASH_HEX + 1 || d->etag[0] != '"' ||
        strspn(d->etag + 1, "0123456789abcdef") != HASH_HEX - 1)
        return 0;
    room = xmalloc(1 << 20);
    h = hash_stream_new();
    while ((n = pread(d->fd, room, 1 << 20, at)) > 0) {
        hash_stream_add(h, room, (size_t)n);
        at += n;
    }
    hash_stream_end(h, hash);
    (void)snprintf(want, sizeof(want), "\"%s\"",
                   ids_hex(hash, sizeof(hash), hex));
    if (n < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot read %s", d->to);
    if (strcmp(want, d->etag) == 0)
        return 0;
    return error_set(err, ERR_CORRUPT,
                     "what arrived is not what the service named it");
}

static int into_place(struct download *d, struct error *err)
{
    int r = verify_digest(d, err);

    if (r < 0) {
        struct error ignored = {0};

        (void)start_over(d, &ignored); /* nothing to go on with */
        return r;
    }
    if (rename(d->beside, d->to) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot write %s", d->to);
    return 0;
}

/* Keeps what is worth keeping. */
static int give_up(struct download *d, struct error *err)
{
    bool part = d->what->keep && d->have > 0;

    if (d->beside && !part)
        (void)unlink(d->beside); /* ours alone; nothing to do if it fails */
    (void)error_wrap(err, "%s", d->what->name);
    return part ? error_hint(err,
                             "What came is in %s; the same command goes on "
                             "from there.",
                             d->beside)
                : -(int)err->code;
}

int cli_download(struct cli *c, const struct cli_download *what,
                 char **ret_local, struct error *err)
{
    struct download d cleanup(download_done) = {
        .c = c, .what = what, .fd = -1};
    int r = 0;

    d.to = download_destination(what->name, what->local);
    if (strcmp(d.to, "-") == 0) {
        (void)fflush(stdout);
        return fetch_rest(&d, err);
    }
    r = what->keep ? open_part(&d, err) : open_new(&d, err);
    if (r < 0)
        return error_wrap(err, "%s", what->name);
    r = fetch_rest(&d, err);
    if (r == 0)
        r = into_place(&d, err);
    if (r < 0)
        return give_up(&d, err);
    if (ret_local)
        *ret_local = take_ptr(d.to);
    return 0;
}
