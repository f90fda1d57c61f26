/** The whole program as text: change it, and the laws say what is wrong and where. */
import { useId, useRef, useState } from 'preact/hooks'
import { BrokenLaws, selectLine } from '../../parts/broken.js'
import { Trouble } from '../../parts/trouble.js'
import { ask, Refused } from '../../work/ask.js'
import type { Broken } from '../../work/broken.js'
import type { Refusal } from '../../work/protocol.js'
import { text } from './text.js'

type Judged =
  /** `program`: the text that was proved. */
  | { readonly program: string; readonly broken: readonly Broken[] }
  | { readonly refusal: Refusal }
  | 'proving'
  | undefined

export function Edit({ job, printed }: { readonly job: string; readonly printed: string }) {
  const words = text()
  const id = useId()
  const [program, write] = useState(printed)
  const [judged, show] = useState<Judged>()
  const area = useRef<HTMLTextAreaElement>(null)
  const prove = async () => {
    show('proving')
    try {
      show({ program, broken: await ask('long', ['program', 'judge'], { job, program }) })
    } catch (error) {
      show({ refusal: error instanceof Refused ? error.why : { message: String(error), problems: [] } })
    }
  }
  // What is wrong stays while it is mended; that nothing is was said of another text.
  const isSaid =
    typeof judged === 'object' && 'broken' in judged && (judged.broken.length > 0 || judged.program === program)
  const goTo = (line: number) => area.current && selectLine(area.current, line)
  return (
    <section class="edit">
      <h2>{words.edit}</h2>
      <label for={id}>{words.editNote}</label>
      <textarea
        id={id}
        ref={area}
        rows={16}
        spellcheck={false}
        value={program}
        onInput={event => write(event.currentTarget.value)}
      />
      <div class="tools">
        <button type="button" onClick={() => void prove()} disabled={judged === 'proving'}>
          {judged === 'proving' ? words.proving : words.verify}
        </button>
        <button type="button" class="quiet" onClick={() => write(printed)}>
          {words.restore}
        </button>
      </div>
      <div role="status" class="judged">
        {isSaid && <Verdict broken={judged.broken} goTo={goTo} />}
      </div>
      {typeof judged === 'object' && 'refusal' in judged && <Trouble why={judged.refusal} />}
    </section>
  )
}

function Verdict({ broken, goTo }: { readonly broken: readonly Broken[]; readonly goTo: (line: number) => void }) {
  const words = text()
  if (broken.length === 0) return <p class="good">{words.fine}</p>
  return (
    <>
      <p class="bad">{words.broken(broken.length)}</p>
      <BrokenLaws broken={broken} goTo={goTo} />
    </>
  )
}
