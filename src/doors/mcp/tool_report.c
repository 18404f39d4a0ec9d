/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate_pdf_report: makes a PDF of Markdown or HTML. The program that does
 * it (report_markdown.py, report_tables.py and report.py, joined) is carried
 * in this object and never run here: it goes into the session as a command,
 * with the text on its standard input. Its answer is one line of JSON and a
 * picture of a page, and is trusted no more than other output of a session.
 * Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/size.h"
#include "doors/mcp/tool.h"

#define TEXT_BYTES_MAX                                                        \
    900000 /* with the program, within one execution's code */
#define SECONDS_DEFAULT 180
#define SECONDS_MAX 900
#define PREVIEW_BYTES_MAX (1u << 20)
#define PROGRAM_END "GLOVEBOX_REPORT_PROGRAM_ENDS"

/* Found along the include path, like a header. */
__asm__(".pushsection .rodata\n"
        ".globl tool_report_program\n"
        ".hidden tool_report_program\n"
        "tool_report_program:\n"
        ".incbin \"doors/mcp/report_markdown.py\"\n"
        ".incbin \"doors/mcp/report_tables.py\"\n"
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
     .help = "The text, in GitHub-flavoured Markdown with footnotes and "
             "formulas ($…$, $$…$$); or give html"},
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

struct report_answer {
    struct tool_run_status status;
    int64_t pages, preview_page;
    const char *page_size;
    const json_t *warnings; /* of the session: anything */
    bool preview;
    struct tool_file_view file;
};

static void write_warnings(struct json_writer *w, const char *key,
                           const void *object)
{
    const json_t *warnings = ((const struct report_answer *)object)->warnings;
    json_t *line;
    size_t i;

    json_write_open(w, key, '[');
    json_array_foreach (warnings, i, line)
        if (json_is_string(line))
            json_write_string(w, NULL, json_string_value(line));
    json_write_close(w, ']');
}

#define REPORT(member) API_AT(struct report_answer, member)

static const struct api_field answer_fields[] = {
    {"pages", API_INT, REPORT(pages)},
    {"page_size", API_STRING, REPORT(page_size)},
    {"warnings", API_ARRAY, .write = write_warnings},
    {"preview", API_BOOL, REPORT(preview),
     .help = "The answer has an image of a page"},
    {"preview_page", API_INT, REPORT(preview_page),
     .help = "The page of the image: the first with contents of the text"},
    {"file", API_OBJECT, REPORT(file), .of = &tool_one_file_resource},
};
TOOL_RUN_OUTPUT(generate_pdf_report, struct report_answer, answer_fields);

/* ---- what is asked ------------------------------------------------------ */

/* ".pdf" at its end, whatever the case. */
static bool is_pdf(const char *path)
{
    size_t len = strlen(path);

    return len > 4 && strcasecmp(path + len - 4, ".pdf") == 0;
}

static int check_arguments(struct mcp_call *call, struct report_args *a,
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

/* The program's input is the options on one line, then the text as it is: in
 * JSON it could double in size and exceed the limit of an execution's code.
 * The line that ends the input is the text's own hash: no text can contain it
 * and have its remainder run as a command. */
static void make_command(struct buf *out, const struct report_args *a)
{
    const char *text = a->markdown ? a->markdown : a->html;
    unsigned char hash[HASH_SIZE];
    char end[HASH_HEX];

    hash_sha256(text, strlen(text), hash);
    ids_hex(hash, sizeof(hash), end);
    buf_addf(out,
             "exec python3 -I -X utf8 /dev/fd/9 9<<'" PROGRAM_END "' <<'%s'\n",
             end);
    buf_adds(out, tool_report_program);
    buf_adds(out, PROGRAM_END "\n");

    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "format", a->markdown ? "markdown" : "html");
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

    buf_adds(out, "\n");
    buf_adds(out, text);
    buf_addf(out, "\n%s\n", end);
}

/* ---- what came of it ---------------------------------------------------- */

struct made {
    bool ok;
    int64_t pages, size, preview_page;
    const char *error, *hint;
    json_t *warnings;
    const char *path, *title;
};

#define MADE(member) offsetof(struct made, member)

static const struct json_field made_fields[] = {
    {"ok", JSON_KIND_BOOL, .required = true, .offset = MADE(ok)},
    {"pages", JSON_KIND_INT, .offset = MADE(pages), .max = INT32_MAX},
    {"size", JSON_KIND_INT, .offset = MADE(size), .max = INT64_MAX},
    {"preview_page", JSON_KIND_INT, .offset = MADE(preview_page),
     .max = INT32_MAX},
    {"error", JSON_KIND_STRING, .offset = MADE(error), .max = INT64_MAX},
    {"hint", JSON_KIND_STRING, .offset = MADE(hint), .max = INT64_MAX},
    {"warnings", JSON_KIND_ARRAY, .offset = MADE(warnings), .max = 100},
    {"path", JSON_KIND_STRING, .offset = MADE(path), .max = INT64_MAX},
    {"title", JSON_KIND_STRING, .offset = MADE(title), .max = INT64_MAX},
};

static void refuse_outcome(const struct exec_info *info,
                           const struct exec_digest *o, struct mcp_answer *ret)
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
static void find_report_file(struct mcp_call *call,
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

static void write_words(const struct made *m, const struct tool_file *f,
                        const struct session_info *session,
                        struct mcp_answer *ret)
{
    struct buf text cleanup(buf_done) = {0};
    char size[32];
    json_t *line;
    size_t i;

    buf_addf(&text, "/mnt/data/%s: %lld page%s, %s.\n", f->path,
             (long long)m->pages, m->pages == 1 ? "" : "s",
             size_format(f->size, size));
    if (tool_some(f->why))
        buf_addf(&text, "%s\n", f->why);
    json_array_foreach (m->warnings, i, line)
        if (json_is_string(line))
            buf_addf(&text, "warning: %s\n", json_string_value(line));
    if (m->preview_page > 1)
        buf_addf(&text, "The picture shows page %lld.\n",
                 (long long)m->preview_page);
    buf_addf(&text, "[session_id: %s]\n", session->id);
    mcp_answer_text(ret, text.data, text.len);
}

static void answer_report(struct mcp_call *call,
                          const struct session_info *session,
                          const struct report_args *a,
                          const struct exec_info *info, const struct made *m,
                          const char *preview, size_t len,
                          struct mcp_answer *ret)
{
    struct workspace_file kept cleanup(workspace_file_done) = {.path = NULL};
    struct tool_file f = {.size = (uint64_t)m->size};
    bool shown;

    find_report_file(call, session, info, a->path, &f, &kept);
    write_words(m, &f, session, ret);
    shown = show_preview(preview, len, ret);
    tool_file_link(ret, call->arena, session->workspace, &f);
    tool_answer(ret, &tool_generate_pdf_report_output,
                &(struct report_answer){
                    .status = {TOOL_OK, .session = session->id},
                    .pages = m->pages,
                    .preview_page = shown ? m->preview_page : 0,
                    .page_size = sizes[a->page_size],
                    .warnings = m->warnings,
                    .preview = shown,
                    .file = tool_file_view(call, session->workspace, &f),
                });
    tool_files_meta(ret, call, session->id, session->workspace, &f, 1);
}

/* ---- spine -------------------------------------------------------------- */

static void read_answer(struct mcp_call *call,
                        const struct session_info *session,
                        const struct report_args *a, struct execution *e,
                        struct mcp_answer *ret)
{
    json_t *json cleanup(json_unref) = NULL;
    struct made m = {.ok = false};
    struct exec_digest o;
    struct exec_info info;
    struct error ignored;
    const char *out, *end;
    size_t line;

    execution_info(e, &info);
    if (info.status != EXEC_COMPLETED) {
        tool_held_answer(&info, ret);
        return;
    }
    execution_digest_read(e, &o);
    out = o.stdout_text.data ? o.stdout_text.data : "";
    end = memchr(out, '\n', o.stdout_text.len);
    line = end ? (size_t)(end - out) : 0;
    if (info.outcome != OUTCOME_OK ||
        json_parse(out, line, &json, &ignored) < 0 ||
        json_read(json, made_fields, ARRAY_SIZE(made_fields), &m, &ignored) <
            0)
        refuse_outcome(&info, &o, ret);
    else if (!m.ok)
        mcp_answer_refuse(ret, "error",
                          "The report was not made: %.300s. "
                          "%.300s",
                          m.error ? m.error : "", m.hint ? m.hint : "");
    else
        answer_report(call, session, a, &info, &m, out + line + 1,
                      o.stdout_text.len - line - 1, ret);
    execution_digest_done(&o);
}

int tool_generate_pdf_report(struct mcp_call *call, const json_t *args,
                             struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct buf command cleanup(buf_done) = {0};
    struct buf about cleanup(buf_done) = {0};
    struct report_args a = {.path = "report.pdf",
                            .title = "",
                            .author = "",
                            .header = "",
                            .footer = "",
                            .timeout = SECONDS_DEFAULT};
    struct exec_spec spec = {
        .language = EXEC_SHELL, .action = POLICY_REPORT, .clean = true};
    int r = api_read(args, &tool_generate_pdf_report_input, &a, err);

    if (r == 0)
        r = check_arguments(call, &a, err);
    if (r == 0)
        r = tool_session(call, TOOL_MAKE, tool_held_session(call, a.session),
                         NULL, &session, err);
    if (r < 0)
        return r;
    make_command(&command, &a);
    spec.code = command.data;
    spec.code_len = command.len;
    spec.timeout_s = (uint32_t)a.timeout;
    buf_addf(&about, "%s\n\n%s", a.path, a.markdown ? a.markdown : a.html);
    spec.about = about.data;
    r = tool_execute(call, session.id, &spec, &e, err);
    if (r == -ERR_TOO_LARGE)
        return error_hint(err, "The text of a report and the program that "
                               "makes it count together. Shorten the text, "
                               "or put its tables into files below "
                               "/mnt/data.");
    if (r == 0)
        read_answer(call, &session, &a, e, ret);
    return r;
}

/* ---- its words ---------------------------------------------------------- */

const char tool_generate_pdf_report_text[] =
    "Makes a PDF of Markdown or HTML, with proper pages: page numbers, title, "
    "table of contents, header and footer, highlighted code, footnotes, and "
    "text in any script, right-to-left included. Markdown is GitHub's: "
    "tables, nested and task lists, ~~strike~~, bare links, and formulas as "
    "$x^2$ or $$…$$. A wide table gets smaller type, then a landscape page, "
    "then is split by columns; its head repeats on every page. Pictures and "
    "tables come from the session's files: ![Sales by month](chart.png) is a "
    "figure with that caption, ![Top customers](data.csv) (or a fenced csv "
    "block with the file's name or the rows) a table. So first make charts "
    "and data with execute_python, saved below /mnt/data, then call this with "
    "the same session_id. Returns the page count, a picture of the first page "
    "with contents (look at it), warnings (a split table, a formula shown as "
    "text), and a link to the PDF, which is kept with its versions. It does "
    "not touch the interpreter's variables, and there is no network: pictures "
    "from the web are left out. Limits: 900,000 bytes of text; of a file's "
    "table 2,000 rows and 20,000 cells; timeout 5 to 900 s, 180 unless given. "
    "A file that is missing or unreadable is an error, and no PDF is written. "
    "timeout: shorten the tables or raise timeout; error: the message says "
    "what to put right.";
