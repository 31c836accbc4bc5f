// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// IpcPlan: what one rank does for an operation of the ipc backend, as plain data. It knows nothing
// of CUDA: tests run the plans of all ranks in one simulation, in any order that they permit.
//
// There is one family of algorithms. Ranks never write each other's memory. A rank *offers* a peer
// a place to read from (in its registered buffer or its staging memory) and signals that. The peer
// *pulls* from there, or reduces over all offers in the order of ranks. So every element is reduced
// by one rank, in one order, and the others copy that result: all have the same bits.
//
//   all_reduce   direct: offer chunk q to rank q; reduce the own chunk; offer it to all; pull the
//                others'. ring: see below
//   reduce       the same, but only the root pulls
//   broadcast    the same, but the own chunk is pulled from the root instead of reduced
//   all_gather, scatter, gather    offer, pull
//   reduce_scatter                 offer, reduce
//   barrier, and the end of all    signals without offers: no peer reads my memory any more
//
// Long operations go in rounds of equal size that fit into the staging memory, in turn on two
// lanes. A lane is a stream with its own flags and staging memory: one round's copies overlap the
// other lane's reduction. A round costs each rank two or three exchanges, so few rounds are best.
// Their number follows from the bytes alone, as ranks may differ in what peers can read of their
// memory.
//
// The ring all-reduce of n ranks and S bytes takes 2 (n - 1) steps. Each rank reads 2 (n - 1) / n *
// S bytes, all of its left neighbour. Chunks and order are those of the shm backend's ring
// (all_reduce.cpp). In each step a rank offers a chunk to its right neighbour, adds its left
// neighbour's offer to its own chunk (reduce-scatter) or pulls it (all-gather), and answers that it
// has read. Chunk c is added in the order of ranks c, c + 1, ... and then copied everywhere. So
// here too all ranks have the same bits, though not those of the direct algorithm.
//
// Flags. A signal raises the flag (set, from, to), which must be down; waiting for it takes it down
// again. So flags hold no counts, and a replayed CUDA graph finds them as it was recorded. A rank
// raises a flag anew only after it has waited for a later signal of the same peer. The peer sent
// that one after it took the flag down. That is why a round has at least two exchanges, numbered
// from 0 with a set of flags each, all ranks take part in each, and a message is answered. A step
// of the ring is such a message: the offer is raised anew after the right neighbour's answer. The
// answer is raised anew after the left neighbour's next offer, which followed the answer before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/operation.h"

namespace ddpbench::comm {

inline constexpr int kIpcLanes = 2;
inline constexpr int kIpcPhases = 3;
// Sets of flags: those of the lanes' phases, then those of messages.
inline constexpr int kMessageSet = kIpcLanes * kIpcPhases;  // the sender has offered
inline constexpr int kAnswerSet = kMessageSet + 1;          // the receiver has taken
inline constexpr int kIpcSets = kAnswerSet + 1;
constexpr int ipc_set(int lane, int phase) { return lane * kIpcPhases + phase; }

// Memory of this rank.
enum class IpcRegion : std::uint8_t {
  none,
  in,    // the operation's
  out,   // the operation's
  stage  // the lane's, or for messages the peer's, staging memory
};

struct IpcPlace {
  IpcRegion region = IpcRegion::none;
  std::size_t offset = 0;  // bytes
  bool operator==(const IpcPlace&) const = default;
};

enum class IpcAction : std::uint8_t {
  copy,    // `bytes` from `source` to `target`, both this rank's
  signal,  // offer `source` (none: nothing) to `peer` and raise `set`
  await,   // wait until `peer` has raised `set`, and take it down
  pull,    // `bytes` from what `peer` offered with `set` to `target`
  reduce,  // all ranks' offers of `set`, and this rank's `source`, in order of rank, into `target`
  accumulate  // what `peer` offered with `set`, and then this rank's `source`, into `target`
};

struct IpcStep {
  IpcAction action = IpcAction::copy;
  int lane = 0;
  int set = 0;
  int peer = 0;
  IpcPlace source, target;
  std::size_t bytes = 0;
  bool completes = false;  // reduce and accumulate: an average divides here
  // Messages only: their index in the group. A copy to oneself goes to the `out` of another call.
  std::size_t call = 0, target_call = 0;
};

struct IpcShape {
  int rank = 0, size = 1;
  std::size_t round_bytes = 0;  // at most in a round: a lane's staging memory, if it has any
  std::size_t message_stage_bytes = 0;                         // for messages to one peer
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::direct;  // or ring
};

// Whether peers can read the operation's own memory; else it passes through staging memory.
struct IpcExposure {
  bool in = false;
  bool out = false;
};

// One message of a group, and whether its memory is readable.
struct IpcMessage {
  Operation operation;
  bool exposed = false;
};

class IpcPlan {
 public:
  explicit IpcPlan(const IpcShape& shape) : shape_(shape) {}

  // Replace the steps; memory is kept from plan to plan. Flags alone order steps of different
  // lanes; the steps of one lane are ordered as they stand here.
  void plan_collective(const Operation& operation, IpcExposure exposure);
  // The messages of one group, which progress together: a rank offers all that it sends before it
  // waits for a peer. Messages to itself must be paired. Throws CommError.
  void plan_messages(std::span<const IpcMessage> messages);

  std::span<const IpcStep> steps() const noexcept { return steps_; }
  int lanes() const noexcept { return lanes_; }  // number that the steps use
  AllReduceAlgorithm all_reduce() const noexcept { return shape_.all_reduce; }

 private:
  struct Range {
    std::size_t begin = 0, bytes = 0;
  };

  void plan_shared(const Operation& operation, bool exposed);  // all_reduce, reduce, broadcast
  // Calls round({begin, bytes}) for rounds of `total` bytes, at most `most` each; sets their lanes.
  template <typename Round>
  void in_rounds(std::size_t total, std::size_t most, Round&& round);
  void shared_round(const Operation& operation, bool exposed, const Range& round);
  void ring_round(const Operation& operation, bool exposed, const Range& round);
  // One step of the ring: `offered` is for the right neighbour; `take` uses the left one's offer.
  template <typename Take>
  void ring_step(IpcPlace offered, Take&& take);
  void reduce(IpcAction action, int peer, IpcPlace place, std::size_t bytes, bool completes);
  void plan_parts(const Operation& operation, IpcExposure exposure);  // the other collectives
  void gather_round(const Operation& operation, bool exposed, const Range& round);
  void scatter_round(const Operation& operation, bool exposed, const Range& round);
  void pair_own_messages(std::span<const IpcMessage> messages);
  bool message_round(std::span<const IpcMessage> messages, std::size_t round);

  // Chunk `rank` of a round's bytes.
  Range chunk(const Range& round, int rank, std::size_t element) const;
  void copy(IpcPlace source, IpcPlace target, std::size_t bytes);
  void pull(int peer, int phase, IpcPlace target, std::size_t bytes);
  // Signals all peers with the place that `offer` names for each, then waits for all.
  template <typename Offer>
  void exchange(int phase, Offer&& offer);
  void exchange(int phase);  // without offers
  void flag(IpcAction action, int phase, int peer, IpcPlace offered = {});

  const IpcShape shape_;
  int lane_ = 0;
  int lanes_ = 1;
  std::vector<IpcStep> steps_;
  // Scratch of plan_messages: the round in which a message begins, and how many it takes.
  std::vector<std::size_t> first_rounds_, rounds_;
};

}  // namespace ddpbench::comm
