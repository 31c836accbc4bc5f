// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/tune_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/math.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "parallel/gradient_bucketer.h"

namespace ddpbench::bench {
namespace {

constexpr double kDefaultFirstMb = 1, kDefaultCapMb = 25;

nn::ParameterPlan parameter_plan(const nn::ModelSpec& model) {
  nn::ParameterPlan plan;
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const nn::LayerSpec& layer = model.layers[i];
    const auto shapes = nn::parameter_shapes(layer, model.input_of(layer));
    for (std::size_t k = shapes.size(); k-- > 0;) {
      const std::size_t bytes =
          static_cast<std::size_t>(ops::element_count(shapes[k])) * sizeof(float);
      plan.parameters.push_back({.offset_bytes = plan.flat_bytes, .bytes = bytes});
      plan.flat_bytes += round_up(bytes, nn::kParameterAlignment);
    }
  }
  return plan;
}

// Rounds to three significant digits, so that the user can type the size again.
double rounded(double size) { return std::stod(fmt::format("{:.3g}", size)); }

template <typename T>
void put_first(std::vector<T>& list, T value) {
  std::erase(list, value);
  list.insert(list.begin(), value);
}

}  // namespace

std::vector<std::size_t> bucket_bytes(const nn::ModelSpec& model, double first_bucket_mb,
                                      double bucket_cap_mb) {
  std::vector<std::size_t> sizes;
  const auto buckets = plan_buckets(
      parameter_plan(model), static_cast<std::size_t>(first_bucket_mb * static_cast<double>(kMiB)),
      static_cast<std::size_t>(bucket_cap_mb * static_cast<double>(kMiB)));
  for (const Bucket& bucket : buckets) sizes.push_back(bucket.bytes);
  return sizes;
}

void fill_tune_lists(Options& options, const nn::ModelSpec& model) {
  const double all =
      static_cast<double>(parameter_plan(model).flat_bytes) / static_cast<double>(kMiB);
  if (options.first_buckets_mb.empty()) {
    options.first_buckets_mb = {rounded(all / 32), rounded(all / 8), rounded(2 * all)};
  }
  if (options.bucket_caps_mb.empty()) {
    options.bucket_caps_mb = {rounded(all / 8), rounded(all / 4), rounded(all / 2)};
  }
  if (options.overlaps.empty()) options.overlaps = {true, false};
  put_first(options.first_buckets_mb, kDefaultFirstMb);
  put_first(options.bucket_caps_mb, kDefaultCapMb);
  put_first(options.overlaps, true);
}

std::vector<std::size_t> distinct_settings(const std::vector<RunCell>& cells,
                                           const nn::ModelSpec& model) {
  std::vector<std::vector<std::size_t>> buckets;
  for (const RunCell& cell : cells) {
    buckets.push_back(bucket_bytes(model, cell.first_bucket_mb, cell.bucket_cap_mb));
  }
  const std::size_t fewest =
      std::ranges::min(buckets, {}, [](const auto& sizes) { return sizes.size(); }).size();
  std::set<std::pair<bool, std::vector<std::size_t>>> seen;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool worth =
        cells[i].overlap || buckets[i] == buckets.front() || buckets[i].size() == fewest;
    if (worth && seen.insert({cells[i].overlap, buckets[i]}).second) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace ddpbench::bench
