/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search_files and search_workspace.
 *
 * search_files looks for a regular expression in a session's files. It runs in
 * the session, by rg or else grep, as a command of its own: a pattern that
 * takes forever uses up the session's time, and the interpreter's variables
 * are not touched. The command is put together here, and its output, which may
 * be anything, is parsed here.
 *
 * search_workspace uses the index of names and contents. Its citations can be
 * resolved later: each names the version that was found, and the place in it.
 * Runs on a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"
#include "search/search.h"

/* ---- search_files ------------------------------------------------------- */

#define MATCHES_MAX 500
#define MATCHES_DEFAULT 100
#define CONTEXT_MAX 10
#define PATTERN_MAX 1000
#define TIMEOUT_S 60u
#define OUTPUT_BYTES 900000 /* below the output limit of an execution */
#define LINE_CHARS 300u
#define SHOWN_BYTES 60000u /* of the text block */
#define ENDED "glovebox-search-exit "

struct search_args {
    const char *pattern, *path, *glob, *session, *workspace;
    bool ignore_case;
    int64_t context, max;
};

#define SEARCH_ARG(member) API_AT(struct search_args, member)

static const struct api_field search_arguments[] = {
    {"pattern", API_STRING, API_REQUIRED, SEARCH_ARG(pattern), .min = 1,
     .max = PATTERN_MAX, .help = "Regular expression, without look-around"},
    {"path", API_STRING, SEARCH_ARG(path), .max = TOOL_PATH_MAX,
     .help = "Only in this file or below this folder of /mnt/data"},
    {"glob", API_STRING, SEARCH_ARG(glob), .min = 1, .max = 200,
     .help = "Only in files with such a name, for example *.py"},
    {"context", API_INT, API_DEFAULT, SEARCH_ARG(context), .max = CONTEXT_MAX,
     .help = "Lines to show around each match"},
    {"ignore_case", API_BOOL, API_DEFAULT, SEARCH_ARG(ignore_case),
     .value = false},
    {"max", API_INT, API_DEFAULT, SEARCH_ARG(max), .min = 1,
     .max = MATCHES_MAX, .value = MATCHES_DEFAULT,
     .help = "Matches to return"},
    TOOL_SESSION(struct search_args),
    {"workspace", API_STRING, SEARCH_ARG(workspace), .min = 1, .max = ID_MAX,
     .help = "Search the files of this workspace, ws_…, in a session on it"},
};
TOOL_INPUT(search_files, struct search_args, search_arguments);

struct line {
    const char *path, *text;
    size_t path_len, text_len;
    int64_t number;
    bool match;
};

static void write_match_path(struct json_writer *w, const char *key,
                             const void *object)
{
    const struct line *l = object;

    json_write_text(w, key, l->path, l->path_len);
}

static void write_match_text(struct json_writer *w, const char *key,
                             const void *object)
{
    const struct line *l = object;

    json_write_text(w, key, l->text,
                    tool_text_offset(l->text, l->text_len, LINE_CHARS));
}

static const struct api_field line_fields[] = {
    {"path", API_STRING, .write = write_match_path},
    {"line", API_INT, API_AT(struct line, number)},
    {"text", API_STRING, .write = write_match_text},
    {"match", API_BOOL, API_AT(struct line, match),
     .help = "false: a line around a match"},
};
static API_OUTPUT(line_resource, "line", struct line, line_fields, NULL);

struct search_answer {
    struct tool_run_status status;
    const struct buf *lines;
    int64_t matches;
    bool more;
};

static const struct api_field search_fields[] = {
    {"lines", API_ARRAY, API_AT(struct search_answer, lines),
     .of = &line_resource},
    {"matches", API_INT, API_AT(struct search_answer, matches)},
    {"more", API_BOOL, API_AT(struct search_answer, more)},
};
TOOL_RUN_OUTPUT(search_files, struct search_answer, search_fields);

/* ---- the command -------------------------------------------------------- */

/* Both print "path NUL line : text" for a match and "-" for what is around
 * it. One more than asked for in a file shows that there is more. */
static void add_search_program(struct buf *out, const struct search_args *a,
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

/* ---- its output --------------------------------------------------------- */

struct found {
    struct json_writer w; /* over lines */
    struct buf lines, text;
    int64_t count, max;
    bool more;
    char path[PATH_BYTES_MAX + 8]; /* of the line before */
};

/* False: one of the tool's own lines, between groups or about a binary. */
static bool parse_match(const char *at, size_t len, struct line *ret)
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

static void write_match_line(struct found *f, const struct line *l, size_t len)
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

static void parse_search_output(struct found *f, const struct buf *out)
{
    const char *at = out->data, *end = out->data + out->len;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct line l;

        if (!stop)
            return; /* cut off in the middle */
        if (parse_match(at, (size_t)(stop - at), &l)) {
            if (l.match && f->count == f->max) {
                f->more = true;
                return;
            }
            f->count += l.match;
            write_match_line(f, &l,
                             tool_text_offset(l.text, l.text_len, LINE_CHARS));
            api_write(&f->w, NULL, &line_resource, &l);
        }
        at = stop + 1;
    }
}

/* ---- answering ---------------------------------------------------------- */

/* Reports a bad pattern by the program's own message; 0 if it succeeded. */
static int check_search_end(const struct buf *errors, struct error *err)
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

static void answer_matches(struct found *f, const struct session_info *session,
                           bool cut, struct mcp_answer *ret)
{
    f->more = f->more || cut;
    tool_answer(
        ret, &tool_search_files_output,
        &(struct search_answer){
            {TOOL_OK, .session = session->id}, &f->lines, f->count, f->more});
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
static int run_search(struct mcp_call *call,
                      const struct session_info *session,
                      const struct buf *command, const char *about,
                      struct execution **ret, struct error *err)
{
    struct exec_spec spec = {.language = EXEC_SHELL,
                             .action = POLICY_SEARCH,
                             .about = about,
                             .clean = true,
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

static int search_session(struct mcp_call *call, const struct search_args *a,
                          const struct session_info *session,
                          const char *folder, struct mcp_answer *ret,
                          struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct buf command cleanup(buf_done) = {0};
    struct buf about cleanup(buf_done) = {0};
    struct exec_digest outcome;
    struct found f = {.max = a->max};
    struct exec_info info;
    int r;

    buf_adds(&command,
             "cd /mnt/data || exit 2\n{ if command -v rg >/dev/null; "
             "then\n");
    add_search_program(&command, a, folder, true);
    buf_adds(&command, "\nelse\n");
    add_search_program(&command, a, folder, false);
    buf_addf(&command,
             "\nfi; echo \"" ENDED "$?\" >&2; } | head -c %d\n"
             "exit 0\n",
             OUTPUT_BYTES);

    buf_addf(&about, "%s\nin %s%s%s", a->pattern,
             folder[0] ? folder : "all files", a->glob ? ", named " : "",
             a->glob ? a->glob : "");
    r = run_search(call, session, &command, about.data, &e, err);
    if (r != 0)
        return r;
    execution_info(e, &info);
    if (info.status != EXEC_COMPLETED) {
        tool_held_answer(&info, ret);
        return 0;
    }
    execution_digest_read(e, &outcome);
    f.w = (struct json_writer){.out = &f.lines};
    if (outcome.stdout_text.len)
        parse_search_output(&f, &outcome.stdout_text);
    if (!f.count)
        r = check_search_end(&outcome.stderr_text, err);
    if (r == 0)
        answer_matches(&f, session, outcome.stdout_text.len >= OUTPUT_BYTES,
                       ret);
    buf_done(&f.lines);
    buf_done(&f.text);
    execution_digest_done(&outcome);
    return r;
}

int tool_search_files(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct search_args a = {.path = ""};
    const char *folder = "";
    int r = api_read(args, &tool_search_files_input, &a, err);

    if (r == 0 && strpbrk(a.pattern, "\r\n"))
        r = error_set(err, ERR_INVALID, "the pattern must be one line");
    if (r == 0)
        r = tool_folder(call->arena, a.path, &folder, err);
    if (r == 0)
        r = tool_session(call, a.workspace ? TOOL_MAKE : TOOL_FIND, a.session,
                         a.workspace, &session, err);
    return r < 0 ? r : search_session(call, &a, &session, folder, ret, err);
}

const char tool_search_files_text[] =
    "Finds lines that match a regular expression in the session's text files "
    "(below /mnt/data) and returns them with path, line number and, if asked, "
    "lines around. Use it to find where something is before reading it with "
    "read_file; to search the words of PDFs and of other workspaces use "
    "search_workspace. With workspace it searches that one, in a session of "
    "yours on it. Binary files are left out. At most 500 matches, 100 "
    "unless max says otherwise; more tells that there are others. It runs in "
    "the session without touching the interpreter and is given up after 60 s. "
    "invalid_request: correct the pattern; deadline_passed: search a smaller "
    "folder.";

/* ---- search_workspace --------------------------------------------------- */

#define LIMIT_MAX 100
#define LIMIT_DEFAULT 10

struct find_args {
    const char *query, *workspace, *prefix, *type, *conversation, *after;
    int64_t limit;
    int mode; /* enum search_mode */
};

static const char *const search_modes[] = {
    [SEARCH_LEXICAL] = "lexical",
    [SEARCH_SEMANTIC] = "semantic",
    [SEARCH_HYBRID] = "hybrid",
    NULL,
};

#define FIND_ARG(member) API_AT(struct find_args, member)

static const struct api_field find_arguments[] = {
    {"query", API_STRING, API_REQUIRED, FIND_ARG(query), .min = 1,
     .max = SEARCH_QUERY_MAX},
    {"mode", API_CHOICE, API_DEFAULT, FIND_ARG(mode), .choices = search_modes,
     .value = SEARCH_LEXICAL,
     .help = "lexical: files with all the words; hybrid: passages by words "
             "and meaning; semantic: by meaning alone"},
    {"workspace", API_STRING, FIND_ARG(workspace), .min = 1, .max = ID_MAX,
     .help = "Only in this one, ws_…"},
    {"path", API_STRING, FIND_ARG(prefix), .max = TOOL_PATH_MAX,
     .help = "Only below this folder"},
    {"type", API_STRING, FIND_ARG(type), .min = 1, .max = 96,
     .help = "Only of this kind: csv, code, pdf, image/ …"},
    {"conversation", API_STRING, FIND_ARG(conversation), .min = 1, .max = 256,
     .help = "Only files this conversation made or changed"},
    TOOL_LIMIT(struct find_args, LIMIT_MAX, LIMIT_DEFAULT),
    TOOL_AFTER(struct find_args),
};
TOOL_INPUT(search_workspace, struct find_args, find_arguments);

struct hit {
    struct search_hit of;
    const char *snippet, *uri, *url;
};

#define HIT(member) API_AT(struct hit, member)

static const struct api_field citation_fields[] = {
    {"file_id", API_STRING, HIT(of.file)},
    {"version", API_STRING, HIT(of.version)},
    {"line", API_INT, API_NULLABLE, HIT(of.line)},
    {"page", API_INT, API_NULLABLE, HIT(of.page)},
    {"url", API_STRING, API_NULLABLE, HIT(url)},
};
static API_OUTPUT(citation_resource, "citation", struct hit, citation_fields,
                  NULL);

static const struct api_field hit_fields[] = {
    {"path", API_STRING, HIT(of.path)},
    {"workspace", API_STRING, HIT(of.workspace)},
    {"snippet", API_STRING, HIT(snippet)},
    {"score", API_REAL, HIT(of.score)},
    {"in_name", API_BOOL, HIT(of.in_name)},
    {"mime_type", API_STRING, API_NULLABLE, HIT(of.mime)},
    {"modified_at", API_TIME, API_NULLABLE, HIT(of.modified_at_ms)},
    {"uri", API_STRING, HIT(uri)},
    {"citation", API_OBJECT, .of = &citation_resource},
};
static API_OUTPUT(hit_resource, "hit", struct hit, hit_fields, NULL);

struct hits {
    struct tool_status status;
    const struct hit *hits;
    size_t count;
    const char *next;
    uint64_t pending;
    const char *mode;
    bool degraded;
    const char *reason;
};

#define HITS(member) API_AT(struct hits, member)

static const struct api_field find_fields[] = {
    {"hits", API_ARRAY, API_LIST(struct hits, hits, count),
     .of = &hit_resource},
    {"next", API_STRING, API_NULLABLE, HITS(next)},
    {"pending", API_INT, HITS(pending)},
    {"mode", API_STRING, HITS(mode)},
    {"degraded", API_BOOL, HITS(degraded),
     .help = "ranked by words alone, or by a part of the files"},
    {"reason", API_STRING, API_NULLABLE, HITS(reason)},
};
TOOL_OUTPUT(search_workspace, struct hits, find_fields);

/* The marks around hits are for people's eyes; models read **bold**. */
static char *plain_snippet(struct arena *arena, const char *snippet)
{
    static const char open[] = "\u2068", close[] = "\u2069";
    struct buf out cleanup(buf_done) = {0};

    for (const char *at = snippet ? snippet : ""; *at;) {
        if (strncmp(at, open, 3) == 0 || strncmp(at, close, 3) == 0) {
            buf_adds(&out, "**");
            at += 3;
        } else {
            buf_add(&out, *at == '\n' ? " " : at, 1);
            at++;
        }
    }
    return arena_strdup(arena, out.data ? out.data : "");
}

static void write_hit(struct buf *out, size_t number,
                      const struct search_hit *h, const char *snippet)
{
    buf_addf(out, "[%zu] %s", number, h->path);
    if (h->page)
        buf_addf(out, ", page %u", h->page);
    else if (h->line)
        buf_addf(out, ", line %u", h->line);
    buf_addf(out, " (%s, version %s)\n", h->workspace, h->version);
    if (snippet[0])
        buf_addf(out, "    %s\n", snippet);
}

static void answer_hits(struct mcp_call *call, const struct search_hit *hits,
                        size_t count, bool more,
                        const struct search_state *state,
                        enum search_mode mode,
                        const struct search_quality *quality,
                        struct mcp_answer *ret)
{
    struct hit *list cleanup(mem_free) = xcalloc(count + 1, sizeof(*list));
    const char *next = more ? hits[count - 1].cursor : NULL;
    struct buf text cleanup(buf_done) = {0};

    for (size_t i = 0; i < count; i++) {
        const struct search_hit *h = &hits[i];

        list[i] = (struct hit){
            .of = *h,
            .snippet = plain_snippet(call->arena, h->snippet),
            .uri = mcp_uri_make(call->arena, h->workspace, h->path),
            .url = tool_file_url(call, h->file, h->version),
        };
        write_hit(&text, i + 1, h, list[i].snippet);
    }
    tool_answer(ret, &tool_search_workspace_output,
                &(struct hits){TOOL_OK, list, count, next, state->pending,
                               search_modes[mode], quality->degraded,
                               tool_some(quality->reason)});
    if (!count)
        buf_adds(&text, "Nothing was found.\n");
    if (quality->degraded)
        buf_addf(&text, "[%s]\n", quality->reason);
    if (state->pending)
        buf_addf(&text,
                 "[%llu files are not read yet; ask again in a few "
                 "seconds]\n",
                 (unsigned long long)state->pending);
    if (next)
        buf_addf(&text, "[there are more: go on with after=%s]\n", next);
    mcp_answer_text(ret, text.data, text.len);
}

int tool_search_workspace(struct mcp_call *call, const json_t *args,
                          struct mcp_answer *ret, struct error *err)
{
    struct find_args a = {.query = NULL};
    struct search_state state = {0};
    struct search_quality quality = {.degraded = false};
    struct search_spec spec;
    struct search_hit *hits = NULL;
    struct error ignored;
    size_t count = 0;
    bool more = false;
    int r = api_read(args, &tool_search_workspace_input, &a, err);

    if (r == 0 && a.prefix)
        r = tool_folder(call->arena, a.prefix, &a.prefix, err);
    spec = (struct search_spec){
        .query = a.query,
        .workspace = a.workspace,
        .prefix = tool_some(a.prefix),
        .type = a.type,
        .conversation = a.conversation,
        .limit = (unsigned)a.limit,
        .after = a.after,
        .mode = (enum search_mode)a.mode,
    };
    if (r == 0 && spec.mode == SEARCH_LEXICAL)
        r = search_query(call->doors->search, call->actor, &spec, &hits,
                         &count, &more, err);
    else if (r == 0)
        r = search_recall(call->doors->search, call->actor, &spec, &hits,
                          &count, &more, &quality, err);
    if (r < 0)
        return r;
    if (search_state(call->doors->search, call->actor, a.workspace, &state,
                     &ignored) < 0)
        state = (struct search_state){0}; /* only a remark is lost */
    answer_hits(call, hits, count, more && count, &state, spec.mode, &quality,
                ret);
    search_hits_free(hits, count);
    return 0;
}

const char tool_search_workspace_text[] =
    "Full-text search over the files of all workspaces you can see, or of "
    "one: names and contents, PDF and office documents included. Words must "
    "all occur; \"phrases\" in quotes and prefix* work. With mode hybrid it "
    "finds passages by words and meaning instead, in workspaces whose owner "
    "switched intelligence on: use it for a question in your own words. Each "
    "hit has a "
    "snippet with the words **marked** and a citation: the version, and the "
    "line or page, so that what you quote can be found again. Cite it in your "
    "answer. Files are indexed within seconds of being written; pending tells "
    "how many are not read yet. For regular expressions in the session's own "
    "files use search_files.";
