/** Claims on their page: run there, they have the values, the verdicts and the sentences that they have in Node. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { claims, labOf, settle } from '../studio/claims/index.js'
import { later } from './families.js'
import { inChromium, studioPages, type Watched } from './studio-page.js'

const pages = studioPages()

const lab = labOf()
/** Longest that a claim takes on a machine that has other things to do. */
const patience = { timeout: 60_000 }

/** Runs the claims that the link shows, and holds each against Node. */
async function holdAgainstNode({ page, open, isFine }: Watched, query: string, language: 'en' | 'zh') {
  await open(`claims?${query}&lang=${language}`)
  await page.waitForSelector('li.claim')
  const ids = await page.$$eval('li.claim', all => all.map(({ id }) => id.replace('claim-', '')))
  const button = page.locator('.claims-progress button')
  const isRunning = async () => /^(Stop|停止)$/.test((await button.textContent()) ?? '')
  // Those that the notes disagree on have begun by themselves. Where the last of them ends just now, the click begins all.
  if (await isRunning()) await button.click()
  if (!(await isRunning())) await button.click()
  for (const id of ids) {
    const item = page.locator(`#claim-${id}[data-values]`)
    await item.waitFor(patience)
    const { values, sentence, verdict } = settle(claims.find(claim => claim.id === id)!, lab)
    deepEqual(JSON.parse((await item.getAttribute('data-values'))!), values, id)
    equal(await item.locator('.outcome').textContent(), sentence[language])
    ok((await item.locator('.verdict').getAttribute('class'))!.includes(verdict))
  }
  isFine()
  return ids
}

later('claims run on their page as in Node: pipelines in English, links in Chinese', inChromium, async () => {
  const watched = await pages.tab()
  const pipelines = await holdAgainstNode(watched, 'page=pipeline', 'en')
  deepEqual(
    pipelines,
    claims
      .filter(({ page }) => page === 'pipeline')
      .map(({ id }) => id)
      .sort(disputedFirst),
  )
  ok((await holdAgainstNode(watched, 'page=hardware', 'zh')).length > 3)
  await watched.page.close()
})

const disputed = new Set(claims.filter(claim => claim.disputed).map(({ id }) => id))
const disputedFirst = (a: string, b: string) => Number(disputed.has(b)) - Number(disputed.has(a))

later(
  'claims are shown by verdict, one is run again by its button, a link that means nothing shows none',
  inChromium,
  async () => {
    const { page, open, isFine } = await pages.tab()
    await open('claims?page=pipeline&lang=en')
    const item = page.locator('#claim-naive-pipeline')
    await item.locator('.about button').click()
    await page.locator('#claim-naive-pipeline[data-values]').waitFor(patience)
    equal(await item.locator('.about button').textContent(), 'Run again')
    await page.getByLabel('Verdict').selectOption('yes')
    equal(await page.locator('li.claim').first().getAttribute('id'), 'claim-naive-pipeline')
    await page.waitForURL(/verdict=yes/)
    await page.goBack()
    ok((await page.locator('li.claim').count()) > 3)
    await open('claims?page=%3Cb%3E&lang=en')
    await page.getByText('No claim is like that.').waitFor()
    isFine()
    await page.close()
  },
)

later('every claim runs on the page as in Node', inChromium, async () => {
  const watched = await pages.tab()
  const topics = [...new Set(claims.map(({ page }) => page))]
  for (const topic of topics) {
    const held = await holdAgainstNode(watched, `page=${topic}`, 'en')
    equal(held.length, claims.filter(({ page }) => page === topic).length)
  }
  await watched.page.close()
})
