/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf: every row of the tables holds its bounds, sources win in order, bad
 * input is refused with place and hint, what is printed is what is in force.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf_int.h"
#include "conf/descriptors.h"
#include "scratch.h"

#define FLAGS_MAX 16

/* ---- help --------------------------------------------------------------- */

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < conf_options_top.count; i++) {
        char name[64] = "GLOVEBOX_";
        size_t used = strlen(name);

        for (const char *p = conf_options_top.row[i].name; *p; p++)
            name[used++] = *p == '_' ? '_' : (char)(*p - 'a' + 'A');
        name[used] = '\0';
        unsetenv(name);
    }
    setenv("GLOVEBOX_CONFIG", "none", 1);
    return 0;
}

/* Flags end with NULL. */
static int load(struct conf **ret, struct error *err, ...)
{
    char *argv[FLAGS_MAX];
    int argc = 0;
    va_list ap;

    memset(err, 0, sizeof(*err));
    va_start(ap, err);
    while ((argv[argc] = va_arg(ap, char *)))
        assert_true(++argc < FLAGS_MAX);
    va_end(ap);
    return conf_load(argc, argv, ret, err);
}

static struct conf *defaults(void)
{
    struct conf *c = NULL;
    struct error err;

    assert_int_equal(load(&c, &err, NULL), 0);
    return c;
}

static unsigned defaults_ready(void)
{
    struct conf *c cleanup(conf_freep) = defaults();

    return c->pools[0].ready;
}

static int parse(const char *text, struct conf **ret, struct error *err)
{
    struct conf *c = defaults();
    int r;

    memset(err, 0, sizeof(*err));
    r = conf_file_parse(text, strlen(text), "test.yaml", c, err);
    if (r == 0)
        r = conf_check(c, err);
    if (r == 0)
        *ret = c;
    else
        conf_free(c);
    return r;
}

static void assert_refused(const char *text, const char *message,
                           const char *hint)
{
    struct conf *c = NULL;
    struct error err;

    if (parse(text, &c, &err) != -ERR_INVALID)
        fail_msg("accepted: %s", text);
    assert_null(c);
    if (!strstr(err.message, message) || !strstr(err.hint, hint))
        fail_msg("got '%s' (%s), expected '%s' (%s)", err.message, err.hint,
                 message, hint);
}

static void assert_flag_refused(const char *flag, const char *value,
                                const char *message, const char *hint)
{
    struct conf *c = NULL;
    struct error err;

    assert_int_equal(load(&c, &err, flag, value, NULL), -ERR_INVALID);
    assert_null(c);
    if (!strstr(err.message, message) || !strstr(err.hint, hint))
        fail_msg("got '%s' (%s), expected '%s' (%s)", err.message, err.hint,
                 message, hint);
}

/* What print writes, owned by caller. */
static char *printed(const struct conf *c, void (*print)(FILE *))
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    if (print)
        print(out);
    else
        conf_dump(c, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* ---- defaults ----------------------------------------------------------- */

static void load_defaults(void **state)
{
    struct conf *c cleanup(conf_freep) = defaults();
    const struct conf_pool *p = conf_pool_find(c, NULL);

    (void)state;
    assert_int_equal(c->mode, CONF_SERVE);
    assert_int_equal(c->listen_port, 8650);
    assert_int_equal(c->workers, 192);
    assert_int_equal(c->max_executions, 160);
    assert_int_equal(c->uid_base, 1700000000);
    assert_int_equal(c->upload_bytes, 128 << 20);
    assert_string_equal(c->service_user, "glovebox");
    assert_string_equal(c->accept_missing_walls, "");
    assert_int_equal(c->pool_count, 1);
    assert_string_equal(p->name, "default");
    assert_string_equal(p->runtime, "standard");
    assert_true(p->zygote);
    assert_int_equal(p->memory_bytes, UINT64_C(1) << 30);
    assert_int_equal(p->max_memory_bytes,
                     conf_max_memory_for(conf_machine_memory()));
    assert_int_equal(p->max_cores, get_nprocs());
    assert_ptr_equal(conf_pool_find(c, ""), p);
    assert_ptr_equal(conf_pool_find(c, "default"), p);
    assert_null(conf_pool_find(c, "other"));
    assert_true(c->data_dir[0] == '/' && c->runtime_dir[0] == '/' &&
                c->runtime_defs[0] == '/');
}

static void I6_default_bind_is_loopback(void **state)
{
    static const char *const remote[] = {"0.0.0.0:1", "[::]:1", "10.0.0.1:1",
                                         "[::ffff:10.0.0.1]:1", "128.0.0.1:1"};
    static const char *const local[] = {"127.0.0.1:1", "127.255.0.1:1",
                                        "[::1]:1", "localhost:1",
                                        "[::ffff:127.0.0.1]:1"};
    struct conf *c cleanup(conf_freep) = defaults();
    struct error err;

    (void)state;
    assert_string_equal(c->listen_host, "127.0.0.1");
    assert_false(c->allow_remote);
    for (size_t i = 0; i < ARRAY_SIZE(remote); i++) {
        struct conf *got cleanup(conf_freep) = NULL;

        assert_flag_refused("--listen", remote[i], "not a loopback",
                            "allow_remote");
        assert_int_equal(
            load(&got, &err, "--listen", remote[i], "--allow-remote", NULL),
            0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(local); i++) {
        struct conf *got cleanup(conf_freep) = NULL;

        assert_int_equal(load(&got, &err, "--listen", local[i], NULL), 0);
    }
}

static void public_url_is_the_beginning_of_a_url(void **state)
{
    static const char *const good[] = {
        "https://glovebox.example.com", "http://10.0.0.5:8650",
        "https://example.com/glovebox/", "https://[2001:db8::1]:8443/a/b"};
    static const char *const bad[] = {"glovebox.example.com",
                                      "ftp://example.com",
                                      "https://",
                                      "https:///x",
                                      "https://me:pw@example.com",
                                      "https://example.com:0",
                                      "https://example.com:70000",
                                      "https://example.com/?x=1",
                                      "https://example.com/#x",
                                      "https://example.com/a//b",
                                      "https://example.com/../b",
                                      "https://exa mple.com",
                                      "https://example.com/\"x"};
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_flag_refused("--public-url", bad[i], "public_url",
                            "https://HOST");
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct conf *c cleanup(conf_freep) = NULL;

        assert_int_equal(load(&c, &err, "--public-url", good[i], NULL), 0);
        assert_string_equal(c->public_url, good[i]);
    }
}

static void tenant_sharing_is_a_list(void **state)
{
    static const char *const bad[] = {
        "acme",
        "acme=",
        "=tenant",
        "acme=all",
        "acme=tenant,",
        ",acme=principal",
        "a=tenant,,b=tenant",
        "acme=default",
        "acme=tenantx",
        "*",
    };
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_flag_refused("--tenant-sharing", bad[i], "tenant_sharing",
                            "TENANT=principal");
    assert_int_equal(load(&c, &err, "--tenant-sharing",
                          "*=tenant,acme=principal,acme2=tenant", NULL),
                     0);
    assert_string_equal(conf_tenant_sharing(c, "acme"), "principal");
    assert_string_equal(conf_tenant_sharing(c, "acme2"), "tenant");
    assert_string_equal(conf_tenant_sharing(c, "acm"), "tenant");
    assert_string_equal(conf_tenant_sharing(c, "*"), "tenant");
    assert_string_equal(c->pools[0].sharing, "default");
    assert_null(
        conf_tenant_sharing(&(struct conf){.tenant_sharing = NULL}, "acme"));
}

static void places_of_an_ordinary_user(void **state)
{
    char *data cleanup(mem_free) = NULL, *images cleanup(mem_free) = NULL;

    (void)state;
    if (geteuid() == 0) {
        data = conf_places_data();
        images = conf_places_runtimes();
        assert_string_equal(data, "/var/lib/glovebox");
        assert_string_equal(images, "/var/cache/glovebox/runtimes");
        return;
    }
    setenv("HOME", "/home/someone", 1);
    data = conf_places_data();
    images = conf_places_runtimes();
    assert_string_equal(data, "/home/someone/.local/share/glovebox");
    assert_string_equal(images, "/home/someone/.cache/glovebox/runtimes");
}

/* ---- the tables --------------------------------------------------------- */

static void assert_number(void *base, const struct conf_option *o, uint64_t v,
                          bool good)
{
    char *text cleanup(mem_free) = xasprintf("%llu", (unsigned long long)v);
    struct error err = {0};
    int r = conf_value_set(base, o, text, &err);

    if ((r == 0) != good)
        fail_msg("%s = %s: %s", o->name, text, good ? err.message : "taken");
    if (!good && (!strstr(err.message, o->name) || !strstr(err.message, "to")))
        fail_msg("%s does not tell the range", err.message);
}

static void assert_length(void *base, const struct conf_option *o, size_t len,
                          bool good)
{
    char *text cleanup(mem_free) = xmalloc(len + 1);
    struct error err = {0};

    memset(text, 'a', len);
    if (o->type == CONF_PATH && len)
        text[0] = '/';
    text[len] = '\0';
    if ((conf_value_set(base, o, text, &err) == 0) != good)
        fail_msg("%s of %zu bytes: %s", o->name, len,
                 good ? err.message : "taken");
}

static void check_bounds(void *base, const struct conf_options *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct conf_option *o = &table->row[i];

        if (o->type == CONF_U32 || o->type == CONF_SIZE) {
            assert_number(base, o, o->min, true);
            assert_number(base, o, o->min + 1, true);
            if (o->min)
                assert_number(base, o, o->min - 1, false);
            assert_number(base, o, o->max, true);
            assert_number(base, o, o->max - 1, true);
            assert_number(base, o, o->max + 1, false);
        } else if (o->type == CONF_STRING || o->type == CONF_PATH) {
            assert_length(base, o, o->min, true);
            if (o->min)
                assert_length(base, o, o->min - 1, false);
            assert_length(base, o, o->max, true);
            assert_length(base, o, o->max - 1, true);
            assert_length(base, o, o->max + 1, false);
        }
    }
}

static void value_bounds_of_every_option(void **state)
{
    struct conf *c cleanup(conf_freep) = defaults();

    (void)state;
    check_bounds(c, &conf_options_top);
    check_bounds(&c->pools[0], &conf_options_pool);
}

static void table_is_well_formed(void **state)
{
    const struct conf_options *tables[] = {&conf_options_top,
                                           &conf_options_pool};

    (void)state;
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct conf_option *o = &tables[t]->row[i];

            assert_ptr_equal(conf_options_find(tables[t], o->name), o);
            assert_non_null(o->help);
            assert_non_null(o->standard);
            /* A cell of the reference page would end there. */
            assert_null(strchr(o->help, '|'));
        }
    assert_string_equal(conf_options_pool.row[0].name, "name");
}

static void value_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
        const char *canonical;
    } cases[] = {
        {"1073741824", UINT64_C(1) << 30, "1GiB"},
        {"1GiB", UINT64_C(1) << 30, "1GiB"},
        {"1024MiB", UINT64_C(1) << 30, "1GiB"},
        {"1048577KiB", 1073742848, "1048577KiB"},
        {"1073741825", 1073741825, "1073741825"},
        {"2TiB", UINT64_C(2) << 40, "2TiB"},
        {"1.5GiB", 0, NULL},
        {"1 GiB", 0, NULL},
        {" 1GiB", 0, NULL},
        {"-1", 0, NULL},
        {"+1073741824", 0, NULL},
        {"1gib", 0, NULL},
        {"1GB", 0, NULL},
        {"0x40000000", 0, NULL},
        {"", 0, NULL},
        {"GiB", 0, NULL},
        {"18446744073709551616", 0, NULL},
        {"16777216TiB", 0, NULL}, /* 2 to the 64th */
        {"99999999999999999999GiB", 0, NULL},
    };
    struct conf *c cleanup(conf_freep) = defaults();
    struct conf_pool *p = &c->pools[0];
    const struct conf_option *o =
        conf_options_find(&conf_options_pool, "memory_bytes");

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf out cleanup(buf_done) = {0};
        struct error err;
        int r = conf_value_set(p, o, cases[i].text, &err);

        if ((r == 0) != (cases[i].bytes != 0))
            fail_msg("size \"%s\"", cases[i].text);
        if (r < 0)
            continue;
        assert_int_equal(p->memory_bytes, cases[i].bytes);
        conf_value_format(p, o, &out);
        assert_string_equal(out.data, cases[i].canonical);
    }
}

static void value_listen(void **state)
{
    static const struct {
        const char *text, *host;
        unsigned port;
    } cases[] = {
        {"127.0.0.1:0", "127.0.0.1", 0},
        {"127.0.0.1:65535", "127.0.0.1", 65535},
        {"[::1]:8650", "::1", 8650},
        {"localhost:1", "127.0.0.1", 1},
        {"127.0.0.1:65536", NULL, 0},
        {"127.0.0.1:-1", NULL, 0},
        {"127.0.0.1:", NULL, 0},
        {"127.0.0.1", NULL, 0},
        {":8650", NULL, 0},
        {"8650", NULL, 0},
        {"::1:8650", NULL, 0},
        {"[::1]", NULL, 0},
        {"[]:1", NULL, 0},
        {"[127.0.0.1]:1", NULL, 0},
        {"127.1:80", NULL, 0},
        {"example:80", NULL, 0},
        {"127.0.0.1:80 ", NULL, 0},
        {"", NULL, 0},
    };
    struct conf *c cleanup(conf_freep) = defaults();
    const struct conf_option *o =
        conf_options_find(&conf_options_top, "listen");

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err;
        int r = conf_value_set(c, o, cases[i].text, &err);

        if ((r == 0) != (cases[i].host != NULL))
            fail_msg("listen \"%s\"", cases[i].text);
        if (r < 0)
            continue;
        assert_string_equal(c->listen_host, cases[i].host);
        assert_int_equal(c->listen_port, cases[i].port);
    }
}

static void value_texts(void **state)
{
    (void)state;
    assert_flag_refused("--log-level", "loud", "debug, info, warn or error",
                        "");
    assert_flag_refused("--log-level", "inf", "log_level", "");
    assert_flag_refused("--log-level", "", "log_level", "");
    assert_flag_refused("--log-level", "info|warn", "log_level", "");
    assert_flag_refused("--service-user", "Root", "[a-z0-9_-]", "");
    assert_flag_refused("--service-user", "a b", "[a-z0-9_-]", "");
    assert_flag_refused("--service-user", "a\nb", "control character", "");
    assert_flag_refused("--allow-remote", "yes", "true or false", "");
    assert_flag_refused("--data", "", "data_dir", "");
    assert_flag_refused("--workers", "1e2", "2 to 1024", "");
}

/* ---- the file ----------------------------------------------------------- */

static void file_good(void **state)
{
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(parse("# a comment\n"
                           "listen: \"[::1]:9000\"\n"
                           "workers: 32\nmax_executions: 16\n"
                           "json_bytes: 2MiB\n"
                           "data_dir: /srv/glovebox\n"
                           "pools:\n"
                           "  - name: small\n"
                           "    memory_bytes: 268435456\n"
                           "    zygote: false\n"
                           "  - {name: large, memory_bytes: 4GiB, ready: 0}\n",
                           &c, &err),
                     0);
    assert_string_equal(c->listen_host, "::1");
    assert_int_equal(c->listen_port, 9000);
    assert_int_equal(c->workers, 32);
    assert_int_equal(c->json_bytes, 2 << 20);
    assert_string_equal(c->data_dir, "/srv/glovebox");
    assert_int_equal(c->pool_count, 2);
    assert_false(conf_pool_find(c, "small")->zygote);
    assert_int_equal(conf_pool_find(c, "large")->memory_bytes, UINT64_C(4)
                                                                   << 30);
    /* Each starts from the defaults, not from its neighbour. */
    assert_true(conf_pool_find(c, "large")->zygote);
    assert_int_equal(conf_pool_find(c, "small")->ready, defaults_ready());
    assert_null(conf_pool_find(c, "default"));
    assert_ptr_equal(conf_pool_find(c, NULL), &c->pools[0]);
}

static void file_empty_changes_nothing(void **state)
{
    static const char *const empty[] = {"", "\n", "# nothing\n", "{}\n"};
    char *want cleanup(mem_free) = NULL;
    struct conf *usual cleanup(conf_freep) = defaults();

    (void)state;
    want = printed(usual, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
        struct conf *c cleanup(conf_freep) = NULL;
        char *got cleanup(mem_free) = NULL;
        struct error err;

        assert_int_equal(parse(empty[i], &c, &err), 0);
        got = printed(c, NULL);
        assert_string_equal(got, want);
    }
}

static void file_unknown_key_names_nearest(void **state)
{
    (void)state;
    assert_refused("listen: 127.0.0.1:1\n\nworkrs: 3\n",
                   "test.yaml:3: unknown key \"workrs\"", "\"workers\"");
    assert_refused("pools:\n  - name: a\n    memry_bytes: 1GiB\n",
                   "test.yaml:3: unknown key \"memry_bytes\"",
                   "\"memory_bytes\"");
    assert_refused("pool:\n  - name: a\n", "unknown key \"pool\"",
                   "\"pools\"");
    assert_refused("memory_bytes: 1GiB\n", "unknown key", "below `pools`");
    assert_refused("pools:\n  - name: a\n    listen: x\n", "unknown key",
                   "top level");
    assert_refused("qqqqqqqq: 1\n", "unknown key", "--reference");
    assert_refused("<<: {workers: 4}\n", "unknown key", "");
    assert_refused("Workers: 4\n", "unknown key", "\"workers\"");
}

static void file_bad_value_has_line_and_range(void **state)
{
    (void)state;
    assert_refused("# one\nworkers: 1025\n",
                   "test.yaml:2: workers: \"1025\" is not allowed; use 2 to "
                   "1024",
                   "");
    assert_refused("workers:\n", "test.yaml:1: workers", "");
    assert_refused("max_sessions: 5\npools:\n  - name: a\n"
                   "    max_sessions: 7\n  - name: b\n    max_sessions: 0\n",
                   "test.yaml:6: max_sessions", "");
    assert_refused("pools: [{name: a, ready: 1001}]\n",
                   "test.yaml:1: ready: \"1001\"", "");
    assert_refused("data_dir: here\n", "must start with /", "");
    assert_refused("workers: [4]\n", "test.yaml:1: a value of the wrong kind",
                   "");
    assert_refused("pools: 3\n", "wrong kind", "");
}

static void file_bad_shape(void **state)
{
    (void)state;
    assert_refused("workers: 4\nlisten: 127.0.0.1:1\nworkers: 5\n",
                   "test.yaml:3: \"workers\" is given twice", "");
    assert_refused("pools:\n  - name: a\n    name: b\n",
                   "test.yaml:3: \"name\" is given twice", "");
    assert_refused("workers: 4\nworkrs:\n  - 4\n",
                   "test.yaml:2: unknown key \"workrs\"", "");
    assert_refused("pools:\n  - a\n", "test.yaml:2: a value of the wrong kind",
                   "");
    assert_refused("- workers\n", "test.yaml", "");
    assert_refused("just text\n", "test.yaml", "");
    assert_refused("workers: 4\n---\nworkers: 5\n", "more than one", "");
    assert_refused("workers: &x 4\nmax_executions: *x\n", "aliases", "");
    assert_refused("workers: {\n", "test.yaml", "");
    assert_refused("workers: 4\n\tmax_executions: 2\n", "test.yaml", "");
    assert_refused("workers: \xff\n", "test.yaml", "");
}

static void file_value_size_limit(void **state)
{
    (void)state;
    for (int more = -1; more <= 1; more++) {
        struct buf text cleanup(buf_done) = {0};
        struct conf *c cleanup(conf_freep) = NULL;
        struct error err;

        buf_adds(&text, "service_user: ");
        for (int i = 0; i < CONF_TEXT_MAX + more; i++)
            buf_adds(&text, "x");
        buf_adds(&text, "\n");
        assert_int_equal(parse(text.data, &c, &err), -ERR_INVALID);
        assert_int_equal(strstr(err.message, "longer than 4096") != NULL,
                         more > 0); /* below, the option's own limit */
    }
}

static void file_pools(void **state)
{
    struct buf text cleanup(buf_done) = {0};
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    assert_refused("pools: []\n", "test.yaml", "");
    assert_refused("pools:\n  - ready: 1\n", "pool 1 has no name", "");
    assert_refused("pools:\n  - name: a\n  - name: a\n", "two pools", "");
    assert_refused("pools:\n  - name: A\n", "[a-z0-9-]", "");
    assert_refused("pools:\n  - name: a/b\n", "name", "");
    buf_adds(&text, "pools:\n");
    for (int i = 0; i < CONF_POOLS_MAX; i++)
        buf_addf(&text, "  - name: p%d\n", i);
    assert_int_equal(parse(text.data, &c, &err), 0);
    assert_int_equal(c->pool_count, CONF_POOLS_MAX);
    buf_adds(&text, "  - name: more\n");
    assert_refused(text.data, "test.yaml", "");
}

static void file_size_limit(void **state)
{
    char path[] = "/tmp/test_conf.XXXXXX";
    int fd cleanup(fd_close) = mkstemp(path);
    struct buf text cleanup(buf_done) = {0};
    struct error err;

    (void)state;
    assert_true(fd >= 0);
    buf_adds(&text, "workers: 200\n#");
    while (text.len < CONF_FILE_MAX - 1)
        buf_adds(&text, "x");
    for (int more = -1; more <= 1; more++) {
        struct conf *c cleanup(conf_freep) = NULL;
        int r;

        assert_int_equal(pwrite(fd, text.data, text.len, 0), text.len);
        r = load(&c, &err, "--config", path, NULL);
        assert_int_equal(r, more <= 0 ? 0 : -ERR_INVALID);
        if (r == 0) {
            assert_int_equal(c->workers, 200);
            assert_string_equal(c->file, path);
        } else {
            assert_non_null(strstr(err.message, "256 KiB"));
        }
        buf_adds(&text, "x");
    }
    unlink(path);
}

static void file_missing_or_unreadable(void **state)
{
    (void)state;
    assert_flag_refused("--config", "/nowhere/glovebox.yaml",
                        "cannot read /nowhere/glovebox.yaml", "");
    assert_flag_refused("--config", "/tmp", "cannot read /tmp", "");
}

static void file_nul_and_escapes(void **state)
{
    static const char text[] = "workers: 4\0max_executions: 2\n";
    struct conf *c cleanup(conf_freep) = defaults();
    struct error err;

    (void)state;
    assert_int_equal(
        conf_file_parse(text, sizeof(text) - 1, "test.yaml", c, &err),
        -ERR_INVALID);
    assert_refused("service_user: \"a\\nb\"\n", "control character", "");
}

/* No input may crash or hang; the sanitizers watch. */
static void file_mutations_are_survived(void **state)
{
    static const char seed[] = "listen: \"[::1]:9000\"\nworkers: 32\n"
                               "pools:\n  - name: small\n    ready: 1\n"
                               "  - {name: b, memory_bytes: 4GiB}\n";
    static const char spice[] = "\n\t :-[]{}#&*!|>'\"%@`,?~\\\xff\x01";
    uint32_t random = 12345;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        char text[sizeof(seed)];
        struct conf *c cleanup(conf_freep) = NULL;
        struct error err;

        memcpy(text, seed, sizeof(seed));
        for (int i = 0; i < 1 + round % 4; i++) {
            random = random * 1664525 + 1013904223;
            text[(random >> 8) % (sizeof(seed) - 1)] =
                spice[(random >> 20) % (sizeof(spice) - 1)];
        }
        (void)parse(text, &c, &err);
    }
}

static void file_deep_nesting_is_refused(void **state)
{
    struct buf text cleanup(buf_done) = {0};

    (void)state;
    buf_adds(&text, "workers: ");
    for (int i = 0; i < 100000; i++)
        buf_adds(&text, "[");
    assert_refused(text.data, "test.yaml", "");
}

/* ---- order of sources --------------------------------------------------- */

static void sources_win_in_order(void **state)
{
    char path[] = "/tmp/test_conf.XXXXXX";
    int fd cleanup(fd_close) = mkstemp(path);
    struct error err;

    (void)state;
    assert_int_equal(dprintf(fd, "workers: 300\nqueue_per_session: 3\n"
                                 "connections: 30\n"),
                     50);
    setenv("GLOVEBOX_QUEUE_PER_SESSION", "4", 1);
    setenv("GLOVEBOX_CONNECTIONS", "40", 1);
    for (int by_flag = 0; by_flag < 2; by_flag++) {
        struct conf *c cleanup(conf_freep) = NULL;

        setenv("GLOVEBOX_CONFIG", by_flag ? "/nowhere" : path, 1);
        assert_int_equal(by_flag ? load(&c, &err, "--config", path,
                                        "--connections=50", NULL)
                                 : load(&c, &err, "--connections", "50", NULL),
                         0);
        assert_int_equal(c->workers, 300);
        assert_int_equal(c->queue_per_session, 4);
        assert_int_equal(c->connections, 50);
    }
    unlink(path);
}

static void environment_errors(void **state)
{
    struct conf *c = NULL;
    struct error err;

    (void)state;
    setenv("GLOVEBOX_WORKERS", "0", 1);
    assert_int_equal(load(&c, &err, NULL), -ERR_INVALID);
    assert_non_null(strstr(err.message, "environment GLOVEBOX_WORKERS"));
    unsetenv("GLOVEBOX_WORKERS");
    setenv("GLOVEBOX_WORKRES", "4", 1);
    assert_int_equal(load(&c, &err, NULL), -ERR_INVALID);
    assert_non_null(strstr(err.hint, "GLOVEBOX_WORKERS"));
    unsetenv("GLOVEBOX_WORKRES");
    setenv("GLOVEBOX_URL", "http://127.0.0.1:1", 1);
    setenv("GLOVEBOX_KEY", "x", 1);
    assert_int_equal(load(&c, &err, NULL), 0);
    conf_free(c);
}

static void flags_forms(void **state)
{
    char *cwd cleanup(mem_free) = getcwd(NULL, 0);
    char *want cleanup(mem_free) = xasprintf("%s/some/where", cwd);
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(load(&c, &err, "--data", "some/where",
                          "--log-format=json", "--workers", "300",
                          "--workers=301", "--allow-remote",
                          "--accept-missing-walls", "landlock,cgroup", NULL),
                     0);
    assert_string_equal(c->data_dir, want);
    assert_string_equal(c->log_format, "json");
    assert_int_equal(c->workers, 301);
    assert_true(c->allow_remote);
    assert_string_equal(c->accept_missing_walls, "landlock,cgroup");
}

static void flags_errors(void **state)
{
    (void)state;
    assert_flag_refused("--wrokers", "3", "unknown flag", "--workers");
    assert_flag_refused("--max-exections", "3", "unknown flag",
                        "--max-executions");
    assert_flag_refused("--zzzzzzzzzzzz", NULL, "unknown flag", "--help");
    assert_flag_refused("--workers", NULL, "needs a value", "");
    assert_flag_refused("--config", NULL, "needs a value", "");
    assert_flag_refused("--check=1", NULL, "unknown flag", "");
    assert_flag_refused("--", NULL, "unknown flag", "");
    assert_flag_refused("serve", NULL, "unexpected argument", "");
    assert_flag_refused("-x", NULL, "unexpected argument", "");
    assert_flag_refused("--pools", "x", "unknown flag", "");
}

/* ---- checks across options ---------------------------------------------- */

static void check_ready_by_memory(void **state)
{
    const uint64_t gib = UINT64_C(1) << 30;

    (void)state;
    assert_int_equal(conf_ready_for(0), 4);
    assert_int_equal(conf_ready_for(2 * gib), 4);
    assert_int_equal(conf_ready_for(5 * gib / 2 - 1), 4);
    assert_int_equal(conf_ready_for(5 * gib / 2), 5);
    assert_int_equal(conf_ready_for(16 * gib - 1), 31);
    assert_int_equal(conf_ready_for(16 * gib), 32);
    assert_int_equal(conf_ready_for(UINT64_MAX), 32);
}

/* How many are kept ready is at most how many there may be, unasked. */
static void check_ready_follows_sessions(void **state)
{
    const unsigned most[] = {1, defaults_ready() - 1, defaults_ready(),
                             defaults_ready() + 1};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(most); i++) {
        struct conf *c cleanup(conf_freep) = NULL;
        char text[64];
        struct error err;

        (void)snprintf(text, sizeof(text),
                       "pools: [{name: a, max_sessions: %u}]\n", most[i]);
        assert_int_equal(parse(text, &c, &err), 0);
        assert_int_equal(c->pools[0].ready, MIN(most[i], defaults_ready()));
    }
}

static void check_isolation_of_this_build(void **state)
{
    static const struct {
        const char *text, *says;
    } refused[] = {
        {"pools: [{name: a, isolation: vm}]\n", "no tier \"vm\""},
        {"pools: [{name: a, isolation: gvisor, zygote: false}]\n",
         "cannot have zygote: false"},
        {"pools: [{name: a, isolation: proces}]\n", "no tier \"proces\""},
    };
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(parse("pools: [{name: a}]\n", &c, &err), 0);
    assert_string_equal(c->pools[0].isolation, "process");
    conf_freep(&c);
    c = NULL;
    assert_int_equal(
        parse("pools: [{name: a, isolation: gvisor}]\n", &c, &err), 0);
    assert_string_equal(c->pools[0].isolation, "gvisor");
    assert_int_equal(c->pools[0].ready, 2); /* guests are large */
    conf_freep(&c);
    c = NULL;
    assert_int_equal(
        parse("pools: [{name: a, isolation: gvisor, ready: 3}]\n", &c, &err),
        0);
    assert_int_equal(c->pools[0].ready, 3);
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        struct conf *none = NULL;

        assert_int_equal(parse(refused[i].text, &none, &err), -ERR_INVALID);
        assert_non_null(strstr(err.message, "pool a"));
        assert_non_null(strstr(err.message, refused[i].says));
        assert_non_null(strstr(err.hint, "process"));
    }
}

static void put_limit(const char *dir, const char *path, const char *text)
{
    char *name cleanup(mem_free) = xasprintf("%s/%s", dir, path);
    FILE *f;

    for (char *at = name + strlen(dir) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(name, 0700);
        *at = '/';
    }
    f = fopen(name, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

/* The machine's memory, or the least limit of the groups the service is in. */
static void R2_memory_is_that_of_the_control_group(void **state)
{
    char dir[] = "/tmp/test_conf.XXXXXX";
    const uint64_t total = UINT64_C(24) << 30;

    (void)state;
    assert_non_null(mkdtemp(dir));
    put_limit(dir, "a/b/memory.max", "max\n");
    assert_int_equal(conf_memory_within(total, "0::/a/b\n", dir), total);
    put_limit(dir, "a/memory.max", "8589934592\n");
    assert_int_equal(conf_memory_within(total, "0::/a/b\n", dir), UINT64_C(8)
                                                                      << 30);
    assert_int_equal(conf_memory_within(total, "0::/\n", dir), total);
    put_limit(dir, "memory.max", "4294967296\n"); /* as in a container */
    assert_int_equal(conf_memory_within(total, "0::/\n", dir), UINT64_C(4)
                                                                   << 30);
    assert_int_equal(conf_memory_within(total, "0::/gone/x\n", dir),
                     UINT64_C(4) << 30);
    put_limit(dir, "memory/c/memory.limit_in_bytes", "1073741824\n");
    assert_int_equal(conf_memory_within(total, "3:cpu:/a\n2:memory:/c\n", dir),
                     UINT64_C(1) << 30);
    put_limit(dir, "memory/c/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(conf_memory_within(total, "2:memory:/c\nnonsense", dir),
                     total);
    assert_int_equal(scratch_remove(dir), 0);
}

static void R2_most_memory_is_four_fifths_of_the_machine(void **state)
{
    const uint64_t mib = 1 << 20;

    (void)state;
    assert_int_equal(conf_max_memory_for(1000 * mib), 800 * mib);
    assert_int_equal(conf_max_memory_for(1001 * mib), 800 * mib);
    assert_int_equal(conf_max_memory_for(1002 * mib), 801 * mib);
    assert_int_equal(conf_max_memory_for(UINT64_C(64) << 40) % mib, 0);
    assert_int_equal(conf_max_memory_for(0), 64 * mib); /* not known */
}

static void check_default_within_maximum(void **state)
{
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    assert_refused("pools:\n  - name: a\n    memory_bytes: 65GiB\n"
                   "    max_memory_bytes: 64GiB\n",
                   "pool a: memory_bytes (65GiB) is above max_memory_bytes "
                   "(64GiB)",
                   "raise");
    /* Without one of its own it follows. */
    assert_int_equal(
        parse("pools:\n  - name: a\n    memory_bytes: 9TiB\n", &c, &err), 0);
    assert_int_equal(c->pools[0].max_memory_bytes, UINT64_C(9) << 40);
    conf_freep(&c);
    assert_refused("pools:\n  - name: a\n    cores: 3\n    max_cores: 2\n",
                   "cores (3) is above max_cores (2)", "");
    assert_refused("pools:\n  - name: a\n    python_timeout_max_s: 119\n",
                   "python_timeout_s (120)", "");
    assert_refused("pools:\n  - name: a\n    shell_timeout_s: 241\n",
                   "shell_timeout_s", "");
    assert_refused("pools:\n  - name: a\n    max_sessions: 3\n    ready: 4\n",
                   "ready (4) is above max_sessions (3)", "");
    assert_refused("workers: 160\n", "max_executions (160)", "");
    assert_refused("code_bytes: 5MiB\n", "code_bytes (5MiB)", "");
    assert_refused("uid_base: 4294000000\n", "uid_base", "");
    assert_int_equal(parse("workers: 161\ncode_bytes: 4MiB\npools:\n"
                           "  - name: a\n    memory_bytes: 64GiB\n"
                           "    python_timeout_max_s: 120\n"
                           "    shell_timeout_s: 240\n    max_sessions: 4\n",
                           &c, &err),
                     0);
}

static void nearest_names(void **state)
{
    (void)state;
    assert_int_equal(conf_options_distance("", ""), 0);
    assert_int_equal(conf_options_distance("abc", ""), 3);
    assert_int_equal(conf_options_distance("kitten", "sitting"), 3);
    assert_null(conf_options_nearest(&conf_options_top, "xyz"));
    assert_string_equal(conf_options_nearest(&conf_options_top, "log_levl"),
                        "log_level");
    assert_null(conf_options_nearest(
        &conf_options_top,
        "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"));
}

/* ---- printing ----------------------------------------------------------- */

static void dump_loads_to_the_same(void **state)
{
    struct conf *first cleanup(conf_freep) = NULL;
    struct conf *second cleanup(conf_freep) = NULL;
    char *text cleanup(mem_free) = NULL, *again cleanup(mem_free) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(
        parse("listen: \"[::1]:0\"\ndata_dir: \"/a b/\\\"c\\\\d: #e\"\n"
              "pools:\n  - name: a-b\n  - name: c\n    tmp_bytes: 70001\n",
              &first, &err),
        0);
    text = printed(first, NULL);
    if (parse(text, &second, &err) < 0)
        fail_msg("%s", err.message);
    again = printed(second, NULL);
    assert_string_equal(text, again);
    assert_string_equal(second->data_dir, "/a b/\"c\\d: #e");
    assert_int_equal(second->pools[1].tmp_bytes, 70001);
}

static void show_modes(void **state)
{
    static const char *const flags[] = {"--check", "--dump", "--reference",
                                        "--sample", "--help"};
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        struct conf *c cleanup(conf_freep) = NULL;
        char *text cleanup(mem_free) = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        assert_int_equal(load(&c, &err, flags[i], NULL), 0);
        assert_true(conf_show(c, out));
        assert_int_equal(fclose(out), 0);
        assert_true(len > 10);
    }
}

static void show_nothing_when_serving(void **state)
{
    struct conf *c cleanup(conf_freep) = defaults();

    (void)state;
    assert_false(conf_show(c, stdout));
}

/* All commented out it changes nothing; all uncommented it is valid. */
static void sample_is_valid_either_way(void **state)
{
    char *text cleanup(mem_free) = printed(NULL, conf_sample);
    char *want cleanup(mem_free) = NULL, *got cleanup(mem_free) = NULL;
    struct buf open cleanup(buf_done) = {0};
    struct conf *c cleanup(conf_freep) = NULL;
    struct conf *d cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(parse(text, &c, &err), 0);
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        bool option =
            line[0] == '#' && len > 1 && (line[1] != ' ' || line[2] == ' ');

        /* Those without a value show in words what it would be. */
        if (option && !memmem(line, len, ":        #", 10))
            buf_add(&open, line + 1, len);
        line += len + (line[len] == '\n');
    }
    if (parse(open.data, &d, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(c->model_count, 0);
    assert_int_equal(d->model_count, 1); /* its model is an example */
    d->model_count = 0;
    assert_int_equal(c->bucket_count, 0);
    assert_int_equal(d->bucket_count, 1); /* and so is its bucket */
    d->bucket_count = 0;
    want = printed(c, NULL);
    got = printed(d, NULL);
    assert_string_equal(got, want);
}

/* buckets: likewise. */
static void buckets_are_read_and_checked(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"buckets: [{region: x}]", "bucket 1 has no name"},
        {"buckets: [{name: \"A\"}]", "name"},
        {"buckets: [{name: a, endpoint: \"http://192.0.2.1\"}]",
         "bucket a: endpoint must be https"},
        {"buckets: [{name: a, use: all}]", "use is a list"},
        {"buckets: [{name: a, style: dns}]", "style"},
        {"buckets: [{name: a, part_bytes: 5242879}]", "part_bytes"},
        {"buckets: [{name: a, connections: 257}]", "connections"},
        {"buckets: [{name: a}, {name: a}]", "two buckets are named"},
        {"buckets: [{name: a, colour: red}]", "unknown key"},
        {"buckets: {name: a}", "a list of at most 16"},
        {"blob_bucket: a", "blob_bucket a is no entry"},
        {"{blob_bucket: a, buckets: [{name: a, use: mirror}]}",
         "is no entry of buckets whose use is blobs"},
        {"{blob_bucket: a, buckets: [{name: a, tenants: t}]}",
         "leave its tenants empty"},
        {"blob_cache_bytes: 1KiB", "blob_cache_bytes"},
    };
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct conf *d cleanup(conf_freep) = NULL;

        assert_int_equal(parse(bad[i].text, &d, &err), -ERR_INVALID);
        if (!strstr(err.message, bad[i].words))
            fail_msg("%s: %s", bad[i].text, err.message);
    }
    assert_int_equal(
        parse("{blob_bucket: a, buckets: [{name: a, part_bytes: 5MiB}, {name: "
              "b, endpoint: \"http://127.0.0.1:9000\", use: \"blobs,mirror\","
              " tenants: \"t,u\"}]}",
              &c, &err),
        0);
    assert_int_equal(c->bucket_count, 2);
    assert_string_equal(conf_bucket_find(c, "a")->style, "path");
    assert_null(conf_bucket_find(c, "c"));
    assert_true(conf_list_has(conf_bucket_find(c, "b")->use, "mirror"));
    assert_false(conf_list_has(conf_bucket_find(c, "b")->use, "mirr"));
    assert_false(conf_list_has("", "t"));
}

/* models: is a list of its own, with its own keys and limits. */
static void models_are_read_and_checked(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"models: [{url: \"http://h\"}]", "model 1 has no name"},
        {"models: [{name: \"a b\"}]", "name"},
        {"models: [{name: a, kind: gpt}]", "kind"},
        {"models: [{name: a, url: \"ftp://h\"}]", "url must begin with"},
        {"models: [{name: a}, {name: a}]", "two models are named"},
        {"models: [{name: a, default: true}, {name: b, default: true}]",
         "both the default"},
        {"models: [{name: a, concurrent: 0}]", "concurrent"},
        {"models: [{name: a, concurrent: 1001}]", "concurrent"},
        {"models: [{name: a, runtime: x}]", "unknown key"},
        {"models: {name: a}", "a list of at most"},
        {"models: [a]", "a model is a mapping"},
    };
    struct conf *c cleanup(conf_freep) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(parse("models:\n  - name: a\n    kind: anthropic\n    "
                           "url: https://h/v1\n    concurrent: 1000\n    "
                           "price_input: 2.50\n  - name: b\n",
                           &c, &err),
                     0);
    assert_int_equal(c->model_count, 2);
    assert_string_equal(c->models[0].kind, "anthropic");
    assert_int_equal(c->models[0].concurrent, 1000);
    assert_string_equal(c->models[1].url, "http://127.0.0.1:8080/v1");
    assert_true(c->models[1].tools);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct conf *d cleanup(conf_freep) = NULL;

        assert_int_equal(parse(bad[i].text, &d, &err), -ERR_INVALID);
        if (!strstr(err.message, bad[i].words))
            fail_msg("%s: %s", bad[i].text, err.message);
    }
}

static void assert_file_is(const char *path, const char *want)
{
    char *got cleanup(mem_free) = NULL;

    if (access("src/conf/options.c", R_OK) < 0) {
        print_message("# SKIP: not run from the source tree\n");
        skip();
    }
    assert_int_equal(fd_read_file(AT_FDCWD, path, CONF_FILE_MAX, &got, NULL),
                     0);
    if (strcmp(got, want) != 0)
        fail_msg("%s is out of date; print it again", path);
}

static void reference_page_is_current(void **state)
{
    char *text cleanup(mem_free) = printed(NULL, conf_reference);

    (void)state;
    assert_file_is("docs/CONFIG.md", text);
}

static void sample_file_is_current(void **state)
{
    char *text cleanup(mem_free) = printed(NULL, conf_sample);

    (void)state;
    assert_file_is("packaging/glovebox.yaml", text);
}

#define CASE(name) cmocka_unit_test_setup(name, clear_environment)

static void R8_descriptors_of_all_sessions_fit_exactly(void **state)
{
    struct conf *c cleanup(conf_freep) = defaults();
    uint64_t needed = conf_descriptors_needed(c);

    (void)state;
    assert_int_equal(conf_descriptors_sessions(c, needed), c->max_sessions);
    assert_int_equal(conf_descriptors_sessions(c, needed - 1),
                     c->max_sessions - 1);
    assert_true(conf_descriptors_sessions(c, 2 * needed) > c->max_sessions);
    /* Of a small table sessions have half; of a tiny one nothing is left. */
    assert_int_equal(conf_descriptors_reserve(c, 1000), 500);
    assert_int_equal(conf_descriptors_sessions(c, 0), 0);
    assert_int_equal(conf_descriptors_sessions(c, 64), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(load_defaults),
        CASE(I6_default_bind_is_loopback),
        CASE(public_url_is_the_beginning_of_a_url),
        CASE(tenant_sharing_is_a_list),
        CASE(places_of_an_ordinary_user),
        CASE(value_bounds_of_every_option),
        CASE(table_is_well_formed),
        CASE(value_sizes),
        CASE(value_listen),
        CASE(value_texts),
        CASE(file_good),
        CASE(file_empty_changes_nothing),
        CASE(file_unknown_key_names_nearest),
        CASE(file_bad_value_has_line_and_range),
        CASE(file_bad_shape),
        CASE(file_value_size_limit),
        CASE(file_pools),
        CASE(file_size_limit),
        CASE(file_missing_or_unreadable),
        CASE(file_nul_and_escapes),
        CASE(file_mutations_are_survived),
        CASE(file_deep_nesting_is_refused),
        CASE(sources_win_in_order),
        CASE(environment_errors),
        CASE(flags_forms),
        CASE(flags_errors),
        CASE(check_ready_by_memory),
        CASE(check_ready_follows_sessions),
        CASE(check_isolation_of_this_build),
        CASE(R2_memory_is_that_of_the_control_group),
        CASE(R2_most_memory_is_four_fifths_of_the_machine),
        CASE(check_default_within_maximum),
        CASE(nearest_names),
        CASE(dump_loads_to_the_same),
        CASE(show_modes),
        CASE(show_nothing_when_serving),
        CASE(sample_is_valid_either_way),
        CASE(models_are_read_and_checked),
        CASE(buckets_are_read_and_checked),
        CASE(reference_page_is_current),
        CASE(sample_file_is_current),
        cmocka_unit_test(R8_descriptors_of_all_sessions_fit_exactly),
    };

    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
