/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search_workspace: the index of names and contents, with citations that can
 * be resolved later: each names the version that was found, and where in it.
 * Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"
#include "search/search.h"

#define LIMIT_MAX 100
#define LIMIT_DEFAULT 10

struct find_args {
    const char *query, *workspace, *prefix, *type, *conversation, *after;
    int64_t limit;
};

#define ARG(member) API_AT(struct find_args, member)

static const struct api_field arguments[] = {
    {"query", API_STRING, API_REQUIRED, ARG(query), .min = 1,
     .max = SEARCH_QUERY_MAX},
    {"workspace", API_STRING, ARG(workspace), .min = 1, .max = ID_MAX,
     .help = "Only in this one, ws_…"},
    {"path", API_STRING, ARG(prefix), .max = TOOL_PATH_MAX,
     .help = "Only below this folder"},
    {"type", API_STRING, ARG(type), .min = 1, .max = 96,
     .help = "Only of this kind: csv, code, pdf, image/ …"},
    {"conversation", API_STRING, ARG(conversation), .min = 1, .max = 256,
     .help = "Only files this conversation made or changed"},
    TOOL_LIMIT(struct find_args, LIMIT_MAX, LIMIT_DEFAULT),
    TOOL_AFTER(struct find_args),
};
TOOL_INPUT(search_workspace, struct find_args, arguments);

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

struct found {
    struct tool_status status;
    const struct hit *hits;
    size_t count;
    const char *next;
    uint64_t pending;
};

#define FOUND(member) API_AT(struct found, member)

static const struct api_field answer_fields[] = {
    {"hits", API_ARRAY, API_LIST(struct found, hits, count),
     .of = &hit_resource},
    {"next", API_STRING, API_NULLABLE, FOUND(next)},
    {"pending", API_INT, FOUND(pending)},
};
TOOL_OUTPUT(search_workspace, struct found, answer_fields);

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

static void say_hit(struct buf *out, size_t number, const struct search_hit *h,
                    const char *snippet)
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

static void answer(struct mcp_call *call, const struct search_hit *hits,
                   size_t count, bool more, const struct search_state *state,
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
            .url = tool_file_url(call->arena, h->file, h->version),
        };
        say_hit(&text, i + 1, h, list[i].snippet);
    }
    tool_answer(ret, &tool_search_workspace_output,
                &(struct found){TOOL_OK, list, count, next, state->pending});
    if (!count)
        buf_adds(&text, "Nothing was found.\n");
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
    struct search_hit *hits = NULL;
    struct error ignored;
    size_t count = 0;
    bool more = false;
    int r = api_read(args, &tool_search_workspace_input, &a, err);

    if (r == 0 && a.prefix)
        r = tool_folder(call->arena, a.prefix, &a.prefix, err);
    if (r == 0)
        r = search_query(call->doors->search, call->actor,
                         &(struct search_spec){
                             .query = a.query,
                             .workspace = a.workspace,
                             .prefix = tool_some(a.prefix),
                             .type = a.type,
                             .conversation = a.conversation,
                             .limit = (unsigned)a.limit,
                             .after = a.after,
                         },
                         &hits, &count, &more, err);
    if (r < 0)
        return r;
    if (search_state(call->doors->search, call->actor, a.workspace, &state,
                     &ignored) < 0)
        state = (struct search_state){0}; /* only a remark is lost */
    answer(call, hits, count, more && count, &state, ret);
    search_hits_free(hits, count);
    return 0;
}

const char tool_search_workspace_text[] =
    "Full-text search over the files of all workspaces you can see, or of "
    "one: names and contents, PDF and office documents included. Words must "
    "all occur; \"phrases\" in quotes and prefix* work. Each hit has a "
    "snippet with the words **marked** and a citation: the version, and the "
    "line or page, so that what you quote can be found again. Cite it in your "
    "answer. Files are indexed within seconds of being written; pending tells "
    "how many are not read yet. For regular expressions in the session's own "
    "files use search_files.";
