/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables, and objects and lists of the API for people; with --json as the
 * service answered them. Cells come from the service and, behind it, from
 * sessions: control characters are shown as '?', so that no name can move a
 * cursor; other text passes the terminal filter.
 */
#include <stdarg.h>
#include <string.h>
#include <wchar.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define COLUMNS_MAX 12
#define GAP 2

/* ---- tables ------------------------------------------------------------- */

struct cli_table {
    size_t columns, rows, room;
    char **cells; /* rows * columns; the first row holds the headings */
};

struct cli_table *cli_table_new(const char *const *headings, size_t columns)
{
    struct cli_table *t = xcalloc(1, sizeof(*t));

    t->columns = MIN(columns, (size_t)COLUMNS_MAX);
    cli_table_row(t, headings);
    return t;
}

void cli_table_free(struct cli_table **t)
{
    if (!*t)
        return;
    for (size_t i = 0; i < (*t)->rows * (*t)->columns; i++)
        free((*t)->cells[i]);
    free((*t)->cells);
    free(take_ptr(*t));
}

static char *printable_copy(const char *text)
{
    char *copy = xstrdup(text ? text : "");

    for (unsigned char *p = (unsigned char *)copy; *p; p++) {
        bool c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;

        if (*p < 0x20 || *p == 0x7f || c1)
            *p = '?';
        if (c1)
            *++p = '?';
    }
    return copy;
}

void cli_table_row(struct cli_table *t, const char *const *cells)
{
    if (t->rows == t->room) {
        t->room = t->room ? t->room * 2 : 16;
        t->cells =
            xrealloc(t->cells, t->room * t->columns * sizeof(*t->cells));
    }
    for (size_t i = 0; i < t->columns; i++)
        t->cells[t->rows * t->columns + i] = printable_copy(cells[i]);
    t->rows++;
}

/* Columns a terminal gives it; bytes where the locale cannot tell. */
static size_t width(const char *text)
{
    mbstate_t state = {0};
    size_t total = 0, left = strlen(text);

    while (left > 0) {
        wchar_t wide;
        size_t n = mbrtowc(&wide, text, left, &state);
        int columns;

        if (n == 0 || n == (size_t)-1 || n == (size_t)-2)
            return total + left;
        columns = wcwidth(wide);
        total += columns > 0 ? (size_t)columns : 0;
        text += n;
        left -= n;
    }
    return total;
}

void cli_table_print(const struct cli_table *t, struct buf *out)
{
    size_t widest[COLUMNS_MAX] = {0};

    for (size_t i = 0; i < t->rows * t->columns; i++)
        widest[i % t->columns] =
            MAX(widest[i % t->columns], width(t->cells[i]));
    for (size_t row = 0; row < t->rows; row++) {
        size_t owed = 0;

        for (size_t col = 0; col < t->columns; col++) {
            const char *cell = t->cells[row * t->columns + col];

            if (*cell) {
                buf_addf(out, "%*s%s", (int)owed, "", cell);
                owed = 0;
            }
            owed += widest[col] - width(cell) + GAP;
        }
        buf_adds(out, "\n");
    }
}

/* ---- objects and lists -------------------------------------------------- */

/* One cell; room: for what is not a text of the row. */
static const char *show_cell(const json_t *row,
                             const struct cli_column *column, struct buf *room)
{
    const json_t *value = json_object_get(row, column->member);
    char size[16];

    buf_adds(room, "");
    if (column->cell) {
        column->cell(row, room);
        return room->data;
    }
    if (!value || json_is_null(value) || json_is_false(value))
        return column->missing ? column->missing : "";
    if (column->kind == CLI_COLUMN_BOOL || json_is_true(value))
        return column->yes ? column->yes : "yes";
    if (column->kind == CLI_COLUMN_SIZE)
        buf_adds(room,
                 cli_format_size(cli_json_number(row, column->member), size));
    else if (json_is_integer(value))
        buf_addf(room, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *one = json_string_value(json_array_get(value, i));

        buf_addf(room, "%s%s", i ? "," : "", one ? one : "");
    }
    return json_is_string(value) ? json_string_value(value) : room->data;
}

void cli_show_list(const struct cli *c, const json_t *rows,
                   const struct cli_column *columns)
{
    struct cli_table *table cleanup(cli_table_free) = NULL;
    struct buf text cleanup(buf_done) = {0};
    const char *cells[COLUMNS_MAX];
    size_t count = 0;

    if (c->json) {
        cli_print_json(rows);
        return;
    }
    for (; count < COLUMNS_MAX && columns[count].heading; count++)
        cells[count] = columns[count].heading;
    table = cli_table_new(cells, count);
    for (size_t row = 0; row < json_array_size(rows); row++) {
        struct buf room[COLUMNS_MAX] = {{0}};

        for (size_t i = 0; i < count; i++)
            cells[i] =
                show_cell(json_array_get(rows, row), &columns[i], &room[i]);
        cli_table_row(table, cells);
        for (size_t i = 0; i < count; i++)
            buf_done(&room[i]);
    }
    cli_table_print(table, &text);
    (void)fputs(text.data, stdout);
}

void cli_show_object(const struct cli *c, const json_t *object)
{
    static const char *const headings[] = {"", ""};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, 2);
    struct buf text cleanup(buf_done) = {0};
    void *at = json_object_iter((json_t *)object);

    if (c->json) {
        cli_print_json(object);
        return;
    }
    for (; at; at = json_object_iter_next((json_t *)object, at)) {
        const json_t *value = json_object_iter_value(at);
        char *dumped cleanup(mem_free) = NULL;
        const char *cells[2] = {json_object_iter_key(at),
                                json_string_value(value)};

        if (!cells[1])
            cells[1] = dumped =
                json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (!json_is_null(value) && cells[1] && *cells[1])
            cli_table_row(table, cells);
    }
    cli_table_print(table, &text);
    (void)fputs(text.data + 1, stdout); /* past the empty headings */
}

void cli_show_done(const struct cli *c, const json_t *object, const char *fmt,
                   ...)
{
    struct buf safe cleanup(buf_done) = {0};
    struct cli_filter filter = {.plain = true};
    char text[1024];
    va_list ap;

    if (c->json) {
        cli_print_json(object);
        return;
    }
    if (!c->tty_out)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    cli_filter_feed(&filter, text, strlen(text), &safe);
    (void)printf("%s\n", safe.data ? safe.data : "");
}

void cli_show_text(const struct cli *c, const char *text, size_t len)
{
    struct buf safe cleanup(buf_done) = {0};
    struct cli_filter filter = {.plain = !c->color_out};

    if (c->tty_out) {
        cli_filter_feed(&filter, text, len, &safe);
        text = safe.data;
        len = safe.len;
    }
    if (len)
        (void)fwrite(text, 1, len, stdout);
}
