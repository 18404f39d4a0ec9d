// SPDX-License-Identifier: Apache-2.0
// Icons drawn for this console: 20 units, one stroke width, no fill.
import type { ReactElement } from 'react';

const paths: Record<string, string> = {
  chat: 'M3 4h14v9H9l-4 3v-3H3zM7 8.5h.01M10 8.5h.01M13 8.5h.01',
  notebook: 'M5 3h10v14H5zM8 3v14M10.5 7h2.5M10.5 10h2.5',
  agents: 'M5 7h10v8H5zM10 7V4M8 10.5h.01M12 10.5h.01M8 13h4M3 10v3M17 10v3',
  files: 'M2.5 5.5h5l2 2h8v9h-15z',
  search: 'M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM13 13l4 4',
  conversations: 'M3 4h14v9H9l-4 3v-3H3z',
  executions: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM8.5 7.2v5.6l4.3-2.8z',
  tools: 'M12 3.5a4 4 0 0 0-3.6 5.6L3.5 14v2.5H6l4.9-4.9A4 4 0 0 0 16.5 8L14 10l-2-.5-.5-2z',
  approvals: 'M4 10.5 8 15l8-9.5',
  policy: 'M10 2.8 16 5v4.5c0 3.7-2.4 6.3-6 7.7-3.6-1.4-6-4-6-7.7V5z',
  network: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM3 10h14M10 3c2.4 2 3 4.400 3 7s-.6 5-3 7c-2.400-2-3-4.400-3-7s.6-5 3-7z',
  audit: 'M5 3h7l3 3v11H5zM7.500 9h5M7.500 12h5M7.500 6h2',
  posture: 'M3 14a7 7 0 1 1 14 0M10 14l3.500-4.500M3 16.500h14',
  people: 'M7.500 9.500a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 16.500c0-3 2.500-4.500 5.500-4.500s5.500 1.500 5.500 4.500M13 9a2.500 2.500 0 1 0 0-5M15 12.300c2 .5 3 2 3 4.200',
  pools: 'M3 4h14v4H3zM3 12h14v4H3zM6 6h.01M6 14h.01',
  quotas: 'M4 16.500v-5M8 16.500v-9M12 16.500v-6M16 16.500v-12',
  nodes: 'M7.5 3h5v4h-5zM2.5 13h5v4h-5zM12.5 13h5v4h-5zM10 7v3M5 13v-3h10v3',
  operations: 'M10 7.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600zM10 2.500v2M10 15.500v2M2.500 10h2M15.500 10h2M4.700 4.700l1.400 1.400M13.900 13.900l1.400 1.400M4.700 15.300l1.400-1.400M13.900 6.100l1.400-1.400',
  play: 'M6 4l10 6-10 6z',
  stop: 'M5 5h10v10H5z',
  reset: 'M4.500 8a6 6 0 1 1-.3 4.500M4 3.500V8h4.500',
  plus: 'M10 4v12M4 10h12',
  minus: 'M4 10h12',
  close: 'M5 5l10 10M15 5 5 15',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  menu: 'M3 5.500h14M3 10h14M3 14.500h14',
  up: 'M5 12.500 10 7l5 5.500',
  down: 'M5 7.500 10 13l5-5.500',
  left: 'M12.500 5 7 10l5.500 5',
  right: 'M7.500 5 13 10l-5.500 5',
  trash: 'M4 5.500h12M8 5.500v-2h4v2M5.500 5.500l.7 11h7.600l.7-11',
  download: 'M10 3v9M6 8.500l4 4 4-4M4 16.500h12',
  upload: 'M10 13V4M6 7.500l4-4 4 4M4 16.500h12',
  copy: 'M7 7h9v9H7zM4 13V4h9',
  link: 'M8.500 11.500a3 3 0 0 0 4.300 0l3-3a3 3 0 0 0-4.300-4.300l-1 1M11.500 8.500a3 3 0 0 0-4.300 0l-3 3a3 3 0 0 0 4.300 4.300l1-1',
  lock: 'M5 9h10v8H5zM7 9V6.500a3 3 0 0 1 6 0V9',
  eye: 'M2 10c2-3.500 4.700-5 8-5s6 1.500 8 5c-2 3.500-4.700 5-8 5s-6-1.500-8-5zM10 7.800a2.200 2.200 0 1 0 0 4.400 2.200 2.200 0 0 0 0-4.400z',
  warning: 'M10 3 18 16.500H2zM10 8v4M10 14.200v.1',
  sun: 'M10 6.500a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7zM10 2v2M10 16v2M2 10h2M16 10h2M4.300 4.300l1.400 1.400M14.300 14.300l1.400 1.400M4.300 15.700l1.400-1.400M14.300 5.700l1.400-1.400',
  moon: 'M16 12.500A7 7 0 0 1 7.500 4 6.500 6.500 0 1 0 16 12.500z',
  screen: 'M3 4h14v9H3zM7 16.500h6M10 13v3.500',
  print: 'M6 7V3h8v4M6 14H3V7h14v7h-3M6 11.500h8V17H6z',
  history: 'M4.500 8a6 6 0 1 1-.3 4.500M4 3.500V8h4.500M10 7v3.500l2.500 1.500',
  share: 'M14 3.500a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM6 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM14 12.500a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM7.800 9l4.400-2.400M7.800 11l4.400 2.400',
  key: 'M7 7a3.500 3.500 0 1 0 2.800 5.600L17 12.500V10h-2V8.500h-3l-2.200.5A3.500 3.500 0 0 0 7 7z',
};

export type IconName = keyof typeof paths | string;

export function Icon({ name, size = 20 }: { name: IconName; size?: number }): ReactElement {
  return (
    <svg width={size} height={size} viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={paths[name] ?? paths.more} />
    </svg>
  );
}

// The mark: a glove box with its two ports, one hand inside.
export function Mark({ size = 28 }: { size?: number }): ReactElement {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect x="1.500" y="5.500" width="29" height="21" rx="6" fill="var(--accent)" />
      <circle cx="10.4" cy="16" r="4.1" fill="none" stroke="var(--accent-ink)" strokeWidth="2.400" />
      <circle cx="21.6" cy="16" r="5.2" fill="var(--accent-ink)" />
    </svg>
  );
}
