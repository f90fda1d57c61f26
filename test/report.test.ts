/** The page of a run: everything in one file, whatever the run says of itself. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { chromium } from 'playwright-core'
import { chartSvg } from '../src/report/index.js'
import { findChromium, noChromium } from './chromium.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

const shares = { compute: 0.5, communication: 0.25, waiting: 0.15, bubble: 0.1 }
const line = (step: number) =>
  JSON.stringify({
    step,
    loss: step === 3 ? null : 5 / step,
    seconds: 0.5,
    gradientNorm: 1,
    lr: 1e-3,
    shares,
    tokensPerSecond: 100,
  })
const event = {
  ...{ step: 2, event: 'straggler', severity: 'warning', rank: 3, message: '<script>alert(1)</script>', numbers: {} },
}
const about = {
  ...{ format: 'lockstep-run-1', run: 'x', started: '2026-11-17T00:00:00Z', software: 'emitted', world: 4, host: 'n1' },
  prediction: { cluster: 'h100', seconds: 0.4, shares: { ...shares, compute: 0.6, bubble: 0 } },
}
const files = {
  'run/metrics.jsonl': `${[line(1), line(2), JSON.stringify(event), line(3), line(4)].join('\n')}\n{"cut`,
  'run/about.json': JSON.stringify(about),
}

const pageOf = async (): Promise<string> => {
  const { code, written, err } = await lockstep(['report', 'run'], files)
  equal(code, 0, err)
  return written['run/report.html']
}

test('loss, time by part as predicted and measured, events; nothing from elsewhere, nothing obeyed', async () => {
  const page = await pageOf()
  for (const part of ['aria-label="Loss"', 'aria-label="measured"', 'aria-label="predicted"', '<td>60.0 %</td>'])
    ok(page.includes(part), part)
  match(page, /&lt;script&gt;alert\(1\)&lt;\/script&gt;/)
  match(page, /5\.0000 → 1\.2500/)
  ok(!/<script|<link|<img|src=|@import|url\(|https?:(?!\/\/www\.w3\.org)/.test(page))
  match(page, /prefers-color-scheme:dark/)
  deepEqual((await lockstep(['report', 'run', '--out', 'page.html'], files)).out, 'written: page.html\n')
})

test('a line with fields of another kind is read without them', async () => {
  const alien = JSON.stringify({ ...JSON.parse(line(1)), checkpoint: 5, shares: 'half', lr: {}, gradientNorm: 'x' })
  const { code, out, err } = await lockstep(['report', 'run', '--json'], { 'run/metrics.jsonl': `${alien}\n` })
  equal(code, 0, err)
  deepEqual(JSON.parse(out), { ok: true, written: 'run/report.html' })
})

test('train leaves the page in its folder', async () => {
  const job = {
    ...{ model: { family: 'gpt', layers: 1, embed: 8, heads: 2, vocab: 16 }, plan: { dp: 2 } },
    training: { seq: 4, globalBatch: 4, steps: 2 },
  }
  const { written } = await lockstep(['train', 'job.json', '--kernels', 'reference'], {
    'job.json': JSON.stringify(job),
  })
  match(
    written['runs/2026-01-02-job/report.html'],
    /gpt, [\d.]+ [kM]? ?parameters[\s\S]*<h2>Memory of the rank with the highest peak<\/h2>/,
  )
})

test('a chart of a hundred thousand points draws some of them, gaps and ends', () => {
  const points = Array.from({ length: 1e5 }, (_, x): [number, number] => [x, x === 5e4 ? 7 : Math.sin(x)])
  const svg = chartSvg({ title: 'waves', series: [{ label: 'sine', points }] })
  ok(svg.length < 40_000, String(svg.length))
  match(svg, />7</)
  equal(
    chartSvg({
      title: 'gap',
      series: [
        {
          label: '',
          points: [
            [1, 1],
            [2, Number.NaN],
            [3, 2],
          ],
        },
      ],
    }).match(/M/g)?.length,
    2,
  )
  match(chartSvg({ title: 'none', series: [] }), /no data/)
})

const executablePath = findChromium()

later(
  'a browser opens it without an error, light and dark',
  { skip: executablePath ? false : noChromium },
  async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'report-')), 'report.html')
    writeFileSync(file, await pageOf())
    const browser = await chromium.launch({ executablePath: executablePath ?? '', args: ['--no-sandbox'] })
    try {
      for (const colorScheme of ['light', 'dark'] as const) {
        const page = await browser.newPage({ colorScheme })
        const errors: string[] = []
        page.on('pageerror', error => errors.push(error.message))
        page.on('console', message => errors.push(message.text()))
        page.on('request', request => request.url().startsWith('file:') || errors.push(request.url()))
        await page.goto(pathToFileURL(file).href)
        const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor')
        deepEqual([errors, ground], [[], colorScheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(20, 23, 31)'])
        equal(await page.locator('svg').count(), 5)
        await page.close()
      }
    } finally {
      await browser.close()
    }
  },
)
