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
  std::string module;                               // its path
  int device = 0;                                   // CUDA's number
  std::size_t l2_bytes = 0;                         // 0: the device's own figure
  std::vector<std::int64_t> batches = {256, 4096};  // for the library's operations
  std::int64_t launches = 50;                       // held by one recording
  std::int64_t rounds = 20;                         // replays that are timed
  std::int64_t gemm = 8192;                         // extent of the GEMM that shows the peak
  std::string cache_directory;                      // for the choice of algorithms; empty: not kept
};

struct Peaks {
  double copy_bytes_per_s = 0;  // bytes read and written by a copy within the device
  std::map<ops::CudaPrecision, double> gemm_flops_per_s;  // of one large GEMM
};

// The bytes and FLOPs of one call, as counted.
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

  // The bytes that one launch of a kernel touches, or of the copy that it is compared with: 8 times
  // the L2 cache. Both then find as little of the previous launch in the cache.
  double streaming_bytes() const { return 8.0 * static_cast<double>(l2_bytes_); }
  // The number of samples whose `bytes_of_one` together are that many.
  std::int64_t streaming_batch(double bytes_of_one) const;

  // Measured on first use.
  double copy_bytes_per_s();
  double gemm_flops_per_s(ops::CudaPrecision precision);

  // Times `launch`, which queues one call, as the median over the rounds of the options (the peaks
  // are medians, too), and sets the counters of `state`:
  //   bytes           counted (kernels/ops/traffic.h)
  //   bytes_per_s     those bytes over the time
  //   share_of_copy   share of the bandwidth that a copy reaches
  //   FLOP_per_s, share_of_bound   where `work` has FLOPs; the bound is the longer time: of the
  //                   bytes at the copy's bandwidth, or of the FLOPs at the rate of a large GEMM
  void time(benchmark::State& state, const Work& work, const std::function<void()>& launch);

  void note_failure() { ++failures_; }
  int failures() const { return failures_; }

 private:
  ops::CudaBackendOptions backend_options(ops::CudaPrecision precision,
                                          ops::ConvolutionKernels convolutions) const;
  // The number of launches in one recording, and of its replays that are timed.
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

// Registers one benchmark, which calls GpuBench::time. An exception in it becomes its error, and
// the other benchmarks go on.
void register_case(GpuBench& bench, const std::string& name,
                   const std::function<void(benchmark::State&)>& run);

}  // namespace ddpbench::micro
