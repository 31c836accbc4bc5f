// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for CUDA, NCCL, cuDNN and cuBLASLt on the host: as much of each as the CUDA module
// calls, in plain loops. With it, and the kernels compiled for the host (launch.cuh), the whole
// module runs in tests. It says nothing of what the real libraries do: it is strict about what
// their documentation asks of a caller, and fills memory with NaN that CUDA leaves undefined.
//
// A stream is a queue that a thread of its own works off, so what the host or another stream does
// too early goes wrong here as well, and ThreadSanitizer tells it. A graph runs its nodes one after
// the other, in an order that is another one each time as far as their dependencies allow.
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

// Runs what is pushed in order, on a thread that begins with the first and ends after close().
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
  // Called when the graph is launched; what it returns runs in the node's turn.
  std::function<std::function<void()>()> launch;
  std::vector<std::size_t> after;  // nodes
  int priority = 0;                // of the stream that captured it
};

// One sequence of captures, of the stream that began it and of those that joined it.
struct Capture {
  unsigned long long number = 0;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;
  std::vector<GraphNode> nodes;
  bool is_valid = true;
};

// Takes `work` into the capture of `stream`, or runs it in the stream's turn; at once on the
// default stream, for which streams here do not wait.
cudaError_t queue(cudaStream_t stream, std::function<void()> work);
// A node of the stream's capture.
void capture(cudaStream_t stream, std::function<std::function<void()>()> launch);

// Why the calling thread may not call CUDA now: it runs a host function.
cudaError_t refusal();
// The same for calls that could disturb a capture: nor while the thread captures, and then that
// capture is void. (cudaStreamCaptureModeThreadLocal)
cudaError_t refusal_of_unsafe_call();

// Waits until no thread is inside NCCL to connect devices, as calls do that give back what a device
// has: they wait for what NCCL's thread holds.
void wait_for_nccl();

// Waits for all streams of the device.
void synchronize_device(int device);
int current_device();

// The mantissa's 10 upper bits, as the tensor cores take floats.
float round_to_tf32(float value);

// Whether the host waits for everything that it queues, as if streams were as fast. Test hook.
bool& waits_for_streams();
// What the stand-in's GPU says it is: 90, or less to see what is refused. Test hook.
int& compute_capability();
// Searches for algorithms since the program began. Test hook.
std::atomic<int>& algorithm_searches();

// Launches, calls of libraries and copies in what was recorded last. Test hook.
std::size_t& recorded_nodes();

// What the graph was like that the calling thread launched last. Test hook.
struct LaunchedGraph {
  std::vector<int>
      priorities;  // at which its nodes ran, a node's each, in the order of their capture
  bool was_uploaded = false;  // or launched before: the launch had nothing to prepare
};
LaunchedGraph& launched_graph();

// How much longer a cuDNN convolution, a kernel of ours, and a product by what cuBLASLt's heuristic
// puts first, takes on the clock of the events than it does: so that a test decides which is the
// faster. Test hook.
struct PretendedCosts {
  double convolution_ms = 0, kernel_ms = 0, first_product_ms = 0;
};
PretendedCosts& pretended_costs();
// cuBLASLt's algorithms for a product. Test hook.
struct Products {
  int algorithms = 1;      // that its heuristic finds, or STAND_IN_PRODUCT_ALGORITHMS
  bool backwards = false;  // lists them in the other order
  bool refused = false;    // none can be run after all
};
Products& products();
// Whether cuDNN's convolutions do what cannot be recorded. Test hook.
bool& convolutions_refuse_recording();
// Moves the clock of the events.
void let_time_pass(double ms);

}  // namespace ddpbench::test

struct CUstream_st {
  int device = 0;
  int priority = 0;
  std::shared_ptr<ddpbench::test::WorkQueue> queue = std::make_shared<ddpbench::test::WorkQueue>();
  std::shared_ptr<ddpbench::test::Capture> capture;  // null: none
  std::vector<std::size_t> tips;                     // the nodes that the next one follows
};
