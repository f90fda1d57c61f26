/** Letters as pixels: each is written once in a theme and copied from then on, since writing text costs more than all else in a frame. */
import type { Inks, Picture } from './raster.js'
import { kinds } from './track.js'

const font = '11px system-ui, sans-serif'
const height = 12

interface Stamp {
  readonly pixels: Uint32Array
  readonly width: number
}

export class Letters {
  readonly #inks: Inks
  readonly #context = new OffscreenCanvas(64, height).getContext('2d', { willReadFrequently: true })!
  readonly #stamps = new Map<number, Stamp>()

  constructor(inks: Inks) {
    this.#inks = inks
  }

  /** `F3` in the middle of a box of kind 0, from `left` to `right`, if there is room for it. */
  put(picture: Picture, name: { readonly kind: number; readonly microbatch: number }, box: Box): void {
    const { pixels, width } = this.#stampOf(name.kind, name.microbatch)
    if (box.right - box.left < width + 4) return
    const from = Math.round((box.left + box.right - width) / 2)
    for (let line = 0; line < height; line++) {
      const y = box.top + line
      if (y < 0 || y >= picture.height) continue
      const at = y * picture.width + from
      for (let x = 0; x < width; x++) picture.pixels[at + x] = pixels[line * width + x]!
    }
  }

  #stampOf(kind: number, microbatch: number): Stamp {
    const key = kind * 2 ** 24 + microbatch + 1
    const known = this.#stamps.get(key) ?? this.#written(kind, microbatch)
    this.#stamps.set(key, known)
    return known
  }

  #written(kind: number, microbatch: number): Stamp {
    const context = this.#context
    const letters = `${kinds[kind]!.slice(0, 3)}${microbatch >= 0 ? microbatch : ''}`
    context.font = font
    const width = Math.min(64, Math.ceil(context.measureText(letters).width))
    context.fillStyle = `#${hex(this.#inks.fills[kind]!)}`
    context.fillRect(0, 0, width, height)
    context.fillStyle = this.#inks.letters[kind]!
    context.fillText(letters, 0, height - 2)
    return { pixels: new Uint32Array(context.getImageData(0, 0, width, height).data.buffer), width }
  }
}

interface Box {
  readonly left: number
  readonly right: number
  readonly top: number
}

/** As the canvas stores it -> as a style says it. */
const hex = (ink: number): string => [0, 8, 16].map(by => ((ink >>> by) & 255).toString(16).padStart(2, '0')).join('')
