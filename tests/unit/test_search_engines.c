/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search: SQLite and PostgreSQL give the same answers. The same files are put
 * into a store of each engine; every query must find the same files in the
 * same order, with the same score, place and snippet. Two hits of the same
 * score come in the order of their documents, the newest first, on both.
 *
 * Needs a PostgreSQL server (tools/test-postgres); skipped without one.
 */
#include "workspace_fixture.h"

#include "base/clock.h"
#include "search/search_int.h"

enum {
    SQLITE,
    POSTGRES,
    ENGINES
};

struct side {
    struct fixture f;
    struct search *s;
};

struct both {
    struct side side[ENGINES];
    struct error err;
};

/* ---- two stores --------------------------------------------------------- */

static void side_open(struct side *s, int engine)
{
    struct fixture *f = &s->f;
    struct search_settings settings = {.text_bytes = 4u << 20};
    char url[512];

    f->settings.data_dir = f->dir;
    OK(f, store_open(
              &(struct store_settings){
                  .engine = engine == POSTGRES
                                ? store_choice_url(f->dir, url, sizeof(url))
                                : "sqlite",
                  .data_dir = f->dir},
              &f->store, &f->err));
    OK(f, blobs_open(&(struct blobs_settings){.data_dir = f->dir}, &f->blobs,
                     &f->err));
    OK(f, audit_open(f->store, f->dir, &f->audit, &f->err));

    struct core core = {
        .store = f->store, .blobs = f->blobs, .audit = f->audit};

    OK(f, workspaces_open(&f->settings, &core, &f->w, &f->err));
    OK(f, search_open(&settings, &core, f->w, NULL, &s->s, &f->err));
}

static int set_up(void **state)
{
    struct both *b = xcalloc(1, sizeof(*b));

    *state = b;
    if (!store_choice_server())
        return 0;
    search_setup();
    for (int i = 0; i < ENGINES; i++) {
        struct fixture *f = &b->side[i].f;
        struct workspace_spec spec = {.name = "desk"};

        assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_engines"));
        f->settings.restore_window_s = 3600;
        side_open(&b->side[i], i);
        OK(f, workspace_create(f->w, &fixture_a, &spec, &f->ws, &f->err));
    }
    return 0;
}

static int tear_down(void **state)
{
    struct both *b = *state;

    for (int i = 0; i < ENGINES && b->side[i].s; i++) {
        search_close(b->side[i].s);
        fixture_close(&b->side[i].f);
        assert_int_equal(scratch_remove(b->side[i].f.dir), 0);
    }
    free(b);
    return 0;
}

#define NEEDS_SERVER()                                                        \
    do {                                                                      \
        if (!store_choice_server())                                           \
            skip();                                                           \
    } while (0)

static int64_t number_of(struct side *s, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    OK(&s->f, store_begin(s->f.store, STORE_READ, "test", &tx, &s->f.err));
    OK(&s->f, store_one(tx, &rows, &s->f.err, sql, ""));
    return rows ? store_int(rows, 0) : 0;
}

/* Until the index has all there is; moving the clock spares its pauses. */
static void settle(struct both *b)
{
    for (int i = 0; i < ENGINES; i++)
        for (unsigned tries = 0;
             number_of(&b->side[i], "SELECT (SELECT count(*) FROM files"
                                    " WHERE indexed = 0) + (SELECT count(*)"
                                    " FROM documents_gone)") > 0;
             tries++) {
            if (tries > 30000)
                fail_msg("the index does not settle");
            clock_test_advance(100);
            usleep(1000);
        }
}

static void add(struct both *b, const char *path, const char *text)
{
    for (int i = 0; i < ENGINES; i++)
        (void)put(&b->side[i].f, path, text, NULL);
    settle(b); /* documents are numbered in the order of files */
}

/* ---- asking both -------------------------------------------------------- */

/* Every hit, a line each, over all pages. */
static char *answer(struct side *s, const struct actor *who,
                    struct search_spec spec)
{
    struct buf out = {0};
    char after[64] = "";
    bool more = true;

    buf_adds(&out, "");
    while (more) {
        struct search_hit *hits = NULL;
        size_t count = 0;

        spec.after = after;
        OK(&s->f,
           search_query(s->s, who, &spec, &hits, &count, &more, &s->f.err));
        for (size_t i = 0; i < count; i++)
            buf_addf(&out, "%s score %.6f line %u page %u name %d: %s\n",
                     hits[i].path, hits[i].score, hits[i].line, hits[i].page,
                     hits[i].in_name, hits[i].snippet);
        if (count)
            (void)snprintf(after, sizeof(after), "%s", hits[count - 1].cursor);
        else
            assert_false(more);
        search_hits_free(hits, count);
    }
    return out.data;
}

static unsigned same_spec(struct both *b, const struct actor *who,
                          const struct search_spec *spec)
{
    char *texts[ENGINES];
    unsigned lines = 0;

    for (int i = 0; i < ENGINES; i++)
        texts[i] = answer(&b->side[i], who, *spec);
    if (strcmp(texts[SQLITE], texts[POSTGRES]) != 0)
        fail_msg("%s\nSQLite:\n%sPostgreSQL:\n%s", spec->query, texts[SQLITE],
                 texts[POSTGRES]);
    for (const char *p = texts[SQLITE]; *p; p++)
        lines += *p == '\n';
    for (int i = 0; i < ENGINES; i++)
        free(texts[i]);
    return lines;
}

static unsigned same(struct both *b, const char *query, unsigned limit)
{
    return same_spec(b, &fixture_a,
                     &(struct search_spec){.query = query, .limit = limit});
}

/* ---- the comparison set ------------------------------------------------- */

static const struct {
    const char *path, *text;
} corpus[] = {
    {"readme.md", "# Glovebox\nRun code nobody has read.\nRun it often.\n"},
    {"notes/run.txt", "run run run run run run run run run run run run run "
                      "run run run run run run run run run run run\n"},
    {"notes/Running late.txt", "the runner was running; he runs, ran, run\n"},
    {"data/prices.csv", "item,price\napple,1.20\nÄpfel,2.40\npomme,3\n"},
    {"café/menü.txt", "Café crème, naïve résumé, Zürich, Åse, smørrebrød\n"},
    {"cafe.txt", "cafe creme naive resume zurich ase smorrebrod\n"},
    {"i18n/ru.txt", "Быстрая коричневая лиса прыгает через ленивую собаку\n"},
    {"i18n/el.txt", "Η γρήγορη καφέ αλεπού πηδάει πάνω από το σκυλί\n"},
    {"i18n/ja.txt", "東京都に住んでいます。京都にも行きます。東京タワー\n"},
    {"i18n/zh.md", "我们在北京大学学习。北京很大。\n大学很多。\n"},
    {"i18n/ko.txt", "서울에서 만나요. 서울은 큰 도시입니다.\n"},
    {"i18n/th.txt", "ภาษาไทยไม่มีช่องว่าง\n"},
    {"i18n/mixed.txt", "see 東京 in Tokyo, and Straße, STRASSE, ﬁne, Ⅷ, ½\n"},
    {"src/main.c", "int main(void)\n{\n\treturn run_all(NULL) == 0;\n}\n"},
    {"src/run_all.py", "def run_all(x):\n    return [run(i) for i in x]\n"},
    {"src/quotes.sh", "echo \"it's\" 'a \\back\\slash' | sed 's/x/y/'\n"},
    {"repeat/a.txt", "a a a a b a a c\n"},
    {"repeat/b.txt", "a a b\n"},
    {"repeat/c.txt", "ab abc abcd ab abc ab\n"},
    {"html/page.html", "<p>Hello <b>world</b>, &eacute;t&eacute;</p>\n"},
    {"numbers.txt", "3.14 2,718 1e10 0x1F 192.168.0.1 2024-01-31 v1.2.3\n"},
    {"mail.txt", "to: ada@example.com; re: https://example.com/a?b=c#d\n"},
    {"emoji.txt",
     "party \xf0\x9f\x8e\x89 time \xf0\x9f\x8e\x89\xf0\x9f\x8e\x89\n"},
    {"empty.txt", ""},
    {"picture-run.png", "\x89PNG not text"},
    {"long/lines.txt", "one\ntwo\nthree needle four\nfive\nneedle needle\n"},
    {"long/UPPER.TXT", "NEEDLE in a HAYSTACK\n"},
    {"tie/1.txt", "equal words\n"},
    {"tie/2.txt", "equal words\n"},
    {"tie/3.txt", "equal words\n"},
    {"controls.txt",
     "tab\there\ffeed and \x1b[1mbold\x1b[0m and \x02pair\x01\n"},
    {"combining.txt", "cafe\xcc\x81 cre\xcc\x80me e\xcc\x81\xcc\xa7\n"},
};

static const char *const queries[] = {
    "run",
    "RUN",
    "run*",
    "runn*",
    "\"run it\"",
    "\"run it\" often",
    "run code",
    "code run",
    "run_all",
    "run_all(",
    "\"run run\"",
    "\"run run run\"",
    "cafe",
    "café",
    "CAFÉ",
    "\"café crème\"",
    "creme resume",
    "zürich",
    "ase",
    "smørrebrød",
    "лиса",
    "ЛИСА",
    "лис*",
    "\"ленивую собаку\"",
    "γρήγορη",
    "γρηγορη",
    "αλεπού",
    "καφέ",
    "東京",
    "京都",
    "東",
    "京都に",
    "北京大学",
    "大学",
    "北京 大学",
    "\"北京 大学\"",
    "서울",
    "도시",
    "ไทย",
    "東京 tokyo",
    "straße",
    "strasse",
    "fine",
    "ﬁne",
    "½",
    "ⅷ",
    "a",
    "\"a a\"",
    "\"a a\"*",
    "\"a a a\"",
    "\"a b\"",
    "\"a ab\"*",
    "a b c",
    "ab*",
    "abc*",
    "\"ab abc\"",
    "\"ab abc\"*",
    "\"ab ab\"*",
    "hello world",
    "été",
    "3.14",
    "\"3 14\"",
    "192.168.0.1",
    "v1.2.3",
    "2024-01-31",
    "example.com",
    "ada@example.com",
    "https://example.com",
    "\xf0\x9f\x8e\x89",
    "party time",
    "needle",
    "needle*",
    "\"needle needle\"",
    "haystack",
    "equal",
    "\"equal words\"",
    "txt",
    "png",
    "md",
    "main",
    "notes",
    "i18n",
    "repeat a",
    "picture",
    "run png",
    "it's",
    "\\back\\slash",
    "back slash",
    "feed",
    "pair",
    "bold",
    "\"feed and\"",
    "zzz",
    "run zzz",
    "-",
    "run -",
    "un",
    "eadm",
    "i18",
    "ü",
    "\"unfinished",
    "run \"\"",
    "OR",
    "run OR code",
    "NEAR(run code)",
    "path:run",
    "^run",
    "run NOT code",
    "%",
    "_",
    "x_all",
    "e\xcc\x81",
};

static void fill(struct both *b)
{
    for (size_t i = 0; i < ARRAY_SIZE(corpus); i++)
        add(b, corpus[i].path, corpus[i].text);
}

static void both_engines_give_the_same_answers(void **state)
{
    struct both *b = *state;
    unsigned hits = 0, found = 0;

    NEEDS_SERVER();
    fill(b);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        struct search_expr e cleanup(search_expr_done) = {0};
        unsigned n;

        if (search_expr_parse(queries[i], &e, &b->err) < 0)
            continue; /* refused before an engine sees it */
        n = same(b, queries[i], 50);
        (void)same(b, queries[i], 2); /* in pages: cursors and ties */
        hits += n;
        found += n > 0;
    }
    /* The set must say something: most of it has hits. */
    assert_true(found > ARRAY_SIZE(queries) * 2 / 3);
    if (hits <= 150)
        fail_msg("%u hits in all", hits);
}

static void filters_give_the_same_answers(void **state)
{
    struct both *b = *state;
    const struct search_spec specs[] = {
        {.query = "run", .limit = 50, .prefix = "notes/"},
        {.query = "run", .limit = 50, .type = "txt"},
        {.query = "run", .limit = 50, .type = ".TXT"},
        {.query = "needle", .limit = 50, .type = "text/*"},
        {.query = "run", .limit = 50, .type = "code"},
        {.query = "run", .limit = 50, .type = "nothing-has-such-a-long-end"},
        {.query = "run", .limit = 50, .author = KEY_A},
        {.query = "run", .limit = 50, .author = KEY_B},
        {.query = "run", .limit = 50, .conversation = "conv_1"},
        {.query = "run", .limit = 50, .from_ms = 1},
        {.query = "run", .limit = 50, .to_ms = 1},
        {.query = "un", .limit = 3, .prefix = "src/"},
    };

    NEEDS_SERVER();
    fill(b);
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++)
        (void)same_spec(b, &fixture_a, &specs[i]);
    assert_int_equal(same_spec(b, &fixture_a, &specs[0]), 2);
    /* The other tenant finds nothing on either (I8). */
    assert_int_equal(same_spec(b, &fixture_x, &specs[9]), 0);
}

/* More distinct words than a tsvector holds, and a word longer than one. */
static void documents_beyond_a_tsvector(void **state)
{
    struct both *b = *state;
    struct buf text cleanup(buf_done) = {0};

    NEEDS_SERVER();
    for (unsigned i = 0; i < 130000; i++)
        buf_addf(&text, "word%06u%s", i, i % 10 == 9 ? "\n" : " ");
    buf_adds(&text, "zebra crossing ");
    for (unsigned i = 0; i < 2500; i++)
        buf_adds(&text, "q");
    buf_adds(&text, " end\n");
    add(b, "large.txt", text.data);
    add(b, "small.txt", "word000001 zebra");
    assert_int_equal(
        number_of(&b->side[POSTGRES], "SELECT sum(partial) FROM words"), 1);
    assert_int_equal(same(b, "word000001", 10), 2);
    assert_int_equal(same(b, "word129999", 10), 1);
    assert_int_equal(same(b, "\"zebra crossing\"", 10), 1);
    assert_int_equal(same(b, "zebra", 10), 2);
    assert_int_equal(same(b, "qqqqqqqq*", 10), 1);
    assert_int_equal(same(b, "crossing end", 10), 1);
    assert_int_equal(same(b, "nowhere", 10), 0);
}

static void D10_what_went_is_found_on_neither(void **state)
{
    struct both *b = *state;

    NEEDS_SERVER();
    add(b, "one.txt", "secret apple");
    add(b, "two.txt", "secret pear");
    add(b, "one.txt", "public plum"); /* overwritten */
    assert_int_equal(same(b, "apple", 10), 0);
    assert_int_equal(same(b, "secret", 10), 1);
    for (int i = 0; i < ENGINES; i++) {
        struct set s = set_new(&b->side[i].f, "delete");
        struct workspace_commit done;

        (void)set_add(&s, CHANGE_REMOVE, "two.txt");
        OK(&b->side[i].f, set_commit(&s, &fixture_a, &done));
        workspace_commit_done(&done);
    }
    settle(b);
    assert_int_equal(same(b, "secret", 10), 0);
    assert_int_equal(number_of(&b->side[POSTGRES],
                               "SELECT count(*) FROM words WHERE"
                               " body LIKE '%apple%' OR body LIKE '%pear%'"
                               " OR body_words LIKE '%apple%'"
                               " OR body_words LIKE '%pear%'"),
                     0);
}

/* Rows of a copy have no words yet: opening the index adds them. */
static void rows_without_words_are_filled(void **state)
{
    struct both *b = *state;
    struct side *s = &b->side[POSTGRES];

    NEEDS_SERVER();
    add(b, "one.txt", "some words to find");
    search_close(s->s);
    s->s = NULL;
    {
        struct store_tx *tx cleanup(store_rollback) = NULL;

        OK(&s->f,
           store_begin(s->f.store, STORE_WRITE, "test", &tx, &s->f.err));
        OK(&s->f, store_exec(tx, &s->f.err,
                             "UPDATE words SET tokens = NULL,"
                             " path_words = NULL, body_words = NULL",
                             ""));
        OK(&s->f, store_commit(&tx, &s->f.err));
    }
    fixture_close(&s->f);
    side_open(s, POSTGRES);
    assert_int_equal(same(b, "\"words to\"", 10), 1);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(both_engines_give_the_same_answers),
        CASE(filters_give_the_same_answers),
        CASE(documents_beyond_a_tsvector),
        CASE(D10_what_went_is_found_on_neither),
        CASE(rows_without_words_are_filled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
