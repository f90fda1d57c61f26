// Moves from and to a file, in pieces that a rank and its copier take as those of any move. Where the file bypasses the system's
// cache, what is transferred begins and ends on pages, in memory and in the file: it goes by way of the workspace. Tensors
// lie on whole pages of the file, so that behind one there is nothing but the rest of its last page.
#if !defined(__wasm__)
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <unistd.h>
#endif
#include "sync.h"

enum { PAGE = 4096 };

#if defined(__wasm__)
// Gives 0, or the code of what went wrong.
__attribute__((import_module("env"), import_name("transfer"))) int host_transfer(int file, int writes, char *at, double bytes,
                                                                                 double position);

static int transfer(int file, int writes, char *at, size bytes, size position) {
  return host_transfer(file, writes, at, (double)bytes, (double)position);
}
#else
static int transfer(int file, int writes, char *at, size bytes, size position) {
  while (bytes > 0) {
    const ssize_t done = writes ? pwrite(file, at, (size_t)bytes, (off_t)position) : pread(file, at, (size_t)bytes, (off_t)position);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return EIO;  // the file ends here, which it must not
    at += done, bytes -= done, position += done;
  }
  return 0;
}
#endif

static int by_way_of(char *page, const double *w, char *at, size bytes, size position) {
  const int file = (int)w[WAIT_DISK_FILE], writes = (int)w[WAIT_DISK_WRITES];
  const size whole = round_up(bytes, PAGE);
  if (writes) {
    __builtin_memcpy(page, at, (size_t)bytes);
    __builtin_memset(page + bytes, 0, (size_t)(whole - bytes));
  }
  const int code = transfer(file, writes, page, whole, position);
  if (!writes && !code) __builtin_memcpy(at, page, (size_t)bytes);
  return code;
}

static void disk_piece(struct context *c, const double *w, int share, size low, size high) {
  (void)share;
  const double *ends = w + WAIT_DISK_DIRECT + 1;  // the operand, then the result
  const int writes = (int)w[WAIT_DISK_WRITES];
  char *at = (char *)address(c, ends[writes ? 0 : 1]) + low;
  const size position = (size)ends[writes ? 1 : 0] + low;
  char *page = (char *)round_up((intptr_t)c->workspace, PAGE);
  const int direct = (int)w[WAIT_DISK_DIRECT];
  if (direct && page + round_up(high - low, PAGE) > c->workspace + c->workspace_bytes) {
    c->error = LOCKSTEP_WORKSPACE;
    return;
  }
  const int code = direct ? by_way_of(page, w, at, high - low, position)
                          : transfer((int)w[WAIT_DISK_FILE], writes, at, high - low, position);
  if (!code) return;
  c->status[STATUS_CODE] = code;
  c->error = LOCKSTEP_DISK;
}

COMMAND(waitDisk) { share_out(c, w, (size)w[WAIT_DISK_BYTES], (size)w[WAIT_DISK_PIECE], disk_piece); }
