// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Buffer owns memory of one device; BufferView refers to it. A view must not outlive its buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ddpbench {

// What a piece of device memory is for. Reports show live and peak bytes of each.
enum class MemoryCategory : std::uint8_t {
  weights,
  gradients,
  optimizer,
  state,  // what training changes and no gradient does: running statistics
  activations,
  workspace,
  communication,
  input
};
inline constexpr std::size_t kMemoryCategoryCount = 8;
// "weights", "gradients", ...: the keys of by_category_bytes.
constexpr std::string_view to_string(MemoryCategory category) {
  constexpr std::array<std::string_view, kMemoryCategoryCount> kNames = {
      "weights",     "gradients", "optimizer",     "state",
      "activations", "workspace", "communication", "input"};
  return kNames[static_cast<std::size_t>(category)];
}

// Whether other ranks of this host may map the memory: on CPU devices a memfd. A GPU's memory is
// never mapped.
enum class Sharing : std::uint8_t { process_private, mappable };

// Live bytes and the most that were ever live, by category. Plain data.
struct MemoryUsage {
  std::array<std::size_t, kMemoryCategoryCount> live_bytes{};
  std::array<std::size_t, kMemoryCategoryCount> peak_bytes{};
  std::size_t total_live_bytes = 0;
  std::size_t total_peak_bytes = 0;  // peak of the sum, not the sum of peaks
};

// The memory of a whole device, over all processes that use it. Plain data.
struct DriverMemory {
  std::size_t used_bytes = 0;  // what libraries and the driver took included
  std::size_t free_bytes = 0;
};

// Non-owning view of device memory.
struct BufferView {
  std::byte* data = nullptr;
  std::size_t bytes = 0;

  BufferView slice(std::size_t offset, std::size_t length) const { return {data + offset, length}; }
  // Whether all of `inner`, which may be any memory, lies in this view.
  bool contains(BufferView inner) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const auto at = reinterpret_cast<std::uintptr_t>(inner.data);
    return at >= begin && at - begin <= bytes && inner.bytes <= bytes - (at - begin);
  }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data), bytes / sizeof(T)};
  }
};

// Owner of device memory, 64-byte aligned, zeroed. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  // The memory is freed with its last `owner`. Another process of this host can map it by `handle`
  // while this process lives (on CPU devices "memfd:<pid>:<fd>:<bytes>"); empty: it is
  // process_private.
  Buffer(BufferView view, std::shared_ptr<void> owner, std::string handle = {})
      : view_(view), owner_(std::move(owner)), handle_(std::move(handle)) {}
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;

  BufferView view() const noexcept { return owner_ ? view_ : BufferView{}; }
  std::byte* data() const noexcept { return view().data; }
  std::size_t bytes() const noexcept { return view().bytes; }
  std::string export_handle() const { return handle_; }
  explicit operator bool() const noexcept { return owner_ != nullptr; }

 private:
  BufferView view_;
  std::shared_ptr<void> owner_;
  std::string handle_;
};

}  // namespace ddpbench
