// SPDX-License-Identifier: Apache-2.0
declare module 'pdfjs-dist/legacy/build/pdf.min.mjs' {
  const text: string;
  export default text;
}
declare module 'pdfjs-dist/legacy/build/pdf.worker.min.mjs' {
  const text: string;
  export default text;
}
