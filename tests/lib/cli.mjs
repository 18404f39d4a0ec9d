// SPDX-License-Identifier: Apache-2.0
// The command line as its users meet it: the real program with an environment
// of its own, its streams as pipes or on a terminal. Nothing of the caller's
// environment but the path and the sanitizers' options gets through.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bin } from './glovebox.mjs';

const PASSED_ON = ['PATH', 'ASAN_OPTIONS', 'UBSAN_OPTIONS', 'LSAN_OPTIONS'];
const ESCAPE = /\x1b/;
// The exit status of a command by the code of its error, where it is not 3. A
// request that the service calls invalid is a wrong command line; a local
// file that is no good is not.
const STATUSES = { invalid_request: [2, 3], too_large: [5], limit_reached: [5], overloaded: [5], storage_full: [5],
  isolation_failed: [8], pending_approval: [10] };

export class Cli {
  // server: a Glovebox it is pointed at, or none.
  constructor(server, env = {}) {
    this.running = new Set();
    this.dir = mkdtempSync(join(tmpdir(), 'glovebox-cli-'));
    this.cwd = join(this.dir, 'cwd');
    mkdirSync(this.cwd);
    mkdirSync(join(this.dir, 'home'));
    this.env = {
      HOME: join(this.dir, 'home'),
      ...Object.fromEntries(PASSED_ON.filter((name) => process.env[name]).map((name) => [name, process.env[name]])),
      ...(server ? { GLOVEBOX_URL: server.url, GLOVEBOX_KEY: server.key } : {}),
      ...env,
    };
  }

  // A running command: .stdout and .stderr grow, .ended resolves to the
  // result. terminal: all its streams are one, and it is a terminal.
  start(args, { input, env = {}, cwd = this.cwd, under = [], terminal = false } = {}) {
    let command = [...under, bin('glovebox'), ...args];
    // exec: the shell between would die of the Ctrl-C that we type.
    if (terminal) command = ['script', '-qefc', `exec ${command.map(quote).join(' ')}`, '/dev/null'];
    const started = performance.now();
    const child = spawn(command[0], command.slice(1),
      { cwd, env: { ...this.env, ...(terminal ? { TERM: 'xterm', SHELL: '/bin/sh' } : {}), ...env }, stdio: 'pipe' });
    this.running.add(child);
    const run = { child, stdout: '', stderr: '', chunks: [], waiters: [] };
    const timer = setTimeout(() => child.kill('SIGKILL'), 300_000);
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8');
      child[name].on('data', (text) => {
        run[name] += text;
        run.chunks.push({ name, text, ms: performance.now() - started });
        for (const wake of run.waiters.splice(0)) wake();
      });
    }
    child.stdin.on('error', () => {}); // it may end without having read all
    if (input !== undefined) child.stdin.end(input);
    else if (!terminal) child.stdin.end();
    run.ended = new Promise((done, fail) => {
      child.on('error', fail);
      child.on('close', (status, signal) => {
        clearTimeout(timer);
        this.running.delete(child);
        for (const wake of run.waiters.splice(0)) wake();
        done({ status, signal, stdout: run.stdout, stderr: run.stderr, ms: performance.now() - started, chunks: run.chunks });
      });
    });
    // Waits until a stream shows something.
    run.shows = async (pattern, name = 'stdout', ms = 20_000) => {
      const deadline = Date.now() + ms;
      while (!pattern.test(run[name])) {
        assert.ok(Date.now() < deadline && child.exitCode === null,
          `no ${pattern} on ${name}: ${JSON.stringify([run.stdout, run.stderr])}`);
        await new Promise((wake) => {
          const nap = setTimeout(wake, 100);
          run.waiters.push(() => { clearTimeout(nap); wake(); });
        });
      }
    };
    return run;
  }

  run(args, options) { return this.start(args, options).ended; }

  // Runs and asserts the exit status; without a terminal there is no escape
  // sequence in anything of ours.
  async ok(args, options = {}) { return this.exits(0, args, options); }
  async exits(status, args, options = {}) {
    const done = await this.run(args, options);
    assert.equal(done.status, status, `glovebox ${args.join(' ')}: ${JSON.stringify(done)}`);
    if (!options.terminal) assert.doesNotMatch((done.stdout.startsWith('PK') ? '' : done.stdout) + done.stderr, ESCAPE); // an archive holds any byte
    return done;
  }

  // The one JSON value that --json prints.
  async json(args, options = {}) {
    const done = await this.exits(options.status ?? 0, [...args, '--json'], options);
    return JSON.parse(done.stdout);
  }

  // The error object of a command that failed by its own fault.
  async error(args, options = {}) {
    const done = await this.run([...args, '--json'], options);
    const answer = JSON.parse(done.stdout);
    assert.deepEqual(Object.keys(answer), ['error']);
    const statuses = options.status ? [options.status] : STATUSES[answer.error.code] ?? [3];
    assert.ok(statuses.includes(done.status), `${answer.error.code} ends with ${done.status}: ${args.join(' ')}`);
    assert.deepEqual(Object.keys(answer.error), ['code', 'message', 'hint']);
    assert.ok(answer.error.message.length > 3);
    return answer.error;
  }

  // Ends what a failed test left running.
  close() {
    for (const child of this.running) child.kill('SIGKILL');
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;
