// SPDX-License-Identifier: Apache-2.0
// A browser as the service sees one: a cookie, the header of the console's own
// page, and the headers that browsers add by themselves.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { build, Glovebox } from './glovebox.mjs';
import { request, Stream } from './wire.mjs';

// The daemon with the pages of tests/console/dist.
export const start = (config = {}, more = {}) =>
  Glovebox.start({ config, program: join(build, 'tests/gloveboxd-console'), ...more });

export class Browser {
  constructor(server, { origin = server.url } = {}) {
    this.server = server;
    this.origin = origin;
    this.cookie = null;
  }

  // What the console's page sends; a GET has no Origin.
  headers(method) {
    return { 'x-glovebox-console': '1', 'sec-fetch-site': 'same-origin',
      ...(method === 'GET' ? {} : { origin: this.origin }), ...(this.cookie ? { cookie: this.cookie } : {}) };
  }

  // headers: instead of or besides those; null leaves one out.
  async call(method, path, body, { headers = {}, key = null } = {}) {
    const all = Object.fromEntries(Object.entries({ ...this.headers(method), ...headers }).filter(([, value]) => value !== null));
    const answer = await request(this.server, method, path, { body, headers: all, key });
    for (const line of answer.headers['set-cookie'] ?? []) {
      const [pair, ...attributes] = line.split('; ');
      this.attributes = attributes;
      this.cookie = attributes.includes('Max-Age=0') ? null : pair;
    }
    return answer;
  }

  async login(key = this.server.key) {
    const answer = await this.call('POST', '/api/console/login', { key });
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  stream(path, headers = {}) { return Stream.open(this.server, 'GET', path, { key: null, headers: { ...this.headers('GET'), ...headers } }); }
}
