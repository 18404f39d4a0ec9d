/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Container images: reads a docker-archive (docker save) or an OCI layout, a
 * folder or a tar file, and makes the root file system of a runtime from it.
 * Used by `glovebox runtime import`; no part of the service.
 *
 * An image is hostile. A child process reads it: without privilege, and with
 * the new root file system as its root folder, so that no link leads out of it
 * (F1). It executes nothing of the image. Bytes, entries and the ratio of
 * compression are limited (F6), and every digest is verified before what it
 * names is used.
 *
 *   image.c    the child process: start, rights, result
 *   layout.c   index, manifest and configuration; which layers there are
 *   layer.c    one layer: decompress, verify, apply to the tree
 *   finish.c   from a root file system to one that sessions can use
 */
#ifndef GLOVEBOX_IMAGE_IMAGE_H
#define GLOVEBOX_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "json/json.h"

struct error;

struct image_limits {
    uint64_t entries; /* of all layers */
    uint64_t bytes;   /* that all layers unpack to */
    uint64_t ratio;   /* of a layer's size unpacked to its size packed; checked
                         above ratio_from bytes */
    uint64_t ratio_from;
    unsigned layers;
};
extern const struct image_limits image_limits; /* what import uses */

struct image_job {
    const char *source; /* a file or a folder */
    const char *root;   /* an empty folder: becomes the root file system */
    const char *work;   /* an empty folder for what a tar file holds */
    const struct image_limits *limits;
    /* "2.34": what the kernel extension needs of the image's glibc. */
    const char *glibc;
};

/*
 * ret: what was found, owned by caller:
 *   digest, format, reference, architecture, environment [NAME=VALUE],
 *   layers, entries, bytes, skipped (device nodes and the like),
 *   python (version) and python_path, libc ("glibc 2.36", "musl"),
 *   distributions [{name, version}], mode ("zygote", "exec"), reason (of exec)
 * ERR_INVALID: it is no image, or is damaged; ERR_TOO_LARGE: a limit;
 * ERR_UNSUPPORTED: for another architecture.
 */
int image_import(const struct image_job *job, json_t **ret, struct error *err);

#endif
