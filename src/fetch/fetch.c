/* SPDX-License-Identifier: Apache-2.0 */
/* Outbound HTTP; see fetch.h. Runs in gloveboxd on the caller's thread. */
#include "fetch/fetch.h"

#include <curl/curl.h>
#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

struct transfer {
    const struct fetch_request *rq;
    struct buf *answer;
};

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;

    if (!t->rq->answer_max)
        return size * count;
    if (size * count > t->rq->answer_max - t->answer->len)
        return 0; /* ends the transfer */
    buf_add(t->answer, bytes, size * count);
    return size * count;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                       curl_off_t d)
{
    const struct transfer *t = ctx;

    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return t->rq->cancel && atomic_load(t->rq->cancel); /* ends it */
}

static void set_options(CURL *easy, struct transfer *t,
                        struct curl_slist *headers, char *why)
{
    const struct fetch_request *rq = t->rq;
    bool plain = strncmp(rq->url, "http:", 5) == 0;

    (void)curl_easy_setopt(easy, CURLOPT_URL, rq->url);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
                           plain ? "http" : "https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)rq->total_ms);
    if (rq->connect_ms)
        (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                               (long)rq->connect_ms);
    if (rq->answer_max)
        (void)curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE,
                               (curl_off_t)rq->answer_max);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT,
                           "glovebox/" GLOVEBOX_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    if (rq->body) {
        (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)rq->body_len);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, rq->body);
    }
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, t);
    if (plain) /* this machine */
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

int fetch_start(struct error *err)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
               ? 0
               : error_set(err, ERR_INTERNAL, "libcurl does not start");
}

void fetch_stop(void)
{
    curl_global_cleanup();
}

int fetch(const struct fetch_request *rq, struct buf *ret_answer,
          long *ret_status, struct error *err)
{
    struct transfer t = {.rq = rq, .answer = ret_answer};
    char why[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    CURL *easy = curl_easy_init();
    CURLcode code;

    if (!easy)
        return error_set(err, ERR_INTERNAL, "libcurl does not start");
    /* Without this, libcurl waits a second for "100 Continue". */
    headers = curl_slist_append(headers, "Expect:");
    for (size_t i = 0; rq->headers && rq->headers[i]; i++)
        headers = curl_slist_append(headers, rq->headers[i]);
    set_options(easy, &t, headers, why);
    code = curl_easy_perform(easy);
    if (code == CURLE_OK)
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, ret_status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    if (code != CURLE_OK)
        return error_set(err, ERR_UNAVAILABLE, "%.200s",
                         why[0] ? why : curl_easy_strerror(code));
    return 0;
}
