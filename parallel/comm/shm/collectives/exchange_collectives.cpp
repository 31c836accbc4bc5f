// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/collectives.h"
#include "parallel/comm/shm/collectives/exchange_window.h"

namespace ddpbench::comm {

namespace {

// Runs `work` in each round, when all ranks' memory of that round is readable.
template <typename Work>
void in_rounds(Collective& c, ExchangeWindow& window, Work&& work) {
  for (std::uint64_t round = 0; round < window.rounds(); ++round) {
    if (round > 0) {
      window.fill(round);
      c.publish(1 + round);
      for (int i = 1; i < c.size(); ++i) c.await((c.rank() + i) % c.size(), 1 + round);
    }
    work(round);
  }
  c.finish_reading();
  c.await_all_finished();
}

}  // namespace

// Only rank r reads part r of the ranks' memory, so the result may go there.
void run_reduce_scatter(Collective& c) {
  const Operation& o = c.operation();
  const int n = c.size();
  const auto part = static_cast<std::size_t>(c.rank());
  ExchangeWindow window(c, o.in, static_cast<std::size_t>(n));
  in_rounds(c, window, [&](std::uint64_t round) {
    const std::span<const std::byte*> sources = c.run().sources;
    for (int i = 0; i < n; ++i) {
      sources[static_cast<std::size_t>(i)] = window.at((c.rank() + i) % n, part, round);
    }
    c.reduce_to(o.out.view().data + window.offset(round), sources, window.bytes(round),
                c.reduce_spec());
    for (int i = 1; i < n; ++i) {
      c.count_taken((c.rank() + i) % n, window.bytes(round), round > 0);
    }
  });
}

void run_all_gather(Collective& c) {
  const Operation& o = c.operation();
  const int n = c.size();
  ExchangeWindow window(c, o.in, 1);
  in_rounds(c, window, [&](std::uint64_t round) {
    for (int i = 0; i < n; ++i) {
      const int owner = (c.rank() + i) % n;
      std::byte* const target =
          o.out.view().data + static_cast<std::size_t>(owner) * o.in.bytes() + window.offset(round);
      const std::byte* const source =
          i == 0 ? o.in.view().data + window.offset(round) : window.at(owner, 0, round);
      if (source != target) c.copy(target, source, window.bytes(round));
      if (i > 0) c.count_taken(owner, window.bytes(round), round > 0);
    }
  });
}

}  // namespace ddpbench::comm
