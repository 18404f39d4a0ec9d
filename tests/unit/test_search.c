/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search: what was committed is found, by name and by content, in the right
 * place, by those who may see it and nobody else, and no longer when it is
 * gone. Documents need sessions and are tested over HTTP.
 */
#include "workspace_fixture.h"

#include <ctype.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "core/core.h"
#include "search/search_int.h"

#define TEXT_BYTES 65536u
#define OPEN "\xe2\x81\xa8"
#define CLOSE "\xe2\x81\xa9"
#define M(hit) OPEN hit CLOSE

struct desk {
    struct fixture *f;
    struct search *s;
};

static void open_search(struct desk *d)
{
    struct search_settings settings = {.text_bytes = TEXT_BYTES,
                                       .document_bytes = 1 << 20};
    const struct core core = {.store = d->f->store, .blobs = d->f->blobs};

    OK(d->f, search_open(&settings, &core, d->f->w, NULL, &d->s, &d->f->err));
}

static int set_up(void **state)
{
    struct desk *d = xcalloc(1, sizeof(*d));
    void *fixture;

    search_setup();
    (void)fixture_set_up(&fixture);
    d->f = fixture;
    open_search(d);
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;
    void *fixture = d->f;

    search_close(d->s);
    (void)fixture_tear_down(&fixture);
    free(d);
    return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- short ways --------------------------------------------------------- */

static struct search_state state_of(struct desk *d)
{
    struct search_state st;

    OK(d->f, search_state(d->s, &fixture_r, NULL, &st, &d->f->err));
    return st;
}

static int64_t number_of(struct desk *d, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    OK(d->f, store_begin(d->f->store, STORE_READ, "test", &tx, &d->f->err));
    OK(d->f, store_one(tx, &rows, &d->f->err, sql, ""));
    return rows ? store_int(rows, 0) : 0;
}

/* Until the index has all there is. Moving the clock spares the indexer its
 * pauses: it gathers commits for a while before it begins. */
static void settle(struct desk *d)
{
    unsigned tries = 0;

    while (number_of(d, "SELECT (SELECT count(*) FROM files"
                        " WHERE indexed = 0) +"
                        " (SELECT count(*) FROM documents_gone)") > 0) {
        if (++tries > 30000)
            fail_msg("the index does not settle");
        clock_test_advance(100);
        usleep(1000);
    }
}

static void add(struct desk *d, const char *path, const char *text)
{
    (void)put(d->f, path, text, NULL);
}

static void add_bytes(struct desk *d, const char *path, const void *bytes,
                      size_t len)
{
    struct blob_writer *b cleanup(blob_abort) = NULL;
    struct set s = set_new(d->f, "upload");
    struct workspace_change *c = set_add(&s, CHANGE_PUT, path);
    struct workspace_commit done;

    OK(d->f, blob_begin(d->f->blobs, "", &b, &d->f->err));
    OK(d->f, blob_write(b, bytes, len, &d->f->err));
    OK(d->f, blob_finish(&b, s.sums[0], &c->size, &d->f->err));
    OK(d->f, set_commit(&s, &fixture_a, &done));
    workspace_commit_done(&done);
}

static void change(struct desk *d, enum workspace_change_kind kind,
                   const char *from, const char *path)
{
    struct set s = set_new(d->f, kind == CHANGE_MOVE ? "move" : "delete");
    struct workspace_commit done;

    set_add(&s, kind, path)->from = from;
    OK(d->f, set_commit(&s, &fixture_a, &done));
    workspace_commit_done(&done);
}

struct found {
    struct search_hit *hits;
    size_t count;
    bool more;
};

static struct found ask_spec(struct desk *d, const struct actor *who,
                             const struct search_spec *spec)
{
    struct found r = {0};

    OK(d->f,
       search_query(d->s, who, spec, &r.hits, &r.count, &r.more, &d->f->err));
    return r;
}

static struct found ask(struct desk *d, const struct actor *who,
                        const char *query)
{
    return ask_spec(d, who,
                    &(struct search_spec){.query = query, .limit = 50});
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "a.txt:3 b.csv:1 name.png" in order of path; a page would be "x.pdf@2" */
static char *found_text(struct found *r)
{
    char *texts[512];
    struct buf out = {0};

    buf_adds(&out, "");
    assert_true(r->count <= ARRAY_SIZE(texts));
    for (size_t i = 0; i < r->count; i++) {
        const struct search_hit *h = &r->hits[i];

        texts[i] = h->line   ? xasprintf("%s:%u", h->path, h->line)
                   : h->page ? xasprintf("%s@%u", h->path, h->page)
                             : xstrdup(h->path);
    }
    qsort(texts, r->count, sizeof(texts[0]), by_text);
    for (size_t i = 0; i < r->count; i++) {
        buf_addf(&out, "%s%s", i ? " " : "", texts[i]);
        free(texts[i]);
    }
    search_hits_free(r->hits, r->count);
    return buf_take(&out, NULL);
}

#define FINDS_AS(d, who, query, want)                                         \
    do {                                                                      \
        struct found found_ = ask(d, who, query);                             \
        char *text_ = found_text(&found_);                                    \
        assert_string_equal(text_, want);                                     \
        free(text_);                                                          \
    } while (0)
#define FINDS(d, query, want) FINDS_AS(d, &fixture_a, query, want)
#define FINDS_SPEC(d, want, ...)                                              \
    do {                                                                      \
        struct search_spec spec_ = {__VA_ARGS__};                             \
        spec_.limit = spec_.limit ? spec_.limit : 50;                         \
        struct found found_ = ask_spec(d, &fixture_a, &spec_);                \
        char *text_ = found_text(&found_);                                    \
        assert_string_equal(text_, want);                                     \
        free(text_);                                                          \
    } while (0)
#define REFUSES(d, code, ...)                                                 \
    do {                                                                      \
        struct search_spec spec_ = {__VA_ARGS__};                             \
        spec_.query = spec_.query ? spec_.query : "x";                        \
        spec_.limit = spec_.limit ? spec_.limit : 50;                         \
        assert_int_equal(try_spec(d, &spec_), -(code));                       \
    } while (0)

static int try_spec(struct desk *d, const struct search_spec *spec)
{
    struct found r = {0};
    int code = search_query(d->s, &fixture_a, spec, &r.hits, &r.count, &r.more,
                            &d->f->err);

    search_hits_free(r.hits, r.count);
    return code;
}

static void snippet_is(struct desk *d, const char *query, const char *want)
{
    struct found r = ask(d, &fixture_a, query);

    assert_int_equal(r.count, 1);
    assert_string_equal(r.hits[0].snippet, want);
    search_hits_free(r.hits, r.count);
}

/* ---- kinds of files ----------------------------------------------------- */

static void finds_words_in_every_kind_of_text(void **state)
{
    struct desk *d = *state;

    add(d, "notes.txt", "first\nsecond has walrus\n");
    add(d, "src/tool.py", "import os\n\ndef walrus():\n    pass\n");
    add(d, "data.csv", "id,animal\n1,cat\n2,walrus\n");
    add(d, "config.json", "{\n  \"animal\": \"walrus\"\n}\n");
    add(d, "README.md", "# Walrus\n");
    add(d, "Makefile", "all:\n\techo walrus\n");
    add(d, "page.html", "<html>\n<body class=\"seal\">a <b>wal</b>rus</body>");
    settle(d);
    FINDS(d, "walrus",
          "Makefile:2 README.md:1 config.json:2 data.csv:3 notes.txt:2"
          " page.html:2 src/tool.py:3");
    FINDS(d, "WALRUS",
          "Makefile:2 README.md:1 config.json:2 data.csv:3 notes.txt:2"
          " page.html:2 src/tool.py:3");
    FINDS(d, "seal", "");
    assert_int_equal(state_of(d).ready, 7);
}

static void binary_files_are_found_by_name_only(void **state)
{
    struct desk *d = *state;
    struct search_state st;

    add_bytes(d, "pictures/walrus.png", "walrus\0seal", 11);
    add_bytes(d, "blob.bin", "walrus seal\0", 12);
    add_bytes(d, "text-with-nul.txt", "walrus seal\0", 12);
    add_bytes(d, "model.pkl", "walrus seal", 11);
    add(d, "empty.txt", "");
    add(d, "walrus.pdf", "not looked at");
    settle(d);
    FINDS(d, "walrus", "pictures/walrus.png walrus.pdf");
    FINDS(d, "seal", "");
    FINDS(d, "empty", "empty.txt");
    st = state_of(d);
    assert_int_equal(st.ready, 1);
    assert_int_equal(st.names_only, 5);
    assert_int_equal(st.failed, 0);
    assert_int_equal(st.pending, 0);
    assert_int_equal(st.behind_ms, 0);
}

static void damaged_bytes_are_a_failure_and_said_so(void **state)
{
    struct desk *d = *state;
    char sum[BLOB_NAME], path[256];
    FILE *file;

    search_close(d->s);
    d->s = NULL;
    add(d, "good.txt", "walrus one");
    fixture_blob(d->f, "walrus two", sum);
    add(d, "bad.txt", "walrus two");
    fixture_close(d->f);
    (void)snprintf(path, sizeof(path), "%s/blobs/%.2s/%s", d->f->dir, sum,
                   sum);
    assert_int_equal(remove(path), 0);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("walrus 2wo", file) >= 0);
    assert_int_equal(fclose(file), 0);
    fixture_open(d->f);
    open_search(d);
    settle(d);
    FINDS(d, "walrus", "good.txt:1");
    FINDS(d, "bad", "bad.txt");
    assert_int_equal(state_of(d).failed, 1);
}

static void html_is_stripped_and_decoded(void **state)
{
    struct desk *d = *state;

    add(d, "a.html",
        "<!doctype html>\n<style>\n.hidden{}\n</style>\n"
        "<script>var secret = '<b>';\n</script><!-- comment <b> -->\n"
        "<p title=\"a > b\">caf&eacute; &amp; M&#252;ller &#x4e2d;</p>\n"
        "<td>one<td>two 3 < 4 &unknown; &#; &#x110000;");
    settle(d);
    FINDS(d, "hidden", "");
    FINDS(d, "secret", "");
    FINDS(d, "comment", "");
    FINDS(d, "title", "");
    FINDS(d, "cafe", "a.html:7");
    FINDS(d, "müller", "a.html:7");
    FINDS(d, "中", "a.html:7");
    FINDS(d, "one", "a.html:8");
    FINDS(d, "onetwo", "");
    FINDS(d, "unknown", "a.html:8");
}

static void html_of_any_shape_is_survived(void **state)
{
    static const char *const odd[] = {
        "<",
        "<!--",
        "<script",
        "<a href='",
        "&",
        "&#",
        "&#x",
        "<>",
        "</",
        "<a",
        "<a '>x",
        "&#1;",
        "&#55296;",
        "&amp",
        "<!>",
        "<?",
        "<script></script",
        "&#99999999999999;",
        "<b/>x</b>",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
        struct buf out cleanup(buf_done) = {0};
        char *copy cleanup(mem_free) = xstrdup(odd[i]);

        search_html_strip(&out, copy, strlen(copy));
        assert_true(out.len <= strlen(odd[i]) + 2);
    }
}

static void only_the_start_of_a_long_text_is_indexed(void **state)
{
    struct desk *d = *state;
    struct buf text cleanup(buf_done) = {0};

    while (text.len + 6 < TEXT_BYTES)
        buf_adds(&text, "a\n");
    buf_adds(&text, "whale "); /* ends one byte short of the limit */
    assert_int_equal(text.len, TEXT_BYTES);
    add(d, "at.txt", text.data);
    text.data[TEXT_BYTES - 1] = 's'; /* cut within "whales" and more */
    buf_adds(&text, "seal walrus\n");
    add(d, "above.txt", text.data);
    settle(d);
    FINDS(d, "whale", "at.txt:32766");
    FINDS(d, "walrus", "");
    FINDS(d, "whales*", "above.txt:32766");
}

/* ---- changes ------------------------------------------------------------ */

static void follows_updates_renames_and_deletes(void **state)
{
    struct desk *d = *state;
    struct found r;
    char version[ID_MAX];

    add(d, "a.txt", "walrus\n");
    settle(d);
    FINDS(d, "walrus", "a.txt:1");
    (void)put(d->f, "a.txt", "\n\nseal\n", version);
    settle(d);
    FINDS(d, "walrus", "");
    r = ask(d, &fixture_a, "seal");
    assert_int_equal(r.count, 1);
    assert_string_equal(r.hits[0].version, version);
    assert_string_equal(r.hits[0].workspace, d->f->ws.id);
    assert_string_equal(r.hits[0].mime, "text/plain");
    assert_true(r.hits[0].modified_at_ms > 0);
    search_hits_free(r.hits, r.count);

    change(d, CHANGE_MOVE, "a.txt", "otter/b.txt");
    settle(d);
    FINDS(d, "seal", "otter/b.txt:3");
    FINDS(d, "otter", "otter/b.txt");
    FINDS(d, "a.txt", "");
    assert_int_equal(number_of(d, "SELECT count(*) FROM words"), 1);

    change(d, CHANGE_REMOVE, NULL, "otter");
    FINDS(d, "seal", ""); /* at once, whatever the index has */
    FINDS(d, "tte", "");
    settle(d);
    FINDS(d, "seal", "");
    assert_int_equal(number_of(d, "SELECT count(*) FROM words"), 0);
    assert_int_equal(number_of(d, "SELECT count(*) FROM documents"), 0);
}

static void a_rename_to_another_kind_reads_it_again(void **state)
{
    struct desk *d = *state;

    add(d, "a.html", "<p class=otter>walrus</p>");
    settle(d);
    FINDS(d, "otter", "");
    change(d, CHANGE_MOVE, "a.html", "a.txt");
    settle(d);
    FINDS(d, "otter", "a.txt:1");
}

static void deleted_workspaces_are_not_searched(void **state)
{
    struct desk *d = *state;

    add(d, "a.txt", "walrus");
    settle(d);
    OK(d->f, workspace_delete(d->f->w, &fixture_a, d->f->ws.id, &d->f->err));
    FINDS(d, "walrus", "");
    FINDS_AS(d, &fixture_r, "walrus", "");
    REFUSES(d, ERR_NOT_FOUND, .workspace = d->f->ws.id);
    OK(d->f, workspace_undelete(d->f->w, &fixture_a, d->f->ws.id, &d->f->ws,
                                &d->f->err));
    FINDS(d, "walrus", "a.txt:1");
}

static void a_destroyed_workspace_leaves_no_word(void **state)
{
    struct desk *d = *state;

    add(d, "a.txt", "walrus");
    settle(d);
    OK(d->f, workspace_destroy(d->f->w, &fixture_a, d->f->ws.id, &d->f->err));
    assert_int_equal(number_of(d, "SELECT count(*) FROM documents"), 0);
    settle(d);
    assert_int_equal(number_of(d, "SELECT count(*) FROM words"), 0);
    FINDS_AS(d, &fixture_r, "walrus", "");
}

static void a_restart_goes_on_where_it_stopped(void **state)
{
    struct desk *d = *state;

    add(d, "a.txt", "walrus");
    settle(d);
    search_close(d->s);
    d->s = NULL;
    add(d, "b.txt", "walrus");
    change(d, CHANGE_REMOVE, NULL, "a.txt");
    fixture_reopen(d->f);
    open_search(d);
    settle(d);
    FINDS(d, "walrus", "b.txt:1");
}

/* ---- questions ---------------------------------------------------------- */

static void words_phrases_and_prefixes(void **state)
{
    struct desk *d = *state;

    add(d, "a.txt", "the quick brown fox");
    add(d, "b.txt", "brown the quick\nfox");
    add(d, "quick/c.txt", "a foxtrot is brown");
    settle(d);
    FINDS(d, "quick brown", "a.txt:1 b.txt:1 quick/c.txt:1");
    FINDS(d, "\"quick brown\"", "a.txt:1");
    FINDS(d, "\"quick fox\"", "b.txt:1");
    FINDS(d, "fox", "a.txt:1 b.txt:2");
    FINDS(d, "fox*", "a.txt:1 b.txt:2 quick/c.txt:1");
    FINDS(d, "\"brown fo\"*", "a.txt:1");
    FINDS(d, "quick-brown", "a.txt:1");
    FINDS(d, "brown fox zebra", "");
    FINDS(d, "  brown\t\nfox  fox FOX ", "a.txt:1 b.txt:1");
}

static void nothing_of_the_engines_syntax_gets_in(void **state)
{
    static const char *const odd[] = {
        "path:walrus",
        "walrus OR seal",
        "walrus NOT seal",
        "NEAR(walrus seal)",
        "walrus AND",
        "AND",
        "(walrus",
        "walrus)",
        "{path body}: walrus",
        "- path : walrus",
        "^walrus",
        "walrus + seal",
        "\"walrus",
        "\"\"walrus\"\"",
        "'walrus' --",
        "walrus'; DROP TABLE words; --",
        "walrus\"*\"",
        "**walrus**",
        "a\\",
        "%",
        "_a",
        "a%",
        "\"a\"\"b\"",
        "rank:x",
        "words:x",
        "walrus \"\" seal",
        "😀",
        "walrus 😀",
        "\xe2\x80\x8b"
        "a",
    };
    struct desk *d = *state;

    add(d, "a.txt", "walrus or not and near seal path");
    add(d, "b.txt", "walrus");
    settle(d);
    for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
        int code =
            try_spec(d, &(struct search_spec){.query = odd[i], .limit = 10});

        if (code < 0 && code != -ERR_INVALID)
            fail_msg("%s: %s", odd[i], d->f->err.message);
    }
    FINDS(d, "walrus OR seal", "a.txt:1"); /* "or" is a word */
    FINDS(d, "walrus NOT seal", "a.txt:1");
    FINDS(d, "path:walrus", "");
    FINDS(d, "body:walrus", "");
    FINDS(d, "NEAR(walrus seal)", "");
    FINDS(d, "(walrus)", "a.txt:1 b.txt:1");
    FINDS(d, "walrus & seal", "a.txt:1");
    FINDS(d, "walrus 😀 😀", "a.txt:1 b.txt:1");
    assert_int_equal(number_of(d, "SELECT count(*) FROM words"), 2);
}

static void a_query_has_limits(void **state)
{
    struct desk *d = *state;
    char text[SEARCH_QUERY_MAX + 2];
    struct buf words cleanup(buf_done) = {0};

    memset(text, 'x', sizeof(text));
    text[SEARCH_QUERY_MAX + 1] = '\0';
    REFUSES(d, ERR_INVALID, .query = text);
    text[SEARCH_QUERY_MAX] = '\0';
    FINDS(d, text, "");
    FINDS(d, "x", "");
    REFUSES(d, ERR_INVALID, .query = "");
    REFUSES(d, ERR_INVALID, .query = "   ");
    REFUSES(d, ERR_INVALID, .query = "!? -- \"\" * ***");
    assert_non_null(strstr(d->f->err.message, "no letter or digit"));
    REFUSES(d, ERR_INVALID, .query = "a\xff");
    REFUSES(d, ERR_INVALID, .query = "\xc0\xaf");

    for (unsigned i = 0; i < SEARCH_TERMS_MAX; i++)
        buf_addf(&words, "w%u ", i);
    FINDS(d, words.data, "");
    buf_adds(&words, "W0 w1 w2");
    FINDS(d, words.data, ""); /* the same ones again */
    buf_adds(&words, " more");
    REFUSES(d, ERR_INVALID, .query = words.data);

    assert_int_equal(try_spec(d, &(struct search_spec){.query = "x"}),
                     -ERR_INVALID);
    REFUSES(d, ERR_INVALID, .limit = SEARCH_LIMIT_MAX + 1);
    FINDS_SPEC(d, "", .query = "x", .limit = 1);
    FINDS_SPEC(d, "", .query = "x", .limit = SEARCH_LIMIT_MAX);
    REFUSES(d, ERR_INVALID, .prefix = "");
    REFUSES(d, ERR_INVALID, .type = "\xff");
    REFUSES(d, ERR_INVALID, .from_ms = -1);
    REFUSES(d, ERR_INVALID, .to_ms = -1);
}

static void names_match_in_whole_and_in_part(void **state)
{
    struct desk *d = *state;
    struct found r;

    add(d, "reports/q3-sales-final.csv", "a,b\n");
    add(d, "wholesale.txt", "nothing");
    add(d, "100%_done.txt", "nothing");
    add(d, "100 xdone.txt", "nothing");
    add(d, "other.txt", "the sales were good");
    settle(d);
    FINDS(d, "sales", "other.txt:1 reports/q3-sales-final.csv");
    FINDS(d, "sale", "reports/q3-sales-final.csv wholesale.txt");
    FINDS(d, "ales final", "reports/q3-sales-final.csv");
    FINDS(d, "\"3-sal\"", "reports/q3-sales-final.csv");
    FINDS(d, "0%_d", "100%_done.txt");
    FINDS(d, "e", ""); /* too short to look inside words */
    r = ask(d, &fixture_a, "sales");
    assert_int_equal(r.count, 2);
    assert_string_equal(r.hits[0].path, "reports/q3-sales-final.csv");
    assert_true(r.hits[0].in_name);
    assert_false(r.hits[1].in_name);
    assert_true(r.hits[0].score > r.hits[1].score);
    assert_true(r.hits[0].score <= 1 && r.hits[1].score > 0);
    assert_string_equal(r.hits[0].snippet,
                        "reports/q3-" M("sales") "-final.csv");
    search_hits_free(r.hits, r.count);
    snippet_is(d, "HOLES", "w" M("holes") "ale.txt");
}

static void diacritics_and_scripts(void **state)
{
    struct desk *d = *state;

    add(d, "fr.txt", "déjà vu à Besançon");
    add(d, "zh.txt", "第一行\n季度销售数据分析报告，第三季度");
    add(d, "ja.txt", "東京タワーで会いましょう");
    add(d, "ko.txt", "데이터를 분석합니다");
    add(d, "th.txt", "สวัสดีชาวโลก");
    add(d, "ru.txt", "Привет, мир");
    add(d, "销售/三月报告.csv", "a,b");
    add(d, "mix.txt", "report销售2024年");
    settle(d);
    FINDS(d, "deja besancon", "fr.txt:1");
    FINDS(d, "DÉJÀ", "fr.txt:1");
    FINDS(d, "数据", "zh.txt:2");
    FINDS(d, "销售数据", "zh.txt:2");
    FINDS(d, "据数", "");
    FINDS(d, "销售", "mix.txt:1 zh.txt:2 销售/三月报告.csv");
    FINDS(d, "月报", "销售/三月报告.csv");
    FINDS(d, "タワー", "ja.txt:1");
    FINDS(d, "데이터", "ko.txt:1");
    FINDS(d, "ชาว", "th.txt:1");
    FINDS(d, "привет", "ru.txt:1");
    FINDS(d, "report", "mix.txt:1");
    FINDS(d, "2024", "mix.txt:1");
    snippet_is(d, "数据", "季度销售" M("数据") "分析报告，第三季度");
    snippet_is(d, "2024", "report销售" M("2024") "年");
}

static void snippets_are_one_marked_line(void **state)
{
    struct desk *d = *state;
    struct found r;
    struct buf text cleanup(buf_done) = {0};

    add(d, "a.txt", "zero\n  one\ttwo   otter three\r\nfour Otter five");
    settle(d);
    snippet_is(d, "otter",
               "one two " M("otter") " three four " M("Otter") " five");
    snippet_is(d, "\"two otter\" five",
               "one " M("two otter") " three four Otter " M("five"));

    /* Marks of its own, marks of direction, control characters. */
    add(d, "b.txt", "x " M("fake") " \xe2\x80\xae walrus\x1b[31m \xff!");
    settle(d);
    snippet_is(d, "walrus", "x fake " M("walrus") " [31m \xef\xbf\xbd!");

    for (int i = 0; i < 200; i++)
        buf_addf(&text, "word%d ", i);
    add(d, "c.txt", text.data);
    settle(d);
    r = ask(d, &fixture_a, "word100");
    assert_int_equal(r.count, 1);
    assert_memory_equal(r.hits[0].snippet, "…word", 7);
    assert_non_null(strstr(r.hits[0].snippet, M("word100")));
    assert_true(strlen(r.hits[0].snippet) < 230);
    assert_true(strlen(r.hits[0].snippet) > 190);
    assert_null(strchr(r.hits[0].snippet, '\n'));
    search_hits_free(r.hits, r.count);
}

static void filters(void **state)
{
    struct desk *d = *state;
    struct set s = set_new(d->f, "upload");
    struct workspace_commit c;
    int64_t before = clock_real_ms(), after;

    add(d, "docs/a.txt", "walrus");
    add(d, "docs/b.CSV", "walrus");
    add(d, "walrus.png", "");
    s.spec.conversation = "conv-1";
    (void)set_put(&s, "code/c.py", "walrus = 1");
    OK(d->f, set_commit(&s, &fixture_b, &c));
    workspace_commit_done(&c);
    settle(d);
    after = clock_real_ms();
    FINDS(d, "walrus", "code/c.py:1 docs/a.txt:1 docs/b.CSV:1 walrus.png");
#define ALL .query = "walrus"
    FINDS_SPEC(d, "docs/a.txt:1 docs/b.CSV:1", ALL, .prefix = "docs/");
    FINDS_SPEC(d, "docs/b.CSV:1", ALL, .type = "csv");
    FINDS_SPEC(d, "docs/b.CSV:1", ALL, .type = ".CSV");
    FINDS_SPEC(d, "code/c.py:1", ALL, .type = "code");
    FINDS_SPEC(d, "code/c.py:1", ALL, .type = "py");
    FINDS_SPEC(d, "walrus.png", ALL, .type = "image/png");
    FINDS_SPEC(d, "walrus.png", ALL, .type = "image/*");
    FINDS_SPEC(d, "walrus.png", ALL, .type = "image/");
    FINDS_SPEC(d, "", ALL, .type = "pdf");
    FINDS_SPEC(d, "", ALL, .type = "%");
    FINDS_SPEC(d, "code/c.py:1", ALL, .author = KEY_B);
    FINDS_SPEC(d, "", ALL, .author = KEY_C);
    FINDS_SPEC(d, "code/c.py:1", ALL, .conversation = "conv-1");
    FINDS_SPEC(d, "", ALL, .conversation = "conv-2");
    FINDS_SPEC(d, "", ALL, .to_ms = before - 1);
    FINDS_SPEC(d, "", ALL, .from_ms = after + 1);
    FINDS_SPEC(d, "code/c.py:1 docs/a.txt:1 docs/b.CSV:1 walrus.png", ALL,
               .from_ms = before, .to_ms = after, .workspace = d->f->ws.id);
    /* The same filters where only a part of the name matches. */
    FINDS_SPEC(d, "walrus.png", .query = "alru", .type = "png");
    FINDS_SPEC(d, "", .query = "alru", .author = KEY_B);
#undef ALL
    add(d, "code/c.py", "walrus = 2"); /* still of that conversation */
    settle(d);
    FINDS_SPEC(d, "code/c.py:1", .query = "walrus", .conversation = "conv-1");
}

/* Every page once, in order of score, at any size of page. */
static void walk(struct desk *d, const char *query, unsigned limit,
                 size_t want)
{
    char *seen[512];
    char after[64] = "";
    size_t count = 0;
    bool more = true;
    double score = 1;

    while (more) {
        struct search_spec spec = {
            .query = query, .limit = limit, .after = after[0] ? after : NULL};
        struct found r = ask_spec(d, &fixture_a, &spec);

        assert_true(r.count <= limit);
        assert_true(r.count == limit || !r.more);
        for (size_t i = 0; i < r.count; i++) {
            assert_true(r.hits[i].score <= score);
            score = r.hits[i].score;
            assert_true(count < ARRAY_SIZE(seen));
            seen[count++] = xstrdup(r.hits[i].path);
        }
        more = r.more;
        if (r.count)
            memcpy(after, r.hits[r.count - 1].cursor, sizeof(after));
        search_hits_free(r.hits, r.count);
    }
    assert_int_equal(count, want);
    qsort(seen, count, sizeof(seen[0]), by_text);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || strcmp(seen[i - 1], seen[i]) != 0);
        if (i > 0)
            free(seen[i - 1]);
    }
    free(seen[count - 1]);
}

static void pages_cover_everything_once(void **state)
{
    struct desk *d = *state;

    for (int i = 0; i < 3; i++) {
        struct set s = set_new(d->f, "upload");
        struct workspace_commit c;
        static char paths[30][48], texts[30][48];

        for (int k = 0; k < 30; k++) {
            (void)snprintf(paths[k], 48, "%s%d/%d.txt",
                           k % 5 ? "f" : "xwalrusx", i, k);
            (void)snprintf(texts[k], 48,
                           k % 5 == 0   ? "seal"
                           : k % 3 == 0 ? "walrus walrus"
                                        : "walrus");
            (void)set_put(&s, paths[k], texts[k]);
        }
        OK(d->f, set_commit(&s, &fixture_a, &c));
        workspace_commit_done(&c);
    }
    settle(d);
    walk(d, "walrus", 1, 90); /* 72 by content, 18 by name */
    walk(d, "walrus", 7, 90);
    walk(d, "walrus", 72, 90);
    walk(d, "walrus", 89, 90);
    walk(d, "walrus", 90, 90);
    walk(d, "walrus", 500, 90);
    walk(d, "seal", 4, 18);
}

static void a_foreign_cursor_is_refused(void **state)
{
    static const char *const bad[] = {
        "x",
        "w",
        "n",
        "w1",
        "w1.",
        "w1.2x",
        "w-1.2",
        "w 1.2",
        "nfff ",
        "W1.2",
        "w01.2",
        "n-1",
        "'",
        "wffffffffffffffffffff.1",
        "nffffffffffffffff",
    };
    struct desk *d = *state;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        REFUSES(d, ERR_INVALID, .after = bad[i]);
    FINDS_SPEC(d, "", .query = "x", .after = "w1f.2");
    FINDS_SPEC(d, "", .query = "x", .after = "n2");
}

/* ---- who sees what ------------------------------------------------------ */

static void I3_only_those_with_a_role_find_anything(void **state)
{
    struct desk *d = *state;
    struct workspace_spec spec = {.name = "own", .private_to_owner = true};
    struct workspace_info shared = d->f->ws;
    struct search_state st;

    add(d, "shared.txt", "walrus");
    OK(d->f,
       workspace_create(d->f->w, &fixture_a, &spec, &d->f->ws, &d->f->err));
    add(d, "private.txt", "walrus");
    settle(d);

    FINDS_AS(d, &fixture_a, "walrus", "private.txt:1 shared.txt:1");
    FINDS_AS(d, &fixture_b, "walrus", "shared.txt:1");
    FINDS_AS(d, &fixture_r, "walrus", "private.txt:1 shared.txt:1");
    FINDS_AS(d, &fixture_x, "walrus", "");
    FINDS_AS(d, &fixture_x, "alru", "");
    FINDS_AS(d, &fixture_x, "share", "");
    FINDS_AS(d, &fixture_b, "rivat", "");
    /* An admin of another tenant is nobody here. */
    FINDS_AS(d,
             (&(struct actor){.tenant = "other", .key = KEY_X, .admin = true}),
             "walrus", "");

    OK(d->f, workspace_member_set(d->f->w, &fixture_a, d->f->ws.id, KEY_B,
                                  ROLE_VIEWER, &d->f->err));
    FINDS_AS(d, &fixture_b, "walrus", "private.txt:1 shared.txt:1");
    OK(d->f, workspace_member_set(d->f->w, &fixture_a, d->f->ws.id, KEY_B,
                                  ROLE_NONE, &d->f->err));
    FINDS_AS(d, &fixture_b, "walrus", "shared.txt:1");
    OK(d->f, workspace_member_set(d->f->w, &fixture_a, shared.id, "*",
                                  ROLE_NONE, &d->f->err));
    FINDS_AS(d, &fixture_b, "walrus", "");

    /* A foreign workspace and one that never was are the same. */
    REFUSED(d->f, ERR_NOT_FOUND,
            search_state(d->s, &fixture_x, d->f->ws.id, &st, &d->f->err));
    {
        char foreign[320];

        memcpy(foreign, d->f->err.message, sizeof(foreign));
        REFUSED(d->f, ERR_NOT_FOUND,
                search_state(d->s, &fixture_x,
                             "ws_00000000000000000000000000000000", &st,
                             &d->f->err));
        assert_string_equal(foreign, d->f->err.message);
    }
    OK(d->f, search_state(d->s, &fixture_x, NULL, &st, &d->f->err));
    assert_int_equal(st.ready + st.pending + st.failed + st.names_only, 0);
    OK(d->f, search_state(d->s, &fixture_a, d->f->ws.id, &st, &d->f->err));
    assert_int_equal(st.ready, 1);
}

/* What others have must not show in the order or the score of one's own. */
static void I8_scores_tell_nothing_of_other_tenants(void **state)
{
    struct desk *d = *state;
    struct found before, after;
    struct workspace_info other;

    add(d, "one.txt", "walrus walrus walrus seal");
    add(d, "two.txt", "walrus seal seal seal");
    settle(d);
    before = ask(d, &fixture_a, "walrus seal");
    OK(d->f, workspace_create(d->f->w, &fixture_x, &(struct workspace_spec){0},
                              &other, &d->f->err));
    for (int i = 0; i < 20; i++) {
        struct set s = set_new(d->f, "upload");
        struct workspace_commit c;
        char path[16];

        (void)snprintf(path, sizeof(path), "%d.txt", i);
        (void)set_put(&s, path, "walrus walrus and a lot of other words");
        s.changes[0].sha256 = s.sums[0];
        s.spec.changes = s.changes;
        s.spec.count = 1;
        OK(d->f, workspace_commit(d->f->w, &fixture_x, other.id, &s.spec, &c,
                                  &d->f->err));
        workspace_commit_done(&c);
    }
    settle(d);
    after = ask(d, &fixture_a, "walrus seal");
    assert_int_equal(before.count, 2);
    assert_int_equal(after.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(before.hits[i].path, after.hits[i].path);
        assert_true(before.hits[i].score == after.hits[i].score);
    }
    search_hits_free(before.hits, before.count);
    search_hits_free(after.hits, after.count);
}

/* More hits than the point where the other statement takes over. */
static void many_hits_are_filtered_too(void **state)
{
    struct desk *d = *state;
    struct search_spec spec = {.query = "walrus", .limit = 500};
    struct workspace_spec own = {.private_to_owner = true};
    char sum[BLOB_NAME];
    struct found r;

    OK(d->f,
       workspace_create(d->f->w, &fixture_a, &own, &d->f->ws, &d->f->err));
    fixture_blob(d->f, "walrus", sum);
    for (int i = 0; i < 5; i++) {
        struct workspace_change *changes = xcalloc(500, sizeof(*changes));
        struct workspace_commit_spec commit = {
            .kind = "upload", .changes = changes, .count = 500};
        struct workspace_commit c;

        for (int k = 0; k < 500; k++) {
            changes[k].path = xasprintf("d%d/%d.txt", i, k);
            changes[k].sha256 = sum;
            changes[k].size = 6;
        }
        OK(d->f, workspace_commit(d->f->w, &fixture_a, d->f->ws.id, &commit,
                                  &c, &d->f->err));
        workspace_commit_done(&c);
        for (int k = 0; k < 500; k++)
            free((char *)changes[k].path);
        free(changes);
    }
    settle(d);
    r = ask_spec(d, &fixture_a, &spec);
    assert_int_equal(r.count, 500);
    assert_true(r.more);
    search_hits_free(r.hits, r.count);
    r = ask_spec(d, &fixture_r, &spec);
    assert_int_equal(r.count, 500);
    search_hits_free(r.hits, r.count);
    FINDS_AS(d, &fixture_b, "walrus", "");
    FINDS_AS(d, &fixture_x, "walrus", "");
    FINDS_SPEC(d, "d3/77.txt:1", .query = "walrus", .prefix = "d3/77.");
    /* Deleted, but not yet for the index: the page is filled with others. */
    search_close(d->s);
    d->s = NULL;
    open_search(d);
    change(d, CHANGE_REMOVE, NULL, "d4");
    r = ask_spec(d, &fixture_a, &spec);
    assert_int_equal(r.count, 500);
    for (size_t i = 0; i < r.count; i++)
        assert_memory_not_equal(r.hits[i].path, "d4/", 3);
    search_hits_free(r.hits, r.count);
}

/* ---- beside commits ----------------------------------------------------- */

struct racer {
    struct desk *d;
    atomic_bool stop;
    uint64_t worst_ms;
    unsigned commits;
};

static void *commit_thread(void *arg)
{
    struct racer *r = arg;

    while (!r->stop && r->commits < 200) {
        char path[32], text[64];
        uint64_t start = clock_mono_ms();

        (void)snprintf(path, sizeof(path), "f%u.txt", r->commits % 40);
        (void)snprintf(text, sizeof(text), "walrus number%u", r->commits);
        add(r->d, path, text);
        if (r->commits % 7 == 6)
            change(r->d, CHANGE_REMOVE, NULL, path);
        r->worst_ms = MAX(r->worst_ms, clock_mono_ms() - start);
        r->commits++;
    }
    return NULL;
}

static void commits_and_questions_run_beside_the_indexer(void **state)
{
    struct desk *d = *state;
    struct racer racer = {.d = d};
    pthread_t thread;
    uint64_t until = clock_mono_ms() + 20000;
    int64_t alive;
    struct found r;

    assert_int_equal(pthread_create(&thread, NULL, commit_thread, &racer), 0);
    while (clock_mono_ms() < until) {
        struct search_spec spec = {.query = "walrus", .limit = 50};
        struct error err;

        assert_int_equal(search_query(d->s, &fixture_b, &spec, &r.hits,
                                      &r.count, &r.more, &err),
                         0);
        assert_true(r.count <= 40);
        search_hits_free(r.hits, r.count);
        if (pthread_tryjoin_np(thread, NULL) == 0)
            break;
    }
    assert_true(clock_mono_ms() < until);
    assert_true(racer.commits == 200);
    settle(d);
    alive = number_of(d, "SELECT count(*) FROM files WHERE alive = 1");
    r = ask(d, &fixture_a, "walrus");
    assert_int_equal(r.count, alive);
    search_hits_free(r.hits, r.count);
    assert_int_equal(number_of(d, "SELECT count(*) FROM words"), alive);
    /* Each file's words are of its newest version, and only those. */
    r = ask(d, &fixture_a, "number19*");
    for (size_t i = 0; i < r.count; i++)
        assert_non_null(strstr(r.hits[i].snippet, OPEN "number19"));
    search_hits_free(r.hits, r.count);
}

static void without_setup_it_does_not_open(void **state)
{
    struct desk *d = *state;
    struct search_settings settings = {.text_bytes = 1024};
    struct search *s = NULL;
    struct core core;

    if (store_choice_server()) {
        print_message("# SKIP: PostgreSQL needs no setup\n");
        skip();
    }
    search_close(d->s);
    d->s = NULL;
    sqlite3_reset_auto_extension();
    fixture_reopen(d->f);
    core = (struct core){.store = d->f->store, .blobs = d->f->blobs};
    assert_true(search_open(&settings, &core, d->f->w, NULL, &s, &d->f->err) <
                0);
    assert_null(s);
    search_setup();
    fixture_reopen(d->f);
    open_search(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(finds_words_in_every_kind_of_text),
        CASE(binary_files_are_found_by_name_only),
        CASE(damaged_bytes_are_a_failure_and_said_so),
        CASE(html_is_stripped_and_decoded),
        cmocka_unit_test(html_of_any_shape_is_survived),
        CASE(only_the_start_of_a_long_text_is_indexed),
        CASE(follows_updates_renames_and_deletes),
        CASE(a_rename_to_another_kind_reads_it_again),
        CASE(deleted_workspaces_are_not_searched),
        CASE(a_destroyed_workspace_leaves_no_word),
        CASE(a_restart_goes_on_where_it_stopped),
        CASE(words_phrases_and_prefixes),
        CASE(nothing_of_the_engines_syntax_gets_in),
        CASE(a_query_has_limits),
        CASE(names_match_in_whole_and_in_part),
        CASE(diacritics_and_scripts),
        CASE(snippets_are_one_marked_line),
        CASE(filters),
        CASE(pages_cover_everything_once),
        CASE(a_foreign_cursor_is_refused),
        CASE(I3_only_those_with_a_role_find_anything),
        CASE(I8_scores_tell_nothing_of_other_tenants),
        CASE(many_hits_are_filtered_too),
        CASE(commits_and_questions_run_beside_the_indexer),
        CASE(without_setup_it_does_not_open),
    };

    return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
