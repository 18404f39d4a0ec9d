/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of bytes encrypted and authenticated under a secret, by libcrypto.
 * Runs in the daemon and in the program that restores; called by sealed.c. It
 * never keeps the secret.
 *
 *   header   "GLOVEBOX BACKUP\n", version, log2 of scrypt's N (both 32 bits,
 *            big-endian), 32 bytes of salt, 8 zero bytes
 *   chunks   64 KiB of AES-256-GCM and a tag of 16 bytes each; the last one
 *            is shorter, or empty
 *
 * The key is scrypt(secret, salt), so each file has a key of its own and the
 * number of a chunk can be its nonce. The nonce also says whether the chunk is
 * the last, and the header is authenticated with each chunk: a file that was
 * cut, extended, reordered or mixed with another does not open.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "upkeep/backup_int.h"

#define MAGIC "GLOVEBOX BACKUP\n"
#define VERSION 1u
#define LOG_N 15u
#define LOG_N_MAX 20u
#define SCRYPT_MEMORY (2048ull << 20)
#define HEADER 64u
#define SALT_AT 24u
#define SALT 32u
#define KEY 32u
#define NONCE 12u
#define TAG 16u
#define CHUNK (64u << 10)

struct seal {
    int fd;
    EVP_CIPHER_CTX *ctx;
    unsigned char header[HEADER], key[KEY];
    uint64_t number; /* of the next chunk */
    bool ended;      /* reading: the last chunk was opened */
    size_t len, at;  /* plain bytes in the chunk; reading: used so far */
    unsigned char plain[CHUNK], sealed[CHUNK + TAG];
};

void seal_free(struct seal **s)
{
    if (!*s)
        return;
    EVP_CIPHER_CTX_free((*s)->ctx);
    explicit_bzero(*s, sizeof(**s));
    free(take_ptr(*s));
}

static void put_u32(unsigned char *at, uint32_t n)
{
    for (int i = 3; i >= 0; i--, n >>= 8)
        at[i] = (unsigned char)n;
}

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

static void make_nonce(const struct seal *s, bool last,
                       unsigned char ret[NONCE])
{
    memset(ret, 0, NONCE);
    ret[0] = last;
    for (int i = 0; i < 8; i++)
        ret[NONCE - 1 - i] = (unsigned char)(s->number >> (8 * i));
}

static int derive_key(struct seal *s, const char *secret, size_t len,
                      struct error *err)
{
    uint64_t n = 1ull << get_u32(s->header + 20);

    s->ctx = EVP_CIPHER_CTX_new();
    if (!s->ctx || EVP_PBE_scrypt(secret, len, s->header + SALT_AT, SALT, n, 8,
                                  1, SCRYPT_MEMORY, s->key, KEY) != 1)
        return error_set(err, ERR_INTERNAL,
                         "cannot derive the key of the backup");
    return 0;
}

/* ---- writing ------------------------------------------------------------ */

static int write_chunk(struct seal *s, bool last, struct error *err)
{
    unsigned char nonce[NONCE];
    int n = 0, end = 0, r;

    make_nonce(s, last, nonce);
    if (EVP_EncryptInit_ex(s->ctx, EVP_aes_256_gcm(), NULL, s->key, nonce) !=
            1 ||
        EVP_EncryptUpdate(s->ctx, NULL, &n, s->header, HEADER) != 1 ||
        EVP_EncryptUpdate(s->ctx, s->sealed, &n, s->plain, (int)s->len) != 1 ||
        EVP_EncryptFinal_ex(s->ctx, s->sealed + n, &end) != 1 ||
        EVP_CIPHER_CTX_ctrl(s->ctx, EVP_CTRL_GCM_GET_TAG, TAG,
                            s->sealed + s->len) != 1)
        return error_set(err, ERR_INTERNAL, "the backup cannot be encrypted");
    s->number++;
    r = fd_write_all(s->fd, s->sealed, s->len + TAG);
    s->len = 0;
    return r < 0 ? backup_copy_failed(-r, "write the backup", err) : 0;
}

int seal_create(int fd, const char *secret, size_t len, struct seal **ret,
                struct error *err)
{
    struct seal *s cleanup(seal_free) = xcalloc(1, sizeof(*s));
    int r;

    s->fd = fd;
    memcpy(s->header, MAGIC, sizeof(MAGIC) - 1);
    put_u32(s->header + 16, VERSION);
    put_u32(s->header + 20, LOG_N);
    ids_random(s->header + SALT_AT, SALT);
    r = derive_key(s, secret, len, err);
    if (r < 0)
        return r;
    r = fd_write_all(fd, s->header, HEADER);
    if (r < 0)
        return backup_copy_failed(-r, "write the backup", err);
    *ret = take_ptr(s);
    return 0;
}

int seal_write(struct seal *s, const void *bytes, size_t len,
               struct error *err)
{
    const char *at = bytes;
    int r = 0;

    while (len > 0 && r == 0) {
        size_t n = MIN(len, CHUNK - s->len);

        memcpy(s->plain + s->len, at, n);
        s->len += n;
        at += n;
        len -= n;
        if (s->len == CHUNK)
            r = write_chunk(s, false, err);
    }
    return r;
}

int seal_finish(struct seal *s, struct error *err)
{
    return write_chunk(s, true, err);
}

/* ---- reading ------------------------------------------------------------ */

static int damaged(struct error *err)
{
    return error_set(err, ERR_CORRUPT, "the backup is damaged or was cut");
}

static bool open_chunk(struct seal *s, size_t len, bool last)
{
    unsigned char nonce[NONCE];
    int n = 0, end = 0;

    make_nonce(s, last, nonce);
    return EVP_DecryptInit_ex(s->ctx, EVP_aes_256_gcm(), NULL, s->key,
                              nonce) == 1 &&
           EVP_DecryptUpdate(s->ctx, NULL, &n, s->header, HEADER) == 1 &&
           EVP_DecryptUpdate(s->ctx, s->plain, &n, s->sealed, (int)len) == 1 &&
           EVP_CIPHER_CTX_ctrl(s->ctx, EVP_CTRL_GCM_SET_TAG, TAG,
                               s->sealed + len) == 1 &&
           EVP_DecryptFinal_ex(s->ctx, s->plain + n, &end) == 1;
}

/* A chunk that is not whole is the last one. */
static int read_chunk(struct seal *s, struct error *err)
{
    ssize_t n = fd_read_all(s->fd, s->sealed, sizeof(s->sealed));
    bool last;

    if (n < 0)
        return backup_copy_failed((int)-n, "read the backup", err);
    if (n < (ssize_t)TAG)
        return damaged(err);
    last = n < (ssize_t)sizeof(s->sealed);
    s->len = (size_t)n - TAG;
    s->at = 0;
    if (!open_chunk(s, s->len, last)) {
        explicit_bzero(s->plain, sizeof(s->plain));
        if (s->number > 0)
            return damaged(err);
        (void)error_set(err, ERR_CORRUPT,
                        "the backup does not open: it was made with another "
                        "key, or is damaged");
        return error_hint(err, "give the key file that the service had when "
                               "it made the backup");
    }
    s->number++;
    s->ended = last;
    return 0;
}

static int check_header(const struct seal *s, struct error *err)
{
    uint32_t version = get_u32(s->header + 16),
             log_n = get_u32(s->header + 20);

    if (memcmp(s->header, MAGIC, sizeof(MAGIC) - 1) != 0)
        return error_set(err, ERR_INVALID,
                         "the file is not a backup of glovebox");
    if (version != VERSION) {
        (void)error_set(err, ERR_INVALID,
                        "the backup has format %u, this program knows %u",
                        version, VERSION);
        return error_hint(err, "restore it with the version that made it, or "
                               "a newer one");
    }
    if (log_n == 0 || log_n > LOG_N_MAX)
        return damaged(err);
    return 0;
}

int seal_open(int fd, const char *secret, size_t len, struct seal **ret,
              struct error *err)
{
    struct seal *s cleanup(seal_free) = xcalloc(1, sizeof(*s));
    ssize_t n;
    int r;

    s->fd = fd;
    n = fd_read_all(fd, s->header, HEADER);
    if (n < 0)
        return backup_copy_failed((int)-n, "read the backup", err);
    if (n < (ssize_t)HEADER)
        return error_set(err, ERR_INVALID,
                         "the file is not a backup of glovebox");
    r = check_header(s, err);
    if (r == 0)
        r = derive_key(s, secret, len, err);
    if (r == 0)
        r = read_chunk(s, err);
    if (r == 0)
        *ret = take_ptr(s);
    return r;
}

int seal_read(struct seal *s, void *ret, size_t len, struct error *err)
{
    char *at = ret;

    while (len > 0) {
        size_t n = MIN(len, s->len - s->at);

        if (n == 0) {
            int r = s->ended ? damaged(err) : read_chunk(s, err);

            if (r < 0)
                return r;
            continue;
        }
        memcpy(at, s->plain + s->at, n);
        s->at += n;
        at += n;
        len -= n;
    }
    return 0;
}

int seal_read_end(struct seal *s, struct error *err)
{
    if (s->at == s->len && !s->ended) {
        int r = read_chunk(s, err); /* the last one may be empty */

        if (r < 0)
            return r;
    }
    return s->at == s->len && s->ended ? 0 : damaged(err);
}
