/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the XML that an S3 server answers with. Whatever it is, paths and
 * texts that come out are within their bounds, and what is refused has a
 * reason.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "s3/s3_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_element(void *ctx, const char *path, const char *text)
{
    unsigned *count = ctx, depth = 1;
    int64_t ms;

    for (const char *at = path; (at = strchr(at, '/')); at++)
        depth++;
    assert(*path && depth <= S3_XML_DEPTH);
    assert(strlen(text) <= S3_XML_TEXT);
    (void)s3_xml_time(text, &ms);
    (void)s3_http_date(text, &ms);
    return ++*count > 100000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    unsigned count = 0;
    int r = s3_xml_parse((const char *)data, size, on_element, &count, &err);

    if (r < 0)
        assert(err.code == ERR_CORRUPT && err.message[0]);
    return 0;
}
