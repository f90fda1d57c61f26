/** What every picture needs to be written as SVG. */

export const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Two digits: a hundredth of a point is never seen, and files stay small. */
export const round = (n: number): string => String(Math.round(n * 100) / 100)
