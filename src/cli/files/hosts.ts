/**
 * Host header check against DNS rebinding: a page whose name was pointed at this machine asks with its own name as Host. Names are
 * compared and never resolved.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'

/** Names of this machine that no DNS server controls. */
export const loopbackNames: readonly string[] = ['127.0.0.1', 'localhost', '[::1]']

/** `[::1]:9464` has the name `[::1]`. */
const nameOf = (host: string): string => host.toLowerCase().replace(/:\d+$/, '')

/** Whether a server that was bound to `bound` may answer to this Host. An address is no name that could be rebound. */
export function isOwnHost({ host }: IncomingHttpHeaders, bound: string): boolean {
  if (host === undefined) return false
  const name = nameOf(host)
  if ([...loopbackNames, bound.toLowerCase(), hostname().toLowerCase()].includes(name)) return true
  return isIP(name.replace(/^\[|\]$/g, '')) !== 0
}
