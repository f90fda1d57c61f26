/** Says that what stands on the page is not in its link, or that the link is too long to be sent, and offers the file. */
import { defineText } from '../base/language.js'
import { isKept, linkLength, mostLetters, type OwnName, ownText } from '../base/own.js'
import { saveText } from '../base/save.js'

const text = defineText(
  {
    kept: 'This text is too long for a link: it stays in this browser, and the link without it. To send it, take the file.',
    gone: 'The text of this link was too long for it and stayed in the browser in which it was written: here is another instead.',
    long: (letters: number) =>
      `This link has ${letters} letters, more than mail and chats leave whole. To send it, take the file.`,
    save: (name: string) => `Save ${name}`,
  },
  {
    kept: '这段文本太长，放不进链接：它只保存在这个浏览器里，链接中没有它。要发给别人，请保存文件。',
    gone: '这个链接的文本太长，留在了当初编写它的浏览器里；这里显示的是另一份。',
    long: (letters: number) => `这个链接有 ${letters} 个字符，邮件和聊天工具可能会把它截断。要发给别人，请保存文件。`,
    save: (name: string) => `保存 ${name}`,
  },
)

interface LongLinkProps {
  /** The text of the reader's own that the link should have. */
  readonly own?: OwnName | undefined
  readonly file: string
  readonly content: () => string | Promise<string>
}

export function LongLink({ own, file, content }: LongLinkProps) {
  const words = text()
  const letters = linkLength()
  const here = own !== undefined && isKept(own)
  if (here && ownText(own) === undefined) return <p role="note">{words.gone}</p>
  if (!here && letters <= mostLetters) return null
  const save = async () => saveText(file, await content())
  return (
    <p role="note" class="long-link">
      {here ? words.kept : words.long(letters)}{' '}
      <button type="button" class="quiet" onClick={() => void save()}>
        {words.save(file)}
      </button>
    </p>
  )
}
