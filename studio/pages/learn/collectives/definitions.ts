/** What each operation is, as a formula. */
import { tex } from '../../../base/tex.js'
import type { Operation } from '../../../work/collectives.js'

export const definitions: Readonly<Record<Operation, string>> = {
  broadcast: tex`y_r[i] = x_q[i]`,
  scatter: tex`y_r = x_q[r]`,
  gather: tex`y_q[r] = x_r`,
  reduce: tex`y_q[i] = \sum_{r=0}^{n-1} x_r[i]`,
  'all-gather': tex`y_r[i] = x_i`,
  'reduce-scatter': tex`y_r = \sum_{k=0}^{n-1} x_k[r]`,
  'all-reduce': tex`y_r[i] = \sum_{k=0}^{n-1} x_k[i]`,
  'all-to-all': tex`y_r[i] = x_i[r]`,
  'send-recv': tex`y_{q+1}[i] = x_q[i]`,
}
