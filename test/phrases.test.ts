/** Phrases with gaps, in both languages: whatever one of them says of its values, the other says too. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { test } from 'node:test'
import { english, type Phrases, speak } from '../src/base/index.js'
import { clause, eventOf, eventPhrases, found } from '../src/health/index.js'
import { planPhrases } from '../src/plan/index.js'
import { eventZh } from '../studio/text/events.zh.js'
import { eventPhrasesZh } from '../studio/text/events-phrases.zh.js'
import { planPhrasesZh } from '../studio/text/problems-phrases.zh.js'
import { speakZh } from '../studio/text/tongue.zh.js'

const gapsIn = (text = ''): string[] => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))].sort()

const families: Readonly<Record<string, readonly [Phrases, Phrases]>> = {
  events: [eventPhrases, eventPhrasesZh],
  plans: [planPhrases, planPhrasesZh],
}

for (const [family, [en, zh]] of Object.entries(families))
  test(`${family}: every phrase has the gaps in Chinese that it has in English`, () => {
    for (const [name, phrase] of Object.entries(en))
      for (const part of [0, 1])
        deepEqual(gapsIn(zh[name]?.[part]), gapsIn(phrase[part]), `${name}: ${zh[name]?.[part]}`)
    for (const [message] of Object.values(zh)) match(message.replace(/\{\w+\}/g, '中'), /\p{Script=Han}/u)
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
})

test('an event is said in Chinese from its line in metrics.jsonl', () => {
  const event = found(
    'timeout/rank',
    { step: 3, severity: 'error', rank: 1, numbers: { seconds: 2 } },
    { rank: 1, still: clause('.seconds', { seconds: '2.0' }), before: '' },
  )
  equal(event.message, 'rank 1 stands still for 2.0 s')
  const read = eventOf(JSON.parse(JSON.stringify(event)))
  equal(
    read && eventZh(read),
    '错误（第 3 步，rank 1）：rank 1 停着不动已 2.0 秒；飞行记录写着每个 rank 当时在做什么；加上 --keep-going 会从前一步继续',
  )
})
