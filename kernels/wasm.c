// The WebAssembly target: no C library, one memory shared by the instances of all ranks, the clock from outside.
#include "kernels.h"

__attribute__((import_module("env"), import_name("now"))) double host_now(void);
double lockstep_now(void) { return host_now(); }

__attribute__((export_name("exec"))) int wasm_exec(char *base, double *list, char *status) {
  return lockstep_exec(base, list, status, 0);
}

__attribute__((export_name("workspace_bytes"))) int wasm_workspace_bytes(void) { return LOCKSTEP_WORKSPACE_BYTES; }
