/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox secret: store, list and remove secrets that the proxy adds to
 * sessions' traffic. A value comes from a file, from standard input or from
 * the terminal, never from the command line, and is never shown again.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define VALUE_MAX 8192u

struct secret_flags {
    struct cli_words to;
    const char *header, *prefix, *value_file;
};

/* The first line of the value: from a file or from standard input, or typed
 * at the terminal. */
static int read_value(struct cli *c, const char *file, char **ret,
                      struct error *err)
{
    size_t len;
    int r;

    if (!file && isatty(STDIN_FILENO) == 1)
        return cli_secret_ask(c, "value", true, ret, err);
    r = cli_input_read(file ? file : "-", VALUE_MAX + 2, ret, &len, err);
    if (r == 0)
        (*ret)[strcspn(*ret, "\r\n")] = '\0';
    return r;
}

static int add_value(struct cli_call *call, struct error *err)
{
    const struct secret_flags *flags = call->flags;
    char *value cleanup(cli_secret_free) = NULL;
    int r = read_value(call->c, flags->value_file, &value, err);

    if (r < 0)
        return r;
    call->body = json_pack("{s:s}", "value", value);
    return call->body
               ? 0
               : error_set(err, ERR_INVALID, "the value is not valid UTF-8");
}

static const struct cli_column columns[] = {
    {"NAME", .member = "name"},
    {"HEADER", .member = "header"},
    {"UPDATED", "updated_at", .kind = CLI_COLUMN_TIME},
    {"USED", "used_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List secrets, without their values", "GET",
     "/api/secrets", .columns = columns},
    {"show", NULL, "NAME", "Show a secret, without its value", "GET",
     .path = "/api/secrets/{NAME}"},
    {"put", "create", "NAME", "Store a secret", "PUT", "/api/secrets/{NAME}",
     .needs = "to",
     .body = "destinations={--to} header={--header} prefix={--prefix}",
     .prepare = add_value,
     .sentence = "Stored the secret {NAME}. No session can read it."},
    {"delete", "remove rm", "NAME",
     "Delete a secret; sessions lose it at once", "DELETE",
     "/api/secrets/{NAME}", .json = "removed={NAME}",
     .sentence = "Deleted the secret {NAME}."},
    {0},
};

#define AT(member) offsetof(struct secret_flags, member)

static const struct cli_option options[] = {
    {"to", 0, CLI_OPT_LIST, AT(to), "HOST",
     "a destination the secret may go to; may be repeated", "put"},
    {"header", 0, CLI_OPT_TEXT, AT(header), "H",
     "the header that carries it; else Authorization", "put"},
    {"prefix", 0, CLI_OPT_TEXT, AT(prefix), "TEXT",
     "before the value; else 'Bearer ' with Authorization", "put"},
    {"value-file", 0, CLI_OPT_TEXT, AT(value_file), "FILE",
     "holds the value; else standard input, or the terminal", "put"},
    {0},
};

const struct cli_command cli_secrets = {
    .name = "secret",
    .summary = "Secrets that the proxy adds and sessions never see",
    .notes =
        "These verbs need a key of scope policy:admin. A value is stored\n"
        "encrypted, is added by the proxy to what sessions send to its\n"
        "destinations, and is never shown again, to people or to sessions.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct secret_flags),
    .verbs = verbs,
};
