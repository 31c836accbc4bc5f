// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/verification.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "kernels/nn/weights.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::bench {
namespace {

// Returns what rank 0 gives for `own` through the store; `own` where there is one rank. Where
// layers are split, the rank of replica 0 that has the same.
std::uint64_t hash_of_rank_0(RankTrainer& rank, std::uint64_t own) {
  const RankInputs& inputs = rank.inputs();
  if (inputs.store == nullptr || rank.world() == nullptr) return own;
  const std::string key = fmt::format("verification/weights_hash/{}", rank.plan().stage);
  if (rank.plan().shards[0] == 0) inputs.store->set(key, std::to_string(own));
  return std::stoull(inputs.store->get(key, wait_limit_s(rank.job().options.timeout_s)));
}

std::uint64_t hash_of(Replica& replica) {
  std::uint64_t hash = 0;
  for (const auto& tensors :
       {nn::export_weights(replica.graph()), nn::export_frozen(replica.graph())})
    for (const nn::NamedTensor& tensor : tensors)
      hash = hash_bytes(tensor.values.data(), tensor.values.size() * sizeof(float), hash);
  return hash;
}

// Compares the state of all replicas of this rank: each has seen one slice in this step, also
// those that do not keep their weights, whose findings go to the last result.
void compare_states(RankTrainer& rank, std::int64_t step, const ReferenceWeights& reference,
                    std::vector<VerificationResult>& results) {
  const std::vector<Replica*> replicas = rank.strategy().replicas();
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const auto state = nn::export_state(replicas[i]->graph());
    if (state.empty()) return;
    reference.compare_state(step, rank.plan().shards[i], state, rank.job().verification_tolerance,
                            results[std::min(i, results.size() - 1)]);
  }
}

// What each update of a replica must make of the gradients that it had: computed in double
// precision on the host, with an optimizer state of its own.
class ExpectedUpdates {
 public:
  ExpectedUpdates(const ops::OptimizerOptions& options, std::size_t parameters)
      : options_(options),
        state_(ops::optimizer_state_bytes(options, parameters) / sizeof(double) + 1),
        terms_(parameters) {}

  // The next update, of `weights`, by gradients of so many times the loss. The operation runs on
  // the host; it uses no stream.
  ExpectedUpdate next(Stream& unused, std::span<const float> weights,
                      const std::vector<nn::NamedTensor>& gradients, const ops::LossScale& scale) {
    ExpectedUpdate update{.weights = {weights.begin(), weights.end()}, .sizes = {}};
    if (scale.last_skipped) {
      update.sizes.resize(weights.size());
      return update;
    }
    std::vector<float> flat;
    for (const nn::NamedTensor& tensor : gradients) {
      for (const float value : tensor.values) flat.push_back(value / scale.last_scale);
    }
    backend_->update(unused, {.weights = update.weights.data(),
                              .gradients = flat.data(),
                              .state = state_.data(),
                              .count = flat.size(),
                              .options = options_});
    add_sizes(weights, flat, update.sizes);
    return update;
  }

 private:
  // Averages absolute values as the optimizer averages gradients.
  void add_sizes(std::span<const float> weights, std::span<const float> gradients,
                 std::vector<float>& sizes) {
    const ops::OptimizerOptions& o = options_;
    const bool decoupled = o.kind == ops::OptimizerKind::adamw;
    const double lr = ops::learning_rate(o, updates_);
    const auto count = static_cast<double>(++updates_);
    const double kept = o.is_adaptive() ? o.beta1 : o.momentum;
    const double share = o.is_adaptive() ? 1 - o.beta1 : 1;
    const double mean_scale = o.is_adaptive() ? 1 - std::pow(o.beta1, count) : 1;
    const double square_scale = 1 - std::pow(o.beta2, count);
    // AdamW multiplies weights by a factor near 1 that is rounded to fp32.
    const double rounding = decoupled ? 0x1p-24 / ReferenceWeights::kUpdateTolerance : 0;
    const float* const squares = ops::optimizer_state(o, state_.data(), gradients.size()).slots[1];
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const double weight = std::abs(weights[i]);
      const double added = std::abs(gradients[i]) + (decoupled ? 0 : o.weight_decay * weight);
      terms_[i] = static_cast<float>(kept * terms_[i] + share * added);
      const double root = squares == nullptr ? 1 : std::sqrt(squares[i] / square_scale) + o.epsilon;
      sizes.push_back(static_cast<float>(lr * terms_[i] / mean_scale / root + rounding * weight));
    }
  }

  ops::OptimizerOptions options_;
  std::vector<double> state_;
  std::vector<float> terms_;
  std::int64_t updates_ = 0;
  std::unique_ptr<ops::OpBackend> backend_ = ops::make_reference_backend();
};

// Whether training has diverged beyond comparing: the value is no finite number, or so large that
// its square or sums over ranks overflow in one computation and not in another.
bool has_exploded(double value) {
  constexpr double kLargestComparable = 0x1p60;  // the largest fp32 number is just below 2^128
  return !(std::abs(value) <= kLargestComparable);
}

// How the replica's last step scaled its loss: where nothing does, by 1.
ops::LossScale scale_of(Replica& replica) {
  return replica.read_loss_scale().value_or(ops::LossScale{.scale = 1, .last_scale = 1});
}

void set_to_zero(std::vector<nn::NamedTensor>& tensors) {
  for (nn::NamedTensor& tensor : tensors) std::ranges::fill(tensor.values, 0.0F);
}

// The name of the first tensor with such a value; empty: none.
std::string find_exploded(const std::vector<nn::NamedTensor>& tensors) {
  for (const nn::NamedTensor& tensor : tensors) {
    if (std::ranges::any_of(tensor.values, has_exploded)) return tensor.name;
  }
  return "";
}

// Stores what each slice of the reference leaves in the graph's state after its last pass.
class SliceStates {
 public:
  // `slices` of a pass, each of which stands for `replicas` replicas.
  SliceStates(const nn::Graph& graph, ReferenceWeights& reference, int slices, int replicas)
      : graph_(graph),
        reference_(reference),
        replicas_(replicas),
        slices_(static_cast<std::size_t>(slices)) {
    begin_step();
  }

  void add_slice() {
    Slice& slice = slices_[next_];
    if (slice.state.empty()) return;
    auto after = nn::export_state(graph_);
    const auto sizes = state_sizes(graph_.model(), slice.state, after);
    // What the passes before have moved differs, too.
    slice.sizes.resize(sizes.size());
    std::ranges::transform(sizes, slice.sizes, slice.sizes.begin(), std::plus());
    if (exploded_.empty()) exploded_ = find_exploded(after);
    for (int i = 0; i < replicas_; ++i) {
      const auto replica = static_cast<std::int64_t>(next_) * replicas_ + i;
      reference_.store_slice_state(step_, replica, after, slice.sizes);
    }
    slice.state = std::move(after);
    next_ = (next_ + 1) % slices_.size();
  }
  void finish_step() {
    ++step_;
    begin_step();
  }
  // As GradientSizes has it of gradients. Variances are squares, so they may overflow before any
  // weight or gradient does.
  const std::string& exploded() const { return exploded_; }

 private:
  struct Slice {
    std::vector<nn::NamedTensor> state;  // that its next pass begins with
    std::vector<double> sizes;
  };
  void begin_step() {
    for (Slice& slice : slices_) slice = {nn::export_state(graph_), {}};
  }

  const nn::Graph& graph_;
  ReferenceWeights& reference_;
  int replicas_;
  std::vector<Slice> slices_;
  std::size_t next_ = 0;
  std::int64_t step_ = 1;
  std::string exploded_;
};

// Why the step that the reference has just taken cannot be compared; empty: it can.
std::string find_divergence(std::int64_t step, const GradientSizes& sizes,
                            const SliceStates& states, const std::vector<nn::NamedTensor>& after,
                            const ops::LossTotals& totals) {
  if (has_exploded(totals.loss_sum)) {
    return fmt::format(
        "training diverged in step {} of the verification: the loss is {:.3g}", step,
        totals.loss_sum / static_cast<double>(std::max<std::uint64_t>(totals.counted, 1)));
  }
  const std::pair<const char*, std::string> found[] = {{"gradients of ", sizes.exploded()},
                                                       {"weights of ", find_exploded(after)},
                                                       {"", states.exploded()}};
  for (const auto& [what, tensor] : found) {
    if (tensor.empty()) continue;
    return fmt::format(
        "training diverged in step {} of the verification: {}{} became no finite number, or one "
        "beyond 1e18",
        step, what, tensor.substr(0, 100));
  }
  return "";
}

// Of an element: far smaller gradients are no normal numbers, and rounded as coarsely as they are
// large.
constexpr double kLeastSize = 0x1p-80;
// What the terms of a tensor's gradient in the step before count for now. Where a gradient cancels
// over replicas, or to next to nothing in one step, they tell its terms' size.
constexpr double kKeptShare = 0.98;

// "conv1" of "conv1.weight".
std::string layer_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

struct LayerSum {
  double squared = 0;
  double elements = 0;
};

// Raises each tensor's size to the root mean square of its layer times the root of its elements: a
// tensor of few elements may happen to be far smaller than the terms that it is the sum of. (A bias
// is the weight of an input that is always 1.)
void raise_to_layers(const std::vector<nn::NamedTensor>& tensors, std::vector<double>& sizes) {
  std::map<std::string, LayerSum> layers;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    LayerSum& layer = layers[layer_of(tensors[t].name)];
    layer.squared += sizes[t] * sizes[t];
    layer.elements += static_cast<double>(tensors[t].values.size());
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const LayerSum& layer = layers[layer_of(tensors[t].name)];
    const double share = static_cast<double>(tensors[t].values.size()) / layer.elements;
    sizes[t] = std::max(sizes[t], std::sqrt(share * layer.squared));
  }
}

// What one forward added to element `c` of a running statistic: momentum * the batch's.
double added(const nn::NamedTensor& before, const nn::NamedTensor& after, double momentum,
             std::size_t c) {
  return after.values[c] - (1 - momentum) * before.values[c];
}

// Replicas must be equal, all the same, but where servers serve workers one by one.
std::vector<VerificationResult> measure_divergence(RankTrainer& rank,
                                                   const ReferenceWeights& reference) {
  Strategy& strategy = rank.strategy();
  std::vector<VerificationResult> results;
  if (reference.steps() > 0) rank.take_steps(reference.steps(), false, 0);
  strategy.publish();
  for (Replica* replica : strategy.replicas()) {
    VerificationResult& result = results.emplace_back();
    result.steps = reference.steps();
    result.diverged = reference.diverged();
    if (!strategy_config(rank.job()).serves_one_by_one()) result.weights_hash = hash_of(*replica);
    if (result.steps == 0) continue;
    result.divergence = reference.divergence_of(nn::export_weights(replica->graph()));
    if (std::isfinite(result.divergence)) continue;
    result.divergence = 0;
    result.diverged = "training diverged in the verification: weights became no finite number";
  }
  return results;
}

}  // namespace

void compute_reference(RankTrainer& rank, ReferenceWeights& reference) {
  Replica& replica = *rank.strategy().replicas()[0];
  const nn::Graph& graph = replica.graph();
  const TrainingJob& job = rank.job();
  GradientSizes sizes(graph, job.verification_tolerance, probe_options(job));
  // Where the replicas take their statistics together, one slice is the batch of all.
  const int devices = job.cell.world_size;
  const int replicas = job.synchronises_batch_norm() ? devices : 1;
  SliceStates states(graph, reference, devices / replicas, replicas);
  rank.observe_slices(
      [&] {
        sizes.add_probe();
        rank.take_totals();
      },
      [&] {
        sizes.add_slice();
        states.add_slice();
      });
  reference.store_start(nn::export_weights(graph), nn::export_state(graph));
  rank.take_totals();
  std::int64_t step = 0;
  std::string diverged;
  rank.take_steps(job.options.verify_steps, false, 0, [&] {
    const auto after = nn::export_weights(graph);
    if (scale_of(replica).last_skipped) sizes.drop_gradients();
    diverged = find_divergence(++step, sizes, states, after, rank.take_totals());
    if (!diverged.empty()) return false;
    const GradientSizes::Step found = sizes.finish_step();
    reference.store_step(after, found.gradients, found.sizes);
    states.finish_step();
    return true;
  });
  rank.observe_slices({}, {});
  if (step > 0 && scale_of(replica).skipped == step) {
    throw ConfigError(fmt::format(
        "--verify-steps={}: the gradients of all of them overflow in {}, so that nothing is "
        "updated and compared; the scale halves in each, give more",
        step, job.options.precision));
  }
  reference.finish(diverged);
}

std::vector<VerificationResult> compare_with_reference(RankTrainer& rank,
                                                       const ReferenceWeights& reference) {
  Strategy& strategy = rank.strategy();
  const double tolerance = rank.job().verification_tolerance;
  strategy.publish();
  for (Replica* replica : strategy.replicas()) {
    reference.check_start(nn::export_weights(replica->graph()), nn::export_state(replica->graph()));
  }
  if (is_approximate(rank.job())) return measure_divergence(rank, reference);
  const auto replicas = strategy.updated_replicas();
  // Those that do not keep parameters between steps must have those with which each step began, to
  // the bit: a small learning rate would hide older ones from the tolerance.
  std::vector<Replica*> followers = strategy.replicas();
  std::erase_if(followers, [&](Replica* one) { return std::ranges::count(replicas, one) > 0; });
  std::vector<bool> are_right(followers.size(), true);
  std::vector<VerificationResult> results(replicas.size());
  std::vector<ExpectedUpdates> expected;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    expected.emplace_back(optimizer_of(rank.job()), reference.weights(0).size());
  }
  std::int64_t step = 0;
  rank.take_steps(reference.steps(), false, 0, [&] {
    ++step;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      auto gradients = nn::export_gradients(replicas[i]->graph(), strategy.fetch_gradients(i));
      const ops::LossScale scale = scale_of(*replicas[i]);
      if (scale.last_skipped) set_to_zero(gradients);  // as those of the reference
      reference.compare_gradients(step, gradients, tolerance, results[i]);
      const ExpectedUpdate update =
          expected[i].next(replicas[i]->stream(), reference.weights(step - 1), gradients, scale);
      reference.compare_update(step, nn::export_weights(replicas[i]->graph()), update, results[i]);
    }
    for (std::size_t i = 0; i < followers.size(); ++i) {
      const auto weights = nn::export_weights(followers[i]->graph());
      if (!reference.first_difference(step - 1, weights).empty()) are_right[i] = false;
    }
    compare_states(rank, step, reference, results);
    if (step == reference.steps()) return false;
    strategy.assign([&](nn::Graph& graph) {
      nn::import_values(graph, reference.weights(step));
      nn::import_state_values(graph, reference.state(step));
    });
    return true;
  });
  if (!followers.empty()) strategy.publish();
  for (std::size_t i = 0; i < followers.size(); ++i) {
    // The result of the first, and another hash where the parameters were not or are not its own.
    results.push_back(results[0]);
    const bool equal = hash_of(*followers[i]) == hash_of(*replicas[0]);
    if (!are_right[i] || !equal) ++results.back().weights_hash;
  }
  for (VerificationResult& result : results) result.diverged = reference.diverged();
  return results;
}

void check_verification(RankTrainer& rank, const std::vector<VerificationResult>& results) {
  const TrainingJob& job = rank.job();
  for (const VerificationResult& result : results) {
    if (result.is_within_tolerance()) continue;
    throw VerificationError(fmt::format(
        "in step {} of {} {} became something else than the reference's: relative error {:.3g}, "
        "tolerance {:.3g}: {} on {} devices does not compute what one device computes",
        result.worst_step, job.verify_steps(), result.worst_tensor, result.max_relative_error,
        result.tolerance, job.cell.strategy, job.cell.world_size));
  }
  const std::uint64_t expected = hash_of_rank_0(rank, results[0].weights_hash);
  if (std::ranges::count(results, expected, &VerificationResult::weights_hash) ==
      std::ssize(results)) {
    return;
  }
  throw VerificationError(fmt::format(
      "in one of {} steps the parameters of a replica on rank {} were not bit-equal to replica 0's",
      results[0].steps, rank.inputs().rank));
}

void GradientSizes::add_probe() { probe_ = nn::export_gradients(graph_); }

void GradientSizes::add_slice() {
  std::vector<nn::NamedTensor> sum = nn::export_gradients(graph_);
  slices_.resize(sum.size());
  if (exploded_.empty()) exploded_ = find_exploded(sum);
  for (std::size_t t = 0; t < sum.size(); ++t) {
    for (std::size_t i = 0; i < sum[t].values.size(); ++i) {
      const double before = sum_.empty() ? 0 : sum_[t].values[i];
      const double slice = sum[t].values[i] - before;
      slices_[t] += slice * slice;
    }
  }
  sum_ = std::move(sum);
}

void GradientSizes::drop_gradients() {
  set_to_zero(sum_);
  std::ranges::fill(slices_, 0);
  probe_.clear();
  exploded_.clear();
}

void GradientSizes::widen_to_measured(std::vector<double>& sizes) const {
  std::vector<double> errors(sum_.size());
  for (std::size_t t = 0; t < sum_.size(); ++t) {
    double squared = 0;
    for (std::size_t i = 0; i < sum_[t].values.size(); ++i) {
      const double error = probe_[t].values[i] / probing_->loss_factor - sum_[t].values[i];
      squared += error * error;
    }
    errors[t] = std::sqrt(squared);
  }
  raise_to_layers(sum_, errors);
  const double factor = probing_->allowance / error_;
  for (std::size_t t = 0; t < sizes.size(); ++t) sizes[t] = std::max(sizes[t], factor * errors[t]);
}

GradientSizes::Step GradientSizes::finish_step() {
  std::vector<double> sizes(sum_.size());
  for (std::size_t t = 0; t < sum_.size(); ++t) {
    sizes[t] = std::max(std::sqrt(slices_[t]), norm(sum_[t].values));
  }
  raise_to_layers(sum_, sizes);
  earlier_.resize(sizes.size());
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const double least = kLeastSize * std::sqrt(static_cast<double>(sum_[t].values.size()));
    sizes[t] = earlier_[t] = std::max({sizes[t], kKeptShare * earlier_[t], least});
  }
  // A probe of a larger loss may overflow where the step does not.
  if (!probe_.empty() && find_exploded(probe_).empty()) widen_to_measured(sizes);
  probe_.clear();
  std::ranges::fill(slices_, 0);
  return {std::exchange(sum_, {}), std::move(sizes)};
}

std::vector<double> state_sizes(const nn::ModelSpec& model,
                                const std::vector<nn::NamedTensor>& before,
                                const std::vector<nn::NamedTensor>& after) {
  std::vector<double> sizes;
  for (const nn::LayerSpec& layer : model.layers) {
    if (layer.type != nn::LayerType::batch_norm2d) continue;
    const std::size_t at = sizes.size();
    const double momentum = layer.momentum;
    double mean_squared = 0, variance_squared = 0;
    for (std::size_t c = 0; momentum > 0 && c < after.at(at).values.size(); ++c) {
      const double mean = std::abs(added(before.at(at), after.at(at), momentum, c));
      const double variance =
          std::max(added(before.at(at + 1), after.at(at + 1), momentum, c), 0.0) / momentum;
      const double deviation = std::sqrt(variance);
      const double size = mean + momentum * deviation;
      mean_squared += size * size;
      variance_squared += size * size * variance;
    }
    sizes.push_back(std::sqrt(mean_squared));
    sizes.push_back(std::sqrt(variance_squared));
    sizes.push_back(0);
  }
  ensure(sizes.size() == after.size(), "{} tensors of state where the layers have {}", after.size(),
         sizes.size());
  return sizes;
}

}  // namespace ddpbench::bench
