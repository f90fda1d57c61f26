/** What engines say of a step that failed, and of values that cannot be kept, in English: when, which rank, why, what each was at and whom it waits for. */
import { english, type Gap, type Spoken, speak } from './phrase.js'
import { type ProblemPhrases, phrasing } from './phrasing.js'

export const failurePhrases = {
  '.failed': ['{when}: {what}'],
  '.failed/start': ['cannot start'],
  '.failed/step': ['step {step}'],
  '.failed/copy': ['the copy after step {step}'],
  '.failed/change': ['the other program after step {step}'],
  '.failed/evaluation': ['the evaluation after step {step}'],
  '.failed/fault': ['the fault after step {step}'],

  '.failed/replicas': ['replicas differ'],
  '.failed/ranks': ['{failures}\n{ranks}'],
  '.failed/rank': ['rank {rank} failed: {why}'],
  '.failed/copier': ['what copies for rank {rank} failed: {why}'],
  '.failed/nothing-moved': ['nothing moved for {time}'],
  '.failed/all-still': ['the ranks stand still: {waiting} of {ranks} wait'],
  '.failed/no-reason': ['no reason given'],
  '.failed/not-started': ['rank {rank} did not start: {why}'],

  '.rank/finished': ['  rank {rank} has finished its step{whom}{why}'],
  '.rank/waiting': ['  rank {rank} waiting in {place}{whom}{why}'],
  '.rank/running': ['  rank {rank} running in {place}{whom}{why}'],
  '.rank/failed': ['  rank {rank} failed in {place}{whom}{why}'],
  '.rank/dead': ['  rank {rank} dead in {place}{whom}{why}'],
  '.rank/waits-for': [', waits for rank {ranks}'],
  '.rank/why': [' ({why})'],
  '.command': ['{command} of step {step} {what}'],
  '.command/broken': ['a broken command'],
  '.command/instr': ['{step}: [{at}] {instr}'],
  '.instr/several': ['{kind} of {tensors} tensors, {first} to {last}'],

  '.thread/ended': ['its thread was ended'],
  '.thread/died': ['its thread ended'],
  '.thread/code': ['its thread ended with code {code}'],
  '.thread/unloaded': ['its script could not be loaded'],
  '.exec/timeout': ['gave up waiting'],
  '.exec/unknown': ['a command that no kernel knows'],
  '.exec/workspace': ['a kernel needs more workspace than it was given'],
  '.exec/rows': ['experts get more rows than there is room for'],
  '.exec/disk': ['a file of the offload could not be read or written: {why}'],
  '.exec/no-files': ['there are no files'],
  '.standstill': ['nothing for {time}{before}'],
  '.standstill/usual': [', where it has never taken more than {time}'],
  '.rows/native': ['{where}: its experts get {needed} rows, there is room for {room}; `rows: {factor}` would do'],
  '.rows/interpreter': [
    '{where}: the experts of this rank get {needed} rows, there is room for {room}; `rows: {factor}` would do',
  ],
  '.rows/in': ['{block}, microbatch {microbatch}'],
  '.rows/step': ['a step'],
  '.not-finite': [
    'tensor {tensor} holds {count} of {values} values that are not finite, the first ({value}) at element {first}',
  ],
  '.wasm-memory': ['WebAssembly has 4 GiB of memory, and this run needs {size} GiB'],

  '.at': ['rank {rank}, step {step}{instr} {text}'],
  '.at/instr': [' [{instr}]'],
  '.at/why': ['{where}: {why}'],
  '.at/stall': ['{where}: no rank can move\n{blocked}'],
  '.at/blocked': ['  {where} waits for {what}'],
  '.waits/recv': ['the recv of rank {rank}'],
  '.waits/send': ['the send of rank {rank}'],
  '.waits/nothing': ['nothing'],
  '.waits/start': ['ranks {missing} of {members} to start'],
} as const satisfies ProblemPhrases

/** Why something failed: a phrase of these, or what others said. */
export type Reason = string | Spoken

export const { clause: failureClause } = phrasing(failurePhrases)

export const sayFailure = (what: Reason): string =>
  typeof what === 'string' ? what : speak(what, english(failurePhrases))[0]

/** An error that pages say in a language of their own. */
export class SpokenError extends Error {
  readonly said: Spoken
  constructor(said: Spoken, options?: ErrorOptions) {
    super(sayFailure(said), options)
    this.said = said
  }
}

/** What an error says, as a phrase where it has one. */
export const saidBy = (error: unknown): Reason =>
  error instanceof SpokenError ? error.said : error instanceof Error ? error.message : String(error)

/** Each on a line of its own. */
export const linesOf = (of: readonly Spoken[]): Gap => ({ joint: '\n', of })
