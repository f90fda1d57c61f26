/**
 * The order of every lesson: what is claimed, a figure that already runs, a few controls, one sentence and a formula with live
 * numbers, a guess, three things to notice, the instructions that did it, the claims that it settles, and
 * where to go on.
 */

import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { defineText, language } from '../base/language.js'
import { linkTo } from '../base/router.js'
import { useTitle } from '../base/title.js'
import { type LessonEntry, lessonOf, lessons } from '../pages/learn/lessons.js'
import { advance } from '../pages/learn/progress.js'
import { LessonClaims } from './claims/index.js'
import { Command, type CommandProps, type Says } from './command.js'
import { Formula, type Maths } from './formula.js'
import { Guess, type GuessProps } from './guess.js'
import { labelled, listed } from './names.js'

const text = defineText(
  {
    notes: 'Course notes',
    notice: 'Three things to notice',
    program: 'What the program does',
    programWhat: 'Instructions of the compiled program, as it prints them.',
    python: 'The same as PyTorch',
    pythonWhat: 'What lockstep emit writes for it.',
    next: 'Go on',
    plan: 'Open in Plan',
    openProgram: 'Open in Program',
    index: 'All lessons',
    after: (title: string) => `Next: ${title}`,
  },
  {
    notes: '课程笔记',
    notice: '值得注意的三点',
    program: '程序里的指令',
    programWhat: '编译出的程序原文。',
    python: '对应的 PyTorch',
    pythonWhat: 'lockstep emit 写出的代码。',
    next: '继续',
    plan: '在“规划”里打开',
    openProgram: '在“程序”里打开',
    index: '全部课程',
    after: (title: string) => `下一课：${title}`,
  },
)

export interface LessonProps {
  readonly name: string
  /** In our own words. */
  readonly claim: ComponentChildren
  /** At most four: `<Controls />`. */
  readonly controls?: ComponentChildren
  /** What runs, with the controls beside it, or below it where there is no room; `more` stands further down. */
  readonly figure: ComponentChildren
  readonly more?: ComponentChildren
  /** One sentence with the numbers of the figure. */
  readonly sentence?: ComponentChildren
  readonly formula?: {
    readonly math: Maths
    readonly live?: Readonly<Record<string, string>>
    /** What its letters mean. */
    readonly letters: string
  }
  readonly guess?: Omit<GuessProps, 'done'>
  readonly notice: readonly [ComponentChildren, ComponentChildren, ComponentChildren]
  /** Lines of the program that made the figure. */
  readonly program?: readonly string[] | undefined
  readonly python?: string | undefined
  /** Other code that does the same. */
  readonly listings?: readonly ListingProps[]
  /** Queries of the pages that show the same job. */
  readonly open?: { readonly plan?: Query; readonly program?: Query }
  readonly command: string
  /** What the command says of a number of the page. */
  readonly says?: Says | undefined
  /** Further commands: of other figures, or of numbers that differ from run to run. */
  readonly also?: readonly CommandProps[]
}

type Query = Readonly<Record<string, string | undefined>>

export function Lesson(props: LessonProps) {
  const { name, claim, controls, figure, more, sentence, guess } = props
  const entry = lessonOf(name)
  const title = entry?.title[language.value] ?? name
  useEffect(() => advance(name, 'opened'), [name])
  useTitle(title)
  return (
    <article class="lesson">
      <h1>{title}</h1>
      <p class="lead">{claim}</p>
      {entry && <Notes entry={entry} />}
      <div class="stage">
        <div>{figure}</div>
        {controls && <div class="at-hand">{controls}</div>}
      </div>
      {sentence && <p class="sentence">{sentence}</p>}
      <LessonFormula {...props} />
      {more}
      {guess && <Guess {...guess} done={() => advance(name, 'guessed')} />}
      <Notice {...props} />
      <Code {...props} />
      <LessonClaims page={name} />
      <GoOn {...props} />
    </article>
  )
}

export function Notes({ entry }: { readonly entry: LessonEntry }) {
  return (
    <p class="notes">
      <small>{labelled(text().notes, listed(entry.notes.map(note => `§${note}`)))}</small>
    </p>
  )
}

function LessonFormula({ formula }: Pick<LessonProps, 'formula'>) {
  if (!formula) return null
  return (
    <div class="lesson-formula">
      <Formula math={formula.math} live={formula.live ?? {}} />
      <small>{formula.letters}</small>
    </div>
  )
}

function Notice({ notice }: Pick<LessonProps, 'notice'>) {
  return (
    <section class="prose">
      <h2>{text().notice}</h2>
      <ol class="notice">
        {notice.map((each, n) => (
          <li key={n}>{each}</li>
        ))}
      </ol>
    </section>
  )
}

function Code({ program, python, listings = [] }: Pick<LessonProps, 'program' | 'python' | 'listings'>) {
  const words = text()
  return (
    <>
      {program && program.length > 0 && (
        <Listing title={words.program} what={words.programWhat} code={program.join('\n')} open />
      )}
      {python && <Listing title={words.python} what={words.pythonWhat} code={python} />}
      {listings.map(listing => (
        <Listing key={listing.title} {...listing} />
      ))}
    </>
  )
}

export interface ListingProps {
  readonly title: string
  readonly what: string
  readonly code: string
  readonly open?: boolean
}

export function Listing({ title, what, code, open = false }: ListingProps) {
  return (
    <details class="listing" open={open}>
      <summary>{title}</summary>
      <p>
        <small>{what}</small>
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre class="scroll" tabIndex={0}>
        <code>{code}</code>
      </pre>
    </details>
  )
}

type GoOnProps = Pick<LessonProps, 'name' | 'open' | 'command' | 'says' | 'also'>

export function GoOn({ name, open = {}, command, says, also = [] }: GoOnProps) {
  const words = text()
  const next = lessons[lessons.findIndex(lesson => lesson.name === name) + 1]
  return (
    <section>
      <h2>{words.next}</h2>
      <p class="links">
        {open.plan && <a href={linkTo('plan', open.plan)}>{words.plan}</a>}
        {open.program && <a href={linkTo('program', open.program)}>{words.openProgram}</a>}
        <a href={linkTo('learn')}>{words.index}</a>
        {next && <a href={linkTo(`learn/${next.name}`)}>{words.after(next.title[language.value])}</a>}
      </p>
      <Command line={command} says={says} />
      {also.map(each => (
        <Command key={each.line} {...each} />
      ))}
    </section>
  )
}
