/** Metrics over HTTP, on the thread that waits for the ranks: they are told nothing of it. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { prometheusType } from '../../monitor/index.js'
import { isOwnHost } from './hosts.js'
import { listening } from './listening.js'

export interface MetricsServer {
  /** `http://127.0.0.1:9464/metrics` */
  readonly address: string
  close(): void
}

const foreign = 'lockstep: not a name of this machine; to be scraped by that name, pass --prometheus <name>:<port>\n'

/** `[host:]port`; without a host only this machine is answered. Port 0: one that is free. */
export async function serveMetrics(place: string, text: () => string): Promise<MetricsServer> {
  const [, host = '127.0.0.1', port] = /^(?:(.+):)?(\d+)$/.exec(place) ?? []
  const server = createServer((request, response) => {
    const asked = request.url?.split('?')[0]
    if (!isOwnHost(request.headers, host)) {
      response.writeHead(403, { 'content-type': 'text/plain; charset=utf-8' })
      return void response.end(foreign)
    }
    if (asked !== '/metrics') {
      response.writeHead(asked === '/' ? 200 : 404, { 'content-type': 'text/plain; charset=utf-8' })
      response.end('lockstep: see /metrics\n')
      return
    }
    response.writeHead(200, { 'content-type': prometheusType })
    response.end(request.method === 'HEAD' ? undefined : text())
  })
  await listening(server, { host: host.replace(/^\[|\]$/g, ''), port: Number(port) }, '--prometheus')
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
