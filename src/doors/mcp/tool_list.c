/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_files: what is in a session's /mnt/data. Runs on a worker of the
 * daemon; the core lists every file in order of its path, folders are made of
 * that here.
 */
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define LIMIT_MAX 1000
#define LIMIT_DEFAULT 200
#define PAGE 1000u
#define PAGES_MAX 128u /* more than a session's files */

struct list_args {
    const char *path, *pattern, *session;
    bool recursive;
    int64_t limit;
};

#define ARG(member) API_AT(struct list_args, member)

static const struct api_field arguments[] = {
    {"path", API_STRING, ARG(path), .max = TOOL_PATH_MAX,
     .help = "Only below this folder of /mnt/data"},
    {"recursive", API_BOOL, API_DEFAULT, ARG(recursive), .value = true,
     .help = "false: one level, folders as entries that end with /"},
    {"pattern", API_STRING, ARG(pattern), .min = 1, .max = 200,
     .help = "* and ? within a name, ** across folders; without a / it is of "
             "the name alone"},
    TOOL_LIMIT(struct list_args, LIMIT_MAX, LIMIT_DEFAULT),
    TOOL_SESSION(struct list_args),
};
TOOL_INPUT(list_files, struct list_args, arguments);

struct entry {
    struct session_file file;
    const char *path, *mime, *url;
    bool folder;
};

static bool is_file(const void *object)
{
    return !((const struct entry *)object)->folder;
}

static const char *const entry_types[] = {"file", "folder", NULL};

#define ENTRY(member) API_AT(struct entry, member)

static const struct api_field entry_fields[] = {
    {"path", API_STRING, ENTRY(path)},
    {"type", API_CHOICE, ENTRY(folder), .choices = entry_types},
    {"size", API_INT, API_OPTIONAL, ENTRY(file.size), .when = is_file},
    {"mime_type", API_STRING, API_OPTIONAL | API_NULLABLE, ENTRY(mime),
     .when = is_file},
    {"modified_at", API_TIME, API_OPTIONAL | API_NULLABLE,
     ENTRY(file.modified_at_ms), .when = is_file},
    {"file_id", API_STRING, API_OPTIONAL | API_NULLABLE, ENTRY(file.file),
     .when = is_file},
    {"version", API_STRING, API_OPTIONAL | API_NULLABLE, ENTRY(file.version),
     .when = is_file},
    {"url", API_STRING, API_OPTIONAL | API_NULLABLE, ENTRY(url),
     .when = is_file},
};
static API_OUTPUT(entry_resource, "entry", struct entry, entry_fields, NULL);

/* The entries are written as they are found. */
static const struct api_field answer_fields[] = {
    {"session_id", API_STRING, API_NULLABLE, API_ELSEWHERE},
    {"files", API_ARRAY, .of = &entry_resource},
    {"more", API_BOOL, API_ELSEWHERE},
};
TOOL_OUTPUT_SCHEMA(list_files, answer_fields);

struct listing {
    struct mcp_call *call;
    const struct session_info *session;
    const struct list_args *args;
    const char *folder;
    struct json_writer w;
    struct buf text;
    size_t count;
    bool more;
    const char *last_folder; /* arena */
};

/* ---- entries ------------------------------------------------------------ */

static void add_folder(struct listing *l, const char *path, size_t len)
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
    api_write(
        &l->w, NULL, &entry_resource,
        &(struct entry){.path = arena_printf(l->call->arena, "%s/", name),
                        .folder = true});
    buf_addf(&l->text, "%s/\n", name);
}

static void add_file(struct listing *l, const struct session_file *f)
{
    struct arena *arena = l->call->arena;
    char size[32];

    if (l->args->pattern && !tool_text_match(l->args->pattern, f->path))
        return;
    if (l->count >= (size_t)l->args->limit) {
        l->more = true;
        return;
    }
    l->count++;
    api_write(
        &l->w, NULL, &entry_resource,
        &(struct entry){.file = *f,
                        .path = f->path,
                        .mime = mime_of_path(f->path),
                        .url = tool_file_url(arena, f->file, f->version)});
    buf_addf(&l->text, "%s (%s)\n", f->path, tool_text_size(f->size, size));
}

static void add(struct listing *l, const struct session_file *f)
{
    size_t skip = l->folder[0] ? strlen(l->folder) + 1 : 0;
    const char *slash;

    if (l->folder[0] && !path_below(f->path, l->folder))
        return;
    /* What we put there ourselves is shown when asked for. */
    if (!path_below(l->folder, TOOL_KEPT_FOLDER) &&
        path_below(f->path, TOOL_KEPT_FOLDER))
        return;
    if (strlen(f->path) < skip)
        skip = 0; /* the folder is a file */
    slash = strchr(f->path + skip, '/');
    if (slash && !l->args->recursive)
        add_folder(l, f->path, (size_t)(slash - f->path));
    else
        add_file(l, f);
}

static int add_all(struct listing *l, struct error *err)
{
    char *after cleanup(mem_free) = NULL;
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
            add(l, &files[k]);
        free(take_ptr(after));
        after = count ? xstrdup(files[count - 1].path) : NULL;
        more = more && after;
        session_files_free(files, count);
    }
    return r;
}

/* ---- spine -------------------------------------------------------------- */

static void finish(struct listing *l, struct mcp_answer *ret)
{
    if (!l->count)
        buf_adds(&l->text, "no files\n");
    if (l->more)
        buf_addf(&l->text,
                 "[the first %zu are shown; narrow it by path or pattern, or "
                 "raise limit]\n",
                 l->count);
    mcp_answer_text(ret, l->text.data, l->text.len);
    json_write_close(&l->w, ']');
    json_write_bool(&l->w, "more", l->more);
    json_write_close(&l->w, '}');
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
    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &session, err);
    if (r == -ERR_NOT_FOUND && !a.session)
        r = 0; /* nothing has run in this conversation: nothing is there */
    if (r < 0)
        return r;
    l.w = (struct json_writer){.out = &ret->structured};
    json_write_open(&l.w, NULL, '{');
    json_write_string(&l.w, "status", "ok");
    json_write_string(&l.w, "session_id", tool_some(session.id));
    json_write_open(&l.w, "files", '[');
    if (session.id[0])
        r = add_all(&l, err);
    if (r == 0)
        finish(&l, ret);
    else
        buf_reset(&ret->structured);
    buf_done(&l.text);
    return r;
}

const char tool_list_files_text[] =
    "Lists the files of the session (what is below /mnt/data): path, size, "
    "type, time, id and URL. Use it to see what was uploaded or made. All "
    "folders are gone through unless recursive is false; pattern keeps only "
    "names that match, such as *.csv or reports/**/*.pdf. At most 1,000 "
    "entries, 200 unless limit says otherwise; more tells that there are "
    "others. It works on sleeping sessions without waking them.";
