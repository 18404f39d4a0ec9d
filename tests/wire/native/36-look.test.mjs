// SPDX-License-Identifier: Apache-2.0
// Completion, inspection and variables: what the interpreter knows, asked
// between two executions, without running code of the user.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Stream, refused, request, stop } from '../../lib/wire.mjs';

let server;
let s;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  s = await server.session();
});
after(() => stop(server));

const ask = (what, code, cursor, session = s) => request(server, 'POST', `${session.path}/${what}`, { body: { code, cursor } });
const complete = async (code, cursor) => {
  const { status, body } = await ask('complete', code, cursor);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
};
const names = async (code, cursor) => (await complete(code, cursor)).matches;

test('names of the session, of Python, of modules and of objects', async () => {
  await s.python(`import math, collections
apple_count = 3
class Basket:
    """Holds fruit."""
    size = 1
    def add(self, fruit, n=1):
        """Adds fruit."""
    def __init__(self): self.content = []
basket = Basket()`);
  assert.deepEqual(await complete('x = apple_c'), { matches: ['apple_count'], start: 4, end: 11, truncated: false });
  assert.deepEqual(await names('prin'), ['print']);
  assert.deepEqual(await names('whi'), ['while']);
  assert.deepEqual(await names('math.sq'), ['sqrt']);
  assert.deepEqual(await names('basket.'), ['add', 'content', 'size']);
  assert.deepEqual(await names('Basket.a'), ['add']);
  assert.deepEqual(await names('basket.content.app'), ['append']);
  assert.deepEqual(await names('from math import pi, sqr'), ['sqrt']);
  assert.ok((await names('import js')).includes('json'));
  assert.deepEqual(await names('é = 1\nmath.sq + 1', 13), ['sqrt']);
  assert.deepEqual(await names('nothing.x'), []);
  assert.deepEqual(await names('f().x'), []);
  assert.deepEqual(await names(''), []);
});

test('what an object is', async () => {
  const inspect = async (code, cursor) => (await ask('inspect', code, cursor)).body;
  const add = await inspect('basket.add(', 9);
  assert.equal(add.name, 'basket.add');
  assert.equal(add.signature, 'add(self, fruit, n=1)');
  assert.equal(add.doc, 'Adds fruit.');
  assert.deepEqual(await inspect('apple_count'), { found: true, name: 'apple_count', type: 'int', text: '3', doc: (await inspect('int')).doc });
  assert.match((await inspect('math.sqrt')).signature, /^sqrt\(x, \//);
  assert.deepEqual(await inspect('no.such'), { found: false });
});

test('the variables, with types, shapes and short texts', async () => {
  const numpy = (await s.python('import numpy as np; a = np.zeros((3, 4))')).outcome === 'ok';
  await s.python(`text = "x" * 1000; items = list(range(100)); pair = (1, "b"); _hidden = 1
def work(): pass`);
  const { body } = await request(server, 'GET', `${s.path}/variables`);
  const by = Object.fromEntries(body.data.map((v) => [v.name, v]));
  assert.equal(body.has_more, false);
  if (numpy) assert.deepEqual(by.a, { name: 'a', type: 'numpy.ndarray', text: '', shape: [3, 4], dtype: 'float64' });
  assert.equal(by.text.size, 1000);
  assert.ok(by.text.text.length < 130);
  assert.deepEqual(by.items, { name: 'items', type: 'list', text: '[0, 1, 2, 3, 4, 5, …]', size: 100 });
  assert.equal(by.pair.text, "(1, 'b')");
  assert.equal(by.work.text, 'function work');
  assert.equal(by.basket.type, '__main__.Basket');
  assert.ok(!('_hidden' in by) && !('print' in by));
});

test('no code of the user runs', async () => {
  await s.python(`ran = []
class Trap:
    __dict__ = property(lambda self: ran.append("dict"))
    value = property(lambda self: ran.append("property"))
    def __getattr__(self, name): ran.append("getattr " + name)
    def __getattribute__(self, name): ran.append("getattribute " + name); return object.__getattribute__(self, name)
    def __dir__(self): ran.append("dir"); return []
    def __repr__(self): ran.append("repr"); return ""
    def __len__(self): ran.append("len"); return 1
    def __eq__(self, other): ran.append("eq")
    __hash__ = None
class Meta(type):
    def __getattribute__(cls, name): ran.append("meta " + name); return type.__getattribute__(cls, name)
class Other(metaclass=Meta):
    def f(self): pass
trap = Trap(); other = Other(); nested = [trap, {"t": trap}]; ran.clear()`);
  for (const code of ['trap.', 'trap.value.', 'Other.', 'other.f', 'nested.']) {
    assert.equal((await ask('complete', code)).status, 200);
    assert.equal((await ask('inspect', code)).status, 200);
  }
  assert.equal((await request(server, 'GET', `${s.path}/variables`)).status, 200);
  assert.equal((await s.python('ran')).result['text/plain'], '[]');
});

test('not while something runs; limits on code and cursor', async () => {
  const other = await server.session();
  const stream = await Stream.open(server, 'POST', `${other.path}/executions`, { body: { code: 'import time; time.sleep(2)', mode: 'stream' } });
  await stream.find((e) => e.data.status === 'running');
  refused(await ask('complete', 'x', 1, other), 409, 'conflict', /running/);
  refused(await request(server, 'GET', `${other.path}/variables`), 409, 'conflict');
  await stream.done();
  assert.equal((await ask('complete', 'x', 1, other)).status, 200);
  assert.equal((await ask('complete', 'x'.repeat(65_536))).status, 200);
  refused(await ask('complete', 'x'.repeat(65_537)), 400, 'invalid_request');
  refused(await ask('complete', 'abc', 4), 400, 'invalid_request', /cursor/);
  refused(await ask('complete', 'abc', -1), 400, 'invalid_request');
  await other.delete();
});

test('a session without an interpreter has nothing to show, and is not woken', async () => {
  const other = await server.session();
  const { status, body } = await request(server, 'GET', `${other.path}/variables`);
  assert.equal(status, 200);
  assert.ok(!body.data?.length);
  await other.delete();
});

test('what a thread displays meanwhile is shown by the next execution', async () => {
  const other = await server.session();
  await other.python(`import threading, time
from IPython.display import display
def show():
    time.sleep(.3)
    display("late")
threading.Thread(target=show).start(); here = 1`);
  await new Promise((r) => setTimeout(r, 600));
  assert.deepEqual((await ask('complete', 'her', 3, other)).body.matches, ['here']);
  const e = await other.python('here');
  assert.equal(e.result['text/plain'], '1');
  assert.match(JSON.stringify(e.displays), /late/);
  await other.delete();
});
