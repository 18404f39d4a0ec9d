/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the option tables: the settings in force (--dump), the flags
 * (--help), the sample file packaging/glovebox.yaml (--sample) and the page
 * docs/CONFIG.md (--reference). Runs in the daemon; dump and flags also in the
 * command line.
 */
#include <string.h>

#include "base/mem.h"
#include "conf/conf_int.h"

/* ---- --dump: a file that loads to the settings in force ----------------- */

/* Plain where YAML takes it as is, otherwise in double quotes. */
static void print_text(const char *text, FILE *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/:";
    size_t len = strlen(text);

    if (len && strspn(text, plain) == len && text[len - 1] != ':') {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_values(const void *base, const struct conf_options *table,
                         const char *first, const char *indent, FILE *out)
{
    for (size_t i = 0; i < table->count; i++) {
        struct buf text cleanup(buf_done) = {0};

        conf_value_format(base, &table->row[i], &text);
        fprintf(out, "%s%s: ", i ? indent : first, table->row[i].name);
        print_text(text.data ? text.data : "", out);
        fputc('\n', out);
    }
}

void conf_dump(const struct conf *c, FILE *out)
{
    print_values(c, &conf_options_top, "", "", out);
    fputs("pools:\n", out);
    for (size_t i = 0; i < c->pool_count; i++)
        print_values(&c->pools[i], &conf_options_pool, "  - ", "    ", out);
    if (c->model_count)
        fputs("models:\n", out);
    for (size_t i = 0; i < c->model_count; i++)
        print_values(&c->models[i], &conf_options_model, "  - ", "    ", out);
    if (c->bucket_count)
        fputs("buckets:\n", out);
    for (size_t i = 0; i < c->bucket_count; i++)
        print_values(&c->buckets[i], &conf_options_bucket, "  - ", "    ",
                     out);
}

/* ---- --help: the flags -------------------------------------------------- */

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
          "the\nenvironment (GLOVEBOX_OPTION_NAME); pools, models "
          "and buckets are set in the file only.\n",
          out);
}

/* ---- --sample: every default, commented out ----------------------------- */

#define SAMPLE_WIDTH 78

/* A sentence as comment lines, without the reference page's back quotes. */
static void print_help(const char *text, const char *indent, FILE *out)
{
    size_t column = 0;

    while (*text) {
        size_t len = strcspn(text, " "), shown = 0;

        for (size_t i = 0; i < len; i++)
            shown += text[i] != '`';
        if (column == 0 || column + 1 + shown > SAMPLE_WIDTH) {
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
    fputs("\n# Without this list there is the built-in model echo only, and "
          "those that\n# were added with `glovebox model add`.\n"
          "#models:\n"
          "#  - name: gpt\n",
          out);
    for (size_t i = 1; i < conf_options_model.count; i++)
        print_option(&conf_options_model.row[i], "    ", out);
    fputs("\n# Buckets of S3-compatible stores, for blobs (blob_bucket), "
          "mirrors and inputs.\n"
          "#buckets:\n"
          "#  - name: glovebox\n",
          out);
    for (size_t i = 1; i < conf_options_bucket.count; i++)
        print_option(&conf_options_bucket.row[i], "    ", out);
}

/* ---- --reference: docs/CONFIG.md ---------------------------------------- */

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
    fprintf(out,
            "\n## Models\n\n"
            "`models:` is a list of at most %d language models, in the file "
            "only; [MODELS.md](MODELS.md) explains\n"
            "them. More can be added with `glovebox model add`.\n\n",
            CONF_MODELS_MAX);
    print_table(&conf_options_model, out);
    fprintf(out,
            "\n## Buckets\n\n"
            "`buckets:` is a list of at most %d buckets of S3-compatible "
            "stores, in the file only;\n"
            "[STORAGE.md](STORAGE.md) explains them.\n\n",
            CONF_BUCKETS_MAX);
    print_table(&conf_options_bucket, out);
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
