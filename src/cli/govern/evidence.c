/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox audit show: the evidence of one execution, as a page to read.
 * Names, hosts and code come from sessions and clients: all of it is made
 * harmless before it is printed, at a terminal or not.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/common.h"
#include "cli/govern/audit.h"

#define LABEL 14 /* width of the names on the left */
#define FILES_MAX 50u

struct page {
    const struct cli *c;
    struct buf out;
};

/* ---- pieces ------------------------------------------------------------- */

/* One line of it at most, without anything a terminal would act on. */
static void add_safe(struct buf *out, const char *text, size_t len)
{
    struct cli_filter filter = {.plain = true};
    struct buf safe cleanup(buf_done) = {0};

    cli_filter_feed(&filter, text, len, &safe);
    for (size_t i = 0; i < safe.len; i++)
        if (safe.data[i] == '\n' || safe.data[i] == '\r')
            safe.data[i] = ' ';
    buf_add(out, safe.data ? safe.data : "", safe.len);
}

static void add_heading(struct page *p, const char *text)
{
    buf_addf(&p->out, "\n%s%s%s\n", p->c->color_out ? "\033[1m" : "", text,
             p->c->color_out ? "\033[0m" : "");
}

static void add_line(struct page *p, const char *label, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void add_line(struct page *p, const char *label, const char *fmt, ...)
{
    char *text cleanup(mem_free) = NULL;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n <= 0)
        return;
    buf_addf(&p->out, "  %-*s", LABEL, label);
    add_safe(&p->out, text, (size_t)n);
    buf_adds(&p->out, "\n");
}

/* A member that is text; left out when there is none. */
static void add_member(struct page *p, const char *label, const json_t *object,
                       const char *name)
{
    const char *text = cli_json_text(object, name, "");

    if (*text)
        add_line(p, label, "%s", text);
}

static const json_t *get_part(const json_t *object, const char *name)
{
    return json_object_get(object, name);
}

/* ---- sections ----------------------------------------------------------- */

static void show_who(struct page *p, const json_t *e)
{
    const json_t *who = get_part(e, "who"), *trigger = get_part(e, "trigger");
    char *metadata cleanup(mem_free) =
        json_dumps(get_part(trigger, "metadata"), JSON_COMPACT);

    add_heading(p, "Who");
    add_member(p, "tenant", who, "tenant");
    add_member(p, "name", who, "name");
    add_member(p, "key", who, "key");
    add_member(p, "token", who, "token");
    add_member(p, "door", who, "door");
    add_member(p, "tool", who, "tool");
    add_member(p, "request", who, "request");
    add_member(p, "source", who, "source");
    add_heading(p, "Trigger (as the client gave it)");
    add_member(p, "conversation", trigger, "conversation");
    add_member(p, "message", trigger, "message");
    add_line(p, "metadata", "%s", metadata ? metadata : "none");
}

static void show_code(struct page *p, const json_t *e)
{
    const json_t *code = get_part(e, "code");
    const char *text = cli_json_text(e, "code_text", "");

    add_heading(p, "Code");
    add_line(p, "language", "%s, %" PRIu64 " bytes",
             cli_json_text(code, "language", "?"),
             cli_json_number(code, "bytes"));
    add_member(p, "sha256", code, "sha256");
    if (!*text)
        add_line(p, "text", "not kept");
    while (*text) {
        size_t n = strcspn(text, "\n");

        buf_adds(&p->out, "  | ");
        add_safe(&p->out, text, n);
        buf_adds(&p->out, "\n");
        text += n + (text[n] == '\n');
    }
}

static void show_written(struct page *p, const json_t *files)
{
    const json_t *list = get_part(files, "written");
    size_t count = json_array_size(list);

    for (size_t i = 0; i < MIN(count, (size_t)FILES_MAX); i++) {
        const json_t *f = json_array_get(list, i);
        const char *fate = cli_json_text(f, "fate", "kept");
        char size[16];

        add_line(p, cli_json_text(f, "change", "changed"), "%s  %s  %s%s%s%s",
                 cli_json_text(f, "path", "?"),
                 size_format(cli_json_number(f, "size"), size),
                 cli_json_text(f, "version", ""),
                 strcmp(fate, "kept") == 0 ? "" : " (",
                 strcmp(fate, "kept") == 0 ? "" : fate,
                 strcmp(fate, "kept") == 0 ? "" : ")");
    }
    if (count > FILES_MAX)
        add_line(p, "", "and %zu more: --json has them", count - FILES_MAX);
    if (count == 0)
        add_line(p, "written", "none");
}

static void show_files(struct page *p, const json_t *e)
{
    const json_t *files = get_part(e, "files"),
                 *mounted = get_part(files, "mounted"),
                 *read = get_part(files, "read"),
                 *paths = get_part(read, "paths"),
                 *shown = get_part(e, "artifacts");

    add_heading(p, "Files");
    add_line(p, "mounted", "%s at %s (commit %" PRIu64 ")",
             cli_json_text(mounted, "workspace", "no workspace"),
             cli_json_text(mounted, "commit", "its beginning"),
             cli_json_number(mounted, "commit_seq"));
    for (size_t i = 0; i < MIN(json_array_size(paths), (size_t)FILES_MAX); i++)
        add_line(p, i ? "" : "read", "%s",
                 json_string_value(json_array_get(paths, i)));
    if (json_array_size(paths) == 0)
        add_line(p, "read", "none reported");
    else
        add_line(p, "", "(as the %s reported it; code can prevent the report)",
                 cli_json_text(read, "told_by", "interpreter"));
    show_written(p, files);
    add_member(p, "commit", files, "commit");
    for (size_t i = 0; i < json_array_size(shown); i++) {
        const json_t *a = json_array_get(shown, i);
        char size[16];

        add_line(p, i ? "" : "artifacts", "%s  %s  %s",
                 cli_json_text(a, "how", ""), cli_json_text(a, "type", ""),
                 size_format(cli_json_number(a, "bytes"), size));
    }
}

static void show_connections(struct page *p, const json_t *e)
{
    static const char *const kinds[] = {"blocked", "refused", "allowed"};
    const json_t *all = get_part(e, "connections");
    size_t shown = 0;

    add_heading(p, "Connections");
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *list = get_part(all, kinds[k]);

        for (size_t i = 0; i < json_array_size(list); i++, shown++) {
            const json_t *t = json_array_get(list, i);

            add_line(
                p, kinds[k], "%s %s:%" PRIu64 " %s%s x%" PRIu64 "  %s  %s",
                cli_json_text(t, "what", ""), cli_json_text(t, "host", ""),
                cli_json_number(t, "port"), cli_json_text(t, "method", ""),
                cli_json_text(t, "path", ""), cli_json_number(t, "count"),
                cli_json_text(t, "at", ""), cli_json_text(t, "reason", ""));
        }
    }
    if (!shown)
        add_line(p, "tried", "none");
}

static void show_decision(struct page *p, const json_t *e)
{
    const json_t *policy = get_part(e, "policy"),
                 *held = get_part(e, "approval");

    add_heading(p, "Decision");
    if (json_is_object(policy))
        add_line(p, "policy", "%s by rule '%s' of %s, version %" PRIu64,
                 cli_json_text(policy, "verdict", ""),
                 cli_json_text(policy, "rule", ""),
                 cli_json_text(policy, "layer", "global"),
                 cli_json_number(policy, "version"));
    else
        add_line(p, "policy", "no decision was needed");
    add_member(p, "reason", policy, "reason");
    for (size_t i = 0; i < json_array_size(get_part(e, "checks")); i++) {
        const json_t *check = json_array_get(get_part(e, "checks"), i);

        add_line(p, i ? "" : "checks",
                 "%s%s%s: %s by rule '%s' of %s, version %" PRIu64,
                 cli_json_text(check, "action", ""),
                 cli_json_text(check, "about", NULL) ? " " : "",
                 cli_json_text(check, "about", ""),
                 cli_json_text(check, "verdict", ""),
                 cli_json_text(check, "rule", ""),
                 cli_json_text(check, "layer", ""),
                 cli_json_number(check, "version"));
    }
    if (json_is_object(held)) {
        add_line(p, "approval", "%s %s", cli_json_text(held, "id", ""),
                 cli_json_text(held, "state", ""));
        add_line(
            p, "by", "%s",
            cli_json_text(held, "by_name", cli_json_text(held, "by", "-")));
        add_member(p, "because", held, "reason");
    }
    add_member(p, "retry of", e, "retry_of");
    if (cli_json_number(e, "repeats"))
        add_line(p, "repeats", "the same code had failed %" PRIu64 " times",
                 cli_json_number(e, "repeats"));
}

static void show_end(struct page *p, const json_t *e)
{
    const json_t *usage = get_part(e, "usage");
    char wall[24], cpu[24], memory[16], output[16];

    add_heading(p, "How it went");
    add_member(p, "outcome", e, "outcome");
    add_member(p, "failure", e, "failure");
    add_member(p, "walls", e, "isolation");
    add_member(p, "created", e, "created_at");
    add_member(p, "started", e, "started_at");
    add_member(p, "finished", e, "finished_at");
    add_line(p, "took", "%s, %s of processor",
             cli_format_duration(cli_json_number(usage, "wall_ms"), wall),
             cli_format_duration(cli_json_number(usage, "cpu_ms"), cpu));
    add_line(p, "used", "%s of memory at most, %s of output",
             size_format(cli_json_number(usage, "peak_memory_bytes"), memory),
             size_format(cli_json_number(usage, "output_bytes"), output));
    add_line(p, "interpreter", "%s",
             json_is_true(get_part(e, "interpreter_fresh"))
                 ? "a new one"
                 : "one already in use");
}

int cli_evidence_print(struct cli_call *call)
{
    const json_t *e = call->answer;
    struct page p = {.c = call->c};

    add_line(&p, "execution", "%s", cli_json_text(e, "execution", ""));
    add_member(&p, "session", e, "session");
    add_line(&p, "pool", "%s, runtime %s", cli_json_text(e, "pool", "?"),
             cli_json_text(e, "runtime", "?"));
    show_who(&p, e);
    show_code(&p, e);
    show_files(&p, e);
    show_connections(&p, e);
    show_decision(&p, e);
    show_end(&p, e);
    (void)fputs(p.out.data, stdout);
    buf_done(&p.out);
    return CLI_EXIT_OK;
}
