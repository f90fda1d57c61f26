/** What a run computes with and learns from, in Chinese. */
import type { DescriptionPhrases, Spoken, Translated } from 'lockstep'
import { speakZh } from './tongue.zh.js'

export const descriptionPhrasesZh: Translated<DescriptionPhrases> = {
  '.kernels/native': ['原生 kernel，{target}，{bits} 位向量'],
  '.kernels/tiles': ['原生 kernel，{target}，{bits} 位向量，AMX'],
  '.kernels/relaxed': ['WebAssembly，relaxed SIMD'],
  '.kernels/plain': ['WebAssembly，SIMD'],
  '.run/ranks': ['{kernels}，{ranks} 个 rank，各占一个线程'],
  '.run/rank': ['{kernels}，1 个 rank'],
  '.run/in-turns': ['参考解释器，{digits}，{ranks} 个 rank 在一个线程里交替运行'],
  '.run/alone': ['参考解释器，{digits}，1 个 rank，一个线程'],
  '.data/tokens': ['{name}：{tokens} 个 token，{train} 条训练序列，{heldOut} 条验证序列'],
  '.data/strides': ['合成数据：按步长数数'],
  '.data/vectors': ['合成数据：向量移动一位'],
  '.data/documents': ['{data}；文档以 EOS token {separator} 结尾'],
  '.data/filled': ['{data}；文档以 EOS token {separator} 结尾，补齐到 {pad} 的倍数'],
}

export const describedZh = (said: Spoken): string => speakZh(said, descriptionPhrasesZh)[0]
