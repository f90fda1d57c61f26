/** A page that is not there yet says so. */
import { defineText } from '../base/language.js'
import { type PageName, pageTitles } from './routes.js'

const text = defineText({ soon: 'This page is not there yet.' }, { soon: '这个页面还没有做好。' })

export function Soon({ name }: { readonly name: PageName }) {
  return (
    <article>
      <h1>{pageTitles()[name]}</h1>
      <p>{text().soon}</p>
    </article>
  )
}
