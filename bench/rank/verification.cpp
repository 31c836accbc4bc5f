// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/verification.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "bench/rank/rounding_sizes.h"
#include "kernels/nn/weights.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::bench {
namespace {

void check_tolerance(const TrainingJob& job, const VerificationResult& result) {
  if (result.is_within_tolerance()) return;
  throw VerificationError(fmt::format(
      "in step {} of {} {} became something else than the reference's: relative error {:.3g}, "
      "tolerance {:.3g}: {} on {} devices does not compute what one device computes",
      result.worst_step, job.verify_steps(), result.worst_tensor, result.max_relative_error,
      result.tolerance, job.cell.strategy, job.cell.world_size));
}

// Compares the hashes of the parameters of all replicas: directly within this rank, through the
// store between ranks.
void check_replicas_equal(RankTrainer& rank, const std::vector<VerificationResult>& results) {
  const RankInputs& inputs = rank.inputs();
  std::uint64_t expected = results[0].weights_hash;
  if (inputs.store != nullptr && rank.world() != nullptr) {
    constexpr const char* kKey = "verification/weights_hash";
    if (inputs.rank == 0) inputs.store->set(kKey, std::to_string(expected));
    expected = std::stoull(inputs.store->get(kKey, wait_limit_s(rank.job().options.timeout_s)));
  }
  for (const VerificationResult& result : results) {
    if (result.weights_hash == expected) continue;
    throw VerificationError(fmt::format(
        "in one of {} steps the parameters of a replica on rank {} were not bit-equal to replica "
        "0's",
        result.steps, inputs.rank));
  }
}

std::uint64_t hash_of(Replica& replica) {
  std::uint64_t hash = 0;
  for (const nn::NamedTensor& tensor : nn::export_weights(replica.graph())) {
    hash = hash_bytes(tensor.values.data(), tensor.values.size() * sizeof(float), hash);
  }
  return hash;
}

// The replicas that do not keep parameters between steps: after each one they must have those with
// which it began, to the bit. A small learning rate would hide older ones from the tolerance.
class Followers {
 public:
  Followers(Strategy& strategy, const std::vector<Replica*>& updated) : strategy_(strategy) {
    for (Replica* replica : strategy.replicas()) {
      if (std::ranges::count(updated, replica) == 0) replicas_.push_back(replica);
    }
    right_.resize(replicas_.size(), true);
  }

  void check_step(std::int64_t step, const ReferenceWeights& reference) {
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      const auto weights = nn::export_weights(replicas_[i]->graph());
      if (!reference.first_difference(step - 1, weights).empty()) right_[i] = false;
    }
  }

  // Enters a result for each, which is that of `primary` where it had the right parameters, also
  // when they are published.
  void enter(Replica& primary, std::vector<VerificationResult>& results) {
    if (replicas_.empty()) return;
    strategy_.publish();
    const std::uint64_t expected = hash_of(primary);
    const VerificationResult equal = results[0];
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      results.push_back(equal);
      if (!right_[i] || hash_of(*replicas_[i]) != expected) ++results.back().weights_hash;
    }
  }

 private:
  Strategy& strategy_;
  std::vector<Replica*> replicas_;
  std::vector<bool> right_;
};

// Compares the state of all replicas of this rank: each has seen one slice in this step, also
// those that do not keep their weights, whose findings go to the last result.
void compare_states(RankTrainer& rank, std::int64_t step, const ReferenceWeights& reference,
                    std::vector<VerificationResult>& results) {
  const std::vector<Replica*> replicas = rank.strategy().replicas();
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const auto state = nn::export_state(replicas[i]->graph());
    if (state.empty()) return;
    reference.compare_state(step, rank.plan().replicas[i], state, rank.job().verification_tolerance,
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

  // The next update, of `weights`. The operation runs on the host; it uses no stream.
  ExpectedUpdate next(Stream& unused, std::span<const float> weights,
                      const std::vector<nn::NamedTensor>& gradients) {
    ExpectedUpdate update{.weights = {weights.begin(), weights.end()}, .sizes = {}};
    std::vector<float> flat;
    for (const nn::NamedTensor& tensor : gradients) {
      flat.insert(flat.end(), tensor.values.begin(), tensor.values.end());
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

// Stores what each slice of the reference leaves in the graph's state. Each slice begins with the
// state that the step began with.
class SliceStates {
 public:
  // Each slice stands for `replicas` replicas.
  SliceStates(const nn::Graph& graph, ReferenceWeights& reference, int replicas)
      : graph_(graph), reference_(reference), replicas_(replicas), begun_(nn::export_state(graph)) {
    reference_.store_start_state(begun_);
  }

  void add_slice() {
    if (begun_.empty()) return;
    const auto after = nn::export_state(graph_);
    const auto sizes = state_sizes(graph_.model(), begun_, after);
    if (exploded_.empty()) exploded_ = find_exploded(after);
    for (int i = 0; i < replicas_; ++i) {
      reference_.store_slice_state(step_, slice_++, after, sizes);
    }
  }
  void finish_step() {
    begun_ = nn::export_state(graph_);
    ++step_;
    slice_ = 0;
  }
  // As GradientSizes has it of gradients. Variances are squares, so they may overflow before any
  // weight or gradient does.
  const std::string& exploded() const { return exploded_; }

 private:
  const nn::Graph& graph_;
  ReferenceWeights& reference_;
  int replicas_;
  std::vector<nn::NamedTensor> begun_;
  std::int64_t step_ = 1, slice_ = 0;
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

}  // namespace

void check_equal_start(RankTrainer& rank) {
  const RankInputs& inputs = rank.inputs();
  if (inputs.store == nullptr || rank.world() == nullptr) return;
  constexpr const char* kKey = "verification/start_hash";
  const std::uint64_t own = hash_of(*rank.strategy().replicas()[0]);
  if (inputs.rank == 0) inputs.store->set(kKey, std::to_string(own));
  const std::uint64_t first =
      std::stoull(inputs.store->get(kKey, wait_limit_s(rank.job().options.timeout_s)));
  if (own == first) return;
  throw VerificationError(fmt::format(
      "the weights of rank {} have the hash {:016x} before the first step, those of rank 0 "
      "{:016x}: ranks that do not start from the same weights train different networks, however "
      "equal their gradients are",
      inputs.rank, own, first));
}

void compute_reference(RankTrainer& rank, ReferenceWeights& reference) {
  const nn::Graph& graph = rank.strategy().replicas()[0]->graph();
  const TrainingJob& job = rank.job();
  GradientSizes sizes(graph, job.verification_tolerance, probe_options(job));
  // Where the replicas take their statistics together, one slice is the batch of all.
  SliceStates states(graph, reference, job.synchronises_batch_norm() ? job.cell.world_size : 1);
  rank.observe_slices(
      [&] {
        sizes.add_probe();
        rank.take_totals();
      },
      [&] {
        sizes.add_slice();
        states.add_slice();
      });
  reference.store_start(nn::export_weights(graph));
  rank.take_totals();
  std::int64_t step = 0;
  std::string diverged;
  rank.take_steps(job.options.verify_steps, false, 0, [&] {
    const auto after = nn::export_weights(graph);
    diverged = find_divergence(++step, sizes, states, after, rank.take_totals());
    if (!diverged.empty()) return false;
    const GradientSizes::Step found = sizes.finish_step();
    reference.store_step(after, found.gradients, found.sizes);
    states.finish_step();
    return true;
  });
  rank.observe_slices({}, {});
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
  const auto replicas = strategy.updated_replicas();
  Followers followers(strategy, replicas);
  std::vector<VerificationResult> results(replicas.size());
  std::vector<ExpectedUpdates> expected;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    expected.emplace_back(optimizer_of(rank.job()), reference.weights(0).size());
  }
  std::int64_t step = 0;
  rank.take_steps(reference.steps(), false, 0, [&] {
    ++step;
    strategy.fetch_gradients();
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      const auto gradients = nn::export_gradients(replicas[i]->graph());
      reference.compare_gradients(step, gradients, tolerance, results[i]);
      const ExpectedUpdate update =
          expected[i].next(replicas[i]->stream(), reference.weights(step - 1), gradients);
      reference.compare_update(step, nn::export_weights(replicas[i]->graph()), update, results[i]);
    }
    followers.check_step(step, reference);
    compare_states(rank, step, reference, results);
    if (step == reference.steps()) return false;
    strategy.assign_parameters(
        [&](nn::Graph& graph) { nn::import_values(graph, reference.weights(step)); });
    strategy.assign_state(
        [&](nn::Graph& graph) { nn::import_state_values(graph, reference.state(step)); });
    return true;
  });
  followers.enter(*replicas[0], results);
  for (VerificationResult& result : results) result.diverged = reference.diverged();
  return results;
}

void check_verification(RankTrainer& rank, const std::vector<VerificationResult>& results) {
  for (const VerificationResult& result : results) check_tolerance(rank.job(), result);
  check_replicas_equal(rank, results);
}

}  // namespace ddpbench::bench
