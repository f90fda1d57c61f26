/** What a plan comes to, in six figures, and whether it fits. */
import { bytes, count, fixed, percent, seconds, thousands } from '../../base/numbers.js'
import type { Numbers } from '../../work/plan/price.js'
import { text } from './text.js'

interface HeadlineProps {
  readonly numbers: Numbers
  /** The exact ones are on their way. */
  readonly compiling: boolean
}

export function Headline({ numbers, compiling }: HeadlineProps) {
  const words = text()
  const { exact, step, mfu, tokensPerSecond, run, capacity, goodput } = numbers
  const about = exact ? '' : '≈ '
  const tokens = thousands(run.tokens)
  const over = numbers.bytes - capacity
  const figures: readonly (readonly [name: string, value: string, label: string])[] = [
    ['step', about + seconds(step), words.step],
    ['mfu', about + percent(mfu), words.mfu],
    ['tokens', about + thousands(tokensPerSecond), words.tokensPerSecond],
    ['bytes', about + bytes(numbers.bytes), words.perRank(bytes(capacity))],
    ['days', about + (run.days < 10 ? fixed(run.days, 1) : count(run.days)), words.days(tokens)],
    ...(run.dollars === undefined
      ? []
      : [['dollars', `${about}$${thousands(run.dollars)}`, words.dollars(tokens)] as const]),
  ]
  return (
    <section class="headline" aria-busy={compiling} data-numbers={JSON.stringify(numbers)}>
      <dl>
        {figures.map(([name, value, label]) => (
          <div key={name} data-figure={name}>
            <dd>{value}</dd>
            <dt>{label}</dt>
          </div>
        ))}
      </dl>
      <p class="standing">
        <span class={over > 0 ? 'chip bad' : 'chip good'}>
          {over > 0 ? `✕ ${words.unfit(bytes(over))}` : `✓ ${words.fits(bytes(-over))}`}
        </span>
        {goodput !== undefined && <span class="chip">{words.goodput(percent(goodput))}</span>}
        <span class="tier">{exact ? `● ${words.exact}` : compiling ? words.estimate : words.estimateOnly}</span>
      </p>
    </section>
  )
}
