/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Citations of files in an answer: each sandbox: link, and each link to a path
 * below /mnt/data, that names a file of the session; and on the last message
 * the files that this response made and the answer does not name, up to
 * CHAT_CITED_MAX. Positions count characters, not bytes. Runs in gloveboxd on
 * the thread of a response.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "chat/chat_int.h"
#include "workspace/workspace.h"

#define LINKS_MAX 200u

/* ---- paths -------------------------------------------------------------- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static void url_decode(const char *text, size_t len, char *ret, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < size; i++) {
        if (text[i] == '%' && i + 2 < len && hex(text[i + 1]) >= 0 &&
            hex(text[i + 2]) >= 0) {
            ret[n++] = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        } else {
            ret[n++] = text[i];
        }
    }
    ret[n] = '\0';
}

static bool find_file(struct chat_response *r, const char *path,
                      char ret_file[ID_MAX])
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    struct error ignored;

    if (!r->workspace[0] || !*path ||
        workspace_file_get(r->chat->parts.workspaces, &r->owner.who,
                           r->workspace, path, NULL, &f, &ignored) < 0)
        return false;
    memcpy(ret_file, f.file, ID_MAX);
    return true;
}

/* Below /mnt/data, or relative to it. */
static const char *below_root(const char *path)
{
    size_t len = strlen(CHAT_ROOT);

    if (strncmp(path, CHAT_ROOT, len) == 0)
        return path + len;
    return path[0] == '/' ? NULL : path;
}

/* ---- links -------------------------------------------------------------- */

struct cite {
    struct chat_response *r;
    json_t *list;
    char named[LINKS_MAX][ID_MAX]; /* files that the text names */
    size_t named_count;
};

static void add(struct cite *c, const char *file, const char *path,
                size_t start, size_t end)
{
    const char *slash = strrchr(path, '/');
    char id[ID_MAX];

    (void)json_array_append_new(
        c->list,
        chat_pack("{s:s, s:s, s:s, s:o, s:I, s:I}", "type",
                  "container_file_citation", "container_id", c->r->session,
                  "file_id", c->r->chat->parts.names->container(file, id),
                  "filename",
                  chat_text(slash ? slash + 1 : path,
                            strlen(slash ? slash + 1 : path)),
                  "start_index", (json_int_t)start, "end_index",
                  (json_int_t)end));
}

static void note_named(struct cite *c, const char *file)
{
    if (c->named_count < LINKS_MAX)
        memcpy(c->named[c->named_count++], file, ID_MAX);
}

static bool is_named(const struct cite *c, const char *file)
{
    for (size_t i = 0; i < c->named_count; i++)
        if (strcmp(c->named[i], file) == 0)
            return true;
    return false;
}

/* The length of a link that begins here; 0: none does. A target in
 * parentheses ends with them; another one at a blank. */
static size_t link_length(const char *text, size_t len, bool in_parentheses)
{
    static const char scheme[] = "sandbox:";
    size_t n = 0;
    unsigned depth = 0;

    if (len > strlen(scheme) && strncmp(text, scheme, strlen(scheme)) == 0)
        n = strlen(scheme);
    else if (!in_parentheses || len < strlen(CHAT_ROOT) ||
             strncmp(text, CHAT_ROOT, strlen(CHAT_ROOT)) != 0)
        return 0;
    while (n < len && text[n] != '\n' && text[n] != '"' && text[n] != '>' &&
           (in_parentheses || !isspace((unsigned char)text[n]))) {
        if (text[n] == '(')
            depth++;
        if (text[n] == ')' && depth-- == 0)
            break;
        n++;
    }
    return n;
}

static size_t count_chars(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void cite_link(struct cite *c, const char *text, size_t len,
                      size_t start)
{
    char path[1100] = "", file[ID_MAX];
    const char *from;
    size_t skip = strncmp(text, "sandbox:", 8) == 0 ? 8 : 0;

    url_decode(text + skip, len - skip, path, sizeof(path));
    from = below_root(path);
    if (!from || !find_file(c->r, from, file))
        return;
    add(c, file, from, start, start + count_chars(text, len));
    note_named(c, file);
}

static void cite_links(struct cite *c, const char *text, size_t len)
{
    size_t chars = 0;

    for (size_t i = 0; i < len && json_array_size(c->list) < LINKS_MAX;) {
        size_t n = link_length(text + i, len - i, i > 0 && text[i - 1] == '(');

        if (n) {
            cite_link(c, text + i, n, chars);
            chars += count_chars(text + i, n);
            i += n;
            continue;
        }
        chars += ((unsigned char)text[i] & 0xc0) != 0x80;
        i++;
    }
}

/* ---- files that were forgotten ------------------------------------------ */

static bool is_hidden(const char *path)
{
    return path[0] == '.' || strstr(path, "/.") ||
           strncmp(path, "__pycache__/", 12) == 0 ||
           strstr(path, "/__pycache__/") != NULL;
}

/* The newest state counts: a file that was deleted later is gone. */
static void cite_forgotten(struct cite *c)
{
    struct chat_response *r = c->r;
    size_t added = 0;

    for (size_t i = 0; i < r->output.count; i++) {
        const struct chat_item *item = &r->output.list[i];

        for (size_t k = 0; k < item->file_count; k++) {
            const struct chat_item_file *f = &item->files[k];
            char file[ID_MAX];

            if (added == CHAT_CITED_MAX)
                return;
            if (!f->file[0] || strcmp(f->change, "deleted") == 0 ||
                is_hidden(f->path) || !find_file(r, f->path, file) ||
                is_named(c, file))
                continue;
            add(c, file, f->path, 0, 0);
            note_named(c, file);
            added++;
        }
    }
}

json_t *chat_cite(struct chat_response *r, const char *text, size_t len,
                  bool final)
{
    struct cite *c = xcalloc(1, sizeof(*c));
    json_t *list = json_array();

    c->r = r;
    c->list = list;
    if (r->session[0]) {
        if (!r->json_answer)
            cite_links(c, text, len);
        if (final)
            cite_forgotten(c);
    }
    free(c);
    return list;
}
