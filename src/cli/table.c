/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned columns. Cells come from the service and, behind it, from sessions:
 * control characters are shown as '?', so that no name can move a cursor.
 */
#include <string.h>
#include <wchar.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define COLUMNS_MAX 12
#define GAP 2

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
