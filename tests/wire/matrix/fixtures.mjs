// SPDX-License-Identifier: Apache-2.0
// What the authorization matrix needs to know of a route beyond its row in
// the product's own table: which thing the braces of its pattern name, and a
// request that would do something. A pattern with braces nobody names here
// fails the matrix, so that no route can be added without a place in it.
import { requests } from '../../lib/azure.mjs';
import { form, unknownId } from '../../lib/workspace.mjs';

// Ids that name nothing.
export const unknown = {
  session: unknownId('sess'), execution: unknownId('exec'), container: `cntr_${'0'.repeat(48)}`, identifier: 'nobody-has-this-one',
  azexec: '00000000-0000-0000-0000-000000000000', ws: unknownId('ws'), file: unknownId('file'), version: unknownId('ver'), share: unknownId('share'),
  lock: unknownId('lock'), offer: unknownId('xfer'), upload: unknownId('up'), libfile: 'file-0000000000000000000000', libupload: `upload_${'0'.repeat(32)}`,
  confile: `cfile_${'0'.repeat(32)}`, pool: 'nosuch', key: unknownId('key'), token: unknownId('tok'), approval: unknownId('apr'), runtime: 'nosuch', agent: 'no-such-agent',
};

// Which bound tokens of the same tenant have each kind of thing out of their
// bounds: a token for another session, another workspace, another pool.
const SESSION = ['session', 'workspace', 'pool'];
const FILES = ['session', 'workspace'];
export const outside = {
  session: SESSION, execution: SESSION, container: SESSION, identifier: SESSION, azexec: SESSION,
  ws: FILES, file: FILES, version: FILES, share: FILES, lock: FILES, offer: FILES, upload: FILES, libfile: FILES, libupload: FILES, confile: FILES,
  pool: ['pool'], token: SESSION, key: SESSION, approval: SESSION, runtime: [], agent: SESSION,
};

// The kind of thing a name in braces stands for: by the beginning of the
// pattern where the name alone does not say. A kind, or [a fixed value].
const kinds = {
  native: [
    ['/api/sessions/{id}', 'id', 'session'], ['/api/executions/{id}', 'id', 'execution'], ['/api/uploads/{id}', 'id', 'upload'],
    ['/api/keys/{id}', 'id', 'key'], ['/api/approvals/{id}', 'id', 'approval'], ['/api/tokens/{id}', 'id', 'token'], ['/api/pools/{name}', 'name', 'pool'], ['/api/runtimes/{name}', 'name', 'runtime'],
    ['', 'ws', 'ws'], ['', 'file', 'file'], ['', 'version', 'version'], ['', 'share', 'share'], ['', 'lock', 'lock'], ['', 'offer', 'offer'],
    ['/api/quotas/{tenant}', 'tenant', ['nosuch']], ['/api/secrets/{name}', 'name', ['matrix-secret']], ['/api/models/{name}', 'name', ['matrix-model']],
    ['/api/agents/{name}', 'name', 'agent'], ['/api/workspaces/{ws}/tools', 'name', ['matrix_tool']], ['/api/nodes/{node}', 'node', ['none']],
    ['', 'path', ['file']], ['', 'principal', ['*']], ['', 'number', ['1']], ['', 'conversation', ['none']],
  ],
  openai: [
    ['/containers', 'container', 'container'], ['/containers', 'file', 'confile'], ['/files', 'file', 'libfile'], ['/uploads', 'upload', 'libupload'], ['/models', 'model', ['matrix-model']],
    // A conversation and a stored completion are one key's: tests/wire/openai/60 and 61 have strangers ask for them.
    ['/conversations', 'conversation', ['none']], ['/conversations', 'item', ['none']], ['/chat/completions', 'completion', ['none']], ['/deployments', 'model', ['echo']],
    // A response is one key's: tests/wire/openai/60-responses has a stranger ask for it.
    ['/responses', 'response', ['none']],
  ],
  foundry: [['/agents', 'name', 'agent'], ['/agents', 'version', ['1']], ['/deployments', 'name', ['echo']], ['/connections', 'name', ['none']]],
  azure: [['/executions', 'id', 'azexec'], ['/files', 'name', ['file']]],
};

export function kindOf({ door, method, pattern }, name) {
  const row = kinds[door]?.find(([start, named]) => named === name && pattern.startsWith(start));
  if (!row) throw new Error(`${door} ${method} ${pattern}: tests/wire/matrix/fixtures.mjs does not say what {${name}} is`);
  return row[2];
}

let names = 0;
const newName = () => `matrix-${++names}`;
const definition = { kind: 'prompt', model: 'echo' };
const json = (body) => ({ body });
const azureRun = { codeInputType: 'Inline', executionType: 'Synchronous', code: '1' };
const azureForm = () => { const made = requests([{ filename: 'f', bytes: 'x' }]); return { body: made.body, headers: { 'content-type': made.type } }; };
const upload = () => form([{ filename: 'f', body: 'x' }]);

// Requests that are more than a path. ids: kinds it names outside of the path;
// query, body, headers: what is sent; creates: an unknown name is made by it;
// own: what its owner gets for the known one, where that is not success;
// reads: it changes nothing, whatever its method; endless: the beginning of
// its answer is enough.
export const requestsOf = {
  'native POST /api/sessions': { ids: ['ws'], send: (t) => json({ workspace: t.ws }) },
  'native POST /api/run': { ids: ['ws'], send: (t) => json({ code: '1', workspace: t.ws }) },
  'native PATCH /api/sessions/{id}': { send: () => json({ sharing: 'tenant' }) },
  'native POST /api/sessions/{id}/executions': { send: () => json({ code: '1' }) },
  'native POST /api/sessions/{id}/complete': { send: () => json({ code: 'pri' }), reads: true },
  'native POST /api/sessions/{id}/inspect': { send: () => json({ code: 'print' }), reads: true },
  'native POST /api/executions/{id}/input': { send: () => json({ text: '' }), own: [409] },
  'native PUT /api/sessions/{id}/files/{path...}': { send: () => json('bytes') },
  'native POST /api/workspaces/claim': { send: () => json({ token: 'none' }), own: [404] },
  'native POST /api/workspaces': { send: () => json({}) },
  'native PATCH /api/workspaces/{ws}': { send: () => json({ name: 'x' }) },
  'native POST /api/workspaces/{ws}/undelete': { own: [404] },
  'native POST /api/workspaces/{ws}/purge': { send: () => json({ path: 'gone' }) },
  'native PUT /api/workspaces/{ws}/members/{principal}': { send: () => json({ role: 'viewer' }) },
  'native POST /api/workspaces/{ws}/transfer': { send: (t) => json({ to: t.taker }) },
  // No bucket is configured here: tests/wire/s3/20-mirror has one.
  'native GET /api/workspaces/{ws}/mirror': { own: [404] },
  'native PUT /api/workspaces/{ws}/mirror': { send: () => json({ destination: 's3://none/x' }), own: [403] },
  'native DELETE /api/workspaces/{ws}/mirror': { own: [404] },
  'native POST /api/workspaces/{ws}/attach': { send: () => json({ source: 's3://none/x' }), own: [403] },
  'native POST /api/workspaces/{ws}/files': { send: upload },
  'native PUT /api/workspaces/{ws}/files/{path...}': { send: () => json('bytes') },
  'native POST /api/workspaces/{ws}/move': { send: () => json({ from: 'file', to: 'other' }) },
  'native POST /api/workspaces/{ws}/copy': { send: () => json({ from: 'file', to: 'other' }) },
  'native POST /api/workspaces/{ws}/uploads': { send: () => json({ path: 'up' }) },
  'native PUT /api/uploads/{id}/parts/{number}': { send: () => json('bytes') },
  'native POST /api/uploads/{id}/complete': { own: [400, 409] },
  'native GET /api/workspaces/{ws}/diff': { query: () => '?path=file' },
  'native POST /api/workspaces/{ws}/restore': { send: (t) => json({ version: t.version }) },
  'native GET /api/conversations/{conversation}': { own: [404] },
  'native PATCH /api/conversations/{conversation}': { send: () => json({ title: 'x' }), own: [404] },
  'native DELETE /api/conversations/{conversation}': { own: [404] },
  'native GET /api/conversations/{conversation}/items': { own: [404] },
  'native GET /api/conversations/{conversation}/export': { own: [404] },
  'native POST /api/workspaces/{ws}/locks': { send: () => json({ path: 'new' }) },
  'native POST /api/workspaces/{ws}/locks/{lock}/renew': { send: (t) => json({ token: t.lockToken }) },
  'native DELETE /api/workspaces/{ws}/locks/{lock}': { query: () => '?force=true' },
  'native POST /api/shares': { ids: ['ws'], send: (t) => json({ workspace: t.ws, path: 'file' }) },
  'native GET /api/shares': { ids: ['ws'], query: (t) => `?workspace=${t.ws}` },
  'native GET /api/search': { ids: ['ws'], query: (t) => `?q=x&workspace=${t.ws}` },
  // No workspace of the matrix has intelligence.
  'native POST /api/ask': { ids: ['ws'], reads: true, send: (t) => json({ question: 'x', model: 'echo', workspace: t.ws }), own: [409] },
  'native GET /api/search/status': { ids: ['ws'], query: (t) => `?workspace=${t.ws}` },
  'native POST /api/pools': { send: () => json({ name: 'matrix-made', ready_wanted: 0 }) },
  'native PATCH /api/pools/{name}': { send: () => json({ cooldown_s: 60 }) },
  'native POST /api/keys': { send: () => json({ scopes: ['execute'] }) },
  'native POST /api/tokens': { ids: ['session'], send: (t) => json({ ttl_s: 60, session: t.session }) },
  // Whoever has a credential may sign a browser in with it.
  'native POST /api/console/links': { reads: true },
  'native POST /api/files/{file}/table': { reads: true, own: [400] },
  // The scorecard is the operators'.
  'native POST /api/scorecard': { own: [403] },
  'native GET /api/scorecard': { own: [403] },
  'native POST /api/console/logout': { own: [409] },
  'native GET /api/events': { endless: true },
  // What concerns the stored data of all tenants is the operators'.
  'native POST /api/collect': { own: [403] },
  'native POST /api/verify': { own: [403] },
  'native POST /api/backup': { send: () => json({ path: '/nowhere/at/all' }), own: [403] },
  'native POST /api/backups': { own: [403] },
  'native GET /api/backups/schedule': { own: [403] },
  'native PUT /api/backups/schedule': { send: () => json({ every_s: 0 }), own: [403] },

  'native POST /api/sessions/{id}/hibernate': { own: [409] }, // pools of tests do not
  'native POST /api/sessions/{id}/undo': { own: [409] },
  'native POST /api/sessions/{id}/redo': { own: [409] },
  'native POST /api/sessions/{id}/merge': { own: [409] },
  'native PUT /api/sessions/{id}/network': { send: () => json({ mode: 'none' }) },
  'native GET /api/secrets/{name}': { own: [404] },
  'native PUT /api/secrets/{name}': { send: () => json({ value: 'x', destinations: ['api.example.org'] }) },
  // Nodes serve all tenants, so they are the operators'.
  'native GET /api/nodes': { own: [403] },
  'native GET /api/nodes/{node}': { own: [403] },
  'native POST /api/nodes/{node}/drain': { own: [403] },
  'native POST /api/nodes/{node}/activate': { own: [403] },
  'native GET /api/models/{name}': { own: [404] },
  'native DELETE /api/models/{name}': { own: [404] },
  'native POST /api/models/{name}/test': { own: [404] },
  'native POST /api/models': { send: () => json({ name: 'matrix-model-2', kind: 'openai-chat', url: 'https://api.example.org/v1' }) },
  'openai GET /models/{model}': { own: [404] },
  // Other tenants' quotas, and the service's own posture, are the operators'.
  'native GET /api/quotas/{tenant}': { own: [403] },
  'native PUT /api/quotas/{tenant}': { send: () => json({ executions: 1 }), own: [403] },
  'native GET /api/posture': { own: [403] },
  'native POST /api/approvals/{id}/deny': { send: () => json({ reason: 'no' }) },
  // The policy is the operators': the tenant of this test may look at what concerns it.
  'native PUT /api/policy': { send: () => json({ text: 'version: 1' }), own: [403] },
  'native GET /api/policy/versions': { own: [403] },
  'native GET /api/policy/versions/{number}': { own: [403] },
  'native POST /api/policy/check': { send: () => json({ text: 'version: 1' }) },
  'native POST /api/policy/test': { send: () => json({ cases: 'cases: [{request: {action: execute}, expect: {verdict: allow}}]', text: 'version: 1' }) },
  'native PATCH /api/keys/{id}': { send: () => json({ name: 'x' }) },
  'native POST /api/policy/explain': { send: () => json({ request: { action: 'execute' } }) },
  'native POST /api/policy/reload': { own: [403] },

  'native POST /api/agents': { send: () => json({ name: newName(), definition: { model: 'echo' } }) },
  'native PATCH /api/agents/{name}': { send: () => json({ enabled: true }) },
  'native POST /api/agents/{name}/versions': { send: () => json({ definition: { model: 'echo', instructions: newName() } }) },
  'native POST /api/workspaces/{ws}/tools': { send: () => json({ name: 'another', code: '1' }) },
  'native POST /api/workspaces/{ws}/tools/{name}/run': { send: () => json({}) },

  'foundry POST /agents': { send: () => json({ name: newName(), definition }) },
  'foundry POST /agents/{name}': { send: () => json({ definition: { ...definition, instructions: newName() } }) },
  'foundry PATCH /agents/{name}': { send: () => json({ agent_card: { description: 'd' } }) },
  'foundry POST /agents/{name}/versions': { send: () => json({ definition: { ...definition, instructions: newName() } }), creates: true },
  'foundry GET /connections/{name}': { own: [404] },
  'foundry POST /connections/{name}/getConnectionWithCredentials': { own: [404], reads: true },

  'openai POST /containers': { ids: ['libfile'], send: (t) => json({ name: 'c', file_ids: [t.libfile] }) },
  'openai POST /containers/{container}/files': { send: upload },
  'openai POST /files': { send: () => form([{ name: 'purpose', body: 'user_data' }, { name: 'file', filename: 'f', body: 'x' }]), noids: true },
  'openai POST /uploads': { send: () => json({ filename: 'f', purpose: 'user_data', bytes: 1, mime_type: 'text/plain' }) },
  'openai POST /uploads/{upload}/parts': { send: () => form([{ name: 'data', filename: 'f', body: 'x' }]) },
  'openai POST /uploads/{upload}/complete': { send: () => json({ part_ids: [] }), own: [400] },
  'openai POST /responses': { send: () => json({ model: 'echo', input: 'x' }), reads: true },
  'openai POST /responses/input_tokens': { send: () => json({ model: 'echo', input: 'x' }), reads: true },
  'openai POST /responses/compact': { send: () => json({ model: 'echo', input: 'x' }), reads: true },
  'openai GET /responses/{response}': { own: [404] },
  'openai DELETE /responses/{response}': { own: [404] },
  'openai POST /responses/{response}/cancel': { own: [404] },
  'openai GET /responses/{response}/input_items': { own: [404] },

  'openai GET /conversations/{conversation}': { own: [404] },
  'openai POST /conversations/{conversation}': { send: () => json({ metadata: {} }), own: [404] },
  'openai DELETE /conversations/{conversation}': { own: [404] },
  'openai POST /conversations/{conversation}/items': { send: () => json({ items: [] }), own: [404] },
  'openai GET /conversations/{conversation}/items': { own: [404] },
  'openai GET /conversations/{conversation}/items/{item}': { own: [404] },
  'openai DELETE /conversations/{conversation}/items/{item}': { own: [404] },
  'openai POST /chat/completions': { send: () => json({ model: 'echo', messages: [{ role: 'user', content: 'x' }] }), reads: true },
  'openai POST /deployments/{model}/chat/completions': { send: () => json({ messages: [{ role: 'user', content: 'x' }] }), reads: true },
  'openai GET /chat/completions/{completion}': { own: [404] },
  'openai POST /chat/completions/{completion}': { send: () => json({ metadata: {} }), own: [404] },
  'openai DELETE /chat/completions/{completion}': { own: [404] },
  'openai GET /chat/completions/{completion}/messages': { own: [404] },

  'azure POST /python/execute': { send: (t) => json({ properties: { identifier: t.identifier, codeInputType: 'inline', executionType: 'synchronous', pythonCode: '1' } }), creates: true },
  'azure POST /python/uploadFile': { send: azureForm, creates: true, version: '2024-02-02-preview' },
  'azure GET /python/files': { creates: true, version: '2024-02-02-preview' },
  'azure GET /python/downloadFile': { query: () => '&filename=file', creates: true, version: '2024-02-02-preview' },
  'azure POST /code/execute': { send: () => json({ properties: { codeInputType: 'inline', executionType: 'synchronous', code: '1' } }), creates: true, version: '2024-02-02-preview' },
  'azure POST /executions': { send: () => json(azureRun), creates: true },
  'azure GET /files': { creates: true },
  'azure POST /files': { send: azureForm, creates: true },
  'azure POST /files/upload': { send: azureForm, creates: true, version: '2024-02-02-preview' },
  'azure GET /files/{name...}': { creates: true },
  'azure DELETE /files/{name...}': { creates: true },
  'azure GET /metadata': { creates: true },
  'azure POST /.management/listSessions': { reads: true },
  'azure GET /session': { creates: true },
  'azure DELETE /session': { creates: true },
};

// The tools of MCP: arguments that name a session (or a workspace) of ours;
// null: a list, which must hold nothing of others.
const session = (t) => ({ session_id: t.container });
export const tools = {
  execute_python: (t) => ({ code: '1', ...session(t) }),
  run_code: (t) => ({ language: 'bash', code: 'true', ...session(t) }),
  run_shell: (t) => ({ command: 'true', ...session(t) }),
  generate_pdf_report: (t) => ({ markdown: '# x', path: 'x.pdf', ...session(t) }),
  read_file: (t) => ({ path: 'file', ...session(t) }),
  search_files: (t) => ({ pattern: 'x', ...session(t) }),
  list_files: session,
  download_file: (t) => ({ path: 'file', ...session(t) }),
  upload_file: (t) => ({ path: 'f', text: 'x', ...session(t) }),
  reset_session: session,
  interrupt: session,
  list_sessions: null,
  refresh_session: session,
  hibernate_session: session,
  undo: session,
  branch_session: session,
  merge_branch: session,
  share_session: session,
  list_workspaces: null,
  create_workspace: (t) => ({ name: 'x', workspace: t.ws }),
  search_workspace: (t) => ({ query: 'x', workspace: t.ws }),
  file_history: (t) => ({ path: 'file', workspace: t.ws }),
  restore_version: (t) => ({ path: 'file', version: t.version, workspace: t.ws }),
  lock_file: (t) => ({ path: 'new', workspace: t.ws }),
  unlock_file: (t) => ({ path: 'locked', token: t.lockToken, workspace: t.ws }),
  share_file: (t) => ({ path: 'file', workspace: t.ws }),
  upload_link: (t) => ({ path: 'f', workspace: t.ws }),
  transfer_workspace: (t) => ({ workspace: t.ws, offer: true }),
  conversation_files: null,
  check_approval: (t) => ({ approval_id: t.approval }),
  decide_approval: (t) => ({ approval_id: t.approval, decision: 'deny', reason: 'no' }),
  end_session: session, // the last: it is gone then
};
