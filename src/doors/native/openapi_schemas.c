/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent and answered, for /openapi.json. A row without a type begins
 * a schema, those below it are its fields. Data only; openapi.c reads it and
 * a test holds answers against it.
 *
 * A name that ends with "?" may be absent; "+" takes in another schema's
 * fields. Types: string int number bool time object, a|b for choices, Name
 * for a schema, [X] for a list; "?" behind it: may be null; then bounds.
 */
#include "doors/native/openapi.h"

const struct native_name native_openapi_schemas[] = {
    /* sessions */
    {"SessionSpec", NULL, "A session to be made."},
    {"pool?", "string 1 64", "name of a pool; else the first"},
    {"name?", "string 1 128", NULL},
    {"identifier?", "string 1 128",
     "a name of yours, unique in the pool: printable ASCII, no blanks"},
    {"cooldown_s?", "int 1 2592000", "idle until it expires; else the pool's"},
    {"runtime?", "string 1 64", "the pool's, or one that another pool has"},
    {"workspace?", "string", "a workspace to share; else one of its own"},
    {"persistence?", "workspace|ephemeral", "ephemeral keeps nothing"},
    {"limits?", "LimitsSpec", NULL},
    {"network?", "NetworkSpec", "else the pool's"},
    {"metadata?", "object", "comes back as it is; 16 KiB"},
    {"LimitsSpec", NULL, "What a session asks for; else its pool's."},
    {"memory_bytes?", "int 1", NULL},
    {"memory?", "1g|4g|16g|64g", "instead of memory_bytes"},
    {"processes?", "int 1", NULL},
    {"cores?", "int 1", NULL},
    {"scratch_bytes?", "int 1", NULL},
    {"scratch_inodes?", "int 1", NULL},
    {"descriptors?", "int 1", NULL},
    {"Limits", NULL, "Limits as granted."},
    {"memory_bytes", "int", NULL},
    {"processes", "int", NULL},
    {"cores", "int", NULL},
    {"scratch_bytes", "int", NULL},
    {"scratch_inodes", "int", NULL},
    {"descriptors", "int", NULL},
    {"Session", NULL, "One interpreter and its files."},
    {"id", "string", "sess_… or cntr_…"},
    {"name", "string?", NULL},
    {"identifier", "string?", "unique in tenant and pool"},
    {"pool", "string", NULL},
    {"runtime", "string", NULL},
    {"workspace", "string?", "where its files are; null when ephemeral"},
    {"persistence", "workspace|ephemeral", NULL},
    {"state", "starting|idle|running|dormant", NULL},
    {"network", "none|allowlist|open", "what its code may reach"},
    {"warning?", "string", "what open means"},
    {"limits", "Limits", NULL},
    {"executions", "int", "ever accepted"},
    {"queued", "int", NULL},
    {"interpreters", "int", "how many it has had"},
    {"created_at", "time", NULL},
    {"last_used_at", "time?", NULL},
    {"expires_at", "time?", "goes dormant then unless used"},
    {"cooldown_s", "int", NULL},
    {"policy_version", "int", "it is held to, besides the newest; 0: none"},
    {"metadata", "object", NULL},
    {"Refreshed", NULL, "A session after others' commits came in."},
    {"changed", "int", "files changed or removed in it"},
    {"session", "Session", NULL},
    /* executions */
    {"ExecutionSpec", NULL, "Code to run."},
    {"code", "string", NULL},
    {"language?", "python|shell", NULL},
    {"timeout_s?", "int 5", NULL},
    {"mode?", "sync|stream|async", NULL},
    {"approval?", "policy|required",
     "required: hold it for a person even where policy would not"},
    {"metadata?", "object",
     "its conversation and message are kept with every file made"},
    {"on_disconnect?", "cancel|continue",
     "sync only: what becomes of it when the client goes away"},
    {"retry_of?", "string", "exec_… this tries again"},
    {"RunSpec", NULL, "Code to run in a session of its own."},
    {"code", "string", NULL},
    {"language?", "python|shell", NULL},
    {"timeout_s?", "int 5", NULL},
    {"mode?", "sync|stream", NULL},
    {"pool?", "string 1 64", NULL},
    {"runtime?", "string 1 64", NULL},
    {"workspace?", "string", NULL},
    {"persistence?", "workspace|ephemeral", NULL},
    {"limits?", "LimitsSpec", NULL},
    {"network?", "NetworkSpec", "else the pool's"},
    {"metadata?", "object", NULL},
    {"on_disconnect?", "cancel|continue",
     "sync only: what becomes of it when the client goes away"},
    {"retry_of?", "string", "exec_… this tries again"},
    {"files?", "[RunFileSpec]", "put below /mnt/data first; 1,000 at most"},
    {"RunFileSpec", NULL, "A file for a run."},
    {"path", "string 1 1024", NULL},
    {"content_base64", "string", NULL},
    /* workspaces */
    /* files */
    /* versions */
    /* locks and shares */
    /* search */
    {0},
};
