/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the flags, for `serve --help`. Daemon and command line. */
#include <string.h>

#include "base/mem.h"
#include "conf/conf_int.h"

/* The option's flag, "--data-dir". */
static void add_flag(const struct conf_option *o, struct buf *out)
{
    buf_adds(out, strcmp(o->name, "data_dir") == 0 ? "--data" : "--");
    if (out->len > 2)
        return;
    buf_adds(out, o->name);
    for (size_t i = 2; i < out->len; i++)
        if (out->data[i] == '_')
            out->data[i] = '-';
}

void conf_help_flags(FILE *out)
{
    fputs("  --config FILE           read FILE; `none`: no file\n"
          "  --check                 check the configuration and exit\n"
          "  --dump                  print all settings in force and exit\n"
          "  --reference, --sample   print the reference page or a sample "
          "file\n",
          out);
    for (size_t i = 0; i < conf_options_top.count; i++) {
        const struct conf_option *o = &conf_options_top.row[i];
        struct buf flag cleanup(buf_done) = {0};
        struct buf range cleanup(buf_done) = {0};

        add_flag(o, &flag);
        conf_value_range(o, &range);
        fprintf(out, "  %-23s %s (default %s)\n", flag.data, range.data,
                o->standard[0] ? o->standard : "empty");
    }
    fputs("Each is also an option of the file (snake_case) and a variable of "
          "the\nenvironment (GLOVEBOX_OPTION_NAME); pools are set in the "
          "file only.\n",
          out);
}
