/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's pip is answered: the list of a project's files, as HTML
 * (PEP 503), or one of them once its bytes are those of its hash. Runs in
 * glovebox-egress, in steps of the connection.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "egress/packages_int.h"

static void begin_answer(struct conn *c, const char *type, uint64_t len)
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

void egress_packages_list(struct conn *c)
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
        (void)egress_packages_fail(c, j->count ? 403 : 404,
                                   j->why[0] ? j->why
                                             : "there is no file of it");
        return;
    }
    if (!egress_conn_charge(c, false, b.len))
        return;
    begin_answer(c, "text/html; charset=utf-8", b.len);
    if (!c->head_request)
        egress_peer_write(&c->client, b.data, b.len);
    complete(c);
}

/* ---- one file ----------------------------------------------------------- */

bool egress_packages_begin_file(struct conn *c)
{
    struct package_job *j = c->job;
    struct package_file *f = &j->files[0];

    c->deadline_ms = clock_mono_ms() + c->e->setup.idle_ms;
    if (!f->url) {
        j->fd = egress_packages_open(c, f->name);
        j->phase = JOB_VERIFY;
        return true;
    }
    j->fd = memfd_create("package", MFD_CLOEXEC);
    if (j->fd < 0)
        return egress_packages_fail(c, 502, "there is no room for it");
    j->phase = JOB_FETCH;
    j->told = false;
    j->body =
        egress_fetch_start(c->e, f->url, c->e->setup.index_url, j->fd,
                           PACKAGE_BYTES_MAX, egress_packages_fetched, c);
    return true;
}

bool egress_packages_step_fetch(struct conn *c)
{
    struct package_job *j = c->job;

    if (!j->told)
        return false;
    if (j->status != 200)
        return egress_packages_fail(
            c, 502,
            j->status ? "the index refused to hand it out" : j->fetch_why);
    (void)lseek(j->fd, 0, SEEK_SET);
    j->phase = JOB_VERIFY;
    return true;
}

/* The file is read once for its hash and again to be sent: only the operator
 * can change it in between. */
bool egress_packages_step_verify(struct conn *c)
{
    struct package_job *j = c->job;
    char sum[HASH_HEX];
    struct stat st;
    int r = j->fd < 0 ? -1 : egress_packages_hash(j, sum);

    c->deadline_ms = clock_mono_ms() + c->e->setup.idle_ms;
    if (r == 0)
        return false;
    if (r < 0 || fstat(j->fd, &st) < 0 || lseek(j->fd, 0, SEEK_SET) != 0)
        return egress_packages_fail(c, 502, "its file cannot be read");
    if (strcmp(sum, j->files[0].sha256) != 0)
        return egress_packages_fail(c, 502,
                                    "its bytes are not those of its hash");
    j->left = (uint64_t)st.st_size;
    j->phase = JOB_SEND;
    begin_answer(c, "application/octet-stream", j->left);
    return true;
}

bool egress_packages_step_send(struct conn *c)
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
