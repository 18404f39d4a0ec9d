/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a person at the prompt finished, or does the input go on? Heuristics
 * on the text alone, for Python and for shell; when in doubt it is complete
 * and the interpreter says what is wrong. No I/O; called by shell.c.
 */
#include <ctype.h>
#include <string.h>

#include "cli/common.h"

/* ---- Python ------------------------------------------------------------- */

struct python_scan {
    int depth;         /* open brackets */
    const char *quote; /* end of the triple-quoted string we are in */
    bool block;        /* some logical line ended in a colon */
    bool backslash;    /* the last line ends in one */
    bool last_blank;   /* the last line holds nothing */
    bool decorated;    /* the last logical line is a decorator */
};

/* Past a string that starts at p; sets quote when it is an open triple. */
static const char *skip_string(struct python_scan *s, const char *p)
{
    char q = *p;

    if (p[1] == q && p[2] == q) {
        s->quote = q == '"' ? "\"\"\"" : "'''";
        return p + 3;
    }
    for (p++; *p && *p != q && *p != '\n'; p++)
        if (*p == '\\' && p[1] && p[1] != '\n')
            p++;
    return *p == q ? p + 1 : p;
}

/* Past the rest of an open triple-quoted string; NULL when it does not end. */
static const char *skip_triple(struct python_scan *s, const char *p)
{
    for (; *p; p++) {
        if (*p == '\\' && p[1]) {
            p++;
        } else if (strncmp(p, s->quote, 3) == 0) {
            s->quote = NULL;
            return p + 3;
        }
    }
    return NULL;
}

static const char *skip_comment(const char *p)
{
    return p + strcspn(p, "\n");
}

/* Magics and !shell lines are not Python: quotes in them mean nothing. */
static bool is_escape_line(const char *line)
{
    line += strspn(line, " \t");
    return *line == '%' || *line == '!';
}

static void scan_python(struct python_scan *s, const char *p)
{
    bool line_start = true;
    char last = '\0', first = '\0';

    while (*p) {
        if (line_start) {
            line_start = false;
            s->last_blank = p[strspn(p, " \t")] == '\0';
            s->backslash = false;
            if (s->depth == 0)
                first = last = '\0';
            if (s->depth == 0 && is_escape_line(p)) {
                p += strcspn(p, "\n");
                continue;
            }
        }
        if (*p == '\n') {
            if (s->depth == 0 && last == ':')
                s->block = true;
            line_start = true;
            s->last_blank = true; /* unless something follows */
            p++;
        } else if (*p == '#') {
            p = skip_comment(p);
        } else if (*p == '"' || *p == '\'') {
            last = 'x';
            p = skip_string(s, p);
            if (s->quote && !(p = skip_triple(s, p)))
                return;
        } else if (*p == '\\' && p[1] == '\n') {
            s->backslash = p[2] == '\0';
            p += 2;
        } else {
            if (*p == '(' || *p == '[' || *p == '{')
                s->depth++;
            else if ((*p == ')' || *p == ']' || *p == '}') && s->depth > 0)
                s->depth--;
            if (!isspace((unsigned char)*p)) {
                last = *p;
                if (!first)
                    first = *p;
            }
            s->backslash = *p == '\\' && p[1] == '\0';
            p++;
        }
    }
    if (s->depth == 0 && last == ':')
        s->block = true;
    s->decorated = first == '@';
}

bool cli_statement_python_wants_more(const char *text)
{
    struct python_scan s = {.last_blank = true};
    const char *last = strrchr(text, '\n');

    /* A cell magic makes the rest something else; it ends as a block does. */
    if (strncmp(text, "%%", 2) == 0)
        return !last || last[1 + strspn(last + 1, " \t")] != '\0';
    scan_python(&s, text);
    if (s.quote || s.depth > 0 || s.backslash)
        return true;
    return (s.block || s.decorated) && !s.last_blank;
}

/* ---- shell -------------------------------------------------------------- */

struct shell_scan {
    int depth;  /* open if, do, case, { */
    int parens; /* apart, because a case pattern closes one it never opened */
    bool quoted;
    bool joined; /* ends in a pipe, && or || or a backslash */
    char heredoc[64];
};

static const char *const openers[] = {"if", "do", "case", "{"};
static const char *const closers[] = {"fi", "done", "esac", "}"};

static bool is_one_of(const char *word, size_t len, const char *const *list)
{
    for (size_t i = 0; i < 4; i++)
        if (strlen(list[i]) == len && memcmp(list[i], word, len) == 0)
            return true;
    return false;
}

/* Past a quoted string; NULL when it does not end. */
static const char *skip_quoted(const char *p)
{
    char q = *p++;

    for (; *p && *p != q; p++)
        if (*p == '\\' && q == '"' && p[1])
            p++;
    return *p ? p + 1 : NULL;
}

/* At "<<": remembers the word that ends it. */
static const char *begin_heredoc(struct shell_scan *s, const char *p)
{
    size_t n = 0;

    p += 2;
    p += strspn(p, "- \t");
    while (*p && !strchr(" \t\n;|&<>()", *p)) {
        if (!strchr("'\"\\", *p) && n + 1 < sizeof(s->heredoc))
            s->heredoc[n++] = *p;
        p++;
    }
    s->heredoc[n] = '\0';
    return p;
}

/* At the start of a line inside a here-document: past its end, or NULL. */
static const char *skip_heredoc(struct shell_scan *s, const char *p)
{
    size_t want = strlen(s->heredoc);

    while (*p) {
        const char *line = p + strspn(p, "\t");
        size_t len = strcspn(line, "\n");

        p = line + len + (line[len] == '\n');
        if (len == want && memcmp(line, s->heredoc, len) == 0) {
            s->heredoc[0] = '\0';
            return p;
        }
    }
    return NULL;
}

static const char *scan_word(struct shell_scan *s, const char *p,
                             bool *command)
{
    size_t len = strcspn(p, " \t\n;|&<>()'\"\\");

    if (len == 0) {
        *command = false;
        return p + 1;
    }
    if (*command && is_one_of(p, len, openers))
        s->depth++;
    else if (*command && is_one_of(p, len, closers) && s->depth > 0)
        s->depth--;
    else
        *command =
            len == 4 && (!memcmp(p, "then", 4) || !memcmp(p, "else", 4));
    return p + len;
}

static void scan_shell(struct shell_scan *s, const char *p)
{
    bool command = true; /* the next word is where a keyword may stand */

    while (p && *p) {
        bool joins = *p == '|' || (*p == '&' && p[1] == '&');

        if (*p == '\n') {
            p++;
            command = true;
            if (s->heredoc[0])
                p = skip_heredoc(s, p);
        } else if (isspace((unsigned char)*p)) {
            p++;
        } else if (*p == '#') {
            p += strcspn(p, "\n");
        } else if (*p == '\'' || *p == '"') {
            s->joined = command = false;
            p = skip_quoted(p);
            s->quoted = !p;
        } else if (*p == '\\') {
            s->joined = p[1] == '\0' || (p[1] == '\n' && p[2] == '\0');
            p += p[1] ? 2 : 1;
        } else if (*p == '<' && p[1] == '<' && p[2] != '<') {
            p = begin_heredoc(s, p);
        } else if (*p == '<' && p[1] == '<') {
            p += 3;
        } else if (strchr(";|&", *p)) {
            p += p[1] == *p ? 2 : 1;
            s->joined = joins;
            command = true;
        } else if (*p == '(' || *p == ')') {
            if (*p == '(')
                s->parens++;
            else if (s->parens > 0)
                s->parens--;
            s->joined = false;
            command = true; /* after a pattern, or f() */
            p++;
        } else {
            s->joined = false;
            p = scan_word(s, p, &command);
        }
    }
}

bool cli_statement_shell_wants_more(const char *text)
{
    struct shell_scan s = {0};

    scan_shell(&s, text);
    return s.depth > 0 || s.parens > 0 || s.quoted || s.joined || s.heredoc[0];
}

/* A comment ends with its line; which mark begins one, the two languages do
 * not agree on, so only those of both are taken. */
bool cli_statement_brackets_want_more(const char *text)
{
    int depth = 0;
    char quote = 0;

    for (const char *p = text; *p; p++) {
        if (quote) {
            if (*p == '\\' && p[1])
                p++;
            else if (*p == quote || (*p == '\n' && quote != '`'))
                quote = 0;
        } else if (*p == '\'' || *p == '"' || *p == '`') {
            quote = *p;
        } else if ((p[0] == '/' && p[1] == '/') ||
                   (*p == '#' &&
                    (p == text || isspace((unsigned char)p[-1])))) {
            p += strcspn(p, "\n");
            if (!*p)
                break;
        } else if (strchr("([{", *p)) {
            depth++;
        } else if (strchr(")]}", *p)) {
            depth--;
        }
    }
    return depth > 0 || quote == '`';
}
