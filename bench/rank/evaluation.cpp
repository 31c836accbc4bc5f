// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/evaluation.h"

#include <algorithm>

#include "datasets/loader.h"

namespace ddpbench::bench {

namespace {

// The batch has no memory yet.
BatchMemory plan_batch(const TrainingJob& job, const data::Split& test) {
  return BatchMemory({.samples = static_cast<std::size_t>(job.per_device_batch),
                      .image_bytes = test.sample_bytes * sizeof(float),
                      .labels_per_sample = test.labels_per_sample});
}

}  // namespace

void Evaluator::add_memory(MemoryNeeds& needs, const TrainingJob& job, const data::Split& test) {
  needs.add(plan_batch(job, test).planned());
}

ops::LossTotals Evaluator::run(const std::vector<Replica*>& replicas, ReplicaGroup* group,
                               const std::function<void()>& alive) {
  if (memory_.empty()) {
    for (Replica* replica : replicas) {
      memory_.push_back(plan_batch(job_, test_));
      memory_.back().allocate(replica->device());
      evaluated_.push_back(replica->device().make_event());
    }
  }
  std::vector<ops::LossTotals> totals(replicas.size());
  const auto work = [&](std::size_t i) {
    totals[i] = run_part(i, *replicas[i], i == 0 ? alive : std::function<void()>{});
  };
  if (group != nullptr) {
    group->run(work);
  } else {
    work(0);
  }
  ops::LossTotals sum;
  for (const ops::LossTotals& part : totals) sum += part;
  return sum;
}

Evaluator::Part Evaluator::part(std::size_t i) const {
  const std::int64_t world = job_.cell.world_size;
  return {test_.count * indices_[i] / world, test_.count * (indices_[i] + 1) / world};
}

std::int64_t Evaluator::samples() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < indices_.size(); ++i) sum += part(i).end - part(i).first;
  return sum;
}

ops::LossTotals Evaluator::run_part(std::size_t i, Replica& replica,
                                    const std::function<void()>& alive) {
  const data::Normalization normalization = normalization_of(job_);
  const std::int64_t batch = job_.per_device_batch;
  const Part own = part(i);
  BatchMemory& memory = memory_[i];
  for (std::int64_t first = own.first; first < own.end; first += batch) {
    const std::int64_t count = std::min(batch, own.end - first);
    data::assemble_range(test_, normalization, first, count, memory.host());
    if (alive) alive();
    memory.upload(replica.stream(), memory);
    const StepInput input = memory.device();
    replica.evaluate(input.images, input.labels, count);
    // The next batch is assembled in the same memory, so the host waits for this one.
    replica.stream().record(*evaluated_[i]);
    wait_->until(*evaluated_[i], "an evaluated batch");
  }
  return replica.take_evaluation();
}

}  // namespace ddpbench::bench
