/** What the open part of a page is called, a lesson or a device: the title of the window says it, else the name of the page. */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

export const ownTitle = signal<string>()

export function useTitle(title: string): void {
  useEffect(() => {
    ownTitle.value = title
    return () => {
      ownTitle.value = undefined
    }
  }, [title])
}
