/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox audit export: the trail for other programs, page by page, so that
 * a long one needs no memory here; and on and on with --follow.
 *
 * glovebox audit verify EXPORT: is an export complete and unchanged? Needs no
 * service: the lines prove each other, checkpoints in them are signed, and a
 * checkpoint that was stored elsewhere shows a cut end. A chain that begins
 * in the middle is checked from there on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/format.h"
#include "audit/proof.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"
#include "cli/govern/audit.h"

/* ---- one event ---------------------------------------------------------- */

static bool read_event_hash(const json_t *event, const char *name,
                            char ret[65])
{
    const char *text = cli_json_text(event, name, "");

    if (strlen(text) > 64)
        return false;
    memcpy(ret, text, strlen(text) + 1);
    return true;
}

/* The struct owns its texts elsewhere; here they are only read. */
static char *event_text(const json_t *event, const char *name)
{
    return (char *)(uintptr_t)cli_json_text(event, name, "");
}

/* An event as the service wrote it, with its at_ms; texts are borrowed from
 * it. False when it is no event. */
static bool read_event(const json_t *event, struct audit_line *ret)
{
    const json_t *at = json_object_get(event, "at_ms");

    *ret = (struct audit_line){
        .seq = (int64_t)cli_json_number(event, "seq"),
        .at_ms = json_integer_value(at),
        .tenant = event_text(event, "tenant"),
        .actor = event_text(event, "actor"),
        .action = event_text(event, "action"),
        .workspace = event_text(event, "workspace"),
        .object = event_text(event, "object"),
        .path = event_text(event, "path"),
        .before = event_text(event, "before"),
        .after = event_text(event, "after"),
        .result = event_text(event, "result"),
        .detail = event_text(event, "detail"),
        .request = event_text(event, "request"),
        .source = event_text(event, "source"),
        .token = event_text(event, "token"),
        .chain_seq = (int64_t)cli_json_number(event, "chain_seq"),
    };
    return json_is_integer(at) && ret->seq > 0 && ret->action[0] &&
           read_event_hash(event, "hash", ret->hash) &&
           read_event_hash(event, "chain_hash", ret->chain_hash) &&
           read_event_hash(event, "chain_previous", ret->chain_previous);
}

/* ---- export ------------------------------------------------------------- */

#define PAGE 500u

struct export
{
    struct cli *c;
    const struct cli_audit *flags;
    const char *format;
    char host[256];
    int fd;
    uint64_t after;
};

/* The lines of a page, one JSON value each. */
static int parse_page(const struct buf *text, json_t *ret, struct error *err)
{
    for (size_t at = 0; at < text->len;) {
        const char *end = memchr(text->data + at, '\n', text->len - at);
        size_t len = end ? (size_t)(end - text->data) - at : text->len - at;
        json_t *line = cli_json_load(text->data + at, len);

        if (!line)
            return error_set(err, ERR_INTERNAL,
                             "the service sent a line that is no event");
        (void)json_array_append_new(ret, line);
        at += len + 1;
    }
    return 0;
}

static void add_syslog(const struct export *x, const json_t *events,
                       struct buf *out)
{
    struct audit_line l;

    for (size_t i = 0; i < json_array_size(events); i++)
        if (read_event(json_array_get(events, i), &l)) {
            audit_format_syslog(out, &l, x->host);
            buf_adds(out, "\n");
        }
}

static void add_otlp(const json_t *events, struct buf *out)
{
    struct audit_line *lines cleanup(mem_free) =
        xcalloc(json_array_size(events) + 1, sizeof(*lines));
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(events); i++)
        count += read_event(json_array_get(events, i), &lines[count]);
    if (!count)
        return;
    audit_format_otlp(out, lines, count);
    buf_adds(out, "\n");
}

/* How many events came. */
static int write_page(struct export *x, const struct buf *text, size_t *ret,
                      struct error *err)
{
    json_t *events cleanup(json_unref) = json_array();
    struct buf other cleanup(buf_done) = {0};
    const struct buf *out = &other;
    int r = parse_page(text, events, err);

    *ret = json_array_size(events);
    if (r < 0 || *ret == 0)
        return r;
    x->after = cli_json_number(json_array_get(events, *ret - 1), "seq");
    if (strcmp(x->format, "syslog") == 0)
        add_syslog(x, events, &other);
    else if (strcmp(x->format, "otlp") == 0)
        add_otlp(events, &other);
    else
        out = text;
    r = fd_write_all(x->fd, out->data, out->len);
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r, "cannot write it") : 0;
}

static int export_page(struct export *x, size_t *ret, struct error *err)
{
    struct buf url cleanup(buf_done) = {0}, text cleanup(buf_done) = {0};
    int r;

    buf_adds(&url, "/api/audit/export");
    cli_http_query_time(&url, "from", x->flags->from_ms);
    cli_http_query_time(&url, "to", x->flags->to_ms);
    cli_http_query_number(&url, "limit", PAGE);
    cli_http_query_number(&url, "after", x->after);
    r = cli_http_text(x->c, url.data, &text, err);
    return r < 0 ? r : write_page(x, &text, ret, err);
}

static int export_all(struct export *x, struct error *err)
{
    size_t count = 0;
    int r;

    do {
        do
            r = export_page(x, &count, err);
        while (r == 0 && count == PAGE);
    } while (r == 0 && x->flags->follow && cli_audit_wait(x->c));
    return x->c->interrupted ? 0 : r;
}

int cli_audit_export(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_audit *a = arg;
    const char *format = a->format ? a->format : "jsonl";
    struct export x = {.c = c, .flags = a, .format = format};
    int fd cleanup(fd_close) = -1;
    struct error err;

    (void)words;
    if (strcmp(format, "jsonl") != 0 && strcmp(format, "otlp") != 0 &&
        strcmp(format, "syslog") != 0)
        return cli_usage_error(c, "--format is jsonl, otlp or syslog");
    x.fd = STDOUT_FILENO;
    if (a->output && strcmp(a->output, "-") != 0) {
        fd = open(a->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0) {
            (void)error_errno(&err, ERR_INVALID, errno, "cannot write %s",
                              a->output);
            return cli_fail(c, &err);
        }
        x.fd = fd;
    }
    if (gethostname(x.host, sizeof(x.host) - 1) < 0 || !x.host[0])
        x.host[0] = '-';
    return export_all(&x, &err) < 0 ? cli_fail(c, &err) : CLI_EXIT_OK;
}

/* ---- verify ------------------------------------------------------------- */

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define PEM_MAX 4096
#define NOTED_MAX ((size_t)16 << 20)

struct chain { /* a tenant's */
    char *tenant;
    int64_t first, last;
    unsigned char hash[HASH_SIZE]; /* of the last */
};

struct check {
    char *pem; /* NULL: signatures are not looked at */
    char key[ID_MAX];
    json_t *noted; /* an array of checkpoints, or NULL */
    struct chain *chains;
    size_t chain_count;
    uint64_t lines, events, checkpoints, noted_met;
    char fault[320]; /* "" none */
};

static bool record_fault(struct check *k, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static bool record_fault(struct check *k, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(k->fault, sizeof(k->fault), fmt, args);
    va_end(args);
    return false;
}

static struct chain *chain_of(struct check *k, const char *tenant)
{
    for (size_t i = 0; i < k->chain_count; i++)
        if (strcmp(k->chains[i].tenant, tenant) == 0)
            return &k->chains[i];
    k->chains = xrealloc(k->chains, (k->chain_count + 1) * sizeof(*k->chains));
    k->chains[k->chain_count] = (struct chain){.tenant = xstrdup(tenant)};
    return &k->chains[k->chain_count++];
}

static void fields_of(const struct audit_line *l,
                      const char *ret[AUDIT_FIELDS])
{
    const char *const fields[AUDIT_FIELDS] = {
        l->tenant,  l->actor,  l->action, l->workspace, l->object,
        l->path,    l->before, l->after,  l->result,    l->detail,
        l->request, l->source, l->token};

    memcpy(ret, fields, sizeof(fields));
}

static bool is_as_written(const struct audit_line *l,
                          const unsigned char before[HASH_SIZE],
                          unsigned char ret[HASH_SIZE])
{
    const char *texts[AUDIT_FIELDS];
    struct audit_bytes fields[AUDIT_FIELDS];
    unsigned char stored[HASH_SIZE];

    fields_of(l, texts);
    for (size_t i = 0; i < AUDIT_FIELDS; i++)
        fields[i] = (struct audit_bytes){texts[i], strlen(texts[i])};
    audit_proof_hash(before, l->chain_seq, l->at_ms, fields, ret);
    return audit_proof_unhex(l->chain_hash, stored, sizeof(stored)) &&
           hash_equal(stored, ret, HASH_SIZE);
}

/* It signs the event before it in its chain. */
static bool check_signed(struct check *k, const struct audit_line *l)
{
    const char *texts[AUDIT_FIELDS];
    struct audit_checkpoint c;

    if (strcmp(l->action, AUDIT_CHECKPOINT) != 0)
        return true;
    fields_of(l, texts);
    if (!audit_proof_read(texts, l->at_ms, &c) || c.seq != l->chain_seq - 1 ||
        strcmp(c.hash, l->chain_previous) != 0)
        return record_fault(k,
                            "line %llu: the checkpoint does not fit its chain",
                            (unsigned long long)k->lines);
    if (!k->pem || strcmp(c.key, k->key) != 0)
        return true; /* of an earlier key: not looked at */
    if (!audit_proof_signed(&c, k->pem))
        return record_fault(
            k, "line %llu: the checkpoint is not signed by this key",
            (unsigned long long)k->lines);
    k->checkpoints++;
    return true;
}

static bool check_event(struct check *k, const struct audit_line *l)
{
    struct chain *chain = chain_of(k, l->tenant);
    unsigned char before[HASH_SIZE], hash[HASH_SIZE];
    unsigned long long line = k->lines;

    if (!audit_proof_unhex(l->chain_previous, before, sizeof(before)))
        return record_fault(k, "line %llu has no hash of the event before it",
                            line);
    if (chain->last && l->chain_seq != chain->last + 1)
        return record_fault(
            k,
            "line %llu: events %lld to %lld of tenant '%s' are not "
            "there",
            line, (long long)chain->last + 1, (long long)l->chain_seq - 1,
            chain->tenant);
    if (chain->last && !hash_equal(before, chain->hash, HASH_SIZE))
        return record_fault(k, "line %llu does not follow the event before it",
                            line);
    if (!is_as_written(l, before, hash))
        return record_fault(k, "line %llu is not as it was written", line);
    if (!check_signed(k, l))
        return false;
    if (!chain->last)
        chain->first = l->chain_seq;
    chain->last = l->chain_seq;
    memcpy(chain->hash, hash, sizeof(hash));
    k->events++;
    return true;
}

/* ---- noted checkpoints -------------------------------------------------- */

static bool read_noted(const json_t *one, struct audit_checkpoint *ret)
{
    const char *hash = cli_json_text(one, "hash", "");
    const char *signature = cli_json_text(one, "signature", "");
    const char *key = cli_json_text(one, "key", "");

    *ret = (struct audit_checkpoint){
        .tenant = cli_json_text(one, "tenant", NULL),
        .seq = (int64_t)cli_json_number(one, "seq"),
        .at_ms = (int64_t)cli_json_number(one, "at_ms")};
    if (!ret->tenant || ret->seq < 1 || strlen(hash) != 2 * HASH_SIZE ||
        strlen(signature) != 2 * (size_t)AUDIT_SIGNATURE ||
        strlen(key) >= ID_MAX)
        return false;
    memcpy(ret->hash, hash, sizeof(ret->hash));
    memcpy(ret->signature, signature, sizeof(ret->signature));
    memcpy(ret->key, key, strlen(key) + 1);
    return true;
}

/* Signatures first: an unsigned checkpoint proves nothing. */
static bool check_noted(struct check *k)
{
    for (size_t i = 0; i < json_array_size(k->noted); i++) {
        struct audit_checkpoint c;

        if (!read_noted(json_array_get(k->noted, i), &c))
            return record_fault(k, "checkpoint %zu is not one of ours", i + 1);
        if (k->pem && !audit_proof_signed(&c, k->pem))
            return record_fault(k, "checkpoint %zu is not signed by this key",
                                i + 1);
    }
    return true;
}

/* While its line goes by. */
static bool meet_noted(struct check *k, const struct audit_line *l)
{
    for (size_t i = 0; i < json_array_size(k->noted); i++) {
        const json_t *one = json_array_get(k->noted, i);

        if ((int64_t)cli_json_number(one, "seq") != l->chain_seq ||
            strcmp(cli_json_text(one, "tenant", ""), l->tenant) != 0)
            continue;
        if (strcmp(cli_json_text(one, "hash", ""), l->chain_hash) != 0)
            return record_fault(
                k,
                "line %llu: the noted checkpoint %lld belongs to "
                "another chain",
                (unsigned long long)k->lines, (long long)l->chain_seq);
        k->noted_met++;
    }
    return true;
}

/* Beyond the end: the export was cut, or is older than the checkpoint. */
static bool check_reach(struct check *k)
{
    for (size_t i = 0; i < json_array_size(k->noted); i++) {
        const json_t *one = json_array_get(k->noted, i);
        const char *tenant = cli_json_text(one, "tenant", "");
        int64_t seq = (int64_t)cli_json_number(one, "seq");
        const struct chain *chain = chain_of(k, tenant);

        if (seq > chain->last)
            return record_fault(
                k,
                "events %lld to %lld of tenant '%s' are missing at "
                "the end: a checkpoint tells of them",
                (long long)chain->last + 1, (long long)seq, tenant);
    }
    return true;
}

/* ---- files -------------------------------------------------------------- */

static int read_text(const char *path, size_t most, char **ret, size_t *len,
                     struct error *err)
{
    int r = fd_read_file(AT_FDCWD, path, most, ret, len);

    return r < 0 ? error_errno(err, ERR_INVALID, -r, "cannot read %s", path)
                 : 0;
}

/* One checkpoint, an array of them, or a list as the service gives it. */
static int load_noted(struct check *k, const char *path, struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    json_t *all cleanup(json_unref) = NULL;
    json_t *list;
    size_t len = 0;

    if (read_text(path, NOTED_MAX, &text, &len, err) < 0)
        return -(int)err->code;
    all = cli_json_load(text, len);
    list = json_is_object(all) ? json_object_get(all, "data") : all;
    if (json_is_array(list)) {
        k->noted = json_incref(list);
    } else if (json_is_object(all)) {
        k->noted = json_array();
        (void)json_array_append(k->noted, all);
    } else {
        return error_set(err, ERR_INVALID, "%s holds no checkpoint", path);
    }
    return 0;
}

static int load_export(struct check *k, const struct cli_audit *a,
                       struct error *err)
{
    size_t len = 0;

    if (a->public_key &&
        (read_text(a->public_key, PEM_MAX, &k->pem, &len, err) < 0 ||
         audit_proof_key_id(k->pem, k->key, err) < 0))
        return -(int)err->code;
    return a->checkpoint ? load_noted(k, a->checkpoint, err) : 0;
}

/* False at the first fault. */
static bool check_line(struct check *k, const char *text, size_t len)
{
    json_t *event cleanup(json_unref) = cli_json_load(text, len);
    struct audit_line l;

    k->lines++;
    if (!event || !read_event(event, &l))
        return record_fault(k, "line %llu is no event",
                            (unsigned long long)k->lines);
    if (l.chain_seq == 0)
        return true; /* of a time before there were such chains */
    return check_event(k, &l) && meet_noted(k, &l);
}

static int check_file(struct check *k, const char *path, struct error *err)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char *line cleanup(mem_free) = NULL;
    size_t cap = 0;
    ssize_t n = 0;
    bool good = check_noted(k);

    if (!in)
        return error_errno(err, ERR_INVALID, errno, "cannot read %s", path);
    while (good && (n = getline(&line, &cap, in)) > 0) {
        if (n > 0 && line[n - 1] == '\n')
            n--;
        if ((size_t)n > LINE_MAX_BYTES)
            good = record_fault(k, "line %llu is too long",
                                (unsigned long long)k->lines + 1);
        else if (n > 0)
            good = check_line(k, line, (size_t)n);
    }
    if (in != stdin)
        (void)fclose(in); /* it was only read */
    if (good)
        good = check_reach(k);
    if (good && k->noted && !k->noted_met)
        good = record_fault(k, "no noted checkpoint lies within this export");
    if (good && k->pem && !k->noted && !k->checkpoints)
        (void)record_fault(
            k, "no checkpoint of this key lies within this export: "
               "nothing shows that it is the service's");
    return 0;
}

static int report_check(const struct cli *c, const struct check *k)
{
    bool ok = !k->fault[0];

    if (c->json) {
        json_t *report cleanup(json_unref) = json_pack(
            "{s:b,s:I,s:I,s:I,s:s?}", "ok", ok, "events",
            (json_int_t)k->events, "checkpoints", (json_int_t)k->checkpoints,
            "noted", (json_int_t)k->noted_met, "fault", ok ? NULL : k->fault);

        cli_print_json(c, report);
    } else if (!ok) {
        (void)printf("%s\n", k->fault);
    } else {
        (void)printf("%llu events of %zu chains, none missing between the "
                     "first and the last, none changed\n",
                     (unsigned long long)k->events, k->chain_count);
        if (k->checkpoints || k->noted_met)
            (void)printf("%llu signed checkpoints in it, %llu noted ones "
                         "fit\n",
                         (unsigned long long)k->checkpoints,
                         (unsigned long long)k->noted_met);
        else
            (void)printf("no signature was looked at: give --public-key or "
                         "--checkpoint\n");
    }
    return ok ? CLI_EXIT_OK : CLI_EXIT_CODE;
}

static void check_done(struct check *k)
{
    for (size_t i = 0; i < k->chain_count; i++)
        free(k->chains[i].tenant);
    free(k->chains);
    free(k->pem);
    json_decref(k->noted);
}

int cli_audit_check(struct cli *c, const char *path, const struct cli_audit *a)
{
    struct check k cleanup(check_done) = {.pem = NULL};
    struct error err;

    if (load_export(&k, a, &err) < 0 || check_file(&k, path, &err) < 0)
        return cli_fail(c, &err);
    return report_check(c, &k);
}
