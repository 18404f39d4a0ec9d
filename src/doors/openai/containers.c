/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /containers: sessions as this dialect sees them. Those of every door are
 * containers here. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/openai/openai.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_USUAL 20

/* ---- what handlers have in common --------------------------------------- */

int openai_body(struct doors_call *call, json_t **ret, struct error *err)
{
    return http_body_json(call->http, call->doors->conf->json_bytes, ret, err);
}

int openai_page(struct doors_call *call, unsigned max, unsigned fallback,
                struct openai_page *ret, struct error *err)
{
    const char *limit = NULL, *order = NULL, *after = NULL;
    int r = http_query(call->http, "limit", &limit, err);

    if (r == 0)
        r = http_query(call->http, "order", &order, err);
    if (r == 0)
        r = http_query(call->http, "after", &after, err);
    return r < 0 ? r
                 : openai_decode_page(limit, order, after, max, fallback, ret,
                                      openai_fault(call), err);
}

int openai_visit(struct doors_call *call, struct session_info *ret,
                 struct error *err)
{
    int r = session_visit(call->doors->sessions, &call->actor, call->params[0],
                          ret, err);

    return r < 0 ? openai_refuse_container(call->params[0], err) : 0;
}

static void respond(struct doors_call *call, const struct session_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    openai_encode_container(&w, info);
    openai_respond(call, &body);
}

/* ---- create ------------------------------------------------------------- */

/* No more than the pool may give, said in this dialect's sizes. */
int openai_check_memory(struct doors_call *call, uint64_t asked,
                        const char *param, struct error *err)
{
    const struct conf_pool *pool = conf_pool_find(call->doors->conf, NULL);
    uint64_t most = MAX(pool->memory_bytes, pool->max_memory_bytes);

    const char *largest =
        most >= (uint64_t)1 << 30 ? openai_memory_name(most) : NULL;

    if (asked <= most)
        return 0;
    return openai_invalid(
        openai_fault(call), "invalid_value", param, err,
        "Invalid value: '%llug'. This service gives a container at most "
        "%llu MiB%s%s%s.",
        (unsigned long long)(asked >> 30), (unsigned long long)(most >> 20),
        largest ? "; the largest memory_limit is '" : "",
        largest ? largest : "", largest ? "'" : "");
}

/* Ids to files and where they go; strings of the arena. */
static int find_files(struct doors_call *call, const json_t *ids,
                      struct session_attach *ret, struct error *err)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        struct library_file file cleanup(library_file_done) = {.filename =
                                                                   NULL};
        int r = openai_library(call, json_string_value(json_array_get(ids, i)),
                               "file_ids", &file, err);

        if (r < 0)
            return r;
        ret[i].file = arena_strdup(http_arena(call->http), file.file);
        ret[i].path = openai_mount(call, &file);
    }
    return 0;
}

int openai_containers_create(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct session_attach files[OPENAI_FILES_MAX];
    json_t *json cleanup(json_unref) = NULL;
    struct openai_container asked = {0};
    struct session_spec spec = {.container = true,
                                .asleep = true,
                                .files = files,
                                .left = doors_left,
                                .left_ctx = call->http};
    int r = openai_body(call, &json, err);

    if (r == 0)
        r = openai_decode_container(json, &asked, openai_fault(call), err);
    if (r == 0)
        r = openai_check_memory(call, asked.memory_bytes, "memory_limit", err);
    if (r == 0)
        r = find_files(call, asked.file_ids, files, err);
    if (r == 0)
        r = openai_network_spec(call, &asked.network, &spec.network, err);
    if (r < 0)
        return r;
    spec.name = asked.name;
    spec.limits.memory_bytes = asked.memory_bytes;
    spec.cooldown_s = asked.minutes * 60;
    spec.file_count = json_array_size(asked.file_ids);
    r = session_create(call->doors->sessions, &call->actor, &spec, &info, err);
    if (r == 0)
        respond(call, &info);
    return r;
}

/* ---- look, delete ------------------------------------------------------- */

static void respond_list(struct doors_call *call,
                         const struct session_info *list, size_t count,
                         bool more)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    openai_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        openai_encode_container(&w, &list[i]);
    openai_encode_list_end(&w, count ? list[0].id : NULL,
                           count ? list[count - 1].id : NULL, more);
    openai_respond(call, &body);
}

int openai_containers_list(struct doors_call *call, struct error *err)
{
    struct session_info *list cleanup(mem_free) = NULL;
    struct session_filter filter = {0};
    struct openai_page page;
    size_t count = 0;
    bool more = false;
    int r = openai_page(call, LIST_MAX, LIST_USUAL, &page, err);

    if (r == 0)
        r = http_query(call->http, "name", &filter.name, err);
    if (r < 0)
        return r;
    filter.oldest_first = page.oldest_first;
    filter.after = page.after;
    filter.limit = page.limit;
    r = session_query(call->doors->sessions, &call->actor, &filter, &list,
                      &count, &more, err);
    if (r == -ERR_INVALID && filter.after) /* whatever it was, it is gone */
        r = 0;
    if (r == 0)
        respond_list(call, list, count, more);
    for (size_t i = 0; i < count; i++)
        session_info_done(&list[i]);
    return r;
}

int openai_containers_get(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = openai_visit(call, &info, err);

    if (r == 0)
        respond(call, &info);
    return r;
}

int openai_containers_delete(struct doors_call *call, struct error *err)
{
    int r = session_delete(call->doors->sessions, &call->actor,
                           call->params[0], err);

    if (r < 0)
        return openai_refuse_container(call->params[0], err);
    openai_respond_deleted(call, call->params[0], "container.deleted");
    return 0;
}
