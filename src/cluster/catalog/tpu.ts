/**
 * Google TPUs. A rank is a chip. Chips of a slice lie on a torus; slices are joined by the data-centre network, of which every chip has its
 * share of its host's cards. An MXU is a tile of its own and counts as one unit.
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

type Slice = Pick<TorusNetwork, 'dims' | 'wrapsFrom' | 'most'>

/** Bytes per second, one way, of one link, and of a chip's share of the network. */
const torus = (slice: Slice, bandwidth: number, beyond: number): TorusNetwork => ({
  ...{ kind: 'torus', ...slice },
  link: { kind: 'ici', bandwidth, efficiency: 0.9, latency: 1e-6, half: 0 },
  beyond: { kind: 'ethernet', bandwidth: beyond, efficiency: 0.8, latency: 15e-6, half: 0 },
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
    network: torus({ dims: 3, wrapsFrom: 4, most: 4096 }, 45e9, 6.25e9),
    host: host(100),
    sources: [
      'Jouppi et al. 2023, "TPU v4": 3D torus, 6 links per chip; dims that are multiples of 4 wrap',
      'network between slices: taken as that of v5p, since none is printed',
    ],
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
    network: torus({ dims: 2, wrapsFrom: 16, most: 256 }, 45e9, 3.125e9),
    host: host(48),
    sources: [
      'Google Cloud TPU v5e documentation: 2D torus up to 16 x 16, ICI 400 GB/s both ways per chip, a network of 6.4 Tb/s for 256 chips',
    ],
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
    network: torus({ dims: 3, wrapsFrom: 4, most: 6144 }, 90e9, 6.25e9),
    host: host(112),
    sources: [
      'Google Cloud TPU v5p documentation: 3D torus up to 16 x 16 x 24, ICI 1,200 GB/s both ways and a network of 50 Gb/s per chip',
    ],
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
    network: torus({ dims: 2, wrapsFrom: 16, most: 256 }, 90e9, 12.5e9),
    host: host(180),
    sources: [
      'Google Cloud TPU v6e documentation: 2D torus up to 16 x 16, ICI 800 GB/s both ways per chip, four cards of 200 Gb/s for 8 chips',
    ],
  },
]
