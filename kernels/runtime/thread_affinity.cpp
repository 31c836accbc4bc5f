// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Binding threads to processors.
#include "kernels/runtime/thread_affinity.h"

#include <sched.h>

#include <cerrno>

namespace ddpbench {

int pin_calling_thread(int processor) noexcept {
  if (processor < 0) return EINVAL;
  // A set of its own size: cpu_set_t ends at processor 1023.
  const int count = processor + 1;
  cpu_set_t* const set = CPU_ALLOC(count);
  if (!set) return ENOMEM;
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(processor, bytes, set);
  const int result = ::sched_setaffinity(0, bytes, set) == 0 ? 0 : errno;
  CPU_FREE(set);
  return result;
}

}  // namespace ddpbench
