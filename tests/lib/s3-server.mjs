// SPDX-License-Identifier: Apache-2.0
// An S3 server for tests that keeps objects in memory, verifies signatures and
// hashes by itself, and misbehaves on request. As a program it prints
// "ready PORT" and ends when its standard input is closed:
//
//     node tests/lib/s3-server.mjs [--port N]
//
// POST /__fault with JSON {kind, times, method, match, ms, seconds} arms a
// fault for the next `times` requests whose method and path match; kinds:
//   status   answers `status` with the code `code` and Retry-After `seconds`
//   slow     answers after `ms`
//   torn     sends half of the body, then closes
//   wrong    changes a byte of the body
//   stall    sends half of the body, then nothing
//   lost     does what was requested and closes without an answer
//   refuse   closes at once
// POST /__skew {ms} moves the server's clock; POST /__down {down} closes every
// connection at once; GET /__log lists requests as "METHOD path", and
// DELETE /__log empties it; POST /__token {token} requires that session token;
// POST /__plant puts an object past every check; GET /__objects lists all.
import {createHash, createHmac} from "node:crypto";
import http from "node:http";
import https from "node:https";
import {pathToFileURL} from "node:url";

export const KEYS = {id: "test:tester", secret: "testing"};
const SKEW_MS = 15 * 60 * 1000;
const EMPTY = createHash("sha256").digest("hex");

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const md5 = (bytes) => createHash("md5").update(bytes).digest("hex");
const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
const xml = (text) => text.replace(/[<>&]/g, (c) => ({"<": "&lt;", ">": "&gt;", "&": "&amp;"})[c]);
const encode = (text) => encodeURIComponent(text)
  .replace(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());

/** Throws {status, code} unless the request is signed as it must be. */
function verify(req, url, body, state) {
  const refuse = (status, code) => { throw {status, code}; };
  const found = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/
    .exec(req.headers.authorization ?? "");
  if (!found) refuse(403, "AccessDenied");
  const [, id, day, region, names, signature] = found;
  if (id !== KEYS.id) refuse(403, "InvalidAccessKeyId");
  const time = req.headers["x-amz-date"];
  const at = Date.parse(time.replace(/(....)(..)(..)T(..)(..)(..)Z/, "$1-$2-$3T$4:$5:$6Z"));
  if (Math.abs(at - (Date.now() + state.skew)) > SKEW_MS) refuse(403, "RequestTimeTooSkewed");
  if (state.token && req.headers["x-amz-security-token"] !== state.token) refuse(400, "ExpiredToken");
  const payload = req.headers["x-amz-content-sha256"];
  for (const must of ["host", "x-amz-content-sha256", "x-amz-date"])
    if (!names.split(";").includes(must)) refuse(403, "AccessDenied");
  const query = [...url.searchParams].map(([k, v]) => `${encode(k)}=${encode(v)}`).sort().join("&");
  const canonical = [req.method, url.pathname, query,
    ...names.split(";").map((n) => `${n}:${req.headers[n]}`), "", names, payload].join("\n");
  const text = ["AWS4-HMAC-SHA256", time, `${day}/${region}/s3/aws4_request`, sha256(canonical)].join("\n");
  let key = hmac("AWS4" + KEYS.secret, day);
  for (const step of [region, "s3", "aws4_request"]) key = hmac(key, step);
  if (hmac(key, text).toString("hex") !== signature) refuse(403, "SignatureDoesNotMatch");
  if (sha256(body) !== payload) refuse(400, "XAmzContentSHA256Mismatch");
}

function listObjects(bucket, url) {
  const prefix = url.searchParams.get("prefix") ?? "";
  const after = url.searchParams.get("continuation-token") ?? "";
  const page = Number(url.searchParams.get("max-keys") ?? bucket.page ?? 1000);
  const keys = [...bucket.objects.keys()].filter((k) => k.startsWith(prefix) && k > after)
    .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const some = keys.slice(0, page), more = keys.length > some.length;
  return `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` +
    `<EncodingType>url</EncodingType><IsTruncated>${more}</IsTruncated>` +
    (more ? `<NextContinuationToken>${xml(some.at(-1))}</NextContinuationToken>` : "") +
    some.map((k) => {
      const o = bucket.objects.get(k);
      return `<Contents><Key>${encode(k).replaceAll("%2F", "/")}</Key><LastModified>${new Date(o.at).toISOString()}` +
        `</LastModified><ETag>"${o.etag}"</ETag><Size>${o.bytes.length}</Size></Contents>`;
    }).join("") + "</ListBucketResult>";
}

/** {status, headers, body} of a request that is allowed. */
function serve(req, url, body, state) {
  // glovebox.localhost: the bucket is in the host's name.
  const hosted = /^([a-z0-9-]+)\.localhost(:|$)/.exec(req.headers.host)?.[1];
  const path = hosted ? `/${hosted}${url.pathname}` : url.pathname;
  const [, name, ...rest] = path.split("/").map(decodeURIComponent);
  const key = rest.join("/"), q = url.searchParams;
  const bucket = state.buckets.get(name);
  const now = Date.now() + state.skew;
  const head = (o) => ({ETag: `"${o.etag}"`, "Last-Modified": new Date(o.at).toUTCString()});
  if (!key && req.method === "PUT") {
    state.buckets.set(name, bucket ?? {objects: new Map(), uploads: new Map()});
    return {status: 200};
  }
  if (!bucket) throw {status: 404, code: "NoSuchBucket"};
  if (!key && q.has("uploads"))
    return {status: 200, body: "<ListMultipartUploadsResult>" + [...bucket.uploads].map(([id, u]) =>
      `<Upload><Key>${xml(u.key)}</Key><UploadId>${id}</UploadId><Initiated>${new Date(u.at).toISOString()}</Initiated></Upload>`)
      .join("") + "</ListMultipartUploadsResult>"};
  if (!key) return {status: 200, body: listObjects(bucket, url)};
  if (req.method === "POST" && q.has("uploads")) {
    const id = `upload-${state.next++}`;
    bucket.uploads.set(id, {key, parts: new Map(), at: now});
    return {status: 200, body: `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`};
  }
  const upload = bucket.uploads.get(q.get("uploadId"));
  if (q.has("uploadId") && !upload) throw {status: 404, code: "NoSuchUpload"};
  if (req.method === "PUT" && upload) {
    upload.parts.set(Number(q.get("partNumber")), body);
    return {status: 200, headers: {ETag: `"${md5(body)}"`}};
  }
  if (req.method === "DELETE" && upload) {
    bucket.uploads.delete(q.get("uploadId"));
    return {status: 204};
  }
  if (req.method === "POST" && upload) {
    const parts = [...String(body).matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"([0-9a-f]+)"/g)];
    const bytes = parts.map(([, n, etag]) => {
      const part = upload.parts.get(Number(n));
      if (!part || md5(part) !== etag) throw {status: 400, code: "InvalidPart"};
      return part;
    });
    const all = Buffer.concat(bytes);
    bucket.objects.set(key, {bytes: all, etag: `${md5(all)}-${parts.length}`, at: now});
    bucket.uploads.delete(q.get("uploadId"));
    return {status: 200, body: "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"};
  }
  if (req.method === "PUT") {
    bucket.objects.set(key, {bytes: body, etag: md5(body), at: now});
    return {status: 200, headers: {ETag: `"${md5(body)}"`}};
  }
  if (req.method === "DELETE") {
    bucket.objects.delete(key);
    return {status: 204};
  }
  const object = bucket.objects.get(key);
  if (!object) throw {status: 404, code: "NoSuchKey"};
  if (req.headers["if-match"] && req.headers["if-match"] !== `"${object.etag}"`)
    throw {status: 412, code: "PreconditionFailed"};
  const range = /^bytes=(\d+)-(\d*)$/.exec(req.headers.range ?? "");
  if (!range) return {status: 200, headers: head(object), body: object.bytes};
  const size = object.bytes.length, from = Number(range[1]);
  if (from >= size) throw {status: 416, code: "InvalidRange"};
  const to = range[2] ? Math.min(Number(range[2]), size - 1) : size - 1;
  return {status: 206, headers: {...head(object), "Content-Range": `bytes ${from}-${to}/${size}`},
    body: object.bytes.subarray(from, to + 1)};
}

function takeFault(state, req, url) {
  const i = state.faults.findIndex((f) => f.times > 0 && (!f.method || f.method === req.method) &&
    (!f.match || (url.pathname + url.search).includes(f.match)));
  if (i < 0) return null;
  const fault = state.faults[i];
  if (--fault.times <= 0) state.faults.splice(i, 1);
  return fault;
}

function control(req, url, body, state, res) {
  const json = body.length ? JSON.parse(body) : {};
  let answer = {};
  if (url.pathname === "/__fault") state.faults.push({times: 1, ...json});
  else if (url.pathname === "/__calm") state.faults.length = 0;
  else if (url.pathname === "/__skew") state.skew = json.ms;
  else if (url.pathname === "/__down") state.down = json.down;
  else if (url.pathname === "/__token") state.token = json.token;
  else if (url.pathname === "/__page") state.buckets.get(json.bucket).page = json.keys;
  else if (url.pathname === "/__plant")
    state.buckets.get(json.bucket).objects.set(json.key, {bytes: Buffer.from(json.text), etag: md5(json.text), at: Date.now() + (json.age ?? 0)});
  else if (url.pathname === "/__age") // uploads and objects get older
    for (const b of state.buckets.values()) {
      for (const u of b.uploads.values()) u.at -= json.ms;
      for (const o of b.objects.values()) o.at -= json.ms;
    }
  else if (url.pathname === "/__objects")
    answer = Object.fromEntries([...state.buckets].map(([n, b]) => [n, [...b.objects.keys()].sort()]));
  else if (url.pathname === "/__uploads")
    answer = Object.fromEntries([...state.buckets].map(([n, b]) => [n, b.uploads.size]));
  else if (url.pathname === "/__log" && req.method === "DELETE") state.log.length = 0;
  else if (url.pathname === "/__log") answer = state.log;
  res.writeHead(200, {"Content-Type": "application/json"}).end(JSON.stringify(answer));
}

async function handle(req, res, state) {
  const url = new URL(req.url, "http://s3");
  if (state.down && !url.pathname.startsWith("/__")) return req.socket.destroy();
  const pieces = [];
  for await (const piece of req) pieces.push(piece);
  const body = Buffer.concat(pieces);
  if (url.pathname.startsWith("/__")) return control(req, url, body, state, res);
  state.log.push(`${req.method} ${url.pathname}${url.search}`);
  const fault = takeFault(state, req, url);
  if (fault?.kind === "refuse") return req.socket.destroy();
  if (fault?.kind === "slow") await new Promise((r) => setTimeout(r, fault.ms));
  let answer;
  try {
    if (fault?.kind === "status") throw {status: fault.status, code: fault.code, seconds: fault.seconds};
    verify(req, url, body, state);
    answer = serve(req, url, body, state);
  } catch (e) {
    if (!e.status) throw e;
    answer = {status: e.status, headers: e.seconds === undefined ? {} : {"Retry-After": String(e.seconds)},
      body: `<?xml version="1.0"?><Error><Code>${e.code ?? ""}</Code><Message>refused</Message></Error>`};
  }
  if (fault?.kind === "lost") return req.socket.destroy();
  let bytes = Buffer.from(answer.body ?? "");
  if (fault?.kind === "wrong" && bytes.length) {
    bytes = Buffer.from(bytes);
    bytes[bytes.length >> 1] ^= 1;
  }
  res.writeHead(answer.status, {...answer.headers, "Content-Length": bytes.length,
    Date: new Date(Date.now() + state.skew).toUTCString()});
  if (req.method === "HEAD") return res.end();
  if (fault?.kind === "torn" || fault?.kind === "stall") {
    res.write(bytes.subarray(0, bytes.length >> 1));
    if (fault.kind === "torn") setTimeout(() => req.socket.destroy(), 20);
    return;
  }
  res.end(bytes);
}

/** Starts it in this process: {port, url, state, close()}. */
export async function startS3Server({port = 0, buckets = ["glovebox"], tls} = {}) {
  const state = {buckets: new Map(), faults: [], log: [], skew: 0, down: false, token: "", next: 1};
  for (const name of buckets) state.buckets.set(name, {objects: new Map(), uploads: new Map()});
  const server = (tls ? https : http).createServer(tls ?? {}, (req, res) => handle(req, res, state).catch((e) => {
    console.error(e);
    req.socket.destroy();
  }));
  server.keepAliveTimeout = 5000;
  await new Promise((r) => server.listen(port, "127.0.0.1", r));
  return {
    port: server.address().port, url: `http${tls ? "s" : ""}://${tls ? "localhost" : "127.0.0.1"}:${server.address().port}`, state,
    close: () => new Promise((r) => { server.closeAllConnections(); server.close(r); }),
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const at = process.argv.indexOf("--port");
  const s3 = await startS3Server({port: at > 0 ? Number(process.argv[at + 1]) : 0, buckets: ["glovebox", "other"]});
  console.log(`ready ${s3.port}`);
  process.stdin.resume();
  process.stdin.on("end", () => process.exit(0));
}
