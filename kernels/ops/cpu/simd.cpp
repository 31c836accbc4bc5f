// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Run-time choice of vector instructions.
#include "kernels/ops/cpu/simd.h"

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

}  // namespace ddpbench::ops::cpu
