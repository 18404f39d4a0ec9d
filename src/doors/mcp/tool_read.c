/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_file: text of a session's file, by lines. Runs on a worker of the
 * daemon; reads through the session's broker, so a dormant session is not
 * woken, and its bytes are never more than text to pass on.
 */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define LINES_MAX 2000
#define LINE_CHARS 4000u        /* of one line; the rest is cut */
#define SHOWN_BYTES 200000u     /* of one answer */
#define SCAN_BYTES (256u << 20) /* looked through for the line and the end */
#define CHUNK 65536u
#define BINARY_LOOK 8192u

struct read_args {
    const char *path, *session;
    int64_t offset, limit;
};

#define ARG(member) API_AT(struct read_args, member)

static const struct api_field arguments[] = {
    {"path", API_STRING, API_REQUIRED, ARG(path), .min = 1,
     .max = TOOL_PATH_MAX,
     .help = "Below /mnt/data, such as notes.md or /mnt/data/notes.md"},
    {"offset", API_INT, API_DEFAULT, ARG(offset), .min = 1, .max = INT32_MAX,
     .value = 1, .help = "The first line to read, counted from 1"},
    {"limit", API_INT, API_DEFAULT, ARG(limit), .min = 1, .max = LINES_MAX,
     .value = LINES_MAX, .help = "How many lines"},
    TOOL_SESSION(struct read_args),
};
TOOL_INPUT(read_file, struct read_args, arguments);

struct lines {
    struct tool_status status;
    const char *session, *path;
    uint64_t size;
    const struct buf *text;
    int64_t first, count, total, next; /* total: -1 when it is not known */
};

static void write_text(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct buf *text = ((const struct lines *)object)->text;

    json_write_text(w, key, text && text->data ? text->data : "",
                    text ? text->len : 0);
}

#define LINES(member) API_AT(struct lines, member)

static const struct api_field answer_fields[] = {
    {"session_id", API_STRING, LINES(session)},
    {"path", API_STRING, LINES(path)},
    {"size", API_INT, LINES(size)},
    {"text", API_STRING, .write = write_text},
    {"first_line", API_INT, LINES(first)},
    {"lines", API_INT, LINES(count)},
    {"total_lines", API_INT, API_NULLABLE, LINES(total), .none = -1},
    {"next_offset", API_INT, API_NULLABLE, LINES(next)},
};
TOOL_OUTPUT(read_file, struct lines, answer_fields);

/* What was read of it. */
struct pages {
    int64_t from, until; /* lines wanted: from, and up to but not until */
    int64_t line;        /* the one at hand, from 1 */
    int64_t shown;       /* lines in text */
    struct buf text, current;
    bool full;  /* no more fits */
    bool whole; /* the end of the file was seen */
    bool some;  /* of the line at hand */
};

/* ---- reading ------------------------------------------------------------ */

static void end_line(struct pages *p)
{
    if (p->line >= p->from && p->line < p->until && !p->full) {
        if (p->text.len + p->current.len > SHOWN_BYTES && p->shown) {
            p->full = true;
        } else {
            size_t chars = tool_text_chars(p->current.data, p->current.len);
            size_t len =
                tool_text_offset(p->current.data, p->current.len, LINE_CHARS);

            buf_add(&p->text, p->current.data, len);
            if (len < p->current.len)
                buf_addf(&p->text, " [… %zu more characters]",
                         chars - LINE_CHARS);
            buf_adds(&p->text, "\n");
            p->shown++;
        }
    }
    buf_reset(&p->current);
    p->some = false;
    p->line++;
}

/* A line is collected up to what could be shown of it and a little more, so
 * that a file without line ends needs no memory of its size. */
static void take(struct pages *p, const char *bytes, size_t len)
{
    bool wanted = p->line >= p->from && p->line < p->until && !p->full;
    size_t room = SHOWN_BYTES - MIN(p->current.len, (size_t)SHOWN_BYTES);

    p->some = p->some || len > 0;
    if (wanted)
        buf_add(&p->current, bytes, MIN(len, room));
}

static void take_chunk(struct pages *p, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t n = end ? (size_t)(end - bytes) : len;

        take(p, bytes, n);
        if (!end)
            return;
        end_line(p);
        bytes += n + 1;
        len -= n + 1;
    }
}

static int read_lines(int fd, struct pages *p, struct error *err)
{
    char *chunk cleanup(mem_free) = xmalloc(CHUNK);
    uint64_t read = 0;
    ssize_t n;

    while (read < SCAN_BYTES) {
        n = fd_read_all(fd, chunk, CHUNK);
        if (n < 0)
            return error_set(err, ERR_GUEST, "the file could not be read");
        if (read == 0 && memchr(chunk, '\0', MIN((size_t)n, BINARY_LOOK))) {
            (void)error_set(err, ERR_INVALID, "the file is not text");
            return error_hint(err, "Use download_file, or read it with "
                                   "execute_python.");
        }
        take_chunk(p, chunk, (size_t)n);
        read += (size_t)n;
        if (n < (ssize_t)CHUNK) {
            p->whole = true;
            break;
        }
    }
    if (p->whole && p->some)
        end_line(p);
    return 0;
}

/* ---- answering ---------------------------------------------------------- */

static void answer(struct pages *p, const struct session_info *session,
                   const char *path, uint64_t size, struct mcp_answer *ret)
{
    int64_t total = p->whole ? p->line - 1 : -1;
    int64_t next = p->from + p->shown;
    bool more = !p->whole || next <= total;

    buf_adds(&p->text, "");
    mcp_answer_text(ret, p->text.data, p->text.len);
    if (!p->shown)
        mcp_answer_textf(ret,
                         "[/mnt/data/%s has %lld lines; line %lld is "
                         "past its end]",
                         path, (long long)total, (long long)p->from);
    else if (more)
        mcp_answer_textf(
            ret,
            "[lines %lld to %lld of /mnt/data/%s; go on with offset "
            "%lld]",
            (long long)p->from, (long long)next - 1, path, (long long)next);
    else
        mcp_answer_textf(ret, "[lines %lld to %lld of /mnt/data/%s, its end]",
                         (long long)p->from, (long long)next - 1, path);
    tool_answer(ret, &tool_read_file_output,
                &(struct lines){TOOL_OK, session->id, path, size, &p->text,
                                p->from, p->shown, total,
                                more && p->shown ? next : 0});
}

int tool_read_file(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct read_args a = {.path = NULL};
    struct pages p = {.line = 1};
    int fd cleanup(fd_close) = -1;
    const char *path = NULL;
    struct stat st = {0};
    int r = api_read(args, &tool_read_file_input, &a, err);

    if (r == 0)
        r = tool_path(call->arena, a.path, &path, err);
    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &session, err);
    if (r == 0)
        r = session_files_open(call->doors->sessions, call->actor, session.id,
                               path, &fd, &st, err);
    if (r == -ERR_NOT_FOUND && session.id[0])
        (void)error_hint(err, "list_files names the files there are.");
    if (r < 0)
        return r;
    p.from = a.offset;
    p.until = a.offset + a.limit;
    r = read_lines(fd, &p, err);
    if (r == 0)
        answer(&p, &session, path, (uint64_t)st.st_size, ret);
    buf_done(&p.text);
    buf_done(&p.current);
    return r;
}

const char tool_read_file_text[] =
    "Reads a text file of the session, by lines: up to 2,000 a call, with the "
    "offset to go on with. Use it for source, logs, CSV and Markdown; for "
    "pictures and other binary files use download_file, to find something in "
    "files use search_files, and to work with data use execute_python. Lines "
    "longer than 4,000 characters are cut. It works on sleeping sessions "
    "without waking them. not_found: ask list_files what there is.";
