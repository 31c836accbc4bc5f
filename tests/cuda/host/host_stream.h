// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for CUDA, NCCL, cuDNN and cuBLASLt on the host: the part of each that the CUDA module
// calls, in plain loops. With it, and the kernels compiled for the host (launch.cuh), the whole
// module runs in tests. It shows nothing of the real libraries' behaviour. It is strict about what
// their documentation requires of a caller, and fills with NaN the memory that CUDA leaves
// undefined.
//
// A stream is a queue with a thread of its own. So work of the host or of another stream that comes
// too early goes wrong here, too, and ThreadSanitizer reports it. A graph runs its nodes one after
// the other. Each launch takes another order within their dependencies.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace ddpbench::test {

// Runs its work in order, on a thread that begins with the first work and ends after close().
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  void push(std::function<void()> work);
  void close();
  void synchronize();
  bool is_idle();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  bool serving_ = false, running_ = false, closed_ = false;
};

struct GraphNode {
  // Called when the graph is launched. Its result runs in the node's turn.
  std::function<std::function<void()>()> launch;
  std::vector<std::size_t> after;  // nodes
  int priority = 0;                // of the stream that captured it
};

// One sequence of captures: of the stream that began it and of those that joined it.
struct Capture {
  unsigned long long number = 0;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;
  std::vector<GraphNode> nodes;
  bool is_valid = true;
};

// Adds `work` to the capture of `stream`, or runs it in the stream's turn. On the default stream,
// for which streams here do not wait, it runs at once.
cudaError_t queue(cudaStream_t stream, std::function<void()> work);
// Adds a node to the stream's capture.
void capture(cudaStream_t stream, std::function<std::function<void()>()> launch);

// The error of a CUDA call by a thread that runs a host function.
cudaError_t refusal();
// The same for calls that could disturb a capture. They also fail while the thread captures, which
// makes that capture invalid (cudaStreamCaptureModeThreadLocal).
cudaError_t refusal_of_unsafe_call();

// Waits until no thread is inside NCCL to connect devices. Calls that free a device's resources
// wait so: they need what NCCL's thread holds.
void wait_for_nccl();

// Waits for all streams of the device.
void synchronize_device(int device);
int current_device();

// Keeps the mantissa's 10 upper bits, as tensor cores do.
float round_to_tf32(float value);

// Whether the host waits for all work that it queues, as if streams had no latency. Test hook.
bool& waits_for_streams();
// The compute capability of the stand-in's GPU: 90, or less to test refusals. Test hook.
int& compute_capability();
// The number of searches for algorithms since the program began. Test hook.
std::atomic<int>& algorithm_searches();

// The launches, library calls and copies of the last recording. Test hook.
std::atomic<std::size_t>& recorded_nodes();

// So many of the next searches time loading more than running: slow algorithms come first. Test
// hook.
std::atomic<int>& misleading_searches();

// Properties of the graph that the calling thread launched last. Test hook.
struct LaunchedGraph {
  std::vector<int>
      priorities;  // at which its nodes ran, a node's each, in the order of their capture
  bool was_uploaded = false;  // or launched before: the launch had nothing to prepare
};
LaunchedGraph& launched_graph();

}  // namespace ddpbench::test

struct CUstream_st {
  int device = 0;
  int priority = 0;
  std::shared_ptr<ddpbench::test::WorkQueue> queue = std::make_shared<ddpbench::test::WorkQueue>();
  std::shared_ptr<ddpbench::test::Capture> capture;  // null: none
  std::vector<std::size_t> tips;                     // the nodes that the next one follows
};
