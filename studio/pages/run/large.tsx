/** A job that is too large for ranks that are no threads: what it would take, how to run it, and a way on all the same. */
import { threads } from '../../base/isolation.js'
import { bytes, seconds, thousands } from '../../base/numbers.js'
import { hasServer } from '../../base/server.js'
import { Coded } from '../../parts/coded.js'
import { Rehearse } from '../../parts/rehearse.js'
import { useAnswer } from '../../work/answer.js'
import type { Asked } from './link.js'
import { text } from './text.js'

/** Undefined: it may be run, as far as anybody knows. */
export function useLarge({ job, where }: Asked) {
  const asked = !threads.value && where === 'page' ? { job } : undefined
  const { value, pending } = useAnswer('fast', ['weigh', 'weigh'], asked)
  return asked && !pending && value?.large ? value : undefined
}

interface LargeProps {
  readonly asked: Asked
  readonly weight: NonNullable<ReturnType<typeof useLarge>>
  readonly disabled: boolean
  readonly begin: () => void
}

export function Large({ asked, weight, disabled, begin }: LargeProps) {
  const words = text()
  return (
    <section class="trouble large" role="alert">
      <h2>{words.large}</h2>
      <p>
        {words.takes(
          `${thousands(weight.flops)} FLOP`,
          seconds(weight.seconds),
          seconds(weight.seconds * asked.steps),
          bytes(weight.bytes),
        )}
      </p>
      <p>
        <Coded text={hasServer ? words.onMachine : words.elsewhere} />
      </p>
      <p class="tools">
        <Rehearse job={asked.job} page="run" />
        <button type="button" class="quiet" disabled={disabled} onClick={begin}>
          {words.anyway}
        </button>
      </p>
    </section>
  )
}
