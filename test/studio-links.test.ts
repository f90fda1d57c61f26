/** Links of the studio: whatever stands in one gives a page, none is too long to be sent, and those between pages keep the job. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { parseJob } from '../src/index.js'
import { later, test } from './families.js'
import { inChromium, studioPages, type Watched } from './studio-page.js'

const pages = studioPages()
let opened: Promise<Watched> | undefined
/** One tab for all of them: a reader goes from link to link too. */
const shared = () => (opened ??= pages.tab())

const ready = (page: Page) => page.waitForSelector('main [aria-busy="true"]', { state: 'detached' })

/** Numbers from 0 to 1, the same for one seed. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

const seed = Number(process.env.SEED ?? 16)
const nasty = [
  ...['<img src=x onerror="globalThis.pwned=1">', '"><script>globalThis.pwned=1</script>', 'javascript:pwned=1'],
  ...['-1', '0', 'NaN', '1e999', '99999999999999999999', '', ' ', '%', '\u0000', '中文', '__proto__', 'constructor'],
  ...['h100*0', 'h100*7', 'tp3', 'tp0.pp0', 'z9', 'm65537', 'tp2.tp4', '1f1b.gpipe', 'ends1-1', 'eJwDAAAAAAE'],
  ...['a'.repeat(1900), '[]', 'null', '{', '{"plan":{"dp":1e9}}', '{"model":{"family":"<b>"}}', 'own', 'toString'],
  ...['0F0,0F1;1F0', 'model: [', 'model: gpt2\nplan: { dp: -1 }', '0,1:2', '1,1,1,x'],
]
const small = 'model=llama2-7b&on=h100*16&seq=1024&batch=16&plan=tp2.sp.pp2.dp4.z1.m4.1f1b.bf16'
const planKeys = [
  'model',
  'on',
  'seq',
  'batch',
  'plan',
  'j',
  'net',
  'mem',
  'slow',
  'jitter',
  'mtbf',
  'tokens',
  'pin',
  'a',
]

interface Route {
  readonly path: string
  readonly keys: readonly string[]
  readonly query?: string
  /** Of every so many links. */
  readonly share: number
}

const routes: readonly Route[] = [
  { path: 'plan', keys: planKeys, query: small, share: 80 },
  { path: 'plan', keys: ['t', 'rank', 'pp', 'where', ...planKeys], query: `${small}&tab=timeline`, share: 8 },
  { path: 'plan', keys: ['a', 'plan'], query: `${small}&tab=compare`, share: 8 },
  { path: 'schedule', keys: ['s', 'pp', 'm', 'chunks', 'cost', 'limit', 'cells'], query: 's=own', share: 24 },
  { path: 'schedule', keys: ['s', 'pp', 'm', 'chunks', 'cost', 'limit'], query: 's=1f1b', share: 12 },
  { path: 'program', keys: ['job', 'yaml', 'rank', 'at'], query: 'job=own', share: 16 },
  { path: 'run', keys: ['job', 'yaml', 'steps', 'where', 'sample', 'smooth', 'run', 'scale'], share: 16 },
  { path: 'learn', keys: ['by', 'lang', 'theme'], share: 6 },
  { path: 'learn/collectives', keys: ['op', 'ranks', 'combine', 'root', 'x', 'hide'], share: 8 },
  { path: 'learn/zero', keys: ['zero', 'ranks', 'model', 'hide'], share: 4 },
  { path: 'claims', keys: ['page', 'verdict'], share: 4 },
  { path: 'clusters', keys: ['lang', 'n'], share: 4 },
  ...['clusters/<b>', 'learn/<img src=x>', 'nowhere/%3Cscript%3E', '%', '//', 'plan/x'].map(path => ({
    ...{ path, keys: ['lang'], share: 2 },
  })),
]

/** Runs in the page: opens a link, waits for what it gives, and says what there is. */
const openAndLook = `async link => {
  location.hash = link
  const frame = () => new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))
  const isThere = () => document.querySelector('main h1') && !document.querySelector('main .loading, main [aria-busy="true"]')
  // One answer may be what the next question waits for: it is there when it still is some frames later.
  for (let [n, calm] = [0, 0]; n < 4000 && calm < 3; n++) {
    await frame()
    calm = isThere() ? calm + 1 : 0
  }
  return {
    markup: document.querySelectorAll('main :is(img, script, iframe, object, b, [onerror], a[href^="javascript:"])').length,
    pwned: 'pwned' in globalThis,
    waits: [...document.querySelectorAll('main:not(:has(h1)), main .loading, main [aria-busy="true"]')].map(one => one.outerHTML.slice(0, 300)),
    said: document.querySelector('main').textContent.trim().length > 15,
  }
}`

later(
  `200 links that nobody meant, to every page, give problems, never a blank page or markup (seed ${seed})`,
  inChromium,
  async () => {
    const { page, open, isFine } = await shared()
    const next = random(seed)
    const one = <T>(all: readonly T[]): T => all[Math.floor(next() * all.length)]!
    const drawn = routes.flatMap(route => Array.from({ length: route.share }, () => route))
    equal(drawn.length, 202)
    const links = drawn.map(({ path, keys, query = '' }) => {
      const link = new URLSearchParams(query)
      for (let changes = 1 + Math.floor(next() * 3); changes > 0; changes--) link.set(one(keys), one(nasty))
      return `${path}?${link}`
    })
    let before = ''
    await open('')
    for (const link of links) {
      const state = await page.evaluate(`(${openAndLook})(${JSON.stringify(`#/${link}`)})`)
      deepEqual(state, { markup: 0, pwned: false, waits: [], said: true }, `${link}, after ${before}`)
      before = link
    }
    isFine()
  },
)

const most = 2000
/** The page's own link, and all that stand on it. */
const longest = (page: Page) =>
  page.evaluate<number>(
    `Math.max(location.href.length, ...[...document.querySelectorAll('a[href]')].map(link => link.href.length))`,
  )
const whatIfs = 'net=0.25&mem=0.5&slow=17:1.3,23:1.25&jitter=0.05&mtbf=50000&tokens=15000000000000'

later(
  'links that pages make can be sent: none has more than 2,000 letters, or the page offers a file',
  inChromium,
  async () => {
    const { page, open, isFine } = await shared()
    const plan =
      'model=deepseek-v3&on=h800*2048&seq=4096&batch=15360&plan=pp16.dp128.ep64.z1.m8.dualpipe-v.c2.full.bf16'
    for (const link of [
      `plan?${plan}&${whatIfs}`,
      `plan?${plan}&${whatIfs}&tab=compare&a=pp16.dp128.ep64.z1.m8.zb-h1.full.bf16`,
      ...['learn/zero', 'learn/placement', 'learn/compression', 'program?job=dp 2 x tp 2 x pp 2, sp, zero 3', 'run'],
    ]) {
      await open(link)
      await ready(page)
      ok((await longest(page)) <= most, link)
      equal(await page.locator('.long-link').count(), 0, link)
    }
    isFine()
  },
)

later(
  'a schedule and a job that are too long for a link stay in the browser, and the page says so',
  inChromium,
  async () => {
    const { page, open, isFine } = await shared()
    await open('schedule?s=1f1b&pp=16&m=64&lang=en')
    await ready(page)
    const cells = page.locator('.cells textarea')
    await page.waitForFunction(`document.querySelector('.cells textarea').value.length > 10000`)
    const swapped = (await cells.inputValue()).replace('0F0,0F1', '0F1,0F0')
    await cells.fill(swapped)
    await page.waitForURL(({ hash }) => hash.includes('s=own'))
    await page.locator('.long-link', { hasText: 'too long for a link' }).waitFor()
    ok((await longest(page)) <= most)
    await page.reload()
    await page.waitForFunction(`document.querySelector('.cells textarea')?.value.startsWith('0F1,0F0')`)
    await open('run?job=own&lang=en')
    const yaml = `# ${'lorem '.repeat(500)}\nmodel: gpt2\n`
    await page.getByLabel('job', { exact: false }).and(page.locator('textarea')).fill(yaml)
    await page.locator('textarea').blur()
    await page.locator('.long-link', { hasText: 'too long for a link' }).waitFor()
    ok((await longest(page)) <= most)
    await page.reload()
    await page.waitForFunction(`document.querySelector('textarea')?.value.includes('model: gpt2')`)
    // Each has a place of its own: Back finds the one before.
    await page.locator('textarea').fill(yaml.replace('gpt2', 'gpt2-xl'))
    await page.locator('textarea').blur()
    await page.waitForFunction(`document.querySelector('textarea')?.value.includes('gpt2-xl')`)
    await page.goBack()
    await page.waitForFunction(`document.querySelector('textarea')?.value.includes('model: gpt2\\n')`)
    ok(
      (await page.evaluate<number>(
        `Object.keys(localStorage).filter(key => key.startsWith('lockstep.own.')).length`,
      )) >= 3,
    )
    isFine()
  },
)

later('Back and Forward faster than answers come: the page ends with what its link says', inChromium, async () => {
  const { page, open, isFine } = await shared()
  const plan = (dp: number) =>
    `#/plan?model=llama2-7b&on=h100*16&seq=1024&batch=64&plan=tp${16 / dp}.dp${dp}.z1.m${64 / dp}.bf16&lang=en`
  await open(plan(1).slice(2))
  for (const dp of [2, 4, 8]) await page.evaluate(`location.hash = ${JSON.stringify(plan(dp))}`)
  for (const by of [-3, 2, -1, -1, 3, -2]) await page.evaluate(`history.go(${by})`)
  // Where it ends is the browser's to say: some of these overtake others.
  await page.waitForFunction(`(() => {
    const slider = document.querySelector('.plan-controls[aria-busy="false"] input[type=range]')
    const isExact = document.querySelector('.headline[aria-busy="false"] .tier')?.textContent.includes('exact')
    return isExact && slider?.getAttribute('aria-valuetext') === /plan=tp(\\d+)/.exec(location.hash)?.[1]
  })()`)
  isFine()
})

interface Told {
  readonly route: string
  readonly href: string
  /** In the lesson's command, where that has it. */
  readonly job?: string
}

/** Lessons whose command is of the small job that they compute, and whose link is of the large one that they price. */
const isLarger = new Set(['learn/tensor-parallel'])

async function linksOf({ page, open }: Watched): Promise<readonly Told[]> {
  await open('learn?lang=en')
  const lessons = await page.$$eval('main a[href^="#/learn/"]', all =>
    all.map(link => link.getAttribute('href')!.slice(2)),
  )
  const told: Told[] = []
  for (const route of new Set(lessons.map(link => link.replace(/\?.*/, '')))) {
    await open(`${route}?lang=en`)
    await ready(page)
    const hrefs = await page.$$eval('main a[href^="#/plan"], main a[href^="#/program"]', all =>
      all.map(link => link.getAttribute('href')!.slice(2)),
    )
    const line = (await page.locator('.command code').last().textContent())!
    const [, job] = /^echo '(.*)' \| lockstep/s.exec(line) ?? []
    told.push(...hrefs.map(href => ({ route, href, ...(job !== undefined && { job }) })))
  }
  return told
}

later('every lesson’s link to Plan opens the very job of the lesson, without a problem', inChromium, async t => {
  const tab = await shared()
  const { page, open, isFine } = tab
  const told = await linksOf(tab)
  ok(told.length >= 12, `${told.length} links`)
  for (const { route, href, job } of told)
    await t.test(route, async () => {
      await open(`${href}&tab=job&lang=en`)
      await page.waitForSelector('.plan-controls[aria-busy="false"], main .trouble')
      equal(await page.locator('main .trouble').count(), 0, href)
      await page.waitForFunction(`document.querySelectorAll('.cm-line').length > 3`)
      const lines = await page.$$eval('.cm-line', all => all.map(line => line.textContent))
      const { job: there, problems } = parseJob(lines.join('\n'))
      ok(there, JSON.stringify(problems))
      if (job === undefined || isLarger.has(route)) return
      const { deviceMemory: _, ...plan } = JSON.parse(job).plan
      const { job: here } = parseJob(JSON.stringify({ ...JSON.parse(job), plan }))
      deepEqual({ model: there.model, plan: there.plan }, { model: here!.model, plan: here!.plan })
      equal(there.training.globalBatch, here!.training.globalBatch)
    })
  isFine()
})

const own = `model: { family: mlp, layers: 2, embed: 8, ffn: 16 }
training: { seq: 4, globalBatch: 4 }
plan: { tp: 2, sequenceParallel: true, dp: 2 }
`

later('a job of one’s own goes from Plan to its program and to a run, and comes back', inChromium, async () => {
  const { page, open, isFine } = await shared()
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
  await open(`plan?on=a100-80*4&tab=job&lang=en`)
  await page.waitForSelector('.cm-content')
  await page.getByLabel('The job as YAML').fill(own)
  await page.waitForURL(({ hash }) => hash.includes('plan=tp2.sp.dp2') && hash.includes('j='))
  const back = page.url()
  for (const [button, path] of [
    ['Its program', 'program'],
    ['Run it', 'run'],
  ] as const) {
    await press(button)
    await page.waitForURL(({ hash }) => hash.startsWith(`#/${path}?`) && hash.includes('job=own'))
    await page.waitForFunction(`document.querySelector('main textarea')?.value.includes('family: mlp')`)
    await page.reload()
    await page.waitForFunction(`document.querySelector('main textarea')?.value.includes('family: mlp')`)
    if (path === 'program') await page.locator('output', { hasText: /instruction 1 of \d\d/ }).waitFor()
    await press('Open this job in Plan')
    await page.waitForURL(({ hash }) => hash.startsWith('#/plan?'))
    const [from, to] = [back, page.url()].map(url => new URLSearchParams(url.split('?')[1]))
    for (const key of ['on', 'seq', 'batch', 'plan', 'j']) equal(to.get(key), from.get(key), key)
  }
  isFine()
})

later('a program too large for its values offers the rehearsal: the same plan, narrower', inChromium, async () => {
  const { page, open, isFine } = await shared()
  const large = 'plan?model=llama3-8b&on=h100*64&seq=8192&batch=128&plan=tp2.sp.pp4.dp8.z1.m16.1f1b.bf16&lang=en'
  await open(large)
  await page.waitForSelector('.plan-controls[aria-busy="false"]')
  await page.getByRole('button', { name: 'Its program', exact: true }).click()
  await page.locator('.too-large', { hasText: 'TiB' }).waitFor()
  await page.locator('output', { hasText: /instruction 1 of \d{3}/ }).waitFor()
  equal(await page.locator('main .trouble').count(), 0)
  await page.getByRole('button', { name: 'Take the rehearsal' }).click()
  await page.waitForURL(({ hash }) => hash.includes('yaml='))
  await page.locator('.too-large').waitFor({ state: 'detached' })
  await page.locator('output', { hasText: /instruction 1 of \d{2}/ }).waitFor()
  const { job } = parseJob(await page.locator('textarea.job').inputValue())
  const { tp, sequenceParallel, pp, zero, schedule } = job!.plan
  deepEqual(
    { tp, sequenceParallel, pp, zero, schedule },
    { tp: 2, sequenceParallel: true, pp: 4, zero: 1, schedule: '1f1b' },
  )
  match((await page.textContent('.walk'))!, /The step's loss is [\d.]+; one rank finds/)
  await open(large)
  await page.waitForSelector('.plan-controls[aria-busy="false"]')
  await page.getByRole('button', { name: 'Run it', exact: true }).click()
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.locator('.run .trouble').getByRole('button', { name: 'Take the rehearsal' }).click()
  await page.waitForFunction(`document.querySelector('main textarea')?.value.includes('headDim: 2')`)
  isFine()
})

test(
  'language and theme of a link go along to every other page; titles and the focus belong to the page shown',
  inChromium,
  async () => {
    const { page, open, isFine } = await shared()
    for (const route of ['', 'learn', 'learn/zero', 'learn/exercise/bubble', 'claims?page=zero', 'clusters/h100']) {
      await open(`${route}${route.includes('?') ? '&' : '?'}lang=zh&theme=dark`)
      await ready(page)
      const links = await page.$$eval('a[href^="#/"]', all => all.map(link => link.getAttribute('href')!))
      deepEqual(
        links.filter(link => !/[?&]lang=zh&theme=dark$/.test(link)),
        [],
      )
    }
    const isAt = (title: string) =>
      page.waitForFunction(`document.title === '${title} · Lockstep' && document.activeElement?.id === 'content'`)
    await page.getByRole('link', { name: '全部设备' }).click()
    await isAt('集群')
    await open('learn?lang=en')
    await page.getByRole('link', { name: 'The memory wall' }).click()
    await isAt('The memory wall')
    await page.goBack()
    await isAt('Learn')
    await open('nowhere?lang=en')
    await isAt('There is no page nowhere')
    isFine()
  },
)

test('a field that is left while it is typed in says nothing to the link of the next page', inChromium, async () => {
  const { page, open, isFine } = await shared()
  for (const [from, field, typed] of [
    ['schedule', '.cells textarea', '0F0,0B0'],
    ['run?job=own', 'textarea', 'model: gpt2'],
    ['run', 'main input[type=number]', '77'],
  ] as const) {
    await open(from)
    await ready(page)
    await page.locator(field).first().fill(typed)
    await open('clusters')
    await ready(page)
    equal(new URL(page.url()).hash, '#/clusters', from)
  }
  isFine()
})
