// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/ipc/ipc_communicator.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/math.h"
#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/current_device.h"

namespace ddpbench::comm {

namespace {

// Bytes of a round on a lane: enough to hide its three exchanges. Threads read each other's memory
// where it is: there a round needs no staging memory, and its exchanges take host time.
constexpr std::size_t kLaneStageBytes = 16 * kMiB;
constexpr std::size_t kThreadRoundBytes = 64 * kMiB;
constexpr std::size_t kMessageStageBytes = 4 * kMiB;
// How long the end of a communicator waits for work in flight, and for peers that still map its
// memory.
constexpr double kPatience_s = 2;

IpcShape shape_of(int rank, int size, bool threads, AllReduceAlgorithm wanted) {
  const bool ring = wanted == AllReduceAlgorithm::ring;
  return {.rank = rank,
          .size = size,
          .round_bytes = threads ? kThreadRoundBytes : kLaneStageBytes,
          .message_stage_bytes = kMessageStageBytes,
          .all_reduce = ring ? AllReduceAlgorithm::ring : AllReduceAlgorithm::direct};
}

std::size_t stage_bytes(int size) {
  return kIpcLanes * kLaneStageBytes + static_cast<std::size_t>(size) * kMessageStageBytes;
}

}  // namespace

IpcCommunicator::IpcCommunicator(Device& device, int rank, const std::shared_ptr<PeerBoard>& board,
                                 const CudaCommOptions& options, IpcMeeting meeting)
    : CudaCommunicator(device, rank, board->size(), board, options),
      meeting_(std::move(meeting)),
      memory_(device, rank, size(), between_threads()),
      plan_(shape_of(rank, size(), between_threads(), options.all_reduce)) {
  const cuda::CurrentDevice current(ordinal());
  side_ = make_priority_stream();
  cuda::check(cudaEventCreateWithFlags(&lane_event_, cudaEventDisableTiming), "cudaEventCreate");
  if (between_threads()) {
    signals_ = make_event_signals(meeting_.control, meeting_.events, rank, timeout_s(),
                                  [this](int peer, const Operation& operation, Deadline deadline) {
                                    look_while_waiting(peer, operation, deadline);
                                  });
  } else {
    signals_ = make_flag_signals(meeting_.control, rank);
    if (size() > 1) {
      stage_ =
          device.allocate(stage_bytes(size()), MemoryCategory::communication, Sharing::mappable);
      map_everywhere(stage_, joining_wait(options));  // the first: number 0 everywhere
    }
  }
  start_watching();
}

IpcCommunicator::~IpcCommunicator() {
  const cuda::CurrentDevice current(ordinal());
  drain();
  memory_.clear();
  if (!between_threads() && size() > 1 && !monitor().failed()) {
    try {
      // CUDA requires memory to be unmapped everywhere before it is freed.
      board()->exchange(rank(), "", kPatience_s);
    } catch (const Error&) {
      // A peer is late or gone; what it maps is its own affair then.
    }
  }
  stop_watching();
  static_cast<void>(cudaEventDestroy(lane_event_));
  static_cast<void>(cudaStreamDestroy(side_));
}

// No memory may be freed here while device work uses it.
void IpcCommunicator::drain() noexcept {
  const Deadline patience = deadline_after(kPatience_s);
  const auto busy = [this] {
    return cudaStreamQuery(stream()) == cudaErrorNotReady ||
           cudaStreamQuery(side_) == cudaErrorNotReady;
  };
  while (busy() && !monitor().failed() && !has_passed(patience)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (busy() && !monitor().failed()) {
    monitor().fail(std::make_exception_ptr(CommError(
        monitor().prefix(nullptr) + "the communicator was destroyed while operations ran")));
  }
  const Deadline end = deadline_after(kPatience_s);
  while (busy() && !has_passed(end)) {
    abandon();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

bool IpcCommunicator::abandon() noexcept {
  std::atomic_ref(meeting_.control->aborted()).store(1);
  signals_->release();
  // A recording may be replayed at any time, and would wait again.
  return between_threads();
}

void IpcCommunicator::look_while_waiting(int peer, const Operation& operation, Deadline deadline) {
  monitor().throw_if_failed();
  const std::string prefix = monitor().prefix(&operation);
  if (board()->aborted()) {
    throw CommError(prefix + board()->abort_reason(), operation_name(&operation));
  }
  if (has_passed(deadline)) {
    throw CommTimeout(fmt::format("{}deadline passed while waiting for rank {}, which did not come",
                                  prefix, peer),
                      operation_name(&operation));
  }
}

std::size_t IpcCommunicator::stage_offset(const IpcStep& step) const {
  const bool is_message = first_call_->operation.is_message();
  return is_message ? kIpcLanes * kLaneStageBytes +
                          static_cast<std::size_t>(step.peer) * kMessageStageBytes
                    : static_cast<std::size_t>(step.lane) * kLaneStageBytes;
}

void* IpcCommunicator::address(const IpcStep& step, const IpcPlace& place, std::size_t call) const {
  switch (place.region) {
    case IpcRegion::in:
      return static_cast<std::byte*>(regions_[call].in) + place.offset;
    case IpcRegion::out:
      return static_cast<std::byte*>(regions_[call].out) + place.offset;
    case IpcRegion::stage:
      return stage_.data() + stage_offset(step) + place.offset;
    case IpcRegion::none:
      break;
  }
  throw InternalError("a step of an IpcPlan without a place");
}

std::uint64_t IpcCommunicator::offer(const IpcStep& step) const {
  switch (step.source.region) {
    case IpcRegion::in:
      return regions_[step.call].in_offer + step.source.offset;
    case IpcRegion::stage:
      return offer_of(0, stage_offset(step) + step.source.offset);
    default:
      return kOfferNothing;
  }
}

IpcCommunicator::Regions IpcCommunicator::regions_of(const Operation& operation,
                                                     bool exposed) const {
  return {.in = operation.in.data,
          .out = operation.out.data,
          .in_offer = exposed ? memory_.offer(operation.in) : kOfferNothing};
}

const std::uint64_t* IpcCommunicator::offers(int set, int from) const {
  return reinterpret_cast<const std::uint64_t*>(
      static_cast<std::uintptr_t>(meeting_.control->device_offer(set, from, rank())));
}

IpcTable IpcCommunicator::table() const {
  return {.bases = memory_.bases(),
          .aborted = reinterpret_cast<const std::uint32_t*>(
              static_cast<std::uintptr_t>(meeting_.control->device_aborted()))};
}

// Neighbouring messages of a group progress together; collectives run one by one, as issued.
void IpcCommunicator::launch(std::span<const Call> calls) {
  for (std::size_t i = 0; i < calls.size();) {
    std::size_t end = i;
    while (end < calls.size() && calls[end].operation.is_message()) ++end;
    if (end > i) {
      launch_messages(calls.subspan(i, end - i));
      i = end;
    } else {
      launch_collective(calls[i++]);
    }
  }
}

void IpcCommunicator::launch_collective(const Call& call) {
  const Operation& operation = call.operation;
  const bool reads = operation.kind != OperationKind::scatter || rank() == operation.root;
  const bool exposed = reads && memory_.is_readable(operation.in);
  regions_.assign(1, regions_of(operation, exposed && operation.kind != OperationKind::barrier));
  plan_.plan_collective(operation, {.in = exposed});
  if (operation.kind == OperationKind::all_reduce) has_all_reduced_ = true;
  execute({&call, 1});
}

void IpcCommunicator::launch_messages(std::span<const Call> calls) {
  messages_.clear();
  regions_.clear();
  for (const Call& call : calls) {
    const bool exposed =
        call.operation.kind == OperationKind::send && memory_.is_readable(call.operation.in);
    messages_.push_back({call.operation, exposed});
    regions_.push_back(regions_of(call.operation, exposed));
  }
  plan_.plan_messages(messages_);
  execute(calls);
}

// A CUDA graph may run branches one behind the other in an order of its own. Another rank's order
// may differ, and the two would wait for each other. So a recording gets one chain.
void IpcCommunicator::fork_lanes() {
  uses_side_ = plan_.lanes() > 1 && !is_recording(stream());
  if (!uses_side_) return;
  cuda::check(cudaEventRecord(lane_event_, stream()), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(side_, lane_event_, cudaEventWaitDefault), "cudaStreamWaitEvent");
}

void IpcCommunicator::join_lanes() {
  if (!uses_side_) return;
  cuda::check(cudaEventRecord(lane_event_, side_), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(stream(), lane_event_, cudaEventWaitDefault),
              "cudaStreamWaitEvent");
}

void IpcCommunicator::execute(std::span<const Call> calls) {
  first_call_ = calls.data();
  lane_ = 0;
  fork_lanes();
  bool has_arrived = calls.front().operation.is_message();
  for (const IpcStep& step : plan_.steps()) {
    const bool signals = step.action == IpcAction::signal || step.action == IpcAction::await;
    // Signals follow pulls, and a signal after a wait belongs to the next exchange.
    if (step.lane != lane_ || step.action != IpcAction::pull) queue_pulls();
    const bool waited = has_waits_;
    if (step.lane != lane_ || !signals || (step.action == IpcAction::signal && has_waits_)) {
      queue_signals();
    }
    if (waited && !has_waits_ && !has_arrived) {
      calls.front().work->arrived(lane_stream());
      has_arrived = true;
    }
    lane_ = step.lane;
    execute_step(step, calls[step.call].operation);
  }
  queue_pulls();
  queue_signals();
  join_lanes();
}

void IpcCommunicator::queue_signals() {
  if (!has_signals_ && !has_waits_) return;
  has_signals_ = has_waits_ = false;
  signals_->flush(lane_stream(), first_call_->operation);
}

void IpcCommunicator::queue_pulls() {
  if (pulls_.count == 0) return;
  const cudaError_t status = launch_pulls(pulls_, lane_stream());
  pulls_.count = 0;
  cuda::check(status, "the pulls of ipc");
}

void IpcCommunicator::execute_step(const IpcStep& step, const Operation& operation) {
  switch (step.action) {
    case IpcAction::copy:
      return cuda::check(cudaMemcpyAsync(address(step, step.target, step.target_call),
                                         address(step, step.source, step.call), step.bytes,
                                         cudaMemcpyDeviceToDevice, lane_stream()),
                         "a copy of ipc");
    case IpcAction::signal:
      signals_->signal(step.set, step.peer, offer(step));
      has_signals_ = true;
      return;
    case IpcAction::await:
      signals_->await(step.set, step.peer);
      has_waits_ = true;
      return;
    case IpcAction::pull:
      return add_pull(step);
    case IpcAction::reduce:
    case IpcAction::accumulate:
      return reduce_step(step, operation);
  }
}

void IpcCommunicator::add_pull(const IpcStep& step) {
  if (pulls_.count == kMaxIpcRanks) queue_pulls();
  pulls_.table = table();
  pulls_.pulls[pulls_.count++] = {.offer = offers(step.set, step.peer),
                                  .peer = step.peer,
                                  .target = address(step, step.target, step.target_call),
                                  .bytes = step.bytes};
}

void IpcCommunicator::reduce_step(const IpcStep& step, const Operation& operation) {
  const DataType type = operation.part().type;
  const bool divides = step.completes && operation.op == ReduceOp::average;
  IpcReduction reduction{.table = table(),
                         .offers = offers(step.set, 0),
                         .offer_stride = size(),
                         .rank = rank(),
                         .size = size(),
                         .own = address(step, step.source, step.call),
                         .target = address(step, step.target, step.target_call),
                         .count = step.bytes / size_of(type),
                         .type = type,
                         .op = operation.op,
                         .divisor = divides ? size() : 1};
  if (step.action == IpcAction::accumulate) {
    // The kernel sees two ranks: the peer is number 0, this rank is number 1.
    reduction.table.bases += static_cast<std::size_t>(step.peer) * kIpcRegistrations;
    reduction.offers = offers(step.set, step.peer);
    reduction.rank = 1;
    reduction.size = 2;
  }
  cuda::check(launch_reduction(reduction, lane_stream()), "the reduction of ipc");
}

std::vector<AllReduceAlgorithm> IpcCommunicator::all_reduces_run() const {
  if (!has_all_reduced_) return {};
  return {plan_.all_reduce()};
}

void IpcCommunicator::register_buffer(const Buffer& buffer) {
  if (between_threads() || size() == 1) return;  // all is readable
  map_everywhere(buffer, timeout_s());
}

void IpcCommunicator::map_everywhere(const Buffer& buffer, const PeerWait& wait) {
  const cuda::CurrentDevice current(ordinal());
  const std::string handle = buffer.bytes() == 0 ? "" : buffer.export_handle();
  memory_.add(buffer.view(), board()->exchange(rank(), handle, wait));
  board()->exchange(rank(), "", wait);  // the owner may free it when all have mapped it
}

void IpcCommunicator::deregister_buffer(const Buffer& buffer) {
  if (between_threads() || size() == 1) return;
  const cuda::CurrentDevice current(ordinal());
  memory_.remove(buffer.view());
  board()->exchange(rank(), "", timeout_s());  // the owner may free it when no peer maps it
}

std::unique_ptr<Communicator> IpcCommunicator::split(int color, int key) {
  const Part part = split_board(color, key);
  std::vector<int> ordinals;
  for (const std::string& text :
       board()->exchange(rank(), std::to_string(ordinal()), timeout_s())) {
    ordinals.push_back(std::stoi(text));
  }
  if (part.members.empty()) return nullptr;
  std::vector<int> theirs;
  for (const int member : part.members) {
    theirs.push_back(ordinals[static_cast<std::size_t>(member)]);
  }
  const PeerWait wait = timeout_s();
  IpcMeeting meeting = between_threads()
                           ? meet_threads(*part.board, part.options.name, part.rank, theirs, wait)
                           : meet_processes(*part.board, part.options.name, part.rank, wait);
  return std::make_unique<IpcCommunicator>(device(), part.rank, part.board, part.options,
                                           std::move(meeting));
}

}  // namespace ddpbench::comm
