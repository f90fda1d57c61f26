/**
 * Serves the repository's compiled modules to a browser, with the two headers that let threads of a page share memory.
 * `node dist/examples/browser/serve.js`, then open the address it prints.
 */
import { createReadStream, existsSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = new URL('../../../', import.meta.url)
const open = [
  '/dist/',
  '/kernels/',
  '/node_modules/zod/',
  '/node_modules/yaml/',
  '/examples/browser/',
  '/test/browser/',
]

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.wasm': 'application/wasm',
}

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
}

export interface Serving {
  readonly address: string
  readonly server: Server
}

/** Port 0 takes any that is free. Without isolation pages see what they miss. A browser may keep files for `keepSeconds`. */
export async function serve(port: number, isolated = true, keepSeconds = 0): Promise<Serving> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const file = fileURLToPath(new URL(`.${pathname}`, root))
    if (!open.some(prefix => pathname.startsWith(prefix)) || !existsSync(file) || !statSync(file).isFile())
      return void response.writeHead(404).end()
    const type = types[extname(file)] ?? 'text/plain'
    const kept = { 'Cache-Control': `max-age=${keepSeconds}` }
    response.writeHead(200, { 'Content-Type': type, ...kept, ...(isolated ? isolation : {}) })
    createReadStream(file).pipe(response)
  })
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  return { address: `http://localhost:${(server.address() as AddressInfo).port}`, server } // it listens on a port
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { address } = await serve(Number(process.env.PORT ?? 8080))
  console.log(`${address}/examples/browser/index.html`)
}
