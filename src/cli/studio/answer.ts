/** What every answer of the server carries, and the answers that are no file. */
import type { ServerResponse } from 'node:http'
import type { Problem } from '../../base/index.js'

/** Isolation is what threads need; the policy lets a page load nothing from elsewhere and start WebAssembly. */
const always = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Content-Security-Policy':
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
}

/** Before anything is answered, so that no way out is without them. */
export function prepare(response: ServerResponse): void {
  for (const [name, value] of Object.entries(always)) response.setHeader(name, value)
}

export function answer(
  response: ServerResponse,
  { status = 200, type, body }: { readonly status?: number; readonly type: string; readonly body: string | Uint8Array },
): void {
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) })
  response.end(body)
}

export const answerJson = (response: ServerResponse, value: unknown, status = 200): void =>
  answer(response, { status, type: 'application/json; charset=utf-8', body: `${JSON.stringify(value)}\n` })

export const answerText = (response: ServerResponse, text: string, status = 200): void =>
  answer(response, { status, type: 'text/plain; charset=utf-8', body: `${text}\n` })

/** As a file to keep. */
export function answerFile(
  response: ServerResponse,
  name: string,
  of: { readonly type: string; readonly body: string | Uint8Array },
): void {
  response.setHeader('Content-Disposition', `attachment; filename="${name}"`)
  answer(response, of)
}

/** What went wrong, for people and for pages: thrown by whoever handles a request. */
export class Refused extends Error {
  readonly status: number
  readonly problems: readonly Problem[]
  constructor(status: number, message: string, problems: readonly Problem[] = []) {
    super(message)
    this.status = status
    this.problems = problems
  }
}
