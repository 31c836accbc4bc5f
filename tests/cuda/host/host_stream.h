// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for CUDA, cuDNN and cuBLASLt on the host: as much of each as the CUDA backend calls,
// in plain loops. With it, and the kernels compiled for the host (launch.cuh), the whole backend
// runs in unit tests. It says nothing of what the real libraries do: it is strict about what their
// documentation asks of a caller, and fills memory with NaN that CUDA leaves undefined.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

// Work runs when it is queued, unless the stream records it.
struct CUstream_st {
  bool recording = false;
  int recordings = 0;  // begun
  std::vector<std::function<void()>> recorded;
};

namespace ddpbench::test {

inline cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  if (stream != nullptr && stream != cudaStreamLegacy && stream->recording) {
    stream->recorded.push_back(std::move(work));
  } else {
    work();
  }
  return cudaSuccess;
}

// The mantissa's 10 upper bits, as the tensor cores take floats.
float round_to_tf32(float value);

// What the stand-in's GPU says it is: 90, or less to see what is refused. Test hook.
int& compute_capability();
// Searches for algorithms since the program began. Test hook.
int& algorithm_searches();

// Launches, calls of libraries and copies in what was recorded last. Test hook.
std::size_t& recorded_nodes();

// How much longer a cuDNN convolution, and a kernel of ours, takes on the clock of the events than
// it does: so that a test decides which is the faster. Test hook.
struct PretendedCosts {
  double convolution_ms = 0, kernel_ms = 0;
};
PretendedCosts& pretended_costs();
// Moves the clock of the events.
void let_time_pass(double ms);

}  // namespace ddpbench::test
