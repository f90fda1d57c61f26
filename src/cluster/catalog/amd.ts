/** AMD. A rank runs on what the driver calls a device: all of an MI300X, one of the two dies of an MI250. */
import { GiB } from '../../base/index.js'
import type { Link } from '../cluster.js'
import type { Entry } from './entry.js'

const xgmi = (bandwidth: number, efficiency: number): Link => ({
  kind: 'xgmi',
  bandwidth,
  efficiency,
  latency: 10e-6,
  half: 0,
})
const ethernet = (bandwidth: number): Link => ({
  kind: 'ethernet',
  bandwidth,
  efficiency: 0.8,
  latency: 15e-6,
  half: 0,
})
const pcie = (bandwidth: number): Link => ({ kind: 'pcie', bandwidth, efficiency: 0.8, latency: 8e-6, half: 0 })
const reserve = { bytes: GiB(3), fraction: 0.06 }

const mi250: Entry = {
  device: {
    name: 'mi250',
    title: 'AMD Instinct MI250, one of its two dies',
    peak: { f32: 45.3e12, f16: 181e12, bf16: 181e12 },
    bandwidth: 1.638e12,
    memory: GiB(64),
    reserve,
    curves: {
      matmul: { efficiency: { bf16: 0.7, f32: 0.7 }, tile: [128, 128], units: 104, halfK: 64, measured: [] },
      attention: { forward: 0.4, backward: 0.32 },
      memory: { efficiency: 0.75, half: 0 },
      floor: 5e-6,
    },
    sources: [
      'AMD Instinct MI250 data sheet (2022), divided by two',
      'efficiencies: MosaicML 2023, "Training LLMs with AMD MI250 GPUs": 0.37 to 0.45 of the peak for whole training steps',
    ],
  },
  network: {
    kind: 'tree',
    domain: 'node',
    perNode: 8,
    near: xgmi(100e9, 0.7),
    nicsPerNode: 4,
    nic: ethernet(25e9),
    pod: 256,
  },
  // 8 channels of DDR4-3200 for 8 dies
  host: { memory: GiB(64), link: pcie(32e9), bandwidth: 26e9 },
  sources: [
    'AMD CDNA 2 whitepaper: Infinity Fabric links of 50 GB/s each way; 4 modules and 4 NICs a node is an assumption',
  ],
}

const mi300x: Entry = {
  device: {
    name: 'mi300x',
    title: 'AMD Instinct MI300X 192 GB',
    peak: { f32: 163.4e12, tf32: 653.7e12, f16: 1307.4e12, bf16: 1307.4e12, fp8: 2614.9e12 },
    bandwidth: 5.3e12,
    memory: GiB(192),
    reserve,
    curves: {
      matmul: {
        efficiency: { bf16: 0.5, fp8: 0.42, f32: 0.6 },
        tile: [256, 256],
        units: 304,
        halfK: 128,
        measured: [],
      },
      attention: { forward: 0.33, backward: 0.25 },
      memory: { efficiency: 0.81, half: 0 },
      floor: 5e-6,
    },
    pricePerHour: 1.85,
    sources: [
      'AMD Instinct MI300X data sheet (2023)',
      'efficiencies: SemiAnalysis 2024, "MI300X vs H100 vs H200 Benchmark": about 620 TFLOP/s bf16 and 4.3 TB/s reached',
      'price: Vultr list price, 2025',
    ],
  },
  network: {
    kind: 'tree',
    domain: 'node',
    perNode: 8,
    near: xgmi(448e9, 0.7),
    nicsPerNode: 8,
    nic: ethernet(50e9),
    pod: 256,
  },
  // 2 x 12 channels of DDR5-4800 for 8 devices
  host: { memory: GiB(256), link: pcie(64e9), bandwidth: 115e9 },
  sources: ['AMD Instinct MI300X platform data sheet: 7 links of 64 GB/s each way between 8 devices'],
}

export const amd: readonly Entry[] = [mi250, mi300x]
