// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the processor says of itself at run time.
#include "kernels/ops/cpu/simd.h"

#include <unistd.h>

namespace ddpbench::ops::cpu {

std::string_view to_string(SimdLevel level) {
  switch (level) {
    case SimdLevel::avx512:
      return "avx512";
    case SimdLevel::avx2:
      return "avx2";
    case SimdLevel::portable:
      return "portable";
  }
  return "unknown";
}

SimdLevel simd_level() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return SimdLevel::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SimdLevel::avx2;
  return SimdLevel::portable;
}

// From cpuid, through glibc. (hwloc would read much else and take 20 ms.)
std::size_t l2_bytes_per_core() {
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace ddpbench::ops::cpu
