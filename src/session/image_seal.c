/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an image at rest (S1, S4). Runs in gloveboxd. The content was
 * written by unreviewed code, so it is never parsed here: it is
 * encrypted on the way to the disk, and authenticated as a whole before any
 * process gets it back.
 *
 *   header   magic, format, chunk size, plain size, salt          64 bytes
 *   chunks   AES-256-GCM of up to 256 KiB each, tag behind
 *
 * The key of an image is an HMAC of the header and of the image's id, tenant,
 * session and generation under a key of the vault. So an image that belongs
 * to another tenant or session, an older one of the same session, and one
 * whose header was changed fail like a forged one. The nonce is the number of
 * the chunk, and whether it is the last: chunks cannot be exchanged, left out
 * or added.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/image.h"

#define MAGIC "GBXIMAGE"
#define FORMAT 1u
#define CHUNK (256u << 10)
#define TAG 16u
#define NONCE 12u
#define THREADS 4u
#define PER_THREAD (2u << 20) /* bytes that are worth another one */

struct header {
    char magic[8];
    uint32_t format, chunk;
    uint64_t size; /* of the plain bytes */
    unsigned char salt[32];
    uint64_t zero;
};
_Static_assert(sizeof(struct header) == IMAGE_HEADER, "as documented");

static void context_free(EVP_CIPHER_CTX **ctx)
{
    EVP_CIPHER_CTX_free(*ctx);
}

static void key_of(const unsigned char master[IMAGE_KEY],
                   const struct image_bound *bound, const struct header *h,
                   unsigned char ret[IMAGE_KEY])
{
    const char *const parts[] = {"glovebox image 1", bound->tenant,
                                 bound->session, bound->id};
    struct buf b cleanup(buf_done) = {0};

    /* Each with its NUL, so that none runs into the next. */
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        buf_add(&b, parts[i], strlen(parts[i]) + 1);
    buf_add(&b, &bound->generation, sizeof(bound->generation));
    buf_add(&b, h, sizeof(*h));
    hash_hmac(master, IMAGE_KEY, b.data, b.len, ret);
}

static void nonce_of(uint64_t number, bool last, unsigned char ret[NONCE])
{
    uint32_t end = last;

    memcpy(ret, &number, sizeof(number));
    memcpy(ret + sizeof(number), &end, sizeof(end));
}

static bool seal_chunk(EVP_CIPHER_CTX *ctx, const unsigned char *key,
                       uint64_t number, bool last, const unsigned char *in,
                       size_t len, unsigned char *out)
{
    unsigned char nonce[NONCE];
    int n = 0, end = 0;

    nonce_of(number, last, nonce);
    return EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
           EVP_EncryptUpdate(ctx, out, &n, in, (int)len) == 1 &&
           EVP_EncryptFinal_ex(ctx, out + n, &end) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, out + len) == 1;
}

static bool open_chunk(EVP_CIPHER_CTX *ctx, const unsigned char *key,
                       uint64_t number, bool last, unsigned char *in,
                       size_t len, unsigned char *out)
{
    unsigned char nonce[NONCE];
    int n = 0, end = 0;

    nonce_of(number, last, nonce);
    return EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
           EVP_DecryptUpdate(ctx, out, &n, in, (int)len) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, in + len) ==
               1 &&
           EVP_DecryptFinal_ex(ctx, out + n, &end) == 1;
}

uint64_t image_sealed_size(uint64_t size)
{
    return IMAGE_HEADER + size + (size + CHUNK - 1) / CHUNK * TAG;
}

static int read_plain(int fd, void *ret, size_t len, uint64_t at,
                      struct error *err)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n =
            pread(fd, (char *)ret + done, len - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_errno(err, ERR_GUEST, n < 0 ? errno : EIO,
                               "an image cannot be read");
        done += (size_t)n;
    }
    return 0;
}

static int write_failed(int errnum, struct error *err)
{
    if (errnum == ENOSPC || errnum == EDQUOT)
        return error_set(err, ERR_SPACE, "no room left to store an image");
    return error_errno(err, ERR_INTERNAL, errnum, "cannot store an image");
}

/* ---- many chunks at once ------------------------------------------------ */

/* Chunks do not depend on each other, so a few threads take turns. */
struct chunks {
    const unsigned char *key;
    uint64_t size; /* of the plain bytes */
    int from, to;
    int (*fn)(const struct chunks *c, EVP_CIPHER_CTX *ctx, uint64_t number,
              unsigned char *room, struct error *err);
    struct mutex lock;
    uint64_t next; /* lock, as the rest */
    struct error err;
    int rc;
};

static size_t chunk_len(const struct chunks *c, uint64_t number)
{
    return (size_t)MIN(c->size - number * CHUNK, (uint64_t)CHUNK);
}

static void chunks_main(void *arg)
{
    struct chunks *c = arg;
    EVP_CIPHER_CTX *ctx cleanup(context_free) = EVP_CIPHER_CTX_new();
    unsigned char *room cleanup(mem_free) = xmalloc(2 * (CHUNK + TAG));
    struct error err;

    for (;;) {
        uint64_t number;
        int rc;

        mutex_lock(&c->lock);
        number = c->rc < 0 ? UINT64_MAX : c->next++;
        mutex_unlock(&c->lock);
        if (number > (c->size - 1) / CHUNK)
            break;
        rc = ctx ? c->fn(c, ctx, number, room, &err)
                 : error_set(&err, ERR_BUSY, "no memory for an image");
        mutex_lock(&c->lock);
        if (rc < 0 && c->rc == 0) {
            c->rc = rc;
            c->err = err;
        }
        mutex_unlock(&c->lock);
    }
    explicit_bzero(room, 2 * (CHUNK + TAG));
}

static int chunks_run(struct chunks *c, struct error *err)
{
    struct thread threads[THREADS - 1];
    unsigned count = 0;
    uint64_t want = MIN((uint64_t)get_nprocs(), c->size / PER_THREAD);
    struct error ignored;

    memset(threads, 0, sizeof(threads));
    mutex_init(&c->lock);
    while (count + 1 < MIN(want, (uint64_t)THREADS) &&
           thread_start(&threads[count], "image-chunks", chunks_main, c,
                        &ignored) == 0)
        count++;
    chunks_main(c);
    for (unsigned i = 0; i < count; i++)
        thread_join(&threads[i]);
    mutex_done(&c->lock);
    if (c->rc < 0)
        *err = c->err;
    return c->rc;
}

static int write_at(int fd, const void *bytes, size_t len, uint64_t at)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, len - done,
                           (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}

static uint64_t sealed_at(uint64_t number)
{
    return IMAGE_HEADER + number * (CHUNK + TAG);
}

static int seal_one(const struct chunks *c, EVP_CIPHER_CTX *ctx,
                    uint64_t number, unsigned char *room, struct error *err)
{
    unsigned char *sealed = room + CHUNK + TAG;
    size_t len = chunk_len(c, number);
    int rc = read_plain(c->from, room, len, number * CHUNK, err);

    if (rc < 0)
        return rc;
    if (!seal_chunk(ctx, c->key, number, number * CHUNK + len == c->size, room,
                    len, sealed))
        return error_set(err, ERR_INTERNAL, "an image cannot be sealed");
    rc = write_at(c->to, sealed, len + TAG, sealed_at(number));
    return rc < 0 ? write_failed(-rc, err) : 0;
}

int image_seal(const unsigned char master[IMAGE_KEY],
               const struct image_bound *bound, int from, uint64_t size,
               int to, struct error *err)
{
    struct header h = {
        .magic = MAGIC, .format = FORMAT, .chunk = CHUNK, .size = size};
    unsigned char key[IMAGE_KEY];
    struct chunks c = {
        .key = key, .size = size, .from = from, .to = to, .fn = seal_one};
    int rc;

    if (size == 0)
        return error_set(err, ERR_GUEST, "the image is empty");
    ids_random(h.salt, sizeof(h.salt));
    key_of(master, bound, &h, key);
    rc = write_at(to, &h, sizeof(h), 0);
    rc = rc < 0 ? write_failed(-rc, err) : chunks_run(&c, err);
    explicit_bzero(key, sizeof(key));
    return rc;
}

static int not_authentic(struct error *err)
{
    return error_set(err, ERR_CORRUPT,
                     "the image is not the one that was stored");
}

static int read_header(int from, uint64_t most, struct header *ret,
                       struct error *err)
{
    struct stat st;

    if (fstat(from, &st) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot read an image");
    if (pread(from, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) ||
        memcmp(ret->magic, MAGIC, sizeof(ret->magic)) != 0 ||
        ret->format != FORMAT || ret->chunk != CHUNK || ret->size == 0 ||
        ret->zero != 0 || ret->size > IMAGE_MOST ||
        (uint64_t)st.st_size != image_sealed_size(ret->size))
        return not_authentic(err);
    if (ret->size > most)
        return error_set(err, ERR_TOO_LARGE,
                         "the image does not fit into the memory limit");
    return 0;
}

static int open_one(const struct chunks *c, EVP_CIPHER_CTX *ctx,
                    uint64_t number, unsigned char *room, struct error *err)
{
    unsigned char *plain = room + CHUNK + TAG;
    size_t len = chunk_len(c, number);
    ssize_t n;
    int rc;

    do
        n = pread(c->from, room, len + TAG, (off_t)sealed_at(number));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot read an image");
    if (n != (ssize_t)(len + TAG) ||
        !open_chunk(ctx, c->key, number, number * CHUNK + len == c->size, room,
                    len, plain))
        return not_authentic(err);
    /* Written, not mapped: a machine without memory fails here. */
    rc = write_at(c->to, plain, len, number * CHUNK);
    return rc < 0 ? error_errno(err, ERR_BUSY, -rc, "no memory for an image")
                  : 0;
}

int image_unseal(const unsigned char master[IMAGE_KEY],
                 const struct image_bound *bound, int from, uint64_t most,
                 int *ret_fd, struct error *err)
{
    struct header h;
    unsigned char key[IMAGE_KEY];
    struct chunks c;
    int fd cleanup(fd_close) = -1;
    int rc = read_header(from, most, &h, err);

    if (rc < 0)
        return rc;
    fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_errno(err, ERR_BUSY, errno, "no memory for an image");
    key_of(master, bound, &h, key);
    c = (struct chunks){
        .key = key, .size = h.size, .from = from, .to = fd, .fn = open_one};
    rc = chunks_run(&c, err);
    explicit_bzero(key, sizeof(key));
    if (rc == 0 &&
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        rc = error_errno(err, ERR_INTERNAL, errno, "cannot seal an image");
    if (rc == 0)
        *ret_fd = take_fd(fd);
    return rc;
}
