/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controls about the sandbox: isolation, what is left of a session, what it
 * reaches, what it finds lying about, what it can install. Each runs a probe
 * in a real session.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"
#include "cli/govern/scorecard.h"

#define LIFETIME_MAX_S 86400u
#define GONE_MS 5000u

/* ---- isolation ---------------------------------------------------------- */

static const char isolation_probe[] =
    "import ctypes, json, os\n"
    "status = dict(line.split(':\\t', 1) for line in"
    " open('/proc/self/status').read().splitlines() if ':\\t' in line)\n"
    "def opens(path):\n"
    "    try:\n"
    "        open(path, 'rb').read(1)\n"
    "        return True\n"
    "    except OSError:\n"
    "        return False\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "print(json.dumps({\n"
    "  'seccomp': status['Seccomp'].strip(),\n"
    "  'no_new_privs': status['NoNewPrivs'].strip(),\n"
    "  'caps': [int(status[k], 16) for k in ('CapEff', 'CapPrm', 'CapInh',"
    " 'CapBnd', 'CapAmb')],\n"
    "  'uid': os.getuid(),\n"
    "  'processes': len([p for p in os.listdir('/proc') if p.isdigit()]),\n"
    "  'pid1_environ': opens('/proc/1/environ'),\n"
    "  'shadow': opens('/etc/shadow'),\n"
    "  'kernel_memory': opens('/proc/kcore'),\n"
    "  'new_user_namespace': libc.unshare(0x10000000) == 0,\n"
    "  'mount': libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0,\n"
    "  'root_writable': os.access('/', os.W_OK) or os.access('/usr', os.W_OK)"
    ",\n"
    "}))\n";

static bool no_caps(const json_t *caps)
{
    for (size_t i = 0; i < json_array_size(caps); i++)
        if (json_integer_value(json_array_get(caps, i)) != 0)
            return false;
    return json_array_size(caps) > 0;
}

void cli_score_isolation(struct cli_score *s)
{
    static const struct {
        const char *member, *words;
    } denied[] = {
        {"pid1_environ", "read pid 1's environment"},
        {"shadow", "read /etc/shadow"},
        {"kernel_memory", "read kernel memory"},
        {"new_user_namespace", "make a user namespace"},
        {"mount", "mount a file system"},
        {"root_writable", "write to its root"},
    };
    json_t *saw cleanup(json_unref) = NULL;
    char session[ID_MAX];

    cli_score_gate(s, "walls");
    if (!cli_score_session(s, true, session))
        return;
    saw = cli_score_probe(s, session, isolation_probe);
    cli_score_end(s, session);
    if (!saw)
        return;
    (void)cli_score_note(
        s,
        strcmp(cli_json_text(saw, "seccomp", ""), "2") == 0 &&
            strcmp(cli_json_text(saw, "no_new_privs", ""), "1") == 0,
        "system call filter on (mode %s), no new privileges (%s)",
        cli_json_text(saw, "seccomp", "?"),
        cli_json_text(saw, "no_new_privs", "?"));
    (void)cli_score_note(s, no_caps(json_object_get(saw, "caps")),
                         "capabilities in every set: %s",
                         no_caps(json_object_get(saw, "caps")) ? "none"
                                                               : "some");
    (void)cli_score_note(s, cli_json_number(saw, "processes") < 16,
                         "it sees %u processes",
                         (unsigned)cli_json_number(saw, "processes"));
    for (size_t i = 0; i < ARRAY_SIZE(denied); i++) {
        bool could = json_is_true(json_object_get(saw, denied[i].member));

        (void)cli_score_note(s, !could, "it %s %s", could ? "COULD" : "cannot",
                             denied[i].words);
    }
}

/* ---- ephemeral ---------------------------------------------------------- */

static const char leave_traces[] =
    "import json, subprocess\n"
    "marker = 'left behind'\n"
    "open('/mnt/data/scorecard.txt', 'w').write(marker)\n"
    "open('/tmp/scorecard.txt', 'w').write(marker)\n"
    "subprocess.Popen(['sleep', '600'])\n"
    "print(json.dumps({'ok': True}))\n";

static const char find_traces[] =
    "import json, os\n"
    "print(json.dumps({'variable': 'marker' in globals(),"
    " 'data': os.path.exists('/mnt/data/scorecard.txt'),"
    " 'tmp': os.path.exists('/tmp/scorecard.txt')}))\n";

static void note_pools(struct cli_score *s)
{
    const json_t *pools = json_object_get(s->posture, "pools");

    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *p = json_array_get(pools, i);
        uint64_t life = cli_json_number(p, "lifetime_s");

        (void)cli_score_note(s, life <= LIFETIME_MAX_S,
                             "pool %s: a sandbox lives at most %llu s",
                             cli_json_text(p, "name", ""),
                             (unsigned long long)life);
    }
}

static void note_gone(struct cli_score *s, const char *session)
{
    char *path cleanup(mem_free) = xasprintf("/api/sessions/%s", session);
    char *file cleanup(mem_free) =
        xasprintf("/api/sessions/%s/files/scorecard.txt", session);
    uint64_t deadline = clock_mono_ms() + GONE_MS;
    char code[32] = "", file_code[32] = "";

    do {
        cli_score_refusal(s, NULL, "GET", path, NULL, code);
        if (code[0])
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    } while (clock_left_ms(deadline));
    cli_score_refusal(s, NULL, "GET", file, NULL, file_code);
    (void)cli_score_note(s, strcmp(code, "not_found") == 0,
                         "the deleted session: %s", code[0] ? code : "there");
    (void)cli_score_note(s, strcmp(file_code, "not_found") == 0,
                         "its file: %s", file_code[0] ? file_code : "there");
}

void cli_score_ephemeral(struct cli_score *s)
{
    json_t *left cleanup(json_unref) = NULL;
    json_t *found cleanup(json_unref) = NULL;
    char session[ID_MAX], next[ID_MAX];

    note_pools(s);
    if (!cli_score_session(s, true, session))
        return;
    left = cli_score_probe(s, session, leave_traces);
    cli_score_end(s, session);
    if (!left)
        return;
    note_gone(s, session);
    if (!cli_score_session(s, true, next))
        return;
    found = cli_score_probe(s, next, find_traces);
    cli_score_end(s, next);
    if (found)
        (void)cli_score_note(
            s,
            json_is_false(json_object_get(found, "variable")) &&
                json_is_false(json_object_get(found, "data")) &&
                json_is_false(json_object_get(found, "tmp")),
            "the next session finds no variable, file or temporary file");
}

/* ---- egress ------------------------------------------------------------- */

/* Addresses and names reserved for documentation: RFC 5737, RFC 2606. */
static const char egress_probe[] =
    "import json, socket\n"
    "def tries(fn):\n"
    "    try:\n"
    "        fn()\n"
    "        return 'reached'\n"
    "    except OSError as e:\n"
    "        return e.strerror or str(e)\n"
    "print(json.dumps({\n"
    "  'connect': tries(lambda: socket.create_connection(('192.0.2.1', 80),"
    " 3)),\n"
    "  'resolve': tries(lambda: socket.getaddrinfo("
    "'scorecard.example.com', 443)),\n"
    "  'metadata': tries(lambda: socket.create_connection("
    "('169.254.169.254', 80), 3)),\n"
    "}))\n";

static bool lists_host(const json_t *blocked, const char *host)
{
    for (size_t i = 0; i < json_array_size(blocked); i++)
        if (strcmp(cli_json_text(json_array_get(blocked, i), "host", ""),
                   host) == 0)
            return true;
    return false;
}

static void note_seen(struct cli_score *s, const json_t *run, const char *host)
{
    const json_t *blocked =
        json_object_get(json_object_get(run, "network"), "blocked");
    bool seen = lists_host(blocked, host);

    (void)cli_score_note(s, seen, "the attempt on %s is %s", host,
                         seen ? "in the execution's answer" : "NOT recorded");
}

void cli_score_egress(struct cli_score *s)
{
    json_t *run cleanup(json_unref) = NULL;
    json_t *saw cleanup(json_unref) = NULL;
    static const char *const tries[] = {"connect", "resolve", "metadata"};
    char session[ID_MAX];
    const char *out;

    cli_score_gate(s, "outbound");
    if (!cli_score_session(s, true, session))
        return;
    run = cli_score_run(s, session, "python", egress_probe, 30);
    cli_score_end(s, session);
    if (!run)
        return;
    out = cli_json_text(run, "stdout", "");
    saw = cli_json_load(out, strlen(out));
    if (!saw) {
        (void)cli_score_note(s, false, "the probe said nothing");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
        const char *what = cli_json_text(saw, tries[i], "?");

        (void)cli_score_note(s, strcmp(what, "reached") != 0, "%s: %s",
                             tries[i], what);
    }
    note_seen(s, run, "192.0.2.1");
    note_seen(s, run, "scorecard.example.com");
    note_seen(s, run, "169.254.169.254");
}

/* ---- secrets ------------------------------------------------------------ */

static const char secrets_probe[] =
    "import glob, json, os\n"
    "words = ('SECRET', 'TOKEN', 'PASSWORD', 'PASSWD', 'API_KEY', 'APIKEY',"
    " 'ACCESS_KEY', 'CREDENTIAL', 'PRIVATE_KEY', 'DATABASE_URL')\n"
    "names = set(os.environ)\n"
    "for path in glob.glob('/proc/[0-9]*/environ'):\n"
    "    try:\n"
    "        for item in open(path, 'rb').read().split(b'\\0'):\n"
    "            names.add(item.split(b'=')[0].decode('utf-8', 'replace'))\n"
    "    except OSError:\n"
    "        pass\n"
    "homes = [p for p in ('~/.aws', '~/.ssh', '~/.netrc', '~/.config/gcloud',"
    " '~/.kube', '/run/secrets', '/var/run/secrets')"
    " if os.path.exists(os.path.expanduser(p))]\n"
    "sockets = [p for p in ('/var/run/docker.sock', '/run/docker.sock',"
    " '/run/containerd/containerd.sock') if os.path.exists(p)]\n"
    "print(json.dumps({'names': sorted(n for n in names"
    " if any(w in n.upper() for w in words)), 'looked': len(names),"
    " 'homes': homes, 'sockets': sockets}))\n";

void cli_score_secrets(struct cli_score *s)
{
    static const struct {
        const char *member, *words;
    } lists[] = {{"names", "variables that name secrets"},
                 {"homes", "folders of credentials"},
                 {"sockets", "sockets of container engines"}};
    json_t *saw cleanup(json_unref) = NULL;
    char session[ID_MAX];

    cli_score_gate(s, "environment");
    if (!cli_score_session(s, true, session))
        return;
    saw = cli_score_probe(s, session, secrets_probe);
    cli_score_end(s, session);
    for (size_t i = 0; saw && i < ARRAY_SIZE(lists); i++) {
        const json_t *list = json_object_get(saw, lists[i].member);
        const char *first = json_string_value(json_array_get(list, 0));

        (void)cli_score_note(s, json_array_size(list) == 0,
                             "%s in a session: %s", lists[i].words,
                             first ? first : "none");
    }
}

/* ---- dependencies ------------------------------------------------------- */

static const char install_probe[] =
    "import json, subprocess, sys\n"
    "p = subprocess.run([sys.executable, '-m', 'pip', 'install',"
    " '--disable-pip-version-check', '--retries', '0', '--timeout', '5',"
    " 'glovebox-scorecard-probe'], capture_output=True, text=True,"
    " timeout=25)\n"
    "print(json.dumps({'status': p.returncode,"
    " 'said': (p.stdout + p.stderr)[-160:]}))\n";

void cli_score_dependencies(struct cli_score *s)
{
    json_t *told cleanup(json_unref) = NULL;
    json_t *saw cleanup(json_unref) = NULL;
    char session[ID_MAX];
    bool open;

    told = cli_score_ask(s, "POST", "/api/policy/explain",
                         json_pack("{s:{s:s, s:s, s:s}}", "request", "action",
                                   "package", "package",
                                   "glovebox-scorecard-probe",
                                   "package_version", "1.0"));
    if (told) {
        const char *verdict = cli_json_text(told, "verdict", "?");
        const char *rule = cli_json_text(told, "rule", "?");

        /* By default nothing is installed: a rule must name it. */
        open = strcmp(verdict, "allow") == 0 && strcmp(rule, "default") != 0;
        (void)cli_score_note(
            s, !open, "an unknown package without a hash: %s (rule %s)",
            strcmp(rule, "default") ? verdict : "not listed", rule);
    }
    if (!cli_score_session(s, true, session))
        return;
    saw = cli_score_probe(s, session, install_probe);
    cli_score_end(s, session);
    if (saw)
        (void)cli_score_note(
            s, json_integer_value(json_object_get(saw, "status")) != 0,
            "pip install of it in a session: %s",
            json_integer_value(json_object_get(saw, "status")) ? "refused"
                                                               : "DONE");
}
