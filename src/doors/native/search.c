/* SPDX-License-Identifier: Apache-2.0 */
/* /api/search. Runs on a worker of the daemon; see native.h. */
#include "search/search.h"

#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_DEFAULT 50

static void write_url(struct json_writer *w, const char *key,
                      const void *object)
{
    const struct search_hit *h = object;

    native_encode_url(w, key, h->file, h->version);
}

#define HIT(member) API_AT(struct search_hit, member)

static const struct api_field search_hit_fields[] = {
    {"workspace", API_STRING, HIT(workspace)},
    {"path", API_STRING, HIT(path)},
    {"file_id", API_STRING, HIT(file)},
    {"version", API_STRING, HIT(version)},
    {"mime_type", API_STRING, API_NULLABLE, HIT(mime)},
    {"line", API_INT, API_NULLABLE, HIT(line)},
    {"page", API_INT, API_NULLABLE, HIT(page)},
    {"snippet", API_STRING, HIT(snippet),
     .help = "hits are between U+2068 and U+2069"},
    {"in_name", API_BOOL, HIT(in_name), .help = "the path fits too"},
    {"score", API_REAL, HIT(score), .help = "0 to 1"},
    {"modified_at", API_TIME, HIT(modified_at_ms)},
    {"url", API_STRING, .write = write_url},
    {"cursor", API_STRING, HIT(cursor), .help = "for after"},
};
API_OUTPUT(native_search_hit, "SearchHit", struct search_hit,
           search_hit_fields, "A file that fits.");

#define STATE(member) API_AT(struct search_state, member)

static const struct api_field search_status_fields[] = {
    {"ready", API_INT, STATE(ready)},
    {"pending", API_INT, STATE(pending)},
    {"failed", API_INT, STATE(failed)},
    {"names_only", API_INT, STATE(names_only)},
    {"behind_ms", API_INT, STATE(behind_ms),
     .help = "age of the oldest commit not yet indexed"},
    {"passages", API_INT, STATE(passages),
     .help = "of workspaces with intelligence"},
    {"uncut", API_INT, STATE(uncut),
     .help = "files of these whose passages are still to come"},
    {"trained_at", API_TIME, API_NULLABLE, STATE(trained_at_ms),
     .help = "when your tenant's files were last learned"},
};
API_OUTPUT(native_search_state, "SearchStatus", struct search_state,
           search_status_fields, "How far the index is, in files.");

static const char *const modes[] = {
    [SEARCH_LEXICAL] = "lexical",
    [SEARCH_SEMANTIC] = "semantic",
    [SEARCH_HYBRID] = "hybrid",
    NULL,
};

/* ret_given: the caller said one, and the answer says it, too. */
static int ask_mode(struct doors_call *call, enum search_mode *ret,
                    bool *ret_given, struct error *err)
{
    const char *text = NULL;
    int r = http_query(call->http, "mode", &text, err);

    *ret_given = text != NULL;
    for (int i = 0; r == 0 && text && modes[i]; i++)
        if (strcmp(text, modes[i]) == 0) {
            *ret = (enum search_mode)i;
            return 0;
        }
    if (r < 0 || !text)
        return r;
    (void)error_set(err, ERR_INVALID, "parameter 'mode' is no mode of search");
    return error_hint(err, "Write lexical, semantic or hybrid.");
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

static void respond_hits(struct doors_call *call,
                         const struct search_hit *hits, size_t count,
                         bool more, enum search_mode mode,
                         const struct search_quality *quality)
{
    struct buf body = {0};
    struct json_writer w = native_writer(call, &body);

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "data", '[');
    for (size_t i = 0; i < count; i++)
        api_write(&w, NULL, &native_search_hit, &hits[i]);
    json_write_close(&w, ']');
    json_write_bool(&w, "has_more", more);
    json_write_string(&w, "mode", modes[mode]);
    json_write_bool(&w, "degraded", quality->degraded);
    json_write_string(&w, "reason",
                      quality->degraded ? quality->reason : NULL);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
}

int native_search_query(struct doors_call *call, struct error *err)
{
    struct search_spec spec = {.query = NULL};
    struct search_quality quality = {.degraded = false};
    struct search_hit *hits = NULL;
    size_t count = 0;
    bool more = false, given = false;
    int r = ask(call, &spec, err);

    if (r == 0)
        r = ask_mode(call, &spec.mode, &given, err);
    if (r == 0 && spec.mode == SEARCH_LEXICAL)
        r = search_query(call->doors->search, &call->actor, &spec, &hits,
                         &count, &more, err);
    else if (r == 0)
        r = search_recall(call->doors->search, &call->actor, &spec, &hits,
                          &count, &more, &quality, err);
    if (r < 0)
        return r;
    if (given)
        respond_hits(call, hits, count, more, spec.mode, &quality);
    else
        native_respond_list(call, &native_search_hit, hits, count, more);
    search_hits_free(hits, count);
    return 0;
}

int native_search_status(struct doors_call *call, struct error *err)
{
    const char *workspace = NULL;
    struct search_state state = {0};
    int r = http_query(call->http, "workspace", &workspace, err);

    if (r == 0)
        r = search_state(call->doors->search, &call->actor, workspace, &state,
                         err);
    if (r < 0)
        return r;
    native_respond(call, 200, &native_search_state, &state);
    return 0;
}
