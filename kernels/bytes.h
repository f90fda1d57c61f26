// Copying between ranks. A large result is written past the caches where the target can: a plain store first reads the
// line it overwrites, which is a third of all traffic, and what does not fit the second cache would be gone anyway.
#pragma once
#include "vector.h"

enum { STREAMED_RUN = 4096 };  // from so many bytes on
enum { CACHE_LINE = 64 };

#if defined(__SSE2__)
INLINE void stream_line(char *to, const char *from) {
#if defined(__AVX512F__)
  _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
#else
  for (size i = 0; i < CACHE_LINE; i += 16)
    _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
#endif
}

// Others may see such stores after later ones: who says that they are done calls stream_end first.
INLINE void stream_some(char *to, const char *from, size bytes) {
  enum { AHEAD = 1024 };
  const size head = min_size(bytes, -(size)(intptr_t)to & (CACHE_LINE - 1));
  __builtin_memcpy(to, from, (size_t)head);
  size i = head;
  for (; i + CACHE_LINE <= bytes; i += CACHE_LINE) {
    __builtin_prefetch(from + i + AHEAD);
    stream_line(to + i, from + i);
  }
  __builtin_memcpy(to + i, from + i, (size_t)(bytes - i));
}
INLINE void stream_end(void) { _mm_sfence(); }
#else
INLINE void stream_some(char *to, const char *from, size bytes) { __builtin_memcpy(to, from, (size_t)bytes); }
INLINE void stream_end(void) {}
#endif

static __attribute__((unused)) void stream_bytes(char *to, const char *from, size bytes) {
  stream_some(to, from, bytes);
  stream_end();
}

// Some of a result, large or not.
INLINE void copy_bytes(char *to, const char *from, size bytes, int large) {
  if (to == from) return;
  if (large && bytes >= STREAMED_RUN)
    stream_bytes(to, from, bytes);
  else
    __builtin_memcpy(to, from, (size_t)bytes);
}
