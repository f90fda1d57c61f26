/** Events of a run in another language: what an event says is what its phrase says, so that a page can say it in its own. */
import { deepEqual, ok } from 'node:assert/strict'
import { english, speak } from '../src/base/index.js'
import { eventOf, eventPhrases, type HealthEvent } from '../src/health/index.js'

/** The events among lines of metrics. */
export const spokenEvents = (lines: readonly unknown[]): HealthEvent[] =>
  lines.flatMap(line => {
    const event = eventOf(line)
    if (!event) return []
    const { phrase, values = {}, message, advice = '', where, place } = event
    ok(phrase !== undefined && Object.hasOwn(eventPhrases, phrase), `${event.event}: ${phrase}`)
    deepEqual(speak({ phrase, values }, english(eventPhrases)), [message, advice])
    if (place) deepEqual(speak(place, english(eventPhrases))[0], where)
    return [event]
  })
