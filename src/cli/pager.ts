/** Long answers go through a pager: on a terminal only, and never JSON. */
import type { Io } from './io.js'

const usual = 'less -FRX'

/** undefined: there is to be none. LOCKSTEP_PAGER= and LOCKSTEP_PAGER=cat turn it off. */
export function pagerOf({ env, terminal }: Pick<Io, 'env' | 'terminal'>, words: readonly string[]): string | undefined {
  if (!terminal() || words.includes('--json')) return undefined
  const asked = (env.LOCKSTEP_PAGER ?? env.PAGER ?? usual).trim()
  return asked === '' || asked === 'cat' ? undefined : asked
}

/** Keeps what is printed until `show`: what fits on the screen, or meets no pager, is printed as it is. */
export function paged(io: Io, pager: string): { readonly io: Io; readonly show: () => void } {
  let text = ''
  const out = (more: string) => {
    text += more
  }
  const show = () => {
    const rows = io.terminal()?.rows ?? 0
    if (text.split('\n').length <= rows || !io.page(pager, text)) io.out(text)
    text = ''
  }
  return { io: { ...io, out }, show }
}
