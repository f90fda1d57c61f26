/** Metrics over HTTP, on the thread that waits for the ranks: they are told nothing of it. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { error, ProblemsError } from '../../base/index.js'
import { prometheusType } from '../../monitor/index.js'

export interface MetricsServer {
  /** `http://127.0.0.1:9464/metrics` */
  readonly address: string
  close(): void
}

/** `[host:]port`; without a host only this machine is answered. Port 0: one that is free. */
export async function serveMetrics(place: string, text: () => string): Promise<MetricsServer> {
  const [, host = '127.0.0.1', port] = /^(?:(.+):)?(\d+)$/.exec(place) ?? []
  const server = createServer((request, response) => {
    const asked = request.url?.split('?')[0]
    if (asked !== '/metrics') {
      response.writeHead(asked === '/' ? 200 : 404, { 'content-type': 'text/plain; charset=utf-8' })
      response.end('lockstep: see /metrics\n')
      return
    }
    response.writeHead(200, { 'content-type': prometheusType })
    response.end(request.method === 'HEAD' ? undefined : text())
  })
  await listening(server, host.replace(/^\[|\]$/g, ''), Number(port), place)
  server.unref()
  const { port: taken } = server.address() as AddressInfo // it listens on one
  return {
    address: `http://${host}:${taken}/metrics`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'somebody else listens there',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'no such host',
}

const listening = (server: Server, host: string, port: number, place: string): Promise<void> =>
  new Promise((done, fail) => {
    server.once('error', (e: NodeJS.ErrnoException) => {
      const why = reasons[e.code ?? ''] ?? e.message
      fail(
        new ProblemsError([
          error('run/port', '--prometheus', `cannot listen on ${place}: ${why}`, 'name another port'),
        ]),
      )
    })
    server.listen(port, host, done)
  })
