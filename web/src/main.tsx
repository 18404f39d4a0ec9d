// SPDX-License-Identifier: Apache-2.0
import { createRoot } from 'react-dom/client';
import './app/theme';
import { App } from './app/app';
import 'glovebox:styles';

createRoot(document.getElementById('app')!).render(<App />);
