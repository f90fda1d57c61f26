/**
 * The studio as a reader meets it: every route opens without a complaint, is accessible by axe's rules, small enough, and fits a narrow
 * screen, in both languages and themes.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { later, test } from './families.js'
import { inChromium, studioPages, violations } from './studio-page.js'

/** Where a file of screenshots goes by route, theme, language and width; unset: none are made. */
const shots = process.env.LOCKSTEP_SHOTS

const pages = studioPages()

/** Every page of the header, and all that the index of lessons leads to. */
async function routes(page: Page, open: (place: string) => Promise<void>): Promise<readonly string[]> {
  const links = async () =>
    await page.$$eval('a[href^="#/"]', all => all.map(link => link.getAttribute('href')!.slice(2).replace(/\?.*/, '')))
  await open('')
  const first = await links()
  await open('learn')
  return [...new Set(['', ...first, ...(await links())])]
}

/** What is wider than the screen, but for what scrolls by itself. */
const overflow = (page: Page) =>
  page.evaluate(() => {
    const { document } = globalThis as unknown as {
      document: { documentElement: { scrollWidth: number; clientWidth: number } }
    }
    return document.documentElement.scrollWidth - document.documentElement.clientWidth
  })

test('every page of the header opens without a complaint', inChromium, async () => {
  const { page, open, isFine } = await pages.tab()
  await open('')
  const links = await page.$$eval('header a[href^="#/"]', all => all.map(link => link.getAttribute('href')!.slice(2)))
  ok(links.length >= 8, String(links))
  for (const link of links) {
    await open(link)
    await page.waitForSelector('main [aria-busy="true"]', { state: 'detached' })
  }
  isFine()
  await page.close()
})

const nameOf = (route: string) => (route === '' ? 'home' : route.replaceAll('/', '-'))

for (const [theme, language] of [
  ['light', 'en'],
  ['dark', 'zh'],
] as const)
  later(
    `every route in ${theme} ${language}: no complaint, no violation of axe, at most 3,000 nodes`,
    inChromium,
    async t => {
      const { page, open, isFine } = await pages.tab()
      const all = await routes(page, open)
      ok(all.length >= 8, String(all))
      for (const route of all)
        await t.test(route || 'home', async () => {
          await open(`${route}?lang=${language}&theme=${theme}`)
          await page.waitForSelector('main [aria-busy="true"]', { state: 'detached' })
          if (shots)
            await page.screenshot({ path: `${shots}/${nameOf(route)}-${theme}-${language}-1280.png`, fullPage: true })
          deepEqual(await violations(page), [])
          ok((await page.locator('*').count()) <= 3000)
          isFine()
        })
      await page.close()
    },
  )

for (const [theme, language] of [
  ['dark', 'en'],
  ['light', 'zh'],
] as const)
  later(
    `every route in ${theme} ${language}, 320 points wide: nothing but tables and timelines scrolls sideways`,
    inChromium,
    async t => {
      const { page, open } = await pages.tab({ size: { width: 320, height: 640 } })
      for (const route of await routes(page, open))
        await t.test(route || 'home', async () => {
          await open(`${route}?lang=${language}&theme=${theme}`)
          await page.waitForSelector('main [aria-busy="true"]', { state: 'detached' })
          if (shots)
            await page.screenshot({ path: `${shots}/${nameOf(route)}-${theme}-${language}-320.png`, fullPage: true })
          equal(await overflow(page), 0)
        })
      await page.close()
    },
  )
