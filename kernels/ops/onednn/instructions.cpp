// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/onednn/instructions.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <dnnl.hpp>

namespace ddpbench::ops::onednn {
namespace {

// oneDNN 2.6.3 runs its kernels for AMX without loading a tile configuration: their first
// instruction is an illegal one (seen with convolutions and inner products in bf16 on a Xeon of
// model 207, without this project's code too). It computes in bf16 with avx512_bf16 instead.
constexpr bool kFailsWithAmx = DNNL_VERSION_MAJOR < 3;

bool user_has_chosen() {
  return std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr || std::getenv("DNNL_MAX_CPU_ISA") != nullptr;
}

// Linux gives the tile registers of AMX to a process that asks for them; to any other their first
// use is an illegal instruction (Documentation/arch/x86/xstate.rst). Returns whether this one has
// them now.
bool ask_for_tiles() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr int kRequestComponent = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  constexpr int kTileData = 18;              // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestComponent, kTileData) == 0;
#else
  return false;
#endif
}

// The bits of an instruction set include those of the sets that it extends (dnnl_types.h), so AMX
// has those of avx512_bf16.
bool uses(dnnl_cpu_isa_t wanted) {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

}  // namespace

void limit_instructions() {
  static const bool limited = [] {
    if (kFailsWithAmx && !user_has_chosen()) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    return true;
  }();
  static_cast<void>(limited);
}

std::string why_no_bf16() {
  limit_instructions();
  if (uses(dnnl_cpu_isa_avx512_core_amx)) {
    if (kFailsWithAmx)
      return "oneDNN 2 fails with the processor's AMX; set ONEDNN_MAX_CPU_ISA to AVX512_CORE_BF16";
    if (!ask_for_tiles())
      return "the system does not let this process use the processor's AMX; "
             "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 does without it";
  }
  if (uses(dnnl_cpu_isa_avx512_core_bf16)) return "";
  if (__builtin_cpu_supports("avx512bf16"))
    return "oneDNN does not use the processor's avx512_bf16 (ONEDNN_MAX_CPU_ISA)";
  return "the processor has neither avx512_bf16 nor AMX";
}

}  // namespace ddpbench::ops::onednn
