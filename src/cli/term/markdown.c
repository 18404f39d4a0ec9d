/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markdown for a terminal, while it arrives: headings, emphasis, lists,
 * quotes, tables, code and links become colours and layout. Text is wrapped at
 * words. What cannot be decided yet is held back: a word, a link, a line of
 * code, a table. The text comes from a model and is hostile: the terminal
 * filter has removed all control before, and HTML in it stays text. No I/O;
 * called by chat.c.
 */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "cli/common.h"

#define HELD_MAX 4096u /* bytes of a line; more is printed as it is */
#define SPAN_MAX 2048u /* bytes of a link or of code inside a line */
#define ROWS_MAX 500u  /* of a table that is held back */
#define CELLS_MAX 12u  /* of a row */
#define NARROWEST 20u  /* columns; a narrower terminal wraps by itself */
#define FENCE_LEAST 3u

enum {
    BOLD = 1,
    ITALIC = 2,
    CODE = 4,
    LINK = 8,
    HEADING = 16,
    QUOTE = 32
};

static const struct {
    unsigned style;
    const char *on;
} styles[] = {
    {BOLD, "\033[1m"}, {ITALIC, "\033[3m"},     {CODE, "\033[36m"},
    {LINK, "\033[4m"}, {HEADING, "\033[1;34m"}, {QUOTE, "\033[2m"},
};

struct cli_markdown {
    size_t width;
    struct cli_filter filter;
    struct buf held; /* of the current line, not yet shown */
    struct buf word; /* shown when its end is known */
    size_t word_columns;
    size_t column, indent;
    unsigned style; /* of what comes next */
    unsigned shown; /* that the terminal has */
    bool in_line;   /* the kind of the line is known */
    bool in_code;   /* between two fences */
    bool gap;       /* a blank is due before the next word */
    char last;      /* the byte before the held ones */
    char fence;     /* that opened the code */
    size_t fence_len;
    struct buf *rows[ROWS_MAX];
    size_t row_count;
};

struct cli_markdown *cli_markdown_new(size_t width)
{
    struct cli_markdown *m = xcalloc(1, sizeof(*m));

    m->width = width < NARROWEST ? 0 : width;
    m->filter.plain = true;
    m->last = '\n';
    return m;
}

void cli_markdown_free(struct cli_markdown *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->row_count; i++) {
        buf_done(m->rows[i]);
        free(m->rows[i]);
    }
    buf_done(&m->held);
    buf_done(&m->word);
    free(m);
}

/* ---- words and lines ---------------------------------------------------- */

static void add_style(struct buf *out, unsigned style)
{
    buf_adds(out, "\033[0m");
    for (size_t i = 0; i < ARRAY_SIZE(styles); i++)
        if (style & styles[i].style)
            buf_adds(out, styles[i].on);
}

static void add_newline(struct cli_markdown *m, struct buf *out)
{
    if (m->shown) /* colours of a background must not reach the margin */
        add_style(out, 0);
    buf_adds(out, "\n");
    if (m->shown)
        add_style(out, m->shown);
    m->column = 0;
}

/* The word is whole: it goes to this line, or to the next one. */
static void end_word(struct cli_markdown *m, struct buf *out)
{
    if (m->word.len == 0)
        return;
    if (m->width && m->column > m->indent &&
        m->column + m->gap + m->word_columns > m->width) {
        add_newline(m, out);
        buf_addf(out, "%*s", (int)m->indent, "");
        m->column = m->indent;
        m->gap = false;
    }
    if (m->gap) {
        buf_adds(out, " ");
        m->column++;
    }
    buf_add(out, m->word.data, m->word.len);
    m->column += m->word_columns;
    m->gap = false;
    buf_reset(&m->word);
    m->word_columns = 0;
}

static void add_char(struct cli_markdown *m, struct buf *out, const char *c,
                     size_t len)
{
    char text[8] = "";

    if (*c == ' ' || *c == '\t') {
        end_word(m, out);
        m->gap = m->column > m->indent;
        return;
    }
    if (m->style != m->shown) {
        add_style(&m->word, m->style);
        m->shown = m->style;
    }
    memcpy(text, c, MIN(len, sizeof(text) - 1));
    buf_add(&m->word, c, len);
    m->word_columns += cli_table_width(text);
}

static void add_text(struct cli_markdown *m, struct buf *out, const char *text,
                     size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = 1;

        while (i + n < len && ((unsigned char)text[i + n] & 0xc0) == 0x80)
            n++;
        add_char(m, out, text + i, n);
        i += n;
    }
}

static void reset_style(struct cli_markdown *m, struct buf *out)
{
    m->style = 0;
    if (m->shown)
        add_style(out, 0);
    m->shown = 0;
}

/* ---- inside a line ------------------------------------------------------ */

/* Each takes the held text from `at` on and returns how many bytes it used; 0:
 * it cannot tell before more has come. `whole`: nothing more will come. */

static size_t take_code(struct cli_markdown *m, struct buf *out,
                        const char *text, size_t len, bool whole)
{
    size_t ticks = strspn(text, "`");
    unsigned before = m->style;

    if (ticks == len && !whole)
        return 0;
    for (size_t i = ticks; i < len; i++) {
        size_t run = strspn(text + i, "`");

        if (run == ticks && (i + run < len || whole)) {
            m->style |= CODE;
            add_text(m, out, text + ticks, i - ticks);
            m->style = before;
            return i + run;
        }
        i += run;
    }
    if (!whole && len < SPAN_MAX)
        return 0;
    add_text(m, out, text, ticks);
    return ticks;
}

static size_t take_emphasis(struct cli_markdown *m, struct buf *out,
                            const char *text, size_t len, bool whole)
{
    size_t run = strspn(text, *text == '*' ? "*" : "_");
    unsigned style = run >= 3 ? BOLD | ITALIC : run == 2 ? BOLD : ITALIC;
    unsigned char before = (unsigned char)m->last;
    unsigned char after = run < len ? (unsigned char)text[run] : '\n';
    bool opens = !isspace(after) && (isspace(before) || ispunct(before));
    bool closes = !isspace(before) && (m->style & style) == style;

    if (run == len && !whole)
        return 0;
    if (*text == '*' && !isspace(after))
        opens = true;
    if (*text == '_' && isalnum(before) && isalnum(after))
        opens = closes = false;
    if (closes)
        m->style &= ~style;
    else if (opens && run <= 3)
        m->style |= style;
    else
        add_text(m, out, text, run);
    return run;
}

/* [text](target): a file of the session or the same address again needs no
 * target; any other is shown, so that no text hides where a link leads. */
static size_t take_link(struct cli_markdown *m, struct buf *out,
                        const char *text, size_t len, bool whole)
{
    size_t mark = *text == '!' ? 2 : 1;
    const char *close =
        len > mark ? memchr(text + mark, ']', len - mark) : NULL;
    const char *end = NULL, *target;
    bool more = !whole && len < SPAN_MAX; /* the rest of it may come */
    unsigned before = m->style;
    size_t target_len;

    if (close && close + 1 < text + len) {
        more = more && close[1] == '(';
        if (close[1] == '(')
            end = memchr(close, ')', len - (size_t)(close - text));
    }
    if (!end && more)
        return 0;
    if (!end) {
        add_text(m, out, text, 1);
        return 1;
    }
    target = close + 2;
    target_len = (size_t)(end - target);
    m->style |= LINK;
    if (mark == 2)
        add_text(m, out, "image: ", 7);
    add_text(m, out, text + mark, (size_t)(close - text) - mark);
    m->style = before;
    if (strncmp(target, "sandbox:", 8) != 0 &&
        strncmp(target, "/mnt/data/", 10) != 0 &&
        (target_len != (size_t)(close - text) - mark ||
         strncmp(text + mark, target, target_len) != 0)) {
        add_text(m, out, " (", 2);
        add_text(m, out, target, target_len);
        add_text(m, out, ")", 1);
    }
    return (size_t)(end - text) + 1;
}

static size_t take_inline(struct cli_markdown *m, struct buf *out,
                          const char *text, size_t len, bool whole)
{
    size_t used;

    switch (*text) {
    case '`':
        return take_code(m, out, text, len, whole);
    case '*':
    case '_':
        return take_emphasis(m, out, text, len, whole);
    case '[':
        return take_link(m, out, text, len, whole);
    case '!':
        if (len == 1 && !whole)
            return 0;
        if (len == 1 || text[1] != '[') {
            add_text(m, out, text, 1);
            return 1;
        }
        return take_link(m, out, text, len, whole);
    case '\\':
        if (len == 1 && !whole)
            return 0;
        if (len > 1 && ispunct((unsigned char)text[1])) {
            add_text(m, out, text + 1, 1);
            return 2;
        }
        add_text(m, out, text, 1);
        return 1;
    default: /* up to the next mark, and whole characters only */
        used = strcspn(text, "`*_[!\\");
        used = MIN(used, len);
        if (used == len && !whole)
            while (used > 0 && (unsigned char)text[used - 1] >= 0x80)
                used--; /* perhaps cut inside a character */
        if (used > 0)
            add_text(m, out, text, used);
        return used;
    }
}

/* Shows what can be shown of the held part of a line. */
static void show_inline(struct cli_markdown *m, struct buf *out, bool whole)
{
    size_t at = 0;

    while (at < m->held.len) {
        size_t used =
            take_inline(m, out, m->held.data + at, m->held.len - at, whole);

        if (used == 0)
            break;
        at += used;
        m->last = m->held.data[at - 1];
    }
    buf_consume(&m->held, at);
}

/* ---- tables ------------------------------------------------------------- */

/* Cells of "| a | b |"; marks of emphasis and code go. */
static size_t split_row(char *line, const char *cells[CELLS_MAX])
{
    size_t count = 0;
    char *p = line + strspn(line, " ");

    p += *p == '|';
    while (count < CELLS_MAX && p[strspn(p, " ")]) {
        char *start = p + strspn(p, " "), *to = start, *end;

        for (p = start; *p && *p != '|'; p++) {
            if (*p == '\\' && p[1] == '|')
                p++;
            else if (*p == '`' || (*p == '*' && (p[1] == '*' || p[-1] == '*')))
                continue;
            *to++ = *p;
        }
        end = to;
        p += *p == '|';
        *end = '\0';
        while (end > start && end[-1] == ' ')
            *--end = '\0';
        cells[count++] = start;
    }
    return count;
}

static bool is_rule_row(const char *line)
{
    return strchr(line, '-') && line[strspn(line, "|-: \t")] == '\0';
}

static void show_table(struct cli_markdown *m, struct buf *out)
{
    struct cli_table *table cleanup(cli_table_free) = NULL;
    struct buf text cleanup(buf_done) = {0};
    bool may_cut[CELLS_MAX];
    size_t columns = 0, headings;

    for (size_t i = 0; i < CELLS_MAX; i++)
        may_cut[i] = true;
    for (size_t i = 0; i < m->row_count; i++) {
        const char *cells[CELLS_MAX] = {NULL};
        size_t count;

        if (is_rule_row(m->rows[i]->data))
            continue;
        count = split_row(m->rows[i]->data, cells);
        if (!table) {
            columns = MAX(count, 1);
            table = cli_table_new(cells, columns);
        } else {
            cli_table_row(table, cells);
        }
    }
    if (table) {
        if (m->width)
            cli_table_fit(table, m->width, may_cut);
        cli_table_print(table, &text);
        headings = strcspn(text.data, "\n");
        buf_addf(out, "\033[1m%.*s\033[0m%s", (int)headings, text.data,
                 text.data + headings);
    }
    for (size_t i = 0; i < m->row_count; i++) {
        buf_done(m->rows[i]);
        free(m->rows[i]);
    }
    m->row_count = 0;
    m->column = 0;
}

/* ---- lines -------------------------------------------------------------- */

static bool is_rule(const char *line)
{
    const char *c = line + strspn(line, " ");
    char chars[] = {*c, ' ', '\0'};

    return *c && strchr("-*_", *c) && strlen(c) >= 3 &&
           c[strspn(c, chars)] == '\0';
}

static void show_code_line(struct cli_markdown *m, struct buf *out)
{
    const char *line = m->held.data ? m->held.data : "";
    size_t blanks = strspn(line, " ");
    size_t ticks = strspn(line + blanks, m->fence == '`' ? "`" : "~");

    if (ticks >= m->fence_len &&
        line[blanks + ticks + strspn(line + blanks + ticks, " ")] == '\0') {
        m->in_code = false;
        return;
    }
    buf_addf(out, "    \033[36m%s\033[0m\n", line);
}

/* The length of a list's mark ("- ", "12. ") after its blanks; 0: none, or not
 * known yet. */
static size_t list_mark(const char *line)
{
    size_t digits = strspn(line, "0123456789");

    if (strchr("-*+", *line) && *line && line[1] == ' ')
        return 2;
    if (digits > 0 && digits < 10 && strchr(".)", line[digits]) &&
        line[digits] && line[digits + 1] == ' ')
        return digits + 2;
    return 0;
}

/* Does the kind of the line depend on what follows? */
static bool may_be_more(const char *line, const char *text)
{
    size_t digits = strspn(text, "0123456789");

    if (!*text || *text == '|' || *text == '#' || is_rule(line) ||
        strncmp(text, "```", FENCE_LEAST) == 0 ||
        strncmp(text, "~~~", FENCE_LEAST) == 0)
        return true; /* until its end */
    if (digits > 0)
        return strlen(text) < digits + 2;
    return strchr(">-*+_~`", *text) && strlen(text) < FENCE_LEAST + 1;
}

/* Begins a line whose kind is known: indentation, bullet, style. Returns false
 * while it is not known. */
static bool begin_line(struct cli_markdown *m, struct buf *out, bool whole)
{
    const char *line = m->held.data ? m->held.data : "";
    size_t blanks = strspn(line, " "), mark, hashes;
    const char *text = line + blanks;

    if (!whole && may_be_more(line, text))
        return m->held.len > HELD_MAX;
    hashes = strspn(text, "#");
    if (*text == '>') {
        m->style = QUOTE;
        buf_adds(out, "\033[2m\u2502\033[0m ");
        m->indent = m->column = 2;
        buf_consume(&m->held, blanks + 1 + (text[1] == ' '));
    } else if (hashes > 0 && hashes < 7 && text[hashes] == ' ') {
        m->style = HEADING;
        buf_consume(&m->held, blanks + hashes + 1);
    } else if ((mark = list_mark(text)) > 0) {
        m->indent = MIN(blanks, 12) + mark + 1;
        if (mark == 2)
            buf_addf(out, "%*s\u2022 ", (int)(m->indent - 2), "");
        else
            buf_addf(out, "%*.*s", (int)m->indent, (int)mark, text);
        m->column = m->indent;
        buf_consume(&m->held, blanks + mark);
    } else {
        buf_consume(&m->held, blanks);
    }
    m->last = ' ';
    m->in_line = true;
    return true;
}

static bool holds_table_row(const struct cli_markdown *m)
{
    return !m->in_line && m->held.len > 0 &&
           m->held.data[strspn(m->held.data, " ")] == '|';
}

/* A line has ended; `held` is what of it was not shown. */
static void end_line(struct cli_markdown *m, struct buf *out)
{
    const char *line = m->held.data ? m->held.data : "";
    const char *text = line + strspn(line, " ");

    if (m->in_code) {
        show_code_line(m, out);
    } else if (holds_table_row(m) && m->row_count < ROWS_MAX) {
        struct buf *row = xcalloc(1, sizeof(*row));

        buf_adds(row, line);
        m->rows[m->row_count++] = row;
    } else if (!m->in_line && (strncmp(text, "```", FENCE_LEAST) == 0 ||
                               strncmp(text, "~~~", FENCE_LEAST) == 0)) {
        m->in_code = true;
        m->fence = *text;
        m->fence_len = strspn(text, *text == '`' ? "`" : "~");
    } else if (!m->in_line && is_rule(line)) {
        for (size_t i = 0; i < MIN(m->width ? m->width : 40, 40); i++)
            buf_adds(out, "\u2500");
        buf_adds(out, "\n");
    } else if (!m->in_line && !*text) {
        reset_style(m, out);
        buf_adds(out, "\n");
    } else {
        if (!m->in_line)
            (void)begin_line(m, out, true);
        show_inline(m, out, true);
        end_word(m, out);
        if (m->style & (HEADING | QUOTE))
            reset_style(m, out);
        add_newline(m, out);
    }
    buf_reset(&m->held);
    m->in_line = m->gap = false;
    m->indent = m->column = 0;
    m->last = '\n';
}

void cli_markdown_feed(struct cli_markdown *m, const char *text, size_t len,
                       struct buf *out)
{
    struct buf safe cleanup(buf_done) = {0};
    const char *p, *end;

    cli_filter_feed(&m->filter, text, len, &safe);
    for (p = safe.data, end = p + safe.len; p && p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);

        for (size_t i = 0; i < n; i++) /* what moves the cursor back */
            if (p[i] != '\r' && p[i] != '\b')
                buf_add(&m->held, p + i, 1);
        p += n;
        if (m->row_count && m->held.len + (stop != NULL) > 0 &&
            !holds_table_row(m) &&
            (stop || m->held.data[strspn(m->held.data, " ")]))
            show_table(m, out);
        if (stop) {
            end_line(m, out);
            p++;
        } else if (!m->in_code && (m->in_line || begin_line(m, out, false))) {
            show_inline(m, out, m->held.len > HELD_MAX);
        }
    }
}

void cli_markdown_finish(struct cli_markdown *m, struct buf *out)
{
    if (m->row_count && !holds_table_row(m))
        show_table(m, out);
    if (m->held.len || m->word.len || m->in_line)
        end_line(m, out);
    if (m->row_count)
        show_table(m, out);
    m->in_code = false;
    reset_style(m, out);
}
