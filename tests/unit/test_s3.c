/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The S3 client: signatures against the examples that Amazon publishes, keys,
 * XML and times; then whole calls against tests/lib/s3-server.mjs, which
 * verifies signatures by its own code and misbehaves on request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/ids.h"
#include "s3/s3_int.h"
#include "s3_server.h"
#include "scratch.h"

/* ---- signatures --------------------------------------------------------- */

#define EMPTY_SHA256                                                          \
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define WELCOME_SHA256                                                        \
    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"

/* "Authenticating Requests (AWS Signature Version 4)", Amazon S3 API
 * Reference: the key, time, bucket and region of all its examples, and the
 * signature it states for each. */
static void s3_sign_matches_published_examples(void **state)
{
    static const struct {
        const char *method, *path, *query, *payload;
        struct s3_param extra[3];
        const char *names, *signature;
    } rows[] = {
        {"GET",
         "/test.txt",
         "",
         EMPTY_SHA256,
         {{"range", "bytes=0-9"}},
         "host;range;x-amz-content-sha256;x-amz-date",
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"PUT",
         "/test%24file.text",
         "",
         WELCOME_SHA256,
         {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
          {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
         "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {"GET",
         "/",
         "lifecycle=",
         EMPTY_SHA256,
         {{NULL, NULL}},
         "host;x-amz-content-sha256;x-amz-date",
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"GET",
         "/",
         "max-keys=2&prefix=J",
         EMPTY_SHA256,
         {{NULL, NULL}},
         "host;x-amz-content-sha256;x-amz-date",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
    static const struct s3_keys keys = {
        .id = "AKIAIOSFODNN7EXAMPLE",
        .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct buf out cleanup(buf_done) = {0};
        char want[400];
        struct s3_param headers[6] = {
            {"x-amz-date", "20130524T000000Z"},
            {"host", "examplebucket.s3.amazonaws.com"},
            {"x-amz-content-sha256", rows[i].payload}};
        size_t count = 3;

        for (size_t k = 0; k < 3 && rows[i].extra[k].name; k++)
            headers[count++] = rows[i].extra[k];
        s3_sign(&(struct s3_to_sign){.method = rows[i].method,
                                     .path = rows[i].path,
                                     .query = rows[i].query,
                                     .headers = headers,
                                     .header_count = count,
                                     .payload = rows[i].payload,
                                     .time = "20130524T000000Z",
                                     .region = "us-east-1"},
                &keys, &out);
        buf_add(&out, "", 1);
        (void)snprintf(want, sizeof(want),
                       "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/"
                       "20130524/us-east-1/s3/aws4_request,SignedHeaders=%s,"
                       "Signature=%s",
                       rows[i].names, rows[i].signature);
        assert_string_equal(out.data, want);
    }
}

static void s3_sign_encodes_and_sorts(void **state)
{
    struct s3_param params[] = {
        {"prefix", "a b/ü"}, {"list-type", "2"}, {"continuation-token", "+="}};
    struct buf query cleanup(buf_done) = {0}, path cleanup(buf_done) = {0};

    (void)state;
    s3_sign_query(params, ARRAY_SIZE(params), &query);
    buf_add(&query, "", 1);
    assert_string_equal(query.data, "continuation-token=%2B%3D&list-type=2&"
                                    "prefix=a%20b%2F%C3%BC");
    s3_sign_encode("a/b c~(1)", true, &path);
    buf_add(&path, "", 1);
    assert_string_equal(path.data, "a/b%20c~%281%29");
}

/* ---- keys --------------------------------------------------------------- */

static int parse_keys(const char *text, struct s3_keys *ret)
{
    struct error err;

    return s3_keys_parse(text, strlen(text), ret, &err);
}

static void s3_keys_parse_reads_both_spellings(void **state)
{
    char long_id[200], text[400];
    struct s3_keys keys;

    (void)state;
    assert_int_equal(parse_keys("[default]\n# note\naws_access_key_id = A\r\n"
                                "aws_secret_access_key=B/c+d=\n",
                                &keys),
                     0);
    assert_string_equal(keys.id, "A");
    assert_string_equal(keys.secret, "B/c+d=");
    assert_string_equal(keys.token, "");
    assert_int_equal(parse_keys("access_key_id=A\nsecret_access_key=B\n"
                                "session_token=T",
                                &keys),
                     0);
    assert_string_equal(keys.token, "T");
    assert_int_equal(parse_keys("", &keys), -ERR_INVALID);
    assert_int_equal(parse_keys("access_key_id=A\n", &keys), -ERR_INVALID);
    /* What would break out of a header. */
    assert_int_equal(
        parse_keys("access_key_id=A B\nsecret_access_key=B\n", &keys),
        -ERR_INVALID);
    for (size_t len = 128; len <= 129; len++) {
        memset(long_id, 'x', len);
        long_id[len] = '\0';
        (void)snprintf(text, sizeof(text),
                       "access_key_id=%s\nsecret_access_key=B\n", long_id);
        assert_int_equal(parse_keys(text, &keys),
                         len == 128 ? 0 : -ERR_INVALID);
    }
}

/* ---- XML ---------------------------------------------------------------- */

struct seen {
    char text[512];
};

static int on_element(void *ctx, const char *path, const char *text)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    (void)snprintf(s->text + n, sizeof(s->text) - n, "%s=%s;", path, text);
    return 0;
}

static int parse_xml(const char *text, struct seen *ret)
{
    struct error err;

    *ret = (struct seen){0};
    return s3_xml_parse(text, strlen(text), on_element, ret, &err);
}

static void s3_xml_parse_reports_elements(void **state)
{
    struct seen s;

    (void)state;
    assert_int_equal(parse_xml("<?xml version='1.0'?><a xmlns='u'><x:b "
                               "xmlns:x='v'>1 &lt;&amp;&#65;</x:b><c/></a>",
                               &s),
                     0);
    assert_string_equal(s.text, "a/b=1 <&A;a/c=;a=;");
}

static void s3_xml_parse_refuses_what_s3_never_sends(void **state)
{
    char *big = xmalloc(S3_XML_TEXT + 64);
    struct seen s;

    (void)state;
    assert_int_equal(parse_xml("", &s), -ERR_CORRUPT);
    assert_int_equal(parse_xml("<a>", &s), -ERR_CORRUPT);
    assert_int_equal(parse_xml("<html><p>no</html>", &s), -ERR_CORRUPT);
    assert_int_equal(parse_xml("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", &s),
                     -ERR_CORRUPT);
    assert_int_equal(
        parse_xml("<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", &s),
        -ERR_CORRUPT);
    for (unsigned depth = S3_XML_DEPTH; depth <= S3_XML_DEPTH + 1; depth++) {
        struct buf deep cleanup(buf_done) = {0};

        for (unsigned i = 0; i < depth; i++)
            buf_adds(&deep, "<a>");
        for (unsigned i = 0; i < depth; i++)
            buf_adds(&deep, "</a>");
        buf_add(&deep, "", 1);
        assert_int_equal(parse_xml(deep.data, &s),
                         depth == S3_XML_DEPTH ? 0 : -ERR_CORRUPT);
    }
    for (unsigned more = 0; more <= 1; more++) {
        memcpy(big, "<a>", 3);
        memset(big + 3, 'x', S3_XML_TEXT + more);
        memcpy(big + 3 + S3_XML_TEXT + more, "</a>", sizeof("</a>"));
        assert_int_equal(parse_xml(big, &s), more ? -ERR_CORRUPT : 0);
    }
    free(big);
}

static void times_are_read(void **state)
{
    int64_t ms;

    (void)state;
    assert_true(s3_http_date("Wed, 21 Oct 2015 07:28:00 GMT", &ms));
    assert_true(ms == 1445412480000);
    assert_false(s3_http_date("yesterday", &ms));
    assert_true(s3_xml_time("2015-10-21T07:28:00.250Z", &ms));
    assert_true(ms == 1445412480250);
    assert_false(s3_xml_time("2015", &ms));
    assert_int_equal(s3_retry_after_ms("3", 0), 3000);
    assert_int_equal(s3_retry_after_ms("100000", 0), 60000);
    assert_int_equal(
        s3_retry_after_ms("Wed, 21 Oct 2015 07:28:00 GMT", 1445412478000),
        2000);
    assert_int_equal(
        s3_retry_after_ms("Wed, 21 Oct 2015 07:28:00 GMT", 1445412490000), 0);
    assert_int_equal(s3_retry_after_ms("soon", 0), 0);
    assert_int_equal(s3_backoff_ms(1), 100);
    assert_int_equal(s3_backoff_ms(3), 400);
    assert_int_equal(s3_backoff_ms(60), 5000);
}

static void s3_part_size_keeps_to_ten_thousand_parts(void **state)
{
    (void)state;
    assert_int_equal(s3_part_size(1, 5 << 20), 5 << 20);
    assert_int_equal(s3_part_size(10000ull * (5 << 20), 5 << 20), 5 << 20);
    assert_int_equal(s3_part_size(10000ull * (5 << 20) + 1, 5 << 20), 6 << 20);
    assert_true(S3_SIZE_MAX / s3_part_size(S3_SIZE_MAX, 5 << 20) <= 10000);
}

/* ---- calls -------------------------------------------------------------- */

static struct s3_server server;

struct fixture {
    struct s3 *s3;
    struct error err;
};

static int open_client(struct fixture *f, struct s3_settings settings)
{
    return s3_open(&settings, &f->s3, &f->err);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    *state = f;
    s3_server_ask(&server, "/__calm", "{}", NULL);
    s3_server_ask(&server, "/__skew", "{\"ms\":0}", NULL);
    s3_server_ask(&server, "/__down", "{\"down\":false}", NULL);
    s3_server_ask(&server, "/__token", "{\"token\":\"\"}", NULL);
    return open_client(f, s3_server_settings(&server, "glovebox"));
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    s3_close(f->s3);
    free(f);
    return 0;
}

static void must(struct fixture *f, int r)
{
    if (r != 0)
        fail_msg("%d: %s", r, f->err.message);
}

static void arm(const char *json)
{
    s3_server_ask(&server, "/__fault", json, NULL);
}

static int collect(void *ctx, const void *bytes, size_t len)
{
    buf_add(ctx, bytes, len);
    return 0;
}

/* Bytes of that length as a file; owned by caller. */
static int make_file(size_t len, unsigned char sha256[HASH_SIZE], char **ret)
{
    int fd = memfd_create("body", MFD_CLOEXEC);
    char *bytes = xmalloc(len + 1);

    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    hash_sha256(bytes, len, sha256);
    assert_int_equal(write(fd, bytes, len), len);
    *ret = bytes;
    return fd;
}

static void holds(struct fixture *f, const char *key, const char *bytes,
                  size_t len)
{
    struct buf found cleanup(buf_done) = {0};
    struct s3_object object;

    must(f,
         s3_get(f->s3, key, 0, UINT64_MAX, collect, &found, &object, &f->err));
    assert_int_equal(found.len, len);
    assert_int_equal(object.size, len);
    if (len)
        assert_memory_equal(found.data, bytes, len);
}

static void objects_are_put_read_listed_and_deleted(void **state)
{
    struct fixture *f = *state;
    struct buf part cleanup(buf_done) = {0};
    struct s3_object object;
    int64_t age_ms;

    must(f, s3_put_bytes(f->s3, "a/é +%&?#.txt", "hello", 5, &f->err));
    must(f, s3_put_bytes(f->s3, "a/empty", "", 0, &f->err));
    holds(f, "a/é +%&?#.txt", "hello", 5);
    holds(f, "a/empty", "", 0);
    must(f, s3_head(f->s3, "a/é +%&?#.txt", &object, &f->err));
    assert_int_equal(object.size, 5);
    age_ms = clock_real_ms() - object.modified_ms;
    assert_true(age_ms >= -2000 && age_ms < 60000);
    must(f, s3_get(f->s3, "a/é +%&?#.txt", 1, 3, collect, &part, &object,
                   &f->err));
    assert_int_equal(part.len, 3);
    assert_memory_equal(part.data, "ell", 3);
    assert_int_equal(object.size, 5);
    must(f, s3_delete(f->s3, "a/é +%&?#.txt", &f->err));
    must(f, s3_delete(f->s3, "a/é +%&?#.txt", &f->err));
    must(f, s3_delete(f->s3, "a/empty", &f->err));
    assert_int_equal(s3_head(f->s3, "a/empty", &object, &f->err), 1);
    assert_int_equal(
        s3_get(f->s3, "a/empty", 0, UINT64_MAX, collect, &part, NULL, &f->err),
        1);
    must(f, s3_probe(f->s3, &f->err));
}

struct listed {
    unsigned count;
    char last[S3_KEY_MAX + 1];
};

static int on_listed(void *ctx, const char *key,
                     const struct s3_object *object)
{
    struct listed *l = ctx;

    assert_true(strcmp(l->last, key) < 0);
    assert_int_equal(object->size, 1);
    (void)snprintf(l->last, sizeof(l->last), "%s", key);
    return ++l->count == 20 ? 1 : 0;
}

/* bucket.host/key instead of host/bucket/key. */
static void host_style_works(void **state)
{
    struct s3_settings settings = s3_server_settings(&server, "glovebox");
    struct fixture f = {0};
    struct listed l = {0};
    char endpoint[64];

    (void)state;
    (void)snprintf(endpoint, sizeof(endpoint), "http://localhost:%d/",
                   server.port);
    settings.endpoint = endpoint;
    settings.host_style = true;
    settings.prefix = "hosted/";
    must(&f, open_client(&f, settings));
    must(&f, s3_put_bytes(f.s3, "a b", "x", 1, &f.err));
    holds(&f, "a b", "x", 1);
    must(&f, s3_list(f.s3, "", on_listed, &l, &f.err));
    assert_int_equal(l.count, 1);
    assert_string_equal(l.last, "a b");
    must(&f, s3_delete(f.s3, "a b", &f.err));
    s3_close(f.s3);
}

static void keys_have_limits(void **state)
{
    struct fixture *f = *state;
    char key[S3_KEY_MAX + 2];

    memset(key, 'k', sizeof(key));
    key[S3_KEY_MAX] = '\0';
    must(f, s3_put_bytes(f->s3, key, "x", 1, &f->err));
    must(f, s3_delete(f->s3, key, &f->err));
    key[S3_KEY_MAX] = 'k';
    key[S3_KEY_MAX + 1] = '\0';
    assert_int_equal(s3_put_bytes(f->s3, key, "x", 1, &f->err), -ERR_INVALID);
    assert_int_equal(s3_put_bytes(f->s3, "", "x", 1, &f->err), -ERR_INVALID);
}

static void s3_list_follows_pages(void **state)
{
    struct fixture *f = *state;
    struct listed l = {0};

    s3_server_ask(&server, "/__page", "{\"bucket\":\"glovebox\",\"keys\":3}",
                  NULL);
    for (unsigned i = 0; i < 10; i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "list/%u é", i);
        must(f, s3_put_bytes(f->s3, key, "x", 1, &f->err));
    }
    must(f, s3_list(f->s3, "list/", on_listed, &l, &f->err));
    assert_int_equal(l.count, 10);
    assert_string_equal(l.last, "list/9 é");
    l = (struct listed){.count = 15};
    assert_int_equal(s3_list(f->s3, "list/", on_listed, &l, &f->err), 1);
    assert_int_equal(l.count, 20);
    l = (struct listed){0};
    must(f, s3_list(f->s3, "none/", on_listed, &l, &f->err));
    assert_int_equal(l.count, 0);
}

static unsigned uploads_left(void)
{
    struct buf answer cleanup(buf_done) = {0};
    unsigned count = 99;

    s3_server_ask(&server, "/__uploads", NULL, &answer);
    assert_int_equal(sscanf(answer.data, "{\"glovebox\":%u", &count), 1);
    return count;
}

static void large_bodies_are_put_in_parts(void **state)
{
    struct fixture *f = *state;
    unsigned char sha256[HASH_SIZE];
    static const size_t sizes[] = {1 << 20, (1 << 20) + 1, (5 << 20) + 7};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        char *bytes cleanup(mem_free) = NULL;
        int fd = make_file(sizes[i], sha256, &bytes);
        struct s3_object object;

        must(f, s3_put_file(f->s3, "large", fd, sizes[i], sha256, &f->err));
        holds(f, "large", bytes, sizes[i]);
        must(f, s3_head(f->s3, "large", &object, &f->err));
        assert_true(!strchr(object.etag, '-') == (sizes[i] <= 1 << 20));
        (void)close(fd);
    }
    assert_int_equal(uploads_left(), 0);
}

/* An upload that fails for good leaves no parts; one that was killed is found
 * a day later. */
static void failed_uploads_are_aborted(void **state)
{
    struct fixture *f = *state;
    unsigned char sha256[HASH_SIZE];
    char *bytes cleanup(mem_free) = NULL;
    int fd = make_file(3 << 20, sha256, &bytes);
    struct s3_object object;
    unsigned count = 0;

    arm("{\"kind\":\"status\",\"status\":403,\"code\":\"AccessDenied\","
        "\"method\":\"PUT\",\"match\":\"partNumber=2\",\"times\":9}");
    assert_int_equal(
        s3_put_file(f->s3, "broken", fd, 3 << 20, sha256, &f->err),
        -ERR_UNAVAILABLE);
    assert_int_equal(s3_head(f->s3, "broken", &object, &f->err), 1);
    assert_int_equal(uploads_left(), 0);

    /* The abort fails too. */
    arm("{\"kind\":\"status\",\"status\":403,\"code\":\"AccessDenied\","
        "\"method\":\"DELETE\",\"times\":9}");
    assert_int_equal(
        s3_put_file(f->s3, "broken", fd, 3 << 20, sha256, &f->err),
        -ERR_UNAVAILABLE);
    s3_server_ask(&server, "/__calm", "{}", NULL);
    assert_int_equal(uploads_left(), 1);
    must(f, s3_abort_stale(f->s3, 3600000, &count, &f->err));
    assert_int_equal(count, 0);
    assert_int_equal(uploads_left(), 1);
    s3_server_ask(&server, "/__age", "{\"ms\":3700000}", NULL);
    must(f, s3_abort_stale(f->s3, 3600000, &count, &f->err));
    assert_int_equal(count, 1);
    assert_int_equal(uploads_left(), 0);
    (void)close(fd);
}

static void passing_failures_are_retried(void **state)
{
    static const char *const faults[] = {
        "{\"kind\":\"status\",\"status\":500,\"code\":\"InternalError\","
        "\"times\":2}",
        "{\"kind\":\"status\",\"status\":503,\"code\":\"SlowDown\","
        "\"seconds\":1}",
        "{\"kind\":\"status\",\"status\":503,\"code\":\"ServiceUnavailable\"}",
        "{\"kind\":\"refuse\",\"times\":2}",
        "{\"kind\":\"lost\"}",
        "{\"kind\":\"slow\",\"ms\":300}",
    };
    struct fixture *f = *state;
    unsigned char sha256[HASH_SIZE];
    char *bytes cleanup(mem_free) = NULL;
    int fd = make_file(200000, sha256, &bytes);

    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        uint64_t began_ms = clock_mono_ms();

        arm(faults[i]);
        must(f, s3_put_file(f->s3, "retried", fd, 200000, sha256, &f->err));
        if (i == 1) /* Retry-After */
            assert_true(clock_mono_ms() - began_ms >= 1000);
        arm(faults[i]);
        holds(f, "retried", bytes, 200000);
    }
    arm("{\"kind\":\"torn\",\"times\":3}");
    holds(f, "retried", bytes, 200000);
    arm("{\"kind\":\"stall\"}");
    holds(f, "retried", bytes, 200000);
    (void)close(fd);
}

/* The part is repeated alone, and a completion whose answer was lost is found
 * to have succeeded. */
static void uploads_in_parts_survive_failures(void **state)
{
    static const char *const faults[] = {
        "{\"kind\":\"lost\",\"match\":\"partNumber=2\"}",
        "{\"kind\":\"refuse\",\"match\":\"partNumber=1\",\"times\":2}",
        "{\"kind\":\"status\",\"status\":503,\"code\":\"SlowDown\","
        "\"match\":\"partNumber=3\"}",
        "{\"kind\":\"lost\",\"method\":\"POST\",\"match\":\"uploadId\"}",
    };
    struct fixture *f = *state;
    unsigned char sha256[HASH_SIZE];
    char *bytes cleanup(mem_free) = NULL;
    int fd = make_file(3 << 20, sha256, &bytes);

    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        arm(faults[i]);
        must(f, s3_put_file(f->s3, "parts", fd, 3 << 20, sha256, &f->err));
        holds(f, "parts", bytes, 3 << 20);
    }
    assert_int_equal(uploads_left(), 0);
    (void)close(fd);
}

/* An object that is replaced between two halves is never mixed. */
static void torn_read_of_a_changed_object_fails(void **state)
{
    struct fixture *f = *state;
    struct buf found cleanup(buf_done) = {0};
    unsigned char sha256[HASH_SIZE];
    char *bytes cleanup(mem_free) = NULL;
    int fd = make_file(200000, sha256, &bytes);

    must(f, s3_put_file(f->s3, "changes", fd, 200000, sha256, &f->err));
    arm("{\"kind\":\"torn\",\"match\":\"changes\"}");
    arm("{\"kind\":\"status\",\"status\":412,\"code\":\"PreconditionFailed\","
        "\"match\":\"changes\"}");
    assert_int_equal(s3_get(f->s3, "changes", 0, UINT64_MAX, collect, &found,
                            NULL, &f->err),
                     -ERR_CORRUPT);
    (void)close(fd);
}

static void wrong_clock_is_corrected_by_the_servers(void **state)
{
    struct fixture *f = *state;
    struct s3_object object;

    s3_server_ask(&server, "/__skew", "{\"ms\":7200000}", NULL);
    must(f, s3_put_bytes(f->s3, "skewed", "x", 1, &f->err));
    assert_true(s3_clock_ahead_ms(f->s3) > 7100000);
    assert_true(s3_clock_ahead_ms(f->s3) < 7300000);
    s3_server_ask(&server, "/__skew", "{\"ms\":-7200000}", NULL);
    must(f, s3_head(f->s3, "skewed", &object, &f->err)); /* has no body */
    assert_true(s3_clock_ahead_ms(f->s3) < -7100000);
}

static void refusals_are_not_retried(void **state)
{
    struct s3_settings settings = s3_server_settings(&server, "glovebox");
    struct fixture *f = *state, g = {0};
    struct s3_counts before, after;
    struct buf found cleanup(buf_done) = {0};

    s3_counts(f->s3, &before);
    arm("{\"kind\":\"status\",\"status\":403,\"code\":\"AccessDenied\"}");
    assert_int_equal(s3_put_bytes(f->s3, "x", "x", 1, &f->err),
                     -ERR_UNAVAILABLE);
    assert_non_null(strstr(f->err.message, "AccessDenied"));
    s3_counts(f->s3, &after);
    assert_int_equal(after.requests, before.requests + 1);

    settings.bucket = "nowhere";
    must(&g, open_client(&g, settings));
    assert_int_equal(s3_put_bytes(g.s3, "x", "x", 1, &g.err),
                     -ERR_UNAVAILABLE);
    assert_non_null(strstr(g.err.message, "NoSuchBucket"));
    assert_int_equal(s3_get(g.s3, "x", 0, 1, collect, &found, NULL, &g.err),
                     -ERR_UNAVAILABLE);
    s3_close(g.s3);
}

static void write_keys(const char *secret, const char *token)
{
    FILE *keys = fopen(server.key_file, "w");

    assert_non_null(keys);
    (void)fprintf(keys,
                  "access_key_id=test:tester\nsecret_access_key=%s\n"
                  "session_token=%s\n",
                  secret, token);
    assert_int_equal(fclose(keys), 0);
}

/* Whatever renews the key file needs no restart. No message has a key. */
static void renewed_keys_are_read_again(void **state)
{
    struct fixture *f = *state;

    s3_server_ask(&server, "/__token", "{\"token\":\"second\"}", NULL);
    assert_int_equal(s3_put_bytes(f->s3, "x", "x", 1, &f->err),
                     -ERR_UNAVAILABLE);
    assert_null(strstr(f->err.message, "testing"));
    write_keys("testing", "second");
    must(f, s3_put_bytes(f->s3, "x", "x", 1, &f->err));
    s3_server_ask(&server, "/__token", "{\"token\":\"\"}", NULL);
    write_keys("testing", "");
}

/* Left out of make test, which has the same through the tier (test_blob_s3).
 */
static void only_complete(void)
{
    if (getenv("GLOVEBOX_TEST_S3"))
        return;
    print_message("# SKIP: run by make test-s3\n");
    skip();
}

/* Five seconds of failures, and from then on callers fail at once; recovery
 * needs no restart. */
static void store_that_is_down_fails_fast_and_comes_back(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms = clock_mono_ms();
    struct error why;
    int r;

    only_complete();
    s3_server_ask(&server, "/__down", "{\"down\":true}", NULL);
    assert_int_equal(s3_put_bytes(f->s3, "x", "x", 1, &f->err),
                     -ERR_UNAVAILABLE);
    assert_true(f->err.retry_after_s > 0);
    assert_true(clock_mono_ms() - began_ms < 19000); /* not its deadline */
    assert_true(s3_is_down(f->s3, &why));
    assert_non_null(strstr(why.message, "cannot be used"));
    began_ms = clock_mono_ms();
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(s3_put_bytes(f->s3, "x", "x", 1, &f->err),
                         -ERR_UNAVAILABLE);
    s3_server_ask(&server, "/__down", "{\"down\":false}", NULL);
    for (unsigned i = 0; i < 200; i++) {
        r = s3_put_bytes(f->s3, "x", "x", 1, &f->err);
        if (r == 0)
            break;
        (void)usleep(50000);
    }
    must(f, r);
    assert_false(s3_is_down(f->s3, NULL));
}

static void s3_stop_ends_what_waits(void **state)
{
    struct fixture *f = *state;

    s3_stop(f->s3);
    assert_int_equal(s3_put_bytes(f->s3, "x", "x", 1, &f->err),
                     -ERR_UNAVAILABLE);
}

static void s3_open_refuses_what_is_no_endpoint(void **state)
{
    static const char *const wrong[] = {"", "s3.example.org", "https://",
                                        "https://host/path"};
    struct s3_settings settings = s3_server_settings(&server, "glovebox");
    struct fixture f = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        settings.endpoint = wrong[i];
        assert_int_equal(open_client(&f, settings), -ERR_INVALID);
    }
    settings.endpoint = server.endpoint;
    settings.key_file = "/nonexistent/keys";
    assert_int_equal(open_client(&f, settings), -ERR_INVALID);
    assert_null(f.s3);
}

#define WITH_SERVER(name)                                                     \
    cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(s3_sign_matches_published_examples),
        cmocka_unit_test(s3_sign_encodes_and_sorts),
        cmocka_unit_test(s3_keys_parse_reads_both_spellings),
        cmocka_unit_test(s3_xml_parse_reports_elements),
        cmocka_unit_test(s3_xml_parse_refuses_what_s3_never_sends),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(s3_part_size_keeps_to_ten_thousand_parts),
        WITH_SERVER(objects_are_put_read_listed_and_deleted),
        cmocka_unit_test(host_style_works),
        WITH_SERVER(keys_have_limits),
        WITH_SERVER(s3_list_follows_pages),
        WITH_SERVER(large_bodies_are_put_in_parts),
        WITH_SERVER(failed_uploads_are_aborted),
        WITH_SERVER(passing_failures_are_retried),
        WITH_SERVER(uploads_in_parts_survive_failures),
        WITH_SERVER(torn_read_of_a_changed_object_fails),
        WITH_SERVER(wrong_clock_is_corrected_by_the_servers),
        WITH_SERVER(refusals_are_not_retried),
        WITH_SERVER(renewed_keys_are_read_again),
        WITH_SERVER(store_that_is_down_fails_fast_and_comes_back),
        WITH_SERVER(s3_stop_ends_what_waits),
        cmocka_unit_test(s3_open_refuses_what_is_no_endpoint),
    };
    static const char *const argv[] = {"node", "tests/lib/s3-server.mjs",
                                       NULL};
    char dir[256];
    struct error err;
    int failed;

    if (fetch_start(&err) < 0 || !scratch_dir(dir, sizeof(dir), "s3") ||
        !s3_server_start(&server, argv, dir))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    s3_server_stop(&server);
    scratch_remove(dir);
    return failed;
}
