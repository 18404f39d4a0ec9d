/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembles the daemon: what gloveboxd starts, in which order, with which
 * rights, and how it stops. As root it finds the service's account, claims the
 * data directory and starts the warden. Then it drops its rights. Only after
 * that does it open the store and read input of clients.
 */
#ifndef GLOVEBOX_SERVICE_SERVICE_H
#define GLOVEBOX_SERVICE_SERVICE_H

struct conf;
struct error;

/* Runs until told to stop (0) or until something ends it. conf: borrowed. */
int service_run(const struct conf *conf, struct error *err);

/* Instead of serving: a backup (from) into the new data directory of conf,
 * with a line of progress on standard output for each step. key_file: of a
 * sealed backup, else NULL. */
int service_restore(const struct conf *conf, const char *from,
                    const char *key_file, struct error *err);

/* Instead of serving: moves the store of the data directory to the PostgreSQL
 * database of that URL, or, for "sqlite", from the one that conf names back
 * into the directory. Prints progress in the same way. */
int service_migrate(const struct conf *conf, const char *to,
                    struct error *err);

#endif
