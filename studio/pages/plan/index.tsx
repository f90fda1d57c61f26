/** Choose how a model lies on a cluster: numbers at once, exact ones when the program is there, and why. */
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { fixed, percent, seconds } from '../../base/numbers.js'
import { place } from '../../base/router.js'
import { Trouble } from '../../parts/trouble.js'
import { type Answer, useAnswer } from '../../work/answer.js'
import type { Link } from '../../work/plan/link.js'
import type { Said } from '../../work/plan/why.js'
import { Advice } from './advice.js'
import { Controls } from './controls.js'
import { Head } from './head.js'
import { Headline } from './numbers.js'
import { linkOf, pinsOf, settle, tabOf } from './state.js'
import './style.css'
import { Tabs, View } from './tabs.js'
import { text } from './text.js'
import { WhatIf } from './what-if.js'

/** What there was before a refusal stays on the page. */
function useKept<T>(value: T | undefined): T | undefined {
  const kept = useRef<T | undefined>(undefined)
  if (value !== undefined) kept.current = value
  return kept.current
}

export default function Plan() {
  const { query } = place.value
  const [link, pins, tab] = [linkOf(query), pinsOf(query), tabOf(query.tab)]
  const words = text()
  // What is asked first is answered first: numbers, then all else.
  const answers = useNumbers(link)
  const catalog = useAnswer('fast', ['plan', 'catalog'], null).value
  const read = useAnswer('fast', ['plan', 'read'], link)
  const choices = useAnswer('fast', ['plan', 'choices'], { link, pins })
  // The first numbers that a page writes take it tens of milliseconds: they are made while it waits.
  useEffect(() => void [seconds(1), percent(1), fixed(1, 1)], [])
  const offer = useKept(choices.value)
  const said = useKept(read.value)
  // Made again only with other choices: a slider that moves is not to wait for a hundred others.
  const offered = useMemo(() => offer && <Controls offer={offer} pins={pins} />, [offer, query.pin, words])
  const { numbers, compiling } = answers
  const headline = useMemo(() => numbers && <Headline {...{ numbers, compiling }} />, [numbers, compiling, words])
  return (
    <article class="plan">
      <h1>{words.title}</h1>
      {said && catalog && <Head read={said} catalog={catalog} link={link} />}
      <div class="plan-body">
        <section class="plan-controls" aria-label={words.plan} aria-busy={read.pending || choices.pending}>
          <h2>{words.plan}</h2>
          {offered}
          <h2>{words.whatIf}</h2>
          <WhatIf link={link} />
        </section>
        <div class="plan-view">
          <Refusals read={read} answers={answers} />
          {headline}
          <Tabs tab={tab} />
          {numbers && said && (
            <View tab={tab} link={link} word={said.plan} numbers={numbers} pending={answers.pending} />
          )}
          {tab === 'overview' && <Advice link={link} {...answers} />}
        </div>
      </div>
    </article>
  )
}

function Refusals({ read, answers }: { readonly read: Answer<unknown>; readonly answers: Answers }) {
  const words = text()
  const why = read.refusal ?? answers.refusal
  if (!why) return null
  return (
    <>
      <Trouble why={why} />
      <p>
        <button
          type="button"
          onClick={() => settle({ plan: undefined, j: undefined, seq: undefined, slow: undefined })}
        >
          {words.startOver}
        </button>
      </p>
    </>
  )
}

type Answers = ReturnType<typeof useNumbers>

const unsaid: readonly Said[] = []
const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** The exact numbers where they are those of this link; else the estimate, and until that is there, what was shown before. */
function useNumbers(link: Link) {
  const price = useAnswer('fast', ['plan', 'price'], link)
  const isPriced = price.value !== undefined && same(price.value.link, link)
  // The estimate has the cores to itself.
  const isNext = isPriced || (price.refusal !== undefined && !price.pending)
  const exact = useAnswer('program', ['plan-program', 'exact'], isNext ? link : undefined)
  const isExact = exact.value !== undefined && same(exact.value.link, link)
  const step = isExact ? exact.value?.numbers.step : undefined
  const compiling = !isExact && (!isNext || exact.pending || exact.refusal === undefined)
  const { forecast } = (isExact && exact.value) || {}
  const simulated = forecast && { step: forecast.step, parts: forecast.parts, arena: forecast.memory.arena }
  const why = useAnswer(
    'fast',
    ['plan-why', 'why'],
    isPriced ? { link, ...(simulated && { exact: simulated }) } : undefined,
  ).value
  const numbers = useKept(isExact ? exact.value?.numbers : isPriced ? price.value?.numbers : undefined)
  return {
    ...{ numbers, step, compiling, why: useKept(why) ?? unsaid, pending: compiling && !isPriced },
    // What has no price may still be compiled.
    refusal: !isNext || exact.pending ? undefined : exact.refusal,
  }
}
