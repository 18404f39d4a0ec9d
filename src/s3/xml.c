/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XML that S3 answers with, read with expat. A document type is refused,
 * so there are no entities but the five of XML; depth, text and names are
 * bounded, and the caller bounds the document. Computation only.
 */
#include <expat.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "s3/s3_int.h"

#define NAME_MAX_BYTES 64u

struct reading {
    XML_Parser parser;
    s3_xml_fn fn;
    void *ctx;
    int result;          /* of fn */
    const char *refused; /* or NULL */
    unsigned depth;
    size_t path_len[S3_XML_DEPTH + 1];
    char path[S3_XML_DEPTH * (NAME_MAX_BYTES + 1) + 1];
    struct buf text[S3_XML_DEPTH + 1];
};

static void reading_done(struct reading *r)
{
    if (r->parser)
        XML_ParserFree(r->parser);
    for (size_t i = 0; i < ARRAY_SIZE(r->text); i++)
        buf_done(&r->text[i]);
}

static void refuse(struct reading *r, const char *why)
{
    r->refused = why;
    (void)XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL on_doctype(void *ctx, const XML_Char *name,
                               const XML_Char *system, const XML_Char *public,
                               int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    refuse(ctx, "it has a document type");
}

static void XMLCALL on_start(void *ctx, const XML_Char *name,
                             const XML_Char **attributes)
{
    struct reading *r = ctx;
    const char *colon = strrchr(name, ':');
    size_t len = r->path_len[r->depth], room = sizeof(r->path) - len;

    (void)attributes;
    if (colon)
        name = colon + 1;
    if (r->depth == S3_XML_DEPTH || strlen(name) > NAME_MAX_BYTES) {
        refuse(r, "it is nested too deep, or has too long names");
        return;
    }
    r->path_len[++r->depth] =
        len + (size_t)snprintf(r->path + len, room, "%s%s", len ? "/" : "",
                               name); /* fits */
    buf_reset(&r->text[r->depth]);
}

static void XMLCALL on_text(void *ctx, const XML_Char *text, int len)
{
    struct reading *r = ctx;
    struct buf *b = &r->text[r->depth];

    if (b->len + (size_t)len > S3_XML_TEXT)
        refuse(r, "it has too long a text");
    else
        buf_add(b, text, (size_t)len);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    struct reading *r = ctx;
    struct buf *b = &r->text[r->depth];

    (void)name;
    buf_add(b, "", 1);
    r->result = r->fn(r->ctx, r->path, b->data);
    r->path[r->path_len[--r->depth]] = '\0';
    if (r->result)
        (void)XML_StopParser(r->parser, XML_FALSE);
}

int s3_xml_parse(const char *bytes, size_t len, s3_xml_fn fn, void *ctx,
                 struct error *err)
{
    struct reading r cleanup(reading_done) = {.fn = fn, .ctx = ctx};

    if (len > S3_ANSWER_MAX)
        return error_set(err, ERR_CORRUPT, "the answer is too large");
    r.parser = XML_ParserCreate("UTF-8");
    if (!r.parser)
        return error_set(err, ERR_INTERNAL, "expat does not start");
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    if (XML_Parse(r.parser, bytes, (int)len, XML_TRUE) == XML_STATUS_OK)
        return 0;
    if (r.result)
        return r.result;
    return error_set(err, ERR_CORRUPT, "the answer is not the XML of S3: %s",
                     r.refused ? r.refused
                               : XML_ErrorString(XML_GetErrorCode(r.parser)));
}

bool s3_xml_time(const char *text, int64_t *ret_ms)
{
    struct tm tm = {0};
    int ms = 0, used = 0;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon,
               &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) != 6)
        return false;
    if (text[used] == '.')
        (void)sscanf(text + used, ".%3d", &ms); /* else 0 */
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
    return true;
}
