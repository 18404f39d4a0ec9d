/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox audit show: what is known of one execution, as a page to read.
 * Names, hosts and code come from sessions and clients: all of it is made
 * harmless before it is printed, whether or not this is a terminal.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/audit.h"
#include "cli/cli_int.h"

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

static void heading(struct page *p, const char *text)
{
    buf_addf(&p->out, "\n%s%s%s\n", p->c->color_out ? "\033[1m" : "", text,
             p->c->color_out ? "\033[0m" : "");
}

static void line(struct page *p, const char *label, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void line(struct page *p, const char *label, const char *fmt, ...)
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
static void member(struct page *p, const char *label, const json_t *object,
                   const char *name)
{
    const char *text = cli_json_text(object, name, "");

    if (*text)
        line(p, label, "%s", text);
}

static const json_t *get(const json_t *object, const char *name)
{
    return json_object_get(object, name);
}

/* ---- sections ----------------------------------------------------------- */

static void show_who(struct page *p, const json_t *e)
{
    const json_t *who = get(e, "who"), *trigger = get(e, "trigger");
    char *metadata cleanup(mem_free) =
        json_dumps(get(trigger, "metadata"), JSON_COMPACT);

    heading(p, "Who");
    member(p, "tenant", who, "tenant");
    member(p, "key", who, "key");
    member(p, "token", who, "token");
    member(p, "door", who, "door");
    member(p, "tool", who, "tool");
    member(p, "request", who, "request");
    member(p, "source", who, "source");
    heading(p, "Trigger (as the client gave it)");
    member(p, "conversation", trigger, "conversation");
    member(p, "message", trigger, "message");
    line(p, "metadata", "%s", metadata ? metadata : "none");
}

static void show_code(struct page *p, const json_t *e)
{
    const json_t *code = get(e, "code");
    const char *text = cli_json_text(e, "code_text", "");

    heading(p, "Code");
    line(p, "language", "%s, %" PRIu64 " bytes",
         cli_json_text(code, "language", "?"), cli_json_number(code, "bytes"));
    member(p, "sha256", code, "sha256");
    if (!*text)
        line(p, "text", "not kept");
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
    const json_t *list = get(files, "written");
    size_t count = json_array_size(list);

    for (size_t i = 0; i < MIN(count, (size_t)FILES_MAX); i++) {
        const json_t *f = json_array_get(list, i);
        const char *fate = cli_json_text(f, "fate", "kept");
        char size[16];

        line(p, cli_json_text(f, "change", "changed"), "%s  %s  %s%s%s%s",
             cli_json_text(f, "path", "?"),
             cli_format_size(cli_json_number(f, "size"), size),
             cli_json_text(f, "version", ""),
             strcmp(fate, "kept") == 0 ? "" : " (",
             strcmp(fate, "kept") == 0 ? "" : fate,
             strcmp(fate, "kept") == 0 ? "" : ")");
    }
    if (count > FILES_MAX)
        line(p, "", "and %zu more: --json has them", count - FILES_MAX);
    if (count == 0)
        line(p, "written", "none");
}

static void show_files(struct page *p, const json_t *e)
{
    const json_t *files = get(e, "files"), *mounted = get(files, "mounted"),
                 *read = get(files, "read"), *paths = get(read, "paths"),
                 *shown = get(e, "artifacts");

    heading(p, "Files");
    line(p, "mounted", "%s at %s (commit %" PRIu64 ")",
         cli_json_text(mounted, "workspace", "no workspace"),
         cli_json_text(mounted, "commit", "its beginning"),
         cli_json_number(mounted, "commit_seq"));
    for (size_t i = 0; i < MIN(json_array_size(paths), (size_t)FILES_MAX); i++)
        line(p, i ? "" : "read", "%s",
             json_string_value(json_array_get(paths, i)));
    if (json_array_size(paths) == 0)
        line(p, "read", "none told");
    else
        line(p, "", "(as the %s told; code can keep it from telling)",
             cli_json_text(read, "told_by", "interpreter"));
    show_written(p, files);
    member(p, "commit", files, "commit");
    for (size_t i = 0; i < json_array_size(shown); i++) {
        const json_t *a = json_array_get(shown, i);
        char size[16];

        line(p, i ? "" : "artifacts", "%s  %s  %s",
             cli_json_text(a, "how", ""), cli_json_text(a, "type", ""),
             cli_format_size(cli_json_number(a, "bytes"), size));
    }
}

static void show_connections(struct page *p, const json_t *e)
{
    static const char *const kinds[] = {"blocked", "refused", "allowed"};
    const json_t *all = get(e, "connections");
    size_t shown = 0;

    heading(p, "Connections");
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *list = get(all, kinds[k]);

        for (size_t i = 0; i < json_array_size(list); i++, shown++) {
            const json_t *t = json_array_get(list, i);

            line(p, kinds[k], "%s %s:%" PRIu64 " %s%s x%" PRIu64 "  %s  %s",
                 cli_json_text(t, "what", ""), cli_json_text(t, "host", ""),
                 cli_json_number(t, "port"), cli_json_text(t, "method", ""),
                 cli_json_text(t, "path", ""), cli_json_number(t, "count"),
                 cli_json_text(t, "at", ""), cli_json_text(t, "reason", ""));
        }
    }
    if (!shown)
        line(p, "tried", "none");
}

static void show_decision(struct page *p, const json_t *e)
{
    const json_t *policy = get(e, "policy"), *held = get(e, "approval");

    heading(p, "Decision");
    if (json_is_object(policy))
        line(p, "policy", "%s by rule '%s' of %s, version %" PRIu64,
             cli_json_text(policy, "verdict", ""),
             cli_json_text(policy, "rule", ""),
             cli_json_text(policy, "layer", "global"),
             cli_json_number(policy, "version"));
    else
        line(p, "policy", "nobody was asked");
    member(p, "reason", policy, "reason");
    if (json_is_object(held)) {
        line(p, "approval", "%s %s", cli_json_text(held, "id", ""),
             cli_json_text(held, "state", ""));
        member(p, "by", held, "by");
        member(p, "because", held, "reason");
    }
    member(p, "retry of", e, "retry_of");
    if (cli_json_number(e, "repeats"))
        line(p, "repeats", "the same code had failed %" PRIu64 " times",
             cli_json_number(e, "repeats"));
}

static void show_end(struct page *p, const json_t *e)
{
    const json_t *usage = get(e, "usage");
    char wall[24], cpu[24], memory[16], output[16];

    heading(p, "How it went");
    member(p, "outcome", e, "outcome");
    member(p, "failure", e, "failure");
    member(p, "walls", e, "isolation");
    member(p, "created", e, "created_at");
    member(p, "started", e, "started_at");
    member(p, "finished", e, "finished_at");
    line(p, "took", "%s, %s of processor",
         cli_format_duration(cli_json_number(usage, "wall_ms"), wall),
         cli_format_duration(cli_json_number(usage, "cpu_ms"), cpu));
    line(p, "used", "%s of memory at most, %s of output",
         cli_format_size(cli_json_number(usage, "peak_memory_bytes"), memory),
         cli_format_size(cli_json_number(usage, "output_bytes"), output));
    line(p, "interpreter", "%s",
         json_is_true(get(e, "interpreter_fresh")) ? "a new one"
                                                   : "one already in use");
}

int cli_evidence_print(struct cli_call *call)
{
    const json_t *e = call->answer;
    struct page p = {.c = call->c};

    line(&p, "execution", "%s", cli_json_text(e, "execution", ""));
    member(&p, "session", e, "session");
    line(&p, "pool", "%s, runtime %s", cli_json_text(e, "pool", "?"),
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
