/** Phrases with gaps, in both languages: whatever one of them says of its values, the other says too. */
import { deepEqual, doesNotMatch, equal, match, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import type { z } from 'zod'
import {
  descriptionPhrases,
  english,
  failureClause,
  faultPhrases,
  type Phrases,
  type Problem,
  type ProblemsError,
  parseFaults,
  speak,
  writingPhrases,
} from '../src/base/index.js'
import { clusterPhrases } from '../src/cluster/phrases.js'
import { ClusterRequest } from '../src/cluster/request.js'
import { compileJob } from '../src/compile/index.js'
import { EngineError } from '../src/engine/index.js'
import { enginePhrases } from '../src/engine/native/run/phrases.js'
import { generatePhrases } from '../src/generate/phrases.js'
import { clause, eventOf, eventPhrases, found } from '../src/health/index.js'
import { laws, parse, print, verify } from '../src/ir/index.js'
import { lawPhrases } from '../src/ir/laws/phrases.js'
import { textPhrases } from '../src/ir/text/phrases.js'
import { Job, parseJob, planPhrases } from '../src/plan/index.js'
import { schedulePhrases } from '../src/schedule/phrases.js'
import { searchPhrases } from '../src/search/phrases.js'
import { EngineFailure } from '../src/train/engine-failure.js'
import { injectNow } from '../src/train/index.js'
import { dataPhrases, runPhrases } from '../src/train/phrases.js'
import { descriptionPhrasesZh } from '../studio/text/descriptions.zh.js'
import { eventZh } from '../studio/text/events.zh.js'
import { eventPhrasesZh } from '../studio/text/events-phrases.zh.js'
import { linkPhrases } from '../studio/text/link-phrases.js'
import { isSaidZh, problemPhrasesZh, problemZh } from '../studio/text/problems.zh.js'
import { lawTitlesZh, programPhrasesZh, sayProgramZh } from '../studio/text/program.zh.js'
import { schemaTextsZh } from '../studio/text/schema-texts.zh.js'
import { speakZh } from '../studio/text/tongue.zh.js'
import { rows } from './bad-jobs.js'
import { jobOf } from './jobs.js'

const gapsIn = (text = ''): string[] => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))].sort()

const problemPhrases: Phrases = {
  ...{ ...planPhrases, ...clusterPhrases, ...schedulePhrases, ...searchPhrases },
  ...{ ...dataPhrases, ...enginePhrases, ...faultPhrases, ...linkPhrases, ...runPhrases },
  ...{ ...generatePhrases, ...writingPhrases },
}

const families: Readonly<Record<string, readonly [Phrases, Phrases]>> = {
  events: [eventPhrases, eventPhrasesZh],
  problems: [problemPhrases, problemPhrasesZh],
  descriptions: [descriptionPhrases, descriptionPhrasesZh],
  programs: [{ ...textPhrases, ...lawPhrases }, programPhrasesZh],
}

/** Three English words in a row are a sentence that nobody translated; what is to be typed stands between backticks, quotes or braces. */
const isChinese = (text: string): void =>
  doesNotMatch(
    text.replace(/`[^`]*`|"[^"]*"|\{[^}]*\}/g, ''),
    /[A-Za-z][a-z]+(?:[ ,]+[a-z]{2,}){2,}|undefined|\[object/,
    text,
  )

for (const [family, [en, zh]] of Object.entries(families))
  test(`${family}: every phrase has the gaps in Chinese that it has in English, and no English sentence`, () => {
    deepEqual(Object.keys(zh).sort(), Object.keys(en).sort())
    for (const [name, phrase] of Object.entries(en).filter(([name]) => !name.startsWith('.yaml/')))
      for (const part of [0, 1])
        deepEqual(gapsIn(zh[name]?.[part]), gapsIn(phrase[part]), `${name}: ${zh[name]?.[part]}`)
    for (const [phrase, words] of Object.entries(zh)) {
      const values = Object.fromEntries(words.flatMap(gapsIn).map(gap => [gap, 7]))
      for (const said of speakZh({ phrase, values }, zh)) isChinese(said)
    }
  })

const files: Readonly<Record<string, string>> = { './bert.json': '{"model_type": "bert"}' }
const readModel = (path: string): string => files[path] ?? '{}'

const saysAll = (problem: Problem): void => {
  ok(isSaidZh(problem), `${problem.code}: ${problem.message}`)
  isChinese(problemZh(problem))
}

test('whatever is wrong with a job is said in Chinese, all of it', () => {
  const small = rows.filter(([text]) => text.length < 2000)
  for (const [text] of small) for (const problem of parseJob(text, { readModel }).problems) saysAll(problem)
})

test('whatever is wrong with a fault is said in Chinese, all of it', () => {
  const texts = [
    'kil',
    'kill:rnk=1,step=0,step=2',
    'slow:rank=1.5,factor=x',
    'flip:rank=0,step=1,parameter=,bit=99',
    'slow',
  ]
  for (const problem of parseFaults(texts).problems) saysAll(problem)
})

test('every law has a title in Chinese, and a text that is no program is refused in Chinese', () => {
  deepEqual(Object.keys(lawTitlesZh), Object.keys(laws))
  for (const title of Object.values(lawTitlesZh)) isChinese(title)
  for (const text of ['progam x', 'mesh dp:x', 'stream 0 arena=', 'stream 1 arena=8', 'segment a phase=Q', '"'])
    throws(
      () => parse(text),
      ({ problems: [{ phrase = '', values = {}, line }] }: ProblemsError) => {
        equal(line, 1)
        isChinese(sayProgramZh({ phrase, values }))
        return Object.hasOwn(programPhrasesZh, phrase)
      },
    )
})

test('what laws say of broken programs is said in Chinese', () => {
  const lines = print(compileJob(jobOf('mlp', { dp: 2, pp: 2, microbatches: 2 }))).split('\n')
  const vital = lines.flatMap((line, i) => (/all-reduce|^ {2}(send|wait|free|call) /.test(line) ? [i] : []))
  const chosen = vital.filter((_, i) => i % Math.ceil(vital.length / 8) === 0)
  for (const gone of chosen) {
    const [violation] = verify(parse(lines.filter((_, i) => i !== gone).join('\n')))
    ok(violation, lines[gone])
    match(sayProgramZh(violation), /\p{Script=Han}/u)
  }
})

test('what becomes of a fault that a run is to have now is said in both languages', async () => {
  const happens = await injectNow('kill:rank=1', { behind: 6, inject: async () => {} })
  equal(happens.text, 'in step 7: kill:rank=1')
  equal(speakZh(happens.said!, problemPhrasesZh)[0], '第 7 步：kill:rank=1')
  const cannot = await injectNow('kil:rank=1', { behind: 6, inject: async () => {} })
  equal(cannot.text, 'kil:rank=1 cannot happen: unknown fault `kil`')
  equal(speakZh(cannot.said!, problemPhrasesZh)[0], 'kil:rank=1 不会发生：没有 `kil` 这种故障')
})

test('a step that failed is told in Chinese: which rank, why, and who waits for whom in what', () => {
  const at = (step: number) => failureClause('.command', { command: 'meet', step, what: 'call layers.F microbatch 0' })
  const of = { command: 0, text: '', last: [] }
  const gone = { place: at(5), why: failureClause('.thread/ended') }
  const cause = new EngineError([
    { ...of, rank: 0, state: 'waiting', waitsFor: [1], said: { place: at(4), why: '' } },
    { ...of, rank: 1, state: 'dead', waitsFor: [], said: gone },
  ])
  const { problems, brief } = new EngineFailure(['step', 3], cause)
  equal(
    problems[0].message,
    'step 3: rank 1 failed: its thread was terminated\n' +
      '  rank 0 waiting in meet of step 4 call layers.F microbatch 0, waiting for rank 1\n' +
      '  rank 1 dead in meet of step 5 call layers.F microbatch 0 (its thread was terminated)',
  )
  equal(
    problemZh(problems[0]),
    '第 3 步：rank 1 失败：它的线程被终止了\n' +
      '  rank 0 在等，停在 meet（序列第 4 项 call layers.F microbatch 0），在等 rank 1\n' +
      '  rank 1 已终止，停在 meet（序列第 5 项 call layers.F microbatch 0）（它的线程被终止了）',
  )
  equal(speakZh(brief, eventPhrasesZh)[0], '第 3 步：rank 1 失败：它的线程被终止了')
})

interface Def {
  readonly type: string
  readonly innerType?: z.ZodType
  readonly in?: z.ZodType
  readonly out?: z.ZodType
  readonly element?: z.ZodType
  readonly shape?: Readonly<Record<string, z.ZodType>>
  readonly options?: readonly z.ZodType[]
  readonly error?: (issue: object) => unknown
}

/** Whether a field must be there. */
const isNeeded = ({ _zod: { def, optin } }: z.ZodType): boolean =>
  optin !== 'optional' && !['optional', 'default', 'prefault'].includes(def.type)

/** What a schema says of fields that must be there, and of unions. */
function textsIn(schema: z.ZodType): string[] {
  const def = schema._zod.def as unknown as Def // the library types it per class only
  const inner = [def.innerType, def.in, def.out, def.element, ...(def.options ?? [])].filter(one => one !== undefined)
  const message = def.type === 'union' ? def.error?.({}) : undefined
  const fields = Object.values(def.shape ?? {})
  return [
    ...(typeof message === 'string' ? [message] : []),
    ...fields.flatMap(field => (isNeeded(field) && field.description ? [field.description] : [])),
    ...[...inner, ...fields].flatMap(textsIn),
  ]
}

test('what schemas say of fields that must be there, and of unions, is said in Chinese', () => {
  const texts = [...new Set([Job, ClusterRequest].flatMap(textsIn))]
  ok(texts.length > 30)
  deepEqual(
    texts.filter(text => !Object.hasOwn(schemaTextsZh, text)),
    [],
  )
  for (const text of Object.values(schemaTextsZh)) isChinese(text)
})

test('lists, phrases within phrases and what has no value', () => {
  const phrases = { all: ['{list} of {inner}{nothing}', 'try {any}'], inner: ['<{x}>'] } as const
  const values = {
    list: { joint: 'and', of: [1, 2, 3] },
    inner: { phrase: 'inner', values: { x: 7 } },
    any: [4, 8],
  } as const
  deepEqual(speak({ phrase: 'all', values }, english(phrases)), ['1, 2 and 3 of <7>', 'try 4 or 8'])
  deepEqual(speakZh({ phrase: 'all', values }, phrases), ['1、2 和 3 of <7>', 'try 4 或 8'])
  deepEqual(speakZh({ phrase: 'toString', values }, phrases), ['', ''])
  const advice = { list: '', inner: { advice: { phrase: 'all', values } }, nothing: '', any: '' }
  deepEqual(speak({ phrase: 'all', values: advice }, english(phrases)), [' of try 4 or 8', 'try '])
})

test('an event is said in Chinese from its line in metrics.jsonl', () => {
  const event = found(
    'timeout/rank',
    { step: 3, severity: 'error', rank: 1, numbers: { seconds: 2 } },
    { rank: 1, still: clause('.seconds', { seconds: '2.0' }), before: '' },
  )
  equal(event.message, 'rank 1 is stalled for 2.0 s')
  const read = eventOf(JSON.parse(JSON.stringify(event)))
  equal(
    read && eventZh(read),
    '错误（第 3 步，rank 1）：rank 1 停滞已 2.0 秒；flight record 记录了每个 rank 当时的位置；加上 --keep-going 会从前一步继续',
  )
})
