// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/memory_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/math.h"

namespace ddpbench {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::byte* as_bytes(void* address) {
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

// Reserves address space for `length` bytes that starts at a multiple of kHugePageBytes.
std::byte* reserve_aligned(std::size_t length) {
  const std::size_t reserved = length + kHugePageBytes;
  std::byte* const start = as_bytes(
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (!start) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::size_t head = round_up(address, kHugePageBytes) - address;
  if (head > 0) ::munmap(start, head);
  if (const std::size_t tail = reserved - head - length) ::munmap(start + head + length, tail);
  return start + head;
}

// What is mapped for `bytes`: pages, and where half a huge page or more is left, a huge one.
std::size_t mapped_bytes(std::size_t bytes) {
  const std::size_t rest = bytes % kHugePageBytes;
  return round_up(bytes, rest >= kHugePageBytes / 2 ? kHugePageBytes : page_bytes());
}

}  // namespace

BufferView map_memory(std::size_t bytes, int fd, bool writable) {
  const std::size_t length = mapped_bytes(bytes);
  if (length < bytes) {  // wrapped around
    errno = ENOMEM;
    return {};
  }
  const bool huge = length >= kHugePageBytes;
  std::byte* const place = huge ? reserve_aligned(length) : nullptr;
  if (huge && place == nullptr) return {};
  const int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | (huge ? MAP_FIXED : 0);
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  std::byte* const data = as_bytes(::mmap(place, length, access, flags, fd, 0));
  if (!data) {
    const int reason = errno;
    if (place) ::munmap(place, length);
    errno = reason;
    return {};
  }
  if (huge) ::madvise(data, length, MADV_HUGEPAGE);  // only advice: a refusal does no harm
  return {data, bytes};
}

void unmap_memory(BufferView view) noexcept {
  if (view.data) ::munmap(view.data, mapped_bytes(view.bytes));
}

bool populate_memory(BufferView view) {
  const std::size_t page = page_bytes();
#ifdef MADV_POPULATE_WRITE
  if (::madvise(view.data, round_up(view.bytes, page), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  // Linux before 5.14: a write to every page does the same, but too little memory then raises a
  // signal.
  for (std::size_t at = 0; at < view.bytes; at += page) {
    volatile std::byte* const touched = view.data + at;
    *touched = *touched;
  }
  return true;
}

}  // namespace ddpbench
