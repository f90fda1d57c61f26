/** Collectives priced in the open: the sum of the parts, the rates of nccl-tests, and what the command says. */
import { equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf, collectiveKinds } from '../src/cluster/index.js'
import { groupOn, priceCollective, quote, sizesBetween } from '../src/cost/index.js'
import { lockstep } from './memory-io.js'

test('start, latency and bytes make up the time of every offer, and the quickest is what is paid', () => {
  for (const name of ['h100', 'a100', 'tpu-v5p'])
    for (const kind of collectiveKinds)
      for (const size of [2, 8, 64])
        for (const stride of [1, 4])
          for (const bytes of [1e3, 1e6, 1e9]) {
            const [cluster, collective] = [clusterOf(name, 256), { kind, bytes, group: { size, stride } }]
            const { offers, start, seconds, busbw, mostBusbw } = quote(collective, cluster)
            equal(seconds, priceCollective(collective, cluster))
            equal(seconds, offers[0].seconds)
            for (const offer of offers) {
              ok(Math.abs((start + offer.latency + offer.transfer) / offer.seconds - 1) < 1e-12)
              ok(offer.latency > 0 && offer.transfer > 0 && offer.seconds >= seconds)
            }
            ok(busbw < mostBusbw)
          }
})

test('a ring of n ranks puts 2 (n-1)/n of the bytes on the wire, and busbw is that over the time', () => {
  const { offers, busFactor, busbw, algbw } = quote(
    { kind: 'all-reduce', bytes: 2 ** 30, group: { size: 8, stride: 1 } },
    clusterOf('h100', 8),
  )
  const ring = offers.find(({ algorithm }) => algorithm === 'ring')
  equal(ring?.carried[0], 1.75 * 2 ** 30)
  equal(busFactor, 1.75)
  equal(busbw, 1.75 * algbw)
})

test('of each node one: 8 apart on nodes of 8', () => {
  const { group, cluster } = groupOn(n => clusterOf('h100', n), { size: 16, ranksPerNode: 1 })
  equal(`${group.size} x ${group.stride} of ${cluster.devices}`, '16 x 8 of 128')
  equal(sizesBetween(1024, 2 ** 30).length, 21)
})

const priced = async (line: string) => lockstep(['cost', ...line.split(' ')])

test('lockstep cost: in words, as a table of nccl-tests, as JSON, refused', async () => {
  const { out } = await priced('all-reduce --size 1GiB --ranks 64 --cluster h100')
  match(
    out,
    /8 groups of 8 ranks over InfiniBand[\s\S]*tree \*.*\n(.*\n)*ring .*\n[\s\S]*tree is the fastest, 10\.8 % faster than ring; bandwidth-bound/,
  )
  match((await priced('all-gather --sizes 1KiB..1MiB --ranks 8 --cluster h100')).out, / 1024 +32 +float +none +-1 /)
  const json = JSON.parse((await priced('send --size 1MB --ranks 2 --stride 8 --cluster h100 --json')).out)
  equal(json.chosen, 'message')
  for (const [line, code, says] of [
    ['all-reduce --ranks 8 --ranks-per-node 3 --cluster h100', 1, /a node has 8 devices, which 3 does not divide/],
    ['all-reduce --ranks 8 --ranks-per-node 2 --cluster tpu-v5p', 1, /a torus, which has no nodes/],
    ['all-reduce --ranks 64 --devices 32 --cluster h100', 1, /64 ranks 1 apart are 64 devices, but there are 32/],
    ['all-reduce --ranks 64 --sizes 1GiB --cluster h100', 2, /such as 1KiB\.\.1GiB/],
  ] as const) {
    const refused = await priced(line)
    equal(refused.code, code)
    match(refused.err, says)
  }
})
