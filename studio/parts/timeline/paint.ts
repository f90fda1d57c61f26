/** Puts a scene on a canvas: pixels with their letters first, then the chosen span and the axis. */
import { Letters } from './letters.js'
import { type Chosen, type Rows, rankOf, spanOf } from './pick.js'
import {
  blendsOf,
  drawRanks,
  drawTracks,
  type Inks,
  Picture,
  rowHeight,
  rowHeights,
  type Scene,
  topOf,
} from './raster.js'
import { firstAfter, kinds, type Lane } from './track.js'
import { ticks, type View } from './view.js'

export const axisHeight = 22

/** `#215695`, `rgb(33, 86, 149)` -> as a canvas stores it. */
function stored(colour: string): number {
  const hex = /^#(..)(..)(..)$/.exec(colour.trim())
  const [r = 0, g = 0, b = 0] = hex
    ? hex.slice(1).map(part => Number.parseInt(part, 16))
    : (colour.match(/\d+/g) ?? []).map(Number)
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0
}

/** Colours are the theme's: variables of style/base.css. */
export function inksIn(element: Element): Inks {
  const style = getComputedStyle(element)
  const said = (name: string) => style.getPropertyValue(`--${name}`)
  const [lane, fills] = [stored(said('lane')), kinds.map(kind => stored(said(kind)))]
  return {
    ...{ lane, ground: stored(said('sheet')), fills: Uint32Array.from(fills), blends: blendsOf(lane, fills) },
    ...{ sheet: said('sheet'), soft: said('soft'), ink: said('ink') },
    letters: kinds.map(kind => said(`on-${kind}`) || '#fff'),
  }
}

export class Painter {
  readonly #canvas: HTMLCanvasElement
  readonly #context: CanvasRenderingContext2D
  #image: ImageData | undefined
  #picture: Picture | undefined
  #letters: { readonly inks: Inks; readonly letters: Letters } | undefined

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas
    this.#context = canvas.getContext('2d', { alpha: false })!
  }

  paint(scene: Scene, rows: Rows, chosen: Chosen | undefined): void {
    const picture = this.#pixels()
    if (rows === 'ranks' && scene.trackOf) drawRanks(picture, scene.trackOf, scene)
    else {
      drawTracks(picture, scene)
      this.#write(picture, scene)
    }
    this.#context.putImageData(this.#image!, 0, axisHeight)
    if (chosen) this.#frame(scene, rows, chosen)
    this.#axis(scene)
  }

  /** All of the canvas below the axis. */
  #pixels(): Picture {
    const [width, height] = [this.#canvas.width, Math.max(1, this.#canvas.height - axisHeight)]
    if (this.#picture?.width === width && this.#picture.height === height) return this.#picture
    this.#image = new ImageData(width, height)
    this.#picture = new Picture(this.#image)
    return this.#picture
  }

  #axis({ view, inks }: Scene): void {
    const [context, { width }] = [this.#context, this.#canvas]
    context.fillStyle = inks.sheet
    context.fillRect(0, 0, width, axisHeight)
    context.fillStyle = inks.soft
    context.font = '12px system-ui, sans-serif'
    const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(view.to - view.from))))
    for (const time of ticks(view, width / 110)) {
      const x = Math.round(((time - view.from) / (view.to - view.from)) * width)
      context.fillRect(x, axisHeight - 5, 1, 5)
      context.fillText(`${Number(time.toFixed(digits))} s`, x + 3, 13)
    }
  }

  /** What a box is stands in it where there is room. */
  #write(picture: Picture, { tracks, view, inks }: Scene): void {
    if (this.#letters?.inks !== inks) this.#letters = { inks, letters: new Letters(inks) }
    for (let n = 0; n < tracks.length; n++) {
      const top = topOf(n, view)
      if (top > -rowHeight && top < picture.height)
        writeLane(this.#letters.letters, picture, tracks[n]!.compute, { view, top: top + 5 })
    }
  }

  #frame(scene: Scene, rows: Rows, chosen: Chosen): void {
    const { view, inks } = scene
    const { start, end } = spanOf(scene, chosen)
    const perPixel = (view.to - view.from) / this.#canvas.width
    const { top, height } = rows === 'ranks' ? this.#rankRow(scene, chosen) : trackRow(view, chosen)
    this.#context.strokeStyle = inks.ink
    this.#context.lineWidth = 2
    this.#context.strokeRect(
      (start - view.from) / perPixel - 1,
      axisHeight + top - 1,
      Math.max(3, (end - start) / perPixel) + 1,
      height + 2,
    )
  }

  /** Where many ranks share a line of pixels, a frame is still high enough to be seen. */
  #rankRow(scene: Scene, chosen: Chosen): { readonly top: number; readonly height: number } {
    const perRank = (this.#canvas.height - axisHeight) / scene.view.rows
    const height = Math.max(4, perRank)
    return { top: (rankOf(scene, chosen) - scene.view.row) * perRank - (height - perRank) / 2, height }
  }
}

const trackRow = (view: View, { track, lane }: Chosen) => ({
  top: topOf(track, view) + (lane === 'network' ? rowHeights.compute : 0),
  height: rowHeights[lane],
})

/** No letter is narrower. */
const leastWidth = 10

interface Line {
  readonly view: View
  readonly top: number
}

function writeLane(letters: Letters, picture: Picture, { spans }: Lane, { view, top }: Line): void {
  const { start, end, kind, microbatch } = spans
  const perPixel = (view.to - view.from) / picture.width
  const least = leastWidth * perPixel
  for (let i = firstAfter(spans, view.from); i < start.length && start[i]! < view.to; i++) {
    if (end[i]! - start[i]! < least) continue
    const left = Math.max(0, Math.floor((start[i]! - view.from) / perPixel))
    const right = Math.min(picture.width, Math.floor((end[i]! - view.from) / perPixel))
    letters.put(picture, { kind: kind[i]!, microbatch: microbatch[i]! }, { left, right, top })
  }
}
