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
#include <memory>
#include <vector>

namespace ddpbench::test {

class StreamThread;

}  // namespace ddpbench::test

// Work runs when it is queued, unless the stream records it, or has a thread that does it in turn.
struct CUstream_st {
  CUstream_st();
  ~CUstream_st();  // what is queued is done first
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  bool recording = false;
  int recordings = 0;  // begun
  std::vector<std::function<void()>> recorded;
  std::unique_ptr<ddpbench::test::StreamThread> thread;  // null: work runs at once
};

namespace ddpbench::test {

// Refuses what a host function calls (cudaLaunchHostFunc: it "must not make any CUDA API calls").
cudaError_t queue(cudaStream_t stream, std::function<void()> work);

// Waits for what is queued on any stream.
void drain_all_streams();

// Whether streams that are made from now on have threads of their own, so that what only the order
// between them keeps right can go wrong. Test hook.
bool& asynchronous_streams();
// Whether the calling thread runs a host function.
bool& in_host_function();

// The mantissa's 10 upper bits, as the tensor cores take floats.
float round_to_tf32(float value);

// What the stand-in's GPU says it is: 90, or less to see what is refused. Test hook.
int& compute_capability();
// Searches for algorithms since the program began. Test hook.
int& algorithm_searches();

}  // namespace ddpbench::test
