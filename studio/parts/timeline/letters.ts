/**
 * Letters as pixels: what stands in a box, and each digit of the axis, is written once in a theme and copied from then on, since writing
 * costs more than all else in a frame.
 */
import { type Inks, type Picture, styled } from './raster.js'
import { kinds } from './track.js'

const height = 12
/** What is written at once is as wide at most. */
const widest = 64

interface Stamp {
  readonly pixels: Uint32Array
  readonly width: number
  /** From its beginning to that of the next one: not whole pixels. */
  readonly advance: number
}

interface Style {
  readonly font: string
  readonly ground: string
  readonly ink: string
}

export class Letters {
  readonly #inks: Inks
  readonly #context = new OffscreenCanvas(widest, height).getContext('2d', { willReadFrequently: true })!
  readonly #names = new Map<number, Stamp>()
  readonly #digits = new Map<string, Stamp>()

  constructor(inks: Inks) {
    this.#inks = inks
  }

  /** `F3` in the middle of a span of kind 0, from `left` to `right`, if there is room for it. */
  name(picture: Picture, name: { readonly kind: number; readonly microbatch: number }, place: Place): void {
    const stamp = this.#nameOf(name.kind, name.microbatch)
    if (place.right - place.left >= stamp.width + 4)
      put(picture, stamp, Math.round((place.left + place.right - stamp.width) / 2), place.top)
  }

  /** `0.35 s` on the axis, digit by digit: at every zoom there are other numbers. */
  number(picture: Picture, text: string, left: number, top: number): void {
    let at = left
    for (const digit of text) {
      const stamp = this.#digitOf(digit)
      put(picture, stamp, Math.round(at), top)
      at += stamp.advance
    }
  }

  #digitOf(digit: string): Stamp {
    const known = this.#digits.get(digit)
    if (known) return known
    const { soft, sheet } = this.#inks
    const stamp = this.#written(digit, { font: '12px system-ui, sans-serif', ground: sheet, ink: soft })
    this.#digits.set(digit, stamp)
    return stamp
  }

  #nameOf(kind: number, microbatch: number): Stamp {
    const key = kind * 2 ** 24 + microbatch + 1
    const known = this.#names.get(key)
    if (known) return known
    const { fills, letters } = this.#inks
    const style = { font: '11px system-ui, sans-serif', ground: styled(fills[kind]!), ink: letters[kind]! }
    const stamp = this.#written(`${kinds[kind]!.slice(0, 3)}${microbatch >= 0 ? microbatch : ''}`, style)
    this.#names.set(key, stamp)
    return stamp
  }

  #written(text: string, { font, ground, ink }: Style): Stamp {
    const context = this.#context
    context.font = font
    const advance = context.measureText(text).width
    const width = Math.min(widest, Math.ceil(advance))
    context.fillStyle = ground
    context.fillRect(0, 0, width, height)
    context.fillStyle = ink
    context.fillText(text, 0, height - 2)
    return { pixels: new Uint32Array(context.getImageData(0, 0, width, height).data.buffer), width, advance }
  }
}

interface Place {
  readonly left: number
  readonly right: number
  readonly top: number
}

/** What would lie outside is left out. */
function put({ pixels, width, height: high }: Picture, stamp: Stamp, left: number, top: number): void {
  const right = Math.min(stamp.width, width - left)
  for (let line = Math.max(0, -top); line < Math.min(height, high - top); line++)
    for (let x = 0; x < right; x++) pixels[(top + line) * width + left + x] = stamp.pixels[line * stamp.width + x]!
}
