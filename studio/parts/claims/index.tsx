/**
 * A claim of the course notes with its verdict: a shape and a word, the sentence with the numbers, where it stands in the notes, and
 * the command that shows the same. On a lesson the claims of that lesson run when they come into view.
 */

import { useEffect, useRef } from 'preact/hooks'
import { defineText, language } from '../../base/language.js'
import { linkTo } from '../../base/router.js'
import { lessonOf } from '../../pages/learn/lessons.js'
import type { ClaimCard } from '../../work/claims.js'
import { Copy } from '../command.js'
import { labelled, listed } from '../names.js'
import { type ClaimState, cards, listClaims, runClaims, states, unsettled } from './store.js'
import './claims.css'

const text = defineText(
  {
    verdicts: {
      yes: 'yes',
      no: 'no',
      depends: 'depends',
      running: 'running',
      failed: 'failed',
      unknown: 'not run yet',
    },
    notes: (sections: string) => `Notes ${sections}`,
    lore: 'Not of the notes',
    disputed: 'The notes disagree',
    run: 'Run',
    again: 'Run again',
    of: (id: string) => `claim ${id}`,
    terminal: 'In a terminal',
    settled: 'Settled claims',
    lesson: (title: string) => `Lesson: ${title}`,
    all: 'All claims',
  },
  {
    verdicts: {
      yes: '成立',
      no: '不成立',
      depends: '看情况',
      running: '正在运行',
      failed: '出错',
      unknown: '还没运行',
    },
    notes: (sections: string) => `笔记 ${sections}`,
    lore: '不在笔记里',
    disputed: '笔记之间有矛盾',
    run: '运行',
    again: '再运行一次',
    of: (id: string) => `论断 ${id}`,
    terminal: '在终端里',
    settled: '运行得出的结论',
    lesson: (title: string) => `课程：${title}`,
    all: '全部论断',
  },
)

export type Standing = 'yes' | 'no' | 'depends' | 'running' | 'failed' | 'unknown'

export const standingOf = (state: ClaimState | undefined): Standing => {
  if (!state) return 'unknown'
  return state.state === 'settled' ? state.result.verdict : state.state
}

/** A shape for each, so that colour says nothing alone. */
const shapes: Readonly<Record<Standing, string>> = {
  yes: '✓',
  no: '✗',
  depends: '◐',
  running: '…',
  failed: '!',
  unknown: '○',
}

export const verdictNames = () => text().verdicts

export function Badge({ standing }: { readonly standing: Standing }) {
  return (
    <span class={`verdict ${standing}`}>
      <span aria-hidden="true">{shapes[standing]}</span> {text().verdicts[standing]}
    </span>
  )
}

interface CardProps {
  readonly card: ClaimCard
  /** Links to its lesson: not on the lesson itself. */
  readonly linked?: boolean
}

export function Card({ card, linked = false }: CardProps) {
  const words = text()
  const state = states.value[card.id]
  const settled = state?.state === 'settled' ? state.result : undefined
  const running = state?.state === 'running'
  return (
    <li class="claim" id={`claim-${card.id}`} data-values={settled && JSON.stringify(settled.values)}>
      <p class="claimed">
        <Badge standing={standingOf(state)} /> {card.text[language.value]}
      </p>
      {settled && <p class="outcome">{settled.sentence[language.value]}</p>}
      {state?.state === 'failed' && <p lang="en">{state.message}</p>}
      <p class="about">
        <small>{card.notes.length > 0 ? words.notes(listed(card.notes.map(note => `§${note}`))) : words.lore}</small>
        {card.disputed && <small class="disputed">{words.disputed}</small>}
        {linked && <LessonLink page={card.page} />}
        <button
          type="button"
          class="quiet"
          disabled={running}
          aria-label={labelled(settled ? words.again : words.run, words.of(card.id))}
          onClick={() => runClaims([card.id])}
        >
          {settled ? words.again : words.run}
        </button>
      </p>
      <details>
        <summary aria-label={labelled(words.terminal, words.of(card.id))}>{words.terminal}</summary>
        <code>{card.command}</code> <Copy value={card.command} />
      </details>
    </li>
  )
}

function LessonLink({ page }: { readonly page: string }) {
  const lesson = lessonOf(page)
  if (!lesson) return null
  return <a href={linkTo(`learn/${page}`)}>{text().lesson(lesson.title[language.value])}</a>
}

/** One claim by its id, run when it comes into view. */
export function Claim({ id }: { readonly id: string }) {
  return <SomeClaims pick={card => card.id === id} />
}

/** All claims that belong to a lesson, under a heading. */
export function LessonClaims({ page }: { readonly page: string }) {
  const words = text()
  return (
    <section>
      <h2>{words.settled}</h2>
      <SomeClaims pick={card => card.page === page} />
      <p>
        <a href={linkTo('claims', { page })}>{words.all}</a>
      </p>
    </section>
  )
}

function SomeClaims({ pick }: { readonly pick: (card: ClaimCard) => boolean }) {
  const list = useRef<HTMLUListElement>(null)
  const picked = (cards.value ?? []).filter(pick)
  const ids = picked.map(({ id }) => id).join()
  useEffect(() => void listClaims(), [])
  useEffect(() => {
    if (ids === '' || !list.current) return
    let giveUp = () => {}
    const watching = new IntersectionObserver(seen => {
      if (!seen.some(({ isIntersecting }) => isIntersecting)) return
      watching.disconnect()
      const wanted = unsettled(ids.split(','))
      if (wanted.length > 0) giveUp = runClaims(wanted)
    })
    watching.observe(list.current)
    return () => {
      watching.disconnect()
      giveUp()
    }
  }, [ids])
  return (
    <ul class="claims" ref={list}>
      {picked.map(card => (
        <Card key={card.id} card={card} />
      ))}
    </ul>
  )
}
