// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/collective.h"

#include "base/clock.h"

namespace ddpbench::comm {

Collective::Collective(PeerGroup& peers, PeerMemory& memory, const Operation& operation,
                       const Run& run)
    : peers_(peers),
      memory_(memory),
      operation_(operation),
      run_(run),
      tuner_(run.tuners->of(operation.kind, operation.part().bytes())),
      write_mode_(tuner_.begin_operation()),
      started_s_(steady_s()),
      arrived_s_(started_s_) {}

void Collective::begin() {
  if (run_.number <= kHistory) return;
  for (int peer = 0; peer < size(); ++peer) {
    await_counter(peer, peers_.block().slot(peer).consumed,
                  position(run_.number - kHistory + 1, 0));
  }
}

void Collective::enter(const Elements& exposed) {
  const Elements part = operation_.part();
  peers_.own().descriptors[run_.number % kHistory] = {
      operation_.kind, part.type,  operation_.op,
      operation_.root, part.count, memory_.expose(exposed, peers_.own().copy)};
  publish(1);
}

void Collective::await_entered(int peer) {
  await(peer, 1);
  const std::size_t slot = run_.number % kHistory;
  peers_.ensure_same_operation(peers_.own().descriptors[slot],
                               peers_.block().slot(peer).descriptors[slot], peer);
}

void Collective::await_root() {
  await_entered(operation_.root);
  arrived_s_ = steady_s();
}

void Collective::await_all_entered() {
  for (int i = 1; i < size(); ++i) await_entered((rank() + i) % size());
  arrived_s_ = steady_s();
}

std::byte* Collective::exposed(int peer, std::size_t bytes) const {
  const RankSlot& slot = peers_.block().slot(peer);
  return memory_.resolve(peer, slot.descriptors[run_.number % kHistory].memory, bytes, slot,
                         slot.copy);
}

template <typename Write>
void Collective::timed(std::size_t bytes, Write&& write) {
  if (!tuner_.wants_record()) return write();
  const double before_s = steady_s();
  write();
  written_s_ += steady_s() - before_s;
  written_bytes_ += bytes;
}

void Collective::reduce_to(std::byte* target, std::span<const std::byte* const> sources,
                           std::size_t bytes, const ReduceSpec& spec) {
  timed(bytes,
        [&] { reduce_sources(target, sources, bytes / size_of(spec.type), spec, write_mode_); });
}

void Collective::copy(std::byte* target, const std::byte* source, std::size_t bytes) {
  timed(bytes, [&] { copy_bytes(target, source, bytes, write_mode_); });
}

void Collective::count_taken(int peer, std::size_t bytes, bool continues) {
  Traffic& taken = run_.traffic[static_cast<std::size_t>(peer)].taken;
  if (continues) {
    taken.bytes += bytes;
  } else {
    taken.add_message(bytes);
  }
}

void Collective::await(int peer, std::uint64_t step) {
  await_counter(peer, peers_.block().slot(peer).progress, at(step));
}

void Collective::finish_reading() {
  if (written_bytes_ > 0) tuner_.record(written_bytes_, written_s_);
  peers_.publish(peers_.own().consumed, position(run_.number + 1, 0));
}

void Collective::await_finished(int peer) {
  await_counter(peer, peers_.block().slot(peer).consumed, position(run_.number + 1, 0));
}

void Collective::await_all_finished() {
  for (int i = 1; i < size(); ++i) await_finished((rank() + i) % size());
}

void Collective::await_counter(int peer, const std::atomic<std::uint64_t>& counter,
                               std::uint64_t value) {
  // Sequentially consistent, for the last look before sleeping (PeerGroup::publish).
  const auto reached = [&] { return counter.load(std::memory_order_seq_cst) >= value; };
  if (!reached()) {
    peers_.wait(peer, {&operation_, run_.number, run_.deadline}, run_.policy, reached);
  }
}

}  // namespace ddpbench::comm
