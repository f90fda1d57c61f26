/** A decoder on whatever kernels: an engine joins by one line. */
import type { DecodeEngine, DecodeRoom } from './decode.js'
import type { KernelName } from './kernel-names.js'
import { type DecodeOptions, nativeDecoder } from './native/decode/engine.js'
import { referenceDecoder } from './reference/decode.js'
import { kernelsFor } from './trainer.js'

export interface StartDecoderOptions extends Pick<DecodeOptions, 'threads' | 'pool'> {
  readonly kernels?: KernelName | 'auto' | undefined
}

export async function startDecoder(room: DecodeRoom, options: StartDecoderOptions = {}): Promise<DecodeEngine> {
  const kernels = kernelsFor(options.kernels ?? 'auto')
  return kernels === 'reference' ? referenceDecoder(room) : nativeDecoder(room, { ...options, kernels })
}
