/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search_files: a regular expression over a session's files. It runs inside
 * the session, by rg or else grep, as a command of its own: a pattern that
 * takes for ever takes the session's time, and the interpreter's variables
 * are not touched. Here only the command is put together and its output
 * taken apart, which may be anything. Runs on a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define MATCHES_MAX 500
#define MATCHES_DEFAULT 100
#define CONTEXT_MAX 10
#define PATTERN_MAX 1000
#define TIMEOUT_S 60u
#define OUTPUT_BYTES 900000 /* below what is kept of one execution */
#define LINE_CHARS 300u
#define SHOWN_BYTES 60000u /* of the text block */
#define ENDED "glovebox-search-exit "

struct search_args {
    const char *pattern, *path, *glob, *session;
    bool ignore_case;
    int64_t context, max;
};

#define ARG(member) API_AT(struct search_args, member)

static const struct api_field arguments[] = {
    {"pattern", API_STRING, API_REQUIRED, ARG(pattern), .min = 1,
     .max = PATTERN_MAX, .help = "Regular expression, without look-around"},
    {"path", API_STRING, ARG(path), .max = TOOL_PATH_MAX,
     .help = "Only in this file or below this folder of /mnt/data"},
    {"glob", API_STRING, ARG(glob), .min = 1, .max = 200,
     .help = "Only in files with such a name, for example *.py"},
    {"context", API_INT, API_DEFAULT, ARG(context), .max = CONTEXT_MAX,
     .help = "Lines to show around each match"},
    {"ignore_case", API_BOOL, API_DEFAULT, ARG(ignore_case), .value = false},
    {"max", API_INT, API_DEFAULT, ARG(max), .min = 1, .max = MATCHES_MAX,
     .value = MATCHES_DEFAULT, .help = "Matches to return"},
    TOOL_SESSION(struct search_args),
};
TOOL_INPUT(search_files, struct search_args, arguments);

struct line {
    const char *path, *text;
    size_t path_len, text_len;
    int64_t number;
    bool match;
};

static void write_path(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct line *l = object;

    json_write_text(w, key, l->path, l->path_len);
}

static void write_text(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct line *l = object;

    json_write_text(w, key, l->text,
                    tool_text_offset(l->text, l->text_len, LINE_CHARS));
}

static const struct api_field line_fields[] = {
    {"path", API_STRING, .write = write_path},
    {"line", API_INT, API_AT(struct line, number)},
    {"text", API_STRING, .write = write_text},
    {"match", API_BOOL, API_AT(struct line, match),
     .help = "false: a line around a match"},
};
static API_OUTPUT(line_resource, "line", struct line, line_fields, NULL);

/* The lines are written as they are read. */
static const struct api_field answer_fields[] = {
    {"lines", API_ARRAY, .of = &line_resource},
    {"session_id", API_STRING, API_ELSEWHERE},
    {"matches", API_INT, API_ELSEWHERE},
    {"more", API_BOOL, API_ELSEWHERE},
};
TOOL_OUTPUT_SCHEMA(search_files, answer_fields);

/* ---- the command -------------------------------------------------------- */

/* Both print "path NUL line : text" for a match and "-" for what is around
 * it. One more than asked for in a file shows that there is more. */
static void add_tool(struct buf *out, const struct search_args *a,
                     const char *folder, bool rg)
{
    buf_addf(out,
             rg ? "rg -0 -nH --no-heading --color never --no-config --hidden "
                  "--no-ignore --sort path -m %d -C %d%s "
                  "-g '!" TOOL_KEPT_FOLDER "'"
                : "grep -rnHIEZ --color=never -m %d -C %d%s "
                  "--exclude-dir=" TOOL_KEPT_FOLDER,
             (int)a->max + 1, (int)a->context, a->ignore_case ? " -i" : "");
    if (a->glob) {
        buf_adds(out, rg ? " -g " : " --include=");
        tool_text_quote(out, a->glob);
    }
    buf_adds(out, " -e ");
    tool_text_quote(out, a->pattern);
    buf_adds(out, " -- ./");
    tool_text_quote(out, folder);
}

static void make_command(struct buf *out, const struct search_args *a,
                         const char *folder)
{
    buf_adds(out, "cd /mnt/data || exit 2\n{ if command -v rg >/dev/null; "
                  "then\n");
    add_tool(out, a, folder, true);
    buf_adds(out, "\nelse\n");
    add_tool(out, a, folder, false);
    buf_addf(out,
             "\nfi; echo \"" ENDED "$?\" >&2; } | head -c %d\n"
             "exit 0\n",
             OUTPUT_BYTES);
}

/* ---- its output --------------------------------------------------------- */

struct found {
    struct json_writer w;
    struct buf text;
    int64_t count, max;
    bool more;
    char path[PATH_BYTES_MAX + 8]; /* of the line before */
};

/* False: one of the tool's own lines, between groups or about a binary. */
static bool take_apart(const char *at, size_t len, struct line *ret)
{
    const char *nul = memchr(at, '\0', len), *digits, *end = at + len;

    if (!nul)
        return false;
    *ret = (struct line){.path = at, .path_len = (size_t)(nul - at)};
    if (ret->path_len > 2 && memcmp(at, "./", 2) == 0) {
        ret->path += 2;
        ret->path_len -= 2;
    }
    digits = ++nul;
    while (nul < end && *nul >= '0' && *nul <= '9' && nul - digits < 15)
        ret->number = ret->number * 10 + (*nul++ - '0');
    if (nul == end || nul == digits || (*nul != ':' && *nul != '-'))
        return false;
    ret->match = *nul == ':';
    ret->text = nul + 1;
    ret->text_len = (size_t)(end - ret->text);
    if (ret->text_len && ret->text[ret->text_len - 1] == '\r')
        ret->text_len--;
    return ret->path_len > 0 && ret->path_len <= PATH_BYTES_MAX;
}

static void say_line(struct found *f, const struct line *l, size_t len)
{
    if (f->text.len > SHOWN_BYTES)
        return;
    if (strlen(f->path) != l->path_len ||
        memcmp(f->path, l->path, l->path_len) != 0) {
        (void)snprintf(f->path, sizeof(f->path), "%.*s", (int)l->path_len,
                       l->path);
        buf_addf(&f->text, "%s%s\n", f->text.len ? "\n" : "", f->path);
    }
    buf_addf(&f->text, "%lld%c ", (long long)l->number, l->match ? ':' : '-');
    buf_add(&f->text, l->text, len);
    buf_adds(&f->text, len < l->text_len ? " […]\n" : "\n");
    if (f->text.len > SHOWN_BYTES)
        buf_adds(&f->text, "[the rest is in the structured answer]\n");
}

static void add_line(struct found *f, const struct line *l)
{
    say_line(f, l, tool_text_offset(l->text, l->text_len, LINE_CHARS));
    api_write(&f->w, NULL, &line_resource, l);
}

static void read_output(struct found *f, const struct buf *out)
{
    const char *at = out->data, *end = out->data + out->len;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct line l;

        if (!stop)
            return; /* cut off in the middle */
        if (take_apart(at, (size_t)(stop - at), &l)) {
            if (l.match && f->count == f->max) {
                f->more = true;
                return;
            }
            f->count += l.match;
            add_line(f, &l);
        }
        at = stop + 1;
    }
}

/* ---- answering ---------------------------------------------------------- */

/* What the tool said of a bad pattern; 0 when it did its work. */
static int read_end(const struct buf *errors, struct error *err)
{
    const char *text = errors->data ? errors->data : "";
    const char *mark = NULL, *next = text;
    struct buf said cleanup(buf_done) = {0};

    while ((next = strstr(next, ENDED)))
        mark = next++;
    if (!mark || mark[strlen(ENDED)] != '2')
        return 0;
    for (; text < mark && said.len < 240; text++) {
        bool blank = *text == '\n' || *text == ' ';

        if (!blank || (said.len && said.data[said.len - 1] != ' '))
            buf_add(&said, blank ? " " : text, 1);
    }
    while (said.len && said.data[said.len - 1] == ' ')
        said.data[--said.len] = '\0';
    (void)error_set(err, ERR_INVALID, "the search failed: %s",
                    said.data ? said.data : "");
    return error_hint(err, "Correct the pattern: it is a regular expression "
                           "without look-around; put \\ before special "
                           "characters that are meant as they are. The path "
                           "must be there: list_files names them.");
}

static void answer(struct found *f, const struct session_info *session,
                   bool cut, struct mcp_answer *ret)
{
    f->more = f->more || cut;
    json_write_close(&f->w, ']');
    json_write_string(&f->w, "session_id", session->id);
    json_write_int(&f->w, "matches", f->count);
    json_write_bool(&f->w, "more", f->more);
    json_write_close(&f->w, '}');
    if (!f->count)
        buf_adds(&f->text, "no matches\n");
    else
        buf_addf(&f->text, "\n[%lld match%s%s]\n", (long long)f->count,
                 f->count == 1 ? "" : "es",
                 f->more ? "; there are more: narrow the search or raise max"
                         : "");
    mcp_answer_text(ret, f->text.data, f->text.len);
}

/* 0: it ran and its output can be read. */
static int run(struct mcp_call *call, const struct session_info *session,
               const struct buf *command, struct execution **ret,
               struct error *err)
{
    struct exec_spec spec = {.language = EXEC_SHELL,
                             .code = command->data,
                             .code_len = command->len,
                             .timeout_s = TIMEOUT_S};
    struct exec_info info;
    int r = tool_execute(call, session->id, &spec, ret, err);

    if (r != 0)
        return r;
    execution_info(*ret, &info);
    if (info.outcome == OUTCOME_OK || info.status != EXEC_COMPLETED)
        return 0;
    (void)error_set(
        err, info.outcome == OUTCOME_TIMEOUT ? ERR_TIMEOUT : ERR_GUEST,
        "the search did not finish: %s",
        info.failure ? info.failure : exec_outcome_name(info.outcome));
    return error_hint(err, "Search a smaller folder, or a simpler pattern.");
}

static int search(struct mcp_call *call, const struct search_args *a,
                  const struct session_info *session, const char *folder,
                  struct mcp_answer *ret, struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct buf command cleanup(buf_done) = {0};
    struct doors_outcome outcome;
    struct found f = {.w = {.out = &ret->structured}, .max = a->max};
    struct exec_info info;
    int r;

    make_command(&command, a, folder);
    r = run(call, session, &command, &e, err);
    if (r != 0)
        return r;
    execution_info(e, &info);
    if (info.status != EXEC_COMPLETED) {
        tool_held_answer(&info, ret);
        return 0;
    }
    doors_outcome_read(e, &outcome);
    json_write_open(&f.w, NULL, '{');
    json_write_string(&f.w, "status", "ok");
    json_write_open(&f.w, "lines", '[');
    if (outcome.stdout_text.len)
        read_output(&f, &outcome.stdout_text);
    if (!f.count)
        r = read_end(&outcome.stderr_text, err);
    if (r == 0)
        answer(&f, session, outcome.stdout_text.len >= OUTPUT_BYTES, ret);
    else
        buf_reset(&ret->structured);
    buf_done(&f.text);
    doors_outcome_done(&outcome);
    return r;
}

int tool_search_files(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct search_args a = {.path = ""};
    const char *folder = NULL;
    int r = api_read(args, &tool_search_files_input, &a, err);

    if (r == 0 && strpbrk(a.pattern, "\r\n"))
        r = error_set(err, ERR_INVALID, "the pattern must be one line");
    if (r == 0)
        r = tool_folder(call->arena, a.path, &folder, err);
    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &session, err);
    return r < 0 ? r : search(call, &a, &session, folder, ret, err);
}

const char tool_search_files_text[] =
    "Finds lines that match a regular expression in the session's text files "
    "(below /mnt/data) and returns them with path, line number and, if asked, "
    "lines around. Use it to find where something is before reading it with "
    "read_file; to search the words of PDFs and of other workspaces use "
    "search_workspace. Binary files are left out. At most 500 matches, 100 "
    "unless max says otherwise; more tells that there are others. It runs in "
    "the session without touching the interpreter and is given up after 60 s. "
    "invalid_request: correct the pattern; deadline_passed: search a smaller "
    "folder.";
