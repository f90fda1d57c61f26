/** The world as a command sees it: where it prints, what it reads and writes. Tests hand in their own. */
export interface Io {
  out(text: string): void
  err(text: string): void
  read(path: string): string
  write(path: string, text: string): void
}
