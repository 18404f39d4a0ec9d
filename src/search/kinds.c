/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files are read, and how, told by the name's ending and, where that
 * says nothing, by the mime type. Runs in the daemon; looks at no bytes.
 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "search/search_int.h"

enum {
    TEXT,
    CODE,
    CSV,
    JSON,
    MARKDOWN,
    HTML,
    PDF,
    DOCX,
    XLSX,
    PPTX,
    ODT,
    ODS,
    ODP,
    NONE,
    GUESS,
    KINDS
};

static const struct search_kind kinds[KINDS] = {
    [TEXT] = {"text", READ_TEXT},         [CODE] = {"code", READ_TEXT},
    [CSV] = {"csv", READ_TEXT},           [JSON] = {"json", READ_TEXT},
    [MARKDOWN] = {"markdown", READ_TEXT}, [HTML] = {"html", READ_HTML},
    [PDF] = {"pdf", READ_DOCUMENT},       [DOCX] = {"docx", READ_DOCUMENT},
    [XLSX] = {"xlsx", READ_DOCUMENT},     [PPTX] = {"pptx", READ_DOCUMENT},
    [ODT] = {"odt", READ_DOCUMENT},       [ODS] = {"ods", READ_DOCUMENT},
    [ODP] = {"odp", READ_DOCUMENT},       [NONE] = {"none", READ_NOTHING},
    [GUESS] = {"text", READ_GUESS},
};

/* Between spaces, lower case. */
static const char *const endings[KINDS] = {
    [TEXT] = " txt text log out err rst org tex bib srt vtt adoc eml ics vcf ",
    [CODE] = " py pyi js mjs cjs ts tsx jsx c h cc cpp cxx hpp cs java kt go "
             "rs rb php pl pm lua r jl swift scala sh bash zsh fish ps1 bat "
             "cmd sql css scss less xml xsl xsd svg yaml yml toml ini cfg "
             "conf env properties mk cmake gradle proto graphql vue svelte "
             "tf hcl asm s vb fs clj ex exs erl hs ml nix dart diff patch "
             "awk sed vim el lisp scm m mm ",
    [CSV] = " csv tsv psv tab ",
    [JSON] = " json jsonl ndjson geojson ipynb json5 har ",
    [MARKDOWN] = " md markdown mdx rmd qmd ",
    [HTML] = " html htm xhtml ",
    [PDF] = " pdf ",
    [DOCX] = " docx docm dotx dotm ",
    [XLSX] = " xlsx xlsm xltx xltm ",
    [PPTX] = " pptx pptm potx ppsx ",
    [ODT] = " odt ott ",
    [ODS] = " ods ots ",
    [ODP] = " odp otp ",
    [NONE] = " png jpg jpeg gif webp bmp ico tif tiff heic avif psd mp3 wav "
             "ogg flac m4a mp4 mov avi mkv webm zip gz tgz bz2 xz zst 7z rar "
             "tar exe dll so o a pyc class jar whl db sqlite sqlite3 parquet "
             "feather arrow pkl pickle npy npz h5 hdf5 doc xls ppt rtf ttf "
             "otf woff woff2 iso dmg deb rpm joblib onnx pt safetensors ",
};

/* By the start of the mime type, when the ending is unknown. */
static const struct {
    const char *start;
    int kind;
} mimes[] = {
    {"text/html", HTML},
    {"text/csv", CSV},
    {"text/markdown", MARKDOWN},
    {"text/", TEXT},
    {"application/json", JSON},
    {"application/pdf", PDF},
    {"image/", NONE},
    {"audio/", NONE},
    {"video/", NONE},
    {"font/", NONE},
};

static bool kind_lists(const char *list, const char *word, size_t len)
{
    for (const char *at = list; at && (at = strcasestr(at, word)); at++)
        if (at > list && at[-1] == ' ' && at[len] == ' ')
            return true;
    return false;
}

const struct search_kind *search_kind_of(const char *path, const char *mime)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    size_t len = dot ? strlen(dot + 1) : 0;

    if (len > 0 && len <= 12 && !strchr(dot, ' '))
        for (size_t k = 0; k < KINDS; k++)
            if (kind_lists(endings[k], dot + 1, len))
                return &kinds[k];
    for (size_t i = 0; i < ARRAY_SIZE(mimes); i++)
        if (strncmp(mime, mimes[i].start, strlen(mimes[i].start)) == 0)
            return &kinds[mimes[i].kind];
    return &kinds[GUESS];
}

bool search_kind_paged(const char *kind)
{
    for (size_t k = 0; k < KINDS; k++)
        if (strcmp(kind, kinds[k].name) == 0)
            return kinds[k].how == READ_DOCUMENT;
    return false;
}
