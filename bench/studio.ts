/**
 * The studio in a real Chromium: what a frame of a timeline of 16,384 ranks takes while it is panned and zoomed, how soon a slider
 * is answered while a search runs, and what pages keep in memory. There is nobody to race, since other pages draw an element a span:
 * frames are held against those of a bare canvas of the same size. What the page shows is held against the simulator before it is timed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { presets } from '../src/model/index.js'
import { Job } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { labelsOf } from '../src/trace/index.js'
import { type Busy, coresBetween, type Hands, handsOf, openStudio, perInput, type Studio } from './browser.js'
import type { Options, Say } from './main.js'
import { type Result, statistics } from './race.js'

type Part = (studio: Studio, rounds: number) => Promise<Result[]>
const parts: Readonly<Record<string, Part>> = { timeline, slider, memory }

export async function studio(say: Say, { rounds = 100, only = '' }: Options): Promise<Result[]> {
  const opened = await openStudio()
  if (!opened) {
    say('skipped: no Chromium (set LOCKSTEP_CHROMIUM)')
    return []
  }
  const results: Result[] = []
  try {
    for (const [name, part] of Object.entries(parts)) {
      if (!name.includes(only)) continue
      say(`${name} ...`)
      results.push(...(await part(opened, rounds)))
    }
  } finally {
    await opened.close()
  }
  return results
}

const model = 'llama3-405b'
const large = `model=${model}&on=h100*16384&seq=8192&batch=2048&plan=tp8.sp.pp16.dp128.z1.m16.1f1b.bf16&lang=en`

async function timeline({ page, open }: Studio, rounds: number): Promise<Result[]> {
  await open(`plan?${large}&tab=timeline`)
  await page.waitForSelector('.headline[aria-busy="false"]')
  await page.waitForSelector('.timeline-picture')
  const wrong = await mistake(page)
  if (wrong) return [{ title: 'a frame', entries: [{ name: 'timeline', wrong }] }]
  const hands = await handsOf(page)
  const roles = await gestures(page, hands, rounds)
  await page.selectOption('.timeline .tools select', 'ranks')
  const ranks = await gestures(page, hands, rounds)
  const bare = await bareFrames(page, hands, rounds)
  return [
    ...Object.entries(roles).map(([gesture, frames]) => framesOf(`one row a role, ${gesture}`, frames, bare)),
    ...Object.entries(ranks).map(([gesture, frames]) => framesOf(`one line a rank, ${gesture}`, frames, bare)),
    framesOf('a bare canvas', bare, bare),
  ]
}

/** What the page says of the step, of its first span, and the colour that span is drawn in; undefined: all is as simulated. */
async function mistake(page: Page): Promise<string | undefined> {
  const { spans, first, kind } = simulated()
  const caption = (await page.textContent('figure figcaption')) ?? ''
  if (!caption.startsWith(`${spans} `)) return `the page says "${caption}", and there are ${spans} spans`
  await page.focus('.timeline-picture')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Enter')
  await page.waitForFunction(`document.querySelector('.timeline-said').textContent.trim() !== ''`)
  const said = (await page.textContent('.timeline-said > span:first-child')) ?? ''
  if (!said.includes(first)) return `the first span is "${said}", and not ${first}`
  await page.waitForTimeout(500)
  const [drawn, meant] = (await page.evaluate(`(() => {
    const canvas = document.querySelector('.timeline-picture canvas')
    const [r, g, b] = canvas.getContext('2d').getImageData(0.4 * canvas.width, 25, 1, 1).data
    const ink = getComputedStyle(canvas).getPropertyValue('--${kind}').trim()
    return ['#' + [r, g, b].map(part => part.toString(16).padStart(2, '0')).join(''), ink]
  })()`)) as readonly [string, string] // of the page
  return drawn === meant ? undefined : `the first span is drawn in ${drawn}, and ${kind} is ${meant}`
}

function simulated() {
  const plan = { tp: 8, pp: 16, dp: 128, zero: 1, sequenceParallel: true, microbatches: 16, precision: 'bf16' }
  const program = compileJob(Job.parse({ model: presets[model], training: { seq: 8192, globalBatch: 2048 }, plan }))
  const { roles, columnsOf } = simulate(program, clusterPrices(program, clusterOf('h100', 16_384)))
  const columns = roles.map(({ rank }) => columnsOf(rank))
  const lasting = columns.flatMap(({ start, end }) => [...start].filter((begin, i) => end[i]! > begin))
  const { kind, stage, microbatch } = labelsOf(program, roles[0].pp, columns[0])
  const { start, end, lane } = columns[0]
  const at = start.findIndex((begin, i) => lane[i] === 0 && end[i]! > begin)
  const words = [
    ...(stage[at]! >= 0 ? [`stage ${stage[at]}`] : []),
    ...(microbatch[at]! >= 0 ? [`microbatch ${microbatch[at]}`] : []),
  ]
  return {
    spans: lasting.length,
    first: words.join(', '),
    kind: (['F', 'B', 'I', 'W', 'optimizer', 'other'] as const)[kind[at] as 0],
  }
}

/** Milliseconds between inputs: longer than a frame takes, shorter than a view needs to come to rest. */
const pause = 40

const repeated = (rounds: number, act: (n: number) => Promise<void>) => async () => {
  for (let n = 0; n <= rounds; n++) {
    await act(n)
    await sleep(pause)
  }
}

const keys = ['+', '+', 'd', 'd', 'a', '+', 'd', '-', 'a', '-', '-', 'd']

async function gestures(page: Page, hands: Hands, rounds: number): Promise<Readonly<Record<string, readonly Busy[]>>> {
  const timed = (input: string, act: (n: number) => Promise<void>) => perInput(page, input, repeated(rounds, act))
  await page.focus('.timeline-picture')
  await hands.key('f')
  const byKeys = await timed('keydown', n => hands.key(keys[n % keys.length]!))
  const box = (await (await page.$('.timeline-picture canvas'))!.boundingBox())!
  const at = (n: number) => [box.x + box.width * (0.5 + 0.3 * Math.sin(n / 7)), box.y + 200] as const
  await hands.move(at(0))
  const byWheel = await timed('wheel', n => hands.zoom(at(0), n % 40 < 20 ? -60 : 60))
  await hands.key('f')
  for (let n = 0; n < 3; n++) await hands.key('+')
  await hands.press(at(0))
  const byDrag = await timed('pointermove', n => hands.move(at(n + 1), true))
  await hands.release(at(rounds + 1))
  return { 'zoomed and panned by keys': byKeys, 'zoomed by the wheel': byWheel, dragged: byDrag }
}

/** The least that a picture of that size costs: its pixels put on the screen at every key. */
async function bareFrames(page: Page, hands: Hands, rounds: number): Promise<readonly Busy[]> {
  await page.evaluate(`(() => {
    const { width, height } = document.querySelector('.timeline-picture canvas')
    const canvas = Object.assign(document.createElement('canvas'), { width, height })
    document.body.replaceChildren(canvas)
    const context = canvas.getContext('2d', { alpha: false })
    const image = new ImageData(width, height)
    addEventListener('keydown', () => requestAnimationFrame(() => {
      image.data.fill(128 + 64 * Math.random())
      context.putImageData(image, 0, 0)
    }))
  })()`)
  return perInput(
    page,
    'keydown',
    repeated(rounds, () => hands.key('d')),
  )
}

const at = (times: readonly number[], share: number): number =>
  [...times].sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(share * times.length))] ?? Number.NaN
const milliseconds = (seconds: number): string => `${(seconds * 1000).toFixed(1)} ms`

function framesOf(title: string, all: readonly Busy[], bare: readonly Busy[]): Result {
  const of = (name: keyof Busy, each = all) => each.map(one => one[name])
  const ratio = at(of('frames'), 0.5) / at(of('frames', bare), 0.5)
  const said = (name: keyof Busy) =>
    `median ${milliseconds(at(of(name), 0.5))}, p95 ${milliseconds(at(of(name), 0.95))}`
  return {
    title,
    entries: [{ name: 'a frame', ...statistics(of('frames')) }],
    notes: [
      `p95 ${milliseconds(at(of('frames'), 0.95))}`,
      `by the clock ${said('framesClock')}`,
      `with the event and all else ${said('core')}`,
      `by the clock ${said('clock')}`,
      `${ratio.toFixed(1)} times a bare canvas`,
    ],
  }
}

const searched = 'model=llama3-8b&on=h100*512&seq=8192&batch=1024&plan=tp2.sp.pp4.dp64.z1.m16.1f1b.bf16&lang=en'

/** From the key to the new number on the page, while a search runs and while none does, in turns. */
async function slider({ page, open }: Studio, rounds: number): Promise<Result[]> {
  const times = { search: [] as Answered[], alone: [] as Answered[] }
  for (let n = 0; n < Math.min(rounds, 8); n++)
    for (const [name, tab] of [
      ['search', '&tab=search'],
      ['alone', ''],
    ] as const) {
      await open(`plan?${searched}${tab}`)
      await page.reload()
      await page.waitForSelector('.plan-controls[aria-busy="false"]')
      await page.waitForSelector(
        name === 'search' ? 'figure[aria-busy="true"] .scatter .dots' : '.headline[aria-busy="false"]',
      )
      times[name].push(await answered(page))
    }
  const said = (all: readonly Answered[]) => {
    const [clock, core] = [statistics(all.map(({ clock }) => clock)), statistics(all.map(({ core }) => core))]
    return `best ${milliseconds(clock.best)}; on cores median ${milliseconds(core.median)}, best ${milliseconds(core.best)}`
  }
  return (['search', 'alone'] as const).map(name => ({
    title: `a slider is answered, ${name === 'search' ? 'while a search runs' : 'and nothing is searched'}`,
    entries: [{ name: 'slider', ...statistics(times[name].map(({ clock }) => clock)) }],
    notes: [said(times[name])],
  }))
}

/** Seconds from the event to the frame after the number has changed, and what page and workers used of them. */
type Answered = Pick<Busy, 'clock' | 'core'>

async function answered(page: Page): Promise<Answered> {
  await page.evaluate(`(() => {
    const figure = document.querySelector('.headline')
    const now = () => JSON.parse(figure.dataset.numbers).bytes
    let began, before
    addEventListener('keydown', event => {
      began = event.timeStamp
      before = now()
      performance.mark('bench key')
    }, { once: true, capture: true })
    globalThis.answered = new Promise(resolve => {
      const watch = new MutationObserver(() => {
        if (began === undefined || now() === before) return
        watch.disconnect()
        performance.mark('bench answer')
        requestAnimationFrame(() => resolve((performance.now() - began) / 1000))
      })
      watch.observe(figure, { attributes: true })
    })
  })()`)
  let clock = Number.NaN
  const core = await coresBetween(page, ['bench key', 'bench answer'], async () => {
    await page.getByRole('slider', { name: 'ZeRO' }).press('ArrowRight')
    clock = (await page.evaluate('globalThis.answered')) as number // as above
  })
  return { clock, core }
}

/** What a page and its workers keep, as Chromium counts it after collecting what nobody needs. */
async function memory({ page, open }: Studio): Promise<Result[]> {
  await open(`plan?${large}&tab=timeline`)
  await page.reload()
  await page.waitForSelector('.headline[aria-busy="false"]')
  await page.waitForSelector('.timeline-picture')
  const plan = await kept(page)
  await open('run?job=four&steps=90000&sample=&lang=en')
  await page.reload()
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.waitForSelector('.timeline canvas')
  const run = await kept(page)
  return [
    { title: 'memory of the plan of 405B on 16,384 ranks, with its timeline', entries: [], notes: [plan] },
    { title: 'memory of a run of four ranks in the page', entries: [], notes: [run] },
  ]
}

async function kept(page: Page): Promise<string> {
  const { bytes, breakdown } = (await page.evaluate('performance.measureUserAgentSpecificMemory()')) as {
    readonly bytes: number
    readonly breakdown: readonly {
      readonly bytes: number
      readonly attribution: readonly { readonly scope: string }[]
    }[]
  } // as the standard has it
  const mebibytes = (n: number) => `${(n / 2 ** 20).toFixed(0)} MiB`
  const window = breakdown.filter(({ attribution }) => attribution.some(({ scope }) => scope === 'Window'))
  const own = window.reduce((sum, each) => sum + each.bytes, 0)
  return `${mebibytes(bytes)}, of it ${mebibytes(own)} of the page itself`
}

export const showStudio = (results: readonly Result[]): string =>
  results
    .map(({ title, entries: [entry], notes = [] }) => {
      const said =
        entry === undefined
          ? []
          : 'wrong' in entry
            ? [`wrong: ${entry.wrong}`]
            : [`median ${milliseconds(entry.median)} of ${entry.times.length}`]
      return `${title}: ${[...said, ...notes].join('; ')}`
    })
    .join('\n')
