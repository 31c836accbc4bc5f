// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the memory of a CPU device comes from: the heap for small buffers, own page mappings for
// large ones, memfd for what other ranks map.
#include "kernels/runtime/cpu_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/math.h"
#include "kernels/runtime/memory_mapping.h"
#include "kernels/runtime/memory_needs.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench {
namespace {

// One cache line, and the widest vector register.
constexpr std::size_t kAlignmentBytes = 64;
// Below this a mapping of its own would waste more than a tenth in its last page.
constexpr std::size_t kSmallBytes = 32 << 10;

[[noreturn]] void throw_out_of_memory(const CpuMemoryRequest& request, const MemoryCounter& counter,
                                      const char* reason) {
  throw DeviceError(fmt::format("{}: cannot allocate {} bytes for {}: {}; this device holds{}",
                                request.device, request.bytes, to_string(request.category), reason,
                                memory_table(counter.usage().live_bytes)));
}

class HeapAllocation final : public Allocation {
 public:
  explicit HeapAllocation(std::size_t bytes)
      : view_{static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignmentBytes})),
              bytes} {
    std::memset(view_.data, 0, bytes);
  }
  ~HeapAllocation() override { ::operator delete (view_.data, std::align_val_t{kAlignmentBytes}); }
  HeapAllocation(const HeapAllocation&) = delete;
  HeapAllocation& operator=(const HeapAllocation&) = delete;
  BufferView view() const noexcept override { return view_; }
  std::string export_handle() const override { return ""; }

 private:
  BufferView view_;
};

class MappedAllocation final : public Allocation {
 public:
  explicit MappedAllocation(BufferView view) : view_(view) {}
  ~MappedAllocation() override { unmap_memory(view_); }
  MappedAllocation(const MappedAllocation&) = delete;
  MappedAllocation& operator=(const MappedAllocation&) = delete;
  BufferView view() const noexcept override { return view_; }
  std::string export_handle() const override { return ""; }

 private:
  BufferView view_;
};

class SharedAllocation final : public Allocation {
 public:
  explicit SharedAllocation(SharedMemory memory) : memory_(std::move(memory)) {}
  BufferView view() const noexcept override { return memory_.view(); }
  std::string export_handle() const override { return memory_.handle(); }

 private:
  SharedMemory memory_;
};

// Adds the counting to an allocation.
class CountedAllocation final : public Allocation {
 public:
  CountedAllocation(std::unique_ptr<Allocation> memory, const CpuMemoryRequest& request,
                    std::shared_ptr<MemoryCounter> counter)
      : bytes_(request.bytes),
        counted_(std::move(counter), request.category, counted_bytes(request.bytes)),
        memory_(std::move(memory)) {}
  BufferView view() const noexcept override { return {memory_->view().data, bytes_}; }
  std::string export_handle() const override { return memory_->export_handle(); }

 private:
  std::size_t bytes_;
  CountedBytes counted_;
  std::unique_ptr<Allocation> memory_;
};

std::unique_ptr<Allocation> allocate_pages(const CpuMemoryRequest& request, std::size_t bytes,
                                           const MemoryCounter& counter) {
  std::unique_ptr<Allocation> pages;
  if (request.sharing == Sharing::mappable) {
    const std::string name =
        fmt::format("ddpbench-{}-{}", request.device, to_string(request.category));
    pages = std::make_unique<SharedAllocation>(SharedMemory::create(name, bytes));
  } else {
    const BufferView view = map_memory(bytes, -1);
    if (!view.data) throw_out_of_memory(request, counter, std::strerror(errno));
    pages = std::make_unique<MappedAllocation>(view);
  }
  if (!populate_memory(pages->view())) {
    throw_out_of_memory(request, counter, std::strerror(errno));
  }
  return pages;
}

// Asking for every page of more than there is would wake the out-of-memory killer instead of
// failing.
bool exceeds_this_host(std::size_t bytes) {
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  return bytes / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) >= pages;
}

}  // namespace

std::size_t counted_bytes(std::size_t bytes) noexcept { return round_up(bytes, kAlignmentBytes); }

std::unique_ptr<Allocation> allocate_cpu_memory(const CpuMemoryRequest& request,
                                                std::shared_ptr<MemoryCounter> counter) {
  if (exceeds_this_host(request.bytes)) {
    throw_out_of_memory(
        request, *counter,
        "this host has less memory; use a smaller batch, smaller buffers or fewer devices");
  }
  const std::size_t bytes = std::max(counted_bytes(request.bytes), kAlignmentBytes);
  std::unique_ptr<Allocation> memory;
  if (request.sharing == Sharing::process_private && bytes < kSmallBytes) {
    memory = std::make_unique<HeapAllocation>(bytes);
  } else {
    memory = allocate_pages(request, bytes, *counter);
  }
  return std::make_unique<CountedAllocation>(std::move(memory), request, std::move(counter));
}

}  // namespace ddpbench
