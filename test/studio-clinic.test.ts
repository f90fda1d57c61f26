/** Two lessons as a reader meets them: published runs are those of `lockstep case`, and patients of the clinic are diagnosed and repaired. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { cases, compareCase, rowsOf } from '../src/index.js'
import { later } from './families.js'
import { inChromium, studioPages } from './studio-page.js'

const pages = studioPages()

const percent = (share: number) =>
  `${new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 }).format(share)}`

later('cases: every row of Llama 3 with the error that `lockstep case` tells', inChromium, async () => {
  const { page, open, isFine } = await pages.tab()
  await open('learn/cases?run=llama3&lang=en')
  await page.locator('figure[aria-busy="false"]').first().waitFor()
  const shown = await page.$$eval('article > .stage tbody tr', rows => rows.map(row => row.children[6]!.textContent))
  const rows = rowsOf(readFileSync('validation/llama3.csv', 'utf8'))
  const timed = ['llama3-405b-8k', 'llama3-405b-128k'].flatMap(name => compareCase(cases[name], rows).timed)
  ok(timed.length > 2)
  deepEqual(
    shown,
    timed.map(({ error, fitted }) => `${percent(error)}${fitted ? ' *' : ''}`),
  )
  isFine()
  await page.close()
})

later('clinic: out of memory is repaired by a button, which Back undoes', inChromium, async () => {
  const { page, open, isFine } = await pages.tab()
  await open('learn/clinic?lang=en')
  const caption = page.locator('figure figcaption').first()
  await page.getByText('too much.').waitFor()
  await page.locator('.repairs button').first().click()
  await page.getByText('a step takes').waitFor()
  await page.waitForURL(/zero=[123]/)
  equal(await page.locator('.repairs button').count(), 0)
  await page.goBack()
  await page.getByText('too much.').waitFor()
  match((await caption.textContent())!, /^It needs .* where a device has/)
  isFine()
  await page.close()
})

later(
  'clinic: the engine names where the first number is made that is not finite, and who waits for whom',
  inChromium,
  async () => {
    const { page, open, isFine } = await pages.tab()
    await open('learn/clinic?patient=lr&lr=1000&lang=en')
    await page.getByText('The run ended').waitFor()
    match((await page.locator('figure figcaption').first().textContent())!, /^Step 2 is not finite: .* loss/)
    await open('learn/clinic?patient=sum&lang=en')
    await page.getByText('sum:dp').first().waitFor()
    await open('learn/clinic?patient=hang&lang=en')
    await page.getByText('recv F0.0 x has no send').first().waitFor()
    await page.getByRole('button', { name: 'Lose a message in step 2' }).click()
    await page.getByText('waiting for rank').first().waitFor()
    match((await page.locator('.lost-message').textContent())!, /all ranks are stalled: 2 of 2 are waiting/)
    isFine()
    await page.close()
  },
)
