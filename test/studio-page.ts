/**
 * The built studio in a real Chromium: served from a folder as any web host would, with or without the headers that isolate a page.
 * Everything a page says on its console, throws or fails to load is kept, and a test can ask that there was nothing.
 */
import { deepEqual } from 'node:assert/strict'
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join, normalize, resolve } from 'node:path'
import { after } from 'node:test'
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { findChromium, noChromium } from './chromium.js'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
}
const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
}
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking']
const patience = 60_000
/** Of this repository, wherever a test goes. */
const built = resolve('dist/studio/page')
const executablePath = findChromium()

/** Options of a test that needs a browser. */
export const inChromium = executablePath ? { timeout: 240_000 } : { skip: noChromium }

export interface Host {
  readonly address: string
  readonly close: () => void
}

/** Serves dist/studio/page; `isolated` false: without any header, like the plainest of hosts. What is `refused` is not there. */
export async function hostStudio(isolated = true, refused: readonly string[] = []): Promise<Host> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const file = join(built, normalize(pathname === '/' ? '/index.html' : pathname))
    if (refused.includes(pathname) || !existsSync(file) || !statSync(file).isFile())
      return void response.writeHead(404).end()
    response.writeHead(200, { 'Content-Type': types[extname(file)] ?? 'text/plain', ...(isolated && isolation) })
    createReadStream(file).pipe(response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  server.unref() // of a test that fails nobody closes it, and the file must end all the same
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { address: `http://localhost:${(server.address() as AddressInfo).port}`, close } // it listens on a port
}

export interface Watched {
  readonly page: Page
  /** What went wrong so far, in the page's own words. */
  readonly complaints: string[]
  /** `learn/zero?lang=zh`: opens a place, and waits until it has drawn something. */
  readonly open: (place: string) => Promise<void>
  /** Fails with what the page complained of. */
  readonly isFine: () => void
}

function watch(page: Page, address: string): Watched {
  const complaints: string[] = []
  page.on('console', message => {
    if (message.type() !== 'error' && message.type() !== 'warning') return
    complaints.push(`${message.text()} ${message.location().url}`.trimEnd())
  })
  page.on('pageerror', error => complaints.push(String(error)))
  page.on('requestfailed', request => {
    if (request.failure()?.errorText !== 'net::ERR_ABORTED') complaints.push(`failed: ${request.url()}`)
  })
  page.on('response', response => {
    if (response.status() >= 400) complaints.push(`${response.status()}: ${response.url()}`)
  })
  const open = async (place: string) => {
    await page.goto(`${address}/#/${place}`)
    // What the last place had drawn is not what is waited for.
    await page.evaluate('new Promise(done => requestAnimationFrame(() => setTimeout(done)))')
    await page.waitForSelector('main h1')
  }
  return { page, complaints, open, isFine: () => deepEqual(complaints, []) }
}

interface Size {
  readonly width: number
  readonly height: number
}

export interface StudioPages {
  /** A tab at the studio, or at another host. */
  readonly tab: (at?: { readonly address?: string; readonly size?: Size }) => Promise<Watched>
}

/**
 * The studio, hosted and browsed from the first tab on; both end after the file's tests. A file of which nothing runs starts nothing,
 * since nothing would end it.
 */
export function studioPages(options: Browsing = {}): StudioPages {
  let started: Promise<Started> | undefined
  const tab: StudioPages['tab'] = async ({ address, size = { width: 1280, height: 800 } } = {}) => {
    started ??= start(options)
    const { context, host } = await started
    const page = await context.newPage()
    await page.setViewportSize(size)
    return watch(page, address ?? host.address)
  }
  after(async () => (await started)?.close())
  return { tab }
}

/** What the browser is told. */
type Browsing = Pick<BrowserContextOptions, 'serviceWorkers'>

interface Started {
  readonly context: BrowserContext
  readonly host: Host
  readonly close: () => Promise<void>
}

async function start(options: Browsing): Promise<Started> {
  const profile = mkdtempSync(join(tmpdir(), 'lockstep-studio-'))
  const host = await hostStudio()
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: executablePath!,
    args: flags,
    timeout: patience,
    ...options,
  })
  context.setDefaultTimeout(patience)
  const close = async () => {
    await context.close()
    host.close()
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
  }
  return { context, host, close }
}

interface Axe {
  run(options: object): Promise<{ violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[] }>
}

/** What axe finds wrong with a page. */
export async function violations(page: Page): Promise<readonly string[]> {
  const isThere = await page.evaluate(() => 'axe' in globalThis)
  if (!isThere) await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'))
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: Axe } // the lines above brought it
    return (await axe.run({ resultTypes: ['violations'] })).violations
  })
  return found.flatMap(({ id, nodes }) => nodes.map(node => `${id} ${node.target.join(' ')}: ${node.failureSummary}`))
}
