/** The program page: walking through a step, and what the laws say of a program that was changed by hand. */
import { equal, match, notEqual, ok } from 'node:assert/strict'
import { later, test } from './families.js'
import { inChromium, studioPages, type Watched } from './studio-page.js'

const pages = studioPages()

const ready = ({ page }: Watched) => page.waitForSelector('main [aria-busy="true"]', { state: 'detached' })
const captions = ({ page }: Watched) => page.locator('figcaption').allInnerTexts()

later('walking to the last instruction and back, values are those of one rank to 1e-12', inChromium, async () => {
  const tab = await pages.tab()
  await tab.open('program?job=dp 2 x tp 2 x pp 2, sp, zero 3&rank=5&lang=en')
  await ready(tab)
  const seen = new Map<number, string>()
  const next = tab.page.getByRole('button', { name: 'Next', exact: true })
  for (let at = 0; at < 40; at++) {
    seen.set(at, (await captions(tab))[0]!)
    await next.click()
  }
  const same = [...seen.values()].flatMap(words => /the same, to (\S+) of/.exec(words)?.[1] ?? [])
  ok(same.length >= 10, `${same.length} values have a counterpart`)
  for (const off of same) ok(Number(off) <= 1e-12, off)
  const back = tab.page.getByRole('button', { name: 'Back', exact: true })
  for (let at = 39; at >= 34; at--) {
    await back.click()
    match((await captions(tab))[0]!, new RegExp(escaped(seen.get(at)!)))
  }
  tab.isFine()
})

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

later('an all-reduce that is deleted in the text is named by law and line', inChromium, async () => {
  const tab = await pages.tab()
  await tab.open('program?job=tp 2&lang=en')
  await ready(tab)
  const area = tab.page.locator('.edit textarea')
  const lines = (await area.inputValue()).split('\n')
  const at = lines.findIndex(line => line.includes('= all-reduce %down~1 '))
  const wait = lines.findIndex((line, n) => n > at && line.trim().startsWith("wait %down~1'1"))
  await area.fill(lines.filter((_, n) => n !== at && n !== wait).join('\n'))
  await tab.page.getByRole('button', { name: 'Prove' }).click()
  const said = await tab.page.locator('.judged li').first().innerText()
  match(said, /^[A-Z]\d+ /)
  match(said, /line \d+/)
  await tab.page.getByRole('button', { name: 'Start over' }).click()
  await tab.page.getByRole('button', { name: 'Prove' }).click()
  await tab.page.locator('.judged .good').waitFor()
  await area.press('End')
  await area.press('x')
  await tab.page.locator('.judged .good').waitFor({ state: 'detached' })
  tab.isFine()
})

const large = `model: llama2-7b
training: { seq: 1024, globalBatch: 16 }
plan: { dp: 8, zero: 1 }
`

test('another job brings its own text to prove, and one too large is not run for its values', inChromium, async () => {
  const tab = await pages.tab()
  const { page } = tab
  const area = page.locator('.edit textarea')
  await tab.open('program?job=tp 2&lang=en')
  await ready(tab)
  const first = await area.inputValue()
  await page.getByLabel('Job', { exact: true }).selectOption('pp 2, 1f1b')
  await ready(tab)
  notEqual(await area.inputValue(), first)
  await page.getByRole('button', { name: 'Prove' }).click()
  await page.locator('.judged .good').waitFor()
  await page.locator('textarea.job').fill(large)
  await page.locator('textarea.job').blur()
  await page.locator('.too-large').waitFor()
  await ready(tab)
  equal(await page.locator('main .trouble').count(), 0)
  tab.isFine()
})
