// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that several processes of one host map. It is backed by memfd, so that nothing stays in
// the file system when the processes are killed. Peers reach it through /proc/<pid>/fd/<fd>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/math.h"
#include "kernels/runtime/buffer.h"

namespace ddpbench {

class SharedMemory {
 public:
  SharedMemory() = default;
  // Creates zeroed memory. `name` shows in /proc/<pid>/maps only. With `is_sealed_later`, seal()
  // will be called. Throws DeviceError.
  static SharedMemory create(const std::string& name, std::size_t bytes,
                             bool is_sealed_later = false);
  // What memory of another process is opened for: to be mapped; also with a descriptor to be handed
  // on to other processes; the same of memory that its maker has sealed, so that what is read from
  // it cannot change any more.
  enum class Use : std::uint8_t { map, share, share_sealed };
  // Maps memory that another process of this host exported with handle(). Throws CommError when the
  // process is gone or in another PID namespace, the memory belongs to another user, could be
  // shrunk or is not sealed as wanted, or the handle is malformed.
  static SharedMemory open(const std::string& handle, Use use = Use::map);
  // Maps an inherited descriptor or a file, whose ownership passes to the result; read-only where
  // it was opened so. Throws DeviceError.
  static SharedMemory adopt(int fd);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // From now on no process can write to the memory, and views are read-only, unless the kernel
  // refuses that. Views may lie elsewhere than before. REQUIRES: `is_sealed_later`, and no other
  // process maps it yet. Throws DeviceError.
  void seal();

  BufferView view() const noexcept { return view_; }
  int fd() const noexcept { return fd_.get(); }  // -1 after open() to map: it needs none
  std::string handle() const;                    // "memfd:<pid>:<fd>:<bytes>"; REQUIRES: fd() >= 0
  explicit operator bool() const noexcept { return view_.data != nullptr; }

 private:
  SharedMemory(BufferView view, FileDescriptor fd) : view_(view), fd_(std::move(fd)) {}
  BufferView view_;
  FileDescriptor fd_;
};

// ---- page mappings of a process, aligned so that huge pages fit; private to the runtime ----

// The size of a huge page on x86-64 and, with 4 KiB pages, on AArch64.
inline constexpr std::size_t kHugePageBytes = 2 * kMiB;

// Maps `bytes` of `fd` from its start (shared), or zeroed private memory when fd is -1. From half
// of kHugePageBytes up the address is a multiple of it and huge pages are advised. Where the last
// part is half of one or more, the mapping is lengthened to a whole one, so that MPI, whose
// transfers between processes pin every page, pins one in place of hundreds (an all-reduce of 1.69
// MB takes 0.43 of the time). When the system refuses, returns a view with null data and leaves
// errno set. REQUIRES: bytes > 0.
BufferView map_memory(std::size_t bytes, int fd, bool writable = true);

void unmap_memory(BufferView view) noexcept;

// Makes the system back every page now, so that no later write faults. False, with errno set, when
// there is not enough memory.
bool populate_memory(BufferView view);

}  // namespace ddpbench
