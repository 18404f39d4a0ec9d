/* SPDX-License-Identifier: Apache-2.0 */
/* The regular files of a folder on this machine, for `files put -r`. */
#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define FILES_MAX 1000000u

void cli_tree_done(struct cli_tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->paths[i]);
    free(t->paths);
    *t = (struct cli_tree){0};
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void fts_done(FTS **fts)
{
    if (*fts)
        (void)fts_close(*fts);
}

static void add(struct cli_tree *t, const FTSENT *entry, size_t root)
{
    const char *path = entry->fts_path + root;

    if ((t->count & (t->count - 1)) == 0)
        t->paths = xrealloc(t->paths,
                            MAX(t->count * 2, (size_t)16) * sizeof(*t->paths));
    t->paths[t->count++] = xstrdup(path + strspn(path, "/"));
    t->bytes += (uint64_t)entry->fts_statp->st_size;
}

static int take(struct cli_tree *t, const FTSENT *entry, size_t root,
                struct error *err)
{
    switch (entry->fts_info) {
    case FTS_F:
        if (!S_ISREG(entry->fts_statp->st_mode)) {
            t->skipped++;
            return 0;
        }
        if (t->count == FILES_MAX)
            return error_set(err, ERR_TOO_LARGE, "more than %u files",
                             FILES_MAX);
        add(t, entry, root);
        return 0;
    case FTS_SL:
    case FTS_SLNONE:
    case FTS_DEFAULT:
        t->skipped++;
        return 0;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return error_errno(err, ERR_INVALID, entry->fts_errno,
                           "cannot read %s", entry->fts_path);
    default:
        return 0; /* folders, before and after */
    }
}

int cli_tree_read(const char *folder, struct cli_tree *ret, struct error *err)
{
    char *copy cleanup(mem_free) = xstrdup(folder);
    char *roots[] = {copy, NULL};
    struct cli_tree t = {0};
    FTS *fts cleanup(fts_done) =
        fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    FTSENT *entry;
    int r = 0;

    if (!fts)
        return error_errno(err, ERR_INVALID, errno, "cannot read %s", folder);
    while (r == 0 && (entry = fts_read(fts)))
        if (entry->fts_level > 0 || entry->fts_info != FTS_D)
            r = take(&t, entry, strlen(folder), err);
    if (r < 0) {
        cli_tree_done(&t);
        return r;
    }
    *ret = t;
    return 0;
}
