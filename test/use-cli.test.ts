/** generate, eval, train --sample and export as a user meets them: what they print, as JSON too, and what they refuse. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { nodeFiles } from '../src/node/index.js'
import { ownFixture } from './fixtures.js'
import { lockstep } from './memory-io.js'

const folder = mkdtempSync(join(tmpdir(), 'lockstep-use-'))
const at = (name: string) => join(folder, name)
after(() => rmSync(folder, { recursive: true }))

async function* linesOf(text: string) {
  yield* text.split('\n').slice(0, -1)
}
const run = (argv: readonly string[], said = '') => lockstep(argv, {}, { ...nodeFiles(), lines: () => linesOf(said) })
const jsonOf = async (argv: readonly string[], said = '') =>
  (await run([...argv, '--json'], said)).out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))

const template = `{{ bos_token }}{% for m in messages %}{{ m['role'][0] }}:{{ m.content | trim }}
{% endfor %}{% if add_generation_prompt %}a:{% endif %}`

/** A model of bytes, and the same as a Hugging Face folder that says how it is talked to. */
before(async () => {
  writeFileSync(at('text.txt'), 'the cat sat on the mat and the dog sat on the log. '.repeat(60))
  writeFileSync(
    at('job.yaml'),
    `model: { family: llama, layers: 1, embed: 16, heads: 2, ffn: 16, vocab: 256 }
data: { source: text.txt }
training: { seq: 96, globalBatch: 4, steps: 60, evalEvery: 30, optimizer: { kind: adamw, lr: 0.01 } }`,
  )
  const trained = await run(['train', at('job.yaml'), '--out', at('run'), '--save', at('saved'), '--sample', 'the '])
  equal(trained.code, 0, trained.err)
  match(trained.out, /the /)
  equal((await run(['export', at('saved'), '--to', 'hf', '--out', at('hf')])).code, 0)
  writeFileSync(at('hf/chat_template.jinja'), template)
})

test('a checkpoint and its Hugging Face folder write the same, and say it as JSON', async () => {
  const asked = ['--prompt', 'the cat', '--tokens', '5']
  const [own] = await jsonOf(['generate', at('saved'), ...asked])
  const [theirs] = await jsonOf(['generate', at('hf'), ...asked])
  deepEqual(own.promptIds, [...Buffer.from('the cat')])
  deepEqual([own.ok, own.ids.length, own.tokens, own.step], [true, 5, 5, 60])
  deepEqual([theirs.ids, theirs.text, theirs.software], [own.ids, own.text, 'Hugging Face'])
  const { out } = await run(['generate', at('hf'), ...asked])
  equal(out, `the cat${own.text}\n`)
})

test('a folder of bytes trains on: its tokenizer has as many tokens as the model, and how it is talked to goes along', async () => {
  const { model, ...rest } = {
    model: 'hf',
    data: { source: 'text.txt' },
    training: { seq: 96, globalBatch: 4, steps: 1 },
  }
  writeFileSync(at('again.yaml'), JSON.stringify({ model, ...rest }))
  const saving = ['--save', at('went-on'), '--out', at('again')]
  const { code, err } = await run(['train', at('again.yaml'), '--init', at('hf'), ...saving])
  equal(code, 0, err)
  const asked = ['--chat', '--tokens', '3']
  const [before] = await jsonOf(['generate', at('hf'), ...asked], 'hi\n')
  const [after] = await jsonOf(['generate', at('went-on'), ...asked], 'hi\n')
  deepEqual(after.promptIds, before.promptIds)
  equal((await run(['export', at('went-on'), '--to', 'hf', '--out', at('hf2')])).code, 0)
  for (const name of ['chat_template.jinja', 'tokenizer_config.json', 'generation_config.json'])
    equal(readFileSync(at(`hf2/${name}`), 'utf8'), readFileSync(at(`hf/${name}`), 'utf8'))
})

test('a chat is written by the template of the folder, and remembered', async () => {
  const [first, second] = await jsonOf(['generate', at('hf'), '--chat', '--tokens', '3'], 'hi\n you \n')
  const ids = (text: string) => [0, ...Buffer.from(text)]
  deepEqual(first.promptIds, ids('u:hi\na:'))
  deepEqual(second.promptIds, ids(`u:hi\na:${first.text.trim()}\nu:you\na:`))
  writeFileSync(at('hf/chat_template.jinja'), "{{ raise_exception('no system here') }}")
  const refused = await run(['generate', at('hf'), '--chat'], 'hi\n')
  writeFileSync(at('hf/chat_template.jinja'), template)
  equal(refused.code, 1)
  match(refused.err, /hf: the chat template: .*no system here/)
})

test('eval: loss, perplexity and bits per byte, of a checkpoint and of a folder', async () => {
  const judged = async (path: string) => JSON.parse((await run(['eval', path, '--data', at('text.txt'), '--json'])).out)
  const [own, theirs] = [await judged(at('saved')), await judged(at('hf'))]
  ok(Math.abs(own.loss - theirs.loss) < 1e-6 && own.tokens === theirs.tokens)
  ok(Math.abs(own.perplexity - Math.exp(own.loss)) < 1e-9)
  ok(Math.abs(own.bitsPerByte - own.loss / Math.LN2) < 1e-9)
})

const llama = ownFixture('huggingface/llama')
const refusals: readonly (readonly [argv: readonly string[], said: RegExp])[] = [
  [['generate', at('saved')], /no prompt; give --prompt/],
  [['generate', at('saved'), '--prompt', ''], /--prompt: the prompt is empty/],
  [['generate', at('saved'), '--ids', '1,x'], /--ids: `1,x` is not a list of ids; write them as 17,4,99/],
  [['generate', at('saved'), '--ids', '1,256'], /256/],
  [['generate', at('saved'), '--prompt', 'x'.repeat(97)], /a prompt of 97 tokens > context 96/],
  [['generate', at('none'), '--prompt', 'x'], /none: no such file or directory/],
  [['generate', llama, '--prompt', 'x'], /has no tokenizer: its model learned from ids.*--ids 1,2,3/],
  [['eval', llama, '--data', at('text.txt')], /has no tokenizer.*pass a \.bin file of token ids/],
  [['eval', at('hf'), '--data', at('job.txt')], /job\.txt/],
  [['train', at('job.yaml'), '--out', at('r2'), '--sample', ''], /empty|--sample/],
]
for (const [argv, said] of refusals)
  test(`${argv.map(word => word.replace(folder, '').slice(0, 20)).join(' ')} is refused`, async () => {
    const { code, err } = await run(argv)
    equal(code, 1, err)
    match(err, said)
    const json = JSON.parse((await run([...argv, '--json'])).out)
    equal(json.ok, false)
    match(`${json.problems[0].path}: ${json.problems[0].message}; ${json.problems[0].suggestion}`, said)
  })

test('what is computed otherwise than in the folder is a warning of eval and generate too', async () => {
  const [config, folder] = [readFileSync(join(ownFixture('huggingface/gpt2'), 'config.json'), 'utf8'), at('exact')]
  cpSync(ownFixture('huggingface/gpt2'), folder, { recursive: true })
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...JSON.parse(config), activation_function: 'gelu' }))
  writeFileSync(at('ids.bin'), new Uint8Array(new Uint16Array(128).map((_, i) => i % 32).buffer))
  for (const argv of [
    ['eval', folder, '--data', at('ids.bin')],
    ['generate', folder, '--ids', '1,2', '--tokens', '1'],
  ]) {
    const { code, err } = await run(argv)
    equal(code, 0, err)
    match(err, /warning: .*GELU/)
  }
})
