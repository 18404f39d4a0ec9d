/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox share: links to a file or a folder for people without a key. The
 * link is printed once; a password comes from the terminal or from a file.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

struct share_flags {
    bool write, password;
    const char *password_file, *version;
    uint64_t expires_s, downloads;
};

static int share_check(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct share_flags *flags = arg;

    (void)words;
    if (flags->password && flags->password_file)
        return cli_usage_error(c, "use either --password or --password-file");
    return CLI_EXIT_OK;
}

static int add_password(struct cli_call *call, struct error *err)
{
    const struct share_flags *flags = call->flags;
    char *password cleanup(cli_secret_free) = NULL;
    int r = 0;

    if (flags->password_file)
        r = cli_secret_file(flags->password_file, "password", &password, err);
    else if (flags->password)
        r = cli_secret_ask(call->c, "password", true, &password, err);
    if (r < 0 || !password)
        return r;
    call->body = json_pack("{s:s}", "password", password);
    return call->body ? 0
                      : error_set(err, ERR_INVALID,
                                  "the password is not valid UTF-8");
}

static int print_link(struct cli_call *call)
{
    const char *url = cli_json_text(call->answer, "url", "");
    const char *end = cli_json_text(call->answer, "expires_at", NULL);

    (void)printf("%s%s\n", url[0] == '/' ? call->c->base : "", url);
    (void)fflush(stdout);
    (void)fprintf(stderr, "This is %s%s%s. The link is shown only now.\n",
                  cli_json_text(call->answer, "id", ""),
                  end ? ", valid until " : "", end ? end : "");
    return CLI_EXIT_OK;
}

static const struct cli_column columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"PATH", .member = "path"},
    {"MODE", .member = "mode"},
    {"PASSWORD", "has_password", .kind = CLI_COLUMN_BOOL},
    {"FETCHED", "downloads", .kind = CLI_COLUMN_NUMBER},
    {"AT MOST", "max_downloads", .kind = CLI_COLUMN_NUMBER},
    {"UNTIL", "expires_at", .kind = CLI_COLUMN_TIME},
    {"REVOKED", "revoked_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static const struct cli_verb verbs[] = {
    {"create", "new", "PLACE", "Make a link and print it, once", "POST",
     "/api/shares",
     .body = "workspace={PLACE.workspace} path={PLACE.path} "
             "mode={--write:write|read} version={--version} "
             "expires_in_s={--expires} max_downloads={--downloads}",
     .prepare = add_password, .print = print_link},
    {"list", "ls", "WS", "List the links of a workspace", "GET", "/api/shares",
     .query = "workspace={WS}", .columns = columns},
    {"delete", "revoke rm", "SHARE", "Revoke a link", "DELETE",
     "/api/shares/{SHARE}", .json = "revoked={SHARE}",
     .sentence = "Revoked {SHARE}. The link no longer works."},
    {0},
};

#define AT(member) offsetof(struct share_flags, member)

static const struct cli_option options[] = {
    {"write", 0, CLI_OPT_FLAG, AT(write), NULL, "accept uploads too",
     "create"},
    {"expires", 0, CLI_OPT_DURATION, AT(expires_s), "TIME",
     "valid for a time such as 7d; else it never expires", "create"},
    {"downloads", 0, CLI_OPT_COUNT, AT(downloads), "N",
     "valid for this many downloads", "create"},
    {"password", 0, CLI_OPT_FLAG, AT(password), NULL,
     "ask for a password at the terminal", "create"},
    {"password-file", 0, CLI_OPT_TEXT, AT(password_file), "FILE",
     "the first line of the file is the password", "create"},
    {"version", 0, CLI_OPT_TEXT, AT(version), "V",
     "always this version of the file", "create"},
    {0},
};

const struct cli_command cli_share = {
    .name = "share",
    .summary = "Links to files and folders for others",
    .notes =
        "PLACE is WORKSPACE:PATH of a file, WORKSPACE:FOLDER/, or WORKSPACE:\n"
        "for all of it. The link is printed once, alone on standard output;\n"
        "a visitor needs no key. A link that was revoked, has expired or was\n"
        "used up does not work.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct share_flags),
    .verbs = verbs,
    .check = share_check,
};
