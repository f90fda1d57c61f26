/** Rows on their way to experts, against what libraries print of their own measurements (validation/parts/exchanges.csv). */
import { equal, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { priceCollective, priceExchange, type Transport } from '../src/cost/index.js'
import { type Experts, partsOfToken } from '../src/estimate/index.js'

const choose = (n: number, k: number): number => (k === 0 ? 1 : (choose(n - 1, k - 1) * n) / k)

test('parts that the experts of a token lie in: by counting those that none lies in', () => {
  const experts: Experts = { count: 256, active: 8, ffn: 2048, shared: 0, dense: 0 }
  for (const parts of [2, 8, 32, 64, 256]) {
    const expected = parts * (1 - choose(256 - 256 / parts, 8) / choose(256, 8))
    ok(Math.abs(partsOfToken(experts, parts) - expected) < 1e-9 * parts)
  }
  equal(partsOfToken(experts, 1), 1)
  // Four of eight groups: no token leaves more than four nodes.
  ok(partsOfToken({ ...experts, groups: { all: 8, chosen: 4 } }, 8) <= 4)
})

interface Measured {
  readonly device: string
  readonly transport: Transport
  readonly ep: number
  /** Seconds, or bytes of the busiest link in a second. */
  readonly seconds?: number
  readonly bandwidth?: number
}

const devices: Readonly<Record<string, string>> = { GB200: 'gb200', H100: 'h100', H800: 'h800' }

/** What is not of a device of the catalog is left out: DeepEP's second version names an architecture, and bytes that never leave. */
function measured(): Measured[] {
  const file = new URL('../../validation/parts/exchanges.csv', import.meta.url)
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .flatMap(line => {
      const cells = [...line.matchAll(/(?:^|,)(?:"([^"]*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted ?? plain)
      const [, gpu, , kind, , ep, , , , , , microseconds, gigabytes] = cells
      const device = devices[gpu]
      if (device === undefined) return []
      const transport = kind.startsWith('NCCL') ? 'all-to-all' : 'once'
      const figure =
        microseconds === '' ? { bandwidth: Number(gigabytes) * 1e9 } : { seconds: Number(microseconds) / 1e6 }
      return [{ device, transport, ep: Number(ep), ...figure }]
    })
}

test('dispatch and combine: a mean error of at most 15 %, and no row by more than 25 %', () => {
  const rows = measured()
  equal(rows.length, 20)
  const errors = rows.map(({ device, transport, ep, seconds, bandwidth }) => {
    // DeepEP routes to four of eight groups.
    const groups = bandwidth === undefined ? {} : { groups: { all: 8, chosen: 4 } }
    const experts: Experts = { count: 256, active: 8, ffn: 2048, shared: 0, dense: 0, ...groups }
    const copies = (parts: number) => (transport === 'once' ? partsOfToken(experts, parts) : experts.active)
    const bytes = 4096 * 7168 * 2
    const price = priceExchange({ bytes, group: { size: ep, stride: 1 }, transport, copies }, clusterOf(device, ep))
    if (seconds !== undefined) return price / seconds - 1
    const parts = ep > 8 ? ep / 8 : ep
    return price / ((bytes * copies(parts) * (parts - 1)) / parts / bandwidth!) - 1
  })
  const mean = errors.reduce((sum, error) => sum + Math.abs(error), 0) / errors.length
  const text = errors.map(error => `${(100 * error).toFixed(0)} %`).join(' ')
  ok(mean <= 0.15 && errors.every(error => Math.abs(error) <= 0.25), `mean ${(100 * mean).toFixed(1)} %: ${text}`)
})

test('all-reduce inside a node of A100: a mean error of at most 11 %; two ranks are too cheap, by at most 19 %', () => {
  const text = readFileSync(new URL('../../validation/parts/all-reduce.csv', import.meta.url), 'utf8')
  const cells = text
    .trim()
    .split('\n')
    .slice(1)
    .map(line => line.split(',').slice(4).map(Number))
  equal(cells.length, 24)
  const cluster = clusterOf('a100-80', 8)
  const errors = cells.map(([size, bytes, microseconds]) => ({
    size,
    error:
      priceCollective({ kind: 'all-reduce', bytes, group: { size, stride: 1 } }, cluster) / (microseconds / 1e6) - 1,
  }))
  const mean = (all: readonly number[]) => all.reduce((a, b) => a + b, 0) / all.length
  const off = mean(errors.map(({ error }) => Math.abs(error)))
  ok(off <= 0.11, `${off}`)
  const two = mean(errors.filter(({ size }) => size === 2).map(({ error }) => error))
  ok(two < 0 && two > -0.19, `${two}`)
})
