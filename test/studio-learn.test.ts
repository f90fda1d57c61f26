/** The lessons, used as a reader would: numbers typed in, steps, guesses, what a link hides, what this browser remembers. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { runCommand } from './command-line.js'
import { later } from './families.js'
import { inChromium, studioPages } from './studio-page.js'

const pages = studioPages()

const settled = (page: Page) => page.waitForSelector('main [aria-busy="true"]', { state: 'detached' })

/** Opens a lesson and waits until nothing is on its way. */
async function lesson(place: string) {
  const tab = await pages.tab()
  await tab.open(`learn/${place}`)
  await tab.page.waitForSelector('article.lesson figure[aria-busy="false"]')
  await settled(tab.page)
  return tab
}

/** What every rank has afterwards, as the page shows it. */
const held = (page: Page, ranks: number) =>
  Promise.all(
    Array.from({ length: ranks }, (_, rank) =>
      page.$$eval(`[data-after^="${rank}."]`, all => all.map(a => a.textContent)),
    ),
  )

type Numbers = readonly (readonly number[])[]

/** What each operation means, said once more, for 3 ranks with root 1. */
const meanings: Readonly<Record<string, (x: Numbers) => Numbers>> = {
  broadcast: x => x.map(() => x[1]),
  scatter: x => x[1].map(value => [value]),
  gather: x => [[], x.map(row => row[0]), []],
  reduce: x => [[], sums(x), []],
  'all-gather': x => x.map(() => x.map(row => row[0])),
  'reduce-scatter': x => sums(x).map(value => [value]),
  'all-reduce': x => x.map(() => sums(x)),
  'all-to-all': x => x.map((_, r) => x.map(row => row[r])),
  'send-recv': x => [[], [], x[1]],
}
const sums = (x: Numbers) => x[0].map((_, i) => x.reduce((sum, row) => sum + row[i], 0))

later(
  'collectives: numbers of the reader give the right ones on every rank, for each operation',
  inChromium,
  async () => {
    const x = [
      [5, -2, 30],
      [7, 1.5, 4],
      [100, 8, -9],
    ]
    const { page, isFine } = await lesson('collectives?ranks=3&root=1')
    // Typed in at the keyboard, one after the other.
    for (const [rank, row] of x.entries())
      for (const [at, value] of row.entries()) {
        await page.fill(`[data-before="${rank}.${at}"]`, String(value))
        await page.keyboard.press('Tab')
      }
    for (const [op, meant] of Object.entries(meanings)) {
      await page.selectOption('.at-hand select >> nth=0', op)
      await page.locator('figure h2', { hasText: new RegExp(`^${op} among`) }).waitFor()
      await settled(page)
      deepEqual(
        await held(page, 3),
        meant(x).map(row => row.map(String)),
        op,
      )
    }
    await page.waitForURL(/x=5,-2,30:7,1\.5,4:100,8,-9/)
    isFine()
    await page.close()
  },
)

later('a number that is being typed stays, whatever is drawn anew meanwhile', inChromium, async () => {
  const { page, isFine } = await lesson('collectives?ranks=3&root=1&x=1,2,3:4,5,6:7,8,9')
  const [cell, other] = ['0.1', '2.2'].map(place => page.locator(`[data-before="${place}"]`))
  await cell.focus()
  await page.keyboard.press('Control+A')
  await page.keyboard.type('42')
  equal(await other.inputValue(), '9')
  // A link that changes another number, with the cursor where it is.
  await page.evaluate("location.hash = location.hash.replace('7,8,9', '7,8,77')")
  await page.waitForFunction('document.querySelector(\'[data-before="2.2"]\').value === "77"')
  equal(await cell.inputValue(), '42')
  await page.keyboard.press('Tab')
  await page.waitForURL(/x=1,42,3:/)
  isFine()
  await page.close()
})

later(
  'all-reduce: equal to reduce-scatter and all-gather to the bit; the ring takes 2(n - 1) steps to the same sums',
  inChromium,
  async () => {
    const { page, isFine } = await lesson('all-reduce?ranks=4&step=6&x=1,2,3,4:10,20,30,40:100,200,300,400:5,6,7,8')
    const cells = await page.$$eval('figure .cells output', all => all.map(cell => cell.textContent))
    deepEqual(
      cells.map(cell => Number(cell?.replace(/[→✓\s]/g, ''))),
      Array(4).fill([116, 228, 340, 452]).flat(),
    )
    const captions = await page.$$eval('figcaption', all => all.map(a => a.textContent))
    match(captions[0] ?? '', /Step 6 of 6.*16 of 16 cells are complete sums.*no number differs/)
    match(captions[1] ?? '', /^0 of 1000 f32 numbers differ/)
    const bits = await page.$$eval('.bits li', all => all.map(a => a.textContent))
    equal(bits.length, 4)
    ok(
      bits.every(line => /^([0-9a-f]{8}) = \1$/.test(line ?? '')),
      String(bits),
    )
    isFine()
    await page.close()
  },
)

later(
  'a guess is compared with what was computed, and remembered by the index; links hide controls and name bad values',
  inChromium,
  async () => {
    const { page, open, isFine } = await lesson('collectives?hide=op,combine')
    equal(await page.$('.at-hand select'), null)
    await page.fill('.guess input', '6')
    await page.click('.guess button')
    await page.waitForSelector('.guess [role="status"] strong')
    // 0 + 1 + 2 + 3, and that four times.
    match((await page.textContent('.guess [role="status"]')) ?? '', /You guessed 6; it is 24.*factor of 4/)
    await open('learn/zero?zero=9')
    match((await page.textContent('[role="alert"]')) ?? '', /zero=9, which is none of 0, 1, 2, 3/)
    await open('learn')
    const row = page.locator('.lessons li', { hasText: 'Collectives' })
    match((await row.textContent()) ?? '', /✓ guessed/)
    await page.reload()
    await page.waitForSelector('.reached')
    await page.click('text=Forget it')
    equal(await page.$('.reached'), null)
    await open('learn/no-such-lesson')
    match((await page.textContent('[role="alert"]')) ?? '', /There is no lesson “no-such-lesson”/)
    isFine()
    await page.close()
  },
)

later(
  'tensor parallel: the cut of a layer is moved by keys and by dragging, and the link follows',
  inChromium,
  async () => {
    const { page, isFine } = await lesson('tensor-parallel')
    const caption = page.locator('figcaption', { hasText: 'query heads' })
    await page.focus('.cut-handle')
    await page.keyboard.press('ArrowLeft')
    await page.waitForURL(/cut=8/)
    await caption.filter({ hasText: 'With tp 8 a rank holds' }).waitFor()
    match((await caption.textContent()) ?? '', /4 query heads and 1 of keys and values/)
    const { x, y, width } = (await page.locator('.cut-matrix').first().boundingBox())!
    await page.hover('.cut-handle')
    await page.mouse.down()
    await page.mouse.move(x + width * 0.55, y + 40, { steps: 4 })
    await page.mouse.up()
    await page.waitForURL(/cut=2/)
    await caption.filter({ hasText: 'With tp 2 a rank holds' }).waitFor()
    isFine()
    await page.close()
  },
)

later(
  'placement: the block of ranks is turned by dragging and by keys, and says in which nodes groups lie',
  inChromium,
  async () => {
    const { page, isFine } = await lesson('placement?rank=9')
    const caption = page.locator('figcaption', { hasText: 'Rank 9 lies in node B.' })
    await caption.filter({ hasText: 'Its tp group of 8 lies in one node' }).waitFor()
    const placeOf = () => page.locator('.cube .chosen rect').getAttribute('x')
    const before = await placeOf()
    await page.locator('.cube').scrollIntoViewIfNeeded()
    const { x, y, width, height } = (await page.locator('.cube').boundingBox())!
    await page.mouse.move(x + width / 2, y + height / 2)
    await page.mouse.down()
    await page.mouse.move(x + width / 2 + 120, y + height / 2, { steps: 4 })
    await page.mouse.up()
    await page.waitForURL(/turn=40/)
    ok((await placeOf()) !== before)
    await page.getByLabel('Tilt').focus()
    await page.keyboard.press('ArrowRight')
    await page.waitForURL(/tilt=25/)
    await page.getByLabel('Counted fastest').selectOption('pp')
    await page.locator('figcaption', { hasText: 'Its pp group of 4 lies in one node' }).waitFor()
    isFine()
    await page.close()
  },
)

later('batch: sizes are trained one after the other in the page, and learn', inChromium, async () => {
  const { page, isFine } = await lesson('batch?fair=steps')
  await page.click('text=Train all five here')
  // The first has ended where the second is drawn; the others would take as long again.
  await page.locator('.batch-lines .line').nth(1).waitFor()
  const figure = page.locator('figure', { has: page.locator('.batch-lines') })
  await figure.getByText('as a table').click()
  const [, , first, last, heldOut] = (
    await page.locator('figure tbody tr').first().locator('td').allTextContents()
  ).map(Number)
  ok(last < first && heldOut < first, `${first} to ${last}, held out ${heldOut}`)
  isFine()
  await page.close()
})

/** `stages.0.peak.gradients` of what a command said. */
const fieldOf = (said: unknown, path: string): unknown =>
  path.split('.').reduce((at, name) => (at as Record<string, unknown>)[name], said)

later('commands of lessons say the numbers of their pages', inChromium, async t => {
  const { page, open } = await pages.tab()
  await open('learn')
  const links = await page.$$eval('.lessons a', all => all.map(link => link.getAttribute('href')!.slice(2)))
  ok(links.length >= 24, String(links))
  for (const link of links)
    await t.test(link, async () => {
      await open(link)
      await page.waitForSelector('.command pre')
      await settled(page)
      const shown = await page.$$eval('.command', all =>
        all.map(one => {
          const { field, value } = one.querySelector('[data-field]')?.dataset ?? {}
          return { line: one.querySelector('pre').textContent, field, value }
        }),
      )
      for (const { line, field, value } of shown) {
        match(line, /^(echo '\{[^']*\}' \| )?lockstep [a-z]+ /)
        if (field === undefined) continue
        const { code, out, err } = await runCommand(`${line} --json`)
        equal(code, 0, err)
        const [said, shown] = [Number(fieldOf(JSON.parse(out), field)), Number(value)]
        ok(Math.abs(said - shown) <= 1e-9 * Math.abs(shown), `${field} ${shown}: ${out}`)
      }
      ok(
        shown.some(({ field }) => field !== undefined),
        'no command says a number',
      )
    })
  await page.close()
})
