/** The editor of a job: CodeMirror, loaded when the view is opened. What can be written comes from the schema, what is wrong from the core. */
import { autocompletion, type CompletionContext, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { defaultHighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { type Diagnostic, linter } from '@codemirror/lint'
import { EditorState, type Text } from '@codemirror/state'
import { drawSelection, EditorView, hoverTooltip, keymap, lineNumbers } from '@codemirror/view'
import type { Problem } from 'lockstep'
import { describe, keysAt, pathAt, type Schema, valuesAt } from './schema.js'

export interface EditorOptions {
  readonly schema: Schema
  readonly label: string
  /** What is wrong with a text; asked after every change. */
  readonly judge: (text: string) => Promise<readonly Problem[]>
}

export interface Editor {
  readonly set: (text: string) => void
  readonly hasFocus: () => boolean
  readonly close: () => void
}

export function openEditor(parent: HTMLElement, { schema, label, judge }: EditorOptions): Editor {
  /** The text that was put there by the page: it needs no answer. */
  let given = ''
  const problems = linter(
    async ({ state }) => {
      const text = state.doc.toString()
      if (text === given || text === '') return []
      return (await judge(text)).map(problem => underlined(problem, state.doc))
    },
    { delay: 300 },
  )
  const extensions = [
    ...[lineNumbers(), history(), drawSelection(), yaml(), problems],
    ...[syntaxHighlighting(defaultHighlightStyle), EditorView.lineWrapping, look],
    autocompletion({ override: [context => completions(context, schema)] }),
    hoverTooltip((view, at) => hover(view, at, schema)),
    keymap.of([...defaultKeymap, ...historyKeymap, ...completionKeymap]),
    EditorView.contentAttributes.of({ 'aria-label': label }),
  ]
  const view = new EditorView({ parent, state: EditorState.create({ doc: '', extensions }) })
  return {
    set: text => {
      given = text
      if (text !== view.state.doc.toString())
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
    },
    hasFocus: () => view.hasFocus,
    close: () => view.destroy(),
  }
}

/** From where the core found it to the end of the line; what has no place is at the top. */
function underlined({ line = 1, column = 1, severity, message, suggestion }: Problem, doc: Text): Diagnostic {
  const at = doc.line(Math.min(Math.max(1, line), doc.lines))
  const from = Math.min(at.to, at.from + column - 1)
  return { from, to: Math.max(from, at.to), severity, message: suggestion ? `${message}; ${suggestion}` : message }
}

const linesBefore = (doc: Text, line: number): string[] => Array.from({ length: line }, (_, n) => doc.line(n + 1).text)

function completions(context: CompletionContext, schema: Schema) {
  const line = context.state.doc.lineAt(context.pos)
  const before = line.text.slice(0, context.pos - line.from)
  const word = context.matchBefore(/[\w.-]*$/)
  if (!word || (word.from === word.to && !context.explicit)) return null
  const path = pathAt(linesBefore(context.state.doc, line.number))
  const [, key] = before.match(/^\s*([\w-]+):\s/) ?? []
  if (key !== undefined)
    return { from: word.from, options: valuesAt(schema, path).map(label => ({ label, type: 'enum' })) }
  const options = keysAt(schema, path.slice(0, -1)).map(([label, info]) => ({
    ...{ label, type: 'property', apply: `${label}: ` },
    ...(info && { info }),
  }))
  return { from: word.from, options }
}

function hover(view: EditorView, at: number, schema: Schema) {
  const line = view.state.doc.lineAt(at)
  const path = pathAt(linesBefore(view.state.doc, line.number))
  const said = describe(schema, path)
  if (!said) return null
  const create = () => {
    const dom = document.createElement('div')
    dom.textContent = `${path.join('.')}: ${said}`
    return { dom }
  }
  return { pos: line.from + line.text.search(/\S|$/), end: line.to, create }
}

const look = EditorView.theme({
  '&': {
    backgroundColor: 'var(--ground)',
    color: 'var(--ink)',
    border: '1px solid var(--control)',
    borderRadius: '6px',
  },
  '.cm-content': { caretColor: 'var(--ink)', fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, monospace' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--sheet)', color: 'var(--soft)', border: 'none' },
  '.cm-tooltip': {
    backgroundColor: 'var(--sheet)',
    color: 'var(--ink)',
    border: '1px solid var(--edge)',
    maxWidth: '32rem',
  },
  '.cm-tooltip-hover': { padding: '0.3rem 0.6rem' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--edge) !important' },
  '.ͼ5, .ͼm, .ͼl, .ͼi, .ͼd, .ͼe, .ͼc, .ͼb': { color: 'inherit' },
})
