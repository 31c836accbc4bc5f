// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See ring_communicator.h.
#include "parallel/comm/shm/queue/shm_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "kernels/runtime/device.h"

namespace ddpbench::comm {

namespace {

// Handles of shared memory, as plain bytes that an all-gather can carry.
using HandleText = std::array<char, 120>;

HandleText to_text(const std::string& handle) {
  HandleText text{};
  ensure(handle.size() < text.size(), "the memory handle '{}' is too long", handle);
  std::copy(handle.begin(), handle.end(), text.begin());
  return text;
}

}  // namespace

RingCommunicator::RingCommunicator(std::shared_ptr<ControlBlock> block, int rank,
                                   const RingOptions& options)
    : OperationCommunicator(rank, block->size()),
      queue_(std::make_shared<WorkQueue>(std::move(block), rank, options)) {}

RingCommunicator::~RingCommunicator() { queue_->shut_down(); }

double RingCommunicator::timeout_s() const noexcept { return queue_->timeout_s(); }

Work RingCommunicator::issue(const Operation& operation, const CallOptions& options) {
  // A CPU stream runs inline: what is queued there now is done.
  ensure(!options.after || options.after->device().kind() == DeviceKind::cpu,
         "the ring backend runs after streams of CPU devices");
  return Work(queue_->issue(operation, options.start));
}

template <typename T>
std::vector<T> RingCommunicator::exchange(const T& own) {
  T mine = own;
  std::vector<T> all(static_cast<std::size_t>(size()));
  all_gather({&mine, sizeof(T), DataType::uint8},
             {all.data(), sizeof(T) * all.size(), DataType::uint8},
             {.after = nullptr, .start = Start::deferred})
      .synchronize();
  return all;
}

void RingCommunicator::register_buffer(const Buffer& buffer) {
  if (queue_->peers().block().scope() == FutexScope::process) return;  // all is readable
  const std::string handle = buffer.export_handle();
  ensure(buffer.bytes() == 0 || !handle.empty(),
         "a buffer of {} bytes that peers cannot map was to be registered", buffer.bytes());
  std::vector<std::string> handles;
  for (const HandleText& text : exchange(to_text(handle))) handles.emplace_back(text.data());
  queue_->change_memory([&](PeerMemory& memory) { memory.add(buffer.view(), handles); });
  exchange(0);  // this rank may free or change its descriptor only when all have mapped it
}

void RingCommunicator::deregister_buffer(const Buffer& buffer) {
  if (queue_->peers().block().scope() == FutexScope::process) return;
  queue_->change_memory([&](PeerMemory& memory) { memory.remove(buffer.view()); });
}

std::unique_ptr<Communicator> RingCommunicator::split(int color, int key) {
  struct Choice {
    int color, key, rank;
  };
  const int number = splits_++;
  std::vector<Choice> members = exchange(Choice{color, key, rank()});
  std::erase_if(members, [&](const Choice& c) { return c.color != color; });
  std::sort(members.begin(), members.end(), [](const Choice& a, const Choice& b) {
    return std::tie(a.key, a.rank) < std::tie(b.key, b.rank);
  });
  const auto own = std::find_if(members.begin(), members.end(),
                                [&](const Choice& c) { return c.rank == rank(); });
  const int leader = members.front().rank;
  RingOptions options = queue_->options();
  options.name = fmt::format("{}/split{}.{}", options.name, number, color);
  const FutexScope scope = queue_->peers().block().scope();

  // The leader of each colour makes the memory. Threads get a pointer to its owner, processes a
  // handle; both must stay until all have taken it.
  std::shared_ptr<ControlBlock> block;
  std::string token;
  if (leader == rank() && color >= 0) {
    block = ControlBlock::create(options.name, static_cast<int>(members.size()), scope);
    token = scope == FutexScope::host ? block->handle()
                                      : std::to_string(reinterpret_cast<std::uintptr_t>(&block));
  }
  const HandleText offered = exchange(to_text(token))[static_cast<std::size_t>(leader)];
  if (leader != rank() && color >= 0) {
    block = scope == FutexScope::host
                ? ControlBlock::open(offered.data(), static_cast<int>(members.size()))
                : *reinterpret_cast<std::shared_ptr<ControlBlock>*>(
                      static_cast<std::uintptr_t>(std::stoull(offered.data())));
  }
  exchange(0);
  if (color < 0) return nullptr;
  auto result = std::make_unique<RingCommunicator>(
      std::move(block), static_cast<int>(own - members.begin()), options);
  result->await_peers();
  return result;
}

}  // namespace ddpbench::comm
