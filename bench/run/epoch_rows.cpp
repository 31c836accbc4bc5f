// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/epoch_rows.h"

#include <algorithm>

#include "bench/host/pause_watch.h"

namespace ddpbench::bench {
namespace {

EpochResult sum_over(const std::vector<const RankResult*>& ranks, std::size_t epoch) {
  EpochResult sum = ranks[0]->epochs[epoch];
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const EpochResult& part = ranks[i]->epochs[epoch];
    sum.begin_s = std::min(sum.begin_s, part.begin_s);
    sum.end_s = std::max(sum.end_s, part.end_s);
    sum.samples += part.samples;
    sum.counted += part.counted;
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
    sum.test_samples += part.test_samples;
    sum.test_counted += part.test_counted;
    sum.test_correct += part.test_correct;
  }
  return sum;
}

report::Figure test_accuracy(const EpochResult& sum) {
  if (sum.test_samples == 0) return report::Figure::missing("no test samples");
  if (sum.test_counted == 0) {
    return report::Figure::missing("the network's loss ignores all labels of the test samples");
  }
  return report::Figure::of(static_cast<double>(sum.test_correct) /
                            static_cast<double>(sum.test_counted));
}

}  // namespace

double running_time(const std::vector<launch::Pause>& pauses, double begin_s, double end_s) {
  const double whole_s = end_s - begin_s;
  const double stopped_s = stopped_time(pauses, begin_s, end_s);
  return stopped_s < whole_s ? whole_s - stopped_s : whole_s;
}

std::vector<report::EpochRow> epoch_rows(const std::vector<const RankResult*>& ranks,
                                         const std::vector<launch::Pause>& pauses) {
  std::size_t complete = ranks.empty() ? 0 : SIZE_MAX;
  for (const RankResult* rank : ranks) complete = std::min(complete, rank->epochs.size());
  std::vector<report::EpochRow> rows;
  for (std::size_t e = 0; e < complete; ++e) {
    const EpochResult sum = sum_over(ranks, e);
    const auto counted = static_cast<double>(sum.counted);
    report::EpochRow& row = rows.emplace_back();
    row.epoch = sum.epoch;
    row.time_s = running_time(pauses, sum.begin_s, sum.end_s);
    row.samples = sum.samples;
    row.samples_per_s = static_cast<double>(sum.samples) / row.time_s;
    row.train_loss = sum.loss_sum / counted;
    row.train_accuracy = static_cast<double>(sum.correct) / counted;
    row.test_accuracy = test_accuracy(sum);
  }
  return rows;
}

}  // namespace ddpbench::bench
