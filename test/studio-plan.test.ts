/** The plan's page: its numbers are those of the commands, its controls and suggestions do what they say, and links cannot break it. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { showBytes, showPercent } from '../src/base/index.js'
import { later } from './families.js'
import { lockstep } from './memory-io.js'
import { inChromium, studioPages, type Watched } from './studio-page.js'

const pages = studioPages()
let opened: Promise<Watched> | undefined
/** One tab for all of them: a reader goes from plan to plan too. */
const shared = () => (opened ??= pages.tab())

/** Waits for the exact numbers of the link that is open. */
async function exact(page: Page): Promise<void> {
  await page.waitForSelector('.headline[aria-busy="false"] .tier:has-text("exact")')
}

/** What the page was told by its worker, of which it shows rounded figures. */
const shown = (page: Page) =>
  page.$eval('.headline', element =>
    JSON.parse((element as unknown as { dataset: { numbers: string } }).dataset.numbers),
  )

/** What a command prints as JSON. */
async function command(job: object, name: string, ...args: readonly string[]) {
  const { code, out, err } = await lockstep([name, 'job.json', ...args, '--json'], { 'job.json': JSON.stringify(job) })
  equal(code, 0, err)
  return JSON.parse(out)
}

interface Case {
  readonly link: string
  readonly job: object
  readonly cluster: string
}

const bf16 = { precision: 'bf16' }
const cases: Readonly<Record<string, Case>> = {
  'Llama 3 8B, tp 2 x pp 4 x dp 8': {
    link: 'model=llama3-8b&on=h100*64&seq=8192&batch=128&plan=tp2.sp.pp4.dp8.z1.m16.1f1b.bf16',
    job: {
      model: 'llama3-8b',
      training: { seq: 8192, globalBatch: 128 },
      plan: { ...bf16, tp: 2, sequenceParallel: true, pp: 4, dp: 8, zero: 1, microbatches: 16 },
    },
    cluster: 'h100',
  },
  'Llama 3 405B on 16,384': {
    link: 'model=llama3-405b&on=h100*16384&seq=8192&batch=2048&plan=tp8.sp.pp16.dp128.z1.m16.interleaved.c2.bf16',
    job: {
      model: 'llama3-405b',
      training: { seq: 8192, globalBatch: 2048 },
      plan: {
        ...{ ...bf16, tp: 8, sequenceParallel: true, pp: 16, dp: 128, zero: 1 },
        ...{ microbatches: 16, schedule: 'interleaved', chunks: 2 },
      },
    },
    cluster: 'h100',
  },
  'GPT-2, ZeRO-3, full recomputation': {
    link: 'model=gpt2&on=a100-80*8&seq=1024&batch=64&plan=dp8.z3.m2.full.bf16',
    job: {
      model: 'gpt2',
      training: { seq: 1024, globalBatch: 64 },
      plan: { ...bf16, dp: 8, zero: 3, microbatches: 2, recompute: 'full' },
    },
    cluster: 'a100-80',
  },
  'Mixtral, experts over 8 ranks': {
    link: 'model=mixtral-8x7b&on=h100*32&seq=4096&batch=64&plan=pp4.dp8.ep8.z1.m8.1f1b.bf16',
    job: {
      model: 'mixtral-8x7b',
      training: { seq: 4096, globalBatch: 64 },
      plan: { ...bf16, pp: 4, dp: 8, ep: 8, zero: 1, microbatches: 8 },
    },
    cluster: 'h100',
  },
  'Llama 2 13B on a torus, zero bubble': {
    link: 'model=llama2-13b&on=tpu-v5p*16&seq=4096&batch=32&plan=tp2.sp.pp4.dp2.m16.zb-h1.bf16',
    job: {
      model: 'llama2-13b',
      training: { seq: 4096, globalBatch: 32 },
      plan: { ...bf16, tp: 2, sequenceParallel: true, pp: 4, dp: 2, microbatches: 16, schedule: 'zb-h1' },
    },
    cluster: 'tpu-v5p',
  },
}

for (const [title, { link, job, cluster }] of Object.entries(cases))
  later(`step, MFU, bytes and parts of ${title} are those of the commands`, inChromium, async () => {
    const { page, open } = await shared()
    await open(`plan?${link}`)
    await exact(page)
    const numbers = await shown(page)
    const simulated = await command(job, 'simulate', '--cluster', cluster, '--tokens', '1T')
    equal(numbers.step, simulated.step)
    equal(numbers.mfu, simulated.mfu.palm)
    equal(numbers.tokensPerSecond, simulated.tokensPerSecond)
    equal(numbers.run.days, simulated.run.days)
    const parts = Object.entries(simulated.parts).filter(([, seconds]) => (seconds as number) > 0)
    deepEqual(Object.fromEntries(numbers.parts), Object.fromEntries(parts))
    const { stages } = (await command(job, 'memory')) as {
      stages: { arena: number; peak: Record<string, number> }[]
    }
    deepEqual(
      numbers.ranks.map(({ bytes }: { bytes: number }) => bytes),
      stages.map(({ arena }) => arena),
    )
    const heaviest = Math.max(...stages.map(({ arena }) => arena))
    equal(numbers.bytes, heaviest)
    ok(await page.$('[data-figure="step"]'))
    await page.waitForSelector('.advice small:has-text("Simulated")')
    const why = await page.$$eval('.why li', items => items.map(({ textContent }) => textContent ?? '').join('\n'))
    const bubble = showPercent(simulated.bubble.mean)
    if (/pp\d/.test(link)) ok(why.includes(`the bubble takes ${bubble} of the step`), `${bubble}: ${why}`)
    ok(why.includes(`${showBytes(heaviest)} per rank`), why)
  })

const small = 'model=llama2-7b&on=h100*16&seq=1024&batch=16&plan=tp2.sp.pp2.dp4.z1.m4.1f1b.bf16'
const large = 'model=llama3-8b&on=h100*512&seq=8192&batch=1024&plan=tp2.sp.pp4.dp64.z1.m16.1f1b.bf16'
/** The link follows what a reader does, a moment later. */
const planBecomes = (page: Page, plan: string) =>
  page.waitForURL(({ hash }) => new URLSearchParams(hash.split('?')[1]).get('plan') === plan)

/** Everything above and around the controls has its place. */
async function atRest(page: Page): Promise<void> {
  await exact(page)
  await page.waitForSelector('.plan-controls[aria-busy="false"]')
  await page.waitForSelector('.advice[aria-busy="false"]')
}

later('keys and the mouse move a slider, the link follows, reload and Back restore', inChromium, async () => {
  const { page, open, isFine } = await shared()
  await open(`plan?${small}`)
  await exact(page)
  const slider = page.getByRole('slider', { name: 'tp', exact: true })
  await slider.press('ArrowRight')
  await planBecomes(page, 'tp4.sp.pp2.dp2.z1.m8.1f1b.bf16')
  await exact(page)
  const { step } = await shown(page)
  await page.reload()
  await atRest(page)
  equal((await shown(page)).step, step)
  equal(await slider.getAttribute('aria-valuetext'), '4')
  const stages = page.getByRole('slider', { name: 'pp', exact: true })
  await stages.hover()
  const box = (await stages.boundingBox())!
  await page.mouse.down()
  await page.mouse.move(box.x + 1, box.y + box.height / 2, { steps: 4 })
  await page.mouse.up()
  await planBecomes(page, 'tp4.sp.dp4.z1.m4.bf16')
  await page.goBack()
  await planBecomes(page, 'tp4.sp.pp2.dp2.z1.m8.1f1b.bf16')
  await page.goBack()
  await planBecomes(page, 'tp2.sp.pp2.dp4.z1.m4.1f1b.bf16')
  await page.waitForFunction(`document.querySelector('input[type=range]').getAttribute('aria-valuetext') === '2'`)
  isFine()
})

later('a control of the last plan, moved before the new one has its own, moves the new one', inChromium, async () => {
  const { page, open, isFine } = await shared()
  const start = async () => {
    await open('plan?model=llama3-8b&on=h100*8&seq=2048&batch=32&plan=tp2.sp.dp4.z1.m4.bf16')
    await page.reload()
    await page.waitForSelector('.plan-controls[aria-busy="false"]')
  }
  /** The page has heard of the new link, and its worker has not answered. */
  const moves = (label: string, by: string) =>
    page.evaluate(`new Promise(resolve => {
      addEventListener('hashchange', resolve, { once: true })
      location.hash = '#/plan?${small}'
    }).then(() => {
      const input = [...document.querySelectorAll('label')].find(one => one.textContent === '${label}').control
      ${by}
      for (const type of ['input', 'change']) input.dispatchEvent(new Event(type, { bubbles: true }))
    })`)
  await start()
  await moves('tp', 'input.value = Number(input.value) + 1')
  await planBecomes(page, 'tp4.sp.pp2.dp2.z1.m8.1f1b.bf16')
  ok(page.url().includes('model=llama2-7b') && page.url().includes('seq=1024'), page.url())
  await start()
  await moves('Recompute', `input.value = 'full'`)
  await planBecomes(page, 'tp2.sp.pp2.dp4.z1.m4.1f1b.full.bf16')
  ok(page.url().includes('model=llama2-7b') && page.url().includes('seq=1024'), page.url())
  isFine()
})

later('a pinned axis gives nothing: pp takes from tp where dp stays', inChromium, async () => {
  const { page, open } = await shared()
  await open(`plan?${small}`)
  await exact(page)
  await page.getByRole('button', { name: 'Keep dp as it is' }).click()
  const slider = page.getByRole('slider', { name: 'tp', exact: true })
  await page.waitForFunction(`location.hash.includes('pin=dp')`)
  await page.waitForSelector('.plan-controls[aria-busy="false"]')
  await slider.press('ArrowRight')
  await planBecomes(page, 'tp4.sp.dp4.z1.m4.bf16')
})

later("a suggestion's button applies it, and the step is the predicted one; Back undoes it", inChromium, async () => {
  const { page, open, isFine } = await shared()
  await open(`plan?${small}`)
  await exact(page)
  const before = (await shown(page)).step
  const chip = page.locator('.chip-button[data-step]').first()
  await chip.waitFor()
  await page.waitForSelector('.advice[aria-busy="false"]')
  const predicted = Number(await chip.getAttribute('data-step'))
  ok(predicted < before)
  await chip.click()
  await page.waitForFunction(`JSON.parse(document.querySelector('.headline').dataset.numbers).step !== ${before}`)
  await exact(page)
  equal((await shown(page)).step, predicted)
  await page.goBack()
  await page.waitForFunction(`JSON.parse(document.querySelector('.headline').dataset.numbers).step === ${before}`)
  isFine()
})

later('a search runs while a slider answers', inChromium, async t => {
  const { page, open } = await shared()
  await open(`plan?${large}&tab=search`)
  await page.waitForSelector('figure[aria-busy="true"] .scatter .dots')
  const slider = page.getByRole('slider', { name: 'ZeRO' })
  const before = await page.textContent('[data-figure="bytes"] dd')
  const began = performance.now()
  await slider.press('ArrowRight')
  await page.waitForFunction(
    `document.querySelector('[data-figure="bytes"] dd').textContent !== ${JSON.stringify(before)}`,
  )
  const took = performance.now() - began
  ok(await page.$('figure[aria-busy="true"]'), 'the search was over before the slider answered')
  t.diagnostic(`the slider was answered after ${took.toFixed(0)} ms, while a search ran`)
})

later('where nothing fits the search says why, and a button does something about it', inChromium, async () => {
  const { page, open } = await shared()
  await open('plan?model=llama2-70b&on=h100*8&seq=1024&batch=8&plan=tp8.sp.m8.full.bf16&tab=search')
  await page.locator('.impossible .chip-button').first().click()
  await page.waitForSelector('.scatter .listed')
  ok((await page.$$('.scroll tbody tr')).length > 3)
})

later('two plans beside each other differ where they were changed', inChromium, async () => {
  const { page, open, isFine } = await shared()
  await open(`plan?${small}&tab=compare&a=tp2.sp.pp2.dp4.z1.m4.zb-h1.bf16`)
  await page.waitForSelector('.compare table')
  deepEqual(await page.$$eval('.compare tbody tr', rows => rows.map(row => row.textContent)), [
    'plan.schedule"zb-h1""1f1b"',
  ])
  isFine()
})

later(
  'the plan that another is compared with is kept whole: its job too, over Reload and Back',
  inChromium,
  async () => {
    const { page, open, isFine } = await shared()
    const fields = () => page.$$eval('.compare tbody tr', rows => rows.map(row => row.textContent))
    const differs = (n: number) =>
      page.waitForFunction(`document.querySelectorAll('.compare tbody tr').length === ${n}`)
    await open(`plan?${small}&tab=compare`)
    await page.getByRole('button', { name: 'Keep this plan as A' }).click()
    await page.locator('.compare', { hasText: 'They are the same plan.' }).waitFor()
    const kept = await page.evaluate<string>(`new URLSearchParams(location.hash.split('?')[1]).get('a')`)
    await page.evaluate(`location.hash = location.hash.replace('seq=1024', 'seq=2048')`)
    await differs(1)
    deepEqual(await fields(), ['training.seq10242048'])
    await page.reload()
    await differs(1)
    deepEqual(await fields(), ['training.seq10242048'])
    await page.getByRole('button', { name: 'Open A' }).click()
    await page.waitForURL(({ hash }) => hash.includes('seq=1024&'))
    await page.waitForFunction(`document.querySelector('.compare tbody tr')?.textContent === 'training.seq20481024'`)
    await page.goBack()
    await page.waitForFunction(`document.querySelector('.compare tbody tr')?.textContent === 'training.seq10242048'`)
    equal(await page.evaluate(`new URLSearchParams(location.hash.split('?')[1]).get('a')`), kept)
    isFine()
  },
)

later(
  'the job is edited as text: problems have their line, and what is a job becomes the plan',
  inChromium,
  async () => {
    const { page, open, isFine } = await shared()
    await open(`plan?${small}&tab=job`)
    const editor = page.getByLabel('The job as YAML')
    await editor.waitFor()
    await page.waitForFunction(`document.querySelector('.cm-content')?.textContent.includes('llama2-7b')`)
    await editor.fill('model: llama2-7b\ntraining: { seq: 1024, globalBatch: 16 }\nplan: { dp: 16, tpp: 2 }\n')
    await page.waitForSelector('.job .problems li')
    ok((await page.textContent('.job .problems'))!.includes('tp'))
    await page.waitForSelector('.cm-lintRange-error')
    await editor.fill(
      'model: llama2-7b\ntraining: { seq: 1024, globalBatch: 16 }\nplan: { dp: 16, zero: 3, precision: bf16 }\n',
    )
    await page.waitForFunction(`location.hash.includes('plan=dp16.z3.bf16')`)
    isFine()
  },
)

later('what the first number needs is small', inChromium, () => {
  const folder = 'dist/studio/page/assets'
  const files = readdirSync(folder)
  const named = (pattern: RegExp) => files.find(file => pattern.test(file))!
  const textOf = (file: string) => readFileSync(`${folder}/${file}`, 'utf8')
  const withImports = (file: string, found = new Set<string>()): Set<string> => {
    if (found.has(file)) return found
    found.add(file)
    for (const [, other] of textOf(file).matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)) withImports(other!, found)
    return found
  }
  const loadedBy = (file: string) => textOf(file).match(/import\(["`]\.\/(plan-[\w-]+\.js)["`]\)/)![1]!
  const sizeOf = (all: Iterable<string>) => [...all].reduce((sum, file) => sum + gzipSync(textOf(file)).length, 0)
  const shell = named(/^index-.*\.js$/)
  const styles = files.filter(file => /^(index|plan)-.*\.css$/.test(file))
  const page = sizeOf([...withImports(shell), ...withImports(loadedBy(shell)), ...styles])
  const worker = files.find(file => file.startsWith('worker-') && textOf(file).includes('plan-'))!
  const core = sizeOf(new Set([...withImports(worker), ...withImports(loadedBy(worker))]))
  ok(page <= 80_000, `the page: ${page} bytes`)
  ok(core <= 225_000, `its worker: ${core} bytes`)
  ok(page + core <= 300_000)
})
