// SPDX-License-Identifier: Apache-2.0
// What tests of /responses share: asking, following a stream, and the rules
// that every stream holds to.
import assert from 'node:assert/strict';
import { Stream } from './wire.mjs';

export const CODE = { type: 'code_interpreter', container: { type: 'auto' } };
export const OUTPUTS = ['code_interpreter_call.outputs'];
export const LAST = /^response\.(completed|failed|incomplete)$/;

export const text = (response) => response.output.filter((i) => i.type === 'message').at(-1)?.content[0].text;
export const logs = (item) => item.outputs.filter((o) => o.type === 'logs').map((o) => o.logs).join('');
export const cited = (response) => response.output.at(-1).content[0].annotations;

export async function stream(g, body, { path = '/v1/responses', method = 'POST' } = {}) {
  const s = await Stream.open(g, method, path, method === 'POST' ? { body: { model: 'echo', stream: true, ...body } } : {});
  assert.equal(s.status, 200);
  return s;
}
export const finished = async (s) => {
  await s.find((e) => LAST.test(e.event), 60_000);
  await s.ended;
  return s.events.map((e) => e.data);
};

// Returns the response of the last event.
export function checkOrder(events) {
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i), 'numbers without gaps');
  assert.equal(events[0].type, 'response.created');
  assert.equal(events.filter((e) => LAST.test(e.type)).length, 1, 'one last event');
  const open = new Map();
  let next = 0;
  for (const e of events) {
    if (e.type === 'response.output_item.added') {
      assert.equal(e.output_index, next++, 'an index for each item');
      assert.equal(open.size, 0, 'an item is complete before the next is added');
      open.set(e.output_index, e.item.id);
    } else if (e.output_index !== undefined) {
      assert.equal(open.get(e.output_index), e.item_id ?? e.item.id);
      if (e.type === 'response.output_item.done') open.delete(e.output_index);
    }
  }
  const last = events.at(-1).response;
  assert.deepEqual(events.filter((e) => e.type === 'response.output_item.done').map((e) => e.item), last.output);
  return last;
}
