/** The index of the lessons, by topic and by course notes, and each lesson below it: `learn/zero`. */

import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { defineText, language } from '../../base/language.js'
import { linkTo, place, setQuery } from '../../base/router.js'
import { listed } from '../../parts/names.js'
import type { PageProps } from '../routes.js'
import { type Group, groupTitles, type LessonEntry, lessonOf, lessons, noteSets } from './lessons.js'
import { forget, progress } from './progress.js'
import './learn.css'

const text = defineText(
  {
    title: 'Learn by running it',
    lead: 'One page a concept. Every figure is computed while you look: change something, guess what happens, and see.',
    topic: 'By topic',
    notes: 'By course notes',
    order: 'Order of the lessons',
    set: (letter: string) => `Notes ${letter}`,
    opened: 'opened',
    guessed: 'guessed',
    solved: 'solved',
    done: (n: number, all: number) => `You have opened ${n} of ${all} lessons; this browser alone remembers which.`,
    forget: 'Forget it',
    missing: (name: string) => `There is no lesson “${name}”. These are there:`,
    broken: 'This lesson could not be loaded',
    loading: 'Loading …',
  },
  {
    title: '边运行边学',
    lead: '一个概念一页。每张图都是当场算出来的：改一改，猜一猜，再看结果。',
    topic: '按主题',
    notes: '按课程笔记',
    order: '课程的排列方式',
    set: (letter: string) => `笔记 ${letter}`,
    opened: '看过',
    guessed: '猜过',
    solved: '做出来了',
    done: (n: number, all: number) => `${all} 课里你看过 ${n} 课；只有这个浏览器记得。`,
    forget: '清除记录',
    missing: (name: string) => `没有“${name}”这一课。已有的课程：`,
    broken: '这一课加载失败',
    loading: '加载中……',
  },
)

export default function Learn({ rest }: PageProps) {
  const entry = lessonOf(rest)
  if (entry) return <Opened key={entry.name} entry={entry} />
  return <Index missing={rest} />
}

interface Loaded {
  readonly Component?: ComponentType
  readonly failed?: string
}

function Opened({ entry }: { readonly entry: LessonEntry }) {
  const [{ Component, failed }, put] = useState<Loaded>({})
  const words = text()
  useEffect(() => {
    entry.load().then(
      module => put({ Component: module.default }),
      error => put({ failed: String(error) }),
    )
  }, [entry])
  if (failed) return <p role="alert">{`${words.broken}: ${failed}`}</p>
  return Component ? <Component /> : <p class="loading">{words.loading}</p>
}

function Index({ missing }: { readonly missing: string }) {
  const words = text()
  const byNotes = place.value.query.by === 'notes'
  const sort = (by: string | undefined) => setQuery({ by }, true)
  return (
    <article class="learn-index">
      <h1>{words.title}</h1>
      {missing ? <p role="alert">{words.missing(missing)}</p> : <p class="lead">{words.lead}</p>}
      <fieldset class="choices">
        <legend>{words.order}</legend>
        <button type="button" class="quiet" aria-pressed={!byNotes} onClick={() => sort(undefined)}>
          {words.topic}
        </button>
        <button type="button" class="quiet" aria-pressed={byNotes} onClick={() => sort('notes')}>
          {words.notes}
        </button>
      </fieldset>
      {byNotes ? <ByNotes /> : <ByTopic />}
      <Sofar />
    </article>
  )
}

function ByTopic() {
  const titles = groupTitles[language.value]
  return (
    <>
      {(Object.keys(titles) as Group[]).map(group => (
        <Lessons key={group} title={titles[group]} entries={lessons.filter(lesson => lesson.group === group)} />
      ))}
    </>
  )
}

/** A lesson stands under every set it settles something of, with the sections. */
function ByNotes() {
  const words = text()
  return (
    <>
      {noteSets.map(letter => (
        <Lessons
          key={letter}
          title={words.set(letter)}
          entries={lessons.filter(({ notes }) => notes.some(note => note.startsWith(letter)))}
          letter={letter}
        />
      ))}
    </>
  )
}

interface LessonsProps {
  readonly title: string
  readonly entries: readonly LessonEntry[]
  readonly letter?: string
}

function Lessons({ title, entries, letter }: LessonsProps) {
  if (entries.length === 0) return null
  return (
    <section>
      <h2>{title}</h2>
      <ul class="lessons">
        {entries.map(entry => (
          <Row key={entry.name} entry={entry} letter={letter ?? ''} />
        ))}
      </ul>
    </section>
  )
}

function Row({ entry, letter }: { readonly entry: LessonEntry; readonly letter: string }) {
  const words = text()
  const reached = progress.value[entry.name]
  const sections = letter ? entry.notes.filter(note => note.startsWith(letter)) : []
  return (
    <li>
      <a href={linkTo(`learn/${entry.name}`)}>{entry.title[language.value]}</a>
      {reached && <small class="reached"> ✓ {words[reached]}</small>}
      {sections.length > 0 && <small> {listed(sections.map(note => `§${note}`))}</small>}
      <span>{entry.what[language.value]}</span>
    </li>
  )
}

function Sofar() {
  const words = text()
  const opened = lessons.filter(({ name }) => progress.value[name]).length
  if (opened === 0) return null
  return (
    <p>
      {words.done(opened, lessons.length)}{' '}
      <button type="button" class="quiet" onClick={forget}>
        {words.forget}
      </button>
    </p>
  )
}
