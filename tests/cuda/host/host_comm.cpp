// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What moves data between the stand-in's "GPUs": the CPU ring, whose calls run when the stream that
// they follow does, also when that is a replay. With it whole runs on CUDA devices are tested on
// the host.
#include <cstdlib>
#include <utility>
#include <vector>

#include "kernels/runtime/cuda/cuda_stream.h"
#include "kernels/runtime/error.h"
#include "parallel/comm/cuda_comm.h"
#include "parallel/comm/operation_communicator.h"
#include "parallel/comm/ring.h"
#include "parallel/comm/work_state.h"
#include "tests/cuda/host/host_stream.h"

namespace ddpbench::comm {
namespace {

// Of the last time that the call ran.
class HostWork final : public WorkState {
 public:
  void wait(Stream&) override {}  // it ran when it was queued, or runs in its place of a replay
  void synchronize(Deadline) override {}
  void synchronize() override {}
  bool test() override { return true; }
  WorkTimes times() const override { return times_; }
  const void* source() const override { return this; }
  std::uint32_t changes() const override { return 0; }
  void await_change(std::uint32_t, Deadline) override {}

  void finish(const Work& work) {
    work.synchronize();
    times_ = work.times();
  }

  static Work start(Communicator& ring, const Operation& o) {
    const CallOptions options{.after = nullptr, .start = Start::deferred};
    switch (o.kind) {
      case OperationKind::all_reduce:
        return ring.all_reduce(o.in, o.op, options);
      case OperationKind::reduce:
        return ring.reduce(o.in, o.op, o.root, options);
      case OperationKind::broadcast:
        return ring.broadcast(o.in, o.root, options);
      case OperationKind::all_gather:
        return ring.all_gather(o.in, o.out, options);
      case OperationKind::reduce_scatter:
        return ring.reduce_scatter(o.in, o.out, o.op, options);
      case OperationKind::scatter:
        return ring.scatter(o.in, o.out, o.root, options);
      case OperationKind::gather:
        return ring.gather(o.in, o.out, o.root, options);
      case OperationKind::send:
        return ring.send(o.in, o.root, options);
      case OperationKind::recv:
        return ring.recv(o.out, o.root, options);
      case OperationKind::barrier:
        break;
    }
    return ring.barrier(options);
  }

 private:
  WorkTimes times_;
};

// A call that was issued and not queued yet.
struct HostCall {
  std::shared_ptr<HostWork> work;
  Operation operation;
};

class HostCommunicator final : public OperationCommunicator {
 public:
  HostCommunicator(std::unique_ptr<Communicator> ring, std::string backend)
      : OperationCommunicator(ring->rank(), ring->size()),
        ring_(std::move(ring)),
        backend_(std::move(backend)) {}

  std::string backend() const override { return backend_; }
  double timeout_s() const noexcept override { return ring_->timeout_s(); }
  void group_start() override { ++group_depth_; }
  void group_end() override {
    if (--group_depth_ > 0 || group_.empty()) return;
    queue(group_stream_, std::exchange(group_, {}));
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    auto part = ring_->split(color, key);
    if (!part) return nullptr;
    return std::make_unique<HostCommunicator>(std::move(part), backend_);
  }
  // Unregistered memory works, too.
  void register_buffer(const Buffer&) override {}
  void deregister_buffer(const Buffer&) override {}
  void abort(const std::string& reason) noexcept override { ring_->abort(reason); }

 protected:
  Work issue(const Operation& operation, const CallOptions& options) override {
    const cudaStream_t stream =
        options.after == nullptr ? nullptr : cuda::native_stream(*options.after);
    const HostCall call{work_of(stream), operation};
    if (group_depth_ == 0) {
      queue(stream, {call});
    } else {
      // Its calls start together, which ranks that all send first need.
      ensure(group_.empty() || stream == group_stream_, "a group of calls after several streams");
      group_stream_ = stream;
      group_.push_back(call);
    }
    return Work(call.work);
  }

 private:
  void queue(cudaStream_t stream, std::vector<HostCall> calls) {
    static_cast<void>(test::queue(stream, [this, calls = std::move(calls)] {
      std::vector<Work> works;
      for (const HostCall& call : calls) works.push_back(HostWork::start(*ring_, call.operation));
      for (std::size_t i = 0; i < calls.size(); ++i) {
        calls[i].work->finish(works[i]);
        spoil(calls[i].operation);
      }
    }));
  }
  // STAND_IN_WRONG_RANK gets the first element of all-reduces wrong.
  void spoil(const Operation& operation) const {
    const char* const wrong = std::getenv("STAND_IN_WRONG_RANK");
    if (wrong == nullptr || operation.kind != OperationKind::all_reduce) return;
    if (std::atoi(wrong) == rank()) *static_cast<unsigned char*>(operation.in.data) ^= 1;
  }

  // Calls at the same place of several recordings share a work: it has the times of the last replay
  // of any of them.
  std::shared_ptr<HostWork> work_of(cudaStream_t stream) {
    if (stream == nullptr || !stream->recording) return std::make_shared<HostWork>();
    if (stream->recordings != recording_) place_ = 0;
    recording_ = stream->recordings;
    if (place_ == recorded_.size()) recorded_.push_back(std::make_shared<HostWork>());
    return recorded_[place_++];
  }

  std::unique_ptr<Communicator> ring_;
  std::string backend_;
  int group_depth_ = 0;
  cudaStream_t group_stream_ = nullptr;
  std::vector<HostCall> group_;
  int recording_ = 0;
  std::size_t place_ = 0;
  std::vector<std::shared_ptr<HostWork>> recorded_;  // [place]
};

RingOptions ring_options(const CudaCommOptions& options) {
  RingOptions ring;
  ring.timeout_s = options.timeout_s;
  ring.name = options.name;
  ring.progress = options.progress;
  return ring;
}

std::unique_ptr<Communicator> make(Store& store, int rank, int size, const CudaCommOptions& options,
                                   const char* backend) {
  return std::make_unique<HostCommunicator>(
      comm::make_ring(store, rank, size, ring_options(options)), backend);
}

std::vector<std::unique_ptr<Communicator>> make_threads(const std::vector<Device*>& devices,
                                                        const CudaCommOptions& options,
                                                        const char* backend) {
  std::vector<std::unique_ptr<Communicator>> all;
  for (auto& ring : make_thread_ring(static_cast<int>(devices.size()), ring_options(options))) {
    all.push_back(std::make_unique<HostCommunicator>(std::move(ring), backend));
  }
  return all;
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(Store& store, int rank, int size, Device&,
                                        const CudaCommOptions& options) {
  return make(store, rank, size, options, "nccl");
}
std::unique_ptr<Communicator> make_cuda_ring(Store& store, int rank, int size, Device&,
                                             const CudaCommOptions& options) {
  return make(store, rank, size, options, "ring");
}
std::vector<std::unique_ptr<Communicator>> make_thread_nccl(const std::vector<Device*>& devices,
                                                            const CudaCommOptions& options) {
  return make_threads(devices, options, "nccl");
}
std::vector<std::unique_ptr<Communicator>> make_thread_cuda_ring(
    const std::vector<Device*>& devices, const CudaCommOptions& options) {
  return make_threads(devices, options, "ring");
}
std::map<std::string, std::string> cuda_comm_versions() { return {{"nccl", "stand-in"}}; }

}  // namespace ddpbench::comm
