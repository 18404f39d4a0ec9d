/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox approvals: requests that wait for a person's decision. The
 * request was written by another principal, so `show` prints it in a form that
 * can hide nothing from the reader.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/common.h"

#define APPROVAL "/api/approvals/{APPROVAL}"

struct approval_flags {
    bool all;
    const char *reason;
};

/* Characters that a reader would not see, or see elsewhere. */
static bool is_invisible(uint32_t c)
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

        if (n && !is_invisible(c))
            buf_add(out, text, n);
        else
            buf_addf(out, c < 0x100 ? "\\x%02x" : "\\u{%x}", c);
        n = n ? n : 1;
        text += n;
        len -= n;
    }
}

static int print_approval(struct cli_call *call)
{
    json_t *payload cleanup(json_unref) =
        json_incref(json_object_get(call->answer, "payload"));
    /* Of a search or a report: what it works on, not the program. */
    const json_t *about = json_object_get(payload, "about");
    const json_t *code =
        json_is_string(about) ? about : json_object_get(payload, "code");
    char *whole cleanup(mem_free) = NULL;
    struct buf text cleanup(buf_done) = {0};

    (void)json_object_del(call->answer, "payload");
    cli_show_object(call->c, call->answer);
    if (!json_is_object(payload))
        return CLI_EXIT_OK;
    if (!json_is_string(code))
        whole = json_dumps(payload, JSON_INDENT(2));
    if (whole)
        cli_approvals_plain(whole, strlen(whole), &text);
    else
        cli_approvals_plain(json_string_value(code), json_string_length(code),
                            &text);
    (void)printf("\n%.*s%s", (int)text.len, text.data ? text.data : "",
                 text.len && text.data[text.len - 1] == '\n' ? "" : "\n");
    return CLI_EXIT_OK;
}

/* The requester's name where there is one, else the id of the key. */
static void add_requester(const json_t *approval, struct buf *out)
{
    buf_adds(out, cli_json_text(approval, "asked_by_name",
                                cli_json_text(approval, "asked_by", "-")));
}

static const struct cli_column columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"STATE", .member = "state"},
    {"ACTION", .member = "action"},
    {"ASKED BY", .cell = add_requester},
    {"ASKED AT", "asked_at", .kind = CLI_COLUMN_TIME},
    {"UNTIL", "expires_at", .kind = CLI_COLUMN_TIME},
    {"WHAT", .member = "summary"},
    {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List requests that wait for a decision", "GET",
     "/api/approvals", .query = "state={--all:|pending}", .cursor = "id",
     .columns = columns},
    {"show", NULL, "APPROVAL", "Show a request and the code it would run",
     "GET", APPROVAL, .print = print_approval},
    {"approve", NULL, "APPROVAL", "Approve a request", "POST",
     APPROVAL "/approve", .body = "reason={--reason}",
     .sentence = "The request {APPROVAL} is {state}."},
    {"deny", NULL, "APPROVAL", "Deny a request, with a reason for its author",
     "POST", APPROVAL "/deny", .needs = "reason", .body = "reason={--reason}",
     .sentence = "The request {APPROVAL} is {state}."},
    {"withdraw", NULL, "APPROVAL", "Withdraw your own request", "DELETE",
     APPROVAL, .json = "withdrawn={APPROVAL}",
     .sentence = "Withdrew the request {APPROVAL}."},
    {0},
};

#define AT(member) offsetof(struct approval_flags, member)

static const struct cli_option options[] = {
    {"all", 'a', CLI_OPT_FLAG, AT(all), NULL,
     "decided requests too, not only pending ones", "list"},
    {"reason", 'm', CLI_OPT_TEXT, AT(reason), "REASON",
     "why, at most 500 bytes; needed to deny", "approve deny"},
    {0},
};

const struct cli_command cli_approvals = {
    .name = "approvals",
    .summary = "Requests that wait for a person: show, approve, deny",
    .notes =
        "Read with `show` what would run before you approve it: invisible and\n"
        "control characters are printed as \\x1b or \\u{202e}. Deciding needs\n"
        "a key of scope approve other than the key that asked and its\n"
        "tokens; only the key that asked can withdraw. An approved execution\n"
        "runs by itself; any other approved request must be made again, and\n"
        "then succeeds once.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct approval_flags),
    .verbs = verbs,
};
