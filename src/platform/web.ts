/**
 * A browser: Web Workers, fetch, no native code. The page must be cross-origin isolated (COOP same-origin, COEP
 * require-corp), or there is no memory to share. The few names of the DOM used here are declared here: its types would
 * claim that all of it is there in Node too.
 */
import type { Platform, ThreadEvents, ThreadHandle } from './platform.js'

interface WorkerError {
  readonly message?: string
  preventDefault(): void
}
interface Port<In, Out> {
  postMessage(message: Out): void
  addEventListener(type: 'message', hear: (event: { readonly data: In }) => void): void
  addEventListener(type: 'error', hear: (event: WorkerError) => void): void
}
interface WebWorker<In, Out> extends Port<In, Out> {
  terminate(): void
}
declare const Worker: new <In, Out>(url: URL, options: { readonly type: 'module' }) => WebWorker<In, Out>
declare const navigator: { readonly hardwareConcurrency?: number; readonly userAgent?: string }
/** A page has one, if it may store anything; a worker has none. */
declare const localStorage: { getItem(name: string): string | null; setItem(name: string, text: string): void }
declare const crossOriginIsolated: boolean

/** A worker's first message: those sent before its modules are evaluated would be lost. */
type Listening = { readonly type: 'listening' }

const isListening = (message: unknown): message is Listening => (message as Partial<Listening>)?.type === 'listening' // read, then compared

/** What a thread says that ends itself. */
const died = 'its thread ended'

function spawn<To, From>(module: URL, { message, death }: ThreadEvents<From>): ThreadHandle<To> {
  const worker = new Worker<From | Listening, To>(module, { type: 'module' })
  let early: To[] | undefined = []
  worker.addEventListener('message', ({ data }) => {
    if (!isListening(data)) return message(data)
    for (const waiting of early ?? []) worker.postMessage(waiting)
    early = undefined
  })
  worker.addEventListener('error', event => {
    event.preventDefault() // who started the thread is told: a worker above would end by it as well
    const message = event.message?.replace(/^Uncaught (Error: )?/, '')
    const phrase = message === died ? '.thread/died' : '.thread/unloaded'
    death(message && message !== died ? message : { phrase, values: {} })
  })
  return {
    post: given => (early ? void early.push(given) : worker.postMessage(given)),
    keepAlive: () => {},
    async end() {
      worker.terminate()
      death({ phrase: '.thread/ended', values: {} })
    },
    leaveBehind: () => worker.terminate(),
  }
}

/** The files that were fetched: a thread reads them at once, which a page cannot. */
class FetchedFiles {
  readonly #bytes = new Map<string, Uint8Array>()

  async fetch({ href }: URL): Promise<void> {
    if (this.#bytes.has(href)) return
    const response = await fetch(href)
    if (!response.ok) throw new Error(`${href}: ${response.status} ${response.statusText}`)
    this.#bytes.set(href, new Uint8Array(await response.arrayBuffer()))
  }

  read(file: string | URL): Uint8Array {
    const bytes = this.#bytes.get(String(file))
    if (!bytes) throw new Error(`${file} was not fetched: await prepareKernels() first`)
    return bytes
  }
}

function recall(name: string): string | undefined {
  try {
    return localStorage.getItem(`lockstep ${name}`) ?? undefined
  } catch {
    return undefined
  }
}

function remember(name: string, text: string): void {
  try {
    localStorage.setItem(`lockstep ${name}`, text)
  } catch {}
}

export function webPlatform(): Platform {
  const files = new FetchedFiles()
  return {
    cores: navigator.hardwareConcurrency ?? 1,
    cpu: `${navigator.hardwareConcurrency ?? 1} cores`, // its model a browser does not tell
    runtime: navigator.userAgent ?? '',
    caches: () => undefined,
    variants: [],
    recall,
    remember,
    memoryBytes: 2 ** 32, // what WebAssembly can address; what the machine has a browser does not tell
    spawn,
    listen<To, From>(hear: (message: To) => void) {
      const port = globalThis as unknown as Port<To, From | Listening> // in a worker
      port.addEventListener('message', ({ data }) => hear(data))
      port.postMessage({ type: 'listening' })
      return (message: From) => port.postMessage(message)
    },
    answer() {
      throw new Error('internal: a page encloses nothing')
    },
    die() {
      const scope = globalThis as unknown as { close(): void; reportError(e: Error): void } // in a worker
      scope.reportError(new Error(died))
      scope.close()
      throw new Error(died)
    },
    cpuSeconds: () => performance.now() / 1000, // a page is not told
    async fetch(urls) {
      requireIsolation()
      await Promise.all(urls.map(url => files.fetch(url)))
    },
    read: file => files.read(file),
    write: (path, text) => console.error(`${path}:\n${text}`), // a page has no files
    nativeMissing: () => 'a browser runs none',
    loadNative() {
      throw new Error('internal: a browser runs no native kernels')
    },
    enableRelaxedSimd: () => {},
    pause: () => new Promise(resolve => setTimeout(resolve, 0)),
    later: (ms, call) => void setTimeout(call, ms),
  }
}

function requireIsolation(): void {
  if (crossOriginIsolated) return
  throw new Error(
    'this page is not cross-origin isolated, so its threads cannot share memory: serve it with ' +
      'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp',
  )
}
