// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/run_traffic.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/step_traffic.h"

namespace ddpbench::bench {

Known<report::StepTraffic> run_traffic(const TrainingJob& job, const nn::Graph& graph) {
  using Result = Known<report::StepTraffic>;
  const StrategyConfig config = strategy_config(job);
  if (step_calls(config, graph).empty()) return Result::of({});
  const CommBackend& backend = comm_backend(job.backend);
  const std::optional<comm::LinkTraffic> traffic =
      step_traffic(config, graph, backend, comm::all_reduce_algorithm(job.cell.all_reduce));
  if (!traffic) {
    return Result::missing(
        fmt::format("the {} backend does not tell all that it sends", backend.name));
  }
  const comm::Traffic total = traffic->total();
  report::StepTraffic step{.messages = total.messages, .bytes = total.bytes};
  for (int rank = 0; rank < traffic->ranks(); ++rank) {
    for (const comm::Traffic& way : {traffic->sent(rank), traffic->received(rank)}) {
      step.busiest_messages = std::max(step.busiest_messages, way.messages);
      step.busiest_bytes = std::max(step.busiest_bytes, way.bytes);
    }
  }
  return Result::of(step);
}

}  // namespace ddpbench::bench
