/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of the chain, DIR/audit.secret; see audit_int.h. Runs in the daemon
 * at its start, as the service user.
 *
 * The first start writes it under another name, seals the head of the empty
 * trail with it and then gives it its name. So wherever that is cut short: a
 * named secret has a sealed head, and a head without a named secret has one
 * under the other name that opens its seal.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/audit_int.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"

#define SECRET_FILE "audit.secret"
#define FRESH_FILE "audit.secret.new"
#define HEX_LEN (2 * HASH_SIZE)

/* ---- the file ----------------------------------------------------------- */

/* 1, or 0 if there is no such file. */
static int read_file(int dir, const char *name, unsigned char ret[HASH_SIZE],
                     struct error *err)
{
    int fd cleanup(fd_close) =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char text[HEX_LEN + 2];
    struct stat st;
    ssize_t n;
    bool good;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot read %s", name);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077)) {
        (void)error_set(err, ERR_INTERNAL,
                        "%s must be a file that only its owner can read",
                        name);
        return error_hint(err, "chmod 600 it; if others could read it, the "
                               "audit trail proves nothing against them");
    }
    n = fd_read_all(fd, text, sizeof(text));
    good = n == HEX_LEN + 1 && text[HEX_LEN] == '\n' &&
           hex_decode(text, ret, HASH_SIZE);
    explicit_bzero(text, sizeof(text));
    return good ? 1 : error_set(err, ERR_INTERNAL, "%s is damaged", name);
}

/* On disk when it returns 0; a negative errno otherwise. */
static int write_fresh(int dir, const unsigned char secret[HASH_SIZE])
{
    char line[HEX_LEN + 2];
    int fd cleanup(fd_close) = -1;
    int r;

    /* Left by a start that was cut short, if it is there at all. */
    (void)unlinkat(dir, FRESH_FILE, 0);
    fd =
        openat(dir, FRESH_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    (void)ids_hex(secret, HASH_SIZE, line);
    line[HEX_LEN] = '\n';
    r = fd_write_all(fd, line, HEX_LEN + 1);
    explicit_bzero(line, sizeof(line));
    if (r == 0 && fchmod(fd, 0600) < 0) /* independent of the umask */
        r = -errno;
    if (r == 0 && (fsync(fd) < 0 || fsync(dir) < 0))
        r = -errno;
    return r;
}

static int give_name(int dir, struct error *err)
{
    int r = fd_rename_new(dir, FRESH_FILE, SECRET_FILE);

    if (r == 0 && fsync(dir) < 0)
        r = -errno;
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r,
                               "cannot write " SECRET_FILE)
                 : 0;
}

/* ---- the head it belongs to --------------------------------------------- */

/* *ret_used: there is a head, or at least an event. */
static int read_head(struct store *store,
                     const unsigned char secret[HASH_SIZE],
                     struct audit_head *ret_head, bool *ret_used,
                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r;

    if (store_begin(store, STORE_READ, "opening the audit trail", &tx, err) <
            0 ||
        audit_chain_head(secret, tx, ret_head, err) < 0)
        return -(int)err->code;
    r = store_one(tx, &row, err, "SELECT seq FROM audit LIMIT 1", "");
    if (r < 0)
        return r;
    *ret_used = ret_head->there || r == 1;
    return 0;
}

static int make_secret(struct store *store, int dir,
                       unsigned char ret[HASH_SIZE], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r;

    ids_random(ret, HASH_SIZE);
    r = write_fresh(dir, ret);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot write " FRESH_FILE);
    if (store_begin(store, STORE_WRITE, "starting the audit trail", &tx, err) <
            0 ||
        audit_chain_start(ret, tx, err) < 0 || store_commit(&tx, err) < 0)
        return -(int)err->code;
    return give_name(dir, err);
}

static int secret_missing(struct store *store, int dir,
                          unsigned char ret[HASH_SIZE], struct error *err)
{
    struct audit_head head = {.seal = AUDIT_BROKEN};
    bool used = true;
    int r = read_file(dir, FRESH_FILE, ret, err);

    if (r < 1) /* damaged ones are of no use, and no reason to stop */
        memset(ret, 0, HASH_SIZE);
    if (read_head(store, ret, &head, &used, err) < 0)
        return -(int)err->code;
    if (!used)
        return make_secret(store, dir, ret, err);
    if (r == 1 && head.seal == AUDIT_SEALED)
        return give_name(dir, err);
    (void)error_set(err, ERR_INTERNAL,
                    SECRET_FILE " is missing, without it the audit trail can "
                                "neither be checked nor continued");
    return error_hint(err, "restore it from the backup that glovebox.db came "
                           "from");
}

int audit_secret_open(struct store *store, const char *data_dir,
                      unsigned char ret[HASH_SIZE], struct error *err)
{
    int dir cleanup(fd_close) =
        open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct audit_head head = {.seal = AUDIT_BROKEN};
    bool used = true;
    int r;

    if (dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    r = read_file(dir, SECRET_FILE, ret, err);
    if (r == 0)
        return secret_missing(store, dir, ret, err);
    if (r < 0 || read_head(store, ret, &head, &used, err) < 0)
        return -(int)err->code;
    if (head.seal != AUDIT_SEALED)
        log_event(LOG_WARN, "audit_trail_damaged", "see",
                  "glovebox audit verify", NULL);
    return 0;
}
