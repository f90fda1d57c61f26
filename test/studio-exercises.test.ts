/** The exercises, as a reader does them: incomplete, wrong, then right; the core says which. */
import { match, ok } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { later } from './families.js'
import { inChromium, studioPages } from './studio-page.js'

const pages = studioPages()

async function exercise(name: string) {
  const tab = await pages.tab()
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
  return await page.locator('.judged').innerText()
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
  match(await said(page, started.join('\n')), /L8.*%d\.x'1 is never waited for line 10/s)
  match(await said(page, started.join('\n').replace('over=tp', 'over=dp')), /T2.*line 10/s)
  await page.getByRole('button', { name: 'line 10' }).first().click()
  match(await page.evaluate('getSelection().toString()'), /all-reduce/)
  solved(await said(page, started.toSpliced(10, 0, '', "wait %d.x'1").join('\n')))
  solved(await said(page, await solution(page)))
  await page.getByRole('button', { name: 'Hint 1 of 4' }).click()
  match(await page.locator('.hints li').innerText(), /sum:tp/)
  isFine()
})

later('pp-backward: what is missing or deadlocks is named; any order that runs is right', inChromium, async () => {
  const { page, isFine } = await exercise('pp-backward')
  const rows = (await area(page).inputValue()).split('\n')
  match(await said(page, rows.join('\n')), /16 things are wrong.*stage 0 microbatch 0 has its backward 0 times/s)
  const behind = rows.map((row, stage) => `${row},${[0, 1, 2, 3].map(n => `${stage}B${n}`).join(',')}`)
  const deadlocked = behind.with(3, '3F0,3F1,3F2,3F3,3B3,3B2,3B1,3B0').with(0, '0F0,0B0,0F1,0F2,0F3,0B1,0B2,0B3')
  match(await said(page, deadlocked.join('\n')), /rank 0 is deadlocked at 0B0/)
  match(await said(page, behind.slice(0, 3).join('\n')), /3 ranks, 3 stages and 4 microbatches; asked for are 4/)
  const words = await said(page, behind.join('\n'))
  solved(words)
  match(words, /A step takes 21 forwards.* hold 4 4 4 4 activations/)
  isFine()
})

later('bubble: 1F1B is not enough, halves of backwards are; the score is against ZB-H1', inChromium, async () => {
  const { page, isFine } = await exercise('bubble')
  const start = await area(page).inputValue()
  match(await said(page, start), /Your step takes 33; 1F1B takes 33/)
  const words = await said(page, start.replaceAll(/(\d)B(\d)/g, '$1I$2,$1W$2'))
  solved(words)
  match(words, /1F1B 33, yours 30, ZB-H1 27: 50% of the way/)
  isFine()
})

later('hybrid: collectives and groups as the compiled program has them, of either mesh', inChromium, async () => {
  const { page, isFine } = await exercise('hybrid')
  match(await said(page, await area(page).inputValue()), /plan\.dp.*expected a number/s)
  const right = await solution(page)
  match(await said(page, right.replace('dp: 2, tp: 4', 'dp: 8, tp: 1')), /both axes should have more than one/)
  const other = right.replace('dp: 2, tp: 4', 'dp: 4, tp: 2')
  match(await said(page, other), /2 things are wrong.*tp group of rank 5: “4 5 6 7” is not/s)
  solved(await said(page, other.replace('4 5 6 7', '5, 4').replace('1 5', '1 3 5 7')))
  match(
    await said(page, right.replace('gradients: all-reduce dp', 'gradients: all-reduce tp')),
    /gradients: “all-reduce tp”/,
  )
  isFine()
})

later('communication: a pair the wrong way round is named, then bytes are shown', inChromium, async () => {
  const { page, isFine } = await exercise('communication')
  match(await said(page, 'dp\ntp\npp\nzero 3'), /Line 2: tp sends more than dp/)
  match(await said(page, 'dp\ntp\npp'), /zero 3 should stand there once/)
  match(await said(page, await solution(page)), /^Solved\..*tp sends 18 times what pp sends/s)
  isFine()
})
