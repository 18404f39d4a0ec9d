/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox backup and glovebox verify: jobs of the running service, which
 * reports how far it is.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

/* The service needs the whole path; owned by caller. */
static char *whole_path(const char *dir)
{
    char here[PATH_MAX];

    if (dir[0] == '/' || !getcwd(here, sizeof(here)))
        return xstrdup(dir);
    return xasprintf("%s/%s", here, dir);
}

static int backup(struct cli *c, const char *dir)
{
    char *path cleanup(mem_free) = whole_path(dir);
    json_t *body cleanup(json_unref) = json_pack("{s:s}", "path", path);
    json_t *done cleanup(json_unref) = NULL;
    struct error err;

    if (!body)
        return cli_usage_error(c, "the path is not valid UTF-8");
    if (cli_http_job(c, "/api/backup", body, &done, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, done,
                  "everything is in %s; `glovebox restore` brings it "
                  "back",
                  path);
    return CLI_EXIT_OK;
}

int cli_backup(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    const struct cli_opts opts = {
        .notes = "DIR is a folder on the service's machine, which it must be "
                 "able to write;\nit is made, or is empty. The service goes "
                 "on meanwhile: the backup holds\neverything up to one "
                 "moment, and a list of hashes to check it by. Needs a key\n"
                 "of scope admin.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "backup");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (words.count != 1)
        return cli_usage_error(&c, "one folder to write to");
    return backup(&c, words.items[0]);
}

/* ---- verify ------------------------------------------------------------- */

static void say(const json_t *report, bool ok)
{
    char size[16];

    (void)printf("%llu objects, %s: ",
                 (unsigned long long)cli_json_number(report, "blobs"),
                 cli_format_size(cli_json_number(report, "bytes"), size));
    if (ok)
        (void)printf("every byte is as it was stored\n");
    else
        (void)printf("%llu damaged, %llu missing\nfirst: %s\n",
                     (unsigned long long)cli_json_number(report, "bad"),
                     (unsigned long long)cli_json_number(report, "missing"),
                     cli_json_text(report, "first_bad", "unknown"));
    if (cli_json_number(report, "orphans"))
        (void)printf("%llu nobody refers to; the collector takes them\n",
                     (unsigned long long)cli_json_number(report, "orphans"));
}

int cli_verify(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    const struct cli_opts opts = {
        .notes = "The service reads all it keeps again and compares it with "
                 "the hashes it was\nstored under; it goes on serving "
                 "meanwhile. Exit status: 0 when all is well,\n1 when "
                 "something is damaged or missing. Needs a key of scope "
                 "admin.\n"};
    json_t *report cleanup(json_unref) = NULL;
    struct cli_words words;
    struct error err;
    int status;
    bool ok;

    cli_init(&c, "verify");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (words.count)
        return cli_usage_error(&c, "unexpected '%s'", words.items[0]);
    if (cli_http_job(&c, "/api/verify", NULL, &report, &err) < 0)
        return cli_fail(&c, &err);
    ok = json_is_true(json_object_get(report, "ok"));
    if (c.json)
        cli_print_json(report);
    else
        say(report, ok);
    return ok ? CLI_EXIT_OK : CLI_EXIT_CODE;
}
