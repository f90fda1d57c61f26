/** --fault, and what notices faults: options of commands that run steps. */
import { Option } from 'commander'
import { FaultBook, faultList, ProblemsError, parseFaults } from '../../base/index.js'
import { positive } from './integer.js'

const collected = (text: string, before: readonly string[] | undefined): string[] => [...(before ?? []), text]

export const faultOption = (): Option =>
  new Option(
    '--fault <kind:key=value,...>',
    `inject a fault, such as kill:rank=1,step=5 (${faultList()}; repeatable)`,
  ).argParser(collected)

export const timeoutOption = (): Option =>
  new Option(
    '--timeout <seconds>',
    'how long a rank waits for another before the run fails (default: adapts to past durations)',
  ).argParser(positive)

export const everyOption = (name: string, description: string): Option =>
  new Option(`${name} <n>`, description).argParser(positive)

/** All that is wrong with them at once. */
export function faultsOf(texts: readonly string[]): FaultBook | undefined {
  const { faults, problems } = parseFaults(texts)
  if (problems.length > 0) throw new ProblemsError(problems)
  return faults.length > 0 ? new FaultBook(faults) : undefined
}
