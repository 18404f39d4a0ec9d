/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloveboxd: the service. Starts as root or as an ordinary user; what it
 * does from there is service/service.c.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/doors.h"
#include "posture/posture.h"
#include "service/service.h"

static void start_log(const struct conf *conf)
{
    enum log_level level = LOG_INFO;

    (void)log_level_parse(conf->log_level, &level); /* checked by conf */
    log_setup("gloveboxd", level, strcmp(conf->log_format, "json") == 0);
}

static int complain(const struct error *err)
{
    (void)fprintf(stderr, "gloveboxd: %s\n", err->message);
    if (err->hint[0])
        (void)fprintf(stderr, "gloveboxd: %s\n", err->hint);
    if (err->code == ERR_CONFLICT)
        return 3; /* another one serves the data directory */
    return err->code == ERR_INVALID ? 2 : 1;
}

/* Every door's rows as JSON: what tests of who may do what go by. */
static void show_routes(void)
{
    struct buf text cleanup(buf_done) = {0};

    doors_routes_print(&text);
    (void)puts(text.data);
}

int main(int argc, char **argv)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    const char *restore = NULL, *key_file = NULL, *migrate = NULL;
    char *const *argv_all = argv;
    struct error err;

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)puts("gloveboxd " GLOVEBOX_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--routes") == 0) {
        show_routes();
        return 0;
    }
    if (argc >= 3 && strcmp(argv[1], "--migrate-to") == 0) {
        migrate = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (!migrate && argc >= 3 && strcmp(argv[1], "--restore-from") == 0) {
        restore = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (restore && argc >= 3 && strcmp(argv[1], "--backup-key") == 0) {
        key_file = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (conf_load(argc - 1, argv + 1, &conf, &err) < 0)
        return complain(&err);
    if (conf_show(conf, stdout))
        return 0;
    start_log(conf);
    posture_clean_environment(conf->keep_environment, argv_all);
    if (restore)
        return service_restore(conf, restore, key_file, &err) < 0
                   ? complain(&err)
                   : 0;
    if (migrate)
        return service_migrate(conf, migrate, &err) < 0 ? complain(&err) : 0;
    /* Two hundred threads would else get a heap each, mostly empty. */
    (void)mallopt(M_ARENA_MAX, 4);
    return service_run(conf, &err) < 0 ? complain(&err) : 0;
}
