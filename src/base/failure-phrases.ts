/** Messages of engines about a failed step, in English: when, which rank, why, where each rank was and which ranks it waits for. */
import { english, type Gap, type Spoken, speak } from './phrase.js'
import { type ProblemPhrases, phrasing } from './phrasing.js'

export const failurePhrases = {
  '.failed': ['{when}: {what}'],
  '.failed/start': ['cannot start'],
  '.failed/step': ['step {step}'],
  '.failed/copy': ['the snapshot after step {step}'],
  '.failed/change': ['the program change after step {step}'],
  '.failed/evaluation': ['the validation after step {step}'],
  '.failed/fault': ['the injected fault after step {step}'],

  '.failed/replicas': ['replicas differ'],
  '.failed/ranks': ['{failures}\n{ranks}'],
  '.failed/rank': ['rank {rank} failed: {why}'],
  '.failed/copier': ['the copy thread of rank {rank} failed: {why}'],
  '.failed/nothing-moved': ['no progress for {time}'],
  '.failed/all-still': ['all ranks are stalled: {waiting} of {ranks} are waiting'],
  '.failed/no-reason': ['no reason given'],
  '.failed/not-started': ['rank {rank} did not start: {why}'],

  '.rank/finished': ['  rank {rank} has finished its step{whom}{why}'],
  '.rank/waiting': ['  rank {rank} waiting in {place}{whom}{why}'],
  '.rank/running': ['  rank {rank} running in {place}{whom}{why}'],
  '.rank/failed': ['  rank {rank} failed in {place}{whom}{why}'],
  '.rank/dead': ['  rank {rank} dead in {place}{whom}{why}'],
  '.rank/waits-for': [', waiting for rank {ranks}'],
  '.rank/why': [' ({why})'],
  '.command': ['{command} of step {step} {what}'],
  '.command/broken': ['a corrupt command'],
  '.command/instr': ['{step}: [{at}] {instr}'],
  '.instr/several': ['{kind} of {tensors} tensors, {first} to {last}'],

  '.thread/ended': ['its thread was terminated'],
  '.thread/died': ['its thread exited'],
  '.thread/code': ['its thread exited with code {code}'],
  '.thread/unloaded': ['its script could not be loaded'],
  '.exec/timeout': ['timed out waiting'],
  '.exec/unknown': ['a command that no kernel implements'],
  '.exec/workspace': ['a kernel needs more workspace than was allocated'],
  '.exec/rows': ['experts receive more tokens than their capacity'],
  '.exec/disk': ['an offload file could not be read or written: {why}'],
  '.exec/no-files': ['there is no file system'],
  '.standstill': ['no progress for {time}{before}'],
  '.standstill/usual': [', although it never took more than {time} before'],
  '.rows/native': [
    '{where}: its experts receive {needed} tokens, but their capacity is {room}; set `expertCapacity: {factor}`',
  ],
  '.rows/interpreter': [
    '{where}: the experts of this rank receive {needed} tokens, but their capacity is {room}; set `expertCapacity: {factor}`',
  ],
  '.rows/in': ['{block}, microbatch {microbatch}'],
  '.rows/step': ['a step'],
  '.not-finite': [
    'tensor {tensor} has {count} non-finite (NaN/Inf) values of {values}, the first ({value}) at element {first}',
  ],
  '.wasm-memory': ['WebAssembly has at most 4 GiB of memory, but this run needs {size} GiB'],

  '.at': ['rank {rank}, step {step}{instr} {text}'],
  '.at/instr': [' [{instr}]'],
  '.at/why': ['{where}: {why}'],
  '.at/stall': ['{where}: deadlock, no rank can proceed\n{blocked}'],
  '.at/blocked': ['  {where} is waiting for {what}'],
  '.waits/recv': ['the recv of rank {rank}'],
  '.waits/send': ['the send of rank {rank}'],
  '.waits/nothing': ['nothing'],
  '.waits/start': ['ranks {missing} of {members} to start'],
} as const satisfies ProblemPhrases

/** Why something failed: one of these messages, or the text of another error. */
export type Reason = string | Spoken

export const { clause: failureClause } = phrasing(failurePhrases)

export const sayFailure = (what: Reason): string =>
  typeof what === 'string' ? what : speak(what, english(failurePhrases))[0]

/** An error that pages can translate. */
export class SpokenError extends Error {
  readonly said: Spoken
  constructor(said: Spoken, options?: ErrorOptions) {
    super(sayFailure(said), options)
    this.said = said
  }
}

/** The message of an error, as a phrase where it has one. */
export const saidBy = (error: unknown): Reason =>
  error instanceof SpokenError ? error.said : error instanceof Error ? error.message : String(error)

/** Each on a line of its own. */
export const linesOf = (of: readonly Spoken[]): Gap => ({ joint: '\n', of })
