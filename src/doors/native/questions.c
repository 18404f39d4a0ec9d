/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/ask: a question about files, answered by a model from passages
 * that the caller may read, with citations. With `stream` the answer comes as
 * events: `text` for each piece, then `answer` with the whole, or `error`.
 * Runs on a worker of the daemon; see native.h.
 */
#include "api/api.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "search/search.h"
#include "json/json.h"

#define LIMIT_DEFAULT 8
#define MODEL_NAME_MAX 64

struct question_body {
    const char *question, *workspace, *prefix, *model;
    int64_t limit;
    bool stream;
};

#define BODY(member) API_AT(struct question_body, member)

static const struct api_field question_fields[] = {
    {"question", API_STRING, API_REQUIRED, BODY(question), .min = 1,
     .max = SEARCH_QUESTION_MAX},
    {"workspace", API_STRING, BODY(workspace), .min = 1, .max = ID_MAX,
     .help = "only from this one; by default from all with intelligence that "
             "the caller may see"},
    {"prefix", API_STRING, BODY(prefix), .min = 1, .max = 1024,
     .help = "only from paths with this prefix"},
    {"model", API_STRING, BODY(model), .min = 1, .max = MODEL_NAME_MAX,
     .help = "by default the default model"},
    {"limit", API_INT, API_DEFAULT, BODY(limit), .min = 1,
     .max = SEARCH_ASK_MAX, .value = LIMIT_DEFAULT,
     .help = "passages that the model is shown"},
    {"stream", API_BOOL, API_DEFAULT, BODY(stream), .value = false,
     .help = "answer with events"},
};
API_INPUT(native_question, "Question", struct question_body, question_fields,
          "A question about files.");

static void write_url(struct json_writer *w, const char *key,
                      const void *object)
{
    const struct search_source *s = object;

    native_encode_url(w, key, s->file, s->version);
}

#define SOURCE(member) API_AT(struct search_source, member)

static const struct api_field citation_fields[] = {
    {"number", API_INT, SOURCE(number), .help = "[1] in the answer"},
    {"workspace", API_STRING, SOURCE(workspace)},
    {"path", API_STRING, SOURCE(path)},
    {"file_id", API_STRING, SOURCE(file)},
    {"version", API_STRING, SOURCE(version)},
    {"page", API_INT, API_NULLABLE, SOURCE(page)},
    {"line", API_INT, API_NULLABLE, SOURCE(line)},
    {"line_end", API_INT, API_NULLABLE, SOURCE(line_end)},
    {"text", API_STRING, SOURCE(text), .help = "the passage"},
    {"score", API_REAL, SOURCE(score), .help = "0 to 1"},
    {"url", API_STRING, .write = write_url},
};
API_OUTPUT(native_citation, "Citation", struct search_source, citation_fields,
           "A passage that an answer cites.");

static void write_reason(struct json_writer *w, const char *key,
                         const void *object)
{
    const struct search_reply *a = object;

    if (!a->text)
        json_write_string(w, key,
                          "No passage of the files that you may see fits the "
                          "question.");
    else
        json_write_string(w, key,
                          a->quality.degraded ? a->quality.reason : NULL);
}

#define ANSWER(member) API_AT(struct search_reply, member)

static const struct api_field answer_fields[] = {
    {"answer", API_STRING, API_NULLABLE, ANSWER(text),
     .help = "null: no passage fits, and no model was asked"},
    {"citations", API_ARRAY, API_LIST(struct search_reply, sources, cited),
     .of = &native_citation},
    {"passages", API_INT, ANSWER(shown), .help = "that the model was shown"},
    {"unknown_citations", API_INT, ANSWER(unknown),
     .help = "numbers in the answer that no passage has"},
    {"cut_off", API_BOOL, ANSWER(cut_off),
     .help = "the model stopped at a limit"},
    {"model", API_STRING, ANSWER(model)},
    {"degraded", API_BOOL, ANSWER(quality.degraded),
     .help = "passages were ranked by words alone, or from a part of the "
             "files"},
    {"reason", API_STRING, API_NULLABLE, .write = write_reason},
    {"input_tokens", API_INT, ANSWER(input_tokens)},
    {"output_tokens", API_INT, ANSWER(output_tokens)},
};
API_OUTPUT(native_answer, "Answer", struct search_reply, answer_fields,
           "An answer from files.");

/* ---- streaming ---------------------------------------------------------- */

/* The answer begins with the first piece, so that an error before it is an
 * ordinary one. */
struct stream {
    struct doors_call *call;
    struct http_pipe *pipe;
};

static bool send_event(struct stream *s, const char *name,
                       const struct buf *data)
{
    struct buf event cleanup(buf_done) = {0};
    struct error err;

    if (!s->pipe)
        s->pipe = http_respond_pipe(s->call->http, "text/event-stream");
    buf_addf(&event, "event: %s\ndata: ", name);
    buf_add(&event, data->data, data->len);
    buf_adds(&event, "\n\n");
    return http_pipe_write(s->pipe, event.data, event.len, &err) == 0;
}

static bool on_text(void *ctx, const char *text, size_t len)
{
    struct stream *s = ctx;
    struct buf data cleanup(buf_done) = {0};
    struct json_writer w = native_writer(s->call, &data);

    json_write_open(&w, NULL, '{');
    json_write_text(&w, "text", text, len);
    json_write_close(&w, '}');
    return send_event(s, "text", &data); /* false: the reader is gone */
}

static int respond_stream(struct doors_call *call,
                          const struct search_question *q, struct error *err)
{
    struct search_reply a cleanup(search_reply_done) = {.text = NULL};
    struct stream s = {.call = call};
    struct buf data cleanup(buf_done) = {0};
    struct json_writer w = native_writer(call, &data);
    int r =
        search_ask(call->doors->search, &call->actor, q, on_text, &s, &a, err);

    if (r < 0 && !s.pipe)
        return r;
    if (r < 0) {
        http_error_body(err, &data);
        (void)send_event(&s, "error", &data); /* the client may have left */
    } else {
        api_write(&w, NULL, &native_answer, &a);
        (void)send_event(&s, "answer", &data);
    }
    http_pipe_end(s.pipe, true);
    return 0;
}

int native_questions_ask(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct question_body b = {.question = NULL};
    struct search_reply a cleanup(search_reply_done) = {.text = NULL};
    struct search_question q;
    int r = native_read(call, &native_question, &b, &json, err);

    if (r < 0)
        return r;
    q = (struct search_question){.question = b.question,
                                 .workspace = b.workspace,
                                 .prefix = b.prefix,
                                 .model = b.model,
                                 .limit = (unsigned)b.limit};
    if (b.stream)
        return respond_stream(call, &q, err);
    r = search_ask(call->doors->search, &call->actor, &q, NULL, NULL, &a, err);
    if (r == 0)
        native_respond(call, 200, &native_answer, &a);
    return r;
}
