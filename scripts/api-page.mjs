/**
 * docs/reference/: every export of the package with its signature, comment and file, from the declarations that `tsc -b` left in dist.
 * `node scripts/api-page.mjs` writes the pages, test/api.test.ts compares.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { declarationsOf, exportedBy, sourceOf } from './api/declarations.mjs'
import { signatureOf, typeNamesIn } from './api/signature.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

export const entries = [
  { name: 'lockstep', module: 'index', about: 'Everything the commands do. Runs in Node and in a web page.' },
  {
    name: 'lockstep/engine',
    module: 'engine/native/index',
    about: 'Threads: the engine, process groups, kernels. Runs in Node and in a web page.',
  },
  { name: 'lockstep/node', module: 'node/index', about: 'Files and the machine, for Node.' },
]

const pageOf = ({ name }) => `docs/reference/${name.replace('/', '-')}.md`
const declarationFile = ({ module }) => join(root, 'dist/src', `${module}.d.ts`)

/** Schemas have their fields on a page of the documentation. */
const fieldsOf = {
  Cluster: '../clusters.md',
  Job: '../jobs.md',
  ModelConfig: '../jobs.md',
  Plan: '../jobs.md',
  Training: '../jobs.md',
}

/** Headings of the source, which are comments of one line, each with the names exported below it. */
function topicsOf(entry) {
  const topics = []
  const source = readFileSync(join(root, 'src', `${entry.module}.ts`), 'utf8')
  const pattern = /^\/\/ (.*)$|^export (?:type )?\{([\s\S]*?)\} from|^export \* from '(.*)\.js'/gm
  for (const [, title, names, star] of source.matchAll(pattern)) {
    if (title !== undefined || topics.length === 0) topics.push({ title: title ?? 'Exports', names: [] })
    const { names: listed } = topics[topics.length - 1]
    const last = part =>
      part
        .trim()
        .replace(/^type /, '')
        .split(' as ')
        .at(-1)
    if (names !== undefined) listed.push(...names.split(',').map(last).filter(Boolean))
    if (star !== undefined) listed.push(...exportedBy(join(declarationFile(entry), '..', `${star}.d.ts`)))
  }
  return topics.filter(({ names }) => names.length > 0)
}

/** The text of a documentation comment, as a paragraph. */
const proseOf = (comment = '') =>
  comment
    .replace(/^\/\*\*|\*\/$/g, '')
    .replace(/^\s*\* ?/gm, '')
    .trim()
    .replaceAll('<', '&lt;')

const link = path => {
  const source = sourceOf(path).slice(root.length)
  return `[\`${source}\`](../../${source})`
}

const fence = declarations => ['```ts', declarations.map(signatureOf).join('\n'), '```']

function entryOf(entry, name) {
  const declarations = declarationsOf(declarationFile(entry), name).map(found => ({
    ...found,
    text: found.text.replace(new RegExp(`^((?:export |declare )*\\w+ )${found.name}\\b`), `$1${name}`),
    name,
  }))
  const comment = proseOf(declarations.find(found => found.comment)?.comment)
  const fields = fieldsOf[name] ? [`Fields: [${fieldsOf[name].slice(3)}](${fieldsOf[name]}).`, ''] : []
  return ['', `### \`${name}\``, '', comment, '', ...fields, ...fence(declarations), '', link(declarations[0].path)]
}

/** Types that signatures of functions name and that the package does not export. */
function otherTypes(entry) {
  const exported = exportedBy(declarationFile(entry))
  const found = new Map()
  for (const name of exported)
    for (const { text, kind, path } of declarationsOf(declarationFile(entry), name)) {
      if (kind !== 'function' && !/^(export )?declare const \w+: [(<]/.test(text)) continue
      for (const type of typeNamesIn(text)) {
        const [declared] = declarationsOf(path, type)
        if (declared && !exported.has(type) && /^(interface|type)$/.test(declared.kind) && declared.text.length < 3000)
          found.set(type, declared)
      }
    }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1))
}

const anchorsIn = lines => {
  const seen = new Map()
  const anchors = new Map()
  for (const line of lines) {
    const [, title] = /^#+ (.*)$/.exec(line) ?? []
    if (title === undefined) continue
    const slug = title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(slug) ?? 0
    seen.set(slug, times + 1)
    anchors.set(title, times === 0 ? slug : `${slug}-${times}`)
  }
  return anchors
}

function page(entry) {
  const topics = topicsOf(entry)
  const others = otherTypes(entry)
  const body = [
    ...topics.flatMap(({ title, names }) => ['', `## ${title}`, ...names.flatMap(name => entryOf(entry, name))]),
    ...(others.length > 0
      ? ['', '## Other types', '', 'Parameters and results of the functions above. They are not exported by name.']
      : []),
    ...others.flatMap(([type, declared]) => [
      '',
      `### \`${type}\``,
      '',
      ...(declared.comment ? [proseOf(declared.comment), ''] : []),
      ...fence([declared]),
      '',
      link(declared.path),
    ]),
  ]
  const head = [`# \`${entry.name}\``]
  const anchors = anchorsIn([...head, '# Contents', ...body])
  const contents = topics.map(
    ({ title, names }) =>
      `- [${title}](#${anchors.get(title)}): ${names.map(name => `[\`${name}\`](#${anchors.get(`\`${name}\``)})`).join(', ')}`,
  )
  return [
    ...head,
    '',
    `${entry.about} [api.md](../api.md) is a guided walk through it.`,
    '`node scripts/api-page.mjs` writes this page from the declarations and comments of the source. It is in English only.',
    '',
    '## Contents',
    '',
    ...contents,
    ...body,
    '',
  ].join('\n')
}

/** Text of each page by its path. */
export const apiPages = () => Object.fromEntries(entries.map(entry => [pageOf(entry), page(entry)]))

/** Exports of an entry point whose declarations have no documentation comment. */
export const withoutComment = entry =>
  [...exportedBy(declarationFile(entry))].filter(name =>
    declarationsOf(declarationFile(entry), name).every(({ comment }) => !comment),
  )

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  mkdirSync(join(root, 'docs/reference'), { recursive: true })
  for (const [path, text] of Object.entries(apiPages())) writeFileSync(join(root, path), text)
}
