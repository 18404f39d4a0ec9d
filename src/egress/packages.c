/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The package index of a session: http://packages.glovebox/simple/NAME/ and
 * the files it links to, out of a folder of wheels or an index the operator
 * configured, and nothing else of either. gloveboxd is asked about every file
 * before it is listed and before it is handed out; its hash is verified before
 * its first byte leaves. Runs in glovebox-egress, in steps of the connection.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "egress/packages_int.h"

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

bool egress_packages_fail(struct conn *c, unsigned status, const char *why)
{
    egress_conn_refuse(c, status, "package %.60s: %.80s", c->job->project,
                       why);
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

static void ask_about_file(struct conn *c, size_t file,
                           struct package_question *q)
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

static bool packages_step_ask(struct conn *c)
{
    struct package_job *j = c->job;
    bool waiting = false;

    for (size_t i = 0; i < PACKAGE_ASKED_AT_ONCE; i++) {
        while (!j->asked[i].id && j->at < j->count) {
            struct package_file *f = &j->files[j->at++];
            char what[512];

            describe(j, f, what);
            if (!f->sha256[0])
                continue;
            f->allowed = egress_grant_was_asked(c->guest, what);
            if (!f->allowed)
                ask_about_file(c, j->at - 1, &j->asked[i]);
        }
        waiting |= j->asked[i].id != 0;
    }
    if (waiting)
        return false;
    if (j->listing) {
        egress_packages_list(c);
        return true;
    }
    fill_report(c, &j->files[0]);
    if (!j->files[0].allowed)
        return egress_packages_fail(c, 403,
                                    j->why[0] ? j->why : "it is not allowed");
    return egress_packages_begin_file(c);
}

bool egress_packages_answer(struct conn *c, const struct egress_answer *a)
{
    struct package_job *j = c->job;

    for (size_t i = 0; j && i < PACKAGE_ASKED_AT_ONCE; i++) {
        char what[512];

        if (!a->question || j->asked[i].id != a->question)
            continue;
        j->files[j->asked[i].file].allowed = a->allow != 0;
        describe(j, &j->files[j->asked[i].file], what);
        if (a->allow && !j->listing)
            egress_grant_remember(c->guest, what);
        if (!a->allow)
            (void)snprintf(j->why, sizeof(j->why), "%s",
                           a->reason[0] ? a->reason : "policy says no");
        j->asked[i].id = 0;
        return true;
    }
    return false;
}

/* ---- the spine ---------------------------------------------------------- */

bool egress_packages_step(struct conn *c)
{
    switch (c->job->phase) {
    case JOB_PAGE:
        return egress_packages_step_page(c);
    case JOB_HASH:
        return egress_packages_step_hash(c);
    case JOB_ASK:
        return packages_step_ask(c);
    case JOB_FETCH:
        return egress_packages_step_fetch(c);
    case JOB_VERIFY:
        return egress_packages_step_verify(c);
    case JOB_SEND:
        return egress_packages_step_send(c);
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
    egress_packages_scan(c);
    j->phase = JOB_HASH;
    if (!j->count && c->e->setup.index_url[0])
        egress_packages_ask_index(c);
    else if (!j->count)
        (void)egress_packages_fail(c, 404, "there is no file of it");
}
