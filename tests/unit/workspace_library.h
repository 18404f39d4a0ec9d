/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the library, over workspace_keep.h: short words for adding
 * to it and looking at it. Included by one test file each.
 */
#ifndef GLOVEBOX_TESTS_WORKSPACE_LIBRARY_H
#define GLOVEBOX_TESTS_WORKSPACE_LIBRARY_H

#include "workspace_keep.h"

#include "workspace/library.h"

HELPER static const struct actor colleague = {.tenant = "t", .key = "key_b"};
HELPER static const struct actor stranger = {.tenant = "o", .key = "key_o"};

HELPER static int add_spec(struct kept *f, const struct actor *who,
                           struct library_spec spec, const char *text,
                           struct library_file *ret)
{
    char sha256[BLOB_NAME];
    int r;

    store_bytes_of(f, text, strlen(text), sha256);
    spec.sha256 = sha256;
    spec.size = strlen(text);
    r = library_add(f->w, who, &spec, ret, &f->err);
    blob_release(f->blobs, sha256);
    return r;
}

/* As key a; gives its id. */
HELPER static void add(struct kept *f, const char *name, const char *purpose,
                       const char *text, char ret[ID_MAX])
{
    struct library_file file;

    MUST(f,
         add_spec(f, &f->who,
                  (struct library_spec){.filename = name, .purpose = purpose},
                  text, &file));
    memcpy(ret, file.file, ID_MAX);
    library_file_done(&file);
}

HELPER static void assert_bytes(struct kept *f,
                                const struct library_file *file,
                                const char *text)
{
    struct workspace_file whole = {.size = file->size};
    int fd cleanup(fd_close) = -1;
    char got[256] = "";

    memcpy(whole.sha256, file->sha256, sizeof(whole.sha256));
    MUST(f, workspace_file_open(f->w, NULL, &whole, &fd, &f->err));
    assert_int_equal(fd_read_all(fd, got, sizeof(got) - 1), strlen(text));
    assert_string_equal(got, text);
}

HELPER static int get(struct kept *f, const struct actor *who,
                      const char *file)
{
    struct library_file got;
    int r = library_get(f->w, who, file, &got, &f->err);

    if (r == 0)
        library_file_done(&got);
    return r;
}

HELPER static int64_t libraries(struct kept *f)
{
    return NUMBER(f, "SELECT count(*) FROM workspaces WHERE made_for = ?1",
                  "library");
}

HELPER static int64_t events(struct kept *f, const char *action)
{
    return NUMBER(f, "SELECT count(*) FROM audit WHERE action = ?1", action);
}

/* The library as "name name name". */
HELPER static char *listed(struct kept *f, const struct actor *who,
                           const char *purpose, bool oldest_first,
                           unsigned limit, const char *after, bool *ret_more)
{
    struct buf out = {0};
    struct library_file *files;
    struct page_result got = {0};

    buf_adds(&out, "");
    MUST(f, library_list(f->w, who, purpose, oldest_first,
                         &(struct page){.limit = limit, .after = after},
                         &files, &got, &f->err));
    *ret_more = got.has_more;
    for (size_t i = 0; i < got.count; i++)
        buf_addf(&out, "%s%s", i ? " " : "", files[i].filename);
    library_files_free(files, got.count);
    return buf_take(&out, NULL);
}

#define LISTS(f, who, purpose, oldest, limit, after, want, more)              \
    do {                                                                      \
        bool more_;                                                           \
        char *list_ = listed(f, who, purpose, oldest, limit, after, &more_);  \
        assert_string_equal(list_, want);                                     \
        assert_int_equal(more_, more);                                        \
        free(list_);                                                          \
    } while (0)

HELPER static void set_age(struct kept *f, const char *file, int64_t ms)
{
    ALTER(f, "UPDATE library SET created_at_ms = ?2 WHERE file = ?1", "ti",
          file, ms);
    ALTER(f, "UPDATE files SET created_at_ms = ?2 WHERE id = ?1", "ti", file,
          ms);
}

HELPER static void expire(struct kept *f, const char *file)
{
    ALTER(f, "UPDATE library SET expires_at_ms = 1 WHERE file = ?1", "t",
          file);
}

HELPER static void path_of(struct kept *f, const char *file, char ret[ID_MAX],
                           char **ret_path)
{
    struct workspace_file got;

    MUST(f,
         workspace_file_find(f->w, &f->who, file, NULL, &got, ret, &f->err));
    *ret_path = got.path;
}

#endif
