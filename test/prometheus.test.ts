/** Metrics for Prometheus: its text format, the endpoint of a run, the dashboard, and its own tools where they are installed. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { serveMetrics } from '../src/cli/files/metrics-server.js'
import { metricsOf, metricTable, prometheusText } from '../src/monitor/index.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

const info = { run: 'a "b"\\c\nd', name: 'gpt', plan: 'dp 2', kernels: 'native' }
const memory = () => [{ rank: 0, kind: 'parameters', bytes: 1024 }]
const told = () => {
  const metrics = metricsOf({ info, ranks: 2, steps: 10, memory, now: () => 1700000000.5 })
  metrics.step({
    step: 1,
    loss: 2.5,
    seconds: 0.5,
    tokensPerSecond: 100,
    lr: 1e-7,
    gradientNorm: Infinity,
    evalLoss: 3,
  })
  metrics.step({
    step: 2,
    loss: 9,
    skipped: 'norm',
    seconds: 0.25,
    shares: { compute: 0.5, communication: 0.25, waiting: 0.25, bubble: 0 },
  })
  for (const rank of [0, 1])
    metrics.event({ step: 2, event: 'straggler', severity: 'warning', rank, message: 'slow', numbers: {} })
  return prometheusText(metrics.read())
}

test('names, help, types, labels and what is not finite', () => {
  const text = told()
  for (const line of [
    '# HELP lockstep_loss Loss of the last applied step\n# TYPE lockstep_loss gauge\nlockstep_loss 2.5\n',
    'lockstep_info{run="a \\"b\\"\\\\c\\nd",name="gpt",plan="dp 2",kernels="native"} 1\n',
    'lockstep_steps_total 2\n',
    'lockstep_skipped_steps_total 1\n',
    'lockstep_tokens_total 50\n',
    'lockstep_eval_loss 3\n',
    'lockstep_time_ratio{part="communication"} 0.25\n',
    'lockstep_memory_bytes{rank="0",kind="parameters"} 1024\n',
    'lockstep_health_events_total{event="straggler",severity="warning"} 2\n',
    'lockstep_last_step_timestamp_seconds 1700000000.5\n',
  ])
    ok(text.includes(line), line)
  ok(!text.includes('lockstep_learning_rate'), 'what the last step does not know has no value')
  const metrics = metricsOf({ info, ranks: 1, steps: 1, memory, now: () => 0 })
  metrics.step({ step: 1, loss: Number.NaN, seconds: 1, gradientNorm: Infinity })
  match(prometheusText(metrics.read()), /lockstep_loss NaN\n[\s\S]*lockstep_gradient_norm \+Inf\n/)
})

test('every query of the dashboard names metrics that there are, and every metric has a panel', () => {
  const { panels, templating } = JSON.parse(readFileSync('examples/grafana/lockstep.json', 'utf8'))
  const queries: string[] = [
    ...panels.flatMap((panel: { targets: { expr: string }[] }) => panel.targets.map(({ expr }) => expr)),
    ...templating.list.map((variable: { query: string }) => variable.query),
  ]
  const named = new Set(queries.flatMap(query => query.match(/\blockstep_\w+/g) ?? []))
  const names = Object.keys(metricTable)
  deepEqual(
    [...named].filter(name => !names.includes(name)),
    [],
  )
  deepEqual(
    names.filter(name => !named.has(name)),
    ['lockstep_ranks', 'lockstep_steps_total'],
  )
  const labels = Object.values(metricTable).flatMap(metric => ('labels' in metric ? metric.labels : []))
  for (const [, label] of queries.join('\n').matchAll(/by \(([^)]*)\)/g))
    for (const one of label.split(', '))
      ok(
        [...labels, 'instance'].some(name => name === one),
        one,
      )
})

test('the endpoint answers, refuses other paths, and a port that is taken is a problem', async () => {
  const server = await serveMetrics('0', () => 'lockstep_step 1\n')
  const answer = await fetch(server.address)
  equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  equal(await answer.text(), 'lockstep_step 1\n')
  equal((await fetch(server.address.replace('metrics', 'other'))).status, 404)
  const { port } = new URL(server.address)
  await rejects(
    serveMetrics(port, () => ''),
    /cannot listen on \d+: the address is already in use/,
  )
  server.close()
})

/** What the endpoint answers to a Host header. */
const answerTo = (port: string, host: string): Promise<{ status: number | undefined; body: string }> =>
  new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port, path: '/metrics', headers: { Host: host } }, response => {
      let body = ''
      response.on('data', part => {
        body += part
      })
      response.on('end', () => resolve({ status: response.statusCode, body }))
    })
    asking.on('error', reject)
    asking.end()
  })

test('the endpoint answers to addresses, loopback names and the name it was bound to, not to a rebound name', async () => {
  for (const place of ['0', '0.0.0.0:0', 'localhost:0']) {
    const server = await serveMetrics(place, () => 'lockstep_step 1\n')
    const { port } = new URL(server.address)
    for (const host of ['127.0.0.1', 'localhost', 'LOCALHOST', '[::1]', '10.1.2.3', hostname()])
      equal((await answerTo(port, `${host}:${port}`)).status, 200, `${host} of ${place}`)
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      `127.0.0.1.evil.example:${port}`,
      `localhost.:${port}`,
    ]) {
      const { status, body } = await answerTo(port, host)
      deepEqual([status, /lockstep_step/.test(body), /--prometheus <name>/.test(body)], [403, false, true], host)
    }
    server.close()
  }
})

const job = JSON.stringify({
  ...{ name: 'tiny', model: { family: 'gpt', layers: 1, embed: 8, heads: 2, vocab: 16 }, plan: { dp: 2 } },
  training: { seq: 4, globalBatch: 4, steps: 4 },
})

test('train --prometheus 0 is scraped while it runs', async () => {
  const answers: Promise<string>[] = []
  let address = ''
  const args = ['train', 'job.json', '--kernels', 'reference', '--prometheus', '0']
  const { code } = await lockstep(
    args,
    { 'job.json': job },
    {
      out: text => {
        address ||= /Prometheus: (\S+)/.exec(text)?.[1] ?? ''
        if (/^step/.test(text)) answers.push(fetch(address).then(answer => answer.text()))
      },
      append: () => {},
    },
  )
  equal(code, 0)
  const texts = await Promise.allSettled(answers)
  const [first] = texts.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
  match(first, /lockstep_info\{run="[-\da-f]{36}",name="tiny",plan="dp 2",kernels="reference"\} 1\n/)
  match(first, /lockstep_planned_steps 4\n/)
  match((await lockstep(['train', 'job.json', '--prometheus', 'abc'], { 'job.json': job })).err, /expected a port/)
})

const missing = (tool: string) =>
  spawnSync(tool, ['--version']).status !== 0 && `no ${tool} (apt-get install prometheus)`

test('promtool accepts it', { skip: missing('promtool') }, () => {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: told(), encoding: 'utf8' })
  deepEqual([status, stdout, stderr], [0, '', ''])
})

later('a real Prometheus scrapes it', { skip: missing('prometheus') }, async () => {
  const server = await serveMetrics('0', told)
  const folder = mkdtempSync(join(tmpdir(), 'prometheus-'))
  const target = new URL(server.address).host
  const config = `scrape_configs: [{ job_name: lockstep, scrape_interval: 1s, static_configs: [{ targets: ['${target}'] }] }]`
  writeFileSync(join(folder, 'prometheus.yml'), config)
  const free = await serveMetrics('0', () => '')
  const { port } = new URL(free.address)
  free.close()
  const flags = [
    `--config.file=${folder}/prometheus.yml`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]
  const prometheus = spawn('prometheus', flags, { stdio: 'ignore' })
  try {
    const ask = async (): Promise<string | undefined> => {
      const query = `http://127.0.0.1:${port}/api/v1/query?query=lockstep_health_events_total`
      const said = await fetch(query).then(
        answer => answer.text(),
        () => '',
      )
      return /"value":\[[^,]+,"(\d+)"\]/.exec(said)?.[1]
    }
    let value: string | undefined
    for (let i = 0; i < 200 && value === undefined; i++) {
      value = await ask()
      if (value === undefined) await setTimeout(100)
    }
    equal(value, '2')
  } finally {
    prometheus.kill()
    server.close()
  }
})
