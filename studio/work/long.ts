/** A long question whose answer grows while it is worked out. Another input gives the old one up. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, Refused } from './ask.js'
import type { Input, ModuleName, Output, WorkName } from './modules.js'
import type { Refusal } from './protocol.js'

export interface Growing<T> {
  /** What is known so far. */
  readonly value?: T
  readonly refusal?: Refusal
  readonly pending: boolean
}

/** While a control moves nothing but the first is begun: a worker that is given up has to be started again. */
const pause = 400

/** `input` undefined: nothing is asked. Works must report values of the kind they answer with. */
export function useLong<M extends ModuleName, F extends WorkName<M>>(
  question: readonly [M, F],
  input: Input<M, F> | undefined,
): Growing<Output<M, F>> {
  const key = JSON.stringify(input)
  const [{ of, ...state }, show] = useState<Growing<Output<M, F>> & { readonly of?: string }>({ pending: false })
  const begun = useRef(false)
  useEffect(() => {
    if (input === undefined) return
    const { signal, ...controller } = abortable()
    show(({ value }) => ({ ...(value !== undefined && { value }), pending: true, of: key }))
    const begin = async () => {
      const progress = (value: unknown) =>
        !signal.aborted && show({ value: value as Output<M, F>, pending: true, of: key }) // as said
      const answer = await ask('long', question, input, { progress, signal }).then(
        value => ({ value }),
        error => ({ refusal: error instanceof Refused ? error.why : { message: String(error), problems: [] } }),
      )
      if (!signal.aborted) show({ ...answer, pending: false, of: key })
    }
    const timer = setTimeout(() => void begin(), begun.current ? pause : 0)
    begun.current = true
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [key])
  // What the page draws before the effect above has begun is pending too.
  return { ...state, pending: input !== undefined && (state.pending || of !== key) }
}

function abortable() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
