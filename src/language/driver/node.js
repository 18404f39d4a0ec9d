// SPDX-License-Identifier: Apache-2.0
//
// The JavaScript interpreter of a session: takes cells, runs them, says how
// they ended. Sent into the sandbox by gloveboxd and run by the image's Node
// as the session's user. It speaks the frames of src/wire/kernel_msg.h on
// descriptor 3. User code runs in the same process and may break it; then it
// ends, and gloveboxd starts a new one.
//
// The value of this file is a function; its argument is Node's require.
(function (require) {
'use strict';

const fs = require('fs');
const util = require('util');
const vm = require('vm');
const { createRequire } = require('module');

const FRAMES = 3;
const [EXECUTE, SYNCED, ENVIRONMENT] = [1, 2, 3];
const [READY, DISPLAY, RESULT, ERROR, DONE, SYNC] = [16, 17, 18, 19, 20, 21];
const PAIRS_MAX = 256;
const VALUE_MAX = 8 << 20; // of one pair; a frame holds twice as much
const LINES_MAX = 60;      // of a traceback
const DRAIN_MS = 5000;     // for timers and requests that code did not await
const DRAIN_STEP_MS = 5;

// What the driver itself calls is kept: cells may replace globals.
const { setTimeout, setImmediate, process, Buffer, Promise } = globalThis;

// ---- bytes ----------------------------------------------------------------

const nap = new Int32Array(new SharedArrayBuffer(4));

function writeAll(fd, bytes) {
    for (let at = 0; at < bytes.length;) {
        try {
            at += fs.writeSync(fd, bytes, at, bytes.length - at);
        } catch (e) {
            if (e.code !== 'EAGAIN') throw e;
            Atomics.wait(nap, 0, 0, 1);
        }
    }
}

function readAll(length) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length;) {
        let n;
        try {
            n = fs.readSync(FRAMES, bytes, at, length - at, null);
        } catch (e) {
            if (e.code !== 'EAGAIN' && e.code !== 'EINTR') throw e;
            Atomics.wait(nap, 0, 0, 1);
            continue;
        }
        if (n === 0) leave(0); // gloveboxd is gone
        at += n;
    }
    return bytes;
}

function receive() {
    const head = readAll(8);
    return [head.readUInt32LE(0), readAll(head.readUInt32LE(4))];
}

function send(kind, payload = Buffer.alloc(0)) {
    const head = Buffer.alloc(8);
    head.writeUInt32LE(kind, 0);
    head.writeUInt32LE(payload.length, 4);
    writeAll(FRAMES, Buffer.concat([head, payload]));
}

function pairs(items) {
    const parts = [];
    for (const [key, value] of items.slice(0, PAIRS_MAX)) {
        const k = Buffer.from(key), v = Buffer.from(value);
        const head = Buffer.alloc(8);
        head.writeUInt32LE(k.length, 0);
        head.writeUInt32LE(v.length, 4);
        parts.push(head, k, v);
    }
    return Buffer.concat(parts);
}

const leave = process.reallyExit.bind(process);

// ---- output ---------------------------------------------------------------

let running = false;
let lastStream = 0;

// What was written to the other stream, or shown, is read first.
function turn(stream) {
    if (running && lastStream && lastStream !== stream) {
        send(SYNC);
        while (receive()[0] !== SYNCED);
    }
    lastStream = stream;
}

function direct(stream, fd) {
    stream.write = function (chunk, encoding, done) {
        if (typeof encoding === 'function') [encoding, done] = ['utf8', encoding];
        const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding)
            : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
        turn(fd);
        writeAll(fd, bytes);
        if (typeof done === 'function') process.nextTick(done);
        return true;
    };
}
direct(process.stdout, 1);
direct(process.stderr, 2);

function describe(value) {
    let text;
    try {
        text = util.inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: 100000, breakLength: 80 });
    } catch (e) {
        text = '[cannot be shown: ' + String(e && e.message) + ']';
    }
    return text.length > VALUE_MAX ? text.slice(0, VALUE_MAX) + ' …' : text;
}

// display(value), or display({'image/png': bytes, 'text/html': text}).
function display(value) {
    const isBundle = value !== null && typeof value === 'object' && Object.keys(value).length > 0 &&
        Object.keys(value).every((key) => /^[\w.+-]+\/[\w.+-]+$/.test(key));
    const items = [];
    for (const [mime, data] of isBundle ? Object.entries(value) : []) {
        const bytes = ArrayBuffer.isView(data) ? Buffer.from(data.buffer, data.byteOffset, data.byteLength)
            : typeof data === 'string' ? Buffer.from(data) : Buffer.from(JSON.stringify(data) ?? 'null');
        if (mime.length > 255 || bytes.length > VALUE_MAX)
            throw new RangeError(`${mime}: ${bytes.length} bytes are too many to display; save it to a file`);
        items.push([mime, bytes]);
    }
    turn(-1);
    send(DISPLAY, pairs(isBundle ? items : [['text/plain', describe(value)]]));
}

// ---- errors ---------------------------------------------------------------

class Exit {
    constructor(code) { this.code = code; }
}

function isDriverLine(line) {
    return /glovebox-driver|node:vm|node:internal|\(node:|at node:|^ +at new Script|Script\.runIn/.test(line);
}

// name, message, lines of the traceback, a short form of it.
function explain(error) {
    if (error instanceof Exit)
        return ['ProcessExit', `exit status ${error.code}`, [`ProcessExit: exit status ${error.code}`]];
    if (!util.types.isNativeError(error)) {
        const text = describe(error);
        return ['Error', text, ['Uncaught ' + text]];
    }
    let name = 'Error', message = '', stack = '';
    try {
        name = String(error.name);
        message = String(error.message);
        stack = String(error.stack);
    } catch { /* getters of the user's; the defaults stand */ }
    const lines = stack.split('\n').filter((line) => !isDriverLine(line));
    if (!stack.includes(message)) lines.unshift(`${name}: ${message}`);
    return [name, message, lines.slice(0, LINES_MAX)];
}

function sendError(error) {
    const [name, message, lines] = explain(error);
    const where = lines.find((line) => /cell\[\d+\]:\d+/.test(line));
    const brief = `${name}: ${message}`.slice(0, 2000) +
        (where ? '\n' + where.trim().slice(0, 300) : '');
    send(ERROR, pairs([['name', name.slice(0, 200)], ['message', message.slice(0, 65536)], ['brief', brief],
        ...lines.map((line) => ['traceback', line.slice(0, 4000)])]));
}

// ---- a cell's source ------------------------------------------------------

// Both are Node's own. Without them cells run as plain scripts.
let acorn = null, processTopLevelAwait = null;
try {
    acorn = require('internal/deps/acorn/acorn/dist/acorn');
    ({ processTopLevelAwait } = require('internal/repl/await'));
} catch {
    try { acorn = require('/usr/share/nodejs/acorn'); } catch { /* plain */ }
}

function parse(source, sourceType) {
    return acorn.parse(source, { ecmaVersion: 'latest', sourceType, allowAwaitOutsideFunction: true,
        allowReturnOutsideFunction: false, allowHashBang: true });
}

// import a, {b as c} from 'm' becomes const {default: a, b: c} = await import('m').
function importText(node) {
    const from = `await import(${JSON.stringify(node.source.value)})`;
    const whole = node.specifiers.find((s) => s.type === 'ImportNamespaceSpecifier');
    const named = node.specifiers.filter((s) => s !== whole).map((s) => (
        `${s.type === 'ImportDefaultSpecifier' ? 'default' : s.imported.raw ?? s.imported.name}: ${s.local.name}`));
    if (!node.specifiers.length) return `${from};`;
    if (!whole) return `var {${named.join(', ')}} = ${from};`;
    return `var ${whole.local.name} = ${from};` +
        (named.length ? ` var {${named.join(', ')}} = ${whole.local.name};` : '');
}

// Statements of a cell become those of one long program: a later cell may
// declare a name again, and import and export work as in a module.
function toScript(source) {
    let tree;
    try {
        tree = parse(source, 'script');
    } catch (e) {
        if (!/import|export/.test(source)) return { source, shows: true };
        try { tree = parse(source, 'module'); } catch { return { source, shows: true }; }
    }
    let out = source;
    for (const node of [...tree.body].reverse()) {
        const put = (from, to, text) => { out = out.slice(0, from) + text + out.slice(to); };
        const declaration = node.declaration ?? node;
        if (node.type === 'ImportDeclaration')
            put(node.start, node.end, importText(node));
        else if (declaration.type === 'VariableDeclaration' && ['let', 'const'].includes(declaration.kind))
            put(declaration.start, declaration.start + declaration.kind.length, 'var'.padEnd(declaration.kind.length));
        else if (declaration.type === 'ClassDeclaration' && declaration.id)
            put(declaration.start, declaration.start, `var ${declaration.id.name} = `),
            put(declaration.end + `var ${declaration.id.name} = `.length,
                declaration.end + `var ${declaration.id.name} = `.length, ';');
        if (node.type === 'ExportNamedDeclaration')
            put(node.start, node.declaration ? node.declaration.start : node.end, '');
        if (node.type === 'ExportDefaultDeclaration')
            put(node.start, declaration.start, '');
    }
    const last = tree.body[tree.body.length - 1];
    return { source: out, shows: !!last && last.type === 'ExpressionStatement' };
}

// ---- running --------------------------------------------------------------

let stop = null; // ends the wait for a cell: (error)
let held = 0;    // timers and the like that earlier cells left behind

class Interrupt extends Error {
    constructor() {
        super('the execution was interrupted');
        this.name = 'Interrupt';
        this.stack = 'Interrupt: the execution was interrupted';
    }
}

function onStop(error) {
    if (stop) stop(error);
}
process.on('SIGINT', () => onStop(new Interrupt()));
process.on('uncaughtException', onStop);
process.on('unhandledRejection', onStop);

function resources() {
    return process.getActiveResourcesInfo
        ? process.getActiveResourcesInfo().filter((kind) => !/TTY|^PipeWrap$|SignalWrap/.test(kind)).length : 0;
}

// Time for what the code began and did not await.
async function drain() {
    const until = Date.now() + DRAIN_MS;
    do {
        await new Promise((done) => setImmediate(done));
        if (resources() <= held) break;
        await new Promise((done) => setTimeout(done, DRAIN_STEP_MS));
    } while (Date.now() < until);
    held = resources();
}

function evaluate(source, name) {
    const options = { filename: name, breakOnSigint: true,
        importModuleDynamically: vm.constants ? vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER : undefined };
    try {
        return vm.runInThisContext(source, options);
    } catch (e) {
        throw e && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupt() : e;
    }
}

async function runCell(source, name) {
    const cell = acorn ? toScript(source) : { source, shows: true };
    const awaiting = processTopLevelAwait && /\bawait\b/.test(cell.source)
        ? processTopLevelAwait(cell.source + '\n') : null; // it may end in a comment
    let value = evaluate(awaiting ?? cell.source, name);
    if (awaiting !== null) {
        value = await value;
        value = value && value.value;
    }
    if (cell.shows && util.types.isPromise(value)) value = await value;
    return cell.shows ? value : undefined;
}

function showValue(value) {
    if (value === undefined) return;
    globalThis._ = value;
    send(RESULT, pairs([['text/plain', describe(value)]]));
}

let number = 0;

async function serve(source) {
    let error = null;
    running = true;
    lastStream = 0;
    number++;
    try {
        const stopped = new Promise((_, reject) => { stop = reject; });
        const work = runCell(source, `cell[${number}]`);
        work.catch(() => {}); // one of the two is waited for
        stopped.catch(() => {});
        const value = await Promise.race([work, stopped]);
        await Promise.race([drain(), stopped]);
        showValue(value);
    } catch (e) {
        error = e;
        held = resources();
    }
    stop = null;
    running = false;
    if (error instanceof Exit && error.code === 0) error = null;
    if (error !== null) sendError(error);
    const done = Buffer.alloc(8);
    done.writeUInt32LE(error === null ? 0 : 1, 0);
    send(DONE, done);
}

function setEnvironment(text) {
    for (const line of text.split('\n')) {
        const at = line.indexOf('=');
        if (at > 0) process.env[line.slice(0, at)] = line.slice(at + 1);
        else if (line) delete process.env[line];
    }
}

async function main() {
    fs.closeSync(4);
    Object.defineProperty(globalThis, 'require', { value: createRequire('/mnt/data/'), writable: true,
        configurable: true });
    globalThis.display = display;
    process.argv.length = 1;
    process.execArgv.length = 0;
    process.exit = (code) => { throw new Exit(Number(code ?? process.exitCode ?? 0) & 255); };
    send(READY);
    for (;;) {
        const [kind, payload] = receive();
        if (kind === EXECUTE) await serve(payload.toString('utf8'));
        else if (kind === ENVIRONMENT) setEnvironment(payload.toString('utf8'));
    }
}

main().catch((e) => {
    fs.writeSync(2, `the JavaScript interpreter cannot go on: ${e && e.stack}\n`);
    leave(70);
});
})
