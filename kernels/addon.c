// The native target as a Node-API addon. It holds no state, so every worker thread may load it. Memory comes as a
// typed array, because Node-API refuses a SharedArrayBuffer itself.
#include <node_api.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cores.h"
#include "matmul.h"
#include "pages.h"

double lockstep_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// The first byte of a typed array, or null with an exception pending.
static char *bytes_of(napi_env env, napi_value array) {
  void *data = 0;
  if (napi_get_typedarray_info(env, array, 0, 0, &data, 0, 0) == napi_ok && data) return data;
  napi_throw_type_error(env, 0, "lockstep: memory must be a typed array that is not empty");
  return 0;
}

static size offset_of(napi_env env, napi_value number) {
  double offset = 0;
  napi_get_value_double(env, number, &offset);
  return (size)offset;
}

static napi_value number_of(napi_env env, double value) {
  napi_value result;
  napi_create_double(env, value, &result);
  return result;
}

// exec(memory, list, status, tuning): the error code, 0 when all went well. The tuning is an Int32Array of the words of
// commands.h. Matrix tiles are used only where asked for.
static napi_value exec(napi_env env, napi_callback_info info) {
  napi_value args[4];
  size_t count = 4;
  napi_get_cb_info(env, info, &count, args, 0, 0);
  char *base = bytes_of(env, args[0]), *words = base ? bytes_of(env, args[3]) : 0;
  if (!words) return 0;
  size list = offset_of(env, args[1]), status = offset_of(env, args[2]);
  struct tuning tuning = tuning_of((const int32_t *)words);
  tuning.tiles = tuning.tiles && tiles_allowed();
  return number_of(env, lockstep_exec(base, (double *)(base + list), base + status, tuning));
}

// wake(memory, offset): wakes the ranks that sleep on the i32 at offset.
static napi_value wake(napi_env env, napi_callback_info info) {
  napi_value args[2];
  size_t count = 2;
  napi_get_cb_info(env, info, &count, args, 0, 0);
  char *base = bytes_of(env, args[0]);
  if (base) lockstep_wake((int *)(base + offset_of(env, args[1])));
  return 0;
}

// enlargePages(memory): asks for large pages for a memory that is new.
static napi_value enlarge_pages(napi_env env, napi_callback_info info) {
  napi_value args[1];
  size_t count = 1, bytes = 0;
  void *data = 0;
  napi_get_cb_info(env, info, &count, args, 0, 0);
  if (napi_get_typedarray_info(env, args[0], 0, &bytes, &data, 0, 0) == napi_ok) lockstep_enlarge_pages(data, bytes);
  return 0;
}

// bind(rank, ranks): gives the calling thread its share of the cores.
static napi_value bind(napi_env env, napi_callback_info info) {
  napi_value args[2];
  size_t count = 2;
  int32_t rank = 0, ranks = 1;
  napi_get_cb_info(env, info, &count, args, 0, 0);
  napi_get_value_int32(env, args[0], &rank);
  napi_get_value_int32(env, args[1], &ranks);
  lockstep_bind(rank, ranks);
  return 0;
}

// leave(code): ends the process and does not wait for its threads, one of which may never come back.
static napi_value leave(napi_env env, napi_callback_info info) {
  napi_value args[1];
  size_t count = 1;
  int32_t code = 1;
  napi_get_cb_info(env, info, &count, args, 0, 0);
  napi_get_value_int32(env, args[0], &code);
  _exit(code);
}

static void set_text(napi_env env, napi_value object, const char *name, const char *text) {
  napi_value value;
  napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
  napi_set_named_property(env, object, name, value);
}

// The variants of the register tile: name, rows and columns of the tile.
static napi_value variants_of(napi_env env) {
  napi_value all;
  napi_create_array(env, &all);
  for (int i = 0; variant_at(i); i++) {
    napi_value object;
    napi_create_object(env, &object);
    set_text(env, object, "name", variant_at(i)->name);
    napi_set_named_property(env, object, "rows", number_of(env, variant_at(i)->rows));
    napi_set_named_property(env, object, "columns", number_of(env, variant_at(i)->columns));
    napi_set_element(env, all, (uint32_t)i, object);
  }
  return all;
}

#ifndef BUILD
#define BUILD "by hand"
#endif

// info(): what this build was made for.
static napi_value info(napi_env env, napi_callback_info unused) {
  (void)unused;
  napi_value object;
  napi_create_object(env, &object);
#if defined(__AVX512F__)
  set_text(env, object, "target", "x64 AVX-512");
#elif defined(__AVX2__)
  set_text(env, object, "target", "x64 AVX2");
#elif defined(__x86_64__)
  set_text(env, object, "target", "x64 SSE");
#elif defined(__aarch64__)
  set_text(env, object, "target", "arm64 NEON");
#else
  set_text(env, object, "target", "portable");
#endif
  set_text(env, object, "build", BUILD);
  napi_set_named_property(env, object, "contract", number_of(env, LOCKSTEP_CONTRACT));
  napi_set_named_property(env, object, "variants", variants_of(env));
  napi_value tiles;
  napi_get_boolean(env, tiles_allowed(), &tiles);
  napi_set_named_property(env, object, "tiles", tiles);
  napi_set_named_property(env, object, "vector", number_of(env, VECTOR_BYTES));
  napi_set_named_property(env, object, "workspaceBytes", number_of(env, (double)LOCKSTEP_WORKSPACE_BYTES));
  return object;
}

static void set_function(napi_env env, napi_value exports, const char *name, napi_callback callback) {
  napi_value function;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, 0, &function);
  napi_set_named_property(env, exports, name, function);
}

NAPI_MODULE_INIT() {
  set_function(env, exports, "exec", exec);
  set_function(env, exports, "wake", wake);
  set_function(env, exports, "bind", bind);
  set_function(env, exports, "enlargePages", enlarge_pages);
  set_function(env, exports, "leave", leave);
  set_function(env, exports, "info", info);
  return exports;
}
