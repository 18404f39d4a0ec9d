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

#define AT(member) offsetof(struct find_args, member)

static const struct json_field fields[] = {
    {"query", JSON_KIND_STRING, .required = true, .offset = AT(query),
     .min = 1, .max = SEARCH_QUERY_MAX},
    {"workspace", JSON_KIND_STRING, .offset = AT(workspace), .min = 1,
     .max = ID_MAX},
    {"path", JSON_KIND_STRING, .offset = AT(prefix),
     .max = PATH_BYTES_MAX + 32},
    {"type", JSON_KIND_STRING, .offset = AT(type), .min = 1, .max = 96},
    {"conversation", JSON_KIND_STRING, .offset = AT(conversation), .min = 1,
     .max = 256},
    {"limit", JSON_KIND_INT, .offset = AT(limit), .min = 1, .max = LIMIT_MAX},
    {"after", JSON_KIND_STRING, .offset = AT(after), .min = 1, .max = 64},
};

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

static void encode_number(struct json_writer *w, const char *key,
                          uint32_t number)
{
    if (number)
        json_write_int(w, key, number);
    else
        json_write_string(w, key, NULL);
}

static void encode_hit(struct json_writer *w, struct arena *arena,
                       const struct search_hit *h, const char *snippet)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "path", h->path);
    json_write_string(w, "workspace", h->workspace);
    json_write_string(w, "snippet", snippet);
    json_write_real(w, "score", h->score);
    json_write_bool(w, "in_name", h->in_name);
    json_write_string(w, "mime_type", tool_some(h->mime));
    json_write_time(w, "modified_at", h->modified_at_ms);
    json_write_string(w, "uri", mcp_uri_make(arena, h->workspace, h->path));
    json_write_open(w, "citation", '{');
    json_write_string(w, "file_id", h->file);
    json_write_string(w, "version", h->version);
    encode_number(w, "line", h->line);
    encode_number(w, "page", h->page);
    json_write_string(w, "url", tool_file_url(arena, h->file, h->version));
    json_write_close(w, '}');
    json_write_close(w, '}');
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
    struct json_writer w = {.out = &ret->structured};
    struct buf text cleanup(buf_done) = {0};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_open(&w, "hits", '[');
    for (size_t i = 0; i < count; i++) {
        char *snippet = plain_snippet(call->arena, hits[i].snippet);

        encode_hit(&w, call->arena, &hits[i], snippet);
        say_hit(&text, i + 1, &hits[i], snippet);
    }
    json_write_close(&w, ']');
    json_write_string(&w, "next", more ? hits[count - 1].cursor : NULL);
    json_write_int(&w, "pending", (int64_t)state->pending);
    json_write_close(&w, '}');
    if (!count)
        buf_adds(&text, "Nothing was found.\n");
    if (state->pending)
        buf_addf(&text,
                 "[%llu files are not read yet; ask again in a few "
                 "seconds]\n",
                 (unsigned long long)state->pending);
    if (more)
        buf_addf(&text, "[there are more: go on with after=%s]\n",
                 hits[count - 1].cursor);
    mcp_answer_text(ret, text.data, text.len);
}

int tool_search_workspace(struct mcp_call *call, const json_t *args,
                          struct mcp_answer *ret, struct error *err)
{
    struct find_args a = {.limit = LIMIT_DEFAULT};
    struct search_state state = {0};
    struct search_hit *hits = NULL;
    struct error ignored;
    size_t count = 0;
    bool more = false;
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

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
const char tool_search_workspace_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"query\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1000},"
    "\"workspace\":{\"type\":\"string\",\"description\":\"Only in this one, "
    "ws_…\"},"
    "\"path\":{\"type\":\"string\",\"description\":\"Only below this "
    "folder\"},"
    "\"type\":{\"type\":\"string\",\"description\":\"Only of this kind: csv, "
    "code, pdf, image/ …\"},"
    "\"conversation\":{\"type\":\"string\",\"description\":\"Only files this "
    "conversation made or changed\"},"
    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,"
    "\"default\":10},"
    "\"after\":{\"type\":\"string\",\"description\":\"next of the page "
    "before\"}},\"required\":[\"query\"],\"additionalProperties\":false}";
const char tool_search_workspace_output[] = TOOL_OUTPUT(
    "\"hits\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
    "\"properties\":{\"path\":{\"type\":\"string\"},"
    "\"workspace\":{\"type\":\"string\"},\"snippet\":{\"type\":\"string\"},"
    "\"score\":{\"type\":\"number\"},\"in_name\":{\"type\":\"boolean\"},"
    "\"mime_type\":{\"type\":[\"string\",\"null\"]},"
    "\"modified_at\":{\"type\":[\"string\",\"null\"]},"
    "\"uri\":{\"type\":\"string\"},"
    "\"citation\":{\"type\":\"object\",\"properties\":{"
    "\"file_id\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"},"
    "\"line\":{\"type\":[\"integer\",\"null\"]},"
    "\"page\":{\"type\":[\"integer\",\"null\"]},"
    "\"url\":{\"type\":[\"string\",\"null\"]}},"
    "\"required\":[\"file_id\",\"version\"]}},"
    "\"required\":[\"path\",\"workspace\",\"citation\"]}},"
    "\"next\":{\"type\":[\"string\",\"null\"]},"
    "\"pending\":{\"type\":\"integer\"}");
