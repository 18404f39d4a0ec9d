/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox approvals: what waits for a person, and the person's answer. What
 * is to be approved was written by somebody else, so `show` prints it such
 * that nothing in it can hide from the reader.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/cli_int.h"

#define BASE "/api/approvals"

struct approvals {
    bool all;
    const char *reason;
};

static const struct cli_column columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_TEXT},
    {"STATE", "state", .kind = CLI_COLUMN_TEXT},
    {"ACTION", "action", .kind = CLI_COLUMN_TEXT},
    {"ASKED BY", "asked_by", .kind = CLI_COLUMN_TEXT},
    {"ASKED AT", "asked_at", .kind = CLI_COLUMN_TEXT},
    {"UNTIL", "expires_at", .kind = CLI_COLUMN_TEXT},
    {"WHAT", "summary", .kind = CLI_COLUMN_TEXT},
};

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *rows cleanup(json_unref) = NULL;
    const struct approvals *a = arg;
    struct error err;

    (void)words;
    if (cli_remote_list(c, a->all ? BASE : BASE "?state=pending", "id", 0,
                        &rows, &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, rows, columns, ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

/* ---- one, for a reader -------------------------------------------------- */

/* What a reader would not see, or see elsewhere than it is. */
static bool hides(uint32_t c)
{
    return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0x00ad || c == 0xfeff ||
           (c >= 0xe0000 && c <= 0xe007f);
}

void cli_approvals_plain(const char *text, size_t len, struct buf *out)
{
    while (len) {
        size_t n = utf8_length(text, len);
        uint32_t c = n ? utf8_decode(text, n) : (unsigned char)*text;

        if (n && !hides(c))
            buf_add(out, text, n);
        else
            buf_addf(out, c < 0x100 ? "\\x%02x" : "\\u{%x}", c);
        n = n ? n : 1;
        text += n;
        len -= n;
    }
}

static void print_payload(const json_t *payload)
{
    const json_t *code = json_object_get(payload, "code");
    char *whole cleanup(mem_free) =
        json_is_string(code) ? NULL : json_dumps(payload, JSON_INDENT(2));
    struct buf text cleanup(buf_done) = {0};

    if (whole)
        cli_approvals_plain(whole, strlen(whole), &text);
    else
        cli_approvals_plain(json_string_value(code), json_string_length(code),
                            &text);
    (void)printf("\n%.*s%s", (int)text.len, text.data ? text.data : "",
                 text.len && text.data[text.len - 1] == '\n' ? "" : "\n");
}

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *one cleanup(json_unref) = NULL;
    json_t *payload cleanup(json_unref) = NULL;
    char *url cleanup(mem_free) = xasprintf(BASE "/%s", words->items[0]);
    struct error err;

    (void)arg;
    if (cli_http_json(c, "GET", url, NULL, &one, &err) < 0)
        return cli_fail(c, &err);
    if (!c->json) {
        payload = json_incref(json_object_get(one, "payload"));
        (void)json_object_del(one, "payload");
    }
    cli_show_object(c, one);
    if (json_is_object(payload))
        print_payload(payload);
    return CLI_EXIT_OK;
}

/* ---- answers ------------------------------------------------------------ */

static int answer(struct cli *c, const char *id, const char *verb,
                  const struct approvals *a)
{
    json_t *body cleanup(json_unref) =
        json_pack("{s:s*}", "reason", a->reason);
    json_t *one cleanup(json_unref) = NULL;
    char *url cleanup(mem_free) = xasprintf(BASE "/%s/%s", id, verb);
    struct error err;

    if (!body)
        return cli_usage_error(c, "the reason is not valid UTF-8");
    if (cli_http_json(c, "POST", url, body, &one, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, one, "%s is %s", id, cli_json_text(one, "state", "?"));
    return CLI_EXIT_OK;
}

static int approve(struct cli *c, const struct cli_words *words, void *arg)
{
    return answer(c, words->items[0], "approve", arg);
}

static int deny(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct approvals *a = arg;

    if (!a->reason)
        return cli_usage_error(c, "deny wants -m REASON, for who asked");
    return answer(c, words->items[0], "deny", a);
}

static int withdraw(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *out cleanup(json_unref) =
        json_pack("{s:s}", "withdrawn", words->items[0]);
    char *url cleanup(mem_free) = xasprintf(BASE "/%s", words->items[0]);
    struct error err;

    (void)arg;
    if (cli_http_json(c, "DELETE", url, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, out, "%s is withdrawn", words->items[0]);
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"list", 0, 0, list}, {"ls", 0, 0, list},
    {"show", 1, 1, show}, {"approve", 1, 1, approve},
    {"deny", 1, 1, deny}, {"withdraw", 1, 1, withdraw},
};

int cli_approvals(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct approvals a = {0};
    const struct cli_opt table[] = {
        {"all", 'a', CLI_OPT_FLAG, &a.all, NULL,
         "settled ones too, not only what waits", "list ls"},
        {"reason", 'm', CLI_OPT_TEXT, &a.reason, "TEXT",
         "why, at most 500 bytes; needed to deny", "approve deny"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "Read with `show` what is to run before you approve it: invisible and\n"
        "control characters are printed as \\x1b or \\u{202e}. To decide needs\n"
        "a key of scope approve that is not the one that asked, nor a token\n"
        "of it; to withdraw, the one that asked. A held execution runs by\n"
        "itself once it is approved; anything else is asked again by who\n"
        "wants it, and then goes through once.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "approvals");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &a);
}
