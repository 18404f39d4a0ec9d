/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_file and list_files: the text of a file by lines, and the files below
 * /mnt/data. Runs on a worker of the daemon. Both read a session's files
 * through its broker, which does not wake a dormant session; with workspace or
 * version they read what is committed. The core lists files in order of their
 * paths; folders are derived from that.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/path.h"
#include "base/size.h"
#include "doors/mcp/tool.h"

/* ---- read_file ---------------------------------------------------------- */

#define LINES_MAX 2000
#define LINES_DEFAULT 500
#define LINE_CHARS 4000u        /* of one line; the rest is cut */
#define SHOWN_BYTES 200000u     /* of one answer */
#define SCAN_BYTES (256u << 20) /* looked through for the line and the end */
#define CHUNK 65536u
#define BINARY_LOOK 8192u

struct read_args {
    const char *path, *session, *workspace, *version;
    int64_t offset, limit;
};

#define READ_ARG(member) API_AT(struct read_args, member)

static const struct api_field read_arguments[] = {
    {"path", API_STRING, API_REQUIRED, READ_ARG(path), .min = 1,
     .max = TOOL_PATH_MAX,
     .help = "Below /mnt/data, such as notes.md or /mnt/data/notes.md"},
    {"offset", API_INT, API_DEFAULT, READ_ARG(offset), .min = 1,
     .max = INT32_MAX, .value = 1,
     .help = "The first line to read, counted from 1"},
    {"limit", API_INT, API_DEFAULT, READ_ARG(limit), .min = 1,
     .max = LINES_MAX, .value = LINES_DEFAULT, .help = "How many lines"},
    TOOL_SESSION(struct read_args),
    {"workspace", API_STRING, READ_ARG(workspace), .min = 1, .max = ID_MAX,
     .help = "Read what is committed to this workspace, ws_…, instead of a "
             "session's file"},
    {"version", API_STRING, READ_ARG(version), .min = 1, .max = ID_MAX,
     .help = "Read this version of the file, ver_…, as search_workspace and "
             "file_history name it"},
};
TOOL_INPUT(read_file, struct read_args, read_arguments);

struct lines {
    struct tool_status status;
    const char *session, *workspace, *version; /* one of the first two */
    const char *path;
    uint64_t size;
    const struct buf *text;
    int64_t first, count, total, next; /* total: -1 when it is not known */
};

static void write_lines_text(struct json_writer *w, const char *key,
                             const void *object)
{
    const struct buf *text = ((const struct lines *)object)->text;

    json_write_text(w, key, text && text->data ? text->data : "",
                    text ? text->len : 0);
}

#define LINES(member) API_AT(struct lines, member)

static const struct api_field lines_fields[] = {
    {"session_id", API_STRING, API_OPTIONAL, LINES(session)},
    {"workspace", API_STRING, API_OPTIONAL, LINES(workspace),
     .help = "Of a file that was read from there"},
    {"version", API_STRING, API_OPTIONAL, LINES(version),
     .help = "Of a file that was read from a workspace"},
    {"path", API_STRING, LINES(path)},
    {"size", API_INT, LINES(size)},
    {"text", API_STRING, .write = write_lines_text},
    {"first_line", API_INT, LINES(first)},
    {"lines", API_INT, LINES(count)},
    {"total_lines", API_INT, API_NULLABLE, LINES(total), .none = -1},
    {"next_offset", API_INT, API_NULLABLE, LINES(next)},
};
TOOL_OUTPUT(read_file, struct lines, lines_fields);

/* The pages that were read. */
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

static void collect_chunk(struct pages *p, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t n = end ? (size_t)(end - bytes) : len;

        /* A line is collected up to what could be shown of it and a little
         * more, so that a file without line ends needs no memory of its size.
         */
        bool wanted = p->line >= p->from && p->line < p->until && !p->full;
        size_t room = SHOWN_BYTES - MIN(p->current.len, (size_t)SHOWN_BYTES);

        p->some = p->some || n > 0;
        if (wanted)
            buf_add(&p->current, bytes, MIN(n, room));

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
        collect_chunk(p, chunk, (size_t)n);
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

/* l: without what the pages say; where: how the text names the file. */
static void answer_lines(struct pages *p, struct lines *l, const char *where,
                         struct mcp_answer *ret)
{
    int64_t total = p->whole ? p->line - 1 : -1;
    int64_t next = p->from + p->shown;
    bool more = !p->whole || next <= total;

    buf_adds(&p->text, "");
    mcp_answer_text(ret, p->text.data, p->text.len);
    if (!p->shown)
        mcp_answer_textf(ret, "[%s has %lld lines; line %lld is past its end]",
                         where, (long long)total, (long long)p->from);
    else if (more)
        mcp_answer_textf(
            ret, "[lines %lld to %lld of %s; go on with offset %lld]",
            (long long)p->from, (long long)next - 1, where, (long long)next);
    else
        mcp_answer_textf(ret, "[lines %lld to %lld of %s, its end]",
                         (long long)p->from, (long long)next - 1, where);
    l->text = &p->text;
    l->first = p->from;
    l->count = p->shown;
    l->total = total;
    l->next = more && p->shown ? next : 0;
    tool_answer(ret, &tool_read_file_output, l);
}

/* A file as a session has it now. */
static int open_session_file(struct mcp_call *call, const struct read_args *a,
                             struct lines *l, int *ret_fd, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct stat st = {0};
    int r = tool_session(call, TOOL_FIND, a->session, NULL, &session, err);

    if (r == 0)
        r = session_files_open(call->doors->sessions, call->actor, session.id,
                               l->path, ret_fd, &st, err);
    l->session = arena_strdup(call->arena, session.id);
    l->size = (uint64_t)st.st_size;
    return r;
}

/* One as it is committed, now or in a version. */
static int open_committed_file(struct mcp_call *call,
                               const struct read_args *a, struct lines *l,
                               int *ret_fd, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    char workspace[ID_MAX] = "";
    int r = tool_workspace(call, a->workspace, a->session, workspace, err);

    if (r == 0)
        r = workspace_file_get(call->doors->workspaces, call->actor, workspace,
                               l->path, a->version, &f, err);
    if (r == 0)
        r = workspace_file_open(call->doors->workspaces, call->actor, &f,
                                ret_fd, err);
    l->workspace = arena_strdup(call->arena, workspace);
    l->version = arena_strdup(call->arena, f.version);
    l->size = f.size;
    return r;
}

int tool_read_file(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    struct read_args a = {.path = NULL};
    struct lines l = {TOOL_OK, .session = NULL};
    struct pages p = {.line = 1};
    int fd cleanup(fd_close) = -1;
    int r = api_read(args, &tool_read_file_input, &a, err);

    if (r == 0)
        r = tool_path(call->arena, a.path, &l.path, err);
    if (r < 0)
        return r;
    r = a.workspace || a.version ? open_committed_file(call, &a, &l, &fd, err)
                                 : open_session_file(call, &a, &l, &fd, err);
    if (r == -ERR_NOT_FOUND &&
        (tool_some(l.session) || tool_some(l.workspace)))
        (void)error_hint(err, "list_files lists the existing files.");
    if (r < 0)
        return r;
    p.from = a.offset;
    p.until = a.offset + a.limit;
    r = read_lines(fd, &p, err);
    if (r == 0)
        answer_lines(
            &p, &l,
            l.workspace
                ? arena_printf(call->arena, "%s in %s", l.path, l.workspace)
                : arena_printf(call->arena, "/mnt/data/%s", l.path),
            ret);
    buf_done(&p.text);
    buf_done(&p.current);
    return r;
}

const char tool_read_file_text[] =
    "Reads lines of a text file of the session, or with workspace and version "
    "one that is committed, such as a hit of search_workspace: 500 lines "
    "unless limit says otherwise, at most 2,000 per call; next_offset is where "
    "to continue. Use it for source code, logs, CSV and Markdown. For images and other binary "
    "files use download_file, to find text in files use search_files, and to "
    "analyse data use execute_python. Lines longer than 4,000 characters are "
    "cut. A sleeping session is not woken. not_found: call list_files.";

/* ---- list_files --------------------------------------------------------- */

#define LIMIT_MAX 1000
#define LIMIT_DEFAULT 50 /* about 12 KB */
#define PAGE 1000u
#define PAGES_MAX 128u /* more than a session's files */

struct list_args {
    const char *path, *pattern, *session, *workspace, *version, *after;
    bool recursive;
    int sort; /* enum list_order */
    int64_t limit;
};

enum list_order {
    BY_PATH,
    BY_TIME,
};

static const char *const list_orders[] = {"path", "newest", NULL};

#define LIST_ARG(member) API_AT(struct list_args, member)

static const struct api_field list_arguments[] = {
    {"path", API_STRING, LIST_ARG(path), .max = TOOL_PATH_MAX,
     .help = "Only below this folder of /mnt/data"},
    {"recursive", API_BOOL, API_DEFAULT, LIST_ARG(recursive), .value = true,
     .help = "false: one level, folders as entries that end with /"},
    {"pattern", API_STRING, LIST_ARG(pattern), .min = 1, .max = 200,
     .help = "* and ? within a name, ** across folders; without a / it is of "
             "the name alone"},
    {"sort", API_CHOICE, API_DEFAULT, LIST_ARG(sort), .choices = list_orders,
     .value = BY_PATH,
     .help = "newest: files changed last come first, without folders"},
    TOOL_LIMIT(struct list_args, LIMIT_MAX, LIMIT_DEFAULT),
    {"after", API_STRING, LIST_ARG(after), .min = 1, .max = TOOL_PATH_MAX,
     .help = "next of the page before"},
    TOOL_SESSION(struct list_args),
    {"workspace", API_STRING, LIST_ARG(workspace), .min = 1, .max = ID_MAX,
     .help = "List what is committed to this workspace, ws_…, instead of a "
             "session's files"},
    {"version", API_STRING, LIST_ARG(version), .min = 1, .max = ID_MAX,
     .help = "The files of the workspace as of a commit, cmt_…, or of a "
             "version of a file, ver_…"},
};
TOOL_INPUT(list_files, struct list_args, list_arguments);

struct entry {
    struct session_file file;
    const char *path, *url;
    bool folder;
};

static bool entry_is_file(const void *object)
{
    return !((const struct entry *)object)->folder;
}

static const char *const entry_types[] = {"file", "folder", NULL};

#define ENTRY(member) API_AT(struct entry, member)

static const struct api_field entry_fields[] = {
    {"path", API_STRING, ENTRY(path)},
    {"type", API_CHOICE, ENTRY(folder), .choices = entry_types},
    {"size", API_INT, API_OPTIONAL, ENTRY(file.size), .when = entry_is_file},
    {"modified_at", API_TIME, API_OPTIONAL | API_NULLABLE,
     ENTRY(file.modified_at_ms), .when = entry_is_file},
    {"url", API_STRING, API_OPTIONAL | API_NULLABLE, ENTRY(url),
     .when = entry_is_file},
};
static API_OUTPUT(entry_resource, "entry", struct entry, entry_fields, NULL);

struct list_answer {
    struct tool_status status;
    const char *session, *workspace;
    const struct buf *entries;
    bool more;
    const char *next;
};

static const struct api_field list_fields[] = {
    {"session_id", API_STRING, API_NULLABLE,
     API_AT(struct list_answer, session)},
    {"workspace", API_STRING, API_OPTIONAL,
     API_AT(struct list_answer, workspace),
     .help = "If its committed files are listed"},
    {"files", API_ARRAY, API_AT(struct list_answer, entries),
     .of = &entry_resource},
    {"more", API_BOOL, API_AT(struct list_answer, more)},
    {"next", API_STRING, API_OPTIONAL, API_AT(struct list_answer, next),
     .help = "If there are more: pass it as after to get the next page"},
};
TOOL_OUTPUT(list_files, struct list_answer, list_fields);

struct listing {
    struct mcp_call *call;
    const struct session_info *session;
    const struct list_args *args;
    const char *folder;
    char workspace[ID_MAX];      /* "" : the session's files */
    int64_t at;                  /* the commit's number; 0: the head */
    struct session_file *newest; /* of BY_TIME, until they are sorted */
    size_t newest_count, newest_room;
    struct json_writer w; /* over entries */
    struct buf entries, text;
    size_t count;
    bool more;
    const char *last_folder; /* arena */
    const char *last;        /* path of the last entry; arena */
};

/* ---- entries ------------------------------------------------------------ */

static void add_folder_entry(struct listing *l, const char *path, size_t len)
{
    char *name = arena_strndup(l->call->arena, path, len);

    if (l->last_folder && strcmp(l->last_folder, name) == 0)
        return;
    l->last_folder = name;
    if (l->args->pattern && !tool_text_match(l->args->pattern, name))
        return;
    if (l->count >= (size_t)l->args->limit) {
        l->more = true;
        return;
    }
    l->count++;
    l->last = arena_printf(l->call->arena, "%s/", name);
    api_write(&l->w, NULL, &entry_resource,
              &(struct entry){.path = l->last, .folder = true});
    buf_addf(&l->text, "%s/\n", name);
}

static void add_file_entry(struct listing *l, const struct session_file *f)
{
    char size[32], when[32];

    if (l->args->pattern && !tool_text_match(l->args->pattern, f->path))
        return;
    if (l->count >= (size_t)l->args->limit) {
        l->more = true;
        return;
    }
    l->count++;
    l->last = arena_strdup(l->call->arena, f->path);
    api_write(
        &l->w, NULL, &entry_resource,
        &(struct entry){.file = *f,
                        .path = f->path,
                        .url = tool_file_url(l->call, f->file, f->version)});
    buf_addf(&l->text, "%s (%s%s%s)\n", f->path, size_format(f->size, size),
             f->modified_at_ms ? ", " : "",
             f->modified_at_ms ? clock_format_ms(f->modified_at_ms, when)
                               : "");
}

static void collect_newest(struct listing *l, const struct session_file *f)
{
    struct session_file *copy;

    if (l->args->pattern && !tool_text_match(l->args->pattern, f->path))
        return;
    if (l->newest_count == l->newest_room) {
        l->newest_room = l->newest_room ? 2 * l->newest_room : 64;
        l->newest = xrealloc(l->newest, l->newest_room * sizeof(*l->newest));
    }
    copy = &l->newest[l->newest_count++];
    *copy = *f;
    copy->path = arena_strdup(l->call->arena, f->path);
}

static int compare_newest(const void *a, const void *b)
{
    const struct session_file *x = a, *y = b;

    if (x->modified_at_ms != y->modified_at_ms)
        return x->modified_at_ms < y->modified_at_ms ? 1 : -1;
    return strcmp(x->path, y->path);
}

/* A page begins behind the file that the page before ended with. If that file
 * is gone, the list begins anew. */
static void add_newest(struct listing *l)
{
    size_t from = 0;

    if (l->newest_count)
        qsort(l->newest, l->newest_count, sizeof(*l->newest), compare_newest);
    for (size_t i = 0; l->args->after && i < l->newest_count; i++)
        if (strcmp(l->newest[i].path, l->args->after) == 0)
            from = i + 1;
    for (size_t i = from; i < l->newest_count && !l->more; i++)
        add_file_entry(l, &l->newest[i]);
    free(l->newest);
}

static void add_entry(struct listing *l, const struct session_file *f)
{
    size_t skip = l->folder[0] ? strlen(l->folder) + 1 : 0;
    const char *slash;

    if (l->folder[0] && !path_below(f->path, l->folder))
        return;
    /* Our own files are listed only on request. */
    if (!path_below(l->folder, TOOL_KEPT_FOLDER) &&
        path_below(f->path, TOOL_KEPT_FOLDER))
        return;
    if (strlen(f->path) < skip)
        skip = 0; /* the folder is a file */
    /* Listed by the page before, maybe by the name of their folder. */
    if (l->args->after && l->args->sort == BY_PATH &&
        (strcmp(f->path, l->args->after) < 0 ||
         path_below(f->path, l->args->after)))
        return;
    slash = strchr(f->path + skip, '/');
    if (l->args->sort == BY_TIME && (!slash || l->args->recursive))
        collect_newest(l, f);
    else if (l->args->sort == BY_TIME)
        return;
    else if (slash && !l->args->recursive)
        add_folder_entry(l, f->path, (size_t)(slash - f->path));
    else
        add_file_entry(l, f);
}

/* The path behind which reading begins; NULL: at the first file. A folder is
 * named without its slash, so add_entry skips what is before the folder. */
static char *list_start(const struct listing *l)
{
    const char *after = l->args->after;
    size_t len = after ? strlen(after) : 0;

    while (len && after[len - 1] == '/')
        len--;
    return len && l->args->sort == BY_PATH ? xstrndup(after, len) : NULL;
}

static int add_entries(struct listing *l, struct error *err)
{
    char *after cleanup(mem_free) = list_start(l);
    bool more = true;
    int r = 0;

    for (unsigned i = 0; r == 0 && more && !l->more && i < PAGES_MAX; i++) {
        struct session_file *files = NULL;
        size_t count = 0;

        r = session_files_list(l->call->doors->sessions, l->call->actor,
                               l->session->id, PAGE, after, &files, &count,
                               &more, err);
        if (r < 0)
            break;
        for (size_t k = 0; k < count; k++)
            add_entry(l, &files[k]);
        free(take_ptr(after));
        after = count ? xstrdup(files[count - 1].path) : NULL;
        more = more && after;
        session_files_free(files, count);
    }
    return r;
}

static int add_committed(struct listing *l, struct error *err)
{
    char *after cleanup(mem_free) = list_start(l);
    bool more = true;
    int r = 0;

    for (unsigned i = 0; r == 0 && more && !l->more && i < PAGES_MAX; i++) {
        struct workspace_file *files = NULL;
        struct page_result got = {0};

        r = workspace_files_list(
            l->call->doors->workspaces, l->call->actor, l->workspace,
            &(struct workspace_files_spec){
                .at = l->at, .limit = PAGE, .after = after},
            &files, &got, err);
        if (r < 0)
            break;
        for (size_t k = 0; k < got.count; k++) {
            struct session_file f = {.path = files[k].path,
                                     .size = files[k].size,
                                     .modified_at_ms =
                                         files[k].modified_at_ms};

            memcpy(f.file, files[k].file, sizeof(f.file));
            memcpy(f.version, files[k].version, sizeof(f.version));
            add_entry(l, &f);
        }
        free(take_ptr(after));
        after = got.count ? xstrdup(files[got.count - 1].path) : NULL;
        more = got.has_more && after;
        workspace_files_free(files, got.count);
    }
    return r;
}

/* Which workspace is meant, and as of which commit. */
static int find_commit(struct listing *l, struct error *err)
{
    const struct list_args *a = l->args;
    struct workspaces *w = l->call->doors->workspaces;
    char home[ID_MAX], base[ID_MAX];
    struct workspace_event *event;
    int r =
        tool_workspace(l->call, a->workspace, a->session, l->workspace, err);

    if (r < 0 || !a->version)
        return r;
    if (strncmp(a->version, "ver_", 4) != 0)
        return workspace_commit_number(w, l->call->actor, l->workspace,
                                       a->version, &l->at, err);
    event = xcalloc(1, sizeof(*event));
    r = workspace_provenance(w, l->call->actor, a->version, event, home, base,
                             err);
    l->at = event->seq;
    if (r == 0 && strcmp(home, l->workspace) != 0)
        r = error_set(err, ERR_NOT_FOUND, "the workspace has no such version");
    workspace_events_free(event, 1);
    return r;
}

/* ---- spine -------------------------------------------------------------- */

static void finish_listing(struct listing *l, struct mcp_answer *ret)
{
    if (!l->count)
        buf_adds(&l->text, l->args->after ? "no more files\n" : "no files\n");
    if (l->more)
        buf_addf(&l->text,
                 "[%zu are shown and there are more: call again with after "
                 "\"%s\", or narrow the list by path or pattern]\n",
                 l->count, l->last);
    mcp_answer_text(ret, l->text.data, l->text.len);
    tool_answer(ret, &tool_list_files_output,
                &(struct list_answer){TOOL_OK, tool_some(l->session->id),
                                      tool_some(l->workspace), &l->entries,
                                      l->more, l->more ? l->last : NULL});
}

int tool_list_files(struct mcp_call *call, const json_t *args,
                    struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct list_args a = {.path = ""};
    struct listing l = {.call = call, .session = &session, .args = &a};
    int r = api_read(args, &tool_list_files_input, &a, err);

    if (r == 0)
        r = tool_folder(call->arena, a.path, &l.folder, err);
    if (r == 0 && (a.workspace || a.version)) {
        r = find_commit(&l, err);
    } else if (r == 0) {
        r = tool_session(call, TOOL_FIND, a.session, NULL, &session, err);
        if (r == -ERR_NOT_FOUND && !a.session)
            r = 0; /* nothing has run in this conversation: no files */
    }
    if (r < 0)
        return r;
    l.w = (struct json_writer){.out = &l.entries};
    if (l.workspace[0])
        r = add_committed(&l, err);
    else if (session.id[0])
        r = add_entries(&l, err);
    add_newest(&l);
    if (r == 0)
        finish_listing(&l, ret);
    buf_done(&l.entries);
    buf_done(&l.text);
    return r;
}

const char tool_list_files_text[] =
    "Lists the files of the session below /mnt/data, or with workspace what is "
    "committed there: path, size, time of the last change and URL. Use it to "
    "see what was uploaded or created; sort newest shows what changed last. It "
    "descends into folders unless recursive is false. pattern selects by "
    "name, such as *.csv or reports/**/*.pdf. It returns 50 entries unless "
    "limit says otherwise, at most 1,000; if more is true, call it again with "
    "after set to next. A sleeping session is not woken.";
