/** `lockstep studio` over plain HTTP: who is let in, what is served, and the runs of the machine behind it. */
import { deepEqual, equal, match, ok, rejects, throws } from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type IncomingHttpHeaders, request as open } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { processIo } from '../src/cli/io.js'
import { confined } from '../src/cli/studio/confined.js'
import { openBrowser } from '../src/cli/studio/opening.js'
import { type Studio, serveStudio } from '../src/cli/studio/server.js'
import { later, test } from './families.js'

const job = (steps: number, data = '') => `
name: tiny
model: { family: gpt, layers: 2, embed: 16, heads: 2, vocab: 256 }
training: { seq: 16, globalBatch: 4, steps: ${steps}, optimizer: { kind: adamw, lr: 3e-3 }, evalEvery: 4, evalBatches: 1 }
plan: { dp: 2, pp: 2, microbatches: 2 }
${data}`

const home = process.cwd()
const folder = mkdtempSync(join(tmpdir(), 'lockstep-studio-'))
const said: string[] = []
let studio: Studio
let token = ''
let authorization = ''

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly bytes: Buffer
}

interface Asking {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** As it stands: no path is made simpler on the way. */
const ask = (path: string, { method = 'GET', headers = {}, body }: Asking = {}): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const content = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body)
    const more = content === undefined ? {} : { 'Content-Type': 'application/json' }
    const given = { Host: `127.0.0.1:${studio.port}`, Authorization: authorization, ...more, ...headers }
    const asking = open({ host: '127.0.0.1', port: studio.port, path, method, headers: given }, response => {
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part))
      response.on('end', () => {
        const bytes = Buffer.concat(parts)
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: bytes.toString('utf8'), bytes })
      })
    })
    asking.on('error', reject)
    asking.end(content)
  })

const json = async (path: string, asking?: Asking) => JSON.parse((await ask(path, asking)).body)
const start = (body: object) => ask('/runs', { method: 'POST', body })
const stop = (id: string) => ask(`/runs/${id}`, { method: 'DELETE' })

/** Polls until `what` gives something; after two minutes it fails, with the state, the problems and the notes of every run. */
async function until<T>(what: () => Promise<T | undefined | false>): Promise<T> {
  for (let i = 0; i < 2400; i++) {
    const found = await what()
    if (found) return found
    await setTimeout(50)
  }
  throw new Error(
    `it never came: ${JSON.stringify(studio.runs.all.map(({ summary, notes }) => ({ ...summary, notes })))}`,
  )
}
const stateOf = (id: string, ...states: string[]) =>
  until(async () => {
    const run = await json(`/runs/${id}`)
    return states.includes(run.state) && run
  })

/** The events of a stream that has ended. */
const eventsIn = (text: string) =>
  text.split('\n\n').flatMap(block => {
    const [, event] = /^event: (.*)$/m.exec(block) ?? []
    const [, data] = /^data: (.*)$/m.exec(block) ?? []
    return event && data ? [{ event, data: JSON.parse(data) }] : []
  })

before(async () => {
  process.chdir(folder)
  mkdirSync('pages/assets', { recursive: true })
  writeFileSync('pages/index.html', '<!doctype html><title>Studio</title>')
  writeFileSync('pages/assets/main-Ab3dEf9x.js', 'export {}')
  writeFileSync('secret.txt', 'secret')
  symlinkSync('../secret.txt', 'pages/link.txt')
  symlinkSync('/etc', 'outside')
  writeFileSync('words.txt', 'all ranks walk in lockstep. '.repeat(200))
  const io = { ...processIo(), err: (text: string) => void said.push(text) }
  studio = await serveStudio({ port: 0, root: 'pages' }, io)
  ;[, token] = /#\/\?token=([0-9a-f]{32})$/.exec(studio.url)!
  authorization = `Bearer ${token}`
})

after(async () => {
  await studio?.close()
  process.chdir(home)
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  deepEqual(said, [])
})

test('only the token in the header lets a request reach runs; no answer sets a cookie, and no cookie is accepted', async () => {
  const none = { Authorization: '' }
  const old = { ...none, Cookie: `lockstep-studio-${studio.port}=${token}` }
  const wrong = [none, { Authorization: `Bearer ${'0'.repeat(32)}` }, { Authorization: token }, old]
  for (const headers of wrong) {
    const answers = [await ask('/runs', { headers }), await ask('/runs', { method: 'POST', headers, body: {} })]
    for (const { status, body } of answers) {
      deepEqual([status, JSON.parse(body).problems[0].phrase], [401, 'engine/failed/token'], JSON.stringify(headers))
    }
  }
  equal(
    (await ask(`/runs?token=${token}`, { headers: none })).status,
    401,
    'a token in an address would be in logs and histories',
  )
  match((await ask('/')).body, /<title>Studio/)
  const answers = await Promise.all([ask('/'), ask('/runs'), ask('/assets/main-Ab3dEf9x.js')])
  deepEqual(
    answers.map(({ status, headers }) => [status, headers['set-cookie']]),
    [200, 200, 200].map(status => [status, undefined]),
  )
})

test('a ticket is good for one GET of the path it was made for', async () => {
  const ticketFor = (path: string) => json('/tickets', { method: 'POST', body: { path } })
  const bare = { headers: { Authorization: '' } }
  const { href } = await ticketFor('/machine')
  equal((await ask(href.replace('/machine', '/runs'), bare)).status, 401)
  equal((await ask(href, { ...bare, method: 'DELETE' })).status, 401)
  deepEqual([(await ask(href, bare)).status, (await ask(href, bare)).status], [200, 401])
  equal((await ask('/tickets', { method: 'POST', body: { path: '/index.html' } })).status, 404)
  equal((await ask('/tickets', { method: 'POST', body: { path: '/runs' }, ...bare })).status, 401)
})

test('the token is in no argument of the browser that is opened, and in a file that only its owner can read', async () => {
  mkdirSync('bin')
  // In the place of a browser: what `ps` shows of it, and the file it is given.
  const script = `#!/bin/sh
tr '\\0' ' ' < /proc/$$/cmdline > words.txt.part
stat -c %a "$1" "$(dirname "$1")" > modes.txt
cat "$1" > opened.html
mv words.txt.part argv.txt
`
  writeFileSync('bin/xdg-open', script, { mode: 0o755 })
  const { PATH } = process.env
  process.env.PATH = `${join(folder, 'bin')}:${PATH}`
  const forget = openBrowser(studio.url, { env: { DISPLAY: ':0' } })
  process.env.PATH = PATH
  await until(async () => existsSync('argv.txt'))
  const argv = readFileSync('argv.txt', 'utf8')
  const [, file] = /(\S+\/open\.html)/.exec(argv)!
  ok(!argv.includes(token), argv)
  deepEqual(readFileSync('modes.txt', 'utf8'), '600\n700\n')
  ok(readFileSync('opened.html', 'utf8').includes(`content="0;url=${studio.url}"`))
  forget()
  ok(!existsSync(file))
})

test('another host’s name, another origin and other ports of this machine are refused, token or not', async () => {
  const { port } = studio
  const foreign: [string, Readonly<Record<string, string>>][] = [
    ['/', { Host: `evil.example:${port}` }],
    ['/', { Host: '127.0.0.1' }],
    ['/runs', { Origin: 'http://evil.example' }],
    ['/runs', { Origin: 'null' }],
    ['/runs', { Origin: `http://127.0.0.1:${port + 1}` }],
    ['/runs', { 'Sec-Fetch-Site': 'same-site' }],
    ['/runs', { 'Sec-Fetch-Site': 'cross-site' }],
  ]
  for (const [path, headers] of foreign) equal((await ask(path, { headers })).status, 403, JSON.stringify(headers))
  for (const headers of [
    { Origin: `http://127.0.0.1:${port}`, 'Sec-Fetch-Site': 'same-origin' },
    { Host: `localhost:${port}` },
  ])
    equal((await ask('/runs', { headers })).status, 200, JSON.stringify(headers))
})

test('every answer isolates its page and lets it load nothing from elsewhere', async () => {
  const paths = ['/', '/assets/main-Ab3dEf9x.js', '/nothing.js', '/runs', '/runs/99', '/machine', '/%zz']
  const answers = await Promise.all([
    ...paths.map(path => ask(path)),
    ask('/runs', { headers: { Authorization: '' } }),
    start({}),
  ])
  for (const { status, headers } of answers) {
    equal(headers['cross-origin-opener-policy'], 'same-origin', String(status))
    equal(headers['cross-origin-embedder-policy'], 'require-corp')
    equal(headers['cross-origin-resource-policy'], 'same-origin')
    equal(headers['x-content-type-options'], 'nosniff')
    match(
      String(headers['content-security-policy']),
      /^default-src 'self'; script-src 'self' 'wasm-unsafe-eval';.*frame-ancestors 'none'$/,
    )
  }
  deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 404, 200, 404, 200, 400, 401, 400],
  )
  deepEqual(
    answers.slice(0, 2).map(({ headers }) => headers['cache-control']),
    ['no-store', 'private, max-age=31536000, immutable'],
  )
})

test('nothing outside the folder of the pages is served', async () => {
  const paths = [
    ...['/../secret.txt', '/%2e%2e/secret.txt', '/..%2fsecret.txt', '/%2e%2e%2fsecret.txt', '/%252e%252e/secret.txt'],
    ...['/..%5csecret.txt', '/assets/../../secret.txt', '/link.txt', '//etc/passwd', '/%2fetc%2fpasswd', '/assets'],
    ...['/index.html%00.js', 'http://127.0.0.1/secret.txt', '/./../secret.txt'],
  ]
  for (const path of paths) {
    const { status, body } = await ask(path)
    deepEqual([status, body.includes('secret') && !body.includes('there is no')], [404, false], path)
  }
})

test('a job names data below the working folder only, links and imported files included', async () => {
  const refused = ['../data.txt', '/etc/hostname', 'outside/hostname', 'x/../../data.txt']
  for (const source of refused) {
    const { body, status } = await start({ job: job(1, `data: { source: ${source}, tokenizer: bytes }`) })
    const [problem] = JSON.parse(body).problems
    deepEqual([status, problem.path, problem.line], [422, 'data.source', 6], source)
    match(problem.message, /^cannot read .*: it is outside the folder that the studio was started in$/)
    const io = confined(processIo(), folder)
    for (const read of [io.read, io.readBytes, io.list]) throws(() => read(source), /outside the folder/, source)
    equal(io.exists(source), false)
  }
  const others: [path: string, text: string][] = [
    ['data.tokenizer', job(1, 'data: { source: words.txt, tokenizer: ../tokenizer.json }')],
    ['plan.schedule', job(1).replace('microbatches: 2', 'microbatches: 2, schedule: { file: outside/schedule.csv }')],
  ]
  for (const [path, text] of others) {
    const { body, status } = await start({ job: text })
    deepEqual([status, JSON.parse(body).problems.map((problem: { path: string }) => problem.path)], [422, [path]], body)
  }
  const beside = await start({ job: job(1, 'data: { source: data.txt, tokenizer: bytes }'), from: '../job.yaml' })
  deepEqual([beside.status, /outside the folder/.test(beside.body)], [422, true])
  const { body, status } = await start({ job: job(1).replace(/model: .*/, 'model: ../config.json') })
  equal(status, 422)
  match(body, /outside the folder/)
})

test('what is no job, too large, or no JSON is refused with its reason', async () => {
  const { status, body } = await start({ job: job(2).replace('heads: 2', 'heads: 3') })
  equal(status, 422)
  const [problem] = JSON.parse(body).problems
  deepEqual([problem.path, problem.line], ['model.heads', 3])
  equal((await start({ job: 'x'.repeat(2 ** 20) })).status, 413)
  equal((await start({ job: job(1), shell: 'rm' })).status, 400)
  equal((await ask('/runs', { method: 'POST', body: '{' })).status, 400)
  equal((await ask('/runs', { method: 'POST', body: '{}', headers: { 'Content-Type': 'text/plain' } })).status, 415)
  equal((await ask('/runs', { method: 'PUT' })).status, 405)
})

test('a run streams its steps, held-out losses, samples and memory, and leaves its files', async () => {
  const data = 'data: { source: words.txt, tokenizer: bytes }'
  const { id } = JSON.parse((await start({ job: job(8, data), sample: 'all ' })).body)
  const events = eventsIn((await ask(`/runs/${id}/events`)).body)
  const lines = events.flatMap(({ event, data }) => (event === 'lines' ? data : []))
  const steps = lines.filter((line: { loss?: number }) => line.loss !== undefined)
  deepEqual(
    steps.map(({ step }: { step: number }) => step),
    [1, 2, 3, 4, 5, 6, 7, 8],
  )
  ok(steps[7].loss < steps[0].loss && steps[7].tokensPerSecond > 0)
  deepEqual(
    steps.flatMap(({ step, evalLoss, sample }: { step: number; evalLoss?: number; sample?: string }) =>
      evalLoss === undefined ? [] : [[step, typeof sample]],
    ),
    [
      [4, 'string'],
      [8, 'string'],
    ],
  )
  const last = events.findLast(({ event }) => event === 'run')?.data
  deepEqual([last.state, last.facts.ranks, last.memory.wrong], ['done', 4, -1])
  ok(last.memory.measured[3].activations > 0)
  equal(events.at(-1)?.event, 'end')

  const { bytes } = await ask(`/runs/${id}/spans`)
  const length = bytes.readUInt32LE(0)
  const { step, measured, predicted, collectives } = JSON.parse(bytes.toString('utf8', 4, 4 + length))
  deepEqual([step, measured.ranks.length, predicted.ranks.length, (4 + length) % 8], [8, 4, 4, 0])
  const { at, length: count } = measured.ranks[3].columns.end
  const ends = new Float64Array(bytes.buffer.slice(bytes.byteOffset + 4 + length + at), 0, count)
  ok(count > 10 && ends.every(time => time > 0 && time <= measured.seconds))
  ok(collectives.some((one: { kind: string; axis: string; bytes: number }) => one.axis === 'pp' && one.bytes > 0))

  equal((await ask(`/runs/${id}/metrics`)).body, readFileSync('runs/latest/metrics.jsonl', 'utf8'))
  match((await ask(`/runs/${id}/job.yaml`)).body, /name: tiny/)
  ok((await json(`/runs/${id}/trace.json`)).traceEvents.length > 100)
  const tar = await ask(`/runs/${id}/checkpoint.tar`)
  match(String(tar.headers['content-disposition']), /tiny-checkpoint.tar/)
  match(tar.body.slice(0, 100), /^step-0*8\//)
  equal(tar.bytes.length % 512, 0)
})

/** Of the step that is being taken, while the run goes on: two at once do not disturb each other, and nothing is left behind. */
async function liveFiles(id: string): Promise<void> {
  const [first, second, trace] = await Promise.all(
    ['checkpoint.tar', 'checkpoint.tar', 'trace.json'].map(name => ask(`/runs/${id}/${name}`)),
  )
  for (const tar of [first, second]) {
    match(tar.body.slice(0, 100), /^step-\d+\//)
    equal(tar.bytes.length % 512, 0)
  }
  ok(JSON.parse(trace.body).traceEvents.length > 10)
  match((await ask(`/runs/${id}/metrics.jsonl`)).body, /"loss":/)
  const run = await json(`/runs/${id}`)
  equal(run.state, 'running')
  deepEqual(
    readdirSync(run.folder).filter(name => name.startsWith('now-')),
    [],
  )
}

test('two runs go on at once, not three; one that is stopped stops', async () => {
  const two = await Promise.all([start({ job: job(100_000) }), start({ job: job(100_000), save: false })])
  const ids = two.map(({ body }) => JSON.parse(body).id)
  const third = await start({ job: job(1) })
  deepEqual([third.status, JSON.parse(third.body).message], [409, '2 runs are active already: stop one of them first'])
  await stateOf(ids[0], 'running')
  await liveFiles(ids[0])
  equal(JSON.parse((await stop(ids[0])).body).state, 'stopped')
  equal((await ask(`/runs/${ids[0]}/checkpoint.tar`)).status, 200)
  await stop(ids[1])
  equal((await json('/runs')).runs.filter(({ state }: { state: string }) => state === 'running').length, 0)
})

test('a fault that is injected into a run names the rank that failed, and who waits for whom', async () => {
  const { id } = JSON.parse((await start({ job: job(100_000) })).body)
  await stateOf(id, 'running')
  const inject = (fault: string) => ask(`/runs/${id}/faults`, { method: 'POST', body: { fault } })
  match((await inject('kil:rank=3')).body, /unknown fault `kil`/)
  match((await inject('kill:rank=9')).body, /there is no rank 9: the plan has 4/)
  equal((await inject('lr:factor=100')).status, 202)
  await until(async () => /"lr":0\.3[,}]/.test((await ask(`/runs/${id}/metrics`)).body))
  equal((await inject('kill:rank=3')).status, 202)
  const { problems } = await stateOf(id, 'failed')
  match(problems[0].message, /rank 3 failed: its thread exited[\s\S]*rank \d waiting in .*waiting for rank 3/)
  equal((await inject('kill:rank=3')).status, 409)
})

/** A run that has begun a step in which rank 1 stands still. */
async function stalled(fault: string): Promise<string> {
  const { id } = JSON.parse((await start({ job: job(100_000) })).body)
  await stateOf(id, 'running')
  equal((await ask(`/runs/${id}/faults`, { method: 'POST', body: { fault } })).status, 202)
  await until(async () => studio.runs.of(id).notes.some(({ text }) => text.includes(fault)))
  return id
}

later('Stop waits for a step of 7 s and its checkpoint', async () => {
  const id = await stalled('stall:rank=1,seconds=7')
  const stopped = stop(id)
  const { state, stopping } = await json(`/runs/${id}`)
  deepEqual([state, stopping], ['running', true])
  equal(JSON.parse((await stopped).body).state, 'stopped')
  match((await ask(`/runs/${id}/checkpoint.tar`)).body.slice(0, 100), /^step-\d+\//)
})

test('Stop, asked twice, ends a run at once; what it had not finished writing is not served as a checkpoint', async () => {
  const id = await stalled('stall:rank=1,seconds=60')
  const first = stop(id)
  await stop(id)
  equal(JSON.parse((await first).body).state, 'stopped')
  const { folder } = await json(`/runs/${id}`)
  ok(existsSync(join(folder, 'checkpoints', 'run.lock')))
  mkdirSync(join(folder, 'checkpoints', 'step-00000007'))
  writeFileSync(join(folder, 'checkpoints', 'step-00000007', 'rank-00000.safetensors'), 'half')
  const { status, body } = await ask(`/runs/${id}/checkpoint.tar`)
  deepEqual([status, JSON.parse(body).message], [404, 'the run has left no checkpoint'])
})

test('without its pages the studio says how to build them; a port that is taken is said to be', async () => {
  const io = processIo()
  await rejects(serveStudio({ port: 0, root: 'nowhere' }, io), /npm run studio:build/)
  await rejects(serveStudio({ port: studio.port, root: 'pages' }, io), /the address is already in use/)
})
