/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the settings in force as a file that would load to the same. Runs in
 * the daemon and the command line for --dump.
 */
#include <string.h>

#include "base/mem.h"
#include "conf/conf_int.h"

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
}
