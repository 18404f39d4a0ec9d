/* SPDX-License-Identifier: Apache-2.0 */
/* /api/search. Runs on a worker of the daemon; see native.h. */
#include "search/search.h"

#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_DEFAULT 50

static void encode_number(struct json_writer *w, const char *key,
                          uint32_t number)
{
    if (number)
        json_write_int(w, key, number);
    else
        json_write_string(w, key, NULL);
}

static void encode_hit(struct json_writer *w, const struct search_hit *h)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "workspace", h->workspace);
    json_write_string(w, "path", h->path);
    json_write_string(w, "file_id", h->file);
    json_write_string(w, "version", h->version);
    native_encode_text(w, "mime_type", h->mime);
    encode_number(w, "line", h->line);
    encode_number(w, "page", h->page);
    json_write_string(w, "snippet", h->snippet ? h->snippet : "");
    json_write_bool(w, "in_name", h->in_name);
    json_write_real(w, "score", h->score);
    json_write_time(w, "modified_at", h->modified_at_ms);
    native_encode_url(w, "url", h->file, h->version);
    json_write_string(w, "cursor", h->cursor);
    json_write_close(w, '}');
}

static int ask(struct doors_call *call, struct search_spec *ret,
               struct error *err)
{
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"q", &ret->query},       {"workspace", &ret->workspace},
        {"prefix", &ret->prefix}, {"type", &ret->type},
        {"author", &ret->author}, {"conversation", &ret->conversation},
    };
    int r = native_ask_page(call, SEARCH_LIMIT_MAX, LIST_DEFAULT, &ret->limit,
                            &ret->after, err);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
        r = native_ask_text(call, texts[i].name,
                            i == 0 ? SEARCH_QUERY_MAX : 1024, texts[i].to,
                            err);
    if (r == 0)
        r = native_ask_time(call, "from", &ret->from_ms, err);
    if (r == 0)
        r = native_ask_time(call, "to", &ret->to_ms, err);
    if (r == 0 && !ret->query[0]) {
        (void)error_set(err, ERR_INVALID, "parameter 'q' is empty");
        r = error_hint(err, "Say what to look for.");
    }
    return r;
}

int native_search_query(struct doors_call *call, struct error *err)
{
    struct search_spec spec = {.query = NULL};
    struct search_hit *hits = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    bool more = false;
    int r = ask(call, &spec, err);

    if (r == 0)
        r = search_query(call->doors->search, &call->actor, &spec, &hits,
                         &count, &more, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        encode_hit(&w, &hits[i]);
    native_encode_list_end(&w, more);
    search_hits_free(hits, count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_search_status(struct doors_call *call, struct error *err)
{
    const char *workspace = NULL;
    struct search_state state = {0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = http_query(call->http, "workspace", &workspace, err);

    if (r == 0)
        r = search_state(call->doors->search, &call->actor, workspace, &state,
                         err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_int(&w, "ready", (int64_t)state.ready);
    json_write_int(&w, "pending", (int64_t)state.pending);
    json_write_int(&w, "failed", (int64_t)state.failed);
    json_write_int(&w, "names_only", (int64_t)state.names_only);
    json_write_int(&w, "behind_ms", state.behind_ms);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}
