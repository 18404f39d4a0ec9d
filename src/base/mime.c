/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The type of a file by the ending of its name, never by looking inside.
 * Pure. Only a label: answers tell browsers not to act on it (F8).
 */
#include "base/mime.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

struct type {
    const char *ending, *mime;
};

#define OFFICE "application/vnd.openxmlformats-officedocument."
#define OPEN "application/vnd.oasis.opendocument."

/* In order of ending. */
static const struct type types[] = {
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"avro", "application/vnd.apache.avro"},
    {"bash", "text/x-shellscript"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"cc", "text/x-c++"},
    {"cfg", "text/plain"},
    {"conf", "text/plain"},
    {"cpp", "text/x-c++"},
    {"cs", "text/x-csharp"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"db", "application/vnd.sqlite3"},
    {"doc", "application/msword"},
    {"docx", OFFICE "wordprocessingml.document"},
    {"eml", "message/rfc822"},
    {"epub", "application/epub+zip"},
    {"feather", "application/vnd.apache.arrow.file"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"go", "text/x-go"},
    {"gz", "application/gzip"},
    {"h", "text/x-c"},
    {"h5", "application/x-hdf5"},
    {"hpp", "text/x-c++"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ico", "image/vnd.microsoft.icon"},
    {"ics", "text/calendar"},
    {"ini", "text/plain"},
    {"ipynb", "application/x-ipynb+json"},
    {"java", "text/x-java"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"jsx", "text/jsx"},
    {"log", "text/plain"},
    {"m4a", "audio/mp4"},
    {"markdown", "text/markdown"},
    {"md", "text/markdown"},
    {"mjs", "text/javascript"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpeg", "video/mpeg"},
    {"ndjson", "application/x-ndjson"},
    {"npy", "application/x-npy"},
    {"npz", "application/x-npz"},
    {"odp", OPEN "presentation"},
    {"ods", OPEN "spreadsheet"},
    {"odt", OPEN "text"},
    {"ogg", "audio/ogg"},
    {"otf", "font/otf"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"php", "text/x-php"},
    {"pkl", "application/octet-stream"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", OFFICE "presentationml.presentation"},
    {"ps", "application/postscript"},
    {"py", "text/x-python"},
    {"r", "text/x-r"},
    {"rb", "text/x-ruby"},
    {"rs", "text/x-rust"},
    {"rst", "text/x-rst"},
    {"rtf", "application/rtf"},
    {"sh", "text/x-shellscript"},
    {"sql", "application/sql"},
    {"sqlite", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tex", "text/x-tex"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "text/x-typescript"},
    {"tsv", "text/tab-separated-values"},
    {"tsx", "text/x-typescript"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", OFFICE "spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

static int compare(const void *key, const void *row)
{
    return strcasecmp(key, ((const struct type *)row)->ending);
}

const char *mime_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const struct type *t = NULL;

    if (dot && dot != name)
        t = bsearch(dot + 1, types, ARRAY_SIZE(types), sizeof(types[0]),
                    compare);
    return t ? t->mime : MIME_UNKNOWN;
}
