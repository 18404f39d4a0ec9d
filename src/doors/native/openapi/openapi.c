/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /openapi.json: the API in OpenAPI 3.1, made from the table of routes,
 * so that no route can be missing from it, and from the tables that bodies
 * are read and answers are written by (resources.c), so that no field can.
 * The meaning of parameters, headers and statuses is below. Runs on a worker
 * of the daemon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

/* A parameter, header, status or tag and its meaning. */
struct openapi_name { /* ended by one without a name */
    const char *name;
    const char *type; /* as encode_type of openapi.c has it */
    const char *text;
};
/* ---- names -------------------------------------------------------------- */

static const struct openapi_name openapi_tags[] = {
    {"Sessions", NULL, "An interpreter with its files."},
    {"Executions", NULL, "Executions of Python or shell code."},
    {"Workspaces", NULL, "Durable, versioned trees of files."},
    {"Files", NULL, "Files of a workspace."},
    {"Uploads", NULL, "Resumable multipart uploads of large files."},
    {"Versions", NULL, "History, provenance, comparison and restore."},
    {"Conversations", NULL,
     "Messages, the code they led to, and the files that came of it."},
    {"Locks", NULL, "Leases on paths, with fencing tokens."},
    {"Shares", NULL, "Share links for people without a key."},
    {"Approvals", NULL,
     "Requests that a policy holds until a person decides."},
    {"Search", NULL, "Names and contents."},
    {"Tools", NULL, "Code that members of a workspace keep as tools."},
    {"Agents", NULL, "Named agents and their versions."},
    {"Configuration", NULL, "The configuration of the service."},
    {"Administration", NULL, "Keys, the audit trail, stored data."},
    {"Evidence", NULL, "Evidence of executions, and the signed audit trail."},
    {"Console", NULL, "Signing in to the web console."},
    {"Operation", NULL, "Health, metrics and this description."},
    {0},
};

static const struct openapi_name openapi_params[] = {
    {"id", "string", "The id of the resource."},
    {"ws", "string", "A workspace: ws_…"},
    {"path", "string", "The path of a file; slashes need no escaping."},
    {"principal", "string",
     "The id or unique name of a key, or * for the tenant."},
    {"offer", "string", "An offer: xfer_…"},
    {"file", "string", "A file: file_…"},
    {"version", "string", "A version: ver_…"},
    {"conversation", "string 1 256",
     "A conversation: conv_…, or an id from the metadata of executions."},
    {"lock", "string", "A lock: lock_…"},
    {"share", "string", "A share: share_…"},
    {"node", "string 1 63", "The id or name of a node."},
    {"secret", "string", "The secret of a share's link."},
    {"number", "int 1", "The number of a part or of a version."},
    {"name", "string", "The name of the resource."},
    {"tenant", "string 1 63", "A tenant's name."},
    {0},
};

static const struct openapi_name openapi_query[] = {
    {"limit", "int 1",
     "The maximum number of entries; docs/API.md has the bounds."},
    {"after", "string",
     "Continue after this entry: an id, path, version, cursor or number, depending on the order of the list."},
    {"hours", "int 1", "How many hours back, the current one included."},
    {"state", "string", "Only those in this state."},
    {"deleted", "bool", "Only deleted ones."},
    {"prefix", "string 0 1024", "Only paths with this prefix."},
    {"delimiter", "string 1 1",
     "/ lists one level, with folders as single entries."},
    {"commit", "string", "As of this commit."},
    {"folder", "string", "The folder for the files of the form."},
    {"version", "string", "This version instead of the newest."},
    {"conversation", "string 0 256", "A conversation's id."},
    {"message", "string 0 256", "A message's id."},
    {"note", "string 0 256", "A note for the history."},
    {"executable", "bool",
     "Mark the file as executable; by default as the file it replaces."},
    {"recursive", "bool", "Include the contents of a folder."},
    {"path", "string", "Only this path."},
    {"file", "string", "Only this file, under any name."},
    {"from", "string", "The start: a time, or the older version."},
    {"to", "string", "The end: a time, or the newer version."},
    {"force", "bool", "Break the lock of another key; owners only."},
    {"workspace", "string", "Only this workspace."},
    {"q", "string 1 1000", "Words, \"phrases\" and prefix*."},
    {"mode", "string",
     "lexical (the default), semantic or hybrid; the last two search files of workspaces with intelligence by meaning."},
    {"type", "string", "A file extension (csv) or a media type."},
    {"author", "string", "The key that wrote the newest version."},
    {"actor", "string", "The key that acted."},
    {"action", "string", "An action, or a group of them: file."},
    {"object", "string", "The id or path acted on."},
    {"tenant", "string", "Only this tenant's events."},
    {"session", "string", "Only of this session."},
    {"outcome", "string 1 31",
     "Only executions with this outcome, such as ok, error or denied."},
    {"principal", "string", "Only those that this key or person asked for."},
    {"language", "string", "python or shell."},
    {"types", "string 1 200",
     "Types of events with commas between: session, execution, progress, workspace, approval, policy, network, admin, health, audit; by default all but audit."},
    {"format", "string",
     "Of the audit trail: jsonl (one event per line) or otlp; of a conversation: json, markdown or ipynb."},
    {"code", "string 1 4096", "What the issuer exchanges for a token, once."},
    {"state", "string", "Of the sign-in that this browser began."},
    {"error", "string", "Why the issuer refused the sign-in."},
    {"iss", "string", "The issuer that answers."},
    {0},
};

static const struct openapi_name openapi_headers[] = {
    {"If-Match", "string",
     "An ETag, a version or *: the current state that the change requires."},
    {"If-None-Match", "string",
     "An ETag that the client has (304); or *, to create only."},
    {"If-Range", "string", "The ETag the range is of."},
    {"Range", "string", "One range of bytes."},
    {"X-Glovebox-Lock", "string", "Tokens of locks, separated by commas."},
    {"X-Content-SHA256", "string 64 64",
     "The expected SHA-256 of the content."},
    {"X-Share-Password", "string 1 128",
     "The password of the link; HTTP Basic authentication works as well."},
    {"Last-Event-ID", "string", "Resume after this event."},
    {"Accept", "string", "application/json for JSON."},
    {"X-Glovebox-Console", "string", "1: sent by the console's own page."},
    {0},
};

static const struct openapi_name openapi_statuses[] = {
    {"302", NULL, "Continue at the address in Location."},
    {"400", NULL,
     "Malformed or out of range, or an unknown field or parameter."},
    {"401", NULL, "The key or password is missing or unknown."},
    {"403", NULL, "The key lacks the scope or the role."},
    {"404", NULL, "Not found, or not visible to the key."},
    {"409", NULL, "Conflicts with the current state."},
    {"412", NULL, "If-Match or If-None-Match failed; nothing was changed."},
    {"413", NULL, "Larger than a limit."},
    {"416", NULL, "The range is outside the file."},
    {"423", NULL, "Another key holds a lock on it."},
    {"429", NULL,
     "A limit or the capacity of the host is reached; see Retry-After."},
    {"503", NULL,
     "The service is starting or stopping, or a component is unavailable."},
    {"507", NULL, "A quota or the disk is full."},
    {"default", NULL, "Any other error."},
    {0},
};

static const struct openapi_name *find_openapi_name(
    const struct openapi_name *names, const char *name)
{
    for (; names->name; names++)
        if (strcmp(names->name, name) == 0)
            return names;
    return NULL;
}

/* ---- types -------------------------------------------------------------- */

#define WORD 96 /* room for one word of a table */

/* The next word of a list, which is moved on; false at its end. */
static bool next_word(const char **list, const char *ends, char ret[WORD])
{
    size_t n;

    if (!*list)
        return false;
    *list += strspn(*list, ends);
    n = strcspn(*list, ends);
    if (n == 0)
        return false;
    (void)snprintf(ret, WORD, "%.*s", (int)n, *list);
    *list += n;
    return true;
}

/* The types of parameters. */
static const struct {
    const char *name, *type, *format, *min, *max;
} simple[] = {
    {"string", "string", NULL, "minLength", "maxLength"},
    {"int", "integer", "int64", "minimum", "maximum"},
    {"bool", "boolean", NULL, NULL, NULL},
    {"object", "object", NULL, NULL, NULL},
};

static void encode_simple(struct json_writer *w, const char *type)
{
    size_t len = strcspn(type, " ");
    const char *bounds = type + len;
    char *end;

    for (size_t i = 0; i < ARRAY_SIZE(simple); i++) {
        if (strncmp(simple[i].name, type, len) != 0)
            continue;
        json_write_string(w, "type", simple[i].type);
        if (simple[i].format)
            json_write_string(w, "format", simple[i].format);
        if (!bounds[0])
            return;
        json_write_int(w, simple[i].min, strtoll(bounds, &end, 10));
        if (*end)
            json_write_int(w, simple[i].max, strtoll(end, NULL, 10));
        return;
    }
}

/* type: "Name" of a resource, "[Name]" for an array of them, or a simple one
 * with its bounds: "string 1 128". text: what it means, or NULL. */
static void encode_type(struct json_writer *w, const char *key,
                        const char *type, const char *text)
{
    char word[WORD], ref[WORD + 32];

    json_write_open(w, key, '{');
    if (text)
        json_write_string(w, "description", text);
    if (type[0] == '[') {
        (void)snprintf(word, sizeof(word), "%.*s", (int)strlen(type) - 2,
                       type + 1);
        json_write_string(w, "type", "array");
        encode_type(w, "items", word, NULL);
    } else if (type[0] >= 'A' && type[0] <= 'Z') {
        (void)snprintf(ref, sizeof(ref), "#/components/schemas/%s", type);
        json_write_string(w, "$ref", ref);
    } else {
        encode_simple(w, type);
    }
    json_write_close(w, '}');
}

/* ---- answers ------------------------------------------------------------ */

static const struct {
    const char *name, *type;
} plain_types[] = {
    {"bytes", "application/octet-stream"},
    {"events", "text/event-stream"},
    {"text", "text/plain"},
    {"zip", "application/zip"},
};

/* {"data":[…],"has_more":…} */
static void encode_list_schema(struct json_writer *w, const char *of)
{
    json_write_open(w, "schema", '{');
    json_write_string(w, "type", "object");
    json_write_open(w, "properties", '{');
    encode_type(w, "data", of, NULL);
    encode_type(w, "has_more", "bool", NULL);
    json_write_close(w, '}');
    json_write_open(w, "required", '[');
    json_write_string(w, NULL, "data");
    json_write_string(w, NULL, "has_more");
    json_write_close(w, ']');
    json_write_close(w, '}');
}

/* The schema of a held request, alone or beside another 202 answer. */
static void encode_held(struct json_writer *w, const char *other)
{
    json_write_open(w, "application/json", '{');
    if (other[0]) {
        json_write_open(w, "schema", '{');
        json_write_open(w, "anyOf", '[');
        encode_type(w, NULL, other, NULL);
        encode_type(w, NULL, "Held", NULL);
        json_write_close(w, ']');
        json_write_close(w, '}');
    } else {
        encode_type(w, "schema", "Held", NULL);
    }
    json_write_close(w, '}');
}

/* One kind of content, as a member of an open "content". */
static void encode_content(struct json_writer *w, const char *what)
{
    if (strcmp(what, "diff") == 0) { /* as asked by Accept */
        encode_content(w, "Diff");
        json_write_open(w, "text/x-diff", '{');
        encode_type(w, "schema", "string", NULL);
        json_write_close(w, '}');
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(plain_types); i++)
        if (strcmp(plain_types[i].name, what) == 0) {
            json_write_open(w, plain_types[i].type, '{');
            if (strcmp(what, "events") == 0 || strcmp(what, "text") == 0)
                encode_type(w, "schema", "string", NULL);
            json_write_close(w, '}');
            return;
        }
    json_write_open(w, "application/json", '{');
    if (what[0] == '[')
        encode_list_schema(w, what);
    else
        encode_type(w, "schema", what, NULL);
    json_write_close(w, '}');
}

static const struct {
    const char *status, *text;
} meanings[] = {
    {"200", "Done."},
    {"201", "Created."},
    {"202", "Accepted."},
    {"202 held",
     "Not done: a person must approve it first; then send it again."},
    {"204", "Done; no content."},
    {"206", "The requested range."},
    {"302", "The browser is sent on."},
    {"304", "Not modified."},
};

static void encode_good(struct json_writer *w, const char *status,
                        const char *contents)
{
    char one[WORD];
    bool held = strcmp(contents, "held") == 0;
    const char *meaning = held ? "202 held" : status;

    json_write_open(w, status, '{');
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (strcmp(meanings[i].status, meaning) == 0)
            json_write_string(w, "description", meanings[i].text);
    if (contents[0]) {
        const char *bar = strstr(contents, "|held");

        json_write_open(w, "content", '{');
        if (held || bar) {
            (void)snprintf(one, sizeof(one), "%.*s",
                           bar ? (int)(bar - contents) : 0, contents);
            encode_held(w, one);
        } else {
            while (next_word(&contents, "| ", one))
                encode_content(w, one);
        }
        json_write_close(w, '}');
    }
    json_write_close(w, '}');
}

static void encode_bad(struct json_writer *w, const char *status)
{
    struct buf ref cleanup(buf_done) = {0};

    buf_addf(&ref, "#/components/responses/%s", status);
    json_write_open(w, status, '{');
    json_write_string(w, "$ref", ref.data);
    json_write_close(w, '}');
}

/* Statuses that every route of a kind can answer with. */
static void encode_common(struct json_writer *w,
                          const struct doors_route *route)
{
    bool closed = !(route->flags & DOORS_OPEN);
    bool stores = strcmp(route->method, "GET") != 0 &&
                  strcmp(route->method, "DELETE") != 0 &&
                  !(route->flags & (DOORS_UNGATED | DOORS_FREES));
    const struct {
        const char *status;
        bool applies;
    } rows[] = {
        {"400", closed || strchr(route->pattern, '{')},
        {"401", closed},
        {"403", route->scope != 0},
        {"404", strchr(route->pattern, '{') != NULL},
        {"413", route->body != NULL},
        {"507", stores},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].applies && !strstr(route->answers, rows[i].status))
            encode_bad(w, rows[i].status);
    json_write_open(w, "default", '{');
    json_write_string(w, "$ref", "#/components/responses/default");
    json_write_close(w, '}');
}

/* ---- operations --------------------------------------------------------- */

static void encode_param(struct json_writer *w, const char *name,
                         const char *in, bool required,
                         const struct openapi_name *names)
{
    const struct openapi_name *known = find_openapi_name(names, name);

    json_write_open(w, NULL, '{');
    json_write_string(w, "name", name);
    json_write_string(w, "in", in);
    json_write_bool(w, "required", required);
    if (known)
        json_write_string(w, "description", known->text);
    encode_type(w, "schema", known ? known->type : "string", NULL);
    json_write_close(w, '}');
}

static void encode_params(struct json_writer *w,
                          const struct doors_route *route)
{
    const char *at = route->pattern, *list = route->query;
    char name[WORD];

    json_write_open(w, "parameters", '[');
    while ((at = strchr(at, '{'))) {
        at++;
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ".}"), at);
        encode_param(w, name, "path", true, openapi_params);
    }
    while (next_word(&list, " ", name)) {
        bool needed = name[strlen(name) - 1] == '!';

        if (needed)
            name[strlen(name) - 1] = '\0';
        encode_param(w, name, "query", needed, openapi_query);
    }
    list = route->headers;
    while (next_word(&list, " ", name))
        encode_param(w, name, "header", false, openapi_headers);
    json_write_close(w, ']');
}

static void encode_body(struct json_writer *w, const struct doors_route *route)
{
    char name[WORD];
    bool maybe;

    if (!route->body)
        return;
    maybe = route->body[strlen(route->body) - 1] == '?';
    (void)snprintf(name, sizeof(name), "%.*s",
                   (int)(strlen(route->body) - maybe), route->body);
    json_write_open(w, "requestBody", '{');
    json_write_bool(w, "required", !maybe && strcmp(name, "bytes") != 0);
    json_write_open(w, "content", '{');
    if (strcmp(name, "form") == 0) {
        json_write_open(w, "multipart/form-data", '{');
        encode_type(w, "schema", "object",
                    "each part with a file name is a file");
        json_write_close(w, '}');
    } else {
        encode_content(w, name);
    }
    json_write_close(w, '}');
    json_write_close(w, '}');
}

/* "post_api_sessions_id_reset" */
static void encode_id(struct json_writer *w, const struct doors_route *route)
{
    struct buf id cleanup(buf_done) = {0};
    bool gap = true;

    for (const char *p = route->method; *p; p++)
        buf_addf(&id, "%c", *p | 0x20);
    for (const char *p = route->pattern; *p; p++) {
        if (strchr("/{}.", *p)) {
            gap = true;
            continue;
        }
        buf_addf(&id, "%s%c", gap ? "_" : "", *p);
        gap = false;
    }
    json_write_string(w, "operationId", id.data);
}

static void encode_operation(struct json_writer *w,
                             const struct doors_route *route)
{
    char method[8];

    (void)snprintf(method, sizeof(method), "%s", route->method);
    for (char *p = method; *p; p++)
        *p |= 0x20;
    json_write_open(w, method, '{');
    encode_id(w, route);
    json_write_open(w, "tags", '[');
    json_write_string(w, NULL, route->tag);
    json_write_close(w, ']');
    json_write_string(w, "summary", route->summary);

    char scopes[96];

    json_write_open(w, "security", '[');
    if (!(route->flags & DOORS_OPEN)) {
        json_write_open(w, NULL, '{');
        json_write_open(w, "bearer", '[');
        if (route->scope)
            json_write_string(w, NULL,
                              auth_scopes_format(route->scope, scopes));
        json_write_close(w, ']');
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
    json_write_string(w, "x-glovebox-scope",
                      auth_scopes_format(route->scope, scopes));

    encode_params(w, route);
    encode_body(w, route);

    const char *list = route->answers;
    char answer[WORD], status[4];

    json_write_open(w, "responses", '{');
    while (next_word(&list, ",", answer)) {
        const char *at = answer + strspn(answer, " ");

        (void)snprintf(status, sizeof(status), "%.3s", at);
        at += 3;
        at += strspn(at, " ");
        if (status[0] < '4')
            encode_good(w, status, at);
        else
            encode_bad(w, status);
    }
    encode_common(w, route);
    json_write_close(w, '}');

    json_write_close(w, '}');
}

/* The pattern as OpenAPI writes it: without the dots. */
static void encode_paths(struct json_writer *w)
{
    json_write_open(w, "paths", '{');
    for (size_t i = 0; i < doors_routes_count; i++) {
        const char *pattern = doors_routes[i].pattern, *dots;
        struct buf path cleanup(buf_done) = {0};
        size_t first = 0;

        while (strcmp(doors_routes[first].pattern, pattern) != 0)
            first++;
        if (first < i) /* was written with the other one */
            continue;
        dots = strstr(pattern, "...");
        buf_add(&path, pattern,
                dots ? (size_t)(dots - pattern) : strlen(pattern));
        if (dots)
            buf_adds(&path, dots + 3);
        json_write_open(w, path.data, '{');
        for (size_t j = i; j < doors_routes_count; j++)
            if (strcmp(doors_routes[j].pattern, pattern) == 0)
                encode_operation(w, &doors_routes[j]);
        json_write_close(w, '}');
    }
    json_write_close(w, '}');
}

/* ---- the document ------------------------------------------------------- */

int native_openapi_get(struct doors_call *call, struct error *err)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    (void)err;
    json_write_open(&w, NULL, '{');

    json_write_string(&w, "openapi", "3.1.0");
    json_write_open(&w, "info", '{');
    json_write_string(&w, "title", "Glovebox");
    json_write_string(&w, "version", GLOVEBOX_VERSION);
    json_write_string(
        &w, "description",
        "A code interpreter whose files stay. HEAD works wherever GET does. A last path parameter called `path` takes the rest of the path, slashes included. Unknown fields and parameters are refused.");
    json_write_open(&w, "license", '{');
    json_write_string(&w, "name", "Apache-2.0");
    json_write_string(&w, "identifier", "Apache-2.0");
    json_write_close(&w, '}');
    json_write_close(&w, '}');
    json_write_open(&w, "tags", '[');
    for (const struct openapi_name *t = openapi_tags; t->name; t++) {
        json_write_open(&w, NULL, '{');
        json_write_string(&w, "name", t->name);
        json_write_string(&w, "description", t->text);
        json_write_close(&w, '}');
    }
    json_write_close(&w, ']');

    encode_paths(&w);
    json_write_open(&w, "components", '{');
    json_write_open(&w, "schemas", '{');
    for (size_t i = 0; native_resources[i]; i++)
        api_schema(&w, native_resources[i]->name, native_resources[i],
                   API_OPENAPI);
    json_write_close(&w, '}');

    json_write_open(&w, "responses", '{');
    for (const struct openapi_name *s = openapi_statuses; s->name; s++) {
        json_write_open(&w, s->name, '{');
        json_write_string(&w, "description", s->text);
        json_write_open(&w, "content", '{');
        encode_content(&w, "Error");
        json_write_close(&w, '}');
        json_write_close(&w, '}');
    }
    json_write_close(&w, '}');

    json_write_open(&w, "securitySchemes", '{');
    json_write_open(&w, "bearer", '{');
    json_write_string(&w, "type", "http");
    json_write_string(&w, "scheme", "bearer");
    json_write_string(
        &w, "description",
        "A key. The words in a requirement are the scopes it needs; `admin` has all.");
    json_write_close(&w, '}');
    json_write_close(&w, '}');
    json_write_close(&w, '}');
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}
