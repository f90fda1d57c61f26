/** Every claim of the course notes, settled by running it: those the notes disagree on first, by lesson and by verdict. */
import { useEffect, useRef } from 'preact/hooks'
import { defineText, language } from '../../base/language.js'
import { place, setQuery } from '../../base/router.js'
import { Card, type Standing, standingOf, verdictNames } from '../../parts/claims/index.js'
import { cards, listClaims, runClaims, states, unsettled } from '../../parts/claims/store.js'
import { Choice } from '../../parts/controls.js'
import type { ClaimCard } from '../../work/claims.js'
import { lessonOf } from '../learn/lessons.js'

const text = defineText(
  {
    title: 'Settle it by running',
    lead: 'Five sets of course notes make claims about distributed training, and some contradict each other. Each claim here is a function: the compiler, the simulator or the interpreter gives the numbers, a predicate says whether it holds. The tests run the same functions.',
    lesson: 'Lesson',
    verdict: 'Verdict',
    all: 'all',
    runAll: (n: number) => `Run all ${n}`,
    stop: 'Stop',
    progress: (done: number, n: number) => `${done} of ${n} settled.`,
    counts: (yes: number, no: number, depends: number) => `${yes} hold, ${no} do not, ${depends} depend.`,
    none: 'No claim is like that.',
    loading: 'Loading …',
  },
  {
    title: '跑一跑就知道',
    lead: '五份课程笔记对分布式训练下了许多论断，有些还互相矛盾。这里每条论断都是一个函数：编译器、模拟器或解释器给出数字，再由判据判断成不成立。测试里跑的是同样的函数。',
    lesson: '课程',
    verdict: '结论',
    all: '全部',
    runAll: (n: number) => `全部运行（${n} 条）`,
    stop: '停止',
    progress: (done: number, n: number) => `${n} 条里已有 ${done} 条有结论。`,
    counts: (yes: number, no: number, depends: number) => `${yes} 条成立，${no} 条不成立，${depends} 条看情况。`,
    none: '没有这样的论断。',
    loading: '加载中……',
  },
)

const standings: readonly Standing[] = ['yes', 'no', 'depends', 'unknown']

export default function Claims() {
  const words = text()
  const list = cards.value
  const { page = '', verdict = '' } = place.value.query
  const giveUp = useRef(() => {})
  useEffect(() => {
    void listClaims().then(() => {
      const disputed = (cards.peek() ?? []).filter(card => card.disputed).map(({ id }) => id)
      const wanted = unsettled(disputed)
      if (wanted.length > 0) giveUp.current = runClaims(wanted)
    })
    return () => giveUp.current()
  }, [])
  const shown = (list ?? []).filter(
    card => (page === '' || card.page === page) && (verdict === '' || standingOf(states.value[card.id]) === verdict),
  )
  const run = () => {
    giveUp.current()
    giveUp.current = runClaims(shown.map(({ id }) => id))
  }
  return (
    <article>
      <h1>{words.title}</h1>
      <p class="lead">{words.lead}</p>
      {list ? (
        <>
          <Filters list={list} page={page} verdict={verdict} />
          <Progress shown={shown} run={run} stop={() => giveUp.current()} />
          <ul class="claims">
            {shown.map(card => (
              <Card key={card.id} card={card} linked />
            ))}
          </ul>
          {shown.length === 0 && <p>{words.none}</p>}
        </>
      ) : (
        <p aria-busy="true">{words.loading}</p>
      )}
    </article>
  )
}

interface FiltersProps {
  readonly list: readonly ClaimCard[]
  readonly page: string
  readonly verdict: string
}

function Filters({ list, page, verdict }: FiltersProps) {
  const words = text()
  const names = verdictNames()
  const pages = [...new Set(list.map(card => card.page))].sort()
  const all = { value: '', label: words.all }
  return (
    <div class="controls">
      <Choice
        label={words.lesson}
        options={[all, ...pages.map(value => ({ value, label: lessonOf(value)?.title[language.value] ?? value }))]}
        value={page}
        change={page => setQuery({ page }, true)}
      />
      <Choice
        label={words.verdict}
        options={[all, ...standings.map(value => ({ value, label: names[value] }))]}
        value={verdict}
        change={verdict => setQuery({ verdict }, true)}
      />
    </div>
  )
}

interface ProgressProps {
  readonly shown: readonly ClaimCard[]
  readonly run: () => void
  readonly stop: () => void
}

function Progress({ shown, run, stop }: ProgressProps) {
  const words = text()
  const all = shown.map(({ id }) => standingOf(states.value[id]))
  const counted = (standing: Standing) => all.filter(each => each === standing).length
  const [yes, no, depends] = [counted('yes'), counted('no'), counted('depends')]
  const running = counted('running') > 0
  return (
    <p class="claims-progress">
      <button type="button" onClick={running ? stop : run} disabled={shown.length === 0}>
        {running ? words.stop : words.runAll(shown.length)}
      </button>{' '}
      {words.progress(yes + no + depends, shown.length)} {/* Said once when all are done, not after each. */}
      <span role="status">{!running && words.counts(yes, no, depends)}</span>
    </p>
  )
}
