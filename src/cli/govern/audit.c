/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox audit: the trail of who did what, oldest first, of the last day
 * unless told otherwise; as it grows with --follow; and whether it is whole.
 * Evidence of an execution is evidence.c; audit_export.c writes exports and
 * checks them without a service.
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"
#include "cli/govern/audit.h"

#define DAY_MS (24 * 3600 * 1000ll)
#define FOLLOW_MS 1000
#define FOLLOW_FIRST 10u /* events shown before it waits */

/* The key's name where the service knows it, else the id. */
static const char *actor_of(const json_t *event)
{
    return cli_json_text(event, "actor_name",
                         cli_json_text(event, "actor", "-"));
}

static void add_actor(const json_t *event, struct buf *out)
{
    buf_adds(out, actor_of(event));
}

static const struct cli_column columns[] = {
    {"SEQ", "seq", .kind = CLI_COLUMN_NUMBER},
    {"AT", "at", .kind = CLI_COLUMN_TIME},
    {"ACTOR", .cell = add_actor},
    {"ACTION", .member = "action"},
    {"RESULT", .member = "result"},
    {"WORKSPACE", "workspace", .kind = CLI_COLUMN_ID, .wide = true},
    {"OBJECT", "object", .kind = CLI_COLUMN_ID},
    {"PATH", .member = "path"},
    {0},
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
                 cli_json_text(one, "at", ""), actor_of(one),
                 cli_json_text(one, "action", ""),
                 cli_json_text(one, "result", ""));
        for (size_t k = 5; columns[k].heading; k++) {
            const char *text = cli_json_text(one, columns[k].member, NULL);

            if (text)
                buf_addf(&line, "  %s", text);
        }
        buf_adds(&line, "\n");
        cli_show_text(c, line.data, line.len);
    }
    (void)fflush(stdout);
}

bool cli_audit_wait(const struct cli *c)
{
    return cli_sleep(c, FOLLOW_MS) && !ferror(stdout);
}

static int follow_events(struct cli *c, const char *url, json_t *shown,
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
        if (!cli_audit_wait(c))
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

static int list_events(struct cli *c, const struct cli_words *words, void *arg)
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
        cli_show_list(c, events, columns);
    else if (follow_events(c, url.data, events, &err) < 0)
        return cli_fail(c, &err);
    return CLI_EXIT_OK;
}

static int verify_trail(struct cli *c, const struct cli_words *words,
                        void *arg)
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
        cli_print_json(c, report);
    } else if (ok) {
        (void)printf("%llu events, none missing, none changed\nhead %s\n",
                     (unsigned long long)cli_json_number(report, "events"),
                     cli_json_text(report, "head", "none"));
    } else {
        (void)printf("event %llu: %s\n",
                     (unsigned long long)cli_json_number(report, "first_bad"),
                     cli_json_text(report, "fault", "it does not fit"));
    }
    if (!c->json && cli_json_number(report, "lost"))
        (void)printf("%llu events are missing: the database was rolled back, "
                     "and an operator accepted it (see audit.accept)\n",
                     (unsigned long long)cli_json_number(report, "lost"));
    return ok ? CLI_EXIT_OK : CLI_EXIT_CODE;
}

static int print_key(struct cli_call *call)
{
    (void)fputs(cli_json_text(call->answer, "public_key", ""), stdout);
    return CLI_EXIT_OK;
}

/* To be stored elsewhere: JSON for people, too. */
static int print_checkpoint(struct cli_call *call)
{
    cli_print_json(call->c, call->answer);
    return CLI_EXIT_OK;
}

static int audit_check_flags(struct cli *c, const struct cli_words *words,
                             void *arg)
{
    const struct cli_audit *a = arg;

    (void)words;
    if (a->follow && a->to_ms)
        return cli_usage_error(c, "--follow has no end: use it without --to");
    return CLI_EXIT_OK;
}

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List events, oldest first", .run = list_events},
    {"show", NULL, "EXECUTION", "Show the evidence of an execution", "GET",
     "/api/executions/{EXECUTION}/evidence", .print = cli_evidence_print},
    {"verify", NULL, "[EXPORT]",
     "Check that the trail, or an export of it, is complete",
     .run = verify_trail},
    {"export", NULL, NULL, "Write the trail for other programs",
     .run = cli_audit_export},
    {"key", NULL, NULL, "Print the public key that signs checkpoints", "GET",
     "/api/audit/key", .print = print_key},
    {"checkpoint", NULL, NULL, "Sign a checkpoint now and print it", "POST",
     "/api/audit/checkpoints", .print = print_checkpoint},
    {0},
};

#define AT(member) offsetof(struct cli_audit, member)

static const struct cli_option options[] = {
    {"from", 0, CLI_OPT_TIME, AT(from_ms), "TIME",
     "since: 2026-01-31, or 2h; else a day ago, export: all", "list export"},
    {"to", 0, CLI_OPT_TIME, AT(to_ms), "TIME", "until", "list export"},
    {"actor", 0, CLI_OPT_TEXT, AT(actor), "ID", "by this key or token",
     "list"},
    {"action", 0, CLI_OPT_TEXT, AT(action), "A",
     "file.put; or file. for all actions on files", "list"},
    {"object", 0, CLI_OPT_TEXT, AT(object), "ID",
     "on this object, or this path", "list"},
    {"workspace", 'w', CLI_OPT_TEXT, AT(workspace), "WS",
     "in this workspace (id or name)", "list"},
    {"limit", 'n', CLI_OPT_COUNT, AT(limit), "N", "only the newest N", "list"},
    {"follow", 'f', CLI_OPT_FLAG, AT(follow), NULL,
     "wait for new events and go on", "list export"},
    {"format", 0, CLI_OPT_TEXT, AT(format), "F",
     "jsonl (the default), otlp or syslog", "export"},
    {"output", 'o', CLI_OPT_TEXT, AT(output), "FILE",
     "write to this file, not to standard output", "export"},
    {"public-key", 0, CLI_OPT_TEXT, AT(public_key), "FILE",
     "the signer's key, as `audit key` prints it", "verify"},
    {"checkpoint", 0, CLI_OPT_TEXT, AT(checkpoint), "FILE",
     "stored checkpoints that the export must match", "verify"},
    {0},
};

const struct cli_command cli_audit = {
    .name = "audit",
    .summary = "The audit trail, evidence of executions, exports, proofs",
    .notes =
        "These verbs need a key of scope audit:read or admin; `show` also\n"
        "works with the key that asked for the execution. `verify` follows\n"
        "the chain and exits with status 1 at a gap or a change. Store the\n"
        "head that it prints elsewhere: it shows if the end of the trail was\n"
        "cut off. `verify EXPORT` needs no service: it checks the lines of an\n"
        "export (jsonl) and its signed checkpoints. With --follow and --json\n"
        "each event is one line.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct cli_audit),
    .verbs = verbs,
    .check = audit_check_flags,
};
