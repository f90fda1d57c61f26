/** What a link says of the lab, checked: a number out of its limits is the nearest one within them. */
import { ownQuery, ownText } from '../../base/own.js'
import type { Cost, ScheduleInput } from '../../work/schedule.js'

const unit: Cost = { F: 1, I: 1, W: 1, C: 0 }
const [mostRanks, mostMicrobatches, mostCells] = [16, 64, 100_000]

const within = (text: string | undefined, most: number, usual: number): number => {
  const value = Math.round(Number(text))
  return text && Number.isFinite(value) ? Math.max(1, Math.min(most, value)) : usual
}

/** `F1.I1.W1.C0` with any numbers: `1,1,1,0`. */
function readCost(text: string | undefined): Cost {
  const [F, I, W, C] = (text ?? '').split(',').map(Number)
  const all = [F, I, W, C]
  if (all.length !== 4 || !all.every(value => value !== undefined && value >= 0 && value <= 100)) return unit
  return { F: F!, I: I!, W: W!, C: C! }
}

export function readInput(query: Readonly<Record<string, string>>): ScheduleInput {
  const limit = Number(query.limit)
  return {
    name: query.s ?? '1f1b',
    ranks: within(query.pp, mostRanks, 4),
    microbatches: within(query.m, mostMicrobatches, 8),
    chunks: within(query.chunks, 4, 1),
    cost: readCost(query.cost),
    ...(limit > 0 && limit < 1000 && { limit }),
    ...(query.s === 'own' && { cells: (ownText('cells') ?? '').replaceAll(';', '\n').slice(0, mostCells) }),
  }
}

export function writeInput({
  name,
  ranks,
  microbatches,
  chunks,
  cost,
  limit,
  cells,
}: ScheduleInput): Record<string, string | undefined> {
  const { F, I, W, C } = cost
  const usual = F === 1 && I === 1 && W === 1 && C === 0
  return {
    s: name,
    pp: String(ranks),
    m: String(microbatches),
    chunks: chunks === 1 ? undefined : String(chunks),
    cost: usual ? undefined : [F, I, W, C].join(),
    limit: limit === undefined || name !== 'zb-auto' ? undefined : String(limit),
    ...(name === 'own' ? ownQuery('cells', (cells ?? '').trim().replaceAll('\n', ';')) : { cells: undefined }),
  }
}

export function commandOf({ name, ranks, microbatches, chunks, cost, limit }: ScheduleInput): string {
  const { F, I, W, C } = cost
  const costs = F === 1 && I === 1 && W === 1 && C === 0 ? '' : ` --cost F=${F},I=${I},W=${W},C=${C}`
  if (name === 'own') return `lockstep schedule --file own.csv${costs}`
  const more = `${chunks > 1 ? ` --chunks ${chunks}` : ''}${name === 'zb-auto' && limit ? ` --limit ${limit}` : ''}`
  return `lockstep schedule ${name} --pp ${ranks} --microbatches ${microbatches}${more}${costs}`
}
