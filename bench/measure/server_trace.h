// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ServerTrace: records what a server of ps does in its first rounds after it was given parameters,
// for --trace.
//
// A server does not know which steps are timed. Workers send parameters before the timed ones
// begin, so it starts anew then. The last start in its records counts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

class ServerTrace final : public PhaseObserver {
 public:
  // Keeps the phases of `rounds` rounds, each of which begins with Phase::push. `device` and
  // `writer` outlive this.
  ServerTrace(Device& device, launch::RankWriter& writer, std::uint32_t rounds)
      : device_(device), writer_(writer), rounds_(rounds) {}

  // Between two rounds the server waits for its stream.
  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes&) override {}
  // Appends what is kept and done to the channel: records with the round as their step, and the
  // number of the start as their replica. To be called when the server has ended, too.
  void publish();

 private:
  struct Mark {
    Phase phase = Phase::push;
    std::uint32_t round = 0;
    std::unique_ptr<Event> begin, end;
  };

  bool is_kept() const { return round_ > 0 && round_ <= rounds_; }

  Device& device_;
  launch::RankWriter& writer_;
  const std::uint32_t rounds_;
  std::vector<Mark> marks_;  // pool; the first used_ count
  std::size_t used_ = 0;
  std::uint32_t start_ = 0, round_ = 0;  // rounds begun since the last start
};

}  // namespace ddpbench::bench
