// SPDX-License-Identifier: Apache-2.0
// The fields that SPDX 2.3 requires of a document, its packages and its
// relationships, and what must hold between them.
import assert from 'node:assert/strict';

const ID = /^SPDXRef-[A-Za-z0-9.-]+$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

export function checkSpdx(document) {
  assert.equal(document.spdxVersion, 'SPDX-2.3');
  assert.equal(document.dataLicense, 'CC0-1.0');
  assert.equal(document.SPDXID, 'SPDXRef-DOCUMENT');
  assert.ok(document.name);
  assert.match(document.documentNamespace, /^[a-z][a-z0-9+.-]*:[^#]+$/);
  assert.match(document.creationInfo.created, TIME);
  assert.ok(document.creationInfo.creators.length > 0);
  for (const creator of document.creationInfo.creators) assert.match(creator, /^(Tool|Person|Organization): \S/);

  const ids = new Set([document.SPDXID]);
  for (const p of document.packages) {
    assert.match(p.SPDXID, ID);
    assert.ok(!ids.has(p.SPDXID), `${p.SPDXID} occurs twice`);
    ids.add(p.SPDXID);
    assert.ok(p.name && p.versionInfo && p.downloadLocation, JSON.stringify(p));
    assert.equal(p.filesAnalyzed, false);
    assert.match(p.supplier, /^(NOASSERTION|(Organization|Person): \S.*)$/);
    for (const ref of p.externalRefs) {
      assert.equal(ref.referenceCategory, 'PACKAGE-MANAGER');
      assert.equal(ref.referenceType, 'purl');
      assert.match(ref.referenceLocator, /^pkg:[a-z]+\/[^ ]+@[^ ]+$/);
    }
  }
  for (const r of document.relationships) {
    assert.ok(ids.has(r.spdxElementId), r.spdxElementId);
    assert.ok(ids.has(r.relatedSpdxElement), r.relatedSpdxElement);
    assert.match(r.relationshipType, /^[A-Z_]+$/);
  }
  assert.equal(document.relationships.filter((r) => r.relationshipType === 'DESCRIBES').length, 1);
}
