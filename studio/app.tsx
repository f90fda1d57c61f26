/** The frame of every page: header, the page, and what to say where there is none. */
import type { ComponentType, RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { defineText, language, languages, speak } from './base/language.js'
import { linkTo, path } from './base/router.js'
import { paint, theme } from './base/theme.js'
import { ownTitle, useTitle } from './base/title.js'
import { isPage, type PageName, type PageProps, pages, pageTitles } from './pages/routes.js'

const text = defineText(
  {
    skip: 'Skip to the content',
    sections: 'Sections',
    dark: 'Dark',
    light: 'Light',
    missing: (path: string) => `There is no page ${path}`,
    home: 'Home',
    broken: 'This page could not be loaded',
    loading: 'Loading …',
  },
  {
    skip: '跳到正文',
    sections: '栏目',
    dark: '深色',
    light: '浅色',
    missing: (path: string) => `没有 ${path} 这个页面`,
    home: '首页',
    broken: '页面加载失败',
    loading: '加载中……',
  },
)

export function App() {
  const [name = '', ...rest] = path.value.split('/')
  const page = name === '' ? 'home' : name
  const content = useRef<HTMLElement>(null)
  const title = ownTitle.value ?? (isPage(page) && page !== 'home' ? pageTitles()[page] : undefined)
  useEffect(() => {
    document.title = title ? `${title} · Lockstep` : 'Lockstep'
  }, [title])
  useFocus(content, path.value)
  return (
    <>
      <Header page={page} />
      <main id="content" ref={content} tabIndex={-1}>
        {isPage(page) ? <Page name={page} rest={rest.join('/')} /> : <Missing name={path.value} />}
      </main>
    </>
  )
}

/** The link that led here went with the page it stood on: whoever reads by keys or by ear goes on at the beginning of the new one. */
function useFocus(content: RefObject<HTMLElement | null>, path: string): void {
  const shown = useRef(path)
  useEffect(() => {
    if (shown.current === path) return
    shown.current = path
    if (document.activeElement === document.body) content.current?.focus({ preventScroll: true })
  }, [path])
}

function Header({ page }: { readonly page: string }) {
  const words = text()
  const titles = pageTitles()
  // Not a link: a hash names a page here.
  const skip = () => document.getElementById('content')?.focus()
  return (
    <header class="top">
      <button type="button" class="skip" onClick={skip}>
        {words.skip}
      </button>
      <a class="name" href={link('home')}>
        Lockstep
      </a>
      <nav aria-label={words.sections}>
        {(Object.keys(pages) as PageName[])
          .filter(name => name !== 'home')
          .map(name => (
            <a key={name} href={link(name)} aria-current={page === name ? 'page' : undefined}>
              {titles[name]}
            </a>
          ))}
      </nav>
      <span class="settings">
        <button type="button" class="quiet" lang={language.value === 'en' ? 'zh-CN' : 'en'} onClick={toggleLanguage}>
          {languages[language.value === 'en' ? 'zh' : 'en']}
        </button>
        <button type="button" class="quiet" onClick={toggleTheme}>
          {theme.value === 'dark' ? words.light : words.dark}
        </button>
      </span>
    </header>
  )
}

const link = (name: PageName): string => linkTo(name === 'home' ? '' : name)

const toggleLanguage = () => speak(language.value === 'en' ? 'zh' : 'en')
const toggleTheme = () => paint(theme.value === 'dark' ? 'light' : 'dark')

function Page({ name, rest }: PageProps & { readonly name: PageName }) {
  const loaded = useLoaded(name)
  const words = text()
  if (loaded.failed) return <p role="alert">{`${words.broken}: ${loaded.failed}`}</p>
  const { Component } = loaded
  return Component ? <Component key={name} rest={rest} /> : <p class="loading">{words.loading}</p>
}

interface Loaded {
  readonly name?: PageName
  readonly Component?: ComponentType<PageProps>
  readonly failed?: string
}

/** The old page stays until the new one is there. */
function useLoaded(name: PageName): Loaded {
  const [loaded, set] = useState<Loaded>({})
  const wanted = useRef(name)
  wanted.current = name
  useEffect(() => {
    const put = (next: Loaded) => {
      if (wanted.current === name) set(next)
    }
    pages[name]().then(
      module => put({ name, Component: module.default }),
      error => put({ name, failed: String(error) }),
    )
  }, [name])
  return loaded.name === name ? loaded : {}
}

function Missing({ name }: { readonly name: string }) {
  const words = text()
  useTitle(words.missing(name))
  return (
    <article>
      <h1>{words.missing(name)}</h1>
      <p>
        <a href={link('home')}>{words.home}</a>
      </p>
    </article>
  )
}
