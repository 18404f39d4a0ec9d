// SPDX-License-Identifier: Apache-2.0
// The official MCP clients, made to look alike: connect() gives the same few
// calls whichever generation, era and transport is underneath. What a client
// checks by itself (schemas of messages, structuredContent against a tool's
// outputSchema) it checks here, too.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bin, root } from './glovebox.mjs';

const folder = (name) => createRequire(pathToFileURL(join(root, 'tests/clients', name, 'package.json')));
const load = (name, module) => import(pathToFileURL(folder(name).resolve(module)));

const info = { name: 'glovebox-tests', version: '1' };
export const MODERN = '2026-07-28';

// generation: 1 or 2; era: 'legacy', 'modern' or 'auto'; transport: 'http'
// or 'stdio'; server: a Glovebox; env: of the child, for stdio.
export async function connect({ generation, era, transport, server, env, tools = 'all' }) {
  const url = server && new URL(`${server.url}/mcp${tools === 'core' ? '' : `?tools=${tools}`}`);
  const requestInit = { headers: { authorization: `Bearer ${server?.key}` } };
  const child = { command: bin('glovebox'), args: ['mcp', '--tools', tools], env, stderr: 'pipe' };
  return generation === 1 ? first({ transport, url, requestInit, child }) : second({ era, transport, url, requestInit, child });
}

async function first({ transport, url, requestInit, child }) {
  const { Client } = await load('mcp-v1', '@modelcontextprotocol/sdk/client/index.js');
  const types = await load('mcp-v1', '@modelcontextprotocol/sdk/types.js');
  const { StreamableHTTPClientTransport } = await load('mcp-v1', '@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { StdioClientTransport } = await load('mcp-v1', '@modelcontextprotocol/sdk/client/stdio.js');
  const client = new Client(info, { capabilities: {} });
  const wire = transport === 'http' ? new StreamableHTTPClientTransport(url, { requestInit }) : new StdioClientTransport(child);
  await client.connect(wire);
  return {
    client, wire, era: 'legacy',
    call: (params, options) => client.callTool(params, undefined, options),
    onUpdated: (fn) => client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => fn(params.uri)),
    watch: async (uri) => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    close: async () => {
      if (transport === 'http') await wire.terminateSession();
      await client.close();
    },
  };
}

async function second({ era, transport, url, requestInit, child }) {
  const { Client, StreamableHTTPClientTransport } = await load('mcp-v2', '@modelcontextprotocol/client');
  const { StdioClientTransport } = await load('mcp-v2', '@modelcontextprotocol/client/stdio');
  const mode = { legacy: 'legacy', auto: 'auto', modern: { pin: MODERN } }[era];
  const client = new Client(info, { capabilities: {}, versionNegotiation: { mode } });
  const wire = transport === 'http' ? new StreamableHTTPClientTransport(url, { requestInit }) : new StdioClientTransport(child);
  await client.connect(wire);
  const modern = client.getProtocolEra() === 'modern';
  return {
    client, wire, era: client.getProtocolEra(),
    call: (params, options) => client.callTool(params, options),
    onUpdated: (fn) => client.setNotificationHandler('notifications/resources/updated', ({ params }) => fn(params.uri)),
    watch: async (uri) => {
      if (modern) {
        const subscription = await client.listen({ resourceSubscriptions: [uri] });
        return () => subscription.close();
      }
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    close: async () => {
      if (transport === 'http' && !modern) await wire.terminateSession();
      await client.close();
    },
  };
}
