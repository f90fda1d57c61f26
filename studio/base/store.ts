/** A few words this browser remembers. Where nothing may be stored (private windows, blocked storage) nothing is, and that is fine. */
const prefix = 'lockstep.'

export function recall(name: string): string | undefined {
  try {
    return localStorage.getItem(prefix + name) ?? undefined
  } catch {
    return undefined
  }
}

export function remember(name: string, text: string): void {
  try {
    localStorage.setItem(prefix + name, text)
  } catch {
    // Not remembered.
  }
}

export function forget(name: string): void {
  try {
    localStorage.removeItem(prefix + name)
  } catch {
    // It was not remembered.
  }
}
