// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <dnnl.hpp>

#include "base/error.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops {
namespace {

// ---- which of the processor's instructions oneDNN uses ----

// Some virtual machines have AMX's bits of CPUID leaf 7, by which oneDNN chooses, without leaf
// 0x1D, "Tile Information" (Intel SDM, volume 2A). Without it oneDNN (2.6.3, 3.7) makes an empty
// tile configuration, and its first use of a tile is an illegal instruction.
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

// Linux gives the tile registers of AMX to a process that asks (Documentation/arch/x86/xstate.rst).
// Returns whether this one has them now.
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

// Keeps oneDNN from instructions that do not work here (AMX in some virtual machines). To be called
// before any other use of oneDNN in the process; later calls do nothing. What the user has set
// (ONEDNN_MAX_CPU_ISA) stands.
void limit_instructions() {
  [[maybe_unused]] static const bool limited = [] {
    if (lacks_tile_shapes() && std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr &&
        std::getenv("DNNL_MAX_CPU_ISA") == nullptr)
      dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    return true;
  }();
}

// ---- the backend ----

// A micro-batch's maps may be twice the L2 cache, since an operation needs its first maps no more
// when it comes to the last. SimpleCNN's step of 256 samples on Zen 4 took 48.2, 46.7 and 48.8 ms
// with micro-batches of 8, 16 and 32, and 53.9 ms without.
constexpr std::size_t kMapsPerL2 = 2;

class OnednnBackend : public OpBackend {
 public:
  OnednnBackend(Device& device, DataType activations, bool deterministic) {
    limit_instructions();
    auto context = std::make_shared<onednn::Context>();
    context->activations = activations;
    context->deterministic = deterministic;
    context->threads = device.thread_count();
    context_ = std::move(context);
  }

  std::string name() const override { return "onednn"; }
  std::unique_ptr<Op> make_whole(const OpDesc& desc) override {
    return std::visit(
        [&](const auto& d) {
          if constexpr (requires { onednn::make_op(context_, d); }) {
            return onednn::make_op(context_, d);
          } else {
            return cpu::make_op(context_->team(), d);
          }
        },
        desc);
  }
  void loss(Stream&, const CrossEntropyDesc& desc, const LossArgs& args) override {
    cpu::softmax_cross_entropy(context_->threads, desc, args);
  }
  void update(Stream&, const OptimizerArgs& args) override { cpu::update(context_->team(), args); }
  void find_overflow(Stream&, const float* gradients, std::size_t count,
                     LossScale* scale) override {
    cpu::find_overflow(context_->team(), gradients, static_cast<std::int64_t>(count), scale);
  }
  void mean(Stream&, std::span<const float* const> inputs, float* out, std::size_t count) override {
    cpu::mean(context_->team(), inputs, out, count);
  }
  void encode(Stream&, const EncodeArgs& args) override { cpu::encode(context_->team(), args); }
  void decode(Stream&, const DecodeArgs& args) override { cpu::decode(context_->team(), args); }
  void orthonormalize(Stream&, const OrthonormalArgs& args) override { cpu::orthonormalize(args); }
  // The loader's own threads feed CPU devices, so this need not be fast.
  void gather(Stream&, const GatherArgs& args) override { reference::gather(args); }

  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    onednn::convert(*context_, from_layout, from, to_layout, to);
  }

  std::int64_t whole_hint(std::size_t bytes_per_sample) const override {
    if (bytes_per_sample == 0) return 0;
    // The caller counts maps in fp32.
    const std::size_t per_element = sizeof(float) / size_of(context_->activations);
    return static_cast<std::int64_t>(kMapsPerL2 * per_element * context_->l2_bytes /
                                     bytes_per_sample);
  }

 private:
  onednn::ContextPtr context_;
};

}  // namespace

std::unique_ptr<OpBackend> make_onednn_backend(Device& device, DataType activations,
                                               bool deterministic) {
  ensure(device.kind() == DeviceKind::cpu &&
             (activations == DataType::fp32 || activations == DataType::bf16),
         "the oneDNN backend computes in fp32 or bf16 on CPU devices, not in {} on {}",
         to_string(activations), device.name());
  if (activations == DataType::bf16) {
    if (const std::string reason = why_no_cpu_bf16(); !reason.empty())
      throw UnavailableError("CPU devices cannot compute in bf16 here: " + reason);
  }
  return std::make_unique<OnednnBackend>(device, activations, deterministic);
}

bool cpu_bf16_uses_amx() {
  limit_instructions();
  return uses(dnnl_cpu_isa_avx512_core_amx);
}

std::string why_no_cpu_bf16() {
  if (cpu_bf16_uses_amx()) {
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
std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* version = dnnl_version();
  return {{"onednn", fmt::format("{}.{}.{}", version->major, version->minor, version->patch)}};
}

}  // namespace ddpbench::ops
