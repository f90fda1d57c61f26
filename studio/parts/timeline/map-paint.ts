/** The step as it is in a map: drawn once for its data, and put back under the window when that moves. */
import { drawRanks, type Inks, Picture, type Scene } from './raster.js'
import type { View } from './view.js'

export class MapPainter {
  readonly #canvas: HTMLCanvasElement
  readonly #context: CanvasRenderingContext2D
  #step: { readonly image: ImageData; readonly inks: Inks; readonly duration: number } | undefined

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas
    this.#context = canvas.getContext('2d', { alpha: false })!
  }

  /** A line for each of `tracks`, or for some of them. */
  drawStep(scene: Omit<Scene, 'view'>, tracks: ArrayLike<number>): void {
    const { inks, duration } = scene
    const image = new ImageData(this.#canvas.width, this.#canvas.height)
    const view = { from: 0, to: duration, row: 0, rows: tracks.length }
    drawRanks(new Picture(image), tracks, { ...scene, view })
    this.#step = { image, inks, duration }
  }

  /** What is not seen lies in the shade. */
  drawWindow({ from, to, row, rows }: View, count: number): void {
    if (!this.#step) return
    const { image, inks, duration } = this.#step
    const context = this.#context
    const [across, down] = [image.width / duration, image.height / count]
    const [left, top] = [from * across, row * down]
    const [wide, high] = [Math.max(4, (to - from) * across), Math.max(4, Math.min(count, rows) * down)]
    context.putImageData(image, 0, 0)
    context.fillStyle = inks.sheet
    context.globalAlpha = 0.55
    context.fillRect(0, 0, left, image.height)
    context.fillRect(left + wide, 0, image.width, image.height)
    context.fillRect(left, 0, wide, top)
    context.fillRect(left, top + high, wide, image.height)
    context.globalAlpha = 1
    context.strokeStyle = inks.ink
    context.lineWidth = 2
    context.strokeRect(left + 1, top + 1, wide - 2, high - 2)
  }
}
