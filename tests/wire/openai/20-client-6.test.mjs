// SPDX-License-Identifier: Apache-2.0
// The newest OpenAI client that runs on Node 20 does everything it can do
// here, unchanged.
import { describe } from 'node:test';
import { scenario } from '../../lib/openai.mjs';

describe('openai 6, the client', () => scenario(6));
