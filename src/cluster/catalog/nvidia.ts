/**
 * NVIDIA. Peaks and bandwidths are those of the data sheets, without sparsity. Memory is what the driver calls its total:
 * "80 GB" is 80 GiB. Efficiencies are fits to published training runs (see `fitted`) unless an entry says it was
 * measured; a price is a list price of 2025 and differs between sellers by a factor of three.
 */
import { GiB } from '../../base/index.js'
import type { Link } from '../cluster.js'
import type { Curves, Device } from '../device.js'
import type { Entry, TreeNetwork } from './entry.js'
import { h200Measured } from './h200-measured.js'

const fitted =
  'efficiencies: constants fitted to a few published training runs per device (SC21 Megatron-LM table 1, Korthikanti et al. 2022, MosaicML, torchtitan, Llama 3)'
const hopper = 'NVIDIA H100 Tensor Core GPU Architecture whitepaper, table 2 (2022)'
const prices = 'price: CoreWeave list price per GPU, 2025'

/** Context, cuBLAS and cuDNN workspaces, NCCL buffers; and what the caching allocator cannot use. */
const reserve: Device['reserve'] = { bytes: GiB(3), fraction: 0.05 }

const curves = (
  matmul: Omit<Curves['matmul'], 'halfK' | 'measured'> & { readonly halfK?: number },
  rest: Omit<Curves, 'matmul' | 'floor'> & { readonly floor?: number },
): Curves => ({ floor: 2.5e-6, ...rest, matmul: { halfK: 64, unaligned: 0.47, measured: [], ...matmul } })

const nvlink = (bandwidth: number, efficiency: number, latency: number): Link => ({
  kind: 'nvlink',
  bandwidth,
  efficiency,
  latency,
  half: 0,
})
const infiniband = (bandwidth: number, efficiency: number): Link => ({
  kind: 'infiniband',
  bandwidth,
  efficiency,
  latency: 12e-6,
  half: 0,
})
const pcie = (bandwidth: number): Link => ({ kind: 'pcie', bandwidth, efficiency: 0.8, latency: 8e-6, half: 0 })

/** Eight devices on NVSwitch, a NIC for each: rails, so that the NICs of equal number meet at one leaf switch. */
const hgx = (near: Link, nic: Link): TreeNetwork => ({
  kind: 'tree',
  domain: 'node',
  perNode: 8,
  near,
  nicsPerNode: 8,
  nic,
  pod: 256,
})

const v100: Entry = {
  device: {
    name: 'v100',
    title: 'NVIDIA V100 SXM2 32 GB',
    peak: { f32: 15.7e12, f16: 125e12 },
    bandwidth: 900e9,
    memory: GiB(32),
    reserve,
    curves: curves(
      { efficiency: { f16: 0.72, f32: 0.85 }, tile: [128, 128], units: 80 },
      { attention: { forward: 0.4, backward: 0.35 }, memory: { efficiency: 0.8, half: 0 }, floor: 4e-6 },
    ),
    pricePerHour: 3.06,
    sources: [
      'NVIDIA V100 data sheet (2020)',
      'matmul 0.72: Jia et al. 2018, "Dissecting the Volta GPU Architecture", cuBLAS half precision',
      'price: AWS p3.2xlarge on demand',
    ],
  },
  network: { ...hgx(nvlink(150e9, 0.8, 8e-6), infiniband(12.5e9, 0.85)), nicsPerNode: 4 },
  // 2 x 4 channels of DDR4-2400 for 8 devices
  host: { memory: GiB(64), link: pcie(16e9), bandwidth: 19e9 },
  sources: ['NVIDIA DGX-1 with V100 system architecture whitepaper: 8 GPUs, 6 NVLinks of 25 GB/s each, 4 EDR NICs'],
}

const a100 = (memory: number, bandwidth: number, pricePerHour: number): Device => ({
  name: `a100-${memory}`,
  title: `NVIDIA A100 SXM4 ${memory} GB`,
  peak: { f32: 19.5e12, tf32: 156e12, f16: 312e12, bf16: 312e12 },
  bandwidth,
  memory: GiB(memory),
  reserve,
  curves: curves(
    { efficiency: { bf16: 0.78, f32: 0.9, tf32: 0.75 }, tile: [128, 256], units: 108, halfK: 108 },
    { attention: { forward: 0.6, backward: 0.5 }, memory: { efficiency: 0.8, half: 0 } },
  ),
  pricePerHour,
  sources: [
    'NVIDIA A100 Tensor Core GPU data sheet (2021)',
    fitted,
    'attention: Dao 2023, FlashAttention-2, figures 4 to 6',
    prices,
  ],
})
const dgxA100: Omit<Entry, 'device'> = {
  network: hgx(nvlink(300e9, 0.75, 6e-6), infiniband(25e9, 0.88)),
  // 2 x 8 channels of DDR4-3200 for 8 devices
  host: { memory: GiB(128), link: pcie(32e9), bandwidth: 51e9 },
  sources: [
    'NVIDIA DGX A100 data sheet: 8 GPUs, NVLink 600 GB/s both ways, 8 HDR NICs',
    'NVLink 0.75: NCCL all-reduce reaches 223 GB/s bus bandwidth on 8 A100',
  ],
}

const h100Peak = { f32: 66.9e12, tf32: 494.7e12, f16: 989.4e12, bf16: 989.4e12, fp8: 1978.9e12 }
const h100: Entry = {
  device: {
    name: 'h100',
    title: 'NVIDIA H100 SXM5 80 GB',
    peak: h100Peak,
    bandwidth: 3.35e12,
    memory: GiB(80),
    reserve,
    curves: curves(
      { efficiency: { bf16: 0.64, fp8: 0.62, f32: 0.8 }, tile: [128, 256], units: 132, halfK: 256 },
      { attention: { forward: 0.55, backward: 0.45 }, memory: { efficiency: 0.85, half: 0 } },
    ),
    pricePerHour: 6.16,
    sources: [hopper, fitted, 'attention: Shah et al. 2024, FlashAttention-3, figures 5 and 6', prices],
  },
  network: hgx(nvlink(450e9, 0.74, 5e-6), infiniband(50e9, 0.8)),
  // 2 x 8 channels of DDR5-4800 for 8 devices
  host: { memory: GiB(256), link: pcie(64e9), bandwidth: 77e9 },
  sources: [
    'NVIDIA DGX H100 data sheet: 8 GPUs, NVLink 900 GB/s both ways, 8 NDR NICs',
    'Llama 3 (2024), section 3.3: 8 x 400 Gb/s RoCE per node, 1:7 oversubscription between pods of 3,072 GPUs',
  ],
}

const h100Pcie: Entry = {
  device: {
    ...h100.device,
    name: 'h100-pcie',
    title: 'NVIDIA H100 PCIe 80 GB',
    peak: { f32: 51.2e12, tf32: 378e12, f16: 756e12, bf16: 756e12, fp8: 1513e12 },
    bandwidth: 2.0e12,
    curves: curves(
      { efficiency: { bf16: 0.6, fp8: 0.55, f32: 0.8 }, tile: [128, 256], units: 114 },
      { attention: { forward: 0.5, backward: 0.42 }, memory: { efficiency: 0.85, half: 0 } },
    ),
    pricePerHour: 4.25,
    sources: [hopper, 'efficiencies: those of the H100 SXM, lowered for its 350 W', prices],
  },
  network: { ...hgx(pcie(64e9), infiniband(50e9, 0.8)), nicsPerNode: 2 },
  host: { memory: GiB(128), link: pcie(64e9), bandwidth: 77e9 },
  sources: ['PCIe 5.0 x16: 64 GB/s each way; a node of 8 cards with 2 NICs is an assumption'],
}

/** The part with less power and slower memory that some large operators bought. */
const h100Lean: Entry = {
  ...h100,
  device: {
    ...withoutPrice(h100.device),
    name: 'h100-500w',
    title: 'NVIDIA H100 SXM5 96 GB HBM2e, 500 W',
    bandwidth: 2.4e12,
    memory: GiB(94.5),
    curves: {
      ...h100.device.curves,
      matmul: { ...h100.device.curves.matmul, efficiency: { bf16: 0.56, fp8: 0.49, f32: 0.64 } },
      attention: { forward: 0.44, backward: 0.36 },
    },
    sources: [
      'pytorch/torchtitan benchmarks: 500 W, HBM2e, 95.04 GiB',
      'efficiencies: 0.8 of the H100 SXM, for its power',
    ],
  },
}

const h800: Entry = {
  ...h100,
  device: {
    ...withoutPrice(h100.device),
    name: 'h800',
    title: 'NVIDIA H800 SXM5 80 GB',
    sources: [...h100.device.sources.slice(0, 3), 'DeepSeek-V3 (2024), section 3.1: an H100 with half the NVLink'],
  },
  network: hgx(nvlink(200e9, 0.8, 5e-6), infiniband(50e9, 0.8)),
  sources: [
    'DeepSeek-AI 2025, "Insights into DeepSeek-V3": NVLink 400 GB/s both ways, about 160 GB/s of 200 reached; 8 x 400 Gb/s NICs',
  ],
}

const h200: Entry = {
  ...h100,
  device: {
    name: 'h200',
    title: 'NVIDIA H200 SXM 141 GB',
    peak: h100Peak,
    bandwidth: 4.8e12,
    memory: 150_109_880_320,
    reserve,
    curves: h200Measured.curves,
    pricePerHour: 6.31,
    sources: ['NVIDIA H200 data sheet (2024)', ...h200Measured.sources, prices],
  },
}

const b200: Entry = {
  device: {
    name: 'b200',
    title: 'NVIDIA B200 SXM 180 GB',
    peak: { f32: 75e12, tf32: 1125e12, f16: 2250e12, bf16: 2250e12, fp8: 4500e12 },
    bandwidth: 7.7e12,
    memory: GiB(179),
    reserve,
    curves: curves(
      { efficiency: { bf16: 0.49, fp8: 0.5, f32: 0.8 }, tile: [256, 256], units: 74 },
      { attention: { forward: 0.5, backward: 0.4 }, memory: { efficiency: 0.88, half: 0 } },
    ),
    pricePerHour: 8.6,
    sources: [
      'NVIDIA DGX B200 data sheet (2024), per GPU',
      'efficiencies: those of the GB200, the same chip with less power and a peak that says so',
      prices,
    ],
  },
  network: hgx(nvlink(900e9, 0.74, 5e-6), infiniband(50e9, 0.85)),
  // 2 x 8 channels of DDR5-5600 for 8 devices
  host: { memory: GiB(256), link: pcie(64e9), bandwidth: 90e9 },
  sources: ['NVIDIA DGX B200 data sheet: NVLink 1.8 TB/s both ways per GPU, 8 x 400 Gb/s NICs'],
}

/** 72 devices of one rack on NVLink, a NIC for each. */
const nvl72 = (nic: Link): TreeNetwork => ({
  kind: 'tree',
  domain: 'rack',
  perNode: 72,
  near: nvlink(900e9, 0.74, 5e-6),
  nicsPerNode: 72,
  nic,
  pod: 576,
})
const grace = {
  memory: GiB(240),
  // LPDDR5X of one Grace for two devices
  bandwidth: 250e9,
  link: { kind: 'nvlink', bandwidth: 450e9, efficiency: 0.8, latency: 4e-6, half: 0 },
} as const

const gb200: Entry = {
  device: {
    ...b200.device,
    name: 'gb200',
    title: 'NVIDIA GB200 NVL72, one of its 72 GPUs',
    peak: { f32: 80e12, tf32: 1250e12, f16: 2500e12, bf16: 2500e12, fp8: 5000e12 },
    bandwidth: 8e12,
    memory: GiB(185),
    curves: curves(
      { efficiency: { bf16: 0.49, fp8: 0.5, f32: 0.8 }, tile: [256, 256], units: 76 },
      { attention: { forward: 0.5, backward: 0.4 }, memory: { efficiency: 0.88, half: 0 } },
    ),
    pricePerHour: 10.5,
    sources: ['NVIDIA GB200 NVL72 data sheet (2024), divided by 72', fitted, prices],
  },
  network: nvl72(infiniband(50e9, 0.85)),
  host: grace,
  sources: ['NVIDIA GB200 NVL72 data sheet: NVLink 130 TB/s both ways per rack; a ConnectX-7 of 400 Gb/s per GPU'],
}

const gb300: Entry = {
  device: {
    ...withoutPrice(gb200.device),
    name: 'gb300',
    title: 'NVIDIA GB300 NVL72, one of its 72 GPUs',
    memory: GiB(277),
    curves: curves(
      { efficiency: { bf16: 0.5, fp8: 0.62, f32: 0.8 }, tile: [256, 256], units: 76 },
      { attention: { forward: 0.55, backward: 0.45 }, memory: { efficiency: 0.88, half: 0 } },
    ),
    sources: ['NVIDIA GB300 NVL72 data sheet (2025), divided by 72', fitted],
  },
  network: nvl72(infiniband(100e9, 0.85)),
  host: grace,
  sources: ['NVIDIA GB300 NVL72 data sheet: a ConnectX-8 of 800 Gb/s per GPU'],
}

const b300: Entry = {
  ...b200,
  device: {
    ...withoutPrice(b200.device),
    name: 'b300',
    title: 'NVIDIA B300 SXM 288 GB',
    memory: GiB(268),
    curves: gb300.device.curves,
    sources: ['NVIDIA DGX B300 data sheet (2025), per GPU', 'efficiencies: those of the GB300, the same chip'],
  },
  network: hgx(nvlink(900e9, 0.74, 5e-6), infiniband(100e9, 0.85)),
  sources: ['NVIDIA DGX B300 data sheet: NVLink 1.8 TB/s both ways per GPU, 8 x 800 Gb/s NICs'],
}

function withoutPrice({ pricePerHour: _, ...device }: Device): Device {
  return device
}

export const nvidia: readonly Entry[] = [
  v100,
  { device: a100(40, 1.555e12, 2.39), ...dgxA100 },
  { device: a100(80, 2.039e12, 2.7), ...dgxA100 },
  h100,
  h100Pcie,
  h100Lean,
  h800,
  h200,
  b200,
  b300,
  gb200,
  gb300,
]
