// SPDX-License-Identifier: Apache-2.0
// The tree of a workspace. A folder's entries are fetched when it is opened,
// in pages as they come into view; only rows in view are in the page.
import { useCallback, useEffect, useId, useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import { useEvents } from '../../api/events';
import type { FileInfo } from '../../api/types';
import { Loading, Name, Problem, Size } from '../../ui/basic';
import { Icon } from '../../ui/icons';
import { baseName, changesOf, FILE_ACTIONS, files, folderOf, type Entry, type Lock } from './model';

const ROW = 28;
const PAGE = 500;

interface Level { entries: Entry[]; more: boolean; loading: boolean; error: unknown }
type Row = { entry: Entry; depth: number; place: number; size: number } | { more: string; depth: number };

export function Tree({ ws, selected, filter, locks, onSelect, reloadKey }: { ws: string; selected: string | null; filter: string; locks: Lock[]; onSelect: (entry: Entry) => void; reloadKey: number }): ReactElement {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [levels, setLevels] = useState<Map<string, Level>>(new Map());
  const [open, setOpen] = useState<Set<string>>(new Set());
  const [active, setActive] = useState(0);
  const [view, setView] = useState({ top: 0, height: 500 });
  const going = useRef(new Map<string, AbortController>());
  const stale = useRef(new Set<string>());
  const latest = useRef(levels);
  latest.current = levels;
  const flat = filter !== '';

  const load = useCallback((folder: string, again: boolean) => {
    if (going.current.has(folder)) {
      if (again) stale.current.add(folder); // what is on its way may be older
      return;
    }
    const abort = new AbortController();
    going.current.set(folder, abort);
    const level = latest.current.get(folder);
    const after = again ? undefined : level?.entries.at(-1)?.path;
    setLevels((old) => new Map(old).set(folder, { entries: old.get(folder)?.entries ?? [], more: old.get(folder)?.more ?? false, loading: true, error: null }));
    files.list(ws, { prefix: folder.replace(/^\?/, ''), delimiter: folder.startsWith('?') ? undefined : '/', limit: again ? Math.min(1000, Math.max(PAGE, level?.entries.length ?? 0)) : PAGE, after }, abort.signal).then((list) => {
      going.current.delete(folder);
      if (stale.current.delete(folder)) setTimeout(() => load(folder, true));
      setLevels((now) => new Map(now).set(folder, { entries: [...(again ? [] : now.get(folder)?.entries ?? []), ...list.data], more: list.has_more, loading: false, error: null }));
    }, (error: unknown) => {
      if (abort.signal.aborted) return;
      going.current.delete(folder);
      setLevels((now) => new Map(now).set(folder, { entries: now.get(folder)?.entries ?? [], more: false, loading: false, error }));
    });
  }, [ws]);

  const root = flat ? `?${filter}` : '';
  useEffect(() => {
    for (const abort of going.current.values()) abort.abort();
    going.current.clear();
    stale.current.clear();
    setLevels(new Map());
    setActive(0);
    if (box.current) box.current.scrollTop = 0;
    load(root, true);
  }, [ws, root, load]);
  useEffect(() => () => { for (const abort of going.current.values()) abort.abort(); }, []);

  // The way to the chosen file is open.
  useEffect(() => {
    if (!selected || flat) return;
    setOpen((old) => {
      const next = new Set(old);
      for (let at = folderOf(selected); at; at = folderOf(at)) next.add(at);
      return next.size === old.size ? old : next;
    });
  }, [selected, flat]);
  useEffect(() => {
    if (!flat) for (const folder of open) if (!levels.has(folder)) load(folder, true);
  }, [open, levels, load, flat]);

  const refresh = useCallback(() => { for (const folder of levels.keys()) load(folder, true); }, [levels, load]);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const told = changesOf(ws, ...FILE_ACTIONS);
  const latestRefresh = useRef(refresh);
  latestRefresh.current = refresh;
  useEvents([...told.refreshOn, 'stream.resumed'], (event) => {
    if (timer.current || (event.type !== 'stream.resumed' && !told.accept(event))) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      latestRefresh.current();
    }, 150);
  });
  useEffect(() => () => { if (timer.current) clearTimeout(timer.current); }, []);
  useEffect(() => { if (reloadKey) refresh(); }, [reloadKey]);

  const rows = useMemo<Row[]>(() => {
    const out: Row[] = [];
    const add = (folder: string, depth: number) => {
      const level = levels.get(folder);
      if (!level) return;
      level.entries.forEach((entry, place) => {
        out.push({ entry, depth, place: place + 1, size: level.more ? -1 : level.entries.length });
        if (!flat && entry.type === 'folder' && open.has(entry.path)) add(entry.path, depth + 1);
      });
      if (level.more || (level.loading && level.entries.length)) out.push({ more: folder, depth });
    };
    add(root, 0);
    return out;
  }, [levels, open, root, flat]);

  const measure = () => {
    const el = box.current;
    if (el) setView((old) => (old.top === el.scrollTop && old.height === el.clientHeight ? old : { top: el.scrollTop, height: el.clientHeight }));
  };
  useEffect(() => {
    if (!box.current) return undefined;
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [levels.size > 0]);
  const from = Math.max(0, Math.floor(view.top / ROW) - 10);
  const to = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + 10);
  // A row that stands for more is fetched once it is near.
  useEffect(() => {
    for (let i = from; i < to; i++) {
      const row = rows[i];
      if ('more' in row && !levels.get(row.more)?.loading) load(row.more, false);
    }
  }, [from, to, rows, levels, load]);

  const show = (i: number) => {
    const el = box.current;
    setActive(i);
    if (!el) return;
    if (i * ROW < el.scrollTop) el.scrollTop = i * ROW;
    else if ((i + 1) * ROW > el.scrollTop + el.clientHeight) el.scrollTop = (i + 1) * ROW - el.clientHeight;
  };
  const toggle = (at: string) => setOpen((old) => {
    const next = new Set(old);
    if (!next.delete(at)) next.add(at);
    return next;
  });
  const choose = (i: number) => {
    const row = rows[i];
    if (!row || 'more' in row) return;
    if (row.entry.type === 'folder') toggle(row.entry.path);
    onSelect(row.entry);
  };
  const onKey = (e: KeyboardEvent) => {
    const row = rows[active];
    const folder = row && 'entry' in row && row.entry.type === 'folder' ? row.entry.path : null;
    if (e.key === 'ArrowDown') show(Math.min(rows.length - 1, active + 1));
    else if (e.key === 'ArrowUp') show(Math.max(0, active - 1));
    else if (e.key === 'Home') show(0);
    else if (e.key === 'End') show(rows.length - 1);
    else if (e.key === 'PageDown') show(Math.min(rows.length - 1, active + Math.floor(view.height / ROW)));
    else if (e.key === 'PageUp') show(Math.max(0, active - Math.floor(view.height / ROW)));
    else if (e.key === 'ArrowRight' && folder) {
      if (!open.has(folder)) toggle(folder);
      else show(Math.min(rows.length - 1, active + 1));
    } else if (e.key === 'ArrowLeft') {
      if (folder && open.has(folder)) toggle(folder);
      else if (row && row.depth > 0) {
        let i = active;
        while (i > 0 && rows[i].depth >= row.depth) i--;
        show(i);
      }
    } else if (e.key === 'Enter' || e.key === ' ') choose(active);
    else return;
    e.preventDefault();
  };

  const top = levels.get(root);
  if (top?.error && !top.entries.length) return <Problem error={top.error} retry={() => load(root, true)} />;
  if (!top || (top.loading && !top.entries.length)) return <Loading what="Reading the tree" />;
  if (!rows.length) return <p className="muted small files-none">{flat ? 'No path begins like this.' : 'There are no files yet.'}</p>;
  const locked = (at: string) => locks.find((l) => l.path === at || (l.path.endsWith('/') && at.startsWith(l.path)) || `${l.path}/` === at);
  return (
    <div ref={box} className="files-tree" role="tree" aria-label="Files" tabIndex={0} onScroll={measure} onKeyDown={onKey}
      aria-activedescendant={active >= from && active < to ? `${id}-${active}` : undefined}>
      <div className="files-tree-room" role="none" style={{ height: rows.length * ROW }}>
        {rows.slice(from, to).map((row, k) => {
          const i = from + k;
          const style = { top: i * ROW, height: ROW, paddingInlineStart: `${0.5 + row.depth * 1.1}rem` };
          if ('more' in row) return <div key={`more ${row.more}`} role="none" className="files-row muted" style={style}>More…</div>;
          const { entry } = row;
          const folder = entry.type === 'folder';
          const lock = locked(entry.path);
          return (
            <div key={entry.path} id={`${id}-${i}`} role="treeitem" aria-level={row.depth + 1} aria-expanded={folder && !flat ? open.has(entry.path) : undefined} aria-selected={entry.path === selected} aria-setsize={row.size} aria-posinset={row.place}
              className={`files-row ${entry.path === selected ? 'chosen' : ''} ${i === active ? 'active' : ''}`} style={style} onClick={() => {
                setActive(i);
                choose(i);
              }}>
              <span className="files-twist">{folder && !flat && <Icon name={open.has(entry.path) ? 'down' : 'right'} size={14} />}</span>
              <Icon name={folder ? 'files' : 'audit'} size={16} />
              <span className="truncate grow" title={entry.path}><Name>{flat ? entry.path : baseName(entry.path)}</Name></span>
              {lock && <span className="files-lock" title={`Locked${lock.label ? `: ${lock.label}` : ''}`}><Icon name="lock" size={14} /><span className="visually-hidden">locked</span></span>}
              {!folder && <span className="muted files-size"><Size bytes={(entry as FileInfo).size} /></span>}
            </div>
          );
        })}
      </div>
    </div>
  );
}
