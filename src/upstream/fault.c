/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a failed answer means: statuses, error objects of every shape that
 * servers use, and how long to wait. Pure. Runs in glovebox-model.
 */
#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/mem.h"
#include "upstream/upstream_int.h"

#define WAIT_MOST_S 86400.0

/* ---- error objects ------------------------------------------------------ */

struct fault_text {
    const char *message, *type;
    char code[64];
};

/* {"error":{…}}, {"error":"…"}, {"type":"error","error":{…}}, {"detail":…},
 * {"object":"error","message":…}, {"message":…}; or the error itself. */
static void read_error(const json_t *body, struct fault_text *ret)
{
    const json_t *e = json_object_get(body, "error"), *code;

    *ret = (struct fault_text){.message = "", .type = ""};
    if (!e)
        e = json_object_get(json_object_get(body, "response"), "error");
    if (json_is_string(e)) {
        ret->message = json_string_value(e);
        return;
    }
    if (!json_is_object(e))
        e = body;
    if (upstream_text(e, "message"))
        ret->message = upstream_text(e, "message");
    else if (upstream_text(e, "detail"))
        ret->message = upstream_text(e, "detail");
    if (upstream_text(e, "type"))
        ret->type = upstream_text(e, "type");
    code = json_object_get(e, "code"); /* of llama.cpp: a number */
    if (!json_is_string(code) &&
        upstream_text(json_object_get(e, "details"), "error_code"))
        code = json_object_get(json_object_get(e, "details"), "error_code");
    if (json_is_string(code))
        (void)snprintf(ret->code, sizeof(ret->code), "%.63s",
                       json_string_value(code));
}

static bool has(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

static bool is_too_large(const struct fault_text *f, long status)
{
    static const char *const words[] = {
        "prompt is too long",
        "maximum context length",
        "context size has been",
        "context length",
        "exceeds the available context",
        "exceed context",
        "longer than the model's",
        "too many tokens",
    };

    if (strcmp(f->code, "context_length_exceeded") == 0 ||
        strcmp(f->type, "exceed_context_size_error") == 0 ||
        strcmp(f->type, "request_too_large") == 0 || status == 413)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (has(f->message, words[i]))
            return true;
    return false;
}

static bool is_money(const struct fault_text *f, long status)
{
    return status == 402 || strcmp(f->code, "insufficient_quota") == 0 ||
           strcmp(f->type, "insufficient_quota") == 0 ||
           strcmp(f->type, "billing_error") == 0 ||
           strcmp(f->code, "enforced_spend_limit_reached") == 0;
}

/* What the words say, where a status says nothing (an error in a stream). */
static long status_of(const struct fault_text *f)
{
    static const struct {
        const char *word;
        long status;
    } rows[] = {
        {"overloaded", 529},     {"rate_limit", 429},
        {"authentication", 401}, {"invalid_api_key", 401},
        {"permission", 403},     {"not_found", 404},
        {"timeout", 504},        {"invalid_request", 400},
        {"BadRequest", 400},     {"invalid_prompt", 400},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (has(f->type, rows[i].word) || has(f->code, rows[i].word))
            return rows[i].status;
    return 500;
}

static bool is_transient(long status)
{
    return status == 408 || status == 409 || status >= 500;
}

static void judge(struct upstream_answer *a, const struct fault_text *f,
                  long status)
{
    const char *said = f->message[0] ? f->message : f->type;
    enum model_outcome outcome = MODEL_REFUSED;
    bool retry = is_transient(status);

    if (is_money(f, status)) {
        outcome = MODEL_MONEY;
        retry = false;
    } else if (is_too_large(f, status)) {
        outcome = MODEL_TOO_LARGE;
        retry = false;
    } else if (status == 401 || status == 403) {
        outcome = MODEL_KEY;
    } else if (status == 429) {
        outcome = MODEL_RATE;
        retry = true;
    } else if (status >= 500 || status == 408 || status == 409) {
        outcome = MODEL_OVERLOADED;
    }
    if (a->should_retry >= 0)
        retry = a->should_retry;
    answer_fail(a, outcome, retry, "%.250s", said);
}

void answer_error(struct upstream_answer *a, const json_t *error)
{
    struct fault_text f;

    read_error(error, &f);
    judge(a, &f, status_of(&f));
}

void answer_refused(struct upstream_answer *a)
{
    json_t *body =
        upstream_json(a->body.data ? a->body.data : "", a->body.len);
    struct fault_text f = {.message = "", .type = ""};

    if (json_is_object(body))
        read_error(body, &f);
    else if (json_is_array(body)) /* Google's bridges */
        read_error(json_array_get(body, 0), &f);
    judge(a, &f, a->status);
    json_decref(body);
}

/* ---- headers ------------------------------------------------------------ */

uint32_t upstream_retry_after(const char *value)
{
    char *end;
    double s = strtod(value, &end);

    if (end == value) {
        time_t at = curl_getdate(value, NULL);

        s = at == (time_t)-1 ? 0 : difftime(at, time(NULL));
    }
    if (!(s > 0))
        return 0;
    return (uint32_t)(MIN(s, WAIT_MOST_S) * 1000);
}
