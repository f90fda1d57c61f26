/** The page of runs, in a real browser: on WebAssembly, on this machine through the server, and without threads. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { processIo } from '../src/cli/io.js'
import { serveStudio } from '../src/cli/studio/server.js'
import { openData, parseJob, samplerOf, startSession, train } from '../src/index.js'
import { nodeFiles } from '../src/node/index.js'
import { later } from './families.js'
import { hostStudio, inChromium, studioPages } from './studio-page.js'

const home = process.cwd()
const pages = studioPages()

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const state = (page: Page, ...states: string[]) =>
  page.waitForSelector(states.map(one => `.status [data-state="${one}"]`).join(', '), { timeout: 120_000 })

/** What a click on a file of a run on this machine saves. */
async function savedBy(page: Page, name: string): Promise<string> {
  const [saved] = await Promise.all([page.waitForEvent('download'), page.click(`.files a[download="${name}"]`)])
  return readFileSync(await saved.path(), 'utf8')
}

/** What a download holds. */
const fileOf = (page: Page, name: string) =>
  page.evaluate(async (name: string) => {
    const { document } = globalThis as unknown as { document: { querySelector(q: string): { href: string } | null } }
    const { href } = document.querySelector(`.files a[download="${name}"]`)!
    return await (await fetch(href)).text()
  }, name)

interface Line {
  readonly step: number
  readonly loss: number
  readonly evalLoss?: number
  readonly sample?: string
}

/** The same job on Node's WebAssembly. */
async function onNode(yaml: string, steps: number, prompt: string): Promise<Line[]> {
  const { job: parsed } = parseJob(yaml)
  const job = { ...parsed!, training: { ...parsed!.training, steps } }
  const { dataset, tokenizer } = await openData(job, nodeFiles(), { locate: name => join('docs', name) })
  const session = await startSession(job, dataset, { kernels: 'wasm' })
  const sampler = await samplerOf(job, tokenizer, { prompt })
  const lines: Line[] = []
  for await (const { step, loss, evalLoss } of train(session))
    lines.push({ step, loss, ...(evalLoss !== undefined && { evalLoss, sample: await sampler.sample(session) }) })
  await session.stop()
  return lines
}

const brief = ({ step, loss, evalLoss, sample }: Line): Line => ({
  ...{ step, loss },
  ...(evalLoss !== undefined && { evalLoss }),
  ...(sample !== undefined && { sample }),
})

later(
  'in the page: loss falls, samples are written, memory is as planned; losses and samples are Node’s to the bit',
  inChromium,
  async () => {
    const { page, open, isFine } = await pages.tab()
    await open('run?job=four&steps=25&predicted=yes')
    await press(page, 'Start')
    await state(page, 'done')
    const lines: Line[] = (await fileOf(page, 'metrics.jsonl'))
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
      .filter(line => !('event' in line))
    equal(lines.length, 25)
    ok(lines[24].loss < lines[0].loss - 0.5)
    deepEqual(lines.map(brief), await onNode(await fileOf(page, 'job.yaml'), 25, 'The '))
    match((await page.textContent('.run'))!, /Measured is what was planned, to the byte, on all 4 ranks/)
    match((await page.textContent('.run'))!, /Step 25 took .*; at the rates this run has shown, a simulation has it in/)
    match((await page.textContent('.samples'))!, /step 25.*The /s)
    ok((await page.$$('.timeline canvas')).length >= 2, 'measured, and predicted below it')
    ok((await fileOf(page, 'trace.json')).includes('"traceEvents"'))
    match(await fileOf(page, 'checkpoint.tar'), /^step-0*25\//)
    isFine()
    await page.close()
  },
)

later('in the page: a rank that is ended is named with those who wait for it; Stop stops', inChromium, async () => {
  const { page, open, isFine } = await pages.tab()
  await open('run?job=four&steps=90000&sample=')
  await press(page, 'Start')
  await press(page, 'End rank 3')
  await state(page, 'failed')
  match(
    (await page.textContent('.trouble'))!,
    /rank 3 failed: its thread[\s\S]*rank \d waiting in .*waiting for rank 3/,
  )
  await press(page, 'Start')
  await state(page, 'running')
  await page.locator('.status strong', { hasText: 'step' }).waitFor()
  // What a reader looks at closer stays so while other steps follow.
  await page.getByRole('button', { name: 'Zoom in' }).first().click()
  const seen = `document.querySelector('.timeline-map').getAttribute('aria-valuetext')`
  await page.waitForFunction(`!${seen}.startsWith('0 s')`)
  for (let n = 0; n < 2; n++) {
    const now: string = await page.evaluate(seen)
    await page.waitForFunction(`${seen} !== ${JSON.stringify(now)}`)
    ok(!(await page.evaluate<string>(seen)).startsWith('0 s'))
  }
  // Another language, another page and back: the run goes on.
  await page.getByRole('button', { name: '中文' }).click()
  await page.getByRole('button', { name: 'English' }).click()
  await page.evaluate(`location.hash = '#/schedule?lang=en'`)
  await page.waitForSelector('.cells')
  await page.goBack()
  await press(page, 'Files of the last step, while it goes on')
  await page.locator('.files a[download="checkpoint.tar"]').waitFor()
  match((await page.textContent('.files'))!, /after step \d+/)
  match(await fileOf(page, 'checkpoint.tar'), /^step-/)
  ok((await fileOf(page, 'trace.json')).includes('"traceEvents"'))
  match(await fileOf(page, 'metrics.jsonl'), /"loss":/)
  await state(page, 'running')
  await press(page, 'Stop')
  await state(page, 'stopped')
  match(await fileOf(page, 'checkpoint.tar'), /^step-/)
  isFine()
  await page.close()
})

later('on this machine: a native run streams to the page, is hit by faults, and is stopped', inChromium, async t => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-runs-'))
  process.chdir(folder) // runs are below where the server is
  const studio = await serveStudio({ port: 0, root: join(home, 'dist/studio/page') }, processIo())
  t.after(async () => {
    process.chdir(home)
    await studio.close().catch(() => {}) // by the test itself
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const { page, isFine } = await pages.tab({ address: `http://127.0.0.1:${studio.port}` })
  await page.goto(studio.url)
  await page.waitForSelector('main h1')
  const address: string = await page.evaluate('location.href')
  ok(!address.includes('token'), address)
  deepEqual(await page.context().cookies(), [])
  await page.goto(`http://127.0.0.1:${studio.port}/#/run?job=four&steps=90000&where=machine`)
  await press(page, 'Start')
  await page.waitForSelector('.timeline canvas')
  match(await savedBy(page, 'checkpoint.tar'), /^step-/)
  ok((await savedBy(page, 'trace.json')).includes('"traceEvents"'))
  await state(page, 'running')
  // Last: with such a rate a run does not go on for long.
  await press(page, 'Learning rate x100')
  await page.locator('.events', { hasText: 'lr:factor=100' }).waitFor()
  await press(page, 'Stop')
  await state(page, 'stopped')
  const lines = (await savedBy(page, 'metrics.jsonl')).trim().split('\n')
  ok(lines.length > 3 && lines.some(line => line.includes('"lr":0.3')))
  match((await page.textContent('.run'))!, /Measured is what was planned, to the byte, on all 4 ranks/)
  match(readFileSync('runs/latest/tutorial.md', 'utf8'), /^# /)
  isFine()
  await studio.close()
  await press(page, 'Start')
  await state(page, 'failed')
  match((await page.textContent('.trouble'))!, /does not respond/)
  await page.close()
})

later('without threads the interpreter runs a tiny job, and says of a large one that it is', inChromium, async () => {
  const plain = await hostStudio(false)
  const { page, open, isFine } = await pages.tab({ address: plain.address })
  await page.addInitScript('delete Navigator.prototype.serviceWorker')
  await open('run?steps=2&sample=')
  match((await page.textContent('.run'))!, /the interpreter runs all of them/)
  await press(page, 'Start')
  await state(page, 'done')
  match((await page.textContent('.run'))!, /in 2 steps/)
  await open('run?job=four&steps=200&sample=')
  const large = page.locator('.large')
  await large.waitFor()
  match((await large.textContent())!, /A step is [\d.]+M FLOP: .* about [\d.]+ s .*npx lockstep train job\.yaml/)
  ok(await page.getByRole('button', { name: 'Start', exact: true }).isDisabled())
  await press(page, 'Start all the same')
  await state(page, 'starting', 'running')
  isFine()
  await page.close()
  plain.close()
})

later(
  'the first page trains four ranks by itself and ends them when it is left; without motion a button starts them',
  inChromium,
  async () => {
    const { page, open, isFine } = await pages.tab()
    await open('')
    await page.waitForSelector('[data-live="running"]:not([data-steps="1"])')
    match((await page.textContent('.later figcaption')) ?? '', /^Step \d+ of 150: the loss went from 5\.\d+ to /)
    await page.waitForSelector('.later .timeline canvas')
    const ended = page.workers().map(worker => worker.waitForEvent('close'))
    await page.click('header a[href^="#/learn"]')
    await Promise.any(ended)
    await page.emulateMedia({ reducedMotion: 'reduce' })
    await open('')
    await page.waitForSelector('[data-live="resting"]')
    await page.click('.later .tools button')
    await page.waitForSelector('[data-live="starting"], [data-live="running"]')
    await page.click('.later .tools button')
    await page.waitForSelector('[data-live="ended"]')
    isFine()
    await page.close()
  },
)
