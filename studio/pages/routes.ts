/** Every page, loaded when it is opened. */
import type { ComponentType } from 'preact'
import { defineText } from '../base/language.js'

export interface PageProps {
  /** What stands behind the page's own name: `zero` of `learn/zero`. */
  readonly rest: string
}

type Load = () => Promise<{ readonly default: ComponentType<PageProps> }>

/** In the order of the header; `home` is where the name of the program leads. */
export const pages = {
  home: () => import('./home/index.js'),
  plan: () => import('./plan/index.js'),
  learn: () => import('./learn/index.js'),
  run: () => import('./run/index.js'),
  program: () => import('./program/index.js'),
  schedule: () => import('./schedule/index.js'),
  claims: () => import('./claims/index.js'),
  clusters: () => import('./clusters/index.js'),
} satisfies Record<string, Load>

export type PageName = keyof typeof pages

export const pageTitles = defineText(
  {
    home: 'Home',
    plan: 'Plan',
    learn: 'Learn',
    run: 'Run',
    program: 'Program',
    schedule: 'Schedule',
    claims: 'Claims',
    clusters: 'Clusters',
  },
  {
    home: '首页',
    plan: '规划',
    learn: '学习',
    run: '运行',
    program: '程序',
    schedule: '调度',
    claims: '论断',
    clusters: '集群',
  },
)

export const isPage = (name: string): name is PageName => Object.hasOwn(pages, name)
