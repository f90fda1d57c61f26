/**
 * The engine in a browser: a page under headless Chromium, its ranks Web Workers, its kernels WebAssembly, must leave
 * what Node leaves with the same kernels. Same bits: sums are made in rank order, and WebAssembly leaves one thing open,
 * whether relaxed SIMD's multiply-add rounds once or twice, which the CPU decides for both.
 */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { type Serving, serve } from '../examples/browser/serve.js'
import * as suite from './browser/suite.js'
import { findChromium, noChromium } from './chromium.js'
import { later, test } from './families.js'

test('only what is Node’s of the platform, beside the command line and the folder node, imports Node', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts') && !/^(cli|node)\b/.test(file))
    .filter(file => /from 'node:|import\('node:/.test(readFileSync(join('src', file), 'utf8')))
  deepEqual(
    files.sort(),
    ['node-cache.ts', 'node-disk.ts', 'node-enclosure.ts', 'node.ts'].map(file => join('platform', file)),
  )
})

const flags = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync'],
]
const executablePath = findChromium()
const options = executablePath ? { timeout: 240_000 } : { skip: noChromium }
const patience = 120_000

const profile = mkdtempSync(join(tmpdir(), 'lockstep-browser-'))
const closing: (() => unknown)[] = []
let context: BrowserContext
let serving: Serving

before(async () => {
  if (!executablePath) return
  context = await chromium.launchPersistentContext(profile, { executablePath, args: flags, timeout: patience })
  context.setDefaultTimeout(patience)
  closing.push(() => context.close())
  serving = await start(true)
})

after(async () => {
  for (const close of closing.reverse()) await close()
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
})

async function start(isolated: boolean): Promise<Serving> {
  const started = await serve(0, isolated, 600) // pages and their workers load the same modules
  closing.push(
    () => started.server.closeAllConnections(),
    () => started.server.close(),
  )
  return started
}

/** A page that shows `path`, with what went wrong in it. */
async function visit(address: string): Promise<{ page: Page; errors: string[] }> {
  const page = await context.newPage()
  const errors: string[] = []
  page.on('pageerror', error => errors.push(error.message))
  page.on('requestfailed', request => errors.push(`${request.url()} failed`))
  page.on('response', response => response.ok() || errors.push(`${response.url()}: ${response.status()}`))
  await page.goto(address)
  return { page, errors }
}

const inPage = <T>(page: Page, call: string) => page.evaluate<T>(`suite.${call}`)

/** One page for all that runs in it: most of a page's time is loading its modules. */
let shared: Promise<Page> | undefined
const ownPage = (): Promise<Page> => {
  shared ??= suitePage(serving)
  return shared
}

async function suitePage(from: Serving): Promise<Page> {
  const { page, errors } = await visit(`${from.address}/test/browser/page.html`)
  await page.waitForFunction('globalThis.suite').catch(error => {
    throw new Error([error.message, ...errors].join('\n'))
  })
  return page
}

for (const name of ['gpt', 'llama'] as const)
  later(`${name}, dp 2 tp 2 pp 2: a page's losses, parameters and peaks are Node's, to the bit`, options, async () => {
    const page = await ownPage()
    const theirs = await inPage<Awaited<ReturnType<typeof suite.train>>>(page, `train('${name}')`)
    const ours = await suite.train(name)
    equal(theirs.outcomes.length, 4)
    ok(theirs.outcomes.every(({ loss }) => Number.isFinite(loss)))
    deepEqual(theirs, ours)
  })

test('a group of four workers sums', options, async () => {
  const page = await ownPage()
  const theirs = await inPage(page, 'allReduce()')
  deepEqual(theirs, Array(4).fill([6, 6]))
  deepEqual(theirs, await suite.allReduce())
})

later('a rank that does not come is named in a page as it is in Node', options, async () => {
  const page = await ownPage()
  const theirs = await inPage<string>(page, 'fail(false)')
  match(theirs, /^all ranks are stalled[\s\S]*waiting for rank 1/)
  equal(theirs, await suite.fail(false))
})

later('a worker that is ended mid-step ends the step', options, async () => {
  const page = await ownPage()
  const theirs = await inPage<string>(page, 'fail(true)')
  match(theirs, /^rank 1 failed: its thread was terminated[\s\S]*rank 0 waiting in .*waiting for rank 1/)
})

later('a page that is not isolated is told which headers it needs', options, async () => {
  const page = await suitePage(await start(false))
  const message = await inPage<string>(page, 'allReduce().then(() => "", error => error.message)')
  match(message, /not cross-origin isolated.*Cross-Origin-Opener-Policy: same-origin/)
  await page.close()
})

later('examples/browser trains, and its loss falls', options, async () => {
  const { page, errors } = await visit(`${serving.address}/examples/browser/index.html`)
  await page.waitForFunction("document.querySelector('pre').textContent.endsWith('done\\n')").catch(error => {
    throw new Error([error.message, ...errors].join('\n'))
  })
  const text = (await page.textContent('pre')) ?? ''
  const losses = Array.from(text.matchAll(/loss (\S+)/g), ([, loss]) => Number(loss))
  match(text, /laws broken: 0\nWebAssembly, .*, 8 ranks, one thread each/)
  equal(losses.length, 20)
  ok(losses[19] < losses[0] - 0.5, `from ${losses[0]} to ${losses[19]}`)
  await page.close()
})
