/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads a file, in one request if the service accepts its size, else in
 * parts (multipart_upload.c). Standard input is one request, however long.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

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
static bool fits(struct cli *c, uint64_t size)
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

    if (size <= ASK_BYTES || !known || fits(c, size)) {
        r = upload_whole(c, place, fd, size, what, ret, err);
        /* A refusal may be lost when it closes the connection under the
         * upload: then a broken one means the same. */
        if (r == 0 || c->interrupted ||
            (err->code != ERR_TOO_LARGE && err->code != ERR_UNAVAILABLE) ||
            !known || fits(c, size))
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
