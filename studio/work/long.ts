/** A long question whose answer grows while it is worked out. Another input gives the old one up. */
import { useEffect, useState } from 'preact/hooks'
import { ask, Refused } from './ask.js'
import type { Input, ModuleName, Output, WorkName } from './modules.js'
import type { Refusal } from './protocol.js'

export interface Growing<T> {
  /** What is known so far. */
  readonly value?: T
  readonly refusal?: Refusal
  readonly pending: boolean
}

/** While a control moves nothing is begun: a worker that is given up has to be started again. */
const pause = 400

/** `input` undefined: nothing is asked. Works must report values of the kind they answer with. */
export function useLong<M extends ModuleName, F extends WorkName<M>>(
  question: readonly [M, F],
  input: Input<M, F> | undefined,
): Growing<Output<M, F>> {
  const [state, show] = useState<Growing<Output<M, F>>>({ pending: input !== undefined })
  useEffect(() => {
    if (input === undefined) return
    const { signal, ...controller } = abortable()
    show(({ value }) => ({ ...(value !== undefined && { value }), pending: true }))
    const begin = async () => {
      const progress = (value: unknown) => !signal.aborted && show({ value: value as Output<M, F>, pending: true }) // as said
      const answer = await ask('long', question, input, { progress, signal }).then(
        value => ({ value, pending: false }),
        error => ({
          refusal: error instanceof Refused ? error.why : { message: String(error), problems: [] },
          pending: false,
        }),
      )
      if (!signal.aborted) show(answer)
    }
    const timer = setTimeout(() => void begin(), pause)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [JSON.stringify(input)])
  return state
}

function abortable() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
