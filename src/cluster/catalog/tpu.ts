/**
 * Google TPUs. A rank is a chip. Chips of a slice lie on a torus; slices are joined by the data-centre network, which
 * the catalog does not model: a cluster is one slice. An MXU is a tile of its own and counts as one unit.
 */
import { GiB } from '../../base/index.js'
import type { Device } from '../device.js'
import type { Entry, TorusNetwork } from './entry.js'

const book =
  'efficiencies and ICI per link: "How to Scale Your Model" (Austin et al., 2025), chapter 2, and MaxText\'s published MFU'
const documentation = (version: string) => `Google Cloud TPU ${version} documentation`
const list = 'price: Google Cloud list price per chip, 2025'

interface Chip {
  readonly name: string
  readonly title: string
  readonly bf16: number
  /** Where 8-bit products are faster. */
  readonly fp8?: number
  readonly bandwidth: number
  readonly memory: number
  readonly tile: [number, number]
  readonly units: number
  readonly pricePerHour: number
}

const chip = ({ bf16, fp8, tile, units, memory, title, ...rest }: Chip): Device => ({
  ...rest,
  title,
  peak: { f32: bf16 / 8, bf16, ...(fp8 && { fp8 }) },
  memory: GiB(memory),
  reserve: { bytes: GiB(0.5), fraction: 0.03 },
  curves: {
    matmul: { efficiency: { bf16: 0.85, f32: 0.8 }, tile, units, halfK: 0, measured: [] },
    attention: { forward: 0.5, backward: 0.4 },
    memory: { efficiency: 0.85, half: 0 },
    floor: 1e-6,
  },
  sources: [documentation(title.replace('Google TPU ', '')), book, list],
})

/** `bandwidth` of one link, one way. */
const torus = (dims: 2 | 3, bandwidth: number, wrapsFrom: number, most: number): TorusNetwork => ({
  kind: 'torus',
  dims,
  link: { kind: 'ici', bandwidth, efficiency: 0.9, latency: 1e-6, half: 0 },
  wrapsFrom,
  most,
})

const host = (memory: number): NonNullable<Entry['host']> => ({
  memory: GiB(memory),
  link: { kind: 'pcie', bandwidth: 16e9, efficiency: 0.8, latency: 8e-6, half: 0 },
})

export const tpu: readonly Entry[] = [
  {
    device: chip({
      name: 'tpu-v4',
      title: 'Google TPU v4',
      bf16: 275e12,
      bandwidth: 1.228e12,
      memory: 32,
      tile: [128, 128],
      units: 8,
      pricePerHour: 3.22,
    }),
    network: torus(3, 45e9, 4, 4096),
    host: host(100),
    sources: ['Jouppi et al. 2023, "TPU v4": 3D torus, 6 links per chip; dims that are multiples of 4 wrap'],
  },
  {
    device: chip({
      name: 'tpu-v5e',
      title: 'Google TPU v5e',
      bf16: 197e12,
      bandwidth: 0.819e12,
      memory: 16,
      tile: [128, 128],
      units: 4,
      pricePerHour: 1.2,
    }),
    network: torus(2, 45e9, 16, 256),
    host: host(48),
    sources: ['Google Cloud TPU v5e documentation: 2D torus up to 16 x 16, ICI 400 GB/s both ways per chip'],
  },
  {
    device: chip({
      name: 'tpu-v5p',
      title: 'Google TPU v5p',
      bf16: 459e12,
      bandwidth: 2.765e12,
      memory: 95,
      tile: [128, 128],
      units: 8,
      pricePerHour: 4.2,
    }),
    network: torus(3, 90e9, 4, 6144),
    host: host(112),
    sources: ['Google Cloud TPU v5p documentation: 3D torus up to 16 x 16 x 24, ICI 1,200 GB/s both ways per chip'],
  },
  {
    device: chip({
      name: 'tpu-v6e',
      title: 'Google TPU v6e',
      bf16: 918e12,
      fp8: 918e12,
      bandwidth: 1.64e12,
      memory: 32,
      tile: [256, 256],
      units: 2,
      pricePerHour: 2.7,
    }),
    network: torus(2, 90e9, 16, 256),
    host: host(180),
    sources: ['Google Cloud TPU v6e documentation: 2D torus up to 16 x 16, ICI 800 GB/s both ways per chip'],
  },
]
