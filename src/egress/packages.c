/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The package index of a session: http://packages.glovebox/simple/NAME/ and
 * the files it links to, out of a folder of wheels or an index the operator
 * configured, and nothing else of either. gloveboxd is asked about every file
 * before it is listed and before it is handed out; its hash is verified before
 * its first byte leaves. Runs in glovebox-egress, in steps of the connection.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "egress/packages_int.h"

#define ASKED_AT_ONCE 8u
#define HASH_AT_ONCE ((size_t)16 << 20) /* between two looks at the others */

enum job_phase {
    JOB_PAGE,   /* the index's page is on its way */
    JOB_HASH,   /* files of the folder are read for their hashes */
    JOB_ASK,    /* gloveboxd is asked */
    JOB_FETCH,  /* the file is on its way */
    JOB_VERIFY, /* it is read for its hash */
    JOB_SEND,   /* it goes to the session */
};

struct question {
    uint64_t id; /* 0: free */
    size_t file;
};

struct package_job {
    enum job_phase phase;
    bool listing;
    char project[PACKAGE_NAME_MAX];
    char wanted[PACKAGE_FILE_MAX]; /* one file of it, unless listing */
    struct package_file *files;
    size_t count, at; /* at: the next to hash, or to ask about */
    struct question asked[ASKED_AT_ONCE];
    char why[EGRESS_TEXT_MAX]; /* of the last no */
    struct fetch *page, *body;
    int fd; /* of the file that is read */
    struct hash_stream *hash;
    uint64_t left;
    bool told; /* a fetch ended: page_status and page_why */
    unsigned status;
    char fetch_why[EGRESS_TEXT_MAX];
};

void egress_packages_free(struct package_job *j)
{
    if (!j)
        return;
    egress_fetch_free(j->page);
    egress_fetch_free(j->body);
    egress_packages_files_free(j->files, j->count);
    hash_stream_free(j->hash);
    fd_close(&j->fd);
    free(j);
}

static bool fail(struct conn *c, unsigned status, const char *why)
{
    egress_conn_refuse(c, status, "package %.60s: %.80s", c->job->project,
                       why);
    return true;
}

/* ---- the folder of wheels ----------------------------------------------- */

static int open_file(const struct conn *c, const char *name)
{
    int dir cleanup(fd_close) =
        open(c->e->setup.wheels_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static void add_file(struct package_job *j, const char *name,
                     const char *version)
{
    struct package_file *f;

    if (j->count == PACKAGE_FILES_MAX)
        return;
    if (!j->files)
        j->files = xcalloc(PACKAGE_FILES_MAX, sizeof(*j->files));
    f = &j->files[j->count++];
    (void)snprintf(f->name, sizeof(f->name), "%.199s", name);
    (void)snprintf(f->version, sizeof(f->version), "%s", version);
}

static void scan_folder(struct conn *c)
{
    struct package_job *j = c->job;
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;

    if (!c->e->setup.wheels_dir[0])
        return;
    dir = opendir(c->e->setup.wheels_dir);
    while (dir && (entry = readdir(dir))) {
        char project[PACKAGE_NAME_MAX], version[PACKAGE_VERSION_MAX];

        if (egress_packages_file(entry->d_name, project, version) &&
            strcmp(project, j->project) == 0 &&
            (j->listing || strcmp(entry->d_name, j->wanted) == 0))
            add_file(j, entry->d_name, version);
    }
}

/* Some of the open file. 1: all of it is hashed, 0: not yet, -1: failed. */
static int hash_some(struct package_job *j, char ret[HASH_HEX])
{
    static char bytes[1 << 18];
    unsigned char sum[HASH_SIZE];

    if (!j->hash)
        j->hash = hash_stream_new();
    for (size_t done = 0; done < HASH_AT_ONCE;) {
        ssize_t n = read(j->fd, bytes, sizeof(bytes));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0) {
            hash_stream_end(take_ptr(j->hash), sum);
            (void)ids_hex(sum, sizeof(sum), ret);
            return 1;
        }
        hash_stream_add(j->hash, bytes, (size_t)n);
        done += (size_t)n;
    }
    return 0;
}

static bool step_hash(struct conn *c)
{
    struct package_job *j = c->job;
    struct package_file *f = &j->files[j->at];
    int r;

    if (j->at == j->count) {
        j->at = 0;
        j->phase = JOB_ASK;
        return true;
    }
    if (j->fd < 0)
        j->fd = open_file(c, f->name);
    r = j->fd < 0 ? -1 : hash_some(j, f->sha256);
    c->deadline_ms = clock_mono_ms() + c->e->setup.idle_ms;
    if (r == 0)
        return false; /* the tick goes on, after the others had a turn */
    if (r < 0) {      /* unreadable: as if it were not there */
        hash_stream_free(take_ptr(j->hash));
        f->sha256[0] = '\0';
    }
    fd_close(&j->fd);
    j->fd = -1;
    j->at++;
    return true;
}

/* ---- the configured index ----------------------------------------------- */

static void on_fetched(void *ctx, unsigned status, const char *why)
{
    struct conn *c = ctx;
    struct package_job *j = c->job;

    j->told = true;
    j->status = status;
    (void)snprintf(j->fetch_why, sizeof(j->fetch_why), "%s", why);
    /* What fails while it is being started is seen by the step under way. */
    if (j->phase == JOB_PAGE ? j->page != NULL : j->body != NULL)
        egress_conn_step(c);
}

static void ask_index(struct conn *c)
{
    struct package_job *j = c->job;
    const char *index = c->e->setup.index_url;
    size_t len = strlen(index);
    char *url cleanup(mem_free) = xasprintf(
        "%s%s%s/", index, len && index[len - 1] == '/' ? "" : "/", j->project);

    j->phase = JOB_PAGE;
    j->told = false;
    j->page = egress_fetch_start(c->e, url, index, -1, PACKAGE_PAGE_MAX,
                                 on_fetched, c);
}

static bool step_page(struct conn *c)
{
    struct package_job *j = c->job;
    const struct buf *page;
    size_t kept = 0;

    if (!j->told)
        return false;
    if (j->status == 404)
        return fail(c, 404, "the index does not have it");
    if (j->status != 200)
        return fail(c, 502,
                    j->status ? "the index refused to list it" : j->fetch_why);
    page = egress_fetch_body(j->page);
    j->count =
        egress_packages_page(page->data ? page->data : "", page->len,
                             egress_fetch_url(j->page), j->project, &j->files);
    for (size_t i = 0; !j->listing && i < j->count; i++)
        if (strcmp(j->files[i].name, j->wanted) == 0) {
            struct package_file one = j->files[i];

            j->files[i] = j->files[0];
            j->files[0] = one;
            kept = 1;
            break;
        }
    if (!j->listing) {
        for (size_t i = kept; i < j->count; i++)
            free(j->files[i].url);
        j->count = kept;
    }
    if (!j->count)
        return fail(c, 404, "the index has no such file");
    j->phase = JOB_ASK;
    return true;
}

/* ---- asking ------------------------------------------------------------- */

static void describe(const struct package_job *j, const struct package_file *f,
                     char ret[512])
{
    (void)snprintf(ret, 512, "package %s %s %s", j->project, f->version,
                   f->sha256);
}

static void fill_report(struct conn *c, const struct package_file *f)
{
    struct egress_report *r = &c->report;

    (void)snprintf(r->package, sizeof(r->package), "%s", c->job->project);
    (void)snprintf(r->version, sizeof(r->version), "%s", f->version);
    (void)snprintf(r->sha256, sizeof(r->sha256), "%s", f->sha256);
}

static void ask(struct conn *c, size_t file, struct question *q)
{
    struct egress_report r;

    fill_report(c, &c->job->files[file]);
    r = c->report;
    if (c->job->listing) { /* only shown yet, not had */
        (void)snprintf(r.method, sizeof(r.method), "LIST");
        c->report.package[0] = c->report.version[0] = '\0';
        c->report.sha256[0] = '\0';
    }
    q->file = file;
    q->id = egress_report_ask(c->e, &r);
    c->deadline_ms = clock_mono_ms() + c->e->setup.answer_ms;
}

static void write_listing(struct conn *c);
static bool begin_file(struct conn *c);

static bool step_ask(struct conn *c)
{
    struct package_job *j = c->job;
    bool waiting = false;

    for (size_t i = 0; i < ASKED_AT_ONCE; i++) {
        while (!j->asked[i].id && j->at < j->count) {
            struct package_file *f = &j->files[j->at++];
            char what[512];

            describe(j, f, what);
            if (!f->sha256[0])
                continue;
            f->allowed = egress_guest_was_asked(c->guest, what);
            if (!f->allowed)
                ask(c, j->at - 1, &j->asked[i]);
        }
        waiting |= j->asked[i].id != 0;
    }
    if (waiting)
        return false;
    if (j->listing) {
        write_listing(c);
        return true;
    }
    fill_report(c, &j->files[0]);
    if (!j->files[0].allowed)
        return fail(c, 403, j->why[0] ? j->why : "it is not allowed");
    return begin_file(c);
}

bool egress_packages_answer(struct conn *c, const struct egress_answer *a)
{
    struct package_job *j = c->job;

    for (size_t i = 0; j && i < ASKED_AT_ONCE; i++) {
        char what[512];

        if (!a->question || j->asked[i].id != a->question)
            continue;
        j->files[j->asked[i].file].allowed = a->allow != 0;
        describe(j, &j->files[j->asked[i].file], what);
        if (a->allow && !j->listing)
            egress_guest_remember(c->guest, what);
        if (!a->allow)
            (void)snprintf(j->why, sizeof(j->why), "%s",
                           a->reason[0] ? a->reason : "policy says no");
        j->asked[i].id = 0;
        return true;
    }
    return false;
}

/* ---- answers ------------------------------------------------------------ */

static void answer(struct conn *c, const char *type, uint64_t len)
{
    struct buf b cleanup(buf_done) = {0};

    buf_addf(&b,
             "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %llu\r\n"
             "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
             type, (unsigned long long)len);
    c->report.status = 200;
    c->answered = true;
    egress_peer_write(&c->client, b.data, b.len);
}

static void complete(struct conn *c)
{
    c->up.done = true; /* it has no body */
    egress_conn_report(c, true);
    egress_conn_state(c, CONN_FINISH);
    egress_peer_end(&c->client);
}

static void write_listing(struct conn *c)
{
    struct package_job *j = c->job;
    struct buf b cleanup(buf_done) = {0};
    size_t shown = 0;

    buf_adds(&b, "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-"
                 "version\" content=\"1.0\"></head><body>\n");
    for (size_t i = 0; i < j->count; i++) {
        const struct package_file *f = &j->files[i];

        if (!f->allowed)
            continue;
        shown++;
        buf_addf(&b, "<a href=\"/files/%s/%s#sha256=%s\"", j->project, f->name,
                 f->sha256);
        if (f->requires[0])
            buf_addf(&b, " data-requires-python=\"%s\"", f->requires);
        buf_addf(&b, ">%s</a><br>\n", f->name);
    }
    buf_adds(&b, "</body></html>\n");
    if (!shown) {
        (void)fail(c, j->count ? 403 : 404,
                   j->why[0] ? j->why : "there is no file of it");
        return;
    }
    if (!egress_conn_charge(c, false, b.len))
        return;
    answer(c, "text/html; charset=utf-8", b.len);
    if (!c->head_request)
        egress_peer_write(&c->client, b.data, b.len);
    complete(c);
}

/* ---- one file ----------------------------------------------------------- */

static bool begin_file(struct conn *c)
{
    struct package_job *j = c->job;
    struct package_file *f = &j->files[0];

    c->deadline_ms = clock_mono_ms() + c->e->setup.idle_ms;
    if (!f->url) {
        j->fd = open_file(c, f->name);
        j->phase = JOB_VERIFY;
        return true;
    }
    j->fd = memfd_create("package", MFD_CLOEXEC);
    if (j->fd < 0)
        return fail(c, 502, "there is no room for it");
    j->phase = JOB_FETCH;
    j->told = false;
    j->body = egress_fetch_start(c->e, f->url, c->e->setup.index_url, j->fd,
                                 PACKAGE_BYTES_MAX, on_fetched, c);
    return true;
}

static bool step_fetch(struct conn *c)
{
    struct package_job *j = c->job;

    if (!j->told)
        return false;
    if (j->status != 200)
        return fail(c, 502,
                    j->status ? "the index refused to hand it out"
                              : j->fetch_why);
    (void)lseek(j->fd, 0, SEEK_SET);
    j->phase = JOB_VERIFY;
    return true;
}

/* Read once for its hash and once more to be sent: nobody but the operator
 * can change it in between. */
static bool step_verify(struct conn *c)
{
    struct package_job *j = c->job;
    char sum[HASH_HEX];
    struct stat st;
    int r = j->fd < 0 ? -1 : hash_some(j, sum);

    c->deadline_ms = clock_mono_ms() + c->e->setup.idle_ms;
    if (r == 0)
        return false;
    if (r < 0 || fstat(j->fd, &st) < 0 || lseek(j->fd, 0, SEEK_SET) != 0)
        return fail(c, 502, "its file cannot be read");
    if (strcmp(sum, j->files[0].sha256) != 0)
        return fail(c, 502, "its bytes are not those of its hash");
    j->left = (uint64_t)st.st_size;
    j->phase = JOB_SEND;
    answer(c, "application/octet-stream", j->left);
    return true;
}

static bool step_send(struct conn *c)
{
    struct package_job *j = c->job;
    char bytes[32768];

    if (c->head_request)
        j->left = 0;
    while (j->left && !egress_peer_full(&c->client)) {
        ssize_t n = read(j->fd, bytes, MIN(j->left, sizeof(bytes)));

        if (n <= 0) {
            egress_conn_end(c, "its file became shorter");
            return true;
        }
        if (!egress_conn_charge(c, false, (size_t)n))
            return true;
        egress_peer_write(&c->client, bytes, (size_t)n);
        j->left -= (uint64_t)n;
    }
    if (j->left) {
        egress_peer_flush(&c->client);
        return !egress_peer_full(&c->client) && !c->client.broken;
    }
    complete(c);
    return true;
}

/* ---- the spine ---------------------------------------------------------- */

bool egress_packages_step(struct conn *c)
{
    switch (c->job->phase) {
    case JOB_PAGE:
        return step_page(c);
    case JOB_HASH:
        return step_hash(c);
    case JOB_ASK:
        return step_ask(c);
    case JOB_FETCH:
        return step_fetch(c);
    case JOB_VERIFY:
        return step_verify(c);
    case JOB_SEND:
        return step_send(c);
    }
    return false;
}

void egress_packages_tick(struct conn *c, uint64_t now_ms)
{
    struct package_job *j = c->job;
    struct fetch *f = j->phase == JOB_PAGE    ? j->page
                      : j->phase == JOB_FETCH ? j->body
                                              : NULL;

    if (f && egress_fetch_tick(f, now_ms))
        c->deadline_ms = now_ms + c->e->setup.idle_ms;
    if (c->state == CONN_PACKAGE &&
        (j->phase == JOB_HASH || j->phase == JOB_VERIFY))
        egress_conn_step(c);
}

/* "/simple/NAME/" or "/files/NAME/FILE" */
static bool parse_path(struct package_job *j, const char *path)
{
    const char *name, *end;

    j->listing = strncmp(path, "/simple/", 8) == 0;
    if (!j->listing && strncmp(path, "/files/", 7) != 0)
        return false;
    name = path + (j->listing ? 8 : 7);
    end = name + strcspn(name, "/");
    if (!egress_packages_normal((struct span){name, (size_t)(end - name)},
                                j->project))
        return false;
    if (j->listing)
        return !*end || !end[1];
    if (!*end || !end[1] || strchr(end + 1, '/') ||
        strlen(end + 1) >= sizeof(j->wanted))
        return false;
    (void)snprintf(j->wanted, sizeof(j->wanted), "%s", end + 1);
    return true;
}

void egress_packages_serve(struct conn *c)
{
    struct package_job *j = xcalloc(1, sizeof(*j));

    j->fd = -1;
    c->job = j;
    if (strcmp(c->report.method, "GET") != 0 && !c->head_request) {
        egress_conn_refuse(c, 403, "the package index only takes GET");
        return;
    }
    if (!parse_path(j, c->report.path)) {
        egress_conn_refuse(c, 404,
                           "the package index has /simple/NAME/ and "
                           "what is linked from there");
        return;
    }
    if (!j->listing)
        c->report.type = EGRESS_REPORT_PACKAGE;
    egress_conn_state(c, CONN_PACKAGE);
    scan_folder(c);
    j->phase = JOB_HASH;
    if (!j->count && c->e->setup.index_url[0])
        ask_index(c);
    else if (!j->count)
        (void)fail(c, 404, "there is no file of it");
}
