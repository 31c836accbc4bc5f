// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's captures and graphs.
#include <algorithm>
#include <atomic>
#include <random>

#include "tests/cuda/host/host_stream.h"

using ddpbench::test::Capture;
using ddpbench::test::GraphNode;

struct CUgraph_st {
  std::vector<GraphNode> nodes;
};
struct CUgraphExec_st {
  std::vector<GraphNode> nodes;
  std::mt19937 random;
  bool has_priorities = false;  // its nodes keep theirs; else they have the launching stream's
  bool is_uploaded = false;
};

namespace {

std::atomic<unsigned long long> captures = 0;
// The captures that the thread has begun and not ended.
thread_local std::vector<std::shared_ptr<Capture>> captures_of_thread;

// The end of the capture must follow all work that was captured into it.
bool all_joined(const Capture& capture) {
  std::vector<bool> joined(capture.nodes.size());
  std::vector<std::size_t> open = capture.origin->tips;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return std::all_of(joined.begin(), joined.end(), [](bool yes) { return yes; });
}

// The nodes in an order that their dependencies allow.
std::vector<std::size_t> any_order(const std::vector<GraphNode>& nodes, std::mt19937& random) {
  std::vector<std::size_t> waits(nodes.size()), free, order;
  std::vector<std::vector<std::size_t>> followers(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    waits[node] = nodes[node].after.size();
    for (const std::size_t before : nodes[node].after) followers[before].push_back(node);
    if (waits[node] == 0) free.push_back(node);
  }
  while (!free.empty()) {
    std::swap(free[random() % free.size()], free.back());
    order.push_back(free.back());
    free.pop_back();
    for (const std::size_t next : followers[order.back()]) {
      if (--waits[next] == 0) free.push_back(next);
    }
  }
  return order;
}

}  // namespace

namespace ddpbench::test {

void capture(cudaStream_t stream, std::function<std::function<void()>()> launch) {
  stream->capture->nodes.push_back({std::move(launch), stream->tips, stream->priority});
  stream->tips = {stream->capture->nodes.size() - 1};
}

LaunchedGraph& launched_graph() {
  static thread_local LaunchedGraph graph;
  return graph;
}

std::atomic<std::size_t>& recorded_nodes() {
  static std::atomic<std::size_t> nodes = 0;
  return nodes;
}

cudaError_t refusal_of_unsafe_call() {
  for (const auto& capture : captures_of_thread) capture->is_valid = false;
  return captures_of_thread.empty() ? refusal() : cudaErrorStreamCaptureUnsupported;
}

}  // namespace ddpbench::test

extern "C" {

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = !stream->capture            ? cudaStreamCaptureStatusNone
            : stream->capture->is_valid ? cudaStreamCaptureStatusActive
                                        : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*)
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* number, cudaGraph_t*,
                                        const cudaGraphNode_t**, size_t*)
#endif
{
  if (stream->capture && number != nullptr) *number = stream->capture->number;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream->capture) return cudaErrorIllegalState;
  if (mode != cudaStreamCaptureModeThreadLocal) return cudaErrorNotSupported;
  stream->capture = std::make_shared<Capture>();
  stream->capture->number = ++captures;
  stream->capture->origin = stream;
  stream->capture->streams = {stream};
  captures_of_thread.push_back(stream->capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (std::erase(captures_of_thread, capture) == 0) return cudaErrorStreamCaptureWrongThread;
  const bool joined = all_joined(*capture);
  for (CUstream_st* const member : capture->streams) {
    member->capture.reset();
    member->tips.clear();
  }
  if (!capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  ddpbench::test::recorded_nodes() = capture->nodes.size();
  *graph = new CUgraph_st{std::move(capture->nodes)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  if ((flags & ~cudaGraphInstantiateFlagUseNodePriority) != 0) return cudaErrorNotSupported;
  *executable = new CUgraphExec_st{
      .nodes = graph->nodes, .random = std::mt19937(captures), .has_priorities = flags != 0};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  if (const cudaError_t status = ddpbench::test::refusal_of_unsafe_call()) return status;
  if (stream->capture) return cudaErrorStreamCaptureUnsupported;
  return executable->is_uploaded = true, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (const cudaError_t status = ddpbench::test::refusal()) return status;
  if (stream->capture) return cudaErrorNotSupported;
  std::vector<std::function<void()>> launched;
  ddpbench::test::LaunchedGraph graph{.was_uploaded = executable->is_uploaded};
  for (const GraphNode& node : executable->nodes) {
    launched.push_back(node.launch());
    graph.priorities.push_back(executable->has_priorities ? node.priority : stream->priority);
  }
  executable->is_uploaded = true;
  ddpbench::test::launched_graph() = std::move(graph);
  return ddpbench::test::queue(stream, [launched = std::move(launched),
                                        order = any_order(executable->nodes, executable->random)] {
    for (const std::size_t node : order) launched[node]();
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return delete executable, cudaSuccess;
}

}  // extern "C"
