/** What the core refused: every problem with its path and what to do, or a sentence. In Chinese the core's English stands behind ours. */
import type { Problem } from 'lockstep'
import { defineText, language } from '../base/language.js'
import { isSaidZh, problemZh } from '../text/problems.zh.js'
import type { Refusal } from '../work/protocol.js'

const text = defineText(
  {
    title: (n: number) => (n === 1 ? 'One problem' : `${n} problems`),
    failed: 'This could not be computed',
  },
  { title: (n: number) => `${n} 个问题`, failed: '无法计算' },
)

export function Trouble({ why }: { readonly why: Refusal }) {
  const words = text()
  return (
    <section class="trouble" role="alert">
      <h2>{why.problems.length > 0 ? words.title(why.problems.length) : words.failed}</h2>
      {why.problems.length > 0 ? <Problems problems={why.problems} /> : <p lang="en">{why.message}</p>}
    </section>
  )
}

export function Problems({ problems }: { readonly problems: readonly Problem[] }) {
  return (
    <ul class="problems">
      {problems.map(problem => (
        <li key={`${problem.path} ${problem.message}`}>
          {problem.path && <code>{problem.path}</code>} {language.value === 'zh' && <span>{problemZh(problem)} </span>}
          {(language.value === 'en' || !isSaidZh(problem)) && (
            <span lang="en">
              {problem.message}
              {problem.suggestion && <em> {problem.suggestion}</em>}
            </span>
          )}
        </li>
      ))}
    </ul>
  )
}
