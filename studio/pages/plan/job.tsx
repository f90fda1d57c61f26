/** The job as a file to be edited: what is written is the plan at once, as soon as it is a job. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { language } from '../../base/language.js'
import { Problems } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Link } from '../../work/plan/link.js'
import type { TextRead } from '../../work/plan-job.js'
import type { Editor } from './editor.js'
import { settle } from './state.js'
import { views } from './text-views.js'

export default function JobView({ link }: { readonly link: Link }) {
  const words = views().job
  const { value } = useAnswer('fast', ['plan-job', 'yaml'], link)
  const place = useRef<HTMLDivElement>(null)
  const editor = useRef<Editor>(null)
  const written = useRef<string>(undefined)
  const text = useRef('')
  text.current = value?.text ?? text.current
  const [read, show] = useState<TextRead>()
  const change = async (text: string) => {
    written.current = text
    const answer = await ask('fast', ['plan-job', 'readText'], text)
    if (written.current !== text) return answer.problems
    show(answer)
    if (answer.link) settle(answer.link)
    return answer.problems
  }
  useEffect(() => {
    let ended = false
    void Promise.all([import('./editor.js'), ask('fast', ['plan-job', 'schema'], null)]).then(
      ([{ openEditor }, schema]) => {
        if (ended || !place.current) return
        editor.current = openEditor(place.current, { schema, label: words.label, judge: change })
        editor.current.set(text.current)
      },
    )
    return () => {
      ended = true
      written.current = undefined // an answer that is on its way is for nobody
      editor.current?.close()
    }
  }, [])
  // Text of the reader's own stays as it was written: only another plan, from elsewhere, replaces it.
  useEffect(() => {
    if (value && !editor.current?.hasFocus()) editor.current?.set(value.text)
  }, [value?.text])
  return (
    <section class="job" aria-label={words.title}>
      <p>
        <small>{words.applied}</small>
      </p>
      <div ref={place} class="editor" />
      <div role="status">
        {read &&
          (read.problems.length > 0 ? (
            <Problems problems={read.problems} />
          ) : (
            <p lang={language.value === 'zh' ? 'zh-CN' : 'en'}>{`✓ ${words.fine}`}</p>
          ))}
      </div>
    </section>
  )
}
