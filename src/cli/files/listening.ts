/** A server that listens, or says in words why it cannot. */
import type { Server } from 'node:http'
import { error, ProblemsError } from '../../base/index.js'

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the address is already in use',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'no such host',
}

/** `option`: what the place was named by. */
export const listening = (
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  option: string,
): Promise<void> =>
  new Promise((done, fail) => {
    server.once('error', (e: NodeJS.ErrnoException) => {
      const why = reasons[e.code ?? ''] ?? e.message
      const message = `cannot listen on ${host === '127.0.0.1' ? '' : `${host}:`}${port}: ${why}`
      fail(new ProblemsError([error('run/port', option, message, 'name another port')]))
    })
    server.listen(port, host, done)
  })
