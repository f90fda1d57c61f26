/** The part of WebAssembly's API that is used here: TypeScript declares it only together with all of the DOM. */
export interface Memory {
  readonly buffer: SharedArrayBuffer
  grow(pages: number): number
}
export interface Global {
  value: number
}
/** Compiled code. It can be sent to a worker. */
export type Module = object & { readonly kind?: 'WebAssembly.Module' }

interface Api {
  readonly Memory: new (limits: { initial: number; maximum: number; shared: true }) => Memory
  readonly Module: new (bytes: Uint8Array) => Module
  readonly Instance: new (
    module: Module,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => { readonly exports: object }
  validate(bytes: Uint8Array): boolean
}

export const WebAssembly: Api = (globalThis as unknown as { WebAssembly: Api }).WebAssembly // every runtime has it
