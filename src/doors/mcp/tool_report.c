/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate_pdf_report: report.py, which is carried in this object and never
 * run here, goes into the session as a command of its own with the text on
 * its standard input; what comes back is one line of JSON and a picture of
 * the first page, and is believed no more than anything else a session says.
 * Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define TEXT_BYTES_MAX                                                        \
    900000 /* with the program, within one execution's code */
#define SECONDS_DEFAULT 180
#define SECONDS_MAX 900
#define PREVIEW_BYTES_MAX (1u << 20)
#define PROGRAM_END "GLOVEBOX_REPORT_PROGRAM_ENDS"
#define INPUT_END "GLOVEBOX_REPORT_INPUT_ENDS"

/* Found along the include path, like a header. */
__asm__(".pushsection .rodata\n"
        ".globl tool_report_program\n"
        ".hidden tool_report_program\n"
        "tool_report_program:\n"
        ".incbin \"doors/mcp/report.py\"\n"
        ".byte 0\n"
        ".popsection\n");

struct report_args {
    const char *markdown, *html, *path, *title, *author, *header, *footer,
        *session;
    int page_size, theme;
    bool landscape, toc;
    int64_t timeout;
};

#define ARG(member) API_AT(struct report_args, member)

static const char *const sizes[] = {"A4",    "Letter",  "A3", "A5",
                                    "Legal", "Tabloid", NULL};
static const char *const themes[] = {"report", "plain", "compact", NULL};

static const struct api_field arguments[] = {
    {"markdown", API_STRING, ARG(markdown), .min = 1, .max = TEXT_BYTES_MAX,
     .help = "The text, in Markdown with tables, footnotes and fenced code; "
             "or give html"},
    {"html", API_STRING, ARG(html), .min = 1, .max = TEXT_BYTES_MAX,
     .help = "The text in HTML; its own style elements are used after the "
             "theme's"},
    {"path", API_STRING, ARG(path), .min = 1, .max = TOOL_PATH_MAX,
     .help = "Where the PDF goes, below /mnt/data; report.pdf unless given"},
    {"title", API_STRING, ARG(title), .max = 500,
     .help = "Shown above the text and in the PDF's properties"},
    {"author", API_STRING, ARG(author), .max = 500},
    {"page_size", API_CHOICE, API_DEFAULT, ARG(page_size), .choices = sizes},
    {"landscape", API_BOOL, API_DEFAULT, ARG(landscape), .value = false},
    {"toc", API_BOOL, API_DEFAULT, ARG(toc), .value = false,
     .help = "A table of contents of the first three levels of headings"},
    {"header", API_STRING, ARG(header), .max = 300,
     .help = "At the top of every page; {page}, {pages} and {title} are "
             "filled in"},
    {"footer", API_STRING, ARG(footer), .max = 300,
     .help = "At the bottom left, beside the page number; the same may be "
             "filled in"},
    {"theme", API_CHOICE, API_DEFAULT, ARG(theme), .choices = themes},
    {"timeout", API_INT, API_DEFAULT, ARG(timeout), .min = EXEC_TIMEOUT_MIN_S,
     .max = SECONDS_MAX, .value = SECONDS_DEFAULT},
    TOOL_SESSION(struct report_args),
};
TOOL_INPUT(generate_pdf_report, struct report_args, arguments);

/* The warnings are the session's words, looked at one by one. */
static const struct api_field answer_fields[] = {
    {"session_id", API_STRING, API_ELSEWHERE},
    {"pages", API_INT, API_ELSEWHERE},
    {"page_size", API_STRING, API_ELSEWHERE},
    {"warnings", API_ARRAY, API_ELSEWHERE},
    {"preview", API_BOOL, .help = "Page one is in the answer"},
    {"file", API_OBJECT, .of = &tool_file_resource},
};
TOOL_OUTPUT_SCHEMA(generate_pdf_report, answer_fields);

/* ---- what is asked ------------------------------------------------------ */

/* ".pdf" at its end, whatever the case. */
static bool is_pdf(const char *path)
{
    size_t len = strlen(path);

    return len > 4 && strcasecmp(path + len - 4, ".pdf") == 0;
}

static int check(struct mcp_call *call, struct report_args *a,
                 struct error *err)
{
    int r;

    if ((a->markdown != NULL) == (a->html != NULL))
        return error_set(err, ERR_INVALID,
                         "give exactly one of markdown and html");
    r = tool_path(call->arena, a->path, &a->path, err);
    if (r == 0 && !is_pdf(a->path)) {
        (void)error_set(err, ERR_INVALID, "the path must end with .pdf");
        r = error_hint(err, "For example reports/summary.pdf.");
    }
    return r;
}

static void make_input(struct buf *out, const struct report_args *a)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "format", a->markdown ? "markdown" : "html");
    json_write_string(&w, "text", a->markdown ? a->markdown : a->html);
    json_write_string(&w, "path", a->path);
    json_write_string(&w, "title", a->title);
    json_write_string(&w, "author", a->author);
    json_write_string(&w, "page_size", sizes[a->page_size]);
    json_write_bool(&w, "landscape", a->landscape);
    json_write_bool(&w, "toc", a->toc);
    json_write_string(&w, "header", a->header);
    json_write_string(&w, "footer", a->footer);
    json_write_string(&w, "theme", themes[a->theme]);
    json_write_close(&w, '}');
}

/* The input is one line of JSON, so it cannot hold the line that ends it. */
static void make_command(struct buf *out, const struct report_args *a)
{
    buf_adds(out, "exec python3 -I -X utf8 /dev/fd/9 9<<'" PROGRAM_END
                  "' <<'" INPUT_END "'\n");
    buf_adds(out, tool_report_program);
    buf_adds(out, PROGRAM_END "\n");
    make_input(out, a);
    buf_adds(out, "\n" INPUT_END "\n");
}

/* ---- what came of it ---------------------------------------------------- */

struct made {
    bool ok;
    int64_t pages, size;
    const char *error, *hint;
    json_t *warnings;
    const char *path, *title;
};

#define MADE(member) offsetof(struct made, member)

static const struct json_field made_fields[] = {
    {"ok", JSON_KIND_BOOL, .required = true, .offset = MADE(ok)},
    {"pages", JSON_KIND_INT, .offset = MADE(pages), .max = INT32_MAX},
    {"size", JSON_KIND_INT, .offset = MADE(size), .max = INT64_MAX},
    {"error", JSON_KIND_STRING, .offset = MADE(error), .max = INT64_MAX},
    {"hint", JSON_KIND_STRING, .offset = MADE(hint), .max = INT64_MAX},
    {"warnings", JSON_KIND_ARRAY, .offset = MADE(warnings), .max = 100},
    {"path", JSON_KIND_STRING, .offset = MADE(path), .max = INT64_MAX},
    {"title", JSON_KIND_STRING, .offset = MADE(title), .max = INT64_MAX},
};

static void refuse_end(const struct exec_info *info,
                       const struct doors_outcome *o, struct mcp_answer *ret)
{
    const char *text = o->stderr_text.data ? o->stderr_text.data : "";
    size_t len = o->stderr_text.len, from;

    while (len > 0 && text[len - 1] == '\n')
        len--;
    for (from = len; from > 0 && text[from - 1] != '\n';)
        from--;
    if (info->failure)
        mcp_answer_refuse(ret, exec_outcome_name(info->outcome),
                          "The report was not made: %s %s", info->failure,
                          tool_result_advice(info));
    else
        mcp_answer_refuse(ret, exec_outcome_name(info->outcome),
                          "The report was not made: %.*s",
                          (int)MIN(len - from, 300u), text + from);
}

/* The file as the workspace has it now: the execution's own list says what it
 * became, which is not always what was asked for. */
static void find_file(struct mcp_call *call,
                      const struct session_info *session,
                      const struct exec_info *info, const char *path,
                      struct tool_file *f, struct workspace_file *kept)
{
    struct error ignored;

    f->path = path;
    f->mime = "application/pdf";
    for (size_t i = 0; i < info->file_count; i++) {
        const struct exec_file_change *c = &info->files[i];

        if (strcmp(c->path, path) != 0 && strcmp(c->wanted, path) != 0)
            continue;
        f->path = c->path;
        f->change = c->change;
        f->why = c->fate == EXEC_FILE_DONE ? NULL : c->why;
        f->size = c->size;
        f->file = c->file;
        f->version = c->version;
        f->sha256 = c->sha256;
        return;
    }
    if (!session->workspace[0] ||
        workspace_file_get(call->doors->workspaces, call->actor,
                           session->workspace, path, NULL, kept, &ignored) < 0)
        return;
    f->change = "unchanged";
    f->size = kept->size;
    f->file = kept->file;
    f->version = kept->version;
    f->sha256 = kept->sha256;
}

/* True: there is one, and it is in the answer. */
static bool show_preview(const char *text, size_t len, struct mcp_answer *ret)
{
    static const unsigned char mark[8] = {0x89, 'P',  'N',  'G',
                                          '\r', '\n', 0x1a, '\n'};
    unsigned char *bytes cleanup(mem_free) = NULL;
    struct error ignored;
    size_t size = 0;

    while (len > 0 && text[len - 1] == '\n')
        len--;
    if (!len || json_base64_decode(text, len, &bytes, &size, &ignored) < 0 ||
        size > PREVIEW_BYTES_MAX || size < sizeof(mark) ||
        memcmp(bytes, mark, sizeof(mark)) != 0)
        return false;
    mcp_answer_image(ret, "image/png", bytes, size);
    return true;
}

static void say(const struct made *m, const struct tool_file *f,
                const struct session_info *session, struct mcp_answer *ret)
{
    struct buf text cleanup(buf_done) = {0};
    char size[32];
    json_t *line;
    size_t i;

    buf_addf(&text, "/mnt/data/%s: %lld page%s, %s.\n", f->path,
             (long long)m->pages, m->pages == 1 ? "" : "s",
             tool_text_size(f->size, size));
    if (tool_some(f->why))
        buf_addf(&text, "%s\n", f->why);
    json_array_foreach (m->warnings, i, line)
        if (json_is_string(line))
            buf_addf(&text, "warning: %s\n", json_string_value(line));
    buf_addf(&text, "[session_id: %s]\n", session->id);
    mcp_answer_text(ret, text.data, text.len);
}

static void encode(struct mcp_call *call, const struct made *m,
                   const struct report_args *a, const struct tool_file *f,
                   const struct session_info *session, bool preview,
                   struct mcp_answer *ret)
{
    struct json_writer w = {.out = &ret->structured};
    json_t *line;
    size_t i;

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_string(&w, "session_id", session->id);
    json_write_int(&w, "pages", m->pages);
    json_write_string(&w, "page_size", sizes[a->page_size]);
    json_write_open(&w, "warnings", '[');
    json_array_foreach (m->warnings, i, line)
        if (json_is_string(line))
            json_write_string(&w, NULL, json_string_value(line));
    json_write_close(&w, ']');
    json_write_bool(&w, "preview", preview);
    tool_file_encode(&w, "file", call->arena, session->workspace, f);
    json_write_close(&w, '}');
}

static void answer(struct mcp_call *call, const struct session_info *session,
                   const struct report_args *a, const struct exec_info *info,
                   const struct made *m, const char *preview, size_t len,
                   struct mcp_answer *ret)
{
    struct workspace_file kept cleanup(workspace_file_done) = {.path = NULL};
    struct tool_file f = {.size = (uint64_t)m->size};
    bool shown;

    find_file(call, session, info, a->path, &f, &kept);
    say(m, &f, session, ret);
    shown = show_preview(preview, len, ret);
    tool_file_link(ret, call->arena, session->workspace, &f);
    encode(call, m, a, &f, session, shown, ret);
    tool_files_meta(ret, session->id, &f, 1);
}

/* ---- spine -------------------------------------------------------------- */

static void read_answer(struct mcp_call *call,
                        const struct session_info *session,
                        const struct report_args *a, struct execution *e,
                        struct mcp_answer *ret)
{
    json_t *json cleanup(json_unref) = NULL;
    struct made m = {.ok = false};
    struct doors_outcome o;
    struct exec_info info;
    struct error ignored;
    const char *out, *end;
    size_t line;

    execution_info(e, &info);
    if (info.status != EXEC_COMPLETED) {
        tool_held_answer(&info, ret);
        return;
    }
    doors_outcome_read(e, &o);
    out = o.stdout_text.data ? o.stdout_text.data : "";
    end = memchr(out, '\n', o.stdout_text.len);
    line = end ? (size_t)(end - out) : 0;
    if (info.outcome != OUTCOME_OK ||
        json_parse(out, line, &json, &ignored) < 0 ||
        json_read(json, made_fields, ARRAY_SIZE(made_fields), &m, &ignored) <
            0)
        refuse_end(&info, &o, ret);
    else if (!m.ok)
        mcp_answer_refuse(ret, "error",
                          "The report was not made: %.300s. "
                          "%.300s",
                          m.error ? m.error : "", m.hint ? m.hint : "");
    else
        answer(call, session, a, &info, &m, out + line + 1,
               o.stdout_text.len - line - 1, ret);
    doors_outcome_done(&o);
}

int tool_generate_pdf_report(struct mcp_call *call, const json_t *args,
                             struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct buf command cleanup(buf_done) = {0};
    struct report_args a = {.path = "report.pdf",
                            .title = "",
                            .author = "",
                            .header = "",
                            .footer = "",
                            .timeout = SECONDS_DEFAULT};
    struct exec_spec spec = {.language = EXEC_SHELL, .report = true};
    int r = api_read(args, &tool_generate_pdf_report_input, &a, err);

    if (r == 0)
        r = check(call, &a, err);
    if (r == 0)
        r = tool_session(call, TOOL_MAKE, tool_held_session(call, a.session),
                         NULL, &session, err);
    if (r < 0)
        return r;
    make_command(&command, &a);
    spec.code = command.data;
    spec.code_len = command.len;
    spec.timeout_s = (uint32_t)a.timeout;
    r = tool_execute(call, session.id, &spec, &e, err);
    if (r == 0)
        read_answer(call, &session, &a, e, ret);
    return r;
}

/* ---- its words ---------------------------------------------------------- */

const char tool_generate_pdf_report_text[] =
    "Makes a PDF of Markdown or HTML, with proper pages: page numbers, title, "
    "table of contents, header and footer, tables whose head repeats on every "
    "page and that shrink or turn when they are wide, highlighted code, "
    "footnotes, and text in any script, right-to-left included. Pictures and "
    "tables come from the session's files: ![Sales by month](chart.png) is a "
    "figure with that caption, ![Top customers](data.csv) (or a fenced csv "
    "block with the file's name or the rows) a table. So first make charts "
    "and data with execute_python, saved below /mnt/data, then call this with "
    "the same session_id. Returns the page count, a picture of page one (look "
    "at it), warnings about what was missing, and a link to the PDF, which is "
    "kept with its versions. It does not touch the interpreter's variables, "
    "and there is no network: pictures from the web are left out. Limits: "
    "900,000 bytes of text; timeout 5 to 900 s, 180 unless given. timeout: "
    "shorten the tables or raise timeout; error: the message says what to "
    "put right.";
