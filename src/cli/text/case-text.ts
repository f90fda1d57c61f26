/** What `lockstep case` prints: published runs next to our estimates, and their plans next to those of our search. */
import { scaled, showGiB, showPercent, showSeconds, table, wrapped } from '../../base/index.js'
import type { Definition } from '../../estimate/index.js'
import { capacityOf, type Priced, type Request } from '../../search/index.js'
import type { Timed, Times, UntimedCase } from '../../validate/index.js'
import { legendOf, numberCells, numberHeader, planColumns } from './plan-words.js'

/** A plan, and the best there is in its place by the same prices: undefined, none fits by price. */
export interface PlanBeside {
  readonly request: Request
  readonly plan: Priced
  readonly best?: Priced | undefined
}

export const listText = (titles: readonly (readonly [name: string, title: string])[]): string =>
  table(
    ['case', ''],
    titles.map(row => [...row]),
  )

const planOf = ({ setup: { split } }: Timed): string =>
  (['tp', 'cp', 'ep', 'pp', 'dp'] as const)
    .filter(axis => split[axis] > 1)
    .map(axis => `${axis} ${split[axis]}`)
    .join(' ')

/** What each published definition of model FLOPs counts. */
const counted: Readonly<Record<Definition, string>> = {
  palm: '6 per parameter and all attention (PaLM)',
  sc21: 'with a recomputed forward pass, all attention (SC21)',
  korthikanti: 'without recomputation, all attention (Korthikanti)',
  llama3: '6 per parameter, attention without its masked half (Llama 3)',
  megatron: '6 per active parameter, attention without its masked half (Megatron-LM)',
}

const devicesOf = ({ setup: { cluster } }: Timed): string => `${cluster.devices} x ${cluster.device.name}`

export function caseText(title: string, { timed, aside }: Times, besides: readonly PlanBeside[]): string {
  const rows = timed.map(one => {
    const { row, measured, predicted, error, fitted } = one
    const rate = row.reported_tflops_per_gpu
    return [
      ...[devicesOf(one), planOf(one), row.seq_len ?? '', row.global_batch_seqs ?? '', rate ?? ''],
      // The same FLOPs, in the time that we say.
      rate === undefined ? '' : ((rate * measured) / predicted).toFixed(0),
      ...[showSeconds(measured), showSeconds(predicted), `${showPercent(error)}${fitted ? ' *' : ''}`],
    ]
  })
  const header = ['devices', 'plan', 'seq', 'batch', 'TFLOP/s', 'ours', 'step', 'ours', 'error']
  const softwares = [...new Set(timed.map(({ setup }) => setup.software.name))]
  return [
    ...[title, ''],
    ...(rows.length > 0 ? [table(header, rows), ''] : []),
    ...(softwares.length > 0
      ? [
          `TFLOP/s per device and step time: published, and our estimate for ${softwares.join(', ')}.`,
          ...wrapped(
            `FLOPs counted as by the source: ${[...new Set(timed.map(({ counts }) => counted[counts]))].join('; ')}.`,
          ),
        ]
      : []),
    ...(timed.some(({ fitted }) => fitted) ? ['* a constant of the cost model was fitted on this row'] : []),
    ...aside.flatMap(({ row, reason }) => wrapped(`row ${row.line} is left out: ${reason}`)),
    ...[...new Set(timed.map(({ row }) => `source: ${row.source}`))].flatMap(line => wrapped(line)),
    ...(besides.length > 0 ? ['', ...besideText(timed.map(devicesOf), besides)] : []),
  ].join('\n')
}

/** A table per cluster, with two lines per row: the plan that ran, and ours. */
function besideText(names: readonly string[], besides: readonly PlanBeside[]): string[] {
  const splits = besides.flatMap(({ plan, best }) => [plan.split, ...(best ? [best.split] : [])])
  const { header, cells } = planColumns(splits)
  const numbers = (request: Request, of: Priced) => {
    const [step, mfu, rate, memory] = numberCells(request, of)
    return [step, mfu, rate, isOver(request, of) ? `${memory} !` : memory, ...cells(of.split)]
  }
  const rows = besides.flatMap(({ request, plan, best }, i) => [
    ...(names[i] === names[i - 1] ? [] : [[`${names[i]}:`]]),
    ['  published', '', ...numbers(request, plan)],
    best
      ? ['  ours', fasterBy(plan.estimate.step / best.estimate.step - 1), ...numbers(request, best)]
      : ['  ours', 'none fits'],
  ])
  return [
    'The plan our search chooses for the same batch, devices and software (estimated):',
    table(['plan', 'faster', ...numberHeader.slice(0, shown), ...header], rows),
    'MFU counts 6 per parameter and all attention (PaLM), whatever the source counts',
    ...overLines(besides),
    ...legendOf(splits),
  ]
}

/** Of the numbers of a plan all but what tokens cost: step, MFU, tokens a second, GiB. */
const shown = 4

const isOver = (request: Request, { bytes }: Priced): boolean => bytes > capacityOf(request)

/** A run that happened did fit, whatever we estimate. */
function overLines(besides: readonly PlanBeside[]): string[] {
  const over = besides.find(({ request, plan, best }) => isOver(request, plan) || (best && isOver(request, best)))
  if (!over) return []
  return wrapped(
    `! more than the ${showGiB(capacityOf(over.request))} usable: the published run did fit, so the memory estimate is too high there; our plan may need as much as the published one is estimated to`,
  )
}

const fasterBy = (share: number): string => (Math.abs(share) < 5e-4 ? '-' : showPercent(share))

export function untimedText(
  { title, source, published, tokens, on }: UntimedCase,
  beside: PlanBeside | undefined,
): string {
  const facts = Object.entries(published).map(([what, said]) => [what, said])
  return [
    ...[title, '', table(['published', ''], facts), ...wrapped(`source: ${source}`), ''],
    'No step time was published. Our estimate (cost model, modeled for lockstep)',
    `on ${on.devices} ${on.device}, global batch ${on.globalBatch}:`,
    ...(beside ? oursText(beside, tokens) : ['no such plan fits']),
  ].join('\n')
}

function oursText({ request, plan, best }: PlanBeside, tokens: number): string[] {
  const { header, cells } = planColumns([plan.split, ...(best ? [best.split] : [])])
  const row = (name: string, of: Priced) => [name, ...numberCells(request, of).slice(0, shown), ...cells(of.split)]
  const steps = tokens / (request.globalBatch * request.shape.seq)
  const hours = ({ estimate }: Priced) => scaled((steps * estimate.step * request.cluster.devices) / 3600)
  const gain = best && plan.estimate.step / best.estimate.step - 1
  return [
    table(
      ['', ...numberHeader.slice(0, shown), ...header],
      [row('published', plan), ...(best ? [row('ours', best)] : [])],
    ),
    ...(gain === undefined ? [] : [`Ours is ${gain < 5e-4 ? 'as fast' : `${showPercent(gain)} faster`}.`]),
    `${scaled(tokens)} tokens take ${hours(plan)} device-hours as published${best ? `, ${hours(best)} with ours` : ''}.`,
    ...legendOf([plan.split, ...(best ? [best.split] : [])]),
  ]
}
