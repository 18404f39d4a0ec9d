/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox audit: the trail of who did what, oldest first, of the last day
 * unless told otherwise; as it grows with --follow; and whether it is whole.
 * What is known of an execution is evidence.c, exports are audit_export.c,
 * checking one without a service audit_check.c.
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/audit.h"
#include "cli/cli_int.h"

#define DAY_MS (24 * 3600 * 1000ll)
#define FOLLOW_MS 1000
#define FOLLOW_FIRST 10u /* events shown before it waits */

static const struct cli_column columns[] = {
    {"SEQ", "seq", .kind = CLI_COLUMN_NUMBER},
    {"AT", "at", .kind = CLI_COLUMN_TEXT},
    {"ACTOR", "actor", .kind = CLI_COLUMN_TEXT},
    {"ACTION", "action", .kind = CLI_COLUMN_TEXT},
    {"RESULT", "result", .kind = CLI_COLUMN_TEXT},
    {"WORKSPACE", "workspace", .kind = CLI_COLUMN_TEXT},
    {"OBJECT", "object", .kind = CLI_COLUMN_TEXT},
    {"PATH", "path", .kind = CLI_COLUMN_TEXT},
};

static int build_url(struct cli *c, const struct cli_audit *a, struct buf *url,
                     struct error *err)
{
    char id[ID_MAX] = "";
    int r = a->workspace ? cli_remote_workspace(c, a->workspace, id, err) : 0;

    if (r < 0)
        return r;
    buf_adds(url, "/api/audit");
    cli_http_query(url, "actor", a->actor);
    cli_http_query(url, "action", a->action);
    cli_http_query(url, "object", a->object);
    cli_http_query(url, "workspace", id);
    cli_http_query_time(url, "from",
                        a->from_ms ? a->from_ms : clock_real_ms() - DAY_MS);
    cli_http_query_time(url, "to", a->to_ms);
    return 0;
}

/* The newest `most` of a list that is oldest first. */
static void keep_newest(json_t *all, size_t most)
{
    json_t *kept;
    size_t count = json_array_size(all);

    if (count <= most)
        return;
    kept = json_array();
    for (size_t i = count - most; i < count; i++)
        (void)json_array_append(kept, json_array_get(all, i));
    (void)json_array_clear(all);
    (void)json_array_extend(all, kept);
    json_decref(kept);
}

/* ---- as it grows -------------------------------------------------------- */

/* One line each, so that a reader of lines can follow. */
static void print_events(const struct cli *c, const json_t *events)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *one = json_array_get(events, i);
        struct buf line cleanup(buf_done) = {0};

        if (c->json) {
            (void)json_dumpf(one, stdout, JSON_COMPACT);
            (void)fputc('\n', stdout);
            continue;
        }
        buf_addf(&line, "%llu  %s  %s  %s  %s",
                 (unsigned long long)cli_json_number(one, "seq"),
                 cli_json_text(one, "at", ""),
                 cli_json_text(one, "actor", "-"),
                 cli_json_text(one, "action", ""),
                 cli_json_text(one, "result", ""));
        for (size_t k = 5; k < ARRAY_SIZE(columns); k++) {
            const char *text = cli_json_text(one, columns[k].member, NULL);

            if (text)
                buf_addf(&line, "  %s", text);
        }
        buf_adds(&line, "\n");
        cli_show_text(c, line.data, line.len);
    }
    (void)fflush(stdout);
}

bool cli_audit_nap(const struct cli *c)
{
    struct timespec ms = {FOLLOW_MS / 1000, FOLLOW_MS % 1000 * 1000000};
    sigset_t set;

    (void)nanosleep(&ms, NULL);
    (void)sigpending(&set);
    return !c->interrupted && !ferror(stdout) && !sigismember(&set, SIGINT) &&
           !sigismember(&set, SIGTERM) && !sigismember(&set, SIGHUP);
}

static int follow(struct cli *c, const char *url, json_t *shown,
                  struct error *err)
{
    uint64_t last = 0;

    print_events(c, shown);
    for (;;) {
        size_t count = json_array_size(shown);
        struct buf next cleanup(buf_done) = {0};
        json_t *more cleanup(json_unref) = NULL;
        int r;

        if (count)
            last = cli_json_number(json_array_get(shown, count - 1), "seq");
        (void)json_array_clear(shown);
        if (!cli_audit_nap(c))
            return 0;
        buf_adds(&next, url);
        cli_http_query_number(&next, "after", last);
        cli_http_query_number(&next, "limit", 1000);
        r = cli_http_json(c, "GET", next.data, NULL, &more, err);
        if (r < 0)
            return c->interrupted ? 0 : r;
        (void)json_array_extend(shown, json_object_get(more, "data"));
        print_events(c, shown);
    }
}

/* ---- the verbs ---------------------------------------------------------- */

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *events cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    const struct cli_audit *a = arg;
    uint64_t most = a->limit ? a->limit : a->follow ? FOLLOW_FIRST : 0;
    struct error err;

    (void)words;
    if (build_url(c, a, &url, &err) < 0 ||
        cli_remote_list(c, url.data, "seq", 0, &events, &err) < 0)
        return cli_fail(c, &err);
    if (most)
        keep_newest(events, most);
    if (!a->follow)
        cli_show_list(c, events, columns, ARRAY_SIZE(columns));
    else if (follow(c, url.data, events, &err) < 0)
        return cli_fail(c, &err);
    return CLI_EXIT_OK;
}

static int verify(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    json_t *report cleanup(json_unref) = NULL;
    struct error err;
    bool ok;

    if (words->count)
        return cli_audit_check(c, words->items[0], arg);
    t.method = "POST";
    t.path = "/api/audit/verify";
    t.unhurried = true;
    if (cli_transfer_run(c, &t, &err) < 0 ||
        cli_http_answer(c, &t, &report, &err) < 0)
        return cli_fail(c, &err);
    ok = json_is_true(json_object_get(report, "ok"));
    if (c->json) {
        cli_print_json(report);
    } else if (ok) {
        (void)printf("%llu events, none missing, none changed\nhead %s\n",
                     (unsigned long long)cli_json_number(report, "events"),
                     cli_json_text(report, "head", "none"));
    } else {
        (void)printf("event %llu: %s\n",
                     (unsigned long long)cli_json_number(report, "first_bad"),
                     cli_json_text(report, "fault", "it does not fit"));
    }
    return ok ? CLI_EXIT_OK : CLI_EXIT_CODE;
}

static int key(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "GET", "/api/audit/key", NULL, &answer, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(answer);
    else
        (void)fputs(cli_json_text(answer, "public_key", ""), stdout);
    return CLI_EXIT_OK;
}

static int checkpoint(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "POST", "/api/audit/checkpoints", NULL, &answer,
                      &err) < 0)
        return cli_fail(c, &err);
    cli_print_json(answer); /* what is to be kept, whoever asks */
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"list", 0, 0, list},
    {"ls", 0, 0, list},
    {"show", 1, 1, cli_evidence_show},
    {"verify", 0, 1, verify},
    {"export", 0, 0, cli_audit_export},
    {"key", 0, 0, key},
    {"checkpoint", 0, 0, checkpoint},
};

int cli_audit(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct cli_audit a = {0};
    const struct cli_opt table[] = {
        {"from", 0, CLI_OPT_TIME, &a.from_ms, "TIME",
         "since: 2026-01-31, or 2h; else a day ago, export: all",
         "list ls export"},
        {"to", 0, CLI_OPT_TIME, &a.to_ms, "TIME", "until", "list ls export"},
        {"actor", 0, CLI_OPT_TEXT, &a.actor, "ID", "of this key or token",
         "list ls"},
        {"action", 0, CLI_OPT_TEXT, &a.action, "A",
         "file.put; or file. for all of files", "list ls"},
        {"object", 0, CLI_OPT_TEXT, &a.object, "ID",
         "on this object, or this path", "list ls"},
        {"workspace", 'w', CLI_OPT_TEXT, &a.workspace, "WS",
         "in this workspace (id or name)", "list ls"},
        {"limit", 'n', CLI_OPT_COUNT, &a.limit, "N", "the newest so many",
         "list ls"},
        {"follow", 'f', CLI_OPT_FLAG, &a.follow, NULL,
         "go on as new ones come", "list ls export"},
        {"format", 0, CLI_OPT_TEXT, &a.format, "F",
         "jsonl (else), otlp or syslog", "export"},
        {"output", 'o', CLI_OPT_TEXT, &a.output, "FILE",
         "into this file instead of standard output", "export"},
        {"public-key", 0, CLI_OPT_TEXT, &a.public_key, "FILE",
         "as `audit key` prints it: who must have signed", "verify"},
        {"checkpoint", 0, CLI_OPT_TEXT, &a.checkpoint, "FILE",
         "that was noted: the export must reach it and fit", "verify"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "These need a key of scope audit:read or admin; `show` also works with\n"
        "the key that asked for the execution. `verify` walks the chain and ends\n"
        "with status 1 at a gap or a change; note its head elsewhere, and a\n"
        "trail that was cut shorter can be told, too. `verify EXPORT` asks no\n"
        "service: it checks the lines of an export (jsonl) and its signed\n"
        "checkpoints. With --follow and --json each event is one line.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "audit");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (a.follow && a.to_ms)
        return cli_usage_error(&c, "--follow has no end, --to is one");
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &a);
}
