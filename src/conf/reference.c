/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/CONFIG.md from the tables. Runs in the daemon for --reference.
 */
#include "base/mem.h"
#include "conf/conf_int.h"

/* `|` would end a cell; no text of the table holds one but the choices of an
 * enum, which are printed in words. */
static void print_table(const struct conf_options *table, FILE *out)
{
    fputs("| option | allowed | default | meaning |\n|---|---|---|---|\n",
          out);
    for (size_t i = 0; i < table->count; i++) {
        const struct conf_option *o = &table->row[i];
        struct buf range cleanup(buf_done) = {0};

        conf_value_range(o, &range);
        fprintf(out, "| `%s` | %s | ", o->name, range.data);
        if (o->find)
            fputs(o->standard, out);
        else
            fprintf(out, "`%s`", o->standard[0] ? o->standard : "\"\"");
        fprintf(out, " | %s |\n", o->help);
    }
}

void conf_reference(FILE *out)
{
    fputs("# Configuration\n\n"
          "<!-- Written by `gloveboxd --reference`; change "
          "src/conf/options.c instead. -->\n\n"
          "Settings come from four places; a later one wins:\n\n"
          "1. the defaults below;\n"
          "2. the file: `--config FILE`, or `GLOVEBOX_CONFIG`, or "
          "`/etc/glovebox/glovebox.yaml`\n"
          "   (an ordinary user: `~/.config/glovebox/glovebox.yaml`) if it "
          "exists;\n"
          "   `--config none` reads no file;\n"
          "3. the environment: `GLOVEBOX_` and the option in capitals, as in "
          "`GLOVEBOX_LOG_LEVEL=debug`;\n"
          "4. flags: `--option-name VALUE` or `--option-name=VALUE`.\n\n"
          "Sizes are bytes, or a whole number with `KiB`, `MiB`, `GiB` or "
          "`TiB`. A file has at most 256 KiB;\n"
          "paths in it are absolute. An unknown key, a repeated key, a value "
          "out of range and a YAML\n"
          "alias are errors; the message names the file, the line and the "
          "nearest valid name.\n\n"
          "`gloveboxd --check` validates and exits, `--dump` prints every "
          "setting in force as a file,\n"
          "`--sample` prints a commented one.\n\n"
          "## Options\n\n",
          out);
    print_table(&conf_options_top, out);
    fprintf(out,
            "\n## Pools\n\n"
            "`pools:` is a list of 1 to %d pools, in the file only. Without "
            "it there is one pool with these\n"
            "defaults. Each pool starts from the defaults, not from the pool "
            "before it.\n\n",
            CONF_POOLS_MAX);
    print_table(&conf_options_pool, out);
    fputs("\n## An example\n\n"
          "```yaml\n"
          "listen: 127.0.0.1:8650\n"
          "sessions_per_tenant: 50\n"
          "pools:\n"
          "  - name: default\n"
          "    ready: 32\n"
          "  - name: large\n"
          "    memory_bytes: 4GiB\n"
          "    cores: 2\n"
          "    python_timeout_max_s: 3600\n"
          "```\n",
          out);
}
