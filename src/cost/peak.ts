/** The rate of a device at its best. */
import { precisionFacts } from '../base/index.js'
import type { Device, Precision } from '../cluster/index.js'

/** The peak in this precision, or in the nearest one the device has: a device without bf16 multiplies in f16. */
export function peakOf(device: Device, precision: Precision): number {
  for (const candidate of [precision, ...precisionFacts[precision].instead]) {
    const peak = device.peak[candidate]
    if (peak !== undefined) return peak
  }
  throw new Error(`internal: ${device.name} has no rate for ${precision}`)
}
