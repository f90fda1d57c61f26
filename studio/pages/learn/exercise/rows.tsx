/** Exercises on the rows of a schedule: written by hand, drawn as they would run, judged by the core. */
import { defineText } from '../../../base/language.js'
import { percent, short } from '../../../base/numbers.js'
import { Exercise, type ExerciseProps, type Outcome } from '../../../parts/exercise.js'
import { Figure } from '../../../parts/figure.js'
import { Pipeline } from '../../../parts/pipeline.js'
import { useAnswer } from '../../../work/answer.js'
import { ask } from '../../../work/ask.js'
import type { JudgedRows, RowTexts } from '../../../work/exercises/rows.js'
import { EqualToOne } from './equal.js'

const text = defineText(
  {
    label: 'Rows, one a rank',
    shape: (ranks: number, stages: number, microbatches: number, asked: number) =>
      `These rows are of ${ranks} ranks, ${stages} stages and ${microbatches} microbatches; asked for are 4 ranks, 4 stages and ${asked} microbatches.`,
    title: 'Your schedule',
    caption: (makespan: string, bubble: string, peak: string) =>
      `A step takes ${makespan} forwards, ranks idle ${bubble} of it, and hold ${peak} activations at most.`,
    rank: 'Rank',
    idle: 'Idle',
    held: 'Activations held',
  },
  {
    label: '每个 rank 一行',
    shape: (ranks: number, stages: number, microbatches: number, asked: number) =>
      `这里是 ${ranks} 个 rank、${stages} 级、${microbatches} 个微批次；要求是 4 个 rank、4 级、${asked} 个微批次。`,
    title: '你的调度',
    caption: (makespan: string, bubble: string, peak: string) =>
      `一步相当于 ${makespan} 次前向，空闲占 ${bubble}，各 rank 最多保留 ${peak} 份激活值。`,
    rank: 'Rank',
    idle: '空闲',
    held: '保留的激活值',
  },
)

interface RowsExerciseProps extends Pick<ExerciseProps, 'name' | 'task' | 'hints'> {
  readonly question: 'pipelineBackward' | 'bubble'
  /** The schedule that a solution is held against. */
  readonly beside: '1f1b' | 'zb-h1'
  readonly proves: (texts: RowTexts) => string
  /** What a valid schedule lacks all the same, and a score. */
  readonly lacks?: (makespan: number, texts: RowTexts) => string | undefined
  readonly score?: (makespan: number, texts: RowTexts) => string
}

const cost = '--cost F=1,I=1,W=1,C=0'

export function RowsExercise({ question, beside, proves, lacks, score, ...rest }: RowsExerciseProps) {
  const words = text()
  const { value, refusal } = useAnswer('fast', ['exercises', question], {})
  const check = async (written: string): Promise<Outcome> => {
    const { microbatches } = value!
    const judged = await ask('fast', ['exercises', 'judgeRows'], { text: written, microbatches })
    const { problems, broken, shape, laid } = judged
    const missing = laid && lacks?.(laid.makespan, value!)
    return {
      ...{ problems, broken },
      lacks: [
        ...(shape ? [words.shape(shape.ranks, shape.stages, shape.microbatches, microbatches)] : []),
        ...(missing ? [missing] : []),
      ],
      found: laid && <Found judged={judged} score={score?.(laid.makespan, value!)} />,
    }
  }
  return (
    <Exercise
      {...rest}
      label={words.label}
      texts={value}
      refusal={refusal}
      check={check}
      proves={value ? proves(value) : ''}
      command={`lockstep schedule ${beside} --pp 4 --microbatches ${value?.microbatches ?? 4} ${cost}`}
      says={value && { field: 'makespan', value: value.best }}
      also={[{ line: `lockstep schedule --file mine.csv ${cost}` }]}
    />
  )
}

function Found({ judged, score }: { readonly judged: JudgedRows; readonly score: string | undefined }) {
  const words = text()
  const { laid, beside } = judged
  if (!laid) return null
  const caption = words.caption(short(laid.makespan), percent(laid.bubble), laid.peak.map(short).join(' '))
  const rows = {
    head: [words.rank, words.idle, words.held],
    body: laid.peak.map((held, rank) => [rank, short(laid.idle[rank]!), short(held)]),
  }
  return (
    <>
      {score && <p class="sentence">{score}</p>}
      <Figure title={words.title} caption={caption} rows={rows}>
        <Pipeline rows={laid.rows} makespan={laid.makespan} label={caption} />
      </Figure>
      {beside && <EqualToOne beside={beside} ranks={4} />}
    </>
  )
}
