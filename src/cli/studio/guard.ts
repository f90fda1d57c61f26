/**
 * Authorization. The server starts runs on this machine, so other pages and other programs must not reach it. Every request for
 * runs carries a bearer token (128 bits) in a header. There is no cookie: browsers send cookies to every port of a host, so any
 * other server on 127.0.0.1 would receive it. DNS rebinding fails by the Host header, requests of other origins by Origin and
 * Sec-Fetch-Site. Pages are public files and only need a valid Host.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { loopbackNames } from '../files/hosts.js'

export interface Refusal {
  readonly status: 401 | 403
  readonly why: string
}

export interface Guard {
  /** As hex. */
  readonly token: string
  /** Undefined: the request may have a page. */
  refusesPage(request: IncomingMessage): Refusal | undefined
  /** Undefined: the request may reach runs. */
  refuses(request: IncomingMessage): Refusal | undefined
  /** A path with a one-use ticket: downloads are links, and links carry no headers. */
  ticket(path: string): string
}

/** Long enough for the click that asked for it. */
const ticketMilliseconds = 60_000

export function guardOf(port: number, token = randomBytes(16).toString('hex')): Guard {
  const hosts = loopbackNames.map(name => `${name}:${port}`)
  const tickets = new Map<string, { readonly path: string; readonly until: number }>()
  const isTicket = ({ url = '', method }: IncomingMessage): boolean => {
    const [path, query] = url.split('?')
    const given = new URLSearchParams(query).get('ticket') ?? ''
    const ticket = tickets.get(given)
    if (method !== 'GET' || ticket?.path !== path) return false
    tickets.delete(given)
    return ticket.until >= Date.now()
  }
  const refusesPage = ({ headers }: IncomingMessage): Refusal | undefined =>
    hosts.includes(headers.host?.toLowerCase() ?? '')
      ? undefined
      : { status: 403, why: 'this server only answers to 127.0.0.1' }
  return {
    token,
    refusesPage,
    refuses(request) {
      const refusal = refusesPage(request)
      if (refusal) return refusal
      if (foreignOrigin(request.headers))
        return { status: 403, why: 'this request comes from a page of another origin' }
      return same(bearerOf(request.headers), token) || isTicket(request) ? undefined : { status: 401, why: unknown }
    },
    ticket(path) {
      for (const [old, { until }] of tickets) if (until < Date.now()) tickets.delete(old)
      const ticket = randomBytes(16).toString('hex')
      tickets.set(ticket, { path, until: Date.now() + ticketMilliseconds })
      return `${path}?ticket=${ticket}`
    },
  }
}

const unknown = 'this request lacks the token: open the link that `lockstep studio` printed'

function foreignOrigin({ origin, host, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  if (origin !== undefined && origin !== `http://${host}`) return true
  return site !== undefined && site !== 'same-origin' && site !== 'none'
}

const bearerOf = ({ authorization = '' }: IncomingHttpHeaders): string =>
  /^Bearer (\S+)$/i.exec(authorization)?.[1] ?? ''

/** In constant time. */
const same = (given: string, token: string): boolean => timingSafeEqual(digest(given), digest(token))
const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
