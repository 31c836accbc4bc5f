// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/onednn/instructions.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <dnnl.hpp>

namespace ddpbench::ops::onednn {
namespace {

// AMX needs the processor's word on how its tiles are shaped: CPUID leaf 0x1D, "Tile Information"
// (Intel SDM, volume 2A). Some virtual machines have AMX's bits of leaf 7, by which oneDNN chooses,
// without that leaf. The first use of a tile by oneDNN (2.6.3 and 3.7 were seen to) is then an
// illegal instruction: without the leaf it makes an empty tile configuration.
bool lacks_tile_shapes() {
#if defined(__x86_64__)
  constexpr unsigned kFeatures = 7, kTiles = 0x1D, kAmxTile = 1U << 24;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) || !(edx & kAmxTile)) return false;
  return !__get_cpuid_count(kTiles, 0, &eax, &ebx, &ecx, &edx) || eax == 0;
#else
  return false;
#endif
}

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
    if (lacks_tile_shapes() && !user_has_chosen())
      dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    return true;
  }();
  static_cast<void>(limited);
}

bool uses_amx() {
  limit_instructions();
  return uses(dnnl_cpu_isa_avx512_core_amx);
}

std::string why_no_bf16() {
  if (uses_amx()) {
    if (lacks_tile_shapes())
      return "this virtual machine hides how the tiles of its AMX are shaped; set "
             "ONEDNN_MAX_CPU_ISA to AVX512_CORE_BF16";
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
