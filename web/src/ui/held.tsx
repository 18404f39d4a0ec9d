// SPDX-License-Identifier: Apache-2.0
// A request that waits for another person. It follows the decision by itself
// and offers to make the same request again once it was approved.
import { useState, type ReactElement } from 'react';
import { api, HeldError, path } from '../api/client';
import { useLoad } from '../api/query';
import { href } from '../app/router';
import { ActionButton, Notice, Problem } from './basic';

interface Seen { state: string; reason?: string | null; decided_by_name?: string | null; run?: string | null }

export function Held({ approval, repeat, what = 'this' }: { approval: string; repeat?: () => Promise<unknown>; what?: string }): ReactElement {
  const { data } = useLoad<Seen>(`held ${approval}`, (signal) => api.get(path`/api/approvals/${approval}`, {}, { signal }), { refreshOn: ['approval'] });
  const [error, setError] = useState<unknown>(null);
  const link = <a href={href('approvals', approval)}>See the request</a>;
  const by = data?.decided_by_name ? <> by <bdi>{data.decided_by_name}</bdi></> : null;
  if (data?.state === 'approved') return <>
    <Notice tone="good" actions={repeat && <ActionButton compact kind="primary" action={repeat} onError={setError}>Do it now</ActionButton>}>
      <p>Approved{by}. {repeat ? 'It has not been done yet; it works once.' : <>Make the same change again here; it succeeds once. {link}.</>}</p>
    </Notice>
    {error !== null && !(error instanceof HeldError) && <Problem error={error} />}
  </>;
  if (data && data.state !== 'pending') return <Notice tone="bad"><p>{data.state === 'denied' ? <>Denied{by}{data.reason ? <>: <bdi>{data.reason}</bdi></> : '.'}</> : `The request is ${data.state}.`} {link}.</p></Notice>;
  return <Notice tone="warn"><p>Another person must approve {what} first; nothing has been done. {link}. This page notices the decision by itself.</p></Notice>;
}
