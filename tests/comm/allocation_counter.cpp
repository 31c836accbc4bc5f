// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See allocation_counter.h. A file of its own: seen together with its callers, the compiler would
// take malloc for the wrong partner of delete.
#include "tests/comm/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> counting = false;
std::atomic<int> allocations = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ddpbench::comm::testing {

void start_counting_allocations() {
  allocations = 0;
  counting = true;
}

int stop_counting_allocations() {
  counting = false;
  return allocations;
}

}  // namespace ddpbench::comm::testing
