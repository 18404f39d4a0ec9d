// SPDX-License-Identifier: Apache-2.0
// The newest OpenAI client, under a Node that it accepts, does the same.
import { describe } from 'node:test';
import { scenario } from '../../lib/openai.mjs';

describe('openai 7, the client', () => scenario(7));
