// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Replaces the global operator new. It has a file of its own: a compiler that saw its callers, too,
// would take malloc for the wrong partner of delete.
#include "tests/base/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace ddpbench::test {
namespace {

std::atomic<std::int64_t> allocations{0};

}  // namespace

std::int64_t allocation_count() { return allocations.load(); }

}  // namespace ddpbench::test

void* operator new(std::size_t bytes) {
  ddpbench::test::allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
