/**
 * The studio on a host that sends no headers: it isolates itself by a service worker, and trains without a network from then on. Where
 * there can be no such worker everything but threads works, and the page says so.
 */
import { deepEqual, equal, match } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { later } from './families.js'
import { hostStudio, inChromium, studioPages, type Watched } from './studio-page.js'

const pages = studioPages()
const blocked = studioPages({ serviceWorkers: 'block' })

const ready = (page: Page) => page.waitForSelector('main [aria-busy="true"]', { state: 'detached' })
const isIsolated = (page: Page) => page.evaluate('crossOriginIsolated')

/** Trains a few steps, and says what the page then says of them. */
async function trained({ page, open }: Watched, link: string): Promise<string> {
  await open(link)
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.waitForSelector('.status [data-state="done"]', { timeout: 120_000 })
  return (await page.textContent('.status strong'))!
}

later('a host without headers: isolated after one reload, and trains when the host is gone', inChromium, async () => {
  const host = await hostStudio(false)
  const tab = await pages.tab({ address: host.address })
  const { page, open, isFine } = tab
  let loads = 0
  page.on('load', () => loads++)
  await open('run?job=two&steps=3&sample=&lang=en')
  await page.waitForFunction('crossOriginIsolated')
  await page.waitForLoadState()
  equal(loads, 2)
  const online = await trained(tab, 'run?job=two&steps=3&sample=&lang=en&n=1')
  match(online, /step 3/)
  host.close()
  await page.reload()
  equal(await isIsolated(page), true)
  equal(await trained(tab, 'run?job=two&steps=3&sample=&lang=en&n=2'), online)
  for (const route of ['', 'plan', 'learn/zero', 'program', 'schedule', 'clusters']) {
    await open(`${route}?lang=en`)
    await ready(page)
    equal(await page.locator('.trouble').count(), 0, route)
  }
  isFine()
  await page.close()
})

/** Every page of the header and all lessons. */
async function routes({ page, open }: Watched): Promise<readonly string[]> {
  await open('learn')
  const links = await page.$$eval('a[href^="#/"]', all => all.map(link => link.getAttribute('href')!.slice(2)))
  return [...new Set(['', ...links.map(link => link.replace(/\?.*/, ''))])]
}

/** Where ranks are threads if they can be. */
const threaded = ['', 'learn/collectives', 'learn/all-reduce', 'learn/bandwidth', 'learn/clinic']

later(
  'without service workers every page works, without threads, and says so where it would have some',
  inChromium,
  async () => {
    const host = await hostStudio(false)
    const tab = await blocked.tab({ address: host.address })
    for (const route of new Set([...threaded, ...(await routes(tab))])) {
      await tab.open(`${route}?lang=en`)
      await ready(tab.page)
      equal(await tab.page.locator('.trouble').count(), 0, route)
    }
    equal(await isIsolated(tab.page), false)
    await tab.open('?lang=en')
    match((await tab.page.textContent('.home'))!, /may not share memory.* Everything works but threads/)
    await tab.open('learn/collectives?lang=en')
    match((await tab.page.textContent('main'))!, /by the interpreter: ranks are no threads here/)
    await tab.open('run?lang=en')
    match((await tab.page.textContent('.run'))!, /not isolated.* the interpreter runs all of them/)
    match(await trained(tab, 'run?job=tiny&steps=2&sample=&lang=en'), /step 2/)
    deepEqual(
      tab.complaints.filter(said => !said.includes('blocked by Playwright')),
      [],
    )
    await tab.page.close()
    host.close()
  },
)

later(
  'a host that refuses the worker’s file, or what it is to keep: threads are there without a network or not at all',
  inChromium,
  async () => {
    const host = await hostStudio(false, ['/sw.js'])
    const tab = await pages.tab({ address: host.address })
    match(await trained(tab, 'run?job=tiny&steps=2&sample=&lang=en'), /step 2/)
    equal(await isIsolated(tab.page), false)
    await tab.page.close()
    host.close()
    const poor = await hostStudio(false, ['/icon.svg'])
    const { page, open } = await pages.tab({ address: poor.address })
    await open('run?lang=en')
    await page.waitForFunction('crossOriginIsolated')
    await page.close()
    poor.close()
  },
)

const nothingStored = `for (const name of ['localStorage', 'sessionStorage'])
  Object.defineProperty(globalThis, name, { get() { throw new DOMException('not allowed', 'SecurityError') } })`

later('where nothing may be stored every page works, and the language is the link’s', inChromium, async () => {
  const { page, open, isFine } = await pages.tab()
  await page.addInitScript(nothingStored)
  for (const route of ['', 'plan', 'learn', 'learn/zero', 'schedule?s=1f1b', 'program', 'run']) {
    await open(route)
    await ready(page)
    equal(await page.locator('.trouble').count(), 0, route)
  }
  await page.getByRole('button', { name: '中文' }).click()
  await page.waitForFunction(`document.documentElement.lang === 'zh-CN'`)
  await open('learn/zero?lang=zh')
  await ready(page)
  isFine()
  await page.close()
})
