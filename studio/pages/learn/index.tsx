/** The index of the lessons, and each lesson below it: `learn/zero`. */
import { defineText } from '../../base/language.js'
import type { PageProps } from '../routes.js'

const text = defineText(
  { title: 'Learn by running it', empty: 'The lessons are not there yet.' },
  { title: '边运行边学', empty: '课程还没有做好。' },
)

export default function Learn(_: PageProps) {
  const words = text()
  return (
    <article>
      <h1>{words.title}</h1>
      <p>{words.empty}</p>
    </article>
  )
}
