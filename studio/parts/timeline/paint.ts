/** Puts a scene on a canvas: spans with their letters first, then what is around the chosen one, and the axis. */
import { Letters } from './letters.js'
import { type Chosen, type Rows, rankOf, spanOf } from './pick.js'
import {
  type Box,
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
    ...{ sheet: said('sheet'), soft: said('soft'), tick: stored(said('soft')), ink: stored(said('ink')) },
    letters: kinds.map(kind => said(`on-${kind}`) || '#fff'),
  }
}

interface Sheet {
  readonly image: ImageData
  readonly axis: Picture
  /** All below the axis. */
  readonly spans: Picture
}

/** Everything is written as pixels, which a canvas takes at once: each thing drawn by its own methods is recorded and played again. */
export class Painter {
  readonly #canvas: HTMLCanvasElement
  readonly #context: CanvasRenderingContext2D
  #sheet: Sheet | undefined
  #letters: { readonly inks: Inks; readonly letters: Letters } | undefined

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas
    this.#context = canvas.getContext('2d', { alpha: false })!
  }

  paint(scene: Scene, rows: Rows, chosen: Chosen | undefined): void {
    const { image, axis, spans } = this.#pixels()
    const letters = this.#written(scene.inks)
    if (rows === 'ranks' && scene.trackOf) drawRanks(spans, scene.trackOf, scene)
    else {
      drawTracks(spans, scene)
      writeNames(letters, spans, scene)
    }
    if (chosen) spans.frame(scene.inks.ink, frameOf(spans, scene, rows, chosen))
    drawAxis(letters, axis, scene)
    this.#context.putImageData(image, 0, 0)
  }

  #pixels(): Sheet {
    const { width, height } = this.#canvas
    if (this.#sheet?.image.width === width && this.#sheet.image.height === height) return this.#sheet
    const image = new ImageData(width, height)
    this.#sheet = { image, axis: new Picture(image, 0, axisHeight), spans: new Picture(image, axisHeight) }
    return this.#sheet
  }

  #written(inks: Inks): Letters {
    if (this.#letters?.inks !== inks) this.#letters = { inks, letters: new Letters(inks) }
    return this.#letters.letters
  }
}

function drawAxis(letters: Letters, axis: Picture, { view, inks }: Scene): void {
  axis.pixels.fill(inks.ground)
  const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(view.to - view.from))))
  for (const time of ticks(view, axis.width / 110)) {
    const left = Math.round(((time - view.from) / (view.to - view.from)) * axis.width)
    letters.number(axis, `${Number(time.toFixed(digits))} s`, left + 3, 3)
    axis.fill(inks.tick, { left, top: axisHeight - 5, width: 1, height: 5 })
  }
}

/** What a box is stands in it where there is room. */
function writeNames(letters: Letters, picture: Picture, { tracks, view }: Scene): void {
  for (let n = 0; n < tracks.length; n++) {
    const top = topOf(n, view)
    if (top > -rowHeight && top < picture.height)
      writeLane(letters, picture, tracks[n]!.compute, { view, top: top + 5 })
  }
}

/** Around the chosen span. */
function frameOf({ width, height }: Picture, scene: Scene, rows: Rows, chosen: Chosen): Box {
  const { view } = scene
  const { start, end } = spanOf(scene, chosen)
  const perPixel = (view.to - view.from) / width
  const row = rows === 'ranks' ? rankRow(height, scene, chosen) : trackRow(view, chosen)
  return {
    left: Math.round((start - view.from) / perPixel) - 2,
    top: Math.round(row.top) - 2,
    width: Math.round(Math.max(3, (end - start) / perPixel)) + 3,
    height: Math.round(row.height) + 4,
  }
}

/** Where many ranks share a line of pixels, a frame is still high enough to be seen. */
function rankRow(high: number, scene: Scene, chosen: Chosen): { readonly top: number; readonly height: number } {
  const perRank = high / scene.view.rows
  const height = Math.max(4, perRank)
  return { top: (rankOf(scene, chosen) - scene.view.row) * perRank - (height - perRank) / 2, height }
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
    letters.name(picture, { kind: kind[i]!, microbatch: microbatch[i]! }, { left, right, top })
  }
}
