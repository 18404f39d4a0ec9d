/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON into a buffer. Runs in the daemon on every answer and in the
 * command line for --json. Whatever bytes come in, what comes out is valid
 * UTF-8 on one line, so a session's output cannot forge the framing around
 * it.
 */
#include "json/json.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#define BASE64_CHUNK ((size_t)48 << 10) /* a multiple of three */

static void add_escape(struct buf *out, unsigned char c)
{
    static const char *const short_forms[0x20] = {
        ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n",
        ['\r'] = "\\r", ['\t'] = "\\t",
    };

    if (c == '"')
        buf_adds(out, "\\\"");
    else if (c == '\\')
        buf_adds(out, "\\\\");
    else if (short_forms[c])
        buf_adds(out, short_forms[c]);
    else
        buf_addf(out, "\\u%04x", c);
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static void add_quoted(struct json_writer *w, const char *text, size_t len)
{
    buf_reserve(w->out, len + 2);
    buf_add(w->out, "\"", 1);
    for (size_t i = 0; i < len;) {
        size_t from = i, n;

        while (i < len && is_plain((unsigned char)text[i]))
            i++;
        buf_add(w->out, text + from, i - from);
        if (i == len)
            break;
        if ((unsigned char)text[i] < 0x80) {
            add_escape(w->out, (unsigned char)text[i++]);
            continue;
        }
        n = utf8_length(text + i, len - i);
        if (n) {
            buf_add(w->out, text + i, n);
        } else {
            buf_adds(w->out, "\xef\xbf\xbd"); /* U+FFFD */
            w->replaced = true;
        }
        i += n ? n : 1;
    }
    buf_add(w->out, "\"", 1);
}

/* The comma and the name before a value. */
static void begin_value(struct json_writer *w, const char *key)
{
    if (w->comma)
        buf_add(w->out, ",", 1);
    w->comma = true;
    if (key) {
        add_quoted(w, key, strlen(key));
        buf_add(w->out, ":", 1);
    }
}

void json_write_open(struct json_writer *w, const char *key, char bracket)
{
    begin_value(w, key);
    buf_add(w->out, &bracket, 1);
    w->comma = false;
}

void json_write_close(struct json_writer *w, char bracket)
{
    buf_add(w->out, &bracket, 1);
    w->comma = true;
}

void json_write_key(struct json_writer *w, const char *key, size_t len)
{
    if (w->comma)
        buf_add(w->out, ",", 1);
    add_quoted(w, key, len);
    buf_add(w->out, ":", 1);
    w->comma = false; /* its value follows */
}

void json_write_text(struct json_writer *w, const char *key, const char *text,
                     size_t len)
{
    begin_value(w, key);
    add_quoted(w, text, len);
}

void json_write_string(struct json_writer *w, const char *key,
                       const char *text)
{
    begin_value(w, key);
    if (text)
        add_quoted(w, text, strlen(text));
    else
        buf_adds(w->out, "null");
}

void json_write_url(struct json_writer *w, const char *key, const char *path)
{
    struct buf url cleanup(buf_done) = {0};

    if (path)
        buf_addf(&url, "%s%s", w->base_url ? w->base_url : "", path);
    json_write_string(w, key, url.data);
}

void json_write_int(struct json_writer *w, const char *key, int64_t value)
{
    begin_value(w, key);
    buf_addf(w->out, "%lld", (long long)value);
}

void json_write_bool(struct json_writer *w, const char *key, bool value)
{
    begin_value(w, key);
    buf_adds(w->out, value ? "true" : "false");
}

void json_write_real(struct json_writer *w, const char *key, double value)
{
    begin_value(w, key);
    buf_addf(w->out, "%.6f", value);
}

void json_write_raw(struct json_writer *w, const char *key, const char *text,
                    size_t len)
{
    size_t from;

    begin_value(w, key);
    from = w->out->len;
    buf_add(w->out, text, len);
    /* Valid JSON has line ends only between its tokens. */
    for (size_t i = from; i < w->out->len; i++)
        if (w->out->data[i] == '\n' || w->out->data[i] == '\r')
            w->out->data[i] = ' ';
}

void json_write_base64(struct json_writer *w, const char *key,
                       const void *bytes, size_t len)
{
    const unsigned char *p = bytes;

    begin_value(w, key);
    buf_reserve(w->out, (len + 2) / 3 * 4 + 3);
    buf_add(w->out, "\"", 1);
    while (len) {
        size_t n = len < BASE64_CHUNK ? len : BASE64_CHUNK;
        int made;

        buf_reserve(w->out, (n + 2) / 3 * 4 + 1);
        made = EVP_EncodeBlock((unsigned char *)w->out->data + w->out->len, p,
                               (int)n);
        w->out->len += (size_t)made;
        p += n;
        len -= n;
    }
    buf_add(w->out, "\"", 1);
}

void json_write_time(struct json_writer *w, const char *key, int64_t real_ms)
{
    char text[32];

    json_write_string(w, key, real_ms ? clock_format_ms(real_ms, text) : NULL);
}
