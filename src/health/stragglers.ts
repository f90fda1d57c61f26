/**
 * Ranks that hold others up. A rank is compared with those that do the same work: its pipeline coordinate's, or, where a
 * prediction says how much work each coordinate has, all of them. Only what is its own counts: waiting for others looks
 * like slowness, and is theirs.
 */
import { coordinatesOf } from '../base/index.js'
import type { HealthEvent } from './event.js'
import { median } from './median.js'
import { clause, found, percentOf } from './phrases.js'
import type { StepLine } from './run-reader.js'
import { mostly, muchStolen, type RunFacts, shareOf, stolenIn, tells, type Watch, watchWindow } from './watch.js'

/** Times as long as others, in the middle of the last steps, and in nearly each of them. */
const limit = 1.15
const each = 1.08
/** Times as long as predicted, all ranks together. */
const allSlow = 1.3

/** Windows in a row, each a step later, that must blame the same rank. */
const windows = 3

export function watchStragglers(facts: RunFacts): Watch {
  let [blamed, times] = [-1, 0]
  return watchWindow(lines => {
    const slow = slowest(lines, facts)
    const rank = slow[0]?.rank ?? -1
    ;[blamed, times] = [rank, rank === blamed ? times + 1 : 1]
    return [...(times >= windows ? slow : []), ...slowAll(lines, facts)]
  })
}

/**
 * The times as long that the best step of a rank takes, held against the best of others. What other processes take of a core they take now and
 * then, and leave some steps alone; a rank that is slow is slow in its best step too.
 */
const atBest = (lines: readonly StepLine[], busy: (line: StepLine, rank: number) => number) => {
  const best = (rank: number) => Math.min(...lines.map(line => busy(line, rank)))
  return (rank: number, peers: readonly number[]) => best(rank) / median(peers.map(best))
}

function slowest(lines: readonly StepLine[], { mesh, prediction, ...facts }: RunFacts): HealthEvent[] {
  if (!mesh || !tells(lines, facts)) return []
  const stageOf = (rank: number) => coordinatesOf(mesh, rank).pp ?? 0
  const works = prediction?.stages
  /** In the work of its coordinate, where that is known. */
  const busy = ({ ranks }: StepLine, rank: number) => ranks!.busy[rank] / (works?.[stageOf(rank)] ?? 1)
  const all = lines[0].ranks!.busy.map((_, rank) => rank)
  const judged = all.flatMap(rank => {
    const peers = all.filter(other => other !== rank && (works || stageOf(other) === stageOf(rank)))
    const ratios = lines.map(line => busy(line, rank) / median(peers.map(peer => busy(line, peer))))
    return peers.length > 0
      ? [{ rank, peers, factor: median(ratios), share: shareOf(ratios, ratio => ratio > each) }]
      : []
  })
  if (judged.length === 0) return []
  const { rank, peers, factor, share } = judged.reduce((a, b) => (b.factor > a.factor ? b : a))
  const late = (of: number) => median(lines.map(({ ranks }) => ranks!.late[of]))
  const blamed =
    lines.every(({ ranks }) => ranks!.late.every(time => time === 0)) || peers.every(peer => late(rank) >= late(peer))
  if (factor < limit || !mostly(share) || !blamed || atBest(lines, busy)(rank, peers) < each) return []
  const { step } = lines[lines.length - 1]
  const seconds = median(lines.map(line => line.ranks!.busy[rank]))
  const [times, stolen] = [factor.toFixed(2), stolenIn(lines)]
  const shared = stolen > muchStolen
  const others = shared ? clause('.stolen', { share: percentOf(stolen) }) : ''
  return [
    found(
      'straggler',
      {
        ...{ step, severity: shared ? 'note' : 'warning', rank },
        numbers: { factor: Number(times), seconds, late: late(rank), stolen, gain: 1 - 1 / factor },
      },
      { times, others },
    ),
  ]
}

function slowAll(lines: readonly StepLine[], { mesh, prediction, ...facts }: RunFacts): HealthEvent[] {
  const works = prediction?.stages
  if (!mesh || !works || !tells(lines, facts)) return []
  const ratios = lines.map(({ ranks }) =>
    median(ranks!.busy.map((busy, rank) => busy / works[coordinatesOf(mesh, rank).pp ?? 0])),
  )
  const factor = median(ratios)
  if (factor < allSlow || !mostly(shareOf(ratios, ratio => ratio > (allSlow * each) / limit))) return []
  return [
    found(
      'prediction/compute',
      {
        ...{ step: lines[lines.length - 1].step, where: clause('.at-compute') },
        severity: stolenIn(lines) > muchStolen ? 'note' : 'warning',
        numbers: { factor: Number(factor.toFixed(3)), gain: 1 - 1 / factor },
      },
      { times: factor.toFixed(2), cluster: prediction.cluster },
    ),
  ]
}
