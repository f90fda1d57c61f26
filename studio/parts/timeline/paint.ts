/** Puts a scene on a canvas: pixels first, then letters, the chosen span and the axis. */
import { type Chosen, type Rows, spanOf } from './pick.js'
import { drawRanks, drawTracks, type Inks, inksOf, type Picture, rowHeight, rowHeights, type Scene } from './raster.js'
import { firstAfter, kinds } from './track.js'
import { ticks } from './view.js'

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
  const of = (name: string) => stored(style.getPropertyValue(`--${name}`))
  return inksOf(of('lane'), of('sheet'), kinds.map(of))
}

export class Painter {
  readonly #canvas: HTMLCanvasElement
  readonly #context: CanvasRenderingContext2D
  #image: ImageData | undefined

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas
    this.#context = canvas.getContext('2d', { alpha: false })!
  }

  paint(scene: Scene, rows: Rows, chosen: Chosen | undefined): void {
    const began = performance.now()
    const picture = this.#picture()
    if (rows === 'ranks' && scene.trackOf) drawRanks(picture, scene.trackOf, scene)
    else drawTracks(picture, scene)
    this.#context.putImageData(this.#image!, 0, axisHeight)
    const style = getComputedStyle(this.#canvas)
    if (rows === 'roles') this.#letters(scene, style)
    if (chosen && rows === 'roles') this.#frame(scene, chosen, style)
    this.#axis(scene, style)
    performance.measure('timeline frame', { start: began, end: performance.now() })
  }

  #picture(): Picture {
    const [width, height] = [this.#canvas.width, Math.max(1, this.#canvas.height - axisHeight)]
    if (this.#image?.width !== width || this.#image.height !== height) this.#image = new ImageData(width, height)
    return { pixels: new Uint32Array(this.#image.data.buffer), width, height }
  }

  #axis({ view }: Scene, style: CSSStyleDeclaration): void {
    const [context, { width }] = [this.#context, this.#canvas]
    context.fillStyle = style.getPropertyValue('--sheet')
    context.fillRect(0, 0, width, axisHeight)
    context.fillStyle = style.getPropertyValue('--soft')
    context.font = '12px system-ui, sans-serif'
    const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(view.to - view.from))))
    for (const time of ticks(view, width / 110)) {
      const x = Math.round(((time - view.from) / (view.to - view.from)) * width)
      context.fillRect(x, axisHeight - 5, 1, 5)
      context.fillText(`${Number(time.toFixed(digits))} s`, x + 3, 13)
    }
  }

  /** What a box is stands in it where there is room. */
  #letters({ tracks, view }: Scene, style: CSSStyleDeclaration): void {
    const [context, { width, height }] = [this.#context, this.#canvas]
    const perPixel = (view.to - view.from) / width
    const inks = kinds.map(kind => style.getPropertyValue(`--on-${kind}`) || '#fff')
    context.font = '11px system-ui, sans-serif'
    context.textAlign = 'center'
    let drawn = 0
    tracks.forEach((track, n) => {
      const y = axisHeight + Math.round((n - view.row) * rowHeight)
      if (y < 0 || y > height) return
      const { spans } = track.compute
      const { start, end, kind, microbatch } = spans
      for (let i = firstAfter(spans, view.from); i < start.length && start[i]! < view.to && drawn < 1500; i++) {
        const [left, right] = [Math.max(view.from, start[i]!), Math.min(view.to, end[i]!)]
        const letters = `${kinds[kind[i]!]!.slice(0, 3)}${microbatch[i]! >= 0 ? microbatch[i] : ''}`
        if ((right - left) / perPixel < 7 * letters.length) continue
        context.fillStyle = inks[kind[i]!]!
        context.fillText(letters, ((left + right) / 2 - view.from) / perPixel, y + 15)
        drawn++
      }
    })
    context.textAlign = 'left'
  }

  #frame(scene: Scene, chosen: Chosen, style: CSSStyleDeclaration): void {
    const { view } = scene
    const { start, end } = spanOf(scene, chosen)
    const perPixel = (view.to - view.from) / this.#canvas.width
    const y = axisHeight + (chosen.track - view.row) * rowHeight + (chosen.lane === 'network' ? rowHeights.compute : 0)
    this.#context.strokeStyle = style.getPropertyValue('--ink')
    this.#context.lineWidth = 2
    this.#context.strokeRect(
      (start - view.from) / perPixel - 1,
      y - 1,
      Math.max(3, (end - start) / perPixel) + 1,
      rowHeights[chosen.lane] + 2,
    )
  }
}
