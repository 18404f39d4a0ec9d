/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration: one table of options (conf/options.c) with name, type,
 * range, default and help. The file (glovebox.yaml), the environment
 * (GLOVEBOX_*), the flags (--*), --dump, the sample file and docs/CONFIG.md
 * all come from that table. Later sources win: defaults, file, environment,
 * flags. Unknown keys are errors that name the nearest valid one.
 *
 * How the pieces work together: options.c is the table; value.c turns text
 * into a field and back, the same way for every source; file.c, flags.c and
 * env.c find texts; check.c compares fields with each other; print.c
 * prints the tables.
 */
#ifndef GLOVEBOX_CONF_CONF_H
#define GLOVEBOX_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct error;

#define CONF_POOLS_MAX 32
#define CONF_MODELS_MAX 64
#define CONF_BUCKETS_MAX 16

/* Settings of one pool; a session starts with these and may ask for less
 * (or, where max_* says so, for more). */
struct conf_pool {
    char *name;                    /* [a-z0-9-]{1,32} */
    char *runtime;                 /* "standard" */
    bool zygote;                   /* true; false: a fresh exec per session */
    char *isolation;               /* "process" */
    char *persistence;             /* "workspace" or "ephemeral" */
    char *sharing;                 /* "default", "principal" or "tenant" */
    char *node_labels;             /* nodes must have these; "" */
    uint64_t memory_bytes;         /* 1 GiB */
    uint64_t max_memory_bytes;     /* what a session may ask for; 80 % of the
                                      machine's */
    uint32_t processes;            /* 128 */
    uint32_t cores;                /* 1 */
    uint32_t max_cores;            /* number of the machine */
    uint32_t descriptors;          /* 1024 */
    uint64_t scratch_bytes;        /* 1 GiB */
    uint32_t scratch_inodes;       /* 100000 */
    uint64_t tmp_bytes;            /* 256 MiB */
    uint64_t shm_bytes;            /* 64 MiB */
    uint32_t ready;                /* sandboxes kept ready; 4 to 32 */
    uint32_t max_sessions;         /* 1000 */
    uint32_t cooldown_s;           /* idle until dormant; 1200 */
    uint32_t lifetime_s;           /* longest sandbox life; 86400 */
    bool hibernate;                /* memory is kept while asleep; true */
    uint32_t undo_points;          /* executions that can be undone; 8 */
    uint32_t python_timeout_s;     /* default 120 */
    uint32_t python_timeout_max_s; /* 900 */
    uint32_t shell_timeout_s;      /* 120 */
    uint32_t shell_timeout_max_s;  /* 240 */
    uint64_t output_bytes;         /* kept per stream; 1 MiB */
    char *egress;                  /* "none", "allowlist" or "open" */
    char *egress_allow;            /* "host[:port],…" of the allowlist */
    bool packages;                 /* pip, as policy allows; false */
    uint64_t egress_bytes;         /* of a session; 1 GiB */
    uint32_t egress_connections;   /* at once; 32 */
    uint32_t egress_requests;      /* of a session; 10000 */
};

/* Settings of one language model; model/ checks what they mean. */
struct conf_model {
    char *name;                 /* [a-zA-Z0-9._:-]{1,63} */
    char *kind;                 /* "openai-chat", … or "echo" */
    char *url;                  /* the base URL; "" for echo */
    char *model;                /* what the server calls it; "": as name */
    char *key;                  /* name of a secret of the vault; "" none */
    bool is_default;            /* serves requests that name no model */
    bool images;                /* takes images; false */
    bool tools;                 /* calls functions; true */
    bool embeddings;            /* serves embeddings; false */
    uint64_t context_tokens;    /* 0: not known */
    uint64_t max_output_tokens; /* 0: the server's own */
    uint32_t concurrent;        /* calls at once; 16 */
    uint32_t timeout_s;         /* of a call; 600 */
    uint32_t idle_s;            /* without a byte from the server; 120 */
    char *price_input, *price_output, *price_cached; /* per million tokens */
};

/* One bucket of an S3-compatible store. */
struct conf_bucket {
    char *name;     /* [a-z0-9.-]{1,63}; in s3://NAME/… */
    char *endpoint; /* https, or http of loopback */
    char *region;   /* "us-east-1" */
    char *bucket;   /* what the store calls it; "": as name */
    char *prefix;   /* before every key; "" none */
    char *style;    /* "path" or "host" */
    char *key_file; /* "": the environment */
    char *ca_file;  /* PEM; "": the host's */
    char *use;      /* "blobs", "mirror", "attach", comma-separated */
    char *tenants;  /* whose blobs go there, or that may use it; "" all */
    uint32_t connections; /* requests at once; 32 */
    uint32_t deadline_s;  /* of a request, retries included; 30 */
    uint64_t part_bytes;  /* larger objects are put in parts; 32 MiB */
};

/* What the flags asked for besides serving; conf_show does it. */
enum conf_mode {
    CONF_SERVE,     /* none of the flags below */
    CONF_CHECK,     /* --check: say that all is valid */
    CONF_DUMP,      /* --dump: all settings in force, as YAML */
    CONF_REFERENCE, /* --reference: docs/CONFIG.md */
    CONF_SAMPLE,    /* --sample: packaging/glovebox.yaml */
    CONF_HELP,      /* --help: the flags */
};

struct conf {
    enum conf_mode mode;
    char *file;            /* the file read, or NULL */
    char *listen_host;     /* "127.0.0.1"; always a numeric address */
    uint16_t listen_port;  /* 8650; 0: any free one */
    bool allow_remote;     /* false: listen_host must be loopback (I6) */
    bool trust_proxy;      /* false: X-Forwarded-* mean nothing */
    char *public_url;      /* "https://host[:port][/path]"; "" by request */
    char *tls;             /* "manual" or "auto" */
    char *tls_certificate; /* PEM file; "": no TLS */
    char *tls_key;         /* PEM file; "" */
    char *data_dir;        /* /var/lib/glovebox or ~/.local/share/glovebox */
    char *store;           /* engine of the metadata store; "sqlite" */
    char *node_listen;     /* HOST:PORT for other nodes; "": one node */
    char *node_address;    /* HOST:PORT that they connect to; "" node_listen */
    char *node_name;       /* "": the host's */
    char *node_labels;     /* comma-separated; "" */
    uint32_t node_lease_s; /* 12 */
    char *blob_bucket;     /* name of a bucket; "": the local disk */
    uint64_t blob_cache_bytes; /* of blobs in a bucket; 10 GiB */
    char *mirror_folders;      /* comma-separated; "" none */
    char *runtime_dir;         /* cache of images */
    char *backup_dir;          /* of sealed backups */
    char *backup_key_file;     /* "": backup.key of the data directory */
    char *runtime_defs; /* folder of definitions; found beside the binary */
    char *service_user; /* "glovebox"; used when started as root */
    char *log_level;    /* "info" */
    char *log_format;   /* "text" or "json" */
    char *accept_missing_walls; /* comma-separated names; "" */
    char *mcp_origins;          /* comma-separated; "" */
    uint32_t mcp_key_grace_s;
    char *final_expiry_tenants; /* comma-separated, "*" for all; "" */
    char *tenant_sharing;       /* "acme=tenant,*=principal"; "" */
    uint32_t uid_base;          /* first host uid of sessions; 1700000000 */
    uint32_t uid_count;         /* 1000000 */
    uint32_t workers; /* 192; threads that serve requests and executions */
    uint32_t max_executions;    /* running or queued at once, all; 160 */
    uint32_t queue_per_session; /* 16 */
    uint32_t chat_threads;      /* responses that run at once; 256 */
    uint32_t chat_rounds, chat_tool_calls; /* of one response; 32, 64 */
    uint32_t chat_turn_s;                  /* 900 */
    uint32_t chat_approval_wait_s;         /* 300 */
    uint32_t sessions_per_tenant;          /* 100 */
    uint32_t max_sessions;                 /* live on this machine; 1000 */
    uint32_t memory_overcommit;     /* limits of live sessions together, times
                                       the machine's memory; 50, 0 no limit */
    uint64_t machine_memory;        /* no option: what this machine has, or
                                       the service's group; 0: not known */
    uint32_t creations_per_s;       /* per tenant; 50, 0 = no limit */
    uint64_t json_bytes;            /* JSON body; 4 MiB */
    uint64_t code_bytes;            /* code of one execution; 1 MiB */
    uint64_t upload_bytes;          /* one file; 128 MiB */
    uint64_t file_bytes;            /* one file by parts; 8 GiB */
    uint64_t workspace_quota_bytes; /* all kept versions; 20 GiB, 0 none */
    uint64_t tenant_quota_bytes;    /* 0 none */
    uint32_t workspaces_per_tenant; /* 100000, 0 no limit */
    uint32_t restore_window_s;      /* of a deleted workspace; 30 days */
    uint32_t collect_every_s;       /* 600 */
    /* Unnamed workspaces of sessions go after so many days; 30, 0 never. */
    uint32_t unnamed_workspace_days;
    uint32_t hibernated_days;      /* memory of sleeping sessions; 30 */
    uint64_t disk_free_bytes;      /* 128 MiB */
    uint64_t disk_reserve_bytes;   /* 64 MiB */
    uint64_t scrub_bytes_per_s;    /* 4 MiB; 0 never */
    uint64_t index_text_bytes;     /* 1 MiB */
    uint64_t index_document_bytes; /* 64 MiB; 0 none */
    char *index_pool;              /* "" : the first */
    char *index_embeddings;        /* a model's name; "" : none */
    uint64_t history_bytes; /* finished executions kept in memory; 128 MiB */
    uint32_t history_per_session;   /* 100 */
    uint32_t stop_deadline_s;       /* graceful stop; 10 */
    uint32_t header_timeout_s;      /* 10 */
    uint32_t idle_timeout_s;        /* keep-alive; 60 */
    uint32_t body_timeout_s;        /* 20 */
    uint32_t connections;           /* 2000 */
    uint32_t auth_failures_per_min; /* 10 */
    char *jwt_issuer;               /* ""; the options below belong to it */
    char *jwt_audiences;            /* comma-separated */
    char *jwt_jwks_url;             /* https, or http of loopback; "" */
    char *jwt_jwks_file;            /* "" */
    char *jwt_tenant_claim;         /* "tid" */
    char *jwt_tenant;               /* "" */
    char *jwt_scope_claims;         /* "scp roles" */
    char *jwt_scopes;               /* "Name=execute+files:read,…"; "" */
    char *jwt_default_scopes;       /* "" */
    char *jwt_pool_claim;           /* "" */
    char *jwt_workspace_claim;      /* "" */
    uint32_t jwt_clock_skew_s;      /* 60 */
    char *oidc_client_id;           /* ""; the options below belong to it */
    char *oidc_client_secret_file;  /* "" */
    char *oidc_name;              /* for the button; "" as the issuer's host */
    char *oidc_scopes;            /* "openid profile email" */
    char *oidc_authorization_url; /* "": discovered */
    char *oidc_token_url;         /* with the one above */
    uint32_t oidc_login_s;        /* 28800 */
    uint64_t output_stored_bytes; /* of one execution; 8 MiB, 0 none */
    uint64_t output_total_bytes;  /* of all; 4 GiB, 0 no limit */
    uint32_t output_days;         /* 30, 0 forever */
    /* the web console */
    uint32_t console_login_s; /* life of its token; 43200 */
    uint32_t console_link_s;  /* of a one-time link; 60 */
    /* the gate */
    char *accept_gate;      /* names of its checks; "" */
    char *keep_environment; /* variables the service keeps; "" */
    char *key_scopes;       /* that keys may have; all */
    /* policy */
    char *policy_file; /* YAML; "" none */
    char *policy_zone; /* of its hours; "" UTC */
    /* approvals */
    uint32_t approval_expires_s; /* 86400 */
    char *webhook_url;           /* "" none */
    char *webhook_secret_file;   /* "" */
    /* evidence and audit */
    bool four_eyes; /* changes of policy, keys, … need another principal */
    bool evidence_code;             /* true: keep the text of code */
    uint64_t evidence_output_bytes; /* 0: no text of output is kept */
    uint32_t evidence_days;         /* 0 forever */
    bool chat_code_tool;            /* false: only on request */
    uint32_t response_days, conversation_days; /* 30, 0; 0 forever */
    char *accept_loss;    /* the token of a refused start; "" none */
    bool audit_required;  /* true: no trail, no changes */
    char *audit_syslog;   /* "unix:/dev/log", "udp:127.0.0.1:514"; "" none */
    char *audit_otlp_url; /* collector of OpenTelemetry logs; "" none */
    /* quotas of a tenant; 0 no limit */
    uint32_t quota_executions_per_hour;
    uint64_t quota_memory_bytes;
    uint32_t quota_cpu_s_per_hour;
    uint64_t quota_egress_bytes_per_day;
    uint64_t quota_output_tokens_per_hour;
    uint64_t quota_model_tokens_per_day;
    uint64_t quota_model_microcents_per_day;
    uint64_t quota_key_model_tokens_per_day; /* of one key */
    uint64_t quota_key_model_microcents_per_day;
    uint32_t quota_executions; /* queued or running at once */
    /* network */
    char *egress_resolver;       /* "": the host's */
    char *egress_ca_file;        /* PEM; trusted besides the host's; "" */
    char *egress_lab;            /* private ranges that count as public; "" */
    char *package_index;         /* URL of a simple index; "" none */
    char *package_wheels;        /* folder of wheels; "" none */
    uint32_t egress_connections; /* of all sessions; 1000 */
    uint32_t zygote_max_age_s;   /* 3600 */
    uint32_t zygote_max_spawns;  /* 5000 */
    struct conf_pool pools[CONF_POOLS_MAX]; /* [0] is "default" unless the
                                               file names others */
    size_t pool_count;
    struct conf_model models[CONF_MODELS_MAX]; /* of the file only */
    size_t model_count;
    struct conf_bucket buckets[CONF_BUCKETS_MAX]; /* of the file only */
    size_t bucket_count;
};

/*
 * Loads everything in order. argv holds only flags (not the program's name)
 * and is not changed; `--config F` is read here, `--config none` reads no
 * file. Returns with ret filled, owned by caller. ERR_INVALID with file, line
 * and hint on bad input. With --reference, --sample and --help nothing but
 * the flags is read, so that they work whatever the file says.
 */
int conf_load(int argc, char *const *argv, struct conf **ret,
              struct error *err);
void conf_free(struct conf *c);
/* For `struct conf *c cleanup(conf_freep) = NULL;` */
void conf_freep(struct conf **c);
/* The pool of that name, or NULL; NULL or "" means the first. Borrowed. */
const struct conf_pool *conf_pool_find(const struct conf *c, const char *name);
/* The bucket of that name, or NULL. Borrowed. */
const struct conf_bucket *conf_bucket_find(const struct conf *c,
                                           const char *name);
/* Has a comma-separated list that word? */
bool conf_list_has(const char *list, const char *word);
/* What tenant_sharing says of a tenant: "principal", "tenant", or NULL. */
const char *conf_tenant_sharing(const struct conf *c, const char *tenant);
/* Prints what c->mode asks for; false when that is to serve. */
bool conf_show(const struct conf *c, FILE *out);
/* Memory of this machine, or of the control group we run in if that is less.
 */
uint64_t conf_machine_memory(void);
/* Is it served on a loopback address only? */
bool conf_is_local(const struct conf *c);
/* Is it served by HTTPS, and with a certificate that the service makes? */
bool conf_speaks_tls(const struct conf *c);
bool conf_tls_is_auto(const struct conf *c);
/* Is it a directory that the command line looks in without being told? */
bool conf_is_default_data(const char *data_dir);
/* Is it the one of a service that root starts? */
bool conf_is_system_data(const char *data_dir);
void conf_dump(const struct conf *c, FILE *out); /* --dump: YAML */
void conf_reference(FILE *out);                  /* docs/CONFIG.md */
void conf_sample(FILE *out);                     /* packaging/glovebox.yaml */
void conf_help_flags(FILE *out);                 /* for serve --help */

#endif
