/** What every picture needs to be written as SVG. */
import { printable } from '../base/index.js'

/** Text within an element or a quoted attribute; what XML does not allow at all is shown as an escape. */
export const escapeXml = (text: string): string =>
  printable(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Two digits: a hundredth of a point is never seen, and files stay small. */
export const round = (n: number): string => String(Math.round(n * 100) / 100)
