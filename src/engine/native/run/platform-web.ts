/**
 * A browser: Web Workers, fetch, no native code. The page must be cross-origin isolated (COOP same-origin, COEP
 * require-corp), or there is no memory to share. The few names of the DOM used here are declared here: its types would
 * claim that all of it is there in Node too.
 */
import type { Platform, ThreadEvents, ThreadHandle } from './platform.js'
import type { FromRank, ToRank } from './protocol.js'

interface Port<In, Out> {
  postMessage(message: Out): void
  addEventListener(type: 'message', hear: (event: { readonly data: In }) => void): void
  addEventListener(type: 'error', hear: (event: { readonly message?: string }) => void): void
}
interface Thread extends Port<FromRank | Listening, ToRank> {
  terminate(): void
}
declare const Worker: new (url: URL, options: { readonly type: 'module' }) => Thread
declare const navigator: { readonly hardwareConcurrency?: number }
declare const crossOriginIsolated: boolean

/** A worker's first message: those sent before its modules are evaluated would be lost. */
type Listening = { readonly type: 'listening' }

function spawn({ message, death }: ThreadEvents): ThreadHandle {
  const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' })
  let early: ToRank[] | undefined = []
  worker.addEventListener('message', ({ data }) => {
    if (data.type !== 'listening') return message(data)
    for (const waiting of early ?? []) worker.postMessage(waiting)
    early = undefined
  })
  worker.addEventListener('error', event => death(event.message || 'its script could not be loaded'))
  return {
    post: given => (early ? void early.push(given) : worker.postMessage(given)),
    keepAlive: () => {},
    async end() {
      worker.terminate()
      death('its thread was ended')
    },
  }
}

const files = new Map<string, Uint8Array>()

async function fetchOne({ href }: URL): Promise<void> {
  if (files.has(href)) return
  const response = await fetch(href)
  if (!response.ok) throw new Error(`${href}: ${response.status} ${response.statusText}`)
  files.set(href, new Uint8Array(await response.arrayBuffer()))
}

export const web: Platform = {
  cores: navigator.hardwareConcurrency ?? 1,
  memoryBytes: 2 ** 32, // what WebAssembly can address; what the machine has a browser does not tell
  spawn,
  listen(hear) {
    const port = globalThis as unknown as Port<ToRank, FromRank | Listening> // in a worker
    port.addEventListener('message', ({ data }) => hear(data))
    port.postMessage({ type: 'listening' })
    return message => port.postMessage(message)
  },
  async fetch(urls) {
    if (!crossOriginIsolated)
      throw new Error(
        'this page is not cross-origin isolated, so its threads cannot share memory: serve it with ' +
          'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp',
      )
    await Promise.all(urls.map(fetchOne))
  },
  read(file) {
    const bytes = files.get(String(file))
    if (!bytes) throw new Error(`${file} was not fetched: await prepareKernels() first`)
    return bytes
  },
  write: (path, text) => console.error(`${path}:\n${text}`), // a page has no files
  nativeMissing: () => 'a browser runs none',
  loadNative() {
    throw new Error('internal: a browser runs no native kernels')
  },
  enableRelaxedSimd: () => {},
  later: (ms, call) => void setTimeout(call, ms),
}
