/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder as a zip, made while it is sent: entries as of one commit, read in
 * pages, bytes from verified blobs, a fixed amount of memory. Runs in the
 * daemon on a worker. libarchive only writes here; nothing of a client's is
 * parsed (F6, F9).
 */
#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

#define CHUNK 65536u
#define PAGE 500u

struct zip {
    struct workspaces *w;
    const struct actor *who;
    const char *id;
    int64_t seq;  /* the commit it shows */
    size_t strip; /* bytes of the path in front of its name in the zip */
    struct archive *archive;
    struct archive_entry *entry;
    char *chunk;
    int (*write)(void *ctx, const void *bytes, size_t len);
    void *ctx;
    int stopped; /* what write returned when it wanted no more */
};

static void zip_done(struct zip *z)
{
    /* Writes the end if it was not closed; it goes nowhere. */
    z->stopped = z->stopped ? z->stopped : -ERR_INTERNAL;
    if (z->archive)
        (void)archive_write_free(z->archive);
    archive_entry_free(z->entry);
    free(z->chunk);
}

static la_ssize_t on_write(struct archive *archive, void *ctx,
                           const void *bytes, size_t len)
{
    struct zip *z = ctx;

    (void)archive;
    /* Never told of a failure: libarchive (3.6) would give up in the midst
     * of an entry and lose its memory for compressing. We stop by ourselves.
     */
    if (!z->stopped)
        z->stopped = z->write(z->ctx, bytes, len);
    return (la_ssize_t)len;
}

static int failed(struct zip *z, struct error *err)
{
    if (z->stopped)
        return error_set(err, (enum error_code) - z->stopped,
                         "the zip was not sent to its end");
    return error_set(err, ERR_INTERNAL, "the zip cannot be written");
}

static int zip_open(struct zip *z, struct error *err)
{
    struct archive *a = z->archive = archive_write_new();

    z->entry = archive_entry_new();
    z->chunk = xmalloc(CHUNK);
    /* Names are UTF-8 whatever the daemon's locale; no padding at the end. */
    if (!a || !z->entry || archive_write_set_format_zip(a) != ARCHIVE_OK ||
        archive_write_set_format_option(a, "zip", "compression", "deflate") !=
            ARCHIVE_OK ||
        archive_write_set_format_option(a, "zip", "hdrcharset", "UTF-8") !=
            ARCHIVE_OK ||
        archive_write_set_bytes_per_block(a, CHUNK) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
        archive_write_open(a, z, NULL, on_write, NULL) != ARCHIVE_OK)
        return failed(z, err);
    return 0;
}

static int add_bytes(struct zip *z, int fd, uint64_t size, struct error *err)
{
    uint64_t left = size;

    while (left) {
        size_t want = (size_t)MIN(left, (uint64_t)CHUNK);
        ssize_t n = fd_read_all(fd, z->chunk, want);

        if (n != (ssize_t)want)
            return error_set(err, ERR_INTERNAL,
                             "a stored file cannot be read");
        if (archive_write_data(z->archive, z->chunk, want) != (la_ssize_t)want)
            return failed(z, err);
        left -= want;
    }
    return 0;
}

static int add_file(struct zip *z, const struct workspace_file *f,
                    struct error *err)
{
    struct archive_entry *e = z->entry;
    int fd cleanup(fd_close) = -1;
    int r = workspace_file_open(z->w, NULL, f, &fd, err);

    if (r < 0)
        return r;
    archive_entry_clear(e);
    archive_entry_set_pathname_utf8(e, f->path + z->strip);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, f->executable ? 0755 : 0644);
    archive_entry_set_size(e, (la_int64_t)f->size);
    archive_entry_set_mtime(e, f->modified_at_ms / 1000, 0);
    if (archive_write_header(z->archive, e) != ARCHIVE_OK || z->stopped)
        return failed(z, err);
    return add_bytes(z, fd, f->size, err);
}

struct file_page {
    struct workspace_file *files;
    struct page_result got;
};

static void file_page_done(struct file_page *p)
{
    workspace_files_free(p->files, p->got.count);
}

/* One page after another; asks anew each time whether the actor still may. */
static int add_folder(struct zip *z, const char *prefix, uint64_t *ret_count,
                      struct error *err)
{
    char *after cleanup(mem_free) = NULL;
    bool more = true;

    while (more) {
        struct file_page page cleanup(file_page_done) = {0};
        int r = workspace_files_list(
            z->w, z->who, z->id,
            &(struct workspace_files_spec){
                .prefix = prefix, .at = z->seq, .limit = PAGE, .after = after},
            &page.files, &page.got, err);

        for (size_t i = 0; i < page.got.count && r == 0; i++)
            r = add_file(z, &page.files[i], err);
        if (r < 0)
            return r;
        *ret_count += page.got.count;
        more = page.got.has_more && page.got.count;
        if (more) {
            free(after);
            after = xstrdup(page.files[page.got.count - 1].path);
        }
    }
    return 0;
}

/* A prefix that names a file is that file, any other a folder. */
static int add_all(struct zip *z, const char *prefix, struct error *err)
{
    char *folder cleanup(mem_free) = NULL;
    size_t len = strlen(prefix);
    struct workspace_file file = {0};
    uint64_t count = 0;
    const char *slash;
    int r;

    if (len && prefix[len - 1] != '/') {
        r = workspace_file_get(z->w, z->who, z->id, prefix, NULL, &file, err);
        if (r != -ERR_NOT_FOUND) {
            slash = strrchr(prefix, '/');
            z->strip = slash ? (size_t)(slash - prefix) + 1 : 0;
            if (r == 0)
                r = workspace_govern_fetch(z->w, z->who, &file, err);
            if (r == 0)
                r = add_file(z, &file, err);
            workspace_file_done(&file);
            return r;
        }
    }
    folder =
        len ? xasprintf("%.*s/", (int)(len - (prefix[len - 1] == '/')), prefix)
            : xstrdup("");
    /* "a/b/" is packed as "b/…" . */
    for (size_t i = 0; len && i + 1 < strlen(folder); i++)
        if (folder[i] == '/')
            z->strip = i + 1;
    r = workspace_govern_archive(z->w, z->who, z->id, folder, z->seq, err);
    if (r == 0)
        r = add_folder(z, folder, &count, err);
    if (r == 0 && count == 0 && len)
        r = error_set(err, ERR_NOT_FOUND, "no such file or folder");
    return r;
}

int workspace_archive(struct workspaces *w, const struct actor *who,
                      const char *id, const char *prefix,
                      int (*write)(void *ctx, const void *bytes, size_t len),
                      void *ctx, struct error *err)
{
    struct zip z cleanup(zip_done) = {
        .w = w, .who = who, .id = id, .write = write, .ctx = ctx};
    struct workspace_info info;
    int r = workspace_get(w, who, id, &info, err);

    if (r < 0)
        return r;
    z.seq = info.head;
    r = zip_open(&z, err);
    if (r == 0)
        r = add_all(&z, prefix ? prefix : "", err);
    if (r == 0 && (archive_write_close(z.archive) != ARCHIVE_OK || z.stopped))
        r = failed(&z, err);
    return r;
}
