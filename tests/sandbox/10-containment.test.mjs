// SPDX-License-Identifier: Apache-2.0
// C: what a session cannot reach. Every probe has a twin on the host that
// shows the same code does reach it there, so a broken probe cannot pass.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, host, onGvisor, until } from '../lib/glovebox.mjs';

let server;
let session;
let canary;

before(async () => {
  server = await Glovebox.start();
  session = await server.session();
  canary = mkdtempSync(join(tmpdir(), 'glovebox-canary-'));
  chmodSync(canary, 0o755);
  writeFileSync(join(canary, 'secret'), 'canary', { mode: 0o644 });
});

after(async () => {
  await server?.stop();
  if (canary) rmSync(canary, { recursive: true, force: true });
});

// Prints what each statement raised, as JSON: [[name, error or "done"], …].
const attempts = (rows) => `
import json, os, sys, ctypes, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def attempt(fn):
    ctypes.set_errno(0)
    try:
        value = fn()
    except BaseException as e:
        return type(e).__name__ + ":" + str(getattr(e, "errno", ""))
    if isinstance(value, int) and value == -1 and ctypes.get_errno():
        return "errno:" + str(ctypes.get_errno())
    return "done"
print(json.dumps({${rows.map(([name, code]) => `${JSON.stringify(name)}: attempt(lambda: ${code})`).join(', ')}}))
`;

const inside = async (rows) => session.json(attempts(rows));
const outside = (rows) => JSON.parse(host(attempts(rows)).stdout);

test('C1 cannot read a file of the host that anyone may read', async () => {
  const rows = [['read', `open(${JSON.stringify(join(canary, 'secret'))}).read()`]];
  assert.equal(outside(rows).read, 'done');
  assert.equal((await inside(rows)).read, 'FileNotFoundError:2');
});

test('C1 cannot read the host\'s shadow file, machine id or our data', async () => {
  const data = join(server.dir, 'data');
  const rows = [['shadow', 'open("/etc/shadow").read()'],
    ['key', `open(${JSON.stringify(join(data, 'admin.key'))}).read()`]];
  assert.deepEqual(outside(rows), { shadow: 'done', key: 'done' });
  const got = await inside(rows);
  assert.match(got.shadow, /^(PermissionError:13|FileNotFoundError:2)$/);
  assert.equal(got.key, 'FileNotFoundError:2');
});

test('C1 cannot change the runtime it runs in', async () => {
  const rows = ['/usr/bin/x', '/etc/x', '/x', '/opt/glovebox/x', '/lib/x'].map(
    (path) => [path, `open(${JSON.stringify(path)}, "w")`]);
  for (const [path, result] of Object.entries(await inside(rows)))
    assert.match(result, /^(OSError:30|PermissionError:13)$/, path);
  const twin = [['tmp', 'open("/tmp/glovebox-twin", "w")']];
  assert.equal(outside(twin).tmp, 'done');
  assert.equal((await inside(twin)).tmp, 'done');
  rmSync('/tmp/glovebox-twin', { force: true });
});

test('C1 no path climbs out of the root', async () => {
  const rows = [['dots', `open("/" + "../" * 40 + ${JSON.stringify(canary.slice(1))} + "/secret").read()`],
    ['proc', `open("/proc/self/root" + ${JSON.stringify(canary)} + "/secret").read()`],
    ['cwd', `open("/proc/1/cwd" + ${JSON.stringify(canary)} + "/secret").read()`]];
  const control = outside(rows);
  assert.equal(control.dots, 'done');
  assert.equal(control.proc, 'done');
  const got = await inside(rows);
  for (const result of Object.values(got)) assert.match(result, /^(FileNotFoundError:2|PermissionError:13)$/);
});

test('C2 cannot see or signal a process outside', async () => {
  const pids = await session.json('import os, json; print(json.dumps([int(p) for p in os.listdir("/proc") if p.isdigit()]))');
  assert.ok(pids.length <= 3 && pids.every((pid) => pid < 1000), JSON.stringify(pids));
  assert.ok(JSON.parse(host('import os, json; print(json.dumps([int(p) for p in os.listdir("/proc") if p.isdigit()]))').stdout).length > 5);
  const rows = [['daemon', `os.kill(${server.pid}, 0)`]];
  assert.equal(outside(rows).daemon, 'done');
  assert.equal((await inside(rows)).daemon, 'ProcessLookupError:3');
});

test('C2 cannot read or trace its own pid 1', async () => {
  const rows = [['environ', 'open("/proc/1/environ").read()'], ['mem', 'open("/proc/1/mem", "rb").read(1)'],
    ['fd', 'os.listdir("/proc/1/fd")'], ['maps', 'open("/proc/1/maps").read(1)'],
    ['ptrace', 'libc.ptrace(16, 1, 0, 0)'], ['vm', 'libc.process_vm_readv(1, 0, 0, 0, 0, 0)']];
  const parent = [['environ', 'open("/proc/%d/environ" % os.getppid()).read()'],
    ['fd', 'os.listdir("/proc/%d/fd" % os.getppid())'], ['maps', 'open("/proc/%d/maps" % os.getppid()).read(1)']];
  assert.deepEqual(Object.values(outside(parent)), ['done', 'done', 'done']);
  // In a guest, pid 1 holds no more than its own start: gVisor shows that much.
  const got = await inside(onGvisor ? rows.filter(([what]) => ['mem', 'ptrace', 'vm'].includes(what)) : rows);
  for (const [what, result] of Object.entries(got))
    assert.match(result, /^(PermissionError:13|errno:1|OSError:5)$/, what);
  // Its own memory it may look at, so the probe itself works.
  assert.equal((await inside([['own', 'open("/proc/self/maps").read(1)']])).own, 'done');
});

test('C2 killing pid 1 does nothing', async () => {
  assert.equal(await session.out('import os, signal\nfor s in (9, 15, 2, 11): os.kill(1, s)\nprint("still here")'), 'still here');
  assert.equal((await session.get()).state, 'idle');
});

test('C3 runs under a host uid of its own, never root', async () => {
  const other = await server.session();
  await Promise.all([session, other].map((s) => s.out('x = 1')));
  const { children } = server.processes();
  const uids = children.map(({ pid }) => Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]));
  assert.ok(uids.length >= 3, 'a zygote and two sessions at least');
  assert.ok(uids.every((uid) => uid >= 65536), JSON.stringify(uids));
  assert.equal(new Set(uids).size, uids.length, `no two alike: ${uids}`);
  await other.delete();
});

test('C3 holds no capability and cannot gain one', async () => {
  const status = await session.out('print(open("/proc/self/status").read())');
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', ...(onGvisor ? [] : ['CapAmb'])]) // gVisor does not show it
    assert.match(status, new RegExp(`^${set}:\\s+0+$`, 'm'));
  if (!onGvisor) assert.match(status, /^NoNewPrivs:\s+1$/m);
  assert.doesNotMatch(host('print(open("/proc/self/status").read())').stdout, /^CapEff:\s+0+$/m);
  const rows = [['setuid', 'os.setuid(0)'], ['userns', 'libc.unshare(0x10000000)'], ['mountns', 'libc.unshare(0x20000)'],
    ['chroot', 'os.chroot("/tmp")'], ['sysctl', 'open("/proc/sys/kernel/hostname", "w")']];
  const control = outside(rows.filter(([name]) => name === 'mountns' || name === 'setuid'));
  assert.deepEqual(control, { setuid: 'done', mountns: 'done' });
  for (const [what, result] of Object.entries(await inside(rows)))
    assert.match(result, /^(PermissionError:1|OSError:22|errno:1|OSError:30|PermissionError:13)$/, what);
});

test('C3 there is no setuid program to run', async () => {
  // gVisor asks its file server about every file: minutes on a busy machine.
  const e = await session.python(`import subprocess\nprint(subprocess.run('find / -xdev -perm /6000 -type f 2>/dev/null | wc -l', shell=True, capture_output=True, text=True).stdout)`, { timeout_s: 900 });
  assert.equal(e.stdout.trim(), '0');
});

// Numbers of x86-64. The host's root gets another answer than "not permitted"
// from each, with the same useless arguments.
const refused = {
  mount: 165, umount2: 166, pivot_root: 155, swapon: 167, reboot: 169, init_module: 175, finit_module: 313,
  kexec_load: 246, bpf: 321, perf_event_open: 298, userfaultfd: 323, io_uring_setup: 425, io_uring_enter: 426,
  add_key: 248, request_key: 249, keyctl: 250, ptrace: 101, process_vm_readv: 310, process_vm_writev: 311,
  open_by_handle_at: 304, name_to_handle_at: 303, pidfd_getfd: 438, fsopen: 430, fsmount: 432, move_mount: 429,
  open_tree: 428, mount_setattr: 442, setns: 308, acct: 163, quotactl: 179, settimeofday: 164, clock_settime: 227,
  sethostname: 170, iopl: 172, ioperm: 173, kcmp: 312, fanotify_init: 300, move_pages: 279, migrate_pages: 256,
  syslog: 103, vhangup: 153, unshare: 272, chroot: 161, process_madvise: 440,
};

const syscalls = (numbers) => `
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
out = {}
for name, number in json.loads(${JSON.stringify(JSON.stringify(numbers))}).items():
    ctypes.set_errno(0)
    r = libc.syscall(number, -1, -1, -1, -1, -1, -1)
    out[name] = ctypes.get_errno() if r == -1 else 0
print(json.dumps(out))
`;

test('C4 system calls that are not listed are refused by the filter', async () => {
  const safe = { ...refused };
  for (const name of ['reboot', 'vhangup', 'syslog', 'iopl', 'unshare', 'setns']) delete safe[name];
  const control = JSON.parse(host(syscalls(safe)).stdout);
  const got = await session.json(syscalls(refused));
  for (const [name, errno] of Object.entries(got)) assert.equal(errno, 1, `${name} must be refused`);
  const different = Object.keys(safe).filter((name) => control[name] !== 1);
  assert.ok(different.length > Object.keys(safe).length * 0.9, `the host answers otherwise: ${JSON.stringify(control)}`);
});

test('C4 clone3 is answered as absent and new namespaces are refused', async () => {
  const got = await session.json(`
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    ctypes.set_errno(0)
    return [libc.syscall(*a), ctypes.get_errno()]
print(json.dumps([call(435, 0, 0)] + [call(56, flag | 17, 0, 0, 0, 0) for flag in (0x20000, 0x10000000, 0x20000000, 0x40000000)]))
`);
  assert.deepEqual(got[0], [-1, 38]);
  for (const answer of got.slice(1)) assert.deepEqual(answer, [-1, 1]);
});

test('C4 only harmless socket families can be had', async () => {
  const families = { unix: 1, inet: 2, inet6: 10, netlink_audit: [16, 3, 9], packet: 17, alg: 38, vsock: 40, bluetooth: 31, can: 29 };
  const got = await session.json(`
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
out = {}
for name, f in json.loads(${JSON.stringify(JSON.stringify(families))}).items():
    ctypes.set_errno(0)
    a = f if isinstance(f, list) else [f, 1, 0]
    out[name] = 0 if libc.socket(*a) >= 0 else ctypes.get_errno()
print(json.dumps(out))
`);
  assert.deepEqual(got, { unix: 0, inet: 0, inet6: 0, netlink_audit: 1, packet: 1, alg: 1, vsock: 1, bluetooth: 1, can: 1 });
});

const foreign = `
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid of the 32-bit ABI); int 0x80; ret
fn = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print("foreign", fn() > 0)
`;

test('C4 a system call of a foreign ABI ends the process', async () => {
  const control = host(foreign);
  assert.ok(control.stdout === 'foreign True' || control.signal === 'SIGSEGV', 'the probe runs on the host');
  const other = await server.session();
  const e = await other.python(foreign);
  assert.equal(e.outcome, 'crashed');
  assert.doesNotMatch(e.stdout, /foreign True/);
  await other.delete();
});

test('C5 no descriptor, folder or root leaks in', async () => {
  const got = await (await server.session()).json(`
import os, json
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try: fds[fd] = os.readlink("/proc/self/fd/" + fd)
    except OSError: pass
print(json.dumps({"fds": fds, "cwd": os.getcwd(), "root": os.stat("/").st_ino == os.stat("/..").st_ino}))
`);
  for (const [fd, target] of Object.entries(got.fds))
    assert.match(target, onGvisor ? /^(\/null|host:\[\d+\]|\/proc\/\d+\/fd)$/ : /^(\/dev\/null|pipe:\[\d+\]|socket:\[\d+\]|\/proc\/\d+\/fd)$/, `${fd} -> ${target}`);
  if (onGvisor) assert.deepEqual(Object.keys(got.fds).filter((fd) => fd < 4), ['0', '1', '2', '3'], 'null, pipes and the frames socket');
  else assert.ok(Object.values(got.fds).filter((t) => t.startsWith('socket:')).length === 1, 'only the frames socket');
  assert.equal(got.cwd, '/mnt/data');
  assert.equal(got.root, true);
});

test('C6 /dev holds five known nodes and nothing else', async () => {
  const got = await session.json(`
import os, json, stat
out = {}
for name in sorted(os.listdir("/dev")):
    st = os.lstat("/dev/" + name)
    if stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
        out[name] = [os.major(st.st_rdev), os.minor(st.st_rdev)]
print(json.dumps(out))
`);
  assert.deepEqual(got, { full: [1, 7], null: [1, 3], random: [1, 8], urandom: [1, 9], zero: [1, 5] });
  const rows = [['mknod', 'os.mknod("/tmp/sda", 0o60600, os.makedev(8, 0))']];
  assert.match((await inside(rows)).mknod, /PermissionError/);
});

test('C6 /proc and /sys give nothing away', async () => {
  const names = ['kcore', 'keys', 'kallsyms', 'cmdline', 'config.gz', 'interrupts', 'timer_list', 'modules', 'locks', 'slabinfo'];
  const got = await session.json(`
import json, os
out = {}
for name in ${JSON.stringify(names)}:
    try: out[name] = len(open("/proc/" + name, "rb").read(64))
    except OSError as e: out[name] = 0
out["sys"] = sum(len(f) for _, _, f in os.walk("/sys"))
print(json.dumps(out))
`);
  if (onGvisor) { // files of gVisor's, about itself
    assert.ok(!(await session.out('print(open("/proc/cmdline").read())')).includes(readFileSync('/proc/cmdline', 'utf8').trim()));
    return;
  }
  for (const name of names) assert.equal(got[name], 0, name);
  assert.ok(got.sys <= 3);
  assert.ok(Number(host('print(len(open("/proc/cmdline").read()) > 0)').stdout === 'True'));
});

test('C6 covers cannot be taken away or written through', async () => {
  const rows = [['umount', 'libc.umount2(b"/proc/meminfo", 2)'], ['write', 'open("/proc/meminfo", "w")'],
    ['sysrq', 'open("/proc/sysrq-trigger", "w")'], ['sys', 'open("/proc/sys/vm/overcommit_memory", "w")']];
  // gVisor's sysrq-trigger can be opened and does nothing.
  for (const [what, result] of Object.entries(await inside(onGvisor ? rows.filter(([name]) => name === 'umount') : rows)))
    assert.match(result, /^(errno:1|PermissionError:13|OSError:30|FileNotFoundError:2)$/, what);
});

test('C7 no control group is in reach', async () => {
  const got = await session.json(`
import json, os
mounts = [l.split()[2] for l in open("/proc/self/mounts")]
groups = [l.split(":")[2] for l in open("/proc/self/cgroup").read().split()]
print(json.dumps({"mounted": "cgroup" in mounts or "cgroup2" in mounts, "groups": sorted(set(groups)), "dir": os.path.exists("/sys/fs/cgroup")}))
`);
  if (onGvisor) // gVisor's own groups, covered; none is the host's
    assert.equal(await session.out('import os; print(os.listdir("/sys/fs/cgroup"))'), '[]');
  else assert.deepEqual(got, { mounted: false, groups: ['/'], dir: false });
  assert.match(host('print(open("/proc/self/mounts").read())').stdout, /cgroup/);
});

test('C8 no host-wide setting can be changed', async () => {
  const rows = [['clock', 'libc.clock_settime(0, ctypes.byref((ctypes.c_long * 2)(0, 0)))'],
    ['hostname', 'socket.sethostname("x")'], ['nice', 'os.setpriority(os.PRIO_PROCESS, 0, -5)'],
    ['fifo', 'os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))'],
    ['oom', 'open("/proc/self/oom_score_adj", "w").write("-500")'],
    ['core', 'open("/proc/sys/kernel/core_pattern", "w").write("|/bin/sh")']];
  // What a guest sets there is gVisor's own, and nobody else's.
  for (const [what, result] of Object.entries(await inside(onGvisor ? rows.filter(([name]) => ['clock', 'hostname'].includes(name)) : rows)))
    assert.match(result, /^(errno:1|PermissionError:(1|13)|OSError:30)$/, `${what}: ${result}`);
  assert.equal(outside([['nice', 'os.setpriority(os.PRIO_PROCESS, 0, -5)']]).nice, 'done');
});

test('C8 no core is dumped', async () => {
  const got = await session.json('import resource, json; print(json.dumps(resource.getrlimit(resource.RLIMIT_CORE)))');
  assert.deepEqual(got, [0, 0]);
});

test('C9 the walls hold after exec, in threads, from memory and in a new interpreter', async () => {
  const status = '/^(Seccomp|NoNewPrivs|CapEff):/{print $2}';
  const want = onGvisor ? ['0000000000000000', '2'] : ['0000000000000000', '1', '2'];
  const exec = await session.shell(`awk '${status}' /proc/self/status`);
  assert.deepEqual(exec.stdout.trim().split('\n'), want);
  const got = await session.json(`
import json, os, subprocess, sys, threading
probe = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.unshare(0x10000000), ctypes.get_errno())"
out = {"python": subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip()}
fd = os.memfd_create("copy", 0)
os.write(fd, open("/bin/cat", "rb").read())
out["memfd"] = subprocess.run(["/proc/self/fd/%d" % fd, "/proc/self/status"], pass_fds=[fd], capture_output=True, text=True).stdout
def thread():
    import ctypes
    l = ctypes.CDLL(None, use_errno=True)
    out["thread"] = [l.unshare(0x20000), ctypes.get_errno()]
t = threading.Thread(target=thread); t.start(); t.join()
print(json.dumps(out))
`);
  assert.equal(got.python, '-1 1');
  assert.match(got.memfd, /^Seccomp:\s+2$/m);
  assert.deepEqual(got.thread, [-1, 1]);
});

test('C10 there is no terminal', async () => {
  const rows = [['tty', 'os.open("/dev/tty", os.O_RDWR)'], ['ptmx', 'os.open("/dev/ptmx", os.O_RDWR)'],
    ['inject', '__import__("fcntl").ioctl(1, 0x5412, b"x")'], ['inject_high', 'libc.ioctl(1, ctypes.c_ulong(0x100005412), b"x")']];
  const got = await inside(rows);
  assert.match(got.tty, /^(FileNotFoundError:2|OSError:6)$/);
  assert.equal(got.ptmx, 'FileNotFoundError:2');
  assert.match(got.inject, /PermissionError:1|OSError:1/);
  assert.equal(got.inject_high, 'errno:1');
  assert.equal(await session.out('import os; print([os.isatty(fd) for fd in (0, 1, 2)], os.getsid(0) == os.getpid())'), '[False, False, False] True');
});

test('C2 the session sees only what it started itself', async () => {
  const e = await session.shell('sleep 30 & ls /proc | grep -c "^[0-9]"; kill %1');
  await until(async () => (await session.shell('ls /proc | grep -c "^[0-9]"')).stdout, { what: 'listing' });
  assert.ok(Number(e.stdout.trim()) <= 6);
});
