/**
 * A program as text: `print` and `parse` are inverse, so the text is what `--text` shows, what tests compare and
 * what a bug report pastes. `printRank` is for reading only.
 *
 *   segment mlp.F phase=F
 *     role x activations 4096
 *     buffer %x f32 @x+0 [batch:2/dp seq:16/tp embed:64]
 *     %y = all-gather %x dim=seq over=tp
 *     wait %y
 */
export { showLayout, showShaped } from './text/codec.js'
export { parse } from './text/parse.js'
export type { TextPhrases } from './text/phrases.js'
export { print, printInstr, printStep } from './text/print.js'
export { membersOf, printRank } from './text/rank.js'
