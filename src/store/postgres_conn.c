/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to PostgreSQL; see postgres_int.h. Runs in the daemon, a
 * connection being used by one thread at a time.
 *
 * The connection is always in libpq's pipeline mode and never blocks: commands
 * are queued, sent together with one sync, and their results received in
 * order, each wait having a deadline. So BEGIN travels with the first
 * statement, and ROLLBACK is not waited for.
 */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/postgres_int.h"

#define PROBES 8 /* slots in which a statement may be */

/* Types of PostgreSQL, from its catalog; they never change. */
#define OID_BYTEA 17
#define OID_INT8 20
#define OID_TEXT 25

/* ---- failing ------------------------------------------------------------ */

static void note_gone(struct postgres_conn *c, const char *why)
{
    c->gone = true;
    if (c->failure.gone)
        return;
    c->failure = (struct postgres_failure){.gone = true, .state = "08006"};
    (void)snprintf(c->failure.text, sizeof(c->failure.text), "%s", why);
}

/* The first failure counts: later commands of the batch fail because of it. */
static void note_result(struct postgres_conn *c, const PGresult *res)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *severity =
        PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);

    /* After FATAL or PANIC the server closes the connection. */
    if (PQstatus(c->pg) == CONNECTION_BAD ||
        (severity && (*severity == 'F' || *severity == 'P'))) {
        note_gone(c, text ? text : PQerrorMessage(c->pg));
        return;
    }
    if (c->failure.state[0])
        return;
    (void)snprintf(c->failure.state, sizeof(c->failure.state), "%s",
                   state ? state : "XX000");
    (void)snprintf(c->failure.text, sizeof(c->failure.text), "%s",
                   text ? text : "");
}

/* ---- waiting ------------------------------------------------------------ */

/* By the real clock, which clock_test_advance() does not move. */
static int64_t now_ms(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at); /* cannot fail */
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

/* Waits until the socket can be read, or written if `writing`. */
static bool await_socket(struct postgres_conn *c, bool writing,
                         int64_t until_ms)
{
    struct pollfd p = {.fd = PQsocket(c->pg),
                       .events = (short)(POLLIN | (writing ? POLLOUT : 0))};

    for (;;) {
        int64_t left = until_ms - now_ms();
        int r = left > 0 ? poll(&p, 1, (int)left) : 0;

        if (r < 0 && errno == EINTR)
            continue;
        if (r > 0)
            break;
        note_gone(c, "the server does not answer");
        return false;
    }
    if ((p.revents & ~POLLOUT) && !PQconsumeInput(c->pg)) {
        note_gone(c, PQerrorMessage(c->pg));
        return false;
    }
    return true;
}

static bool flush_all(struct postgres_conn *c, int64_t until_ms)
{
    int r;

    while (!c->gone && (r = PQflush(c->pg)) != 0) {
        if (r < 0)
            note_gone(c, PQerrorMessage(c->pg));
        else if (!await_socket(c, true, until_ms))
            return false;
    }
    return !c->gone;
}

/* The next result of libpq; false: the connection is lost. */
static bool next_result(struct postgres_conn *c, PGresult **ret)
{
    int64_t until_ms = now_ms() + c->answer_ms;

    if (c->gone || !flush_all(c, until_ms))
        return false;
    while (PQisBusy(c->pg))
        if (!await_socket(c, false, until_ms))
            return false;
    *ret = PQgetResult(c->pg);
    if (PQstatus(c->pg) == CONNECTION_BAD) {
        note_gone(c, PQerrorMessage(c->pg));
        PQclear(*ret);
        return false;
    }
    return true;
}

/* ---- queueing ----------------------------------------------------------- */

static void expect(struct postgres_conn *c, enum postgres_expected what)
{
    /* Far more than any batch has. */
    if (c->expected_count == ARRAY_SIZE(c->expected))
        note_gone(c, "too many commands are queued");
    else
        c->expected[c->expected_count++] = (unsigned char)what;
}

static void expected_shift(struct postgres_conn *c)
{
    c->expected_count--;
    memmove(c->expected, c->expected + 1, c->expected_count);
}

void store_postgres_conn_queue(struct postgres_conn *c, const char *sql)
{
    if (c->gone)
        return;
    if (!PQsendQueryParams(c->pg, sql, 0, NULL, NULL, NULL, NULL, 1))
        note_gone(c, PQerrorMessage(c->pg));
    expect(c, EXPECT_IGNORED);
}

void store_postgres_conn_send(struct postgres_conn *c)
{
    if (c->gone)
        return;
    if (!PQpipelineSync(c->pg))
        note_gone(c, PQerrorMessage(c->pg));
    expect(c, EXPECT_SYNC);
    /* What the socket does not take now is sent when results are awaited. */
    if (!c->gone && PQflush(c->pg) < 0)
        note_gone(c, PQerrorMessage(c->pg));
}

/* ---- receiving ---------------------------------------------------------- */

/* Receives all of a command whose result is not needed. */
static bool skip_command(struct postgres_conn *c)
{
    enum postgres_expected what = c->expected[0];
    bool failed = false;
    PGresult *res;

    for (;;) {
        if (!next_result(c, &res))
            return false;
        if (!res)
            break;
        if (PQresultStatus(res) == PGRES_FATAL_ERROR ||
            PQresultStatus(res) == PGRES_PIPELINE_ABORTED ||
            PQresultStatus(res) == PGRES_EMPTY_QUERY) {
            failed = true;
            note_result(c, res);
        }
        PQclear(res);
    }
    if (what == EXPECT_PARSED && c->parsing) {
        c->parsing->prepared = !failed;
        c->parsing = NULL;
    }
    expected_shift(c);
    return true;
}

static bool skip_sync(struct postgres_conn *c)
{
    PGresult *res;

    if (!next_result(c, &res))
        return false;
    if (PQresultStatus(res) != PGRES_PIPELINE_SYNC)
        note_gone(c, "the server answers out of order");
    PQclear(res);
    expected_shift(c);
    return !c->gone;
}

/* Up to the wanted command. */
static bool receive_earlier(struct postgres_conn *c)
{
    while (!c->gone && c->expected_count && c->expected[0] != EXPECT_WANTED)
        if (!(c->expected[0] == EXPECT_SYNC ? skip_sync(c) : skip_command(c)))
            return false;
    return !c->gone && c->expected_count;
}

bool store_postgres_conn_stream(struct postgres_conn *c)
{
    if (!receive_earlier(c))
        return false;
    if (!c->failure.state[0])
        (void)PQsetSingleRowMode(c->pg); /* otherwise they come at once */
    return true;
}

bool store_postgres_conn_receive(struct postgres_conn *c, PGresult **ret)
{
    if (!receive_earlier(c))
        return false;
    for (;;) {
        PGresult *res;
        ExecStatusType status;

        if (!next_result(c, &res))
            return false;
        if (!res) {
            expected_shift(c);
            return false;
        }
        status = PQresultStatus(res);
        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ||
            status == PGRES_SINGLE_TUPLE) {
            *ret = res;
            return true;
        }
        note_result(c, res);
        PQclear(res);
    }
}

bool store_postgres_conn_finish(struct postgres_conn *c)
{
    while (!c->gone && c->expected_count)
        if (!(c->expected[0] == EXPECT_SYNC ? skip_sync(c) : skip_command(c)))
            break;
    return !c->gone && !c->failure.state[0];
}

bool store_postgres_conn_ask(struct postgres_conn *c, const char *sql,
                             int count, const char *const *values,
                             PGresult **ret_result)
{
    PGresult *res = NULL, *kept = NULL;

    if (!c->gone &&
        !PQsendQueryParams(c->pg, sql, count, NULL, values, NULL, NULL, 0))
        note_gone(c, PQerrorMessage(c->pg));
    expect(c, EXPECT_WANTED);
    store_postgres_conn_send(c);
    while (store_postgres_conn_receive(c, &res)) {
        PQclear(kept);
        kept = res;
    }
    if (!store_postgres_conn_finish(c) || !ret_result) {
        PQclear(kept);
        return !c->gone && !c->failure.state[0];
    }
    *ret_result = kept;
    return true;
}

/* ---- statements --------------------------------------------------------- */

/* What search/ tells SQLite about the order of joins and the index to use.
 * PostgreSQL plans by its statistics: " INDEXED BY name" goes, "CROSS JOIN t
 * ON" becomes "JOIN". */
static void drop_hints(char *sql)
{
    static const char indexed[] = " INDEXED BY ", cross[] = " CROSS JOIN ";
    char *p;

    while ((p = strstr(sql, indexed))) {
        size_t len = strlen(indexed);

        len += strcspn(p + len, " ");
        memmove(p, p + len, strlen(p + len) + 1);
    }
    for (p = sql; (p = strstr(p, cross)); p++) {
        const char *on = strstr(p, " ON "), *next = strstr(p + 1, " JOIN ");

        if (strncmp(p, " CROSS JOIN LATERAL", 19) == 0)
            continue;
        /* The first JOIN after p is its own. */
        next = next ? strstr(next + 1, " JOIN ") : NULL;
        if (on && (!next || on < next))
            memmove(p, p + strlen(" CROSS"), strlen(p + strlen(" CROSS")) + 1);
    }
}

char *store_postgres_conn_translate(const char *sql, size_t *ret_most)
{
    char *out = xstrdup(sql);
    bool quoted = false;

    drop_hints(out);
    *ret_most = 0;
    for (char *p = out; *p; p++) {
        if (*p == '\'')
            quoted = !quoted;
        if (*p != '?' || quoted || !isdigit((unsigned char)p[1]))
            continue;
        *p = '$';
        *ret_most = MAX(*ret_most, (size_t)strtoul(p + 1, NULL, 10));
    }
    return out;
}

/* Slots are found by the address of the text; the caller compares the text. */
static struct postgres_cached *slot_of(struct postgres_conn *c,
                                       const char *sql)
{
    size_t start = (size_t)(((uintptr_t)sql * 0x9e3779b97f4a7c15u) >> 32);
    struct postgres_cached *best = NULL;

    for (size_t i = 0; i < PROBES; i++) {
        struct postgres_cached *slot =
            &c->cache[(start + i) % STORE_POSTGRES_CACHED];

        if (slot->sql == sql)
            return slot;
        if (!best || slot->used < best->used)
            best = slot;
    }
    return best;
}

static void drop_statement(struct postgres_conn *c,
                           struct postgres_cached *slot)
{
    char sql[48];

    if (slot->prepared) {
        (void)snprintf(sql, sizeof(sql), "DEALLOCATE %s", slot->name);
        store_postgres_conn_queue(c, sql);
    }
    free(slot->text);
    *slot = (struct postgres_cached){0};
}

/* Text that begins with this word, in the capitals that all statements use. */
static bool begins(const char *sql, const char *word)
{
    while (isspace((unsigned char)*sql))
        sql++;
    return strncmp(sql, word, strlen(word)) == 0;
}

static bool prepare_statement(struct postgres_conn *c,
                              struct postgres_cached *slot, const char *types)
{
    Oid oids[STORE_VALUES_MAX];
    size_t count = strlen(types), most;
    char *text cleanup(mem_free) =
        store_postgres_conn_translate(slot->text, &most);

    if (most != count || !text[strspn(text, " \n")]) {
        (void)snprintf(c->failure.state, sizeof(c->failure.state), "42P02");
        return false;
    }
    for (size_t i = 0; i < count; i++)
        oids[i] = types[i] == 'i'   ? OID_INT8
                  : types[i] == 'b' ? OID_BYTEA
                                    : OID_TEXT;
    (void)snprintf(slot->name, sizeof(slot->name), "g%u", ++c->names);
    (void)snprintf(slot->types, sizeof(slot->types), "%s", types);
    slot->guarded = begins(text, "INSERT") && !strstr(text, "ON CONFLICT");
    slot->selects = begins(text, "SELECT");
    if (!PQsendPrepare(c->pg, slot->name, text, (int)count, oids))
        note_gone(c, PQerrorMessage(c->pg));
    expect(c, EXPECT_PARSED);
    c->parsing = slot;
    return !c->gone;
}

struct postgres_cached *store_postgres_conn_statement(
    struct postgres_conn *c, const char *sql, const struct store_value *values,
    size_t count)
{
    struct postgres_cached *slot = slot_of(c, sql);
    char types[STORE_VALUES_MAX + 1];

    for (size_t i = 0; i < count; i++)
        types[i] = values[i].type;
    types[count] = '\0';
    slot->used = ++c->uses;
    if (slot->prepared && slot->sql == sql && strcmp(slot->text, sql) == 0 &&
        strcmp(slot->types, types) == 0)
        return slot;
    drop_statement(c, slot);
    slot->sql = sql;
    slot->text = xstrdup(sql);
    slot->used = c->uses;
    return !c->gone && prepare_statement(c, slot, types) ? slot : NULL;
}

void store_postgres_conn_execute(struct postgres_conn *c,
                                 const struct postgres_cached *st,
                                 const struct store_value *values,
                                 size_t count, enum postgres_expected result)
{
    const char *bytes[STORE_VALUES_MAX];
    int lengths[STORE_VALUES_MAX], formats[STORE_VALUES_MAX];
    int64_t numbers[STORE_VALUES_MAX];

    for (size_t i = 0; i < count; i++) {
        const struct store_value *v = &values[i];

        formats[i] = v->type != 't';
        if (v->type == 'i') {
            numbers[i] = (int64_t)htobe64((uint64_t)v->number);
            bytes[i] = (const char *)&numbers[i];
            lengths[i] = sizeof(numbers[i]);
        } else {
            /* No bytes at an address are no NULL. */
            bytes[i] = v->bytes;
            lengths[i] = (int)v->len;
        }
    }
    if (!c->gone && !PQsendQueryPrepared(c->pg, st->name, (int)count, bytes,
                                         lengths, formats, 1))
        note_gone(c, PQerrorMessage(c->pg));
    expect(c, result);
}

/* ---- opening ------------------------------------------------------------ */

/* What the server promises about a commit it has acknowledged (D6). */
static int check_settings(struct postgres_conn *c, struct error *err)
{
    static const struct {
        const char *name, *safe, *unsafe;
    } rules[] = {
        {"fsync", "on", NULL},
        {"full_page_writes", "on", NULL},
        {"synchronous_commit", NULL, "off"},
        {"server_encoding", "UTF8", NULL},
    };
    PGresult *res = NULL;
    int r = 0;

    if (!store_postgres_conn_ask(c,
                                 "SELECT current_setting('fsync'),"
                                 " current_setting('full_page_writes'),"
                                 " current_setting('synchronous_commit'),"
                                 " current_setting('server_encoding')",
                                 0, NULL, &res))
        return store_postgres_fail("opening the database", &c->failure, err);
    for (size_t i = 0; i < ARRAY_SIZE(rules) && r == 0; i++) {
        const char *is = PQgetvalue(res, 0, (int)i);

        if ((rules[i].safe && strcmp(is, rules[i].safe) != 0) ||
            (rules[i].unsafe && strcmp(is, rules[i].unsafe) == 0)) {
            (void)error_set(err, ERR_INVALID,
                            "PostgreSQL has %s = %s; the store needs %s%s",
                            rules[i].name, is,
                            rules[i].safe ? "" : "anything but ",
                            rules[i].safe ? rules[i].safe : rules[i].unsafe);
            r = error_hint(err, "Change the setting of the server, the "
                                "database or the role, and start again.");
        }
    }
    PQclear(res);
    return r;
}

static void queue_settings(struct postgres_conn *c, enum store_mode mode)
{
    static const char *const both[] = {
        "SET client_min_messages = warning",
        "SET jit = off",
    };
    char text[80];

    for (size_t i = 0; i < ARRAY_SIZE(both); i++)
        store_postgres_conn_queue(c, both[i]);
    (void)snprintf(text, sizeof(text), "SET statement_timeout = %d",
                   STORE_POSTGRES_STATEMENT_MS);
    store_postgres_conn_queue(c, text);
    (void)snprintf(text, sizeof(text), "SET lock_timeout = %d",
                   STORE_POSTGRES_LOCK_MS);
    store_postgres_conn_queue(c, text);
    (void)snprintf(text, sizeof(text),
                   "SET idle_in_transaction_session_timeout = %d",
                   mode == STORE_WRITE ? STORE_POSTGRES_IDLE_MS
                                       : STORE_POSTGRES_IDLE_READ_MS);
    store_postgres_conn_queue(c, text);
}

/* libpq's messages may name the host and the user, but no password. */
static int refuse_connection(PGconn *pg, struct error *err)
{
    log_event(LOG_WARN, "store_unreachable", "error",
              pg ? PQerrorMessage(pg) : "no memory", NULL);
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the database server cannot be reached");
    (void)error_hint(err, "The operator has to look at PostgreSQL and at the "
                          "option `store`; the log names the reason. The "
                          "service connects again by itself.");
    return error_retry(err, 2);
}

static void on_server_notice(void *ctx, const char *text)
{
    (void)ctx;
    log_event(LOG_DEBUG, "store_notice", "why", text, NULL);
}

int store_postgres_conn_open(const struct postgres_place *place,
                             enum store_mode mode,
                             struct postgres_conn **ret_conn,
                             struct error *err)
{
    struct postgres_conn *c = xcalloc(1, sizeof(*c));

    c->answer_ms = STORE_POSTGRES_ANSWER_MS;
    c->pg = PQconnectdbParams((const char *const *)place->keywords,
                              (const char *const *)place->values, 0);
    if (PQstatus(c->pg) != CONNECTION_OK || PQsetnonblocking(c->pg, 1) < 0 ||
        !PQenterPipelineMode(c->pg)) {
        int r = refuse_connection(c->pg, err);

        store_postgres_conn_close(c);
        return r;
    }
    (void)PQsetNoticeProcessor(c->pg, on_server_notice, NULL); /* the old one
                                                                  prints */
    queue_settings(c, mode);
    if (check_settings(c, err) < 0) {
        store_postgres_conn_close(c);
        return -(int)err->code;
    }
    *ret_conn = c;
    return 0;
}

void store_postgres_conn_close(struct postgres_conn *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < STORE_POSTGRES_CACHED; i++)
        free(c->cache[i].text);
    PQfinish(c->pg);
    free(c);
}
