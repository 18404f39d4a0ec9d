/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints packaging/glovebox.yaml: every option with its default, commented
 * out, so that an untouched sample changes nothing. Runs in the daemon for
 * --sample.
 */
#include <string.h>

#include "base/mem.h"
#include "conf/conf_int.h"

#define WIDTH 78

/* A sentence as comment lines, without the reference page's back quotes. */
static void print_help(const char *text, const char *indent, FILE *out)
{
    size_t column = 0;

    while (*text) {
        size_t len = strcspn(text, " "), shown = 0;

        for (size_t i = 0; i < len; i++)
            shown += text[i] != '`';
        if (column == 0 || column + 1 + shown > WIDTH) {
            if (column)
                fputc('\n', out);
            column = (size_t)fprintf(out, "%s#", indent);
        }
        fputc(' ', out);
        for (size_t i = 0; i < len; i++)
            if (text[i] != '`')
                fputc(text[i], out);
        column += 1 + shown;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(const struct conf_option *o, const char *indent,
                         FILE *out)
{
    fputc('\n', out);
    print_help(o->help, indent, out);
    if (o->find)
        fprintf(out, "#%s%s:        # %s\n", indent, o->name, o->standard);
    else
        fprintf(out, "#%s%s: %s\n", indent, o->name,
                o->standard[0] ? o->standard : "\"\"");
}

void conf_sample(FILE *out)
{
    fputs("# Configuration of Glovebox. Every line shows the default; remove "
          "the # to\n"
          "# change it. The environment (GLOVEBOX_OPTION_NAME) and flags "
          "(--option-name)\n"
          "# win over this file. `gloveboxd --check` tells whether it is "
          "valid.\n",
          out);
    for (size_t i = 0; i < conf_options_top.count; i++)
        print_option(&conf_options_top.row[i], "", out);
    fputs("\n# Without this list there is one pool with the defaults below.\n"
          "#pools:\n"
          "#  - name: default\n",
          out);
    for (size_t i = 1; i < conf_options_pool.count; i++)
        print_option(&conf_options_pool.row[i], "    ", out);
}
