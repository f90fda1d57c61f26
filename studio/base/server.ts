/**
 * Requests to `lockstep studio`. Each carries the token as a bearer token, from the link that was opened. It is kept in this
 * origin's storage (scheme, host and port), so no other server of the machine receives it.
 */
import { computed, effect, signal } from '@preact/signals'
import { amendQuery, place } from './router.js'
import { forget, recall, remember } from './store.js'

/** The server marks its page: asking a plain host for what it does not have would be a failed request. */
export const hasServer = document.querySelector('meta[name="lockstep-server"]') !== null

/** Undefined: the link that `lockstep studio` printed was not opened in this browser, or belongs to an earlier server. */
export const token = signal<string | undefined>(recall('token'))

/** Whether runs of this machine can be reached. */
export const hasToken = computed(() => hasServer && token.value !== undefined)

/** Takes the token out of the link: addresses are copied, and kept in the history. */
export function followToken(): void {
  effect(() => {
    const given = place.value.query.token
    if (given === undefined) return
    remember('token', given)
    token.value = given
    amendQuery({ token: undefined })
  })
}

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...init.headers, ...(token.peek() && { Authorization: `Bearer ${token.peek()}` }) }
  const answer = await fetch(path, { ...init, headers })
  if (answer.status === 401) {
    forget('token')
    token.value = undefined
  }
  return answer
}

export const askJson = (path: string, method: string, body: object): Promise<Response> =>
  ask(path, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })

export interface ServerEvent {
  readonly event: string
  readonly id: string
  readonly data: string
}

export interface EventListeners {
  heard(event: ServerEvent): void
  opened(): void
  /** It is tried again, unless the server refused. */
  broken(): void
}

/** As EventSource does, which cannot send headers. */
const millisecondsBetweenTries = 3000

/** Server-sent events until `signal` is aborted. After a broken connection the server is asked for what follows the last event. */
export async function listen(
  path: string,
  { heard, opened, broken }: EventListeners,
  signal: AbortSignal,
): Promise<void> {
  let last = ''
  while (!signal.aborted) {
    try {
      const answer = await ask(path, { signal, headers: last === '' ? {} : { 'Last-Event-ID': last } })
      if (!answer.ok || !answer.body) return broken()
      opened()
      for await (const event of eventsOf(answer.body)) {
        last = event.id
        heard(event)
        if (signal.aborted) return
      }
    } catch {
      // Broken off: said below.
    }
    if (signal.aborted) return
    broken()
    await new Promise(resolve => setTimeout(resolve, millisecondsBetweenTries))
  }
}

async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader() // bytes in
  let text = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (text + value).split('\n\n')
      text = blocks.pop()!
      for (const block of blocks) {
        const event = eventOf(block)
        if (event) yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

/** Undefined: a comment, which only keeps the connection. */
function eventOf(block: string): ServerEvent | undefined {
  const fields = new Map(block.split('\n').map(line => [line.split(': ', 1)[0], line.replace(/^[^:]*: /, '')]))
  const [event, data] = [fields.get('event'), fields.get('data')]
  return event === undefined || data === undefined ? undefined : { event, id: fields.get('id') ?? '', data }
}
