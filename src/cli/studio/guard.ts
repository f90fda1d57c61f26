/**
 * Who may ask. The server starts runs on this machine, so a page of somebody else must not reach it: not by the token (128 bits, in
 * the link that is printed, then in a cookie no script can read), not by a name that was made to lead here (Host), not
 * from another origin (Origin, Sec-Fetch-Site; other ports of this machine are the same site, and are others all the same).
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'

/** What is answered instead; undefined: let it pass. */
export interface Refusal {
  readonly status: 401 | 403
  readonly why: string
}

export interface Guard {
  /** As hex. */
  readonly token: string
  /** Of a link that was opened: the cookie it is exchanged for; undefined where it has no token, or a wrong one. */
  exchange(request: IncomingMessage): string | undefined
  refuses(request: IncomingMessage): Refusal | undefined
}

/** Cookies know no ports: its own name keeps the cookies of two servers apart. */
export function guardOf(port: number, token = randomBytes(16).toString('hex')): Guard {
  const name = `lockstep-studio-${port}`
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`]
  return {
    token,
    exchange(request) {
      if (foreignHost(request.headers, hosts)) return undefined
      const given = new URLSearchParams(request.url?.split('?')[1]).get('token')
      if (given === null || !same(given, token)) return undefined
      return `${name}=${token}; HttpOnly; SameSite=Strict; Path=/`
    },
    refuses({ headers }) {
      if (foreignHost(headers, hosts)) return { status: 403, why: 'this server answers to 127.0.0.1 alone' }
      if (foreignOrigin(headers)) return { status: 403, why: 'this request comes from a page of another origin' }
      return same(cookieOf(headers, name), token) ? undefined : { status: 401, why: unknown }
    },
  }
}

const unknown = 'open the link that `lockstep studio` printed: it has the token that this page lacks'

const foreignHost = ({ host }: IncomingHttpHeaders, hosts: readonly string[]): boolean =>
  host === undefined || !hosts.includes(host.toLowerCase())

function foreignOrigin({ origin, host, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  if (origin !== undefined && origin !== `http://${host}`) return true
  return site !== undefined && site !== 'same-origin' && site !== 'none'
}

const cookieOf = ({ cookie = '' }: IncomingHttpHeaders, name: string): string => {
  const found = cookie.split(';').find(part => part.trim().startsWith(`${name}=`))
  return found?.trim().slice(name.length + 1) ?? ''
}

/** In a time that tells nothing of where they differ. */
const same = (given: string, token: string): boolean => timingSafeEqual(digest(given), digest(token))
const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
