/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index an operator configured: its page of one project, asked for as
 * JSON (PEP 691) or HTML (PEP 503), whichever it has. Runs in glovebox-egress,
 * in steps of the connection.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "egress/packages_int.h"

void egress_packages_fetched(void *ctx, unsigned status, const char *why)
{
    struct conn *c = ctx;
    struct package_job *j = c->job;

    j->told = true;
    j->status = status;
    (void)snprintf(j->fetch_why, sizeof(j->fetch_why), "%s", why);
    /* A failure while starting is handled by the current step. */
    if (j->phase == JOB_PAGE ? j->page != NULL : j->body != NULL)
        egress_conn_step(c);
}

void egress_packages_ask_index(struct conn *c)
{
    struct package_job *j = c->job;
    const char *index = c->e->setup.index_url;
    size_t len = strlen(index);
    char *url cleanup(mem_free) = xasprintf(
        "%s%s%s/", index, len && index[len - 1] == '/' ? "" : "/", j->project);

    j->phase = JOB_PAGE;
    j->told = false;
    j->page = egress_fetch_start(c->e, url, index, -1, PACKAGE_PAGE_MAX,
                                 egress_packages_fetched, c);
}

bool egress_packages_step_page(struct conn *c)
{
    struct package_job *j = c->job;
    size_t (*read)(const char *text, size_t len, const char *base,
                   const char *project, struct package_file **ret);
    const struct buf *page;
    size_t kept = 0;

    if (!j->told)
        return false;
    if (j->status == 404)
        return egress_packages_fail(c, 404, "the index does not have it");
    if (j->status != 200)
        return egress_packages_fail(
            c, 502, j->status ? "the index refused to list it" : j->fetch_why);
    page = egress_fetch_body(j->page);
    read = egress_fetch_json(j->page) ? egress_packages_json
                                      : egress_packages_page;
    j->count = read(page->data ? page->data : "", page->len,
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
        return egress_packages_fail(c, 404, "the index has no such file");
    j->phase = JOB_ASK;
    return true;
}
