/** Guess first: the reader says a number, then it is computed and the two stand beside each other. */
import { useState } from 'preact/hooks'
import { defineText } from '../base/language.js'
import { short } from '../base/numbers.js'
import { Refused } from '../work/ask.js'
import { NumberField } from './controls.js'

const text = defineText(
  {
    title: 'Guess first',
    yours: 'Your guess',
    run: 'Run it',
    running: 'Running …',
    close: 'Close.',
    factor: (times: string) => `Off by a factor of ${times}.`,
    far: 'Not close.',
    is: (guess: string, value: string) => `You guessed ${guess}; it is ${value}.`,
  },
  {
    title: '先猜一猜',
    yours: '你的猜测',
    run: '运行',
    running: '正在运行……',
    close: '很接近。',
    factor: (times: string) => `差了 ${times} 倍。`,
    far: '差得有点远。',
    is: (guess: string, value: string) => `你猜 ${guess}，算出来是 ${value}。`,
  },
)

export interface GuessProps {
  readonly question: string
  /** Computes the number: nothing is compared with a constant. */
  readonly run: () => Promise<number>
  readonly show?: (value: number) => string
  /** Why it is so, told with the number. */
  readonly why?: ((value: number) => string) | undefined
  readonly min?: number
  readonly done?: () => void
}

interface Outcome {
  readonly guess: number
  readonly value?: number
  readonly failed?: string
}

export function Guess({ question, run, show = short, why, min, done }: GuessProps) {
  const [guess, set] = useState<number>()
  const [outcome, put] = useState<Outcome>()
  const words = text()
  const compare = async (guess: number) => {
    put({ guess })
    try {
      put({ guess, value: await run() })
      done?.()
    } catch (error) {
      put({ guess, failed: error instanceof Refused ? error.why.message : String(error) })
    }
  }
  const running = outcome !== undefined && outcome.value === undefined && outcome.failed === undefined
  return (
    <section class="guess" aria-busy={running}>
      <h2>{words.title}</h2>
      <p>{question}</p>
      <form
        onSubmit={event => {
          event.preventDefault()
          if (guess !== undefined) void compare(guess)
        }}
      >
        <NumberField label={words.yours} value={guess} change={set} step="any" min={min} />
        <button type="submit" disabled={running}>
          {running ? words.running : words.run}
        </button>
      </form>
      <p role="status">{outcome && <Compared outcome={outcome} show={show} why={why} />}</p>
    </section>
  )
}

function Compared({ outcome, show, why }: { readonly outcome: Outcome } & Pick<GuessProps, 'show' | 'why'>) {
  const { guess, value, failed } = outcome
  const words = text()
  if (failed !== undefined) return <span lang="en">{failed}</span>
  if (value === undefined) return <>{words.running}</>
  return (
    <>
      <strong>{words.is((show ?? short)(guess), (show ?? short)(value))}</strong> {judged(guess, value)} {why?.(value)}
    </>
  )
}

/** Within a tenth is close; otherwise by what factor, where both are of one sign. */
function judged(guess: number, value: number): string {
  const words = text()
  if (guess === value || Math.abs(guess - value) <= 0.1 * Math.abs(value)) return words.close
  if (guess * value <= 0) return words.far
  return words.factor(short(Math.max(guess / value, value / guess)))
}
