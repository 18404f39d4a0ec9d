/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of an image: which blob is its configuration and which are its
 * layers, in an OCI layout (index.json) or a docker-archive (manifest.json).
 * Runs in the import's child process. A blob is used only after its digest was
 * verified.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "image/image_int.h"

#define INDEX_DEPTH 3 /* an index may name an index */
#define OUTER_ENTRIES 10000u
#define READ_SIZE 65536u

/* ---- a tar file --------------------------------------------------------- */

/* Names as images have them: no "..", at most eight folders. */
static bool outer_name_valid(const char *name)
{
    unsigned depth = 0;

    if (!name || !name[0] || name[0] == '/' || strlen(name) > 512)
        return false;
    for (const char *p = name; *p;) {
        size_t part = strcspn(p, "/");

        if (part == 2 && p[0] == '.' && p[1] == '.')
            return false;
        depth++;
        p += part + (p[part] == '/');
    }
    return depth <= 8;
}

static int make_outer_folders(int work, const char *name)
{
    char part[520];

    for (const char *slash = strchr(name, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        memcpy(part, name, (size_t)(slash - name));
        part[slash - name] = '\0';
        if (mkdirat(work, part, 0700) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

static int keep_file(struct image *im, struct archive *a, int work,
                     const char *name, struct error *err)
{
    char *buf cleanup(mem_free) = xmalloc(READ_SIZE);
    int fd cleanup(fd_close) =
        openat(work, name,
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    la_ssize_t n;
    int r;

    if (fd < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot unpack '%.150s'",
                           name);
    while ((n = archive_read_data(a, buf, READ_SIZE)) > 0) {
        im->bytes += (uint64_t)n;
        if (im->bytes > im->job->limits->bytes)
            return error_set(err, ERR_TOO_LARGE,
                             "the image is larger than %llu bytes",
                             (unsigned long long)im->job->limits->bytes);
        r = fd_write_all(fd, buf, (size_t)n);
        if (r < 0)
            return error_errno(err, r == -ENOSPC ? ERR_SPACE : ERR_INTERNAL,
                               -r, "cannot unpack '%.150s'", name);
    }
    return n == 0 ? 0
                  : error_set(err, ERR_INVALID,
                              "the image's file cannot be read: %.200s",
                              archive_error_string(a));
}

int image_layout_unpack(struct image *im, int file, int work,
                        struct error *err)
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry;
    uint64_t entries = 0;
    int r = 0, got;

    (void)archive_read_support_filter_gzip(a);
    (void)archive_read_support_filter_zstd(a);
    (void)archive_read_support_format_tar(a);
    if (archive_read_open_fd(a, file, READ_SIZE) != ARCHIVE_OK)
        r = error_set(err, ERR_INVALID,
                      "it is neither a folder nor a tar file: %.150s",
                      archive_error_string(a));
    while (r == 0 &&
           ((got = archive_read_next_header(a, &entry)) == ARCHIVE_OK ||
            got == ARCHIVE_WARN)) {
        const char *name = archive_entry_pathname(entry);
        const char *link = archive_entry_symlink(entry);

        if (++entries > OUTER_ENTRIES)
            r = error_set(err, ERR_TOO_LARGE,
                          "the image's file has more than %u entries",
                          OUTER_ENTRIES);
        else if (archive_entry_filetype(entry) == AE_IFDIR)
            continue;
        else if (!outer_name_valid(name) || make_outer_folders(work, name) < 0)
            r = error_set(err, ERR_INVALID,
                          "'%.150s' is no name in an image's file",
                          name ? name : "");
        else if (archive_entry_filetype(entry) == AE_IFREG &&
                 !archive_entry_hardlink(entry))
            r = keep_file(im, a, work, name, err);
        else if (link && symlinkat(link, work, name) < 0)
            r = error_errno(err, ERR_INVALID, errno, "cannot unpack '%.150s'",
                            name);
    }
    if (r == 0 && got != ARCHIVE_EOF)
        r = error_set(err, ERR_INVALID,
                      "the image's file cannot be read: %.200s",
                      archive_error_string(a));
    (void)archive_read_free(a);
    im->bytes = 0; /* of the layers, from here on */
    return r;
}

/* ---- blobs -------------------------------------------------------------- */

/* Links lead within the layout. */
static int open_inside(struct image *im, const char *name, int *ret,
                       struct error *err)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd cleanup(fd_close) =
        (int)syscall(SYS_openat2, im->source, name, &how, sizeof(how));
    struct stat st;

    if (fd < 0)
        return error_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INVALID,
                           errno, "cannot open '%.150s' of the image", name);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, ERR_INVALID,
                         "'%.150s' of the image is no regular file", name);
    *ret = take_fd(fd);
    return 0;
}

/* "sha256:" and 64 hex digits; ret: the digits. */
static bool read_digest(const char *text, char ret[IMAGE_DIGEST])
{
    if (!text || strncmp(text, "sha256:", 7) != 0 ||
        strlen(text) != 7 + IMAGE_DIGEST - 1 ||
        strspn(text + 7, "0123456789abcdef") != IMAGE_DIGEST - 1)
        return false;
    memcpy(ret, text + 7, IMAGE_DIGEST);
    return true;
}

/* Opens the blob of a descriptor {digest, size} and verifies both. */
static int open_blob(struct image *im, const json_t *descriptor, int *ret,
                     char ret_hex[IMAGE_DIGEST], struct error *err)
{
    const char *text =
        json_string_value(json_object_get(descriptor, "digest"));
    const json_t *size = json_object_get(descriptor, "size");
    char want[IMAGE_DIGEST], have[IMAGE_DIGEST], name[96];
    int fd cleanup(fd_close) = -1;
    uint64_t bytes = 0;
    int r;

    if (!read_digest(text, want))
        return error_set(err, ERR_INVALID,
                         "the image names a blob by '%.100s', not by a "
                         "SHA-256 digest",
                         text ? text : "");
    (void)snprintf(name, sizeof(name), "blobs/sha256/%s", want);
    r = open_inside(im, name, &fd, err);
    if (r == 0)
        r = image_layer_hash(fd, have, &bytes, err);
    if (r < 0)
        return r;
    if (strcmp(have, want) != 0 ||
        (json_is_integer(size) && (uint64_t)json_integer_value(size) != bytes))
        return error_set(err, ERR_INVALID,
                         "the blob %.12s… is damaged: its SHA-256 or its size "
                         "is not what the image promises",
                         want);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "lseek");
    memcpy(ret_hex, want, IMAGE_DIGEST);
    *ret = take_fd(fd);
    return 0;
}

static int parse_file(int fd, const char *what, json_t **ret,
                      struct error *err)
{
    char *text cleanup(mem_free) = xmalloc(IMAGE_JSON_MAX + 1);
    ssize_t n = fd_read_all(fd, text, IMAGE_JSON_MAX + 1);
    static const struct json_limits limits = {
        .depth = 32, .members = 200000, .number = 64};

    if (n < 0)
        return error_errno(err, ERR_INVALID, (int)-n, "cannot read %s", what);
    if (n > (ssize_t)IMAGE_JSON_MAX)
        return error_set(err, ERR_TOO_LARGE, "%s has more than %u bytes", what,
                         IMAGE_JSON_MAX);
    if (json_check(text, (size_t)n, &limits, err) < 0)
        return error_wrap(err, "%s", what);
    *ret = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    return *ret ? 0 : error_set(err, ERR_INVALID, "%s is no JSON", what);
}

static int parse_blob(struct image *im, const json_t *descriptor,
                      const char *what, json_t **ret,
                      char ret_hex[IMAGE_DIGEST], struct error *err)
{
    int fd cleanup(fd_close) = -1;
    int r = open_blob(im, descriptor, &fd, ret_hex, err);

    return r < 0 ? r : parse_file(fd, what, ret, err);
}

/* ---- the configuration -------------------------------------------------- */

static const char *own_architecture(void)
{
    static struct utsname name; /* one caller, one process */

    if (uname(&name) < 0)
        return "";
    if (strcmp(name.machine, "x86_64") == 0)
        return "amd64";
    if (strcmp(name.machine, "aarch64") == 0)
        return "arm64";
    return name.machine;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static int read_config(struct image *im, const json_t *config,
                       struct error *err)
{
    const json_t *inner = json_object_get(config, "config");
    const char *architecture = text_of(config, "architecture");
    const json_t *variable;
    json_t *environment = json_array();
    size_t i;

    (void)json_object_set_new(im->result, "environment", environment);
    if (strcmp(text_of(config, "os"), "linux") != 0 ||
        strcmp(architecture, own_architecture()) != 0) {
        (void)error_set(err, ERR_UNSUPPORTED,
                        "the image is for %.40s/%.40s and this machine is "
                        "linux/%s",
                        text_of(config, "os"), architecture,
                        own_architecture());
        return error_hint(err, "export the image for linux/%s",
                          own_architecture());
    }
    (void)json_object_set_new(im->result, "architecture",
                              json_string(architecture));
    json_array_foreach (json_object_get(inner, "Env"), i, variable)
        if (json_is_string(variable))
            (void)json_array_append(environment,
                                    (json_t *)(uintptr_t)variable);
    for (size_t k = 0; k < 2; k++) {
        static const char *const names[] = {"WorkingDir", "User"};
        static const char *const keys[] = {"working_dir", "user"};

        (void)json_object_set_new(im->result, keys[k],
                                  json_string(text_of(inner, names[k])));
    }
    return 0;
}

static const char *diff_id_of(const json_t *config, size_t i,
                              char hex[IMAGE_DIGEST])
{
    const json_t *ids =
        json_object_get(json_object_get(config, "rootfs"), "diff_ids");

    return read_digest(json_string_value(json_array_get(ids, i)), hex) ? hex
                                                                       : NULL;
}

static int check_layers(struct image *im, const json_t *layers,
                        const json_t *config, struct error *err)
{
    const json_t *ids =
        json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    size_t count = json_array_size(layers);

    if (count == 0 || count > im->job->limits->layers)
        return error_set(err, count ? ERR_TOO_LARGE : ERR_INVALID,
                         "the image has %zu layers; 1 to %u are possible",
                         count, im->job->limits->layers);
    if (json_array_size(ids) != count)
        return error_set(err, ERR_INVALID,
                         "the image has %zu layers and digests of %zu", count,
                         json_array_size(ids));
    (void)json_object_set_new(im->result, "layers",
                              json_integer((json_int_t)count));
    return 0;
}

/* ---- OCI layout --------------------------------------------------------- */

/* The entry of an index for this machine; one without a platform serves. */
static const json_t *choose_manifest(const json_t *index)
{
    const json_t *entry, *bare = NULL;
    size_t i;

    json_array_foreach (json_object_get(index, "manifests"), i, entry) {
        const json_t *platform = json_object_get(entry, "platform");

        if (!json_is_object(platform)) {
            bare = bare ? bare : entry;
            continue;
        }
        if (strcmp(text_of(platform, "os"), "linux") == 0 &&
            strcmp(text_of(platform, "architecture"), own_architecture()) == 0)
            return entry;
    }
    return bare;
}

static int apply_manifest(struct image *im, const json_t *manifest,
                          struct error *err)
{
    json_t *config cleanup(json_unref) = NULL;
    const json_t *layers = json_object_get(manifest, "layers"), *layer;
    char hex[IMAGE_DIGEST], id[IMAGE_DIGEST];
    size_t i;
    int r = parse_blob(im, json_object_get(manifest, "config"),
                       "the image's configuration", &config, hex, err);

    if (r == 0) {
        char digest[80];

        (void)snprintf(digest, sizeof(digest), "sha256:%s", hex);
        (void)json_object_set_new(im->result, "digest", json_string(digest));
        r = read_config(im, config, err);
    }
    if (r == 0)
        r = check_layers(im, layers, config, err);
    if (r < 0)
        return r;
    json_array_foreach (layers, i, layer) {
        int fd cleanup(fd_close) = -1;

        r = open_blob(im, layer, &fd, hex, err);
        if (r == 0)
            r = image_layer_apply(im, fd, diff_id_of(config, i, id), err);
        if (r < 0)
            return error_wrap(err, "layer %zu", i + 1);
    }
    return 0;
}

static int apply_oci(struct image *im, int index_fd, struct error *err)
{
    json_t *doc cleanup(json_unref) = NULL;
    char hex[IMAGE_DIGEST];
    int r = parse_file(index_fd, "index.json", &doc, err);

    (void)json_object_set_new(im->result, "format", json_string("oci"));
    for (int depth = 0; r == 0 && depth <= INDEX_DEPTH; depth++) {
        const json_t *entry = choose_manifest(doc);
        json_t *next = NULL;

        if (json_is_array(json_object_get(doc, "layers")))
            return apply_manifest(im, doc, err);
        if (!entry)
            return error_set(err, ERR_UNSUPPORTED,
                             "the image has no manifest for linux/%s",
                             own_architecture());
        if (depth == 0)
            (void)json_object_set_new(
                im->result, "reference",
                json_string(text_of(json_object_get(entry, "annotations"),
                                    "org.opencontainers.image.ref.name")));
        r = parse_blob(im, entry, "the image's manifest", &next, hex, err);
        json_decref(doc);
        doc = next;
    }
    return r < 0 ? r
                 : error_set(err, ERR_INVALID,
                             "index.json names indexes without end");
}

/* ---- docker-archive ----------------------------------------------------- */

/* "HEX.json" or "blobs/sha256/HEX": the name promises the digest. */
static bool name_promises(const char *name, char ret[IMAGE_DIGEST])
{
    const char *last = strrchr(name, '/');

    last = last ? last + 1 : name;
    if (strspn(last, "0123456789abcdef") != IMAGE_DIGEST - 1 ||
        (last[IMAGE_DIGEST - 1] && strcmp(last + IMAGE_DIGEST - 1, ".json")))
        return false;
    memcpy(ret, last, IMAGE_DIGEST - 1);
    ret[IMAGE_DIGEST - 1] = '\0';
    return true;
}

static int open_config(struct image *im, const json_t *one, json_t **ret,
                       struct error *err)
{
    const char *name = text_of(one, "Config");
    char want[IMAGE_DIGEST], have[IMAGE_DIGEST], digest[80];
    int fd cleanup(fd_close) = -1;
    uint64_t bytes;
    int r;

    if (!name[0])
        return error_set(err, ERR_INVALID,
                         "manifest.json names no configuration (Config)");
    r = open_inside(im, name, &fd, err);
    if (r == 0)
        r = image_layer_hash(fd, have, &bytes, err);
    if (r < 0)
        return r;
    if (name_promises(name, want) && strcmp(want, have) != 0)
        return error_set(err, ERR_INVALID,
                         "the configuration %.12s… is damaged: its SHA-256 is "
                         "not what its name promises",
                         want);
    (void)snprintf(digest, sizeof(digest), "sha256:%s", have);
    (void)json_object_set_new(im->result, "digest", json_string(digest));
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "lseek");
    return parse_file(fd, "the image's configuration", ret, err);
}

static int apply_docker(struct image *im, int manifest_fd, struct error *err)
{
    json_t *doc cleanup(json_unref) = NULL;
    json_t *config cleanup(json_unref) = NULL;
    const json_t *one, *layers, *layer;
    size_t i;
    int r = parse_file(manifest_fd, "manifest.json", &doc, err);

    if (r < 0)
        return r;
    if (json_array_size(doc) != 1) {
        (void)error_set(err, ERR_INVALID,
                        "manifest.json has %zu images; one is imported at a "
                        "time",
                        json_array_size(doc));
        return error_hint(err, "save the image alone: docker save IMAGE");
    }
    one = json_array_get(doc, 0);
    layers = json_object_get(one, "Layers");
    (void)json_object_set_new(im->result, "format",
                              json_string("docker-archive"));
    (void)json_object_set_new(
        im->result, "reference",
        json_string(json_string_value(
                        json_array_get(json_object_get(one, "RepoTags"), 0))
                        ?: ""));
    r = open_config(im, one, &config, err);
    if (r == 0)
        r = read_config(im, config, err);
    if (r == 0)
        r = check_layers(im, layers, config, err);
    if (r < 0)
        return r;
    json_array_foreach (layers, i, layer) {
        int fd cleanup(fd_close) = -1;
        char id[IMAGE_DIGEST];
        const char *diff_id = diff_id_of(config, i, id);

        if (!json_is_string(layer) || !diff_id)
            r = error_set(err, ERR_INVALID,
                          "it has no name or no SHA-256 digest");
        else
            r = open_inside(im, json_string_value(layer), &fd, err);
        if (r == 0)
            r = image_layer_apply(im, fd, diff_id, err);
        if (r < 0)
            return error_wrap(err, "layer %zu", i + 1);
    }
    return 0;
}

int image_layout_apply(struct image *im, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    int r = open_inside(im, "index.json", &fd, err);

    if (r == 0)
        return apply_oci(im, fd, err);
    if (r != -ERR_NOT_FOUND)
        return r;
    r = open_inside(im, "manifest.json", &fd, err);
    if (r == 0)
        return apply_docker(im, fd, err);
    if (r != -ERR_NOT_FOUND)
        return r;
    (void)error_set(err, ERR_INVALID,
                    "it is no image: neither index.json (OCI layout) nor "
                    "manifest.json (docker save) is in it");
    return error_hint(err, "make one with `docker save -o FILE IMAGE` or "
                           "`skopeo copy ... oci:DIR`");
}
