// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the processor says about itself.
#include "kernels/runtime/cpu_info.h"

#include <fstream>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ddpbench {

std::string cpu_model_name() {
  // The first processor's entry is enough, and reading all of a large host takes milliseconds.
  constexpr int kLinesOfOneEntry = 32;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  for (int i = 0; i < kLinesOfOneEntry && std::getline(file, line); ++i) {
    if (!line.starts_with("model name")) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown";
}

#if defined(__x86_64__)
namespace {

// AMX has no name in __builtin_cpu_supports of GCC 12. Leaf 7 of CPUID, register EDX: Intel SDM,
// volume 2A, CPUID.
void add_amx(std::vector<std::string>& features) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return;
  if (edx & (1U << 24)) features.emplace_back("amx_tile");
  if (edx & (1U << 22)) features.emplace_back("amx_bf16");
  if (edx & (1U << 25)) features.emplace_back("amx_int8");
}

}  // namespace

std::vector<std::string> cpu_features() {
  std::vector<std::string> features;
  const auto add = [&](bool there, const char* name) {
    if (there) features.emplace_back(name);
  };
  add(__builtin_cpu_supports("sse4.2"), "sse4_2");
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512dq"), "avx512dq");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  add(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
  add_amx(features);
  return features;
}
#else
std::vector<std::string> cpu_features() { return {}; }
#endif

}  // namespace ddpbench
