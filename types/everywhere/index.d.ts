/**
 * What Node and every browser have beyond the language, as far as the library uses it. Folders that are compiled with
 * these types alone run in both.
 */
declare class TextEncoder {
  encode(text?: string): Uint8Array<ArrayBuffer>
}

declare class TextDecoder {
  constructor(label?: string, options?: { readonly fatal?: boolean; readonly ignoreBOM?: boolean })
  decode(bytes?: ArrayBuffer | ArrayBufferView, options?: { readonly stream?: boolean }): string
}

declare class URL {
  constructor(url: string | URL, base?: string | URL)
  readonly href: string
  toString(): string
}

interface ImportMeta {
  readonly url: string
}

declare const performance: { now(): number; readonly timeOrigin: number }
