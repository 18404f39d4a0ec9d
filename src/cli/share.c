/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox share: links to a file or a folder for people without a key. The
 * link is printed once; a password comes from the terminal or from a file.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

struct share {
    bool write, password;
    const char *password_file, *version;
    uint64_t expires_s, downloads;
};

/* NULL in *ret when none is wanted. */
static int ask_password(struct cli *c, const struct share *s, char **ret,
                        struct error *err)
{
    if (s->password_file)
        return cli_secret_file(s->password_file, "password", ret, err);
    return s->password ? cli_secret_ask(c, "password", true, ret, err) : 0;
}

static json_t *body_of(const struct share *s, const struct cli_place *place,
                       const char *password)
{
    json_t *body =
        json_pack("{s:s, s:s, s:s, s:s*, s:s*}", "workspace", place->id,
                  "path", place->path, "mode", s->write ? "write" : "read",
                  "version", s->version, "password", password);

    if (body && s->expires_s)
        (void)json_object_set_new(body, "expires_in_s",
                                  json_integer((json_int_t)s->expires_s));
    if (body && s->downloads)
        (void)json_object_set_new(body, "max_downloads",
                                  json_integer((json_int_t)s->downloads));
    return body;
}

static void say(const struct cli *c, const json_t *share)
{
    const char *url = cli_json_text(share, "url", "");

    if (c->json) {
        cli_print_json(share);
        return;
    }
    (void)printf("%s%s\n", url[0] == '/' ? c->base : "", url);
    (void)fflush(stdout);
    (void)fprintf(stderr, "This is %s%s%s. The link is shown this once.\n",
                  cli_json_text(share, "id", ""),
                  cli_json_text(share, "expires_at", NULL) ? ", until " : "",
                  cli_json_text(share, "expires_at", ""));
}

static int make(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    char *password cleanup(cli_secret_free) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    json_t *share cleanup(json_unref) = NULL;
    const struct share *s = arg;
    struct error err;

    if (cli_place_find(c, words->items[0], NULL, &place, &err) < 0 ||
        cli_place_to_workspace(c, &place, &err) < 0 ||
        ask_password(c, s, &password, &err) < 0)
        return cli_fail(c, &err);
    body = body_of(s, &place, password);
    if (!body)
        return cli_usage_error(c, "the path or password is not valid UTF-8");
    if (cli_http_json(c, "POST", "/api/shares", body, &share, &err) < 0)
        return cli_fail(c, &err);
    say(c, share);
    return CLI_EXIT_OK;
}

static int ls(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"ID", "id", .kind = CLI_COLUMN_TEXT},
        {"PATH", "path", .kind = CLI_COLUMN_TEXT},
        {"MODE", "mode", .kind = CLI_COLUMN_TEXT},
        {"PASSWORD", "has_password", .kind = CLI_COLUMN_BOOL},
        {"FETCHED", "downloads", .kind = CLI_COLUMN_NUMBER},
        {"AT MOST", "max_downloads", .kind = CLI_COLUMN_NUMBER},
        {"UNTIL", "expires_at", .kind = CLI_COLUMN_TEXT},
        {"REVOKED", "revoked_at", .kind = CLI_COLUMN_TEXT},
    };

    (void)arg;
    return cli_remote_show(c, words->items[0], "/api/shares?workspace=", "",
                           columns, ARRAY_SIZE(columns));
}

static int revoke(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *out cleanup(json_unref) =
        json_pack("{s:s}", "revoked", words->items[0]);
    struct buf path cleanup(buf_done) = {0};
    struct error err;

    (void)arg;
    buf_adds(&path, "/api/shares/");
    cli_http_escape(&path, words->items[0], false);
    if (cli_http_json(c, "DELETE", path.data, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, out, "the link leads nowhere now");
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"new", 1, 1, make}, {"create", 1, 1, make},   {"ls", 1, 1, ls},
    {"list", 1, 1, ls},  {"revoke", 1, 1, revoke},
};

int cli_share(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct share s = {0};
    const struct cli_opt table[] = {
        {"write", 0, CLI_OPT_FLAG, &s.write, NULL, "new: takes uploads, too",
         "new create"},
        {"expires", 0, CLI_OPT_DURATION, &s.expires_s, "TIME",
         "new: for so long, such as 7d; else for ever", "new create"},
        {"downloads", 0, CLI_OPT_COUNT, &s.downloads, "N",
         "new: at most so many", "new create"},
        {"password", 0, CLI_OPT_FLAG, &s.password, NULL,
         "new: ask for a password here", "new create"},
        {"password-file", 0, CLI_OPT_TEXT, &s.password_file, "FILE",
         "new: the password is in its first line", "new create"},
        {"version", 0, CLI_OPT_TEXT, &s.version, "V",
         "new: this version, whatever comes later", "new create"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "PLACE is WORKSPACE:PATH of a file, WORKSPACE:FOLDER/ or WORKSPACE:\n"
        "for all of it. The link is printed once, alone on standard output;\n"
        "whoever has it needs no key. Revoked, expired and used-up links lead\n"
        "nowhere.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "share");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (!words.count)
        return cli_usage_error(&c, "new, ls or revoke");
    if (s.password && s.password_file)
        return cli_usage_error(&c, "either --password or --password-file");
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &s);
}
