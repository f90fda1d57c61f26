/** The plan's page: its numbers are those of the commands, its controls and suggestions do what they say, and links cannot break it. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { lockstep } from './memory-io.js'
import { type Browsing, browse, type Host, hostStudio, inChromium, type Watched } from './studio-page.js'

let browsing: Browsing
let host: Host
let tab: Watched
before(async () => {
  if ('skip' in inChromium) return
  host = await hostStudio()
  browsing = await browse()
  tab = await browsing.tab(host.address)
})
after(async () => {
  await browsing?.close()
  host?.close()
})

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
  test(`step, MFU, bytes and parts of ${title} are those of the commands`, inChromium, async () => {
    const { page, open } = tab
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
  })
