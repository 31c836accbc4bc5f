// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Allocator for objects of one type that come and go. It keeps freed memory for the next object, so
// that issuing operations allocates nothing after the first few. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ddpbench::comm {

class BlockPool {
 public:
  BlockPool() = default;
  ~BlockPool() {
    for (void* block : free_) ::operator delete(block);
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // REQUIRES: `bytes` is the same in all calls.
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return ::operator new(bytes);
    void* const block = free_.back();
    free_.pop_back();
    return block;
  }
  void give_back(void* block) {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> free_;
};

// For std::allocate_shared: one allocation holds the object and its count. Keeps the pool alive.
template <typename T>
class PoolAllocator {
 public:
  using value_type = T;
  explicit PoolAllocator(std::shared_ptr<BlockPool> pool) : pool_(std::move(pool)) {}
  template <typename U>
  PoolAllocator(const PoolAllocator<U>& other) : pool_(other.pool()) {}  // NOLINT: by contract

  T* allocate(std::size_t count) { return static_cast<T*>(pool_->take(count * sizeof(T))); }
  void deallocate(T* block, std::size_t) { pool_->give_back(block); }
  const std::shared_ptr<BlockPool>& pool() const { return pool_; }
  template <typename U>
  bool operator==(const PoolAllocator<U>& other) const {
    return pool_ == other.pool();
  }

 private:
  std::shared_ptr<BlockPool> pool_;
};

}  // namespace ddpbench::comm
