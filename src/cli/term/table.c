/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables, and objects and lists of the API for people; with --json as the
 * service answered them. Cells come from the service and, behind it, from
 * sessions: control characters are shown as '?', so that no name can move a
 * cursor; other text passes the terminal filter.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <yaml.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/common.h"

#define COLUMNS_MAX 12
#define GAP 2
#define CUT_LEAST 8u /* no column is cut to less */
#define SHORT_ID 8u  /* digits of an id in a table */
#define WIDTH_MAX 500u

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

size_t cli_table_width(const char *text)
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

/* Cuts a cell to so many columns, with an ellipsis at its end. */
static void cut_cell(char **cell, size_t columns)
{
    struct buf out cleanup(buf_done) = {0};
    mbstate_t state = {0};
    const char *text = *cell;
    size_t have = 0;

    if (cli_table_width(text) <= columns)
        return;
    while (*text) {
        wchar_t wide;
        size_t n = mbrtowc(&wide, text, strlen(text), &state);
        int each = n > 0 && n < (size_t)-2 ? wcwidth(wide) : 1;

        n = n > 0 && n < (size_t)-2 ? n : 1;
        if (have + (size_t)MAX(each, 0) + 1 > columns)
            break;
        have += (size_t)MAX(each, 0);
        buf_add(&out, text, n);
        text += n;
    }
    buf_adds(&out, MB_CUR_MAX > 1 ? "\u2026" : ".");
    free(*cell);
    *cell = buf_take(&out, NULL);
}

static void measure(const struct cli_table *t, size_t widest[COLUMNS_MAX])
{
    memset(widest, 0, COLUMNS_MAX * sizeof(*widest));
    for (size_t i = 0; i < t->rows * t->columns; i++)
        widest[i % t->columns] =
            MAX(widest[i % t->columns], cli_table_width(t->cells[i]));
}

void cli_table_fit(struct cli_table *t, size_t columns, const bool *may_cut)
{
    size_t widest[COLUMNS_MAX], total = 0;

    measure(t, widest);
    for (size_t i = 0; i < t->columns; i++)
        total += widest[i] + (i ? GAP : 0);
    while (total > columns) { /* the widest loses a column each time */
        size_t most = t->columns;

        for (size_t i = 0; i < t->columns; i++)
            if (may_cut[i] && widest[i] > CUT_LEAST &&
                (most == t->columns || widest[i] > widest[most]))
                most = i;
        if (most == t->columns)
            break;
        widest[most]--;
        total--;
    }
    for (size_t i = t->columns; i < t->rows * t->columns; i++)
        if (may_cut[i % t->columns])
            cut_cell(&t->cells[i], widest[i % t->columns]);
}

void cli_table_print(const struct cli_table *t, struct buf *out)
{
    size_t widest[COLUMNS_MAX];

    measure(t, widest);
    for (size_t row = 0; row < t->rows; row++) {
        size_t owed = 0;

        for (size_t col = 0; col < t->columns; col++) {
            const char *cell = t->cells[row * t->columns + col];

            if (*cell) {
                buf_addf(out, "%*s%s", (int)owed, "", cell);
                owed = 0;
            }
            owed += widest[col] - cli_table_width(cell) + GAP;
        }
        buf_adds(out, "\n");
    }
}

/* ---- objects and lists -------------------------------------------------- */

size_t cli_table_terminal(void)
{
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    uint64_t count;

    if (columns && cli_values_count(columns, &count) == 0 && count > 0)
        return MIN(count, WIDTH_MAX);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

/* "sess_0123456789ab…" as "sess_01234567": the beginning of an
 * id of these kinds is accepted wherever the id is. */
static void add_short_id(const char *id, struct buf *out)
{
    static const char *const kinds[] = {"sess", "ws", "key", "apr", "tok"};
    size_t front = strcspn(id, "_");
    bool known = false;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        known |= strlen(kinds[i]) == front && !memcmp(id, kinds[i], front);
    if (known && strlen(id) > front + 1 + SHORT_ID)
        buf_add(out, id, front + 1 + SHORT_ID);
    else
        buf_adds(out, id);
}

/* One cell; room: for what is not a text of the row; brief: for a person at a
 * terminal. */
static const char *show_cell(const json_t *row,
                             const struct cli_column *column, bool brief,
                             struct buf *room)
{
    const json_t *value = json_object_get(row, column->member);
    const char *text = json_string_value(value);
    char size[24];
    int64_t at;

    buf_adds(room, "");
    if (column->cell) {
        column->cell(row, room);
        return room->data;
    }
    if (!value || json_is_null(value) || json_is_false(value))
        return column->missing ? column->missing : "";
    if (column->kind == CLI_COLUMN_BOOL || json_is_true(value))
        return column->yes ? column->yes : "yes";
    if (brief && text && column->kind == CLI_COLUMN_ID)
        add_short_id(text, room);
    else if (brief && text && column->kind == CLI_COLUMN_TIME &&
             cli_values_time(text, 0, &at) == 0)
        buf_adds(room, cli_format_ago(at, clock_real_ms(), size));
    if (room->len)
        return room->data;
    if (column->kind == CLI_COLUMN_SIZE)
        buf_adds(room,
                 size_format(cli_json_number(row, column->member), size));
    else if (json_is_integer(value))
        buf_addf(room, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *one = json_string_value(json_array_get(value, i));

        buf_addf(room, "%s%s", i ? "," : "", one ? one : "");
    }
    return text ? text : room->data;
}

void cli_show_list(const struct cli *c, const json_t *rows,
                   const struct cli_column *columns)
{
    struct cli_table *table cleanup(cli_table_free) = NULL;
    struct buf text cleanup(buf_done) = {0};
    const struct cli_column *shown[COLUMNS_MAX];
    const char *cells[COLUMNS_MAX];
    bool brief = c->tty_out && !c->wide, may_cut[COLUMNS_MAX];
    size_t count = 0;

    if (c->json) {
        cli_print_json(c, rows);
        return;
    }
    for (const struct cli_column *k = columns;
         count < COLUMNS_MAX && k->heading; k++) {
        if (k->wide && brief)
            continue;
        may_cut[count] =
            k->kind == CLI_COLUMN_TEXT || k->kind == CLI_COLUMN_LIST;
        cells[count] = k->heading;
        shown[count++] = k;
    }
    table = cli_table_new(cells, count);
    for (size_t row = 0; row < json_array_size(rows); row++) {
        struct buf room[COLUMNS_MAX] = {{0}};

        for (size_t i = 0; i < count; i++)
            cells[i] = show_cell(json_array_get(rows, row), shown[i], brief,
                                 &room[i]);
        cli_table_row(table, cells);
        for (size_t i = 0; i < count; i++)
            buf_done(&room[i]);
    }
    if (brief)
        cli_table_fit(table, cli_table_terminal(), may_cut);
    cli_table_print(table, &text);
    (void)fputs(text.data, stdout);
}

/* ---- YAML ----------------------------------------------------------------
 */

/* A word that YAML reads as text without quotes. */
static bool is_plain_yaml(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};

    if (!isalpha((unsigned char)*text))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcasecmp(text, words[i]) == 0)
            return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("_-./", *text))
            return false;
    return true;
}

static int emit_scalar(yaml_emitter_t *e, const char *text, bool is_text)
{
    bool plain = !is_text || is_plain_yaml(text);
    yaml_event_t event;

    return yaml_scalar_event_initialize(
               &event, NULL, NULL, (const yaml_char_t *)text,
               (int)strlen(text), plain, !plain,
               plain ? YAML_PLAIN_SCALAR_STYLE
                     : YAML_DOUBLE_QUOTED_SCALAR_STYLE) &&
           yaml_emitter_emit(e, &event);
}

static int emit_value(yaml_emitter_t *e, const json_t *value)
{
    yaml_event_t event;
    const char *name;
    json_t *member;
    size_t i;

    if (json_is_object(value)) {
        if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1,
                                                 YAML_BLOCK_MAPPING_STYLE) ||
            !yaml_emitter_emit(e, &event))
            return 0;
        json_object_foreach ((json_t *)value, name, member)
            if (!emit_scalar(e, name, true) || !emit_value(e, member))
                return 0;
        return yaml_mapping_end_event_initialize(&event) &&
               yaml_emitter_emit(e, &event);
    }
    if (json_is_array(value)) {
        if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                  YAML_BLOCK_SEQUENCE_STYLE) ||
            !yaml_emitter_emit(e, &event))
            return 0;
        json_array_foreach (value, i, member)
            if (!emit_value(e, member))
                return 0;
        return yaml_sequence_end_event_initialize(&event) &&
               yaml_emitter_emit(e, &event);
    }
    if (!json_is_string(value)) {
        char *text cleanup(mem_free) = json_dumps(value, JSON_ENCODE_ANY);

        return emit_scalar(e, text ? text : "null", false);
    }
    return emit_scalar(e, json_string_value(value), true);
}

void cli_show_yaml(const json_t *value)
{
    yaml_emitter_t e;
    yaml_event_t event;

    if (!yaml_emitter_initialize(&e))
        return;
    yaml_emitter_set_output_file(&e, stdout);
    yaml_emitter_set_unicode(&e, 1);
    yaml_emitter_set_width(&e, -1);
    /* An allocation that fails leaves a document that ends early. */
    (void)(yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
           yaml_emitter_emit(&e, &event) &&
           yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
           yaml_emitter_emit(&e, &event) && emit_value(&e, value) &&
           yaml_document_end_event_initialize(&event, 1) &&
           yaml_emitter_emit(&e, &event) &&
           yaml_stream_end_event_initialize(&event) &&
           yaml_emitter_emit(&e, &event));
    yaml_emitter_delete(&e);
}

/* ---- objects --------------------------------------------------------------
 */

void cli_show_object(const struct cli *c, const json_t *object)
{
    static const char *const headings[] = {"", ""};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, 2);
    struct buf text cleanup(buf_done) = {0};
    void *at = json_object_iter((json_t *)object);

    if (c->json) {
        cli_print_json(c, object);
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
        cli_print_json(c, object);
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

/* ---- progress ----------------------------------------------------------- */

/*
 * A bar on standard error while something takes long: bytes that move, or
 * things that are counted. Only on a terminal, and wiped when done.
 */

#define LEAST_BYTES (1u << 20)
#define REDRAW_MS 100
#define BAR 24

void cli_progress_start(struct cli_progress *p, const struct cli *c,
                        const char *label, uint64_t total)
{
    *p = (struct cli_progress){
        .on = label && c->tty_err && !c->json && total > LEAST_BYTES,
        .label = label,
        .total = total,
        .start_ms = clock_mono_ms(),
    };
}

void cli_progress_count(struct cli_progress *p, const struct cli *c,
                        const char *label, uint64_t total)
{
    *p = (struct cli_progress){
        .on = label && c->tty_err && !c->json,
        .counts = true,
        .label = label,
        .total = total,
        .start_ms = clock_mono_ms(),
    };
}

void cli_progress_step(struct cli_progress *p, uint64_t done)
{
    uint64_t now = clock_mono_ms(), spent;
    char have[16], all[16], speed[16];

    if (!p->on || now - p->last_ms < REDRAW_MS)
        return;
    p->last_ms = now;
    if (p->total && done > p->total)
        done = p->total;
    (void)fprintf(stderr, "\r\033[K%.30s", p->label);
    if (p->total) {
        size_t filled = (size_t)((double)done / (double)p->total * BAR);
        char bar[BAR + 1];

        memset(bar, '.', BAR);
        memset(bar, '#', filled);
        bar[BAR] = '\0';
        (void)fprintf(stderr, " [%s]", bar);
    }
    spent = now - p->start_ms;
    if (p->counts && p->total)
        (void)fprintf(stderr, " %llu of %llu", (unsigned long long)done,
                      (unsigned long long)p->total);
    else if (p->counts)
        (void)fprintf(stderr, " %llu", (unsigned long long)done);
    else
        (void)fprintf(stderr, " %s of %s, %s/s", size_format(done, have),
                      size_format(p->total, all),
                      size_format(spent ? done * 1000 / spent : 0, speed));
    (void)fflush(stderr);
    p->drawn = true;
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->drawn)
        (void)fputs("\r\033[K", stderr);
    p->on = p->drawn = false;
}
