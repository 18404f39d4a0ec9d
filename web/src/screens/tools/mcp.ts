// SPDX-License-Identifier: Apache-2.0
// A small client of the MCP door. It signs in with a token of ten minutes that
// is minted for this and kept in memory alone.
import { api } from '../../api/client';
import { eventParser } from '../../api/sse';

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
}
export interface Tool { name: string; title?: string; description?: string; inputSchema: Schema }
export type Block = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string } | { type: 'resource_link'; uri: string; name: string; mimeType?: string } | { type: string };
export interface Result { content: Block[]; structuredContent?: Record<string, unknown>; isError?: boolean }

const REVISION = '2025-06-18';
const TOKEN_S = 600;

export class Mcp {
  private token: string | null = null;
  private until = 0;
  private session: string | null = null;
  private id = 0;

  private async ready(scopes: string[]): Promise<void> {
    if (this.token && Date.now() < this.until) return;
    const made = await api.post<{ secret: string }>('/api/tokens', { ttl_s: TOKEN_S, scopes, name: 'console: tools' });
    this.token = made.secret;
    this.until = Date.now() + (TOKEN_S - 60) * 1000;
    this.session = null;
    await this.send('initialize', { protocolVersion: REVISION, capabilities: {}, clientInfo: { name: 'glovebox-console', version: '1' } });
    await this.send('notifications/initialized', undefined, true);
  }

  private async send<T>(method: string, params?: unknown, note = false, signal?: AbortSignal, onProgress?: (text: string) => void): Promise<T> {
    const response = await fetch('/mcp', {
      method: 'POST',
      credentials: 'omit',
      signal,
      headers: { Authorization: `Bearer ${this.token}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': REVISION, ...(this.session ? { 'Mcp-Session-Id': this.session } : {}) },
      body: JSON.stringify({ jsonrpc: '2.0', ...(note ? {} : { id: ++this.id }), method, ...(params === undefined ? {} : { params }) }),
    });
    this.session ??= response.headers.get('Mcp-Session-Id');
    if (note) return undefined as T;
    type Message = { id?: number; result?: T; error?: { message: string }; method?: string; params?: { message?: string } };
    let answer: Message | null = null;
    const take = (message: Message) => {
      if (message.id === this.id && (message.result !== undefined || message.error)) answer = message;
      else if (message.method === 'notifications/progress' && message.params?.message) onProgress?.(message.params.message);
    };
    if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      const parse = eventParser((event) => take(JSON.parse(event.data) as Message));
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        parse(value);
      }
    } else {
      take(await response.json() as Message);
    }
    const got = answer as Message | null;
    if (!got) throw new Error('The service ended the answer early.');
    if (got.error) throw new Error(got.error.message);
    return got.result as T;
  }

  async tools(scopes: string[]): Promise<Tool[]> {
    await this.ready(scopes);
    return (await this.send<{ tools: Tool[] }>('tools/list', {})).tools;
  }

  async call(scopes: string[], name: string, args: Record<string, unknown>, signal: AbortSignal, onProgress: (text: string) => void): Promise<Result> {
    await this.ready(scopes);
    return this.send<Result>('tools/call', { name, arguments: args, _meta: { progressToken: `p${this.id}` } }, false, signal, onProgress);
  }
}
