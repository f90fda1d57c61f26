/** The exercises, as a reader does them: incomplete, wrong, then right; the core says which. */
import { match, ok } from 'node:assert/strict'
import { after, before } from 'node:test'
import type { Page } from 'playwright-core'
import { later } from './share.js'
import { type Browsing, browse, type Host, hostStudio, inChromium } from './studio-page.js'

let browsing: Browsing
let host: Host
before(async () => {
  if ('skip' in inChromium) return
  host = await hostStudio()
  browsing = await browse()
})
after(async () => {
  await browsing?.close()
  host?.close()
})

async function exercise(name: string) {
  const tab = await browsing.tab(host.address)
  await tab.open(`learn/exercise/${name}?lang=en`)
  await tab.page.waitForSelector('.exercise .editor')
  return tab
}

const area = (page: Page) => page.locator('.editor textarea')
const solution = async (page: Page) => (await page.locator('.listing code').last().textContent()) ?? ''

/** What the check says of a text; by keyboard alone. */
async function said(page: Page, text: string): Promise<string> {
  await area(page).fill(text)
  await area(page).press('Tab')
  await page.keyboard.press('Enter')
  await page.waitForSelector('.editor[aria-busy="true"]', { state: 'detached' })
  return await page.locator('.verdict').innerText()
}

/** Solved, and equal to one rank to 1e-12. */
function solved(words: string): void {
  match(words, /^Solved\./)
  const [, values, off] = /(\d+) values have a counterpart, and the farthest is (\S+) of/.exec(words) ?? []
  ok(Number(values) > 10 && Number(off) <= 1e-12, words)
}

later('tp-backward: laws and lines until the all-reduce and its wait are back', inChromium, async () => {
  const { page, isFine } = await exercise('tp-backward')
  const start = await area(page).inputValue()
  match(await said(page, start), /L6.*%d\.x'1.*line 12/)
  const lines = start.split('\n')
  const started = lines.toSpliced(9, 0, "%d.x'1 = all-reduce %d.x over=tp combine=sum")
  match(await said(page, started.join('\n')), /L8.*nobody waits for %d\.x'1 line 10/s)
  match(await said(page, started.join('\n').replace('over=tp', 'over=dp')), /T2.*line 10/s)
  await page.getByRole('button', { name: 'line 10' }).first().click()
  match(await page.evaluate('getSelection().toString()'), /all-reduce/)
  solved(await said(page, started.toSpliced(10, 0, '', "wait %d.x'1").join('\n')))
  solved(await said(page, await solution(page)))
  await page.getByRole('button', { name: 'Hint 1 of 4' }).click()
  match(await page.locator('.hints li').innerText(), /sum:tp/)
  isFine()
})
