/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_workspaces, share_file, transfer_workspace: workspaces as wholes, and
 * others who are to have a part in them. Runs on a worker of the daemon.
 * Secrets are in the answer that made them and nowhere else.
 */
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define LIST_MAX 100
#define LIST_DEFAULT 20
#define SHARE_SECONDS_MAX (3650LL * 24 * 3600)
#define DOWNLOADS_MAX 1000000000
#define OFFER_SECONDS_MIN 60
#define OFFER_SECONDS_MAX (72 * 3600)

/* ---- list_workspaces ---------------------------------------------------- */

struct list_args {
    const char *after;
    int64_t limit;
};

static void encode_workspace(struct json_writer *w, const char *key,
                             const struct workspace_info *info)
{
    json_write_open(w, key, '{');
    json_write_string(w, "workspace", info->id);
    json_write_string(w, "name", tool_some(info->name));
    json_write_string(w, "owner", info->owner);
    json_write_string(w, "role", workspace_role_name(info->role));
    json_write_int(w, "files", (int64_t)info->files);
    json_write_int(w, "bytes", (int64_t)info->bytes);
    json_write_int(w, "stored_bytes", (int64_t)info->stored_bytes);
    json_write_int(w, "quota_bytes", (int64_t)info->quota_bytes);
    json_write_bool(w, "made_for_session", info->made_for_session);
    json_write_time(w, "created_at", info->created_at_ms);
    json_write_time(w, "updated_at", info->updated_at_ms);
    json_write_close(w, '}');
}

static void say_workspace(struct buf *out, const struct workspace_info *info)
{
    char size[32];

    buf_addf(out, "%s%s%s%s: %llu files, %s, you are %s\n", info->id,
             info->name[0] ? " \"" : "", info->name, info->name[0] ? "\"" : "",
             (unsigned long long)info->files,
             tool_text_size(info->bytes, size),
             workspace_role_name(info->role));
}

int tool_list_workspaces(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    static const struct json_field fields[] = {
        {"limit", JSON_KIND_INT, .offset = offsetof(struct list_args, limit),
         .min = 1, .max = LIST_MAX},
        {"after", JSON_KIND_STRING,
         .offset = offsetof(struct list_args, after), .min = 1, .max = ID_MAX},
    };
    struct workspace_info *list cleanup(mem_free) = NULL;
    struct list_args a = {.limit = LIST_DEFAULT};
    struct json_writer w = {.out = &ret->structured};
    struct buf text cleanup(buf_done) = {0};
    struct page_result got = {0};
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

    if (r == 0)
        r = workspace_list(
            call->doors->workspaces, call->actor, false,
            &(struct page){.limit = (unsigned)a.limit, .after = a.after},
            &list, &got, err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_open(&w, "workspaces", '[');
    for (size_t i = 0; i < got.count; i++) {
        encode_workspace(&w, NULL, &list[i]);
        say_workspace(&text, &list[i]);
    }
    json_write_close(&w, ']');
    json_write_string(
        &w, "next", got.has_more && got.count ? list[got.count - 1].id : NULL);
    json_write_close(&w, '}');
    if (!got.count)
        buf_adds(&text, "There are no workspaces.\n");
    if (got.has_more && got.count)
        buf_addf(&text, "[there are more: go on with after=%s]\n",
                 list[got.count - 1].id);
    mcp_answer_text(ret, text.data, text.len);
    return 0;
}

/* ---- share_file --------------------------------------------------------- */

struct share_args {
    const char *path, *workspace, *session, *version, *password;
    int mode; /* enum share_mode */
    int64_t expires_in_s, max_downloads;
};

#define SHARE(member) offsetof(struct share_args, member)

static const char *const modes[] = {"read", "write", NULL};

static const struct json_field share_fields[] = {
    {"path", JSON_KIND_STRING, .required = true, .offset = SHARE(path),
     .max = PATH_BYTES_MAX + 32},
    {"workspace", JSON_KIND_STRING, .offset = SHARE(workspace), .min = 1,
     .max = ID_MAX},
    {"session_id", JSON_KIND_STRING, .offset = SHARE(session), .min = 1,
     .max = ID_MAX},
    {"mode", JSON_KIND_CHOICE, .offset = SHARE(mode), .choices = modes},
    {"version", JSON_KIND_STRING, .offset = SHARE(version), .min = 1,
     .max = ID_MAX},
    {"expires_in_s", JSON_KIND_INT, .offset = SHARE(expires_in_s), .min = 1,
     .max = SHARE_SECONDS_MAX},
    {"password", JSON_KIND_STRING, .offset = SHARE(password), .min = 1,
     .max = 128},
    {"max_downloads", JSON_KIND_INT, .offset = SHARE(max_downloads), .min = 1,
     .max = DOWNLOADS_MAX},
};

static void answer_share(const struct workspace_share *s, const char *secret,
                         struct mcp_answer *ret)
{
    struct json_writer w = {.out = &ret->structured};
    struct buf url cleanup(buf_done) = {0};
    char until[32];

    buf_addf(&url, "/s/%s", secret);
    mcp_answer_textf(
        ret,
        "Anyone with this link can %s /mnt/data/%s: %s%s%s. "
        "It is shown only once. [share_id: %s]",
        s->mode == SHARE_WRITE ? "read and write" : "read", s->path, url.data,
        s->expires_at_ms ? ", until " : "",
        s->expires_at_ms ? clock_format_ms(s->expires_at_ms, until) : "",
        s->id);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_string(&w, "share_id", s->id);
    json_write_string(&w, "url", url.data);
    json_write_string(&w, "workspace", s->workspace);
    json_write_string(&w, "path", s->path);
    json_write_string(&w, "version", tool_some(s->version));
    json_write_string(&w, "mode", modes[s->mode]);
    json_write_bool(&w, "has_password", s->has_password);
    json_write_int(&w, "max_downloads", s->max_downloads);
    json_write_time(&w, "expires_at", s->expires_at_ms);
    json_write_close(&w, '}');
}

int tool_share_file(struct mcp_call *call, const json_t *args,
                    struct mcp_answer *ret, struct error *err)
{
    struct workspace_share share cleanup(workspace_share_done) = {.path =
                                                                      NULL};
    struct share_args a = {.path = NULL};
    char workspace[ID_MAX], secret[65];
    const char *path = "";
    size_t len;
    int r = json_read(args, share_fields, ARRAY_SIZE(share_fields), &a, err);

    if (r == 0)
        r = tool_folder(call->arena, a.path, &path, err);
    if (r == 0)
        r = tool_workspace(call, a.workspace, a.session, workspace, err);
    if (r < 0)
        return r;
    len = strlen(a.path);
    if (path[0] && len && a.path[len - 1] == '/') /* a folder is meant */
        path = arena_printf(call->arena, "%s/", path);
    r = workspace_share(call->doors->workspaces, call->actor, workspace,
                        &(struct workspace_share_spec){
                            .path = path,
                            .version = a.version,
                            .mode = (enum share_mode)a.mode,
                            .expires_in_s = (uint32_t)a.expires_in_s,
                            .password = a.password,
                            .max_downloads = a.max_downloads,
                        },
                        &share, secret, err);
    if (r == 0)
        answer_share(&share, secret, ret);
    return r;
}

/* ---- transfer_workspace ------------------------------------------------- */

struct transfer_args {
    const char *workspace, *to, *token;
    bool offer;
    int64_t expires_in_s;
};

#define TRANSFER(member) offsetof(struct transfer_args, member)

static const struct json_field transfer_fields[] = {
    {"workspace", JSON_KIND_STRING, .offset = TRANSFER(workspace), .min = 1,
     .max = ID_MAX},
    {"to", JSON_KIND_STRING, .offset = TRANSFER(to), .min = 1, .max = 128},
    {"offer", JSON_KIND_BOOL, .offset = TRANSFER(offer)},
    {"expires_in_s", JSON_KIND_INT, .offset = TRANSFER(expires_in_s),
     .min = OFFER_SECONDS_MIN, .max = OFFER_SECONDS_MAX},
    {"claim_token", JSON_KIND_STRING, .offset = TRANSFER(token), .min = 1,
     .max = 256},
};

/* By its id, or by a name that only one valid key of the tenant has. */
static int find_key(struct mcp_call *call, const char *name,
                    struct auth_key *ret, struct error *err)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    const struct auth_key *found = NULL;
    size_t count = 0, same = 0;
    int r = auth_key_list(call->doors->auth, &keys, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count && !(found && !same); i++) {
        const struct auth_key *key = &keys[i];
        bool by_id = strcmp(key->id, name) == 0;

        if (key->revoked_at_ms ||
            (!(call->scopes & AUTH_ADMIN) &&
             strcmp(key->tenant, call->actor->tenant) != 0) ||
            (!by_id && strcmp(key->name, name) != 0))
            continue;
        found = key;
        same = by_id ? 0 : same + 1;
    }
    if (!found)
        return error_set(err, ERR_NOT_FOUND, "no such key");
    if (same > 1) {
        (void)error_set(err, ERR_CONFLICT, "more than one key has this name");
        return error_hint(err, "Give the key's id.");
    }
    *ret = *found;
    return 0;
}

static void answer_workspace(const struct workspace_info *info,
                             const char *words, struct mcp_answer *ret)
{
    struct json_writer w = {.out = &ret->structured};

    mcp_answer_textf(ret, "%s [workspace: %s, owner: %s]", words, info->id,
                     info->owner);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    encode_workspace(&w, "workspace", info);
    json_write_close(&w, '}');
}

static int give(struct mcp_call *call, const struct transfer_args *a,
                struct mcp_answer *ret, struct error *err)
{
    struct workspace_info info;
    struct auth_key key;
    int r = workspace_get(call->doors->workspaces, call->actor, a->workspace,
                          &info, err);

    if (r == 0)
        r = find_key(call, a->to, &key, err);
    if (r == 0)
        r = workspace_transfer(call->doors->workspaces, call->actor,
                               a->workspace, key.id, key.tenant, &info, err);
    if (r == 0)
        answer_workspace(&info, "It has a new owner.", ret);
    return r;
}

static int offer(struct mcp_call *call, const struct transfer_args *a,
                 struct mcp_answer *ret, struct error *err)
{
    struct json_writer w = {.out = &ret->structured};
    struct workspace_offer made = {.id = ""};
    char token[65] = "", until[32];
    int r = workspace_offer(call->doors->workspaces, call->actor, a->workspace,
                            (uint32_t)a->expires_in_s, &made, token, err);

    if (r < 0)
        return r;
    mcp_answer_textf(ret,
                     "Whoever calls transfer_workspace with this claim_token, "
                     "with a key of their own, becomes the owner: %s. It is "
                     "good once, until %s, and shown only here.",
                     token, clock_format_ms(made.expires_at_ms, until));
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_open(&w, "offer", '{');
    json_write_string(&w, "id", made.id);
    json_write_string(&w, "claim_token", token);
    json_write_time(&w, "expires_at", made.expires_at_ms);
    json_write_close(&w, '}');
    json_write_close(&w, '}');
    return 0;
}

static int claim(struct mcp_call *call, const struct transfer_args *a,
                 struct mcp_answer *ret, struct error *err)
{
    struct workspace_info info;
    int r = workspace_claim(call->doors->workspaces, call->actor, a->token,
                            &info, err);

    if (r == 0)
        answer_workspace(&info, "It is yours now.", ret);
    return r;
}

int tool_transfer_workspace(struct mcp_call *call, const json_t *args,
                            struct mcp_answer *ret, struct error *err)
{
    struct transfer_args a = {.expires_in_s = OFFER_SECONDS_MAX};
    int r =
        json_read(args, transfer_fields, ARRAY_SIZE(transfer_fields), &a, err);

    if (r < 0)
        return r;
    if ((a.to != NULL) + a.offer + (a.token != NULL) != 1)
        return error_set(err, ERR_INVALID,
                         "give exactly one of to, offer and claim_token");
    if (a.token)
        return claim(call, &a, ret, err);
    if (!a.workspace) {
        (void)error_set(err, ERR_INVALID, "field 'workspace' is missing");
        return error_hint(err, "list_workspaces names them.");
    }
    return a.to ? give(call, &a, ret, err) : offer(call, &a, ret, err);
}

/* ---- their words -------------------------------------------------------- */

#define WORKSPACE_SCHEMA                                                      \
    "{\"type\":\"object\",\"properties\":{"                                   \
    "\"workspace\":{\"type\":\"string\"},"                                    \
    "\"name\":{\"type\":[\"string\",\"null\"]},"                              \
    "\"owner\":{\"type\":\"string\"},\"role\":{\"type\":\"string\"},"         \
    "\"files\":{\"type\":\"integer\"},\"bytes\":{\"type\":\"integer\"},"      \
    "\"stored_bytes\":{\"type\":\"integer\"},"                                \
    "\"quota_bytes\":{\"type\":\"integer\",\"description\":\"0: none\"},"     \
    "\"made_for_session\":{\"type\":\"boolean\"},"                            \
    "\"created_at\":{\"type\":[\"string\",\"null\"]},"                        \
    "\"updated_at\":{\"type\":[\"string\",\"null\"]}},"                       \
    "\"required\":[\"workspace\"]}"

const char tool_list_workspaces_text[] =
    "Lists the workspaces you can see, newest first: durable, versioned trees "
    "of files that outlive sessions. Use a workspace's id as the workspace of "
    "execute_python to work on its files, or of search_workspace to search "
    "it.";
const char tool_list_workspaces_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,"
    "\"default\":20},"
    "\"after\":{\"type\":\"string\",\"description\":\"next of the page "
    "before\"}},\"additionalProperties\":false}";
const char tool_list_workspaces_output[] = TOOL_OUTPUT(
    "\"workspaces\":{\"type\":\"array\",\"items\":" WORKSPACE_SCHEMA "},"
    "\"next\":{\"type\":[\"string\",\"null\"]}");

const char tool_share_file_text[] =
    "Makes a link to a file or folder (path ending with /) of a workspace for "
    "people without a key, and returns its URL, which is shown only once. "
    "Only do this when the user asks for it: anyone with the link can read "
    "it, and with mode write also upload. Limit it by expires_in_s, password "
    "or max_downloads, or pin a version.";
const char tool_share_file_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"type\":\"string\",\"description\":\"Below /mnt/data; a folder "
    "ends with /\"}," TOOL_SCHEMA_WORKSPACE "," TOOL_SCHEMA_SESSION ","
    "\"mode\":{\"type\":\"string\",\"enum\":[\"read\",\"write\"],"
    "\"default\":\"read\"},"
    "\"version\":{\"type\":\"string\",\"description\":\"Share this version, "
    "not whatever is newest\"},"
    "\"expires_in_s\":{\"type\":\"integer\",\"minimum\":1,"
    "\"maximum\":315360000},"
    "\"password\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":128},"
    "\"max_downloads\":{\"type\":\"integer\",\"minimum\":1,"
    "\"maximum\":1000000000}},"
    "\"required\":[\"path\"],\"additionalProperties\":false}";
const char tool_share_file_output[] = TOOL_OUTPUT(
    "\"share_id\":{\"type\":\"string\"},\"url\":{\"type\":\"string\"},"
    "\"workspace\":{\"type\":\"string\"},\"path\":{\"type\":\"string\"},"
    "\"version\":{\"type\":[\"string\",\"null\"]},"
    "\"mode\":{\"type\":\"string\"},\"has_password\":{\"type\":\"boolean\"},"
    "\"max_downloads\":{\"type\":\"integer\",\"description\":\"0: any "
    "number\"},\"expires_at\":{\"type\":[\"string\",\"null\"]}");

const char tool_transfer_workspace_text[] =
    "Hands a workspace to another owner; you stay an editor. Give exactly one "
    "of: to (a key's id or name, takes effect at once), offer (true: returns "
    "a claim_token that somebody else's key can use once, within 72 hours), "
    "or claim_token (take over what was offered to you; no workspace needed). "
    "Only do this when the user asks for it.";
const char tool_transfer_workspace_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"workspace\":{\"type\":\"string\",\"description\":\"ws_…\"},"
    "\"to\":{\"type\":\"string\",\"maxLength\":128,\"description\":\"The new "
    "owner's key, by id or name\"},"
    "\"offer\":{\"type\":\"boolean\",\"default\":false},"
    "\"expires_in_s\":{\"type\":\"integer\",\"minimum\":60,"
    "\"maximum\":259200,\"default\":259200,\"description\":\"Of an offer\"},"
    "\"claim_token\":{\"type\":\"string\",\"maxLength\":256}},"
    "\"additionalProperties\":false}";
const char tool_transfer_workspace_output[] = TOOL_OUTPUT(
    "\"workspace\":" WORKSPACE_SCHEMA ","
    "\"offer\":{\"type\":\"object\",\"properties\":{"
    "\"id\":{\"type\":\"string\"},\"claim_token\":{\"type\":\"string\"},"
    "\"expires_at\":{\"type\":[\"string\",\"null\"]}}}");
