/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the kept inputs of one fuzz target to it, one TAP case per file, so
 * that what fuzzing once found is tried in every `make test` without clang.
 * Linked with one tests/fuzz/fuzz_<input>.c; run by tools/test-run with the
 * folder of the inputs. Does no fuzzing itself.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The bytes are copied to a block of their own size, so that a sanitizer
 * notices the first byte read past them. */
static int replay(const char *folder, const char *name)
{
    static uint8_t input[INPUT_MAX];
    char path[4096];
    FILE *f;
    uint8_t *exact;
    size_t len;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "rbe");
    if (!f)
        return -1;
    len = fread(input, 1, sizeof(input), f);
    fclose(f);
    exact = malloc(len ? len : 1);
    if (!exact)
        return -1;
    memcpy(exact, input, len);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int count, failed = 0;

    count = argc == 2 ? scandir(argv[1], &entries, visible, alphasort) : -1;
    if (count < 0) {
        fprintf(stderr, "usage: replay FOLDER-OF-INPUTS\n");
        return 2;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        int r = replay(argv[1], entries[i]->d_name);

        printf("%sok %d - %s\n", r ? "not " : "", i + 1, entries[i]->d_name);
        fflush(stdout);
        failed += r != 0;
        free(entries[i]);
    }
    free(entries);
    return failed > 0;
}
