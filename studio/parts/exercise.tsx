/**
 * The order of every exercise: what to do, a text that is not complete, a check by the core that says what is wrong and where, hints
 * one by one, a solution for whoever has had enough, and what was shown when it is solved.
 */
import type { Problem } from 'lockstep'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { defineText, language } from '../base/language.js'
import { useTitle } from '../base/title.js'
import { lessonOf } from '../pages/learn/lessons.js'
import { advance } from '../pages/learn/progress.js'
import { Refused } from '../work/ask.js'
import type { Broken } from '../work/broken.js'
import type { Texts } from '../work/exercises/index.js'
import type { Refusal } from '../work/protocol.js'
import { BrokenLaws, selectLine } from './broken.js'
import type { CommandProps, Says } from './command.js'
import { GoOn, Listing, Notes } from './lesson.js'
import { Problems, Trouble } from './trouble.js'

const text = defineText(
  {
    check: 'Check',
    checking: 'Checking …',
    again: 'Start over',
    hint: (n: number, all: number) => `Hint ${n} of ${all}`,
    hints: 'Hints',
    solution: 'Show a solution',
    solutionWhat: 'One of those that pass the check.',
    wrong: (n: number) => (n === 1 ? 'Not yet: one thing is wrong.' : `Not yet: ${n} things are wrong.`),
    right: 'Solved.',
  },
  {
    check: '检查',
    checking: '正在检查……',
    again: '重新开始',
    hint: (n: number, all: number) => `提示 ${n}/${all}`,
    hints: '提示',
    solution: '看一个答案',
    solutionWhat: '能通过检查的答案之一。',
    wrong: (n: number) => `还没对：有 ${n} 处问题。`,
    right: '做对了。',
  },
)

/** What the core made of the reader's text. Right: there is nothing wrong with it. */
export interface Outcome {
  readonly broken?: readonly Broken[]
  readonly problems?: readonly Problem[]
  /** What else it lacks, in the words of the exercise. */
  readonly lacks?: readonly string[]
  /** What was computed on the way. */
  readonly found?: ComponentChildren
}

export interface ExerciseProps {
  readonly name: string
  readonly task: ComponentChildren
  /** To be read beside the task. */
  readonly given?: ComponentChildren
  /** Of the editor. */
  readonly label: string
  /** Undefined: they are on their way. */
  readonly texts: Texts | undefined
  readonly refusal?: Refusal | undefined
  readonly check: (text: string) => Promise<Outcome>
  readonly hints: readonly string[]
  /** What has been shown, told when it is solved. */
  readonly proves: ComponentChildren
  readonly command: string
  readonly says?: Says | undefined
  readonly also?: readonly CommandProps[]
}

type Judged =
  /** `text`: what was checked. */
  { readonly text: string; readonly outcome: Outcome } | { readonly refusal: Refusal } | 'checking' | undefined

export function Exercise(props: ExerciseProps) {
  const { name, task, given, texts, refusal, hints, command, says, also = [] } = props
  const entry = lessonOf(name)
  const title = entry?.title[language.value] ?? name
  const words = text()
  useEffect(() => advance(name, 'opened'), [name])
  useTitle(title)
  return (
    <article class="lesson exercise" aria-busy={!texts && !refusal}>
      <h1>{title}</h1>
      <p class="lead">{task}</p>
      {entry && <Notes entry={entry} />}
      {given}
      {refusal && <Trouble why={refusal} />}
      {texts && <Editor {...props} start={texts.start} />}
      <Hints hints={hints} />
      {texts && <Listing title={words.solution} what={words.solutionWhat} code={texts.solution} />}
      <GoOn {...{ name, command, says, also }} />
    </article>
  )
}

function Editor({ name, label, start, check, proves }: ExerciseProps & { readonly start: string }) {
  const words = text()
  const id = useId()
  const [written, write] = useState(start)
  const [judged, show] = useState<Judged>()
  const area = useRef<HTMLTextAreaElement>(null)
  const judge = async () => {
    show('checking')
    try {
      const outcome = await check(written)
      show({ text: written, outcome })
      if (faults(outcome) === 0) advance(name, 'solved')
    } catch (error) {
      show({ refusal: error instanceof Refused ? error.why : { message: String(error), problems: [] } })
    }
  }
  // What is wrong stays while it is mended; that nothing is was said of another text.
  const isSaid =
    typeof judged === 'object' && 'outcome' in judged && (faults(judged.outcome) > 0 || judged.text === written)
  const restore = () => {
    write(start)
    show(undefined)
  }
  return (
    <section class="editor" aria-busy={judged === 'checking'}>
      <label for={id}>{label}</label>
      <textarea
        id={id}
        ref={area}
        rows={Math.min(20, written.split('\n').length + 1)}
        spellcheck={false}
        value={written}
        onInput={event => write(event.currentTarget.value)}
      />
      <p class="links">
        <button type="button" onClick={() => void judge()} disabled={judged === 'checking'}>
          {judged === 'checking' ? words.checking : words.check}
        </button>
        <button type="button" class="quiet" onClick={restore}>
          {words.again}
        </button>
      </p>
      <div role="status" class="judged">
        {isSaid && (
          <Verdict
            outcome={judged.outcome}
            goTo={line => area.current && selectLine(area.current, line)}
            proves={proves}
          />
        )}
      </div>
      {typeof judged === 'object' && 'refusal' in judged && <Trouble why={judged.refusal} />}
    </section>
  )
}

const faults = ({ broken = [], problems = [], lacks = [] }: Outcome): number =>
  broken.length + problems.length + lacks.length

interface VerdictProps {
  readonly outcome: Outcome
  readonly goTo: (line: number) => void
  readonly proves: ComponentChildren
}

function Verdict({ outcome, goTo, proves }: VerdictProps) {
  const words = text()
  const { broken = [], problems = [], lacks = [], found } = outcome
  const wrong = faults(outcome)
  return (
    <>
      <p class={wrong > 0 ? 'bad' : 'good'}>
        <strong>{wrong > 0 ? words.wrong(wrong) : words.right}</strong>
      </p>
      {broken.length > 0 && <BrokenLaws broken={broken} goTo={goTo} />}
      {problems.length > 0 && <Problems problems={problems} />}
      {lacks.length > 0 && (
        <ul>
          {lacks.map(each => (
            <li key={each}>{each}</li>
          ))}
        </ul>
      )}
      {found}
      {wrong === 0 && <p>{proves}</p>}
    </>
  )
}

/** The next one when it is asked for. */
function Hints({ hints }: { readonly hints: readonly string[] }) {
  const words = text()
  const [told, tell] = useState(0)
  return (
    <section class="hints">
      <h2>{words.hints}</h2>
      <ol aria-live="polite">
        {hints.slice(0, told).map(hint => (
          <li key={hint}>{hint}</li>
        ))}
      </ol>
      {told < hints.length && (
        <button type="button" class="quiet" onClick={() => tell(told + 1)}>
          {words.hint(told + 1, hints.length)}
        </button>
      )}
    </section>
  )
}
