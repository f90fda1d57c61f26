/** The timeline in a real browser: spans are chosen and the view is moved by keys and by the mouse, and all of it is said. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { later } from './families.js'
import { inChromium, studioPages, violations } from './studio-page.js'

const pages = studioPages()
const step = 'plan?model=llama2-7b&on=h100*16&seq=1024&batch=16&plan=tp2.sp.pp2.dp4.z1.m4.1f1b.bf16&tab=timeline'

async function atTimeline() {
  const tab = await pages.tab()
  await tab.open(`${step}&lang=en`)
  await tab.page.waitForSelector('.headline[aria-busy="false"]')
  await tab.page.waitForSelector('.timeline-picture')
  return tab
}

const says = (page: Page, words: string) =>
  page.waitForFunction(`document.querySelector('.timeline-said > span').textContent.includes(${JSON.stringify(words)})`)
const isAloud = (page: Page, words: string) =>
  page.waitForFunction(
    `document.querySelector('.timeline-said [aria-live]').textContent.includes(${JSON.stringify(words)})`,
  )
const map = (page: Page) => page.getByRole('slider', { name: 'The part of the step that is shown' })
/** `0 s to 0.121 s of 0.121 s`, as numbers. */
const seen = async (page: Page) =>
  ((await map(page).getAttribute('aria-valuetext'))!.match(/[\d.]+/g) ?? []).map(Number)
const changes = (page: Page, from: string | null) =>
  page.waitForFunction(
    `document.querySelector('.timeline-map').getAttribute('aria-valuetext') !== ${JSON.stringify(from)}`,
  )

/** But for what is rounded. */
const near = (value: number, meant: number) => ok(Math.abs(value - meant) < 0.01 * meant, `${value}, not ${meant}`)

/** Pixels of the picture that have the colour of the frame. */
const framed = (page: Page) =>
  page.evaluate(`(() => {
    const canvas = document.querySelector('.timeline-picture canvas')
    const ink = getComputedStyle(canvas).getPropertyValue('--ink').trim()
    const { data } = canvas.getContext('2d').getImageData(0, 22, canvas.width, canvas.height - 22)
    let count = 0
    for (let i = 0; i < data.length; i += 4)
      count += '#' + [data[i], data[i + 1], data[i + 2]].map(part => part.toString(16).padStart(2, '0')).join('') === ink
    return count
  })()`) as Promise<number>

later(
  'a span is walked to, zoomed to and said: rank, stage, microbatch; Back zooms out again',
  inChromium,
  async () => {
    const { page, isFine } = await atTimeline()
    const picture = page.locator('.timeline-picture')
    equal(await framed(page), 0)
    await picture.press('ArrowRight')
    await says(page, 'stage 0, microbatch 0')
    match(
      (await page.textContent('.timeline-said > span'))!,
      /^rank 0 and 7 like it, forward, \w+, stage 0, microbatch 0, 0\.\d+ s to 0\.\d+ s$/,
    )
    await isAloud(page, 'stage 0, microbatch 0')
    await picture.press('ArrowDown')
    await picture.press('ArrowDown')
    await says(page, 'rank 8')
    const [, , all] = await seen(page)
    await picture.press('Enter')
    await page.waitForURL(/[?&]t=/)
    const [from, to] = await seen(page)
    ok(to! - from! < all! / 4, `${from} to ${to} of ${all}`)
    await page.goBack()
    await page.waitForURL(({ hash }) => !hash.includes('&t='))
    await page.waitForFunction(
      `document.querySelector('.timeline-map').getAttribute('aria-valuetext').startsWith('0 s')`,
    )
    deepEqual((await seen(page)).slice(0, 2), [0, all])
    isFine()
    await page.close()
  },
)

later('ranks one by one: down is the next rank, and a frame is around the span', inChromium, async () => {
  const { page, isFine } = await atTimeline()
  await page.selectOption('.timeline .tools select', 'ranks')
  await page.waitForSelector('.timeline-rows', { state: 'detached' })
  const picture = page.locator('.timeline-picture')
  await picture.press('ArrowRight')
  await says(page, 'rank 0, ')
  await picture.press('ArrowDown')
  await says(page, 'rank 1, ')
  await page.waitForFunction(`document.querySelector('.timeline-said [aria-live]').textContent.includes('rank 1, ')`)
  notEqual(await framed(page), 0)
  isFine()
  await page.close()
})

later(
  'the map of a step: keys and the mouse move what is seen, and it is said; axe finds nothing',
  inChromium,
  async () => {
    const { page, isFine } = await atTimeline()
    const [, , all] = await seen(page)
    const text = () => map(page).getAttribute('aria-valuetext')
    await map(page).press('+')
    await isAloud(page, ' of ')
    const [from, to] = await seen(page)
    near(from!, all! / 4)
    near(to!, (3 * all!) / 4)
    let before = await text()
    await map(page).press('End')
    await changes(page, before)
    near((await seen(page))[1]!, all!)
    before = await text()
    await map(page).press('ArrowLeft')
    await changes(page, before)
    before = await text()
    const box = (await map(page).boundingBox())!
    await page.mouse.move(box.x + box.width * 0.7, box.y + 10)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width * 0.2, box.y + 10, { steps: 3 })
    await page.mouse.up()
    await page.waitForFunction(
      `document.querySelector('.timeline-map').getAttribute('aria-valuetext').startsWith('0 s')`,
    )
    await page.waitForURL(/[?&]t=0-/)
    deepEqual(await violations(page), [])
    isFine()
    await page.close()
  },
)
