// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluator: evaluates the test set on the replicas of a rank. Each replica of the run takes a
// contiguous part, so that every sample counts once.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/feed/batch_source.h"
#include "bench/measure/device_wait.h"
#include "bench/plan/training_job.h"
#include "datasets/dataset.h"
#include "parallel/replica.h"
#include "parallel/replica_group.h"

namespace ddpbench::bench {

class Evaluator {
 public:
  // `replicas`: their indices among the run's. The arguments outlive the evaluator.
  Evaluator(const TrainingJob& job, const data::Split& test, std::vector<int> replicas,
            std::shared_ptr<DeviceWait> wait)
      : job_(job), test_(test), indices_(std::move(replicas)), wait_(std::move(wait)) {}

  // Adds the memory that the first run allocates on one replica's device.
  static void add_memory(MemoryNeeds& needs, const TrainingJob& job, const data::Split& test);

  // Returns the totals of this rank's parts. `group` is null when there is one replica. `alive`
  // is called once per batch, on the calling thread.
  ops::LossTotals run(const std::vector<Replica*>& replicas, ReplicaGroup* group,
                      const std::function<void()>& alive);
  // How many samples this rank's parts have.
  std::int64_t samples() const;

 private:
  struct Part {
    std::int64_t first, end;
  };
  Part part(std::size_t i) const;
  ops::LossTotals run_part(std::size_t i, Replica& replica, const std::function<void()>& alive);

  const TrainingJob& job_;
  const data::Split& test_;
  std::vector<int> indices_;
  std::shared_ptr<DeviceWait> wait_;
  // [local replica]; the first run makes both.
  std::vector<BatchMemory> memory_;
  std::vector<std::unique_ptr<Event>> evaluated_;  // the batch in that memory
};

}  // namespace ddpbench::bench
