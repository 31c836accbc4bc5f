// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/ipc/ipc_plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::comm {

namespace {

// Chunks begin at multiples of this, so that kernels read whole vectors.
constexpr std::size_t kChunkAlignment = 16;

IpcPlace shifted(IpcPlace place, std::size_t bytes) {
  place.offset += bytes;
  return place;
}

std::size_t rounded_down(std::size_t bytes, std::size_t unit) { return bytes / unit * unit; }

// Whether a rank's own part is in place: `a` lies `offset` bytes behind `base`.
bool same_place(const void* a, const void* base, std::size_t offset) {
  return a == static_cast<const std::byte*>(base) + offset;
}

}  // namespace

void IpcPlan::copy(IpcPlace source, IpcPlace target, std::size_t bytes) {
  if (bytes == 0) return;
  steps_.push_back({.action = IpcAction::copy,
                    .lane = lane_,
                    .source = source,
                    .target = target,
                    .bytes = bytes});
}

void IpcPlan::pull(int peer, int phase, IpcPlace target, std::size_t bytes) {
  if (bytes == 0) return;
  steps_.push_back({.action = IpcAction::pull,
                    .lane = lane_,
                    .set = ipc_set(lane_, phase),
                    .peer = peer,
                    .target = target,
                    .bytes = bytes});
}

void IpcPlan::reduce(IpcAction action, int peer, IpcPlace place, std::size_t bytes,
                     bool completes) {
  if (bytes == 0) return;
  steps_.push_back({.action = action,
                    .lane = lane_,
                    .set = ipc_set(lane_, 0),
                    .peer = peer,
                    .source = place,
                    .target = place,
                    .bytes = bytes,
                    .completes = completes});
}

void IpcPlan::flag(IpcAction action, int phase, int peer, IpcPlace offered) {
  steps_.push_back({.action = action,
                    .lane = lane_,
                    .set = ipc_set(lane_, phase),
                    .peer = peer,
                    .source = offered});
}

template <typename Offer>
void IpcPlan::exchange(int phase, Offer&& offer) {
  for (const IpcAction action : {IpcAction::signal, IpcAction::await}) {
    for (int i = 1; i < shape_.size; ++i) {
      // Each rank begins with its neighbour, so that they do not all access one rank at once.
      const int peer = (shape_.rank + i) % shape_.size;
      flag(action, phase, peer, action == IpcAction::signal ? offer(peer) : IpcPlace{});
    }
  }
}

void IpcPlan::exchange(int phase) {
  exchange(phase, [](int) { return IpcPlace{}; });
}

IpcPlan::Range IpcPlan::chunk(const Range& round, int rank, std::size_t element) const {
  const auto size = static_cast<std::size_t>(shape_.size);
  const std::size_t unit = std::max(kChunkAlignment, element);
  const std::size_t units = ceil_div(round.bytes, unit);
  const auto bound = [&](std::size_t r) { return std::min(units * r / size * unit, round.bytes); };
  const auto r = static_cast<std::size_t>(rank);
  return {bound(r), bound(r + 1) - bound(r)};
}

void IpcPlan::plan_collective(const Operation& operation, IpcExposure exposure) {
  steps_.clear();
  lane_ = 0;
  lanes_ = 1;
  switch (operation.kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce:
    case OperationKind::broadcast:
      return plan_shared(operation, exposure.in);
    case OperationKind::barrier:
      exchange(0);
      return exchange(1);
    case OperationKind::send:
    case OperationKind::recv:
      throw InternalError("messages are planned as a group");
    default:
      return plan_parts(operation, exposure);
  }
}

template <typename Round>
void IpcPlan::in_rounds(std::size_t total, std::size_t most, Round&& round) {
  if (total == 0) return;
  std::size_t rounds = ceil_div(total, most);
  // Lanes with equal work end together.
  if (rounds > 1) rounds = round_up(rounds, kIpcLanes);
  const std::size_t bytes = std::min(round_up(ceil_div(total, rounds), kChunkAlignment), most);
  for (std::size_t begin = 0; begin < total; begin += bytes) {
    lane_ = static_cast<int>(begin / bytes % kIpcLanes);
    lanes_ = std::max(lanes_, lane_ + 1);
    round(Range{begin, std::min(bytes, total - begin)});
  }
}

void IpcPlan::plan_shared(const Operation& operation, bool exposed) {
  in_rounds(operation.in.bytes(), rounded_down(shape_.round_bytes, kChunkAlignment),
            [&](const Range& round) {
              const bool ring = operation.kind == OperationKind::all_reduce &&
                                shape_.all_reduce == AllReduceAlgorithm::ring;
              if (ring) {
                ring_round(operation, exposed, round);
              } else {
                shared_round(operation, exposed, round);
              }
            });
}

template <typename Take>
void IpcPlan::ring_step(IpcPlace offered, Take&& take) {
  const int left = (shape_.rank + shape_.size - 1) % shape_.size;
  const int right = (shape_.rank + 1) % shape_.size;
  flag(IpcAction::signal, 0, right, offered);
  flag(IpcAction::await, 0, left);
  take(left);
  flag(IpcAction::signal, 1, left);
  flag(IpcAction::await, 1, right);
}

// Chunks are numbered as in all_reduce.cpp of the shm backend. In step t of reduce-scatter rank r
// adds chunk r - t - 1 and offers r - t, which the step before completed. In step t of all-gather
// it pulls chunk r - t and offers r - t + 1. What is overwritten has been read: the right neighbour
// answered for it in an earlier step.
void IpcPlan::ring_round(const Operation& operation, bool exposed, const Range& round) {
  const int n = shape_.size, rank = shape_.rank;
  const IpcPlace data{IpcRegion::in, round.begin};
  const IpcPlace work = exposed || n == 1 ? data : IpcPlace{IpcRegion::stage, 0};
  const auto chunk_of = [&](int number) {
    return chunk(round, (number % n + n) % n, size_of(operation.in.type));
  };
  if (work != data) copy(data, work, round.bytes);
  for (int t = 0; t < n - 1; ++t) {
    ring_step(shifted(work, chunk_of(rank - t).begin), [&](int left) {
      const Range target = chunk_of(rank - t - 1);
      reduce(IpcAction::accumulate, left, shifted(work, target.begin), target.bytes, t == n - 2);
    });
  }
  for (int t = 0; t < n - 1; ++t) {
    ring_step(shifted(work, chunk_of(rank - t + 1).begin), [&](int left) {
      const Range target = chunk_of(rank - t);
      pull(left, 0, shifted(work, target.begin), target.bytes);
    });
  }
  if (work != data) copy(work, data, round.bytes);
}

void IpcPlan::shared_round(const Operation& operation, bool exposed, const Range& round) {
  const int rank = shape_.rank;
  const std::size_t element = size_of(operation.in.type);
  const bool broadcasts = operation.kind == OperationKind::broadcast;
  const bool is_source = !broadcasts || rank == operation.root;
  const bool is_receiver =
      operation.kind == OperationKind::reduce ? rank == operation.root : !(broadcasts && is_source);
  const IpcPlace data{IpcRegion::in, round.begin};
  const IpcPlace offered = exposed ? data : IpcPlace{IpcRegion::stage, 0};
  const Range own = chunk(round, rank, element);

  if (is_source && !exposed) copy(data, offered, round.bytes);
  exchange(0, [&](int peer) {
    return is_source ? shifted(offered, chunk(round, peer, element).begin) : IpcPlace{};
  });
  const IpcPlace own_chunk = shifted(offered, own.begin);
  if (!broadcasts) {
    reduce(IpcAction::reduce, rank, own_chunk, own.bytes, true);
  } else if (broadcasts && !is_source) {
    pull(operation.root, 0, own_chunk, own.bytes);
  }
  exchange(1, [&](int peer) {
    const bool reads = operation.kind != OperationKind::reduce || peer == operation.root;
    return reads ? own_chunk : IpcPlace{};
  });
  if (is_receiver) {
    for (int i = 1; i < shape_.size; ++i) {
      const int peer = (rank + i) % shape_.size;
      const Range theirs = chunk(round, peer, element);
      pull(peer, 1, shifted(data, theirs.begin), theirs.bytes);
    }
    if (!exposed) copy(own_chunk, shifted(data, own.begin), own.bytes);
  }
  exchange(2);
}

void IpcPlan::plan_parts(const Operation& operation, IpcExposure exposure) {
  const bool gathers =
      operation.kind == OperationKind::all_gather || operation.kind == OperationKind::gather;
  // Collectives that spread parts stage one part for each rank.
  const std::size_t parts = gathers ? 1 : static_cast<std::size_t>(shape_.size);
  const std::size_t most = rounded_down(shape_.round_bytes / parts, kChunkAlignment);
  ensure(most > 0, "the staging memory of ipc is too small for {} ranks", shape_.size);
  in_rounds(operation.part().bytes(), most, [&](const Range& round) {
    if (gathers) {
      gather_round(operation, exposure.in, round);
    } else {
      scatter_round(operation, exposure.in, round);
    }
  });
}

void IpcPlan::gather_round(const Operation& operation, bool exposed, const Range& round) {
  const bool to_all = operation.kind == OperationKind::all_gather;
  const bool is_receiver = to_all || shape_.rank == operation.root;
  const std::size_t part = operation.in.bytes();
  const IpcPlace data{IpcRegion::in, round.begin};
  const IpcPlace offered = exposed ? data : IpcPlace{IpcRegion::stage, 0};
  const auto place_of = [&](int rank) {
    return IpcPlace{IpcRegion::out, static_cast<std::size_t>(rank) * part + round.begin};
  };
  // A root that no peer reads from stages nothing.
  if (!exposed && (to_all || !is_receiver)) copy(data, offered, round.bytes);
  exchange(0, [&](int peer) { return to_all || peer == operation.root ? offered : IpcPlace{}; });
  if (is_receiver) {
    for (int i = 1; i < shape_.size; ++i) {
      const int peer = (shape_.rank + i) % shape_.size;
      pull(peer, 0, place_of(peer), round.bytes);
    }
    const std::size_t own = static_cast<std::size_t>(shape_.rank) * part;
    if (!same_place(operation.in.data, operation.out.data, own)) {
      copy(data, place_of(shape_.rank), round.bytes);
    }
  }
  exchange(1);
}

void IpcPlan::scatter_round(const Operation& operation, bool exposed, const Range& round) {
  const bool reduces = operation.kind == OperationKind::reduce_scatter;
  const bool is_source = reduces || shape_.rank == operation.root;
  const std::size_t part = operation.out.bytes();
  const auto part_of = [&](int rank) {
    return IpcPlace{IpcRegion::in, static_cast<std::size_t>(rank) * part + round.begin};
  };
  const auto offer_to = [&](int rank) {
    return exposed ? part_of(rank)
                   : IpcPlace{IpcRegion::stage, static_cast<std::size_t>(rank) * round.bytes};
  };
  if (is_source && !exposed) {
    for (int i = 1; i < shape_.size; ++i) {
      const int peer = (shape_.rank + i) % shape_.size;
      copy(part_of(peer), offer_to(peer), round.bytes);
    }
  }
  exchange(0, [&](int peer) { return is_source ? offer_to(peer) : IpcPlace{}; });
  const IpcPlace target{IpcRegion::out, round.begin};
  if (reduces) {
    steps_.push_back({.action = IpcAction::reduce,
                      .lane = lane_,
                      .set = ipc_set(lane_, 0),
                      .source = part_of(shape_.rank),
                      .target = target,
                      .bytes = round.bytes,
                      .completes = true});
  } else if (!is_source) {
    pull(operation.root, 0, target, round.bytes);
  } else if (!same_place(operation.out.data, operation.in.data,
                         static_cast<std::size_t>(shape_.rank) * part)) {
    copy(part_of(shape_.rank), target, round.bytes);
  }
  exchange(1);
}

void IpcPlan::plan_messages(std::span<const IpcMessage> messages) {
  steps_.clear();
  lane_ = 0;
  lanes_ = 1;
  first_rounds_.assign(messages.size(), 0);
  rounds_.assign(messages.size(), 0);
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const Operation& operation = messages[m].operation;
    if (operation.root == shape_.rank) continue;
    // A message without elements has a round, too: it is done when the receiver has come.
    const std::size_t bytes = operation.part().bytes();
    const std::size_t most = shape_.message_stage_bytes;
    rounds_[m] = std::max<std::size_t>(ceil_div(bytes, most), 1);
    // Messages from one rank to another go one after the other.
    for (std::size_t before = 0; before < m; ++before) {
      const Operation& other = messages[before].operation;
      const bool same_way = other.kind == operation.kind && other.root == operation.root;
      if (same_way) first_rounds_[m] += rounds_[before];
    }
  }
  pair_own_messages(messages);
  for (std::size_t round = 0; message_round(messages, round); ++round) {
  }
}

void IpcPlan::pair_own_messages(std::span<const IpcMessage> messages) {
  std::size_t recv = 0;
  const auto is_own = [&](std::size_t m, OperationKind kind) {
    return messages[m].operation.kind == kind && messages[m].operation.root == shape_.rank;
  };
  const auto next_recv = [&] {
    while (recv < messages.size() && !is_own(recv, OperationKind::recv)) ++recv;
    return recv < messages.size();
  };
  for (std::size_t send = 0; send < messages.size(); ++send) {
    if (!is_own(send, OperationKind::send)) continue;
    const Operation& operation = messages[send].operation;
    if (!next_recv() || messages[recv].operation.out.bytes() != operation.in.bytes()) {
      throw CommError(fmt::format("rank {} of {}: {} has no recv of the same size in its group",
                                  shape_.rank, shape_.size, describe(operation)),
                      "send");
    }
    if (operation.in.bytes() > 0) {
      steps_.push_back({.action = IpcAction::copy,
                        .source = {IpcRegion::in, 0},
                        .target = {IpcRegion::out, 0},
                        .bytes = operation.in.bytes(),
                        .call = send,
                        .target_call = recv});
    }
    ++recv;
  }
  if (next_recv()) {
    throw CommError(fmt::format("rank {} of {}: {} has no send in its group", shape_.rank,
                                shape_.size, describe(messages[recv].operation)),
                    "recv");
  }
}

// All offers come first, then the takes of peers' offers, then the waits for answers.
bool IpcPlan::message_round(std::span<const IpcMessage> messages, std::size_t round) {
  bool any = false;
  enum class Turn : std::uint8_t { offer, take, finish };
  for (const Turn turn : {Turn::offer, Turn::take, Turn::finish}) {
    for (std::size_t m = 0; m < messages.size(); ++m) {
      if (round < first_rounds_[m] || round >= first_rounds_[m] + rounds_[m]) continue;
      any = true;
      const Operation& operation = messages[m].operation;
      const bool sends = operation.kind == OperationKind::send;
      const std::size_t begin = (round - first_rounds_[m]) * shape_.message_stage_bytes;
      const std::size_t bytes =
          std::min(shape_.message_stage_bytes, operation.part().bytes() - begin);
      IpcStep step{.peer = operation.root, .bytes = bytes, .call = m, .target_call = m};
      const auto add = [&](IpcAction action, int set) {
        step.action = action;
        step.set = set;
        steps_.push_back(step);
      };
      if (sends && turn == Turn::offer) {
        step.source = {IpcRegion::in, begin};
        if (!messages[m].exposed && bytes > 0) {
          step.target = {IpcRegion::stage, 0};
          add(IpcAction::copy, 0);
          step.source = std::exchange(step.target, {});
        }
        add(IpcAction::signal, kMessageSet);
      } else if (sends && turn == Turn::finish) {
        add(IpcAction::await, kAnswerSet);
      } else if (!sends && turn == Turn::take) {
        add(IpcAction::await, kMessageSet);
        step.target = {IpcRegion::out, begin};
        if (bytes > 0) add(IpcAction::pull, kMessageSet);
        step.target = {};
        add(IpcAction::signal, kAnswerSet);
      }
    }
  }
  return any;
}

}  // namespace ddpbench::comm
