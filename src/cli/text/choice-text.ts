/** What the choices of a job cost and save, in a table: each line is one of them against the same plan without it. */
import { showBytes, showPercent, showSeconds, table } from '../../base/index.js'
import {
  differing,
  isPriced,
  type JudgedChoice,
  type PricedChoice,
  partWords,
  showSentence,
} from '../../search/index.js'

const header = ['', 'vs', 'step', '', 'memory', 'state', 'sent', 'moved', 'main difference']

export const choiceLegend =
  'vs: what it is compared with; state: change in bytes per parameter (weight, gradient, optimizer state); sent: to other ranks, moved: to host or disk, per rank'

/** Those that the job has, and those that it has not; choices that cannot be otherwise are named with the reason. */
export function choiceLines(choices: readonly JudgedChoice[], taken: boolean): string[] {
  const asked = choices.filter(one => one.taken === taken)
  const priced = asked.filter(isPriced)
  const rows = priced.map(choiceCells)
  const columns = header.map((_, i) => i).filter(i => i < 3 || rows.some(cells => cells[i] !== ''))
  const shown = (cells: readonly string[]) => columns.map(i => cells[i])
  const refused = taken ? asked.filter(one => !isPriced(one)) : []
  return [
    ...(rows.length > 0 ? table(shown(header), rows.map(shown)).split('\n') : []),
    ...refused.map(one => `${one.name} ${one.chosen}: required${isPriced(one) ? '' : `: ${showSentence(one.why)}`}`),
  ]
}

/** 'optimizer muon', 'adamw', '+12.0 ms', '+1.2 %', '-4.00 GiB', '14 (18)', '', '', 'optimizer +12.0 ms' */
export function choiceCells(choice: PricedChoice): string[] {
  const { name, chosen, instead, with: now, without } = choice
  const [sent, moved] = [change(now.sent, without.sent), change(now.moved, without.moved)]
  return [
    `${name} ${chosen}`,
    instead,
    signedTime(now.step - without.step),
    percent(now.step / without.step - 1),
    signedBytes(now.bytes - without.bytes) || '0',
    signed(now.perParameter - without.perParameter),
    signedBytes(sent),
    signedBytes(moved),
    timeText(choice),
  ]
}

const change = (now: number | undefined, before: number | undefined): number => (now ?? 0) - (before ?? 0)

/** The part of a step, and the kind of kernel, that differ most. */
function timeText(choice: PricedChoice): string {
  const parts = differing(choice, 'parts', 1).map(({ name, seconds }) => `${wordsOf(name)} ${signedTime(seconds)}`)
  const kernels = differing(choice, 'kernels', 1).map(({ name, seconds }) => `${name} ${signedTime(seconds)}`)
  return [...parts, ...kernels].join(', ')
}

const wordsOf = (part: string): string =>
  part in partWords ? partWords[part as keyof typeof partWords] : /* of a simulation alone */ part

const sign = (value: number): string => (value < 0 ? '-' : '+')
const signed = (bytes: number): string =>
  Math.abs(bytes) < 0.005 ? '0' : `${sign(bytes)}${Number(Math.abs(bytes).toFixed(2))}`
const percent = (share: number): string =>
  Math.abs(share) < 5e-4 ? '' : `${sign(share)}${showPercent(Math.abs(share))}`
const signedTime = (seconds: number): string =>
  Math.abs(seconds) < 1e-7 ? '0' : `${sign(seconds)}${showSeconds(Math.abs(seconds))}`
const signedBytes = (bytes: number): string =>
  Math.abs(bytes) < 1 ? '' : `${sign(bytes)}${showBytes(Math.abs(bytes))}`
