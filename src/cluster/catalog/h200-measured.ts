/** What one H200 was measured to do. */
import type { Curves } from '../device.js'

export const h200Measured: { readonly curves: Curves; readonly sources: readonly string[] } = {
  curves: {
    matmul: { efficiency: { bf16: 0.79, fp8: 0.7, f32: 0.8 }, tile: [128, 256], units: 132, halfK: 64, measured: [] },
    attention: { forward: 0.43, backward: 0.38 },
    memory: { efficiency: 0.9, half: 0 },
    floor: 2.5e-6,
  },
  sources: [
    'measured on one H200 with PyTorch 2.11: 8192^3 bf16 matmul 770 to 800 TFLOP/s, device copy 4.3 TB/s, cuDNN attention at batch 4, 32 heads, seq 4096, head dim 64 in 0.65 / 1.80 ms',
  ],
}
