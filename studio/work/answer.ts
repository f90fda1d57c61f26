/**
 * The answer to the newest question. While it is on its way the old one stays on the page, marked as old; of the questions that
 * come meanwhile only the last is asked.
 */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ask, type Lane, Refused } from './ask.js'
import type { Input, ModuleName, Output, WorkName } from './modules.js'
import type { Refusal } from './protocol.js'

export interface Answer<T> {
  readonly value?: T
  readonly refusal?: Refusal
  /** The value belongs to an older question, or there is none yet. */
  readonly pending: boolean
}

/** One question at a time; those in between are never asked. */
class Latest<I, O> {
  readonly #ask: (input: I) => Promise<O>
  readonly #show: (answer: Answer<O>) => void
  #asking = false
  #next: { readonly input: I } | undefined
  #shown: Answer<O> = { pending: true }
  ended = false

  constructor(ask: (input: I) => Promise<O>, show: (answer: Answer<O>) => void) {
    this.#ask = ask
    this.#show = show
  }

  want(input: I): void {
    this.#next = { input }
    this.#put({ ...this.#shown, pending: true })
    if (!this.#asking) void this.#run()
  }

  async #run(): Promise<void> {
    this.#asking = true
    while (this.#next && !this.ended) {
      const { input } = this.#next
      this.#next = undefined
      const answer = await this.#ask(input).then(
        value => ({ value }),
        error => ({ refusal: error instanceof Refused ? error.why : { message: String(error), problems: [] } }),
      )
      this.#put({ ...answer, pending: this.#next !== undefined })
    }
    this.#asking = false
  }

  #put(answer: Answer<O>): void {
    this.#shown = answer
    if (!this.ended) this.#show(answer)
  }
}

/** `input` undefined: nothing is asked. Inputs are compared by what they say (JSON), not by identity. */
export function useAnswer<M extends ModuleName, F extends WorkName<M>>(
  lane: Lane,
  question: readonly [M, F],
  input: Input<M, F> | undefined,
): Answer<Output<M, F>> {
  const [answer, show] = useState<Answer<Output<M, F>>>({ pending: true })
  const key = JSON.stringify(input)
  const wanted = useRef<string>(undefined)
  const latest = useRef<Latest<Input<M, F>, Output<M, F>>>(null)
  latest.current ??= new Latest(input => ask(lane, question, input), show)
  useEffect(
    () => () => {
      latest.current!.ended = true
      latest.current = null
    },
    [],
  )
  // Before anything is painted: a slider waits for the answer.
  useLayoutEffect(() => {
    wanted.current = key
    if (input !== undefined) latest.current?.want(input)
  }, [key])
  // What is drawn before the effect above has asked is of the old question too: what else is asked by it must wait.
  return input !== undefined && wanted.current !== key ? { ...answer, pending: true } : answer
}
