// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda/cuda_clock.h"

#include <chrono>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/current_device.h"

namespace ddpbench::cuda {
namespace {

// A float of milliseconds resolves a quarter of a microsecond up to 4.2 seconds, and less beyond.
constexpr double kBaseLifetime_s = 4;
// The shortest of several readings is the one that was not disturbed.
constexpr int kCalibrationLooks = 8;

double elapsed_s(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace

CudaClock::CudaClock(int ordinal) : ordinal_(ordinal) {
  const CurrentDevice current(ordinal_);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreate(&base_), "cudaEventCreate");
  check(cudaEventCreate(&next_), "cudaEventCreate");
  calibrate();
}

CudaClock::~CudaClock() {
  static_cast<void>(cudaEventDestroy(base_));
  static_cast<void>(cudaEventDestroy(next_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaClock::calibrate() {
  const CurrentDevice current(ordinal_);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  double shortest_s = std::numeric_limits<double>::infinity();
  for (int look = 0; look < kCalibrationLooks; ++look) {
    const double before_s = steady_s();
    check(cudaEventRecord(next_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(next_), "cudaEventSynchronize");
    const double after_s = steady_s();
    if (after_s - before_s >= shortest_s) continue;
    shortest_s = after_s - before_s;
    base_s_ = before_s + shortest_s / 2;
    std::swap(base_, next_);
  }
}

void CudaClock::move_base() {
  check(cudaEventRecord(next_, stream_), "cudaEventRecord");
  check(cudaEventSynchronize(next_), "cudaEventSynchronize");
  base_s_ += elapsed_s(base_, next_);
  std::swap(base_, next_);
}

double CudaClock::time_s(cudaEvent_t event) {
  const CurrentDevice current(ordinal_);
  // An event from before the base lies at a negative distance from it.
  if (steady_s() - base_s_ > kBaseLifetime_s) move_base();
  return base_s_ + elapsed_s(base_, event);
}

}  // namespace ddpbench::cuda
