/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/files/{file}/table: some rows of a CSV, Parquet or Excel file.
 * Runs on a worker of the daemon. The file is never parsed here (F9): it is
 * copied into an ephemeral session of the caller's tenant, a script of ours
 * reads it there, and what comes back is checked to be JSON and passed on.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "execution/execution.h"
#include "json/json.h"

#define FILE_MAX ((uint64_t)256 << 20)
#define ROWS_MAX 1000
#define ROWS_DEFAULT 100
#define ANSWER_MAX ((size_t)4 << 20)
#define TIMEOUT_S 60u
#define CHUNK ((size_t)256 << 10)
#define OUTPUT "table.json"

/* Found along the include path, like a header. */
__asm__(".pushsection .rodata\n"
        ".globl native_table_script\n"
        ".hidden native_table_script\n"
        "native_table_script:\n"
        ".incbin \"doors/native/files/table_preview.py\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char native_table_script[];

/* ---- what is asked ------------------------------------------------------ */

struct table_body {
    int64_t offset, limit;
    const char *sheet, *version, *delimiter;
};

#define BODY(member) API_AT(struct table_body, member)

static const struct api_field table_spec_fields[] = {
    {"offset", API_INT, API_DEFAULT, BODY(offset), .max = 1000000000,
     .value = 0, .help = "rows to skip, without the heading"},
    {"limit", API_INT, API_DEFAULT, BODY(limit), .min = 1, .max = ROWS_MAX,
     .value = ROWS_DEFAULT},
    {"sheet", API_STRING, BODY(sheet), .min = 1, .max = 200,
     .help = "of an Excel file; else the first"},
    {"version", API_STRING, BODY(version), .min = 1, .max = ID_MAX,
     .help = "ver_…; else the newest"},
    {"delimiter", API_STRING, BODY(delimiter), .min = 1, .max = 1,
     .help = "of a CSV file; else the most frequent of tab ; , |"},
};
API_INPUT(native_table_spec, "TableSpec", struct table_body, table_spec_fields,
          "Which rows of a table.");

/* The session wrote the document; see table_preview.py. */
static const struct api_field table_fields[] = {
    {"columns", API_ARRAY, .items = API_OBJECT,
     .help = "name, type: boolean, integer, number, time or text"},
    {"rows", API_ARRAY, .items = API_OBJECT,
     .help = "a list of cells each; long cells are cut"},
    {"offset", API_INT, API_MEMBER},
    {"total", API_INT, API_NULLABLE, .help = "rows of the file"},
    {"sheets", API_ARRAY, .items = API_STRING},
    {"sheet", API_STRING, API_NULLABLE, API_MEMBER},
};
API_DOCUMENT(native_table, "Table", table_fields, "Some rows of a table.");

static const struct {
    const char *ending, *kind;
} kinds[] = {
    {".csv", "csv"},         {".tsv", "csv"},    {".txt", "csv"},
    {".parquet", "parquet"}, {".pq", "parquet"}, {".xlsx", "excel"},
    {".xlsm", "excel"},
};

static const char *kind_of(const char *path)
{
    size_t len = strlen(path);

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        size_t n = strlen(kinds[i].ending);

        if (len > n && strcasecmp(path + len - n, kinds[i].ending) == 0)
            return kinds[i].kind;
    }
    return NULL;
}

/* ---- in the session ----------------------------------------------------- */

struct reading {
    struct doors_call *call;
    struct actor who; /* the service itself, at the tenant's expense */
    char session[ID_MAX];
};

static int copy_in(struct reading *r, int fd, const char *name,
                   struct error *err)
{
    char *piece cleanup(mem_free) = xmalloc(CHUNK);
    struct session_upload *u = NULL;
    struct session_file done = {0};
    ssize_t n;

    if (session_upload_begin(r->call->doors->sessions, &r->who, r->session,
                             name, &u, err) < 0)
        return -(int)err->code;
    while ((n = fd_read_all(fd, piece, CHUNK)) > 0)
        if (session_upload_write(u, piece, (size_t)n, err) < 0)
            break;
    if (n != 0) {
        session_upload_abort(u);
        return n > 0 ? -(int)err->code
                     : error_errno(err, ERR_INTERNAL, (int)-n,
                                   "cannot read the file");
    }
    if (session_upload_commit(u, &done, err) < 0)
        return -(int)err->code;
    free(done.path);
    return 0;
}

/* Text of the client's as a literal of Python: JSON's are. */
static void add_literal(struct buf *out, const char *text)
{
    struct json_writer w = {.out = out};

    if (text)
        json_write_text(&w, NULL, text, strlen(text));
    else
        buf_adds(out, "None");
}

static int run_script(struct reading *r, const char *kind,
                      const struct table_body *b, struct execution **ret,
                      struct error *err)
{
    struct buf code cleanup(buf_done) = {0};
    struct exec_spec spec = {.language = EXEC_PYTHON,
                             .timeout_s = TIMEOUT_S,
                             .left = doors_left,
                             .left_ctx = r->call->http};

    buf_adds(&code, native_table_script);
    buf_addf(&code,
             "\nmain('%s', '/mnt/data/table', '/mnt/data/" OUTPUT
             "', %lld, %lld, ",
             kind, (long long)b->offset, (long long)b->limit);
    add_literal(&code, b->sheet);
    buf_adds(&code, ", ");
    add_literal(&code, b->delimiter);
    buf_adds(&code, ")\n");
    spec.code = code.data;
    spec.code_len = code.len;
    return execution_run(r->call->doors->sessions, &r->who, r->session, &spec,
                         ret, err);
}

/* ---- what it says ------------------------------------------------------- */

static const struct {
    const char *word;
    enum error_code code;
    const char *message;
} words[] = {
    {"damaged", ERR_INVALID,
     "the file is damaged, or not of the kind its name says"},
    {"no-sheet", ERR_NOT_FOUND, "the file has no sheet of that name"},
    {"no-reader", ERR_CONFLICT,
     "the runtime of the pool that reads tables has no library for this kind "
     "of file"},
};

static int check_word(struct execution *e, struct error *err)
{
    struct exec_event event = {0};
    struct exec_info info;

    execution_info(e, &info);
    if (info.outcome == OUTCOME_TIMEOUT || info.outcome == OUTCOME_OOM ||
        info.outcome == OUTCOME_LIMIT)
        return error_set(err, ERR_TOO_LARGE,
                         "reading the table takes more time or memory than "
                         "is given to it");
    while (execution_event(e, event.number, &event)) {
        if (event.type != EVENT_STDOUT)
            continue;
        if (event.len >= 3 && memcmp(event.data, "ok\n", 3) == 0)
            return 0;
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
            if (event.len > strlen(words[i].word) &&
                memcmp(event.data, words[i].word, strlen(words[i].word)) == 0)
                return error_set(err, words[i].code, "%s", words[i].message);
    }
    return error_set(err, ERR_GUEST, "the table could not be read");
}

static int fetch_answer(struct reading *r, struct buf *ret, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct stat st;
    ssize_t n;

    if (session_files_open(r->call->doors->sessions, &r->who, r->session,
                           OUTPUT, &fd, &st, err) < 0)
        return -(int)err->code;
    if (st.st_size <= 0 || (size_t)st.st_size > ANSWER_MAX)
        return error_set(err, ERR_GUEST, "the table could not be read");
    buf_reserve(ret, (size_t)st.st_size);
    n = fd_read_all(fd, ret->data, (size_t)st.st_size);
    if (n < 0)
        return error_errno(err, ERR_GUEST, (int)-n, "cannot read the answer");
    ret->len = (size_t)n;
    /* The session is untrusted; its output is passed on only as one JSON
     * object. */
    if (n == 0 || ret->data[0] != '{' ||
        json_check(ret->data, ret->len, &json_limits_any, err) < 0)
        return error_set(err, ERR_GUEST, "the table could not be read");
    return 0;
}

static int read_table(struct reading *r, int fd, const char *kind,
                      const struct table_body *b, struct buf *ret,
                      struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    int rc = copy_in(r, fd, "table", err);

    if (rc == 0)
        rc = run_script(r, kind, b, &e, err);
    if (rc == 0)
        rc = check_word(e, err);
    return rc < 0 ? rc : fetch_answer(r, ret, err);
}

/* ---- the route ---------------------------------------------------------- */

static int open_file(struct doors_call *call, const struct table_body *b,
                     const char **ret_kind, int *ret_fd, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    char workspace[ID_MAX], id[ID_MAX];
    int r;

    if (!doors_file_id(call->params[0], id))
        return error_set(err, ERR_NOT_FOUND, "no such file");
    r = workspace_file_find(call->doors->workspaces, &call->actor, id,
                            b->version, &f, workspace, err);
    if (r < 0)
        return r;
    *ret_kind = kind_of(f.path);
    if (!*ret_kind) {
        (void)error_set(err, ERR_INVALID, "this kind of file has no tables");
        return error_hint(err, "CSV, TSV, Parquet and Excel (xlsx) have.");
    }
    if (f.size > FILE_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "tables are read from files of up to %llu bytes",
                         (unsigned long long)FILE_MAX);
    return workspace_file_open(call->doors->workspaces, &call->actor, &f,
                               ret_fd, err);
}

int native_table_read(struct doors_call *call, struct error *err)
{
    const struct conf *conf = call->doors->conf;
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct buf answer cleanup(buf_done) = {0};
    struct table_body b = {0};
    struct reading reading = {
        .call = call,
        .who = {.tenant = call->who.tenant, .key = "glovebox", .admin = true}};
    struct session_spec spec = {.pool = conf->index_pool[0] ? conf->index_pool
                                                            : NULL,
                                .name = "table",
                                .ephemeral = true,
                                .transient = true,
                                .sharing = SESSION_SHARING_PRINCIPAL,
                                .left = doors_left,
                                .left_ctx = call->http};
    const char *kind = NULL;
    int fd cleanup(fd_close) = -1;
    struct error ignored;
    int r = native_read_maybe(call, &native_table_spec, &b, &json, err);

    if (r == 0)
        r = open_file(call, &b, &kind, &fd, err);
    if (r == 0)
        r = session_create(call->doors->sessions, &reading.who, &spec, &info,
                           err);
    if (r < 0)
        return r;
    memcpy(reading.session, info.id, sizeof(reading.session));
    r = read_table(&reading, fd, kind, &b, &answer, err);
    if (session_delete(call->doors->sessions, &reading.who, reading.session,
                       &ignored) < 0 &&
        ignored.code != ERR_NOT_FOUND && ignored.code != ERR_UNAVAILABLE)
        log_event(LOG_WARN, "table_session_left", "session", reading.session,
                  "error", ignored.message, NULL);
    if (r == 0)
        http_respond_json(call->http, 200, &answer);
    return r;
}
