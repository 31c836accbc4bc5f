// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives over messages. A buffer has a chunk for each rank, which that rank reduces or
// hands on (reduce-scatter, then all-gather; Thakur, Rabenseifner and Gropp, "Optimization of
// collective communication operations in MPICH", 2005). Chunks travel in segments, so that a rank
// reduces one while the next arrives. A rank receives a chunk's result where its own values were:
// they have left before, because the result depends on them.
#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/wire/wire_engine.h"
#include "parallel/comm/wire/wire_traffic.h"

namespace ddpbench::comm {

namespace {

// Bytes of a segment; more where that would be too many segments. A segment costs some system
// calls beside those for its data.
constexpr std::size_t kSegmentBytes = kMiB;
constexpr std::size_t kMostSegments = 16;

// Steps of a call, in the slots of its transfers. Segments count from each, which is a multiple of
// kMostSegments.
constexpr int kWhole = 0, kReduce = 1 << 12, kResult = 1 << 13;

std::byte* bytes_of(const Elements& elements) { return static_cast<std::byte*>(elements.data); }

std::size_t segment_bytes(std::size_t bytes, std::size_t width) {
  const std::size_t most = std::max(kSegmentBytes, (bytes + kMostSegments - 1) / kMostSegments);
  return (most + width - 1) / width * width;
}

// Calls each(segment, offset, bytes) for every segment of `bytes` bytes.
template <typename Each>
void for_segments(std::size_t bytes, std::size_t width, Each&& each) {
  const std::size_t segment = segment_bytes(bytes, width);
  int index = 0;
  for (std::size_t offset = 0; offset < bytes; offset += segment) {
    each(index++, offset, std::min(segment, bytes - offset));
  }
}

}  // namespace

WorkTimes WireEngine::run_collective(const Operation& operation, Deadline deadline, Waiter waiter) {
  Call call{operation, deadline, board_.begin(operation)};
  const double start_s = steady_s();
  if (board_.size() > 1) {
    link_->prepare(waiter);
    run(call);
  } else if (operation.out.data != operation.in.data && operation.out.bytes() > 0) {
    std::memcpy(operation.out.data, operation.in.data, operation.out.bytes());
  }
  return {start_s, start_s, 0, false};
}

void WireEngine::run(Call& call) {
  try {
    const auto look = [&] { look_around(call, RankBoard::kAnybody); };
    if (link_->run_collective(call.operation, look)) return;
  } catch (const LostPeer& lost) {
    fail_for(lost.peer, &call.operation);
  }
  run_own(call);
  await_sends(call);
}

void WireEngine::run_own(Call& call) {
  switch (call.operation.kind) {
    case OperationKind::all_reduce:
      return run_all_reduce(call);
    case OperationKind::reduce:
      return run_reduce(call);
    case OperationKind::reduce_scatter:
      return run_reduce_scatter(call);
    case OperationKind::broadcast:
      return run_broadcast(call);
    case OperationKind::all_gather:
      return run_all_gather(call);
    case OperationKind::gather:
      return run_gather(call);
    case OperationKind::scatter:
      return run_scatter(call);
    case OperationKind::barrier:
      return run_barrier(call);
    default:
      ensure(false, "no collective: {}", describe(call.operation));
  }
}

// ---- transfers ----

// Calls that are not the same have other slots, so that their transfers do not meet.
Slot WireEngine::slot_of(const Call& call, int step) {
  const Operation& o = call.operation;
  // Counts differ more than the rest: a prime keeps that apart.
  const std::uint64_t rest =
      static_cast<std::uint64_t>(o.kind) << 24 | static_cast<std::uint64_t>(o.op) << 20 |
      static_cast<std::uint64_t>(o.part().type) << 16 | static_cast<std::uint64_t>(o.root);
  return {call.number, step, o.part().count * 1'000'003 ^ rest};
}

void WireEngine::post_send(Call& call, int peer, int step, const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  try {
    call.sends.push_back(link_->send(peer, slot_of(call, step), data, bytes));
  } catch (const LostPeer& lost) {
    fail_for(lost.peer, &call.operation);
  }
}

WireEngine::Transfer WireEngine::post_recv(const Call& call, int peer, int step, void* data,
                                           std::size_t bytes) {
  if (bytes == 0) return {};
  // A message counts with its first segment.
  taken_[static_cast<std::size_t>(peer)] +=
      {step % static_cast<int>(kMostSegments) == 0 ? 1U : 0U, bytes};
  try {
    return link_->recv(peer, slot_of(call, step), data, bytes);
  } catch (const LostPeer& lost) {
    fail_for(lost.peer, &call.operation);
  }
}

void WireEngine::await(Call& call, Transfer& transfer) {
  if (!transfer) return;
  try {
    while (!link_->wait(*transfer)) look_around(call, transfer->peer());
  } catch (const LostPeer& lost) {
    fail_for(lost.peer, &call.operation);
  }
  transfer = {};
}

void WireEngine::await_sends(Call& call) {
  for (Transfer& send : call.sends) await(call, send);
}

std::byte* WireEngine::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

WireEngine::Part WireEngine::chunk(const Elements& whole, int index) const {
  const WireChunk chunk = wire_chunk(whole.count, board_.size(), index);
  const std::size_t width = size_of(whole.type);
  return {bytes_of(whole) + chunk.begin * width, (chunk.end - chunk.begin) * width};
}

void WireEngine::for_peers(const std::function<void(int)>& each) const {
  // Each rank begins with its right neighbour, so that not all send to one rank at once.
  for (int i = 1; i < board_.size(); ++i) each((board_.rank() + i) % board_.size());
}

// ---- reductions ----

// Reduces this rank's chunk of everybody's `whole` into `target`, and sends the other chunks to
// their ranks. reduced(segment, offset, bytes) is called as soon as a segment is done.
void WireEngine::reduce_chunk(Call& call, const Elements& whole, std::byte* target,
                              const Reduced& reduced) {
  const int n = board_.size();
  const std::size_t width = size_of(whole.type);
  const Part mine = chunk(whole, board_.rank());
  std::byte* const theirs = scratch(mine.bytes * static_cast<std::size_t>(n - 1));
  std::vector<Transfer> parts;  // [segment][peer]
  for_segments(mine.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
    std::byte* place = theirs + offset;
    for_peers([&](int peer) {
      parts.push_back(post_recv(call, peer, kReduce + segment, place, bytes));
      place += mine.bytes;
    });
  });
  for_peers([&](int peer) {
    const Part other = chunk(whole, peer);
    for_segments(other.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
      post_send(call, peer, kReduce + segment, other.data + offset, bytes);
    });
  });
  const ReduceSpec spec{whole.type, call.operation.op, n};
  std::vector<const std::byte*> sources(static_cast<std::size_t>(n));
  auto part = parts.begin();
  for_segments(mine.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
    sources[0] = mine.data + offset;
    for (std::size_t i = 1; i < sources.size(); ++i) {
      await(call, *part++);
      sources[i] = theirs + (i - 1) * mine.bytes + offset;
    }
    reduce_sources(target + offset, sources, bytes / width, spec);
    if (reduced) reduced(segment, offset, bytes);
  });
}

// The results of the other ranks' chunks.
std::vector<WireEngine::Transfer> WireEngine::receive_results(Call& call, const Elements& whole) {
  std::vector<Transfer> results;
  for_peers([&](int peer) {
    const Part other = chunk(whole, peer);
    for_segments(
        other.bytes, size_of(whole.type), [&](int segment, std::size_t offset, std::size_t bytes) {
          results.push_back(post_recv(call, peer, kResult + segment, other.data + offset, bytes));
        });
  });
  return results;
}

void WireEngine::run_all_reduce(Call& call) {
  const Elements& data = call.operation.in;
  const AllReduceAlgorithm algorithm = wire_all_reduce(all_reduce_, board_.size(), data.bytes());
  algorithms_run_.fetch_or(1U << static_cast<unsigned>(algorithm));
  if (algorithm == AllReduceAlgorithm::ring) return all_reduce_ring(call);
  data.bytes() <= kSmallWireBytes ? all_reduce_small(call) : all_reduce_direct(call);
}

void WireEngine::all_reduce_direct(Call& call) {
  const Elements& data = call.operation.in;
  std::vector<Transfer> results = receive_results(call, data);
  const Part mine = chunk(data, board_.rank());
  reduce_chunk(call, data, mine.data, [&](int segment, std::size_t offset, std::size_t bytes) {
    for_peers(
        [&](int peer) { post_send(call, peer, kResult + segment, mine.data + offset, bytes); });
  });
  for (Transfer& result : results) await(call, result);
}

// Every rank adds in the order of ranks, so that all get the same bits.
void WireEngine::all_reduce_small(Call& call) {
  const Elements& data = call.operation.in;
  const auto n = static_cast<std::size_t>(board_.size());
  std::byte* const all = scratch(n * data.bytes());
  std::byte* const own = all + static_cast<std::size_t>(board_.rank()) * data.bytes();
  std::vector<Transfer> parts;
  for_peers([&](int peer) {
    parts.push_back(post_recv(call, peer, kWhole,
                              all + static_cast<std::size_t>(peer) * data.bytes(), data.bytes()));
  });
  if (data.bytes() > 0) std::memcpy(own, data.data, data.bytes());
  for_peers([&](int peer) { post_send(call, peer, kWhole, own, data.bytes()); });
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i < n; ++i) sources.push_back(all + i * data.bytes());
  for (Transfer& part : parts) await(call, part);
  reduce_sources(data.data, sources, data.count, {data.type, call.operation.op, board_.size()});
  await_sends(call);  // from memory that the next call uses
}

// 2 (n - 1) steps around the ring: in the first half a chunk gathers the sum, in the second its
// result goes round.
void WireEngine::all_reduce_ring(Call& call) {
  const Elements& data = call.operation.in;
  const int n = board_.size(), rank = board_.rank();
  const int right = (rank + 1) % n, left = (rank + n - 1) % n;
  const std::size_t width = size_of(data.type);
  const auto chunk_at = [&](int place) { return chunk(data, ((place % n) + n) % n); };
  const auto step_of = [](int half, int step, int segment) {
    return (half == 0 ? kReduce : kResult) + step * static_cast<int>(kMostSegments) + segment;
  };
  const std::size_t most = (data.count / static_cast<std::size_t>(n) + 1) * width;
  std::byte* const theirs = scratch(most * static_cast<std::size_t>(n - 1));
  std::vector<Transfer> parts;  // [half][step][segment]
  for (int half = 0; half < 2; ++half) {
    for (int step = 0; step + 1 < n; ++step) {
      const Part in = chunk_at(rank - step - 1 + half);
      std::byte* const place = half == 0 ? theirs + static_cast<std::size_t>(step) * most : in.data;
      for_segments(in.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
        parts.push_back(post_recv(call, left, step_of(half, step, segment), place + offset, bytes));
      });
    }
  }
  const Part first = chunk_at(rank);
  for_segments(first.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
    post_send(call, right, step_of(0, 0, segment), first.data + offset, bytes);
  });
  auto part = parts.begin();
  for (int half = 0; half < 2; ++half) {
    for (int step = 0; step + 1 < n; ++step) {
      const Part in = chunk_at(rank - step - 1 + half);
      const bool ends_half = step + 2 == n;
      const bool ends = ends_half && half == 1;
      const ReduceSpec spec{
          data.type,
          call.operation.op == ReduceOp::average && !ends_half ? ReduceOp::sum : call.operation.op,
          n};
      for_segments(in.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
        await(call, *part++);
        std::byte* const place = in.data + offset;
        if (half == 0) {
          const std::byte* const sources[] = {
              place, theirs + static_cast<std::size_t>(step) * most + offset};
          reduce_sources(place, sources, bytes / width, spec);
        }
        if (ends) return;
        post_send(call, right,
                  ends_half ? step_of(1, 0, segment) : step_of(half, step + 1, segment), place,
                  bytes);
      });
    }
  }
}

void WireEngine::run_reduce(Call& call) {
  const Elements& data = call.operation.in;
  const int root = call.operation.root;
  const bool is_root = board_.rank() == root;
  std::vector<Transfer> results;
  if (is_root) results = receive_results(call, data);
  const Part mine = chunk(data, board_.rank());
  reduce_chunk(call, data, mine.data, [&](int segment, std::size_t offset, std::size_t bytes) {
    if (!is_root) post_send(call, root, kResult + segment, mine.data + offset, bytes);
  });
  for (Transfer& result : results) await(call, result);
}

void WireEngine::run_reduce_scatter(Call& call) {
  reduce_chunk(call, call.operation.in, bytes_of(call.operation.out), nullptr);
}

// ---- the others ----

// Large buffers: the root sends each rank its chunk, and ranks hand on their chunks, so that the
// root's line carries the buffer once.
void WireEngine::run_broadcast(Call& call) {
  const Elements& data = call.operation.in;
  const int root = call.operation.root, rank = board_.rank();
  if (board_.size() == 2 || data.bytes() <= kSmallWireBytes) {
    if (rank == root) {
      for_peers([&](int peer) { post_send(call, peer, kWhole, data.data, data.bytes()); });
    } else {
      Transfer whole = post_recv(call, root, kWhole, data.data, data.bytes());
      await(call, whole);
    }
    return;
  }
  const std::size_t width = size_of(data.type);
  if (rank == root) {
    for_peers([&](int peer) {
      for (const int owner : {peer, root}) {
        const Part part = chunk(data, owner);
        for_segments(part.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
          post_send(call, peer, (owner == root ? kResult : kReduce) + segment, part.data + offset,
                    bytes);
        });
      }
    });
    return;
  }
  std::vector<Transfer> results = receive_results(call, data);
  const Part mine = chunk(data, rank);
  std::vector<Transfer> parts;
  for_segments(mine.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
    parts.push_back(post_recv(call, root, kReduce + segment, mine.data + offset, bytes));
  });
  for_segments(mine.bytes, width, [&](int segment, std::size_t offset, std::size_t bytes) {
    await(call, parts[static_cast<std::size_t>(segment)]);
    for_peers([&](int peer) {
      if (peer != root) post_send(call, peer, kResult + segment, mine.data + offset, bytes);
    });
  });
  for (Transfer& result : results) await(call, result);
}

void WireEngine::run_all_gather(Call& call) {
  const Elements &in = call.operation.in, &out = call.operation.out;
  std::vector<Transfer> parts;
  const auto place = [&](int rank) {
    return bytes_of(out) + static_cast<std::size_t>(rank) * in.bytes();
  };
  for_peers(
      [&](int peer) { parts.push_back(post_recv(call, peer, kWhole, place(peer), in.bytes())); });
  for_peers([&](int peer) { post_send(call, peer, kWhole, in.data, in.bytes()); });
  std::byte* const own = place(board_.rank());
  if (own != in.data && in.bytes() > 0) std::memcpy(own, in.data, in.bytes());
  for (Transfer& part : parts) await(call, part);
}

void WireEngine::run_gather(Call& call) {
  const Elements &in = call.operation.in, &out = call.operation.out;
  if (board_.rank() != call.operation.root) {
    return post_send(call, call.operation.root, kWhole, in.data, in.bytes());
  }
  const auto place = [&](int rank) {
    return bytes_of(out) + static_cast<std::size_t>(rank) * in.bytes();
  };
  std::vector<Transfer> parts;
  for_peers(
      [&](int peer) { parts.push_back(post_recv(call, peer, kWhole, place(peer), in.bytes())); });
  std::byte* const own = place(board_.rank());
  if (own != in.data && in.bytes() > 0) std::memcpy(own, in.data, in.bytes());
  for (Transfer& part : parts) await(call, part);
}

void WireEngine::run_scatter(Call& call) {
  const Elements &in = call.operation.in, &out = call.operation.out;
  if (board_.rank() != call.operation.root) {
    Transfer part = post_recv(call, call.operation.root, kWhole, out.data, out.bytes());
    return await(call, part);
  }
  const auto place = [&](int rank) {
    return bytes_of(in) + static_cast<std::size_t>(rank) * out.bytes();
  };
  for_peers([&](int peer) { post_send(call, peer, kWhole, place(peer), out.bytes()); });
  std::byte* const own = place(board_.rank());
  if (own != out.data && out.bytes() > 0) std::memcpy(out.data, own, out.bytes());
}

void WireEngine::run_barrier(Call& call) {
  std::vector<std::byte> marks(static_cast<std::size_t>(board_.size()));
  std::vector<Transfer> parts;
  for_peers([&](int peer) {
    parts.push_back(post_recv(call, peer, kWhole, &marks[static_cast<std::size_t>(peer)], 1));
  });
  std::byte* const own = &marks[static_cast<std::size_t>(board_.rank())];
  for_peers([&](int peer) { post_send(call, peer, kWhole, own, 1); });
  for (Transfer& part : parts) await(call, part);
  await_sends(call);
}

}  // namespace ddpbench::comm
