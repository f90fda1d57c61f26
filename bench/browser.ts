/** The studio in a real Chromium, served by `lockstep studio`, and what its page's own thread did, from a trace. */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium, type Page } from 'playwright-core'

const places = [process.env.LOCKSTEP_CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome']

export interface Studio {
  readonly page: Page
  readonly address: string
  /** `plan?tab=search`. */
  readonly open: (place: string) => Promise<void>
  readonly close: () => Promise<void>
}

/** Undefined: there is no Chromium. */
export async function openStudio(folder = process.cwd()): Promise<Studio | undefined> {
  const executablePath = places.find(place => place !== undefined && existsSync(place))
  if (executablePath === undefined) return undefined
  const command = [join(process.cwd(), 'bin/lockstep.mjs'), 'studio', '--no-open', '--json', '--port', '0']
  const server = spawn(process.execPath, command, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
  const profile = mkdtempSync(join(tmpdir(), 'lockstep-bench-'))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    args: ['--no-sandbox', '--disable-gpu'],
  })
  context.setDefaultTimeout(120_000)
  const page = await context.newPage()
  await page.setViewportSize({ width: 1500, height: 900 })
  const { value } = await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next()
  const { url } = JSON.parse(value) as { readonly url: string } // what --json prints
  await page.goto(url)
  await page.waitForSelector('main h1')
  const address = new URL(url).origin
  return {
    ...{ page, address, open: async place => void (await page.goto(`${address}/#/${place}`)) },
    async close() {
      await context.close()
      server.kill()
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** Keys, wheel and mouse as Chromium itself has them: what Playwright runs in the page around each of its own would be timed too. */
export async function handsOf(page: Page) {
  const session = await page.context().newCDPSession(page)
  const mouse = (type: 'mouseMoved' | 'mousePressed' | 'mouseReleased', [x, y]: Point, isHeld: boolean) =>
    session.send('Input.dispatchMouseEvent', {
      type,
      x,
      y,
      ...(isHeld && { button: 'left', buttons: 1 }),
      clickCount: 1,
    })
  return {
    async key(key: string): Promise<void> {
      await session.send('Input.dispatchKeyEvent', { type: 'keyDown', key, text: key })
      await session.send('Input.dispatchKeyEvent', { type: 'keyUp', key })
    },
    move: async (to: Point, isHeld = false) => void (await mouse('mouseMoved', to, isHeld)),
    press: async (at: Point) => void (await mouse('mousePressed', at, true)),
    release: async (at: Point) => void (await mouse('mouseReleased', at, true)),
    /** With Ctrl. */
    async zoom([x, y]: Point, deltaY: number): Promise<void> {
      await session.send('Input.dispatchMouseEvent', { type: 'mouseWheel', x, y, deltaX: 0, deltaY, modifiers: 2 })
    },
  }
}

type Point = readonly [x: number, y: number]
export type Hands = Awaited<ReturnType<typeof handsOf>>

/** Seconds that the page's own thread was busy for an input: by the clock, and on a core, which others can lengthen least. */
export interface Busy {
  readonly clock: number
  readonly core: number
  /** Of frames alone: what is drawn, laid out, painted and handed over. */
  readonly frames: number
  readonly framesClock: number
}

/** An event of Chromium's trace, as far as it is read here. */
interface Traced {
  readonly name: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  readonly ts: number
  readonly dur?: number
  readonly tdur?: number
  readonly args?: { readonly name?: string; readonly data?: { readonly type?: string } }
}

/** What the page did for each input: everything from one of them to the next. */
export async function perInput(page: Page, input: string, act: () => Promise<void>): Promise<Busy[]> {
  const events = await traced(page, act)
  const at = events.find(event => event.name === 'EventDispatch' && event.args?.data?.type === input)
  const own = events.filter(({ pid, tid }) => pid === at?.pid && tid === at.tid)
  const inputs = own.filter(({ name, args }) => name === 'EventDispatch' && args?.data?.type === input)
  const tasks = own.filter(({ name, ph }) => name === 'RunTask' && ph === 'X')
  const frames = own.filter(({ name, ph }) => name === 'ProxyMain::BeginMainFrame' && ph === 'X')
  // A task's beginning lies before that of the event in it.
  const begins = inputs.map(
    ({ ts }) => tasks.findLast(task => task.ts <= ts && task.ts + (task.dur ?? 0) >= ts)?.ts ?? ts,
  )
  return begins.slice(0, -1).map((begin, n) => {
    const during = (all: readonly Traced[]) => all.filter(({ ts }) => ts >= begin && ts < begins[n + 1]!)
    const sum = (of: 'dur' | 'tdur', all = tasks) => during(all).reduce((sum, each) => sum + (each[of] ?? 0), 0) / 1e6
    const all = { clock: sum('dur'), core: sum('tdur') }
    return { ...all, frames: sum('tdur', frames), framesClock: sum('dur', frames) }
  })
}

/** Seconds on cores, of the page's own thread and its workers, between two marks that the page makes. */
export async function coresBetween(page: Page, [first, last]: readonly [string, string], act: () => Promise<void>) {
  const events = await traced(page, act)
  const [begin, end] = [first, last].map(mark => events.find(({ name }) => name === mark)) as [Traced, Traced] // made by the page
  const threads = events
    .filter(({ name, args }) => name === 'thread_name' && /^(CrRendererMain|DedicatedWorker)/.test(args?.name ?? ''))
    .map(({ tid }) => tid)
  const isBetween = ({ ts, dur = 0 }: Traced) => ts + dur >= begin.ts && ts <= end.ts
  const tasks = events.filter(
    ({ name, ph, pid, tid }) => name === 'RunTask' && ph === 'X' && pid === begin.pid && threads.includes(tid),
  )
  return tasks.filter(isBetween).reduce((sum, { tdur = 0 }) => sum + tdur, 0) / 1e6
}

async function traced(page: Page, act: () => Promise<void>): Promise<Traced[]> {
  const session = await page.context().newCDPSession(page)
  const events: Traced[] = []
  session.on('Tracing.dataCollected', ({ value }) => events.push(...(value as unknown as Traced[])))
  const traceConfig = {
    includedCategories: ['blink.user_timing', 'cc', 'devtools.timeline', 'disabled-by-default-devtools.timeline'],
    excludedCategories: ['*'],
  }
  await session.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig })
  await act()
  const complete = new Promise(resolve => session.once('Tracing.tracingComplete', resolve))
  await session.send('Tracing.end')
  await complete
  await session.detach()
  return events.sort((a, b) => a.ts - b.ts)
}
