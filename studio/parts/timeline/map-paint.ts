/** The step as it is in a map: drawn once for its data, bright and in the shade; a window over it is bright. */
import { drawRanks, type Inks, mix, Picture, type Scene } from './raster.js'
import type { View } from './view.js'

interface Step {
  readonly bright: Picture
  readonly shaded: Picture
  /** What is put on the canvas. */
  readonly image: ImageData
  readonly seen: Picture
  readonly inks: Inks
  readonly duration: number
}

/** How much of what is not seen is hidden. */
const shade = 0.55

export class MapPainter {
  readonly #canvas: HTMLCanvasElement
  readonly #context: CanvasRenderingContext2D
  #step: Step | undefined

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas
    this.#context = canvas.getContext('2d', { alpha: false })!
  }

  /** A line for each of `tracks`, or for some of them. */
  drawStep(scene: Omit<Scene, 'view'>, tracks: ArrayLike<number>): void {
    const { inks, duration } = scene
    const { width, height } = this.#canvas
    const [bright, shaded, seen] = [0, 1, 2].map(() => new ImageData(width, height)) as [
      ImageData,
      ImageData,
      ImageData,
    ] // three
    const view = { from: 0, to: duration, row: 0, rows: tracks.length }
    const step = { bright: new Picture(bright), shaded: new Picture(shaded), image: seen, seen: new Picture(seen) }
    drawRanks(step.bright, tracks, { ...scene, view })
    step.shaded.pixels.set(shadedOf(step.bright.pixels, inks.ground))
    this.#step = { ...step, inks, duration }
  }

  /** What is not seen lies in the shade. */
  drawWindow({ from, to, row, rows }: View, count: number): void {
    if (!this.#step) return
    const { bright, shaded, image, seen, inks, duration } = this.#step
    const [across, down] = [seen.width / duration, seen.height / count]
    const box = {
      ...{ left: Math.round(from * across), top: Math.round(row * down) },
      width: Math.max(4, Math.round((to - from) * across)),
      height: Math.max(4, Math.round(Math.min(count, rows) * down)),
    }
    seen.pixels.set(shaded.pixels)
    seen.take(bright, box)
    seen.frame(inks.ink, box)
    this.#context.putImageData(image, 0, 0)
  }
}

/** Few colours make up a map. */
function shadedOf(pixels: Uint32Array, ground: number): Uint32Array {
  const known = new Map<number, number>()
  return pixels.map(pixel => {
    const mixed = known.get(pixel) ?? mix(pixel, ground, shade)
    known.set(pixel, mixed)
    return mixed
  })
}
