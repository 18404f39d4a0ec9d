/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what search makes of foreign bytes. The input up to its first zero
 * byte is a query, the rest a file: stripped as HTML and cleaned, it must be
 * text with its lines kept; whatever the query, the expression made of it
 * must be one the full-text engine takes, and each answer one marked line.
 */
#include <assert.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "search/search_int.h"

#define OPEN "\xe2\x81\xa8"
#define CLOSE "\xe2\x81\xa9"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sqlite3 *open_words(void)
{
    sqlite3 *db;

    search_setup();
    assert(sqlite3_open(":memory:", &db) == SQLITE_OK);
    assert(sqlite3_exec(db,
                        "CREATE VIRTUAL TABLE words USING fts5 (path, body,"
                        " tokenize = \"unicode61 remove_diacritics 2\")",
                        NULL, NULL, NULL) == SQLITE_OK);
    return db;
}

static size_t count(const char *text, size_t len, char c)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += text[i] == c;
    return n;
}

static void check_text(const struct buf *text)
{
    assert(text->len == 0 || utf8_valid(text->data, text->len));
    for (size_t i = 0; i < text->len; i++)
        assert((unsigned char)text->data[i] >= ' ' ||
               strchr("\n\t\f", text->data[i]));
}

static void clean(const char *bytes, size_t len, struct buf *text)
{
    struct buf stripped cleanup(buf_done) = {0};
    struct buf page cleanup(buf_done) = {0};

    search_html_strip(&stripped, bytes, len);
    assert(count(stripped.data, stripped.len, '\n') ==
           count(bytes, len, '\n'));
    search_text_add(&page, stripped.data, stripped.len);
    check_text(&page);
    search_text_add(text, bytes, len);
    check_text(text);
    assert(count(text->data, text->len, '\n') == count(bytes, len, '\n'));
    (void)search_text_plain(bytes, len);
}

static void check_answer(const char *answer)
{
    size_t marks = 0;

    if (!answer)
        return;
    assert(utf8_valid(answer, strlen(answer)));
    for (const char *p = answer; *p; p++) {
        assert((unsigned char)*p >= ' ');
        if (strncmp(p, OPEN, 3) == 0)
            assert(marks++ == 0);
        if (strncmp(p, CLOSE, 3) == 0)
            assert(marks-- == 1);
    }
    assert(marks == 0);
}

static void ask(sqlite3 *db, const char *match, const struct buf *text)
{
    sqlite3_stmt *put, *get;
    int code;

    assert(sqlite3_prepare_v2(db,
                              "REPLACE INTO words (rowid, path, body)"
                              " VALUES (1, 'some/path.txt', ?1)",
                              -1, &put, NULL) == SQLITE_OK);
    assert(sqlite3_bind_text(put, 1, text->len ? text->data : "", -1,
                             SQLITE_STATIC) == SQLITE_OK);
    assert(sqlite3_step(put) == SQLITE_DONE);
    (void)sqlite3_finalize(put); /* repeats the code of the step */
    assert(sqlite3_prepare_v2(db,
                              "SELECT found_rank(words, 10),"
                              " found_where(words) FROM words"
                              " WHERE words MATCH ?1",
                              -1, &get, NULL) == SQLITE_OK);
    assert(sqlite3_bind_text(get, 1, match, -1, SQLITE_STATIC) == SQLITE_OK);
    while ((code = sqlite3_step(get)) == SQLITE_ROW) {
        assert(sqlite3_column_int(get, 0) >= 0 &&
               sqlite3_column_int(get, 0) <= 1000000);
        check_answer((const char *)sqlite3_column_text(get, 1));
    }
    assert(code == SQLITE_DONE);
    (void)sqlite3_finalize(get); /* repeats the code of the step */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static sqlite3 *db;
    struct search_expr expr cleanup(search_expr_done) = {0};
    struct buf text cleanup(buf_done) = {0};
    char *query cleanup(mem_free) = xstrndup((const char *)data, size);
    size_t len = MIN(strlen(query) + 1, size);
    /* On the heap, so that a sanitizer guards its end. */
    char *bytes cleanup(mem_free) = xmalloc(size - len + 1);
    struct error err;

    if (!db)
        db = open_words();
    memcpy(bytes, data + len, size - len);
    clean(bytes, size - len, &text);
    if (search_expr_parse(query, &expr, &err) == 0)
        ask(db, expr.match.data, &text);
    else
        assert(err.code == ERR_INVALID);
    return 0;
}
