/**
 * The studio in a real Chromium: how long a frame of a timeline takes while it is panned and zoomed, one row a role and one line a
 * rank. There is nobody to race, since other pages draw an element a span: the numbers stand alone.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium, type Page } from 'playwright-core'
import type { Options, Say } from './main.js'
import type { Result } from './race.js'

const places = [process.env.LOCKSTEP_CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome']
const step =
  'plan?model=llama3-405b&on=h100*16384&seq=8192&batch=2048&plan=tp8.sp.pp16.dp128.z1.m16.1f1b.bf16&tab=timeline&lang=en'

export async function studio(say: Say, { rounds = 200 }: Options): Promise<Result[]> {
  const executablePath = places.find(place => place !== undefined && existsSync(place))
  if (executablePath === undefined) {
    say('skipped: no Chromium (set LOCKSTEP_CHROMIUM)')
    return []
  }
  const server = spawn(process.execPath, ['bin/lockstep.mjs', 'studio', '--no-open', '--json', '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const profile = mkdtempSync(join(tmpdir(), 'lockstep-bench-'))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    args: ['--no-sandbox', '--disable-gpu'],
  })
  try {
    const page = await context.newPage()
    await page.setViewportSize({ width: 1500, height: 900 })
    const { value } = await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next()
    const { url } = JSON.parse(value) as { readonly url: string } // what --json prints
    await page.goto(url)
    await page.goto(`${new URL(url).origin}/#/${step}`)
    await page.waitForSelector('.timeline-picture', { timeout: 120_000 })
    const roles = await frames(page, 'one row a role', rounds)
    await page.selectOption('.timeline .tools select', 'ranks')
    return [roles, await frames(page, 'one line a rank, 16,384 of them', rounds)]
  } finally {
    await context.close()
    server.kill()
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Keys that pan and zoom, to and fro; what each frame took says the page itself. */
async function frames(page: Page, title: string, rounds: number): Promise<Result> {
  await page.focus('.timeline-picture')
  const keys = ['+', '+', 'd', 'd', 'a', '+', 'd', '-', 'a', '-', '-', 'd']
  await page.evaluate(() => performance.clearMeasures('timeline frame'))
  for (let n = 0; n < rounds; n++) await page.keyboard.press(keys[n % keys.length]!)
  await page.waitForTimeout(200)
  const times = await page.evaluate(() =>
    performance.getEntriesByName('timeline frame').map(({ duration }) => duration / 1000),
  )
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
  return {
    title,
    entries: [{ name: 'a frame', times, best: at(0), median: at(0.5) }],
    notes: [`p95 ${(at(0.95) * 1000).toFixed(2)} ms`],
  }
}

export const showStudio = (results: readonly Result[]): string =>
  results
    .map(({ title, entries, notes = [] }) => {
      const [entry] = entries
      const median =
        entry && 'median' in entry
          ? `median ${(entry.median * 1000).toFixed(2)} ms of ${entry.times.length} frames`
          : ''
      return `${title}: ${[median, ...notes].join(', ')}`
    })
    .join('\n')
