// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "reports/metrics/metrics.h"
#include "reports/predict/prediction.h"

namespace ddpbench::report {
namespace {

double whole_bytes(const Transfer& transfer, int ranks) {
  return transfer.of_part ? ranks * transfer.bytes : transfer.bytes;
}

// Seconds of a call of so many bytes, split into what every call takes and what its bytes take.
struct Split {
  double fixed_s = 0, moved_s = 0;
};

// Linear between the sizes around `bytes`, and beyond the largest two. Smaller calls than the
// smallest are all latency.
Split split_at(const std::map<double, double>& seconds, double bytes) {
  auto above = seconds.lower_bound(bytes);
  if (above == seconds.begin() && seconds.size() > 1) return {above->second, 0};
  if (above == seconds.end()) --above;
  if (above == seconds.begin()) return {0, above->second * bytes / above->first};
  const auto below = std::prev(above);
  const double slope =
      std::max(0.0, (above->second - below->second) / (above->first - below->first));
  const double fixed_s = below->second - slope * below->first;
  // A buffer that no cache holds any more takes longer than in proportion.
  if (fixed_s < 0) return {0, below->second + slope * (bytes - below->first)};
  return {fixed_s, slope * bytes};
}

struct Line {
  double step_s = 0, byte_s = 0;
};

// Least squares of seconds = steps x step_s + bytes x byte_s, neither below 0.
Line fitted_line(const StepModel& model) {
  double kk = 0, kv = 0, vv = 0, kt = 0, vt = 0;
  for (const std::vector<Transfer>* part : {&model.hidden, &model.exposed})
    for (const Transfer& transfer : *part) {
      const double steps = link_steps(transfer, model.ranks, model.direct);
      const double bytes = link_bytes(transfer, model.ranks);
      kk += steps * steps;
      kv += steps * bytes;
      vv += bytes * bytes;
      kt += steps * transfer.seconds;
      vt += bytes * transfer.seconds;
    }
  const double determinant = kk * vv - kv * kv;
  // Transfers of about one size do not tell: their bytes are taken for the cause.
  constexpr double kTelling = 0.05;
  if (determinant > kTelling * kk * vv) {
    const Line line{(kt * vv - vt * kv) / determinant, (vt * kk - kt * kv) / determinant};
    if (line.step_s >= 0 && line.byte_s >= 0) return line;
    if (line.byte_s < 0) return {kt / kk, 0};
  }
  return {0, vv > 0 ? vt / vv : 0};
}

}  // namespace

static int tree_height(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

double link_bytes(const Transfer& transfer, int ranks) {
  if (transfer.servers > 0) return transfer.bytes * std::max(1.0, 1.0 * ranks / transfer.servers);
  if (transfer.tree) return transfer.bytes * (tree_height(ranks) + 1 - 1.0 / ranks);
  return whole_bytes(transfer, ranks) * bus_bandwidth_factor(transfer.collective, ranks);
}

int link_steps(const Transfer& transfer, int ranks, bool direct) {
  if (transfer.servers > 0) return 1;
  if (transfer.tree) return tree_height(ranks) + 1;
  const int rounds = direct ? std::min(ranks - 1, 1) : ranks - 1;
  return transfer.collective == kAllReduce ? 2 * rounds : rounds;
}

CommCost::CommCost(std::span<const CollectiveRow> rows, const std::string& name) {
  for (const CollectiveRow& row : rows) {
    if (row.ranks < 2 || row.bytes == 0 || !row.time_s) continue;
    const bool direct = row.all_reduce == "direct";
    Curve& curve = curves_[row.operation].try_emplace(row.ranks, Curve{direct, {}}).first->second;
    // Of two algorithms the first counts.
    if (curve.direct == direct)
      curve.seconds.emplace(static_cast<double>(row.bytes), row.time_s->median);
  }
  if (curves_.contains(kAllReduce)) return;
  throw ConfigError(
      fmt::format("predict: --comm={} has no all-reduce between several ranks; `ddpbench comm "
                  "--op=all_reduce` measures it",
                  name));
}

double CommCost::seconds(const Transfer& transfer, int ranks) const {
  if (curves_.empty())
    return link_steps(transfer, ranks, false) * latency_s_ + link_bytes(transfer, ranks) * byte_s_;
  const auto own = curves_.find(transfer.collective);
  const auto& [collective, curves] = own != curves_.end() ? *own : *curves_.find(kAllReduce);
  const auto beyond = curves.upper_bound(ranks);
  const auto& [measured, curve] = beyond == curves.begin() ? *beyond : *std::prev(beyond);
  const double bytes = whole_bytes(transfer, ranks);
  const Split split = split_at(curve.seconds, bytes);
  const Transfer there{.collective = collective,
                       .bytes = bytes,
                       .tree = transfer.tree && collective == transfer.collective};
  return split.fixed_s * link_steps(transfer, ranks, curve.direct) /
             link_steps(there, measured, curve.direct) +
         split.moved_s * link_bytes(transfer, ranks) / link_bytes(there, measured);
}

// Of m sorted samples the i-th is the largest of k draws with probability (i/m)^k - ((i-1)/m)^k.
double expected_slowest(std::span<const double> sorted, double draws) {
  double sum = 0, below = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double until =
        std::pow(static_cast<double>(i + 1) / static_cast<double>(sorted.size()), draws);
    sum += sorted[i] * (until - below);
    below = until;
  }
  return sum;
}

// `work`: the share of the measured compute. `seconds` of a transfer.
template <typename Seconds>
static double ends_s(const StepModel& model, double work, Seconds seconds) {
  double end_s = 0, exposed_s = 0;
  for (const Transfer& transfer : model.hidden)
    end_s = std::max(end_s, work * transfer.ready_s) + seconds(transfer);
  for (const Transfer& transfer : model.exposed) exposed_s += seconds(transfer);
  return std::max(end_s, work * model.backward_end_s) + exposed_s / model.cycle;
}

void StepModel::fit(double step_s, double waited_s) {
  const double ends = ends_s(*this, 1, [](const Transfer& transfer) { return transfer.seconds; });
  rest_s = step_s - ends - shared_update_s - (loader_s > 0 ? waited_s : 0);
}

double StepModel::step_s(int devices, const CommCost* cost) const {
  const double times = 1.0 * devices / ranks, work = divides_batch ? 1 / times : 1;
  const Line line = cost == nullptr ? fitted_line(*this) : Line{};
  // What further steps wait hides behind their bytes: one chunk moves while another is handled.
  const auto on_line = [&](const Transfer& transfer, int n) {
    const double waits_s = line.step_s * link_steps(transfer, n, direct);
    const double here_s = line.step_s * link_steps(transfer, ranks, direct);
    return std::max(waits_s, std::min(waits_s, here_s) + line.byte_s * link_bytes(transfer, n));
  };
  const double ends = ends_s(*this, work, [&](const Transfer& transfer) {
    if (cost != nullptr) return cost->seconds(transfer, devices);
    const double here = on_line(transfer, ranks);
    return here > 0 ? transfer.seconds * on_line(transfer, devices) / here : 0;
  });
  return std::max(work * loader_s, ends + shared_update_s / times + rest_s) +
         expected_slowest(samples_s, times) - expected_slowest(samples_s, 1);
}

}  // namespace ddpbench::report
