// The WebAssembly target: no C library, one memory shared by the instances of all ranks, the clock from outside.
#include "matmul.h"

__attribute__((import_module("env"), import_name("now"))) double host_now(void);
double lockstep_now(void) { return host_now(); }

__attribute__((export_name("exec"))) int wasm_exec(char *base, double *list, char *status, const int32_t *tuning) {
  return lockstep_exec(base, list, status, tuning_of(tuning));
}

// The variants of the register tile, each until there is none: its name, and the rows and columns of its tile.
__attribute__((export_name("variant_name"))) const char *wasm_variant_name(int index) {
  const struct variant *variant = variant_at(index);
  return variant ? variant->name : 0;
}
__attribute__((export_name("variant_rows"))) int wasm_variant_rows(int index) { return variant_at(index)->rows; }
__attribute__((export_name("variant_columns"))) int wasm_variant_columns(int index) { return variant_at(index)->columns; }

__attribute__((export_name("workspace_bytes"))) int wasm_workspace_bytes(void) { return LOCKSTEP_WORKSPACE_BYTES; }
