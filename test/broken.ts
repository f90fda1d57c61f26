/** Programs of test/toy.ts with their text changed, each of which must break a law, and where. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Law, showViolation, type Violation, verify } from '../src/ir/index.js'
import { type Toy, toy } from './toy.js'

export const all: Toy = { dp: 2, tp: 2, pp: 2 }

/** Replaces one occurrence (the nth) of a piece of the program's text. */
export const swap =
  (from: string | RegExp, to: string, nth = 0) =>
  (text: string): string => {
    let seen = 0
    const all = new RegExp(typeof from === 'string' ? from.replace(/[.*+?^${}()|[\]\\]/g, '\\$&') : from.source, 'gm')
    const out = text.replace(all, (found, ...groups) =>
      seen++ === nth ? to.replace(/\$(\d)/g, (_, i) => groups[Number(i) - 1]) : found,
    )
    assert.notEqual(out, text, `nothing to change: ${from}`)
    return out
  }

/** Takes a line away, or puts it below the line after. */
export const drop = (line: string | RegExp, nth = 0) => swap(typeof line === 'string' ? lineOf(line) : line, '', nth)
export const later = (line: string) => swap(new RegExp(`(${lineOf(line).source})(.*\\n)`), '$2$1')
const quote = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
const lineOf = (text: string) => new RegExp(`^ {2}${quote(text)}\\n`)

/** Takes the first piece away and puts it before the first place. */
export const before = (piece: RegExp, place: RegExp) => (text: string) => {
  const [found] = new RegExp(piece.source, 'm').exec(text) ?? assert.fail(`no ${piece}`)
  return text.replace(found, '').replace(new RegExp(place.source, 'm'), at => found + at)
}

/** The index of a frame by its name, in a stream. */
export const frameOf = (text: string, stream: number, name: string) =>
  new RegExp(`^stream ${stream}[\\s\\S]*?^ {2}frame (\\d+) ${name} `, 'm').exec(text)![1]

/** A segment under another name, changed, called in place of the first call. */
export const variant = (name: string, edit: (text: string) => string) => (text: string) => {
  const [body] = new RegExp(`^segment ${quote(name)} [\\s\\S]*?(?=^segment|^stream)`, 'm').exec(text)!
  const other = edit(body.replace(`segment ${name} `, `segment ${name}.other `))
  return text.replace(/^stream 0/m, `${other}\nstream 0`).replace(`call ${name} `, `call ${name}.other `)
}

interface Where {
  readonly segment?: string
  readonly pipeline?: number
}

export function breaks(
  law: Law,
  what: string,
  edit: (text: string) => string,
  { plan = all, ...where }: Where & { plan?: Toy } = {},
) {
  test(`[${law}] ${what}`, () => {
    const found = verify(toy(plan, edit), toy({ tied: plan.tied ?? false, microbatches: plan.microbatches ?? 2 }))
    const fits = (v: Violation) => Object.entries(where).every(([key, value]) => v[key as keyof Where] === value)
    const own = found.filter(violation => violation.law === law)
    assert.ok(own.length > 0, `not caught; instead: ${found.map(showViolation).join('\n')}`)
    assert.ok(own.some(fits), `caught elsewhere: ${own.map(showViolation).join('\n')}`)
  })
}
