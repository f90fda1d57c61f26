/**
 * A lesson that holds a few jobs against each other: what a step takes and where it goes, what a rank holds. A study says which jobs,
 * what the reader can change, and its words.
 */
import { type Chosen, type KnobTable, readKnobs } from '../../base/knobs.js'
import { defineText, type Translated } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, seconds, short } from '../../base/numbers.js'
import type { Part } from '../../parts/bars.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import type { Maths } from '../../parts/formula.js'
import { partsOf } from '../../parts/kinds.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Compared } from '../../work/compared.js'
import type { JobText } from '../../work/jobs.js'
import { timesOf } from './times.js'

const text = defineText(
  {
    job: 'Plan',
    step: 'Step',
    rank: 'A rank',
    time: 'What a step takes',
    memory: 'What a rank holds at most, kind by kind',
    capacity: 'memory of the device',
    heaviest: (label: string, most: string, lightest: string, least: string) =>
      `Most is held with: ${label}, ${most}; least with: ${lightest}, ${least}.`,
    alike: (held: string) => `A rank holds ${held} in all of them.`,
  },
  {
    job: '方案',
    step: '一步',
    rank: '每个 rank',
    time: '一步要多久',
    memory: '每个 rank 各类显存的峰值',
    capacity: '设备显存',
    heaviest: (label: string, most: string, lightest: string, least: string) =>
      `${label}：最多，占 ${most}；${lightest}：最少，占 ${least}。`,
    alike: (held: string) => `每种方案下每个 rank 都占 ${held}。`,
  },
)

export interface Variant {
  readonly label: string
  readonly job: JobText
}

/** What a study says; `caption` is made from what came out. */
export interface StudyWords {
  readonly claim: string
  readonly title: string
  readonly knobs: Readonly<Record<string, string>>
  /** Of knobs whose values are words: what they are called. */
  readonly values?: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly letters: string
  readonly question: string
  readonly why: string
  readonly notice: readonly [string, string, string]
}

export interface Study<K extends KnobTable> {
  readonly name: string
  readonly words: () => Translated<StudyWords>
  readonly table: K
  readonly device: (chosen: Chosen<K>) => string
  readonly variants: (chosen: Chosen<K>) => readonly Variant[]
  /** One sentence of the results, in the order of the variants. */
  readonly caption: (results: readonly Compared[], variants: readonly Variant[]) => string
  readonly formula: Maths
  readonly live: (results: readonly Compared[], chosen: Chosen<K>) => Readonly<Record<string, string>>
  /** Lines of the last variant's program, or of a small one that shows the same: what its ranks say to each other, what rank 0 does in order, or segments by name. */
  readonly code?: 'talk' | 'stream' | readonly string[]
  readonly small?: (chosen: Chosen<K>) => JobText
  /** The number that is guessed. */
  readonly answer: (results: readonly Compared[]) => number
  readonly show?: (value: number) => string
  /** A figure further down. */
  readonly more?: (props: { readonly chosen: Chosen<K> }) => preact.JSX.Element
}

/** The component of a lesson. */
export function study<const K extends KnobTable>(of: Study<K>): () => preact.JSX.Element {
  const More = of.more
  return function StudyLesson() {
    const knobs = readKnobs(of.table)
    const [words, common] = [of.words(), text()]
    const variants = of.variants(knobs.chosen)
    const device = of.device(knobs.chosen)
    const input = { jobs: variants.map(({ job }) => job), device }
    const { value, refusal, pending } = useAnswer('fast', ['compared', 'compared'], input)
    const results = value?.length === variants.length ? value : []
    const labels = Object.fromEntries(
      Object.entries(words.knobs).map(([name, label]) => {
        const called = words.values?.[name]
        return [name, { label, ...(called && { show: (value: unknown) => called[String(value)] ?? String(value) }) }]
      }),
    )
    const bars = (parts: (each: Compared) => Part[]) =>
      results.map((each, n) => ({ label: variants[n]!.label, parts: parts(each) }))
    const caption = results.length > 0 ? of.caption(results, variants) : ''
    const last = variants.at(-1)!.job
    const program = useLines(of.code ?? 'talk', of.small?.(knobs.chosen) ?? last)
    return (
      <Lesson
        name={of.name}
        claim={words.claim}
        controls={<Controls knobs={knobs} labels={labels as Parameters<typeof Controls<K>>[0]['labels']} />}
        figure={
          <>
            {refusal && <Trouble why={refusal} />}
            <BarsFigure
              title={words.title}
              caption={caption}
              bars={bars(timesOf)}
              show={seconds}
              head={[common.job, common.step]}
              pending={pending}
            />
          </>
        }
        more={
          <>
            <BarsFigure
              title={common.memory}
              caption={results.length > 0 ? heaviest(results, variants) : ''}
              bars={bars(each => partsOf(each.bytes))}
              show={bytes}
              head={[common.job, common.rank]}
              {...(results[0] && { limit: { label: common.capacity, value: results[0].capacity } })}
              pending={pending}
            />
            {More && <More chosen={knobs.chosen} />}
          </>
        }
        sentence={caption}
        formula={{
          math: of.formula,
          live: results.length > 0 ? of.live(results, knobs.chosen) : {},
          letters: words.letters,
        }}
        guess={{
          question: words.question,
          run: async () => of.answer(await ask('fast', ['compared', 'compared'], input)),
          show: of.show ?? short,
          why: () => words.why,
          min: 0,
        }}
        notice={words.notice}
        program={program}
        open={{ plan: planQuery(last, device) }}
        command={onJob(last, `simulate - --cluster ${device}`)}
        says={results.length > 0 ? { field: 'step', value: results.at(-1)!.step } : undefined}
      />
    )
  }
}

function useLines(code: 'talk' | 'stream' | readonly string[], job: JobText): readonly string[] | undefined {
  const talk = useAnswer('fast', ['excerpts', 'talk'], code === 'talk' ? { job } : undefined).value
  const stream = useAnswer('fast', ['excerpts', 'stream'], code === 'stream' ? { job, rank: 0 } : undefined).value
  const segments = typeof code === 'string' ? undefined : { job, segments: code }
  const named = useAnswer('fast', ['excerpts', 'excerpt'], segments).value
  return talk ?? stream ?? named?.lines
}

const heldBy = ({ bytes }: Compared): number => Object.values(bytes).reduce((sum, each) => sum + each, 0)

function heaviest(results: readonly Compared[], variants: readonly Variant[]): string {
  const order = results
    .map((each, n) => ({ held: heldBy(each), label: variants[n]!.label }))
    .sort((a, b) => b.held - a.held)
  const [most, least] = [order[0]!, order.at(-1)!]
  if (most.held < least.held * 1.01) return text().alike(bytes(most.held))
  return text().heaviest(most.label, bytes(most.held), least.label, bytes(least.held))
}
