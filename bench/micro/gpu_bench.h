// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of a GPU's operations share: the device behind the CUDA module, its measured
// peaks, and the timing by events around recorded launches.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/op_run.h"
#include "kernels/ops/cuda_backend.h"
#include "parallel/cuda_module.h"

namespace ddpbench::micro {

struct GpuBenchOptions {
  std::string module;                               // path
  int device = 0;                                   // CUDA's number
  std::size_t l2_bytes = 0;                         // 0: as the device says
  std::vector<std::int64_t> batches = {256, 4096};  // of the library's operations
  std::int64_t launches = 50;                       // that one recording holds
  std::int64_t rounds = 20;                         // replays that are timed
  std::int64_t product = 8192;                      // extent of the product that shows the peak
  std::string cache_directory;                      // of the choice of algorithms; empty: not kept
};

struct Peaks {
  double copy_bytes_per_s = 0;  // read and written, of a copy within the device
  std::map<ops::CudaPrecision, double> gemm_flops_per_s;  // of one large matrix product
};

// What one call costs by counting.
struct Work {
  double bytes = 0;
  double flops = 0;  // 0: bound by memory alone
  ops::CudaPrecision precision = ops::CudaPrecision::tf32;
};

class GpuBench {
 public:
  // Throws UnavailableError when there is no module or no such GPU.
  explicit GpuBench(const GpuBenchOptions& options);

  const GpuBenchOptions& options() const { return options_; }
  const CudaDeviceInfo& info() const { return info_; }
  ops::Machine machine() { return {*device_, *stream_}; }
  ops::OpBackend& backend(ops::CudaPrecision precision,
                          ops::ConvolutionKernels convolutions = ops::ConvolutionKernels::measured);
  std::unique_ptr<ops::Op> bias_pass(ops::CudaPrecision precision, const ops::BiasPassDesc& desc);

  // What one launch touches, of a kernel and of the copy that it is compared with, so that both
  // find as little of the launch before in the cache: 8 times the L2 cache.
  double streaming_bytes() const { return 8.0 * static_cast<double>(l2_bytes_); }
  // Samples whose `bytes_of_one` together are that many.
  std::int64_t streaming_batch(double bytes_of_one) const;

  // Measured on first use.
  double copy_bytes_per_s();
  double gemm_flops_per_s(ops::CudaPrecision precision);

  // Times `launch`, which queues one call, as the median over the rounds of the options (the peaks,
  // too, are medians), and sets the counters of `state`:
  //   bytes           counted (kernels/ops/traffic.h)
  //   bytes_per_s     those over the time
  //   share_of_copy   of the bandwidth that a copy reaches
  //   FLOP_per_s, share_of_bound   where `work` has FLOPs; the bound is the longer one of the bytes
  //                   at the copy's bandwidth and the FLOPs at the rate of a large product
  void time(benchmark::State& state, const Work& work, const std::function<void()>& launch);

  void note_failure() { ++failures_; }
  int failures() const { return failures_; }

 private:
  ops::CudaBackendOptions backend_options(ops::CudaPrecision precision,
                                          ops::ConvolutionKernels convolutions) const;
  // The launches that one recording holds, and the replays of it that are timed.
  struct Repetitions {
    std::int64_t launches, rounds;
  };
  Repetitions usual() const { return {options_.launches, options_.rounds}; }
  double seconds_of(const std::function<void()>& launch, const Repetitions& repetitions);
  double replay_s(Recording& recording);

  GpuBenchOptions options_;
  const CudaModule& module_;
  CudaDeviceInfo info_;
  std::size_t l2_bytes_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
  using Key = std::pair<ops::CudaPrecision, ops::ConvolutionKernels>;
  std::map<Key, std::unique_ptr<ops::OpBackend>> backends_;
  Peaks peaks_;
  int failures_ = 0;
};

std::string name_of(ops::CudaPrecision precision);

// Register the benchmarks, which use `bench`.
void register_op_cases(GpuBench& bench);    // operations of networks
void register_flat_cases(GpuBench& bench);  // what stands around a network, and the copy

// Registers one, which calls GpuBench::time. What it throws becomes its error, and the others go
// on.
void register_case(GpuBench& bench, const std::string& name,
                   const std::function<void(benchmark::State&)>& run);

}  // namespace ddpbench::micro
