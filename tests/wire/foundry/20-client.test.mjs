// SPDX-License-Identifier: Apache-2.0
// The npm client of a Foundry project, unmodified: the newest, and one that
// sends the older member `agent` to the older prefix.
import { scenario } from '../../lib/foundry.mjs';

const common = ['creates an agent with a code interpreter', 'reads it back, alone and in lists', 'finds the model among the deployments', 'asks it, and the answer cites a file', 'streams the same', 'a conversation: questions in it, without input too, items that name the agent', 'fills structured inputs',
  'refuses what the agent settles, and unknown agents', 'deletes the version and downloads the cited file afterwards'];

scenario([
  { title: '@azure/ai-projects 2.8.0', folder: 'projects28', steps: [...common, 'disables and enables it', 'asks at the endpoint of the agent'] },
  { title: '@azure/ai-projects 2.0.1', folder: 'projects20', steps: common, old: true },
]);
