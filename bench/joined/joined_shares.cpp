// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_shares.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "bench/host/interrupt.h"
#include "bench/joined/store_pieces.h"
#include "bench/plan/fit_command.h"
#include "bench/plan/run_plan.h"
#include "bench/rank/rank_result.h"
#include "bench/run/launch_run.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kDatasetKey = "joined/dataset";
constexpr const char* kReferenceKey = "joined/reference";

// Files of the same form may have other content.
void compare_data(JoinedPeers& peers, const SharedMemory& dataset) {
  if (!peers.hosts().are_several()) return;
  const BufferView view = dataset.view();
  const std::string own = fmt::format("{:016x}", hash_bytes(view.data, view.bytes));
  const std::string key = std::string(kDatasetKey) + "/hash";
  if (peers.is_first()) return peers.store().share(key, own);
  const std::string first = peers.await_made(key);
  if (own == first) return;
  throw ConfigError(fmt::format(
      "the data set on the host of {} is not that of {}: its content has hash {}, not {}; give all "
      "hosts the same files",
      peers.hosts().words(peers.rank()), peers.hosts().words(0), own, first));
}

// `job`: the run that the reference is of.
[[noreturn]] void throw_reference_failure(const launch::RankError& error, const TrainingJob& job) {
  std::string message = "the reference to verify against failed: " + error.message;
  if (error.free_bytes) message = with_advice(message, fit_advice(job, error.free_bytes));
  const int code = failure_exit_code(error);
  if (code == ConfigError("").exit_code()) throw ConfigError(message);
  if (code == UnavailableError("").exit_code()) throw UnavailableError(message);
  throw InternalError(message);
}

void run_reference(JoinedPeers& peers, const TrainingJob& job, const ReferenceInputs& inputs) {
  auto channels = launch::RankChannels::create(channel_layout(job, inputs.model));
  const auto result = launch_run(job, channels, inputs.progress,
                                 [&peers] { return !peers.reason_to_end().empty(); });
  if (result.interrupted) {
    peers.check();
    throw Interrupted();
  }
  if (result.failure) throw_reference_failure(result.failure->error, inputs.job);
}

}  // namespace

SharedMemory share_dataset(JoinedPeers& peers, data::DatasetSource& source) {
  const std::string key = peers.host_key(kDatasetKey);
  if (!peers.makes_for_host()) return SharedMemory::open_sealed(peers.await_made(key));
  SharedMemory memory =
      SharedMemory::create("ddpbench-dataset", source.info().decoded_bytes(), true);
  source.decode(memory.view().as<std::byte>());
  memory.seal();
  compare_data(peers, memory);
  peers.store().share(key, memory.handle());
  return memory;
}

std::optional<ReferenceWeights> share_reference(JoinedPeers& peers, const ReferenceInputs& inputs) {
  const bool is_made = !inputs.job.options.dry_run;
  const std::string key = peers.host_key(kReferenceKey);
  std::optional<ReferenceWeights> reference;
  if (!peers.makes_for_host()) {
    const std::string handle = peers.await_made(key);
    if (is_made) reference = ReferenceWeights::open(handle);
    return reference;
  }
  if (is_made) {
    reference = ReferenceWeights::create(ReferenceWeights::extent_of(inputs.job, inputs.model));
  }
  const int receivers = peers.hosts().count() - 1;
  if (peers.is_first()) {
    TrainingJob job = reference_job(inputs.job);
    job.dataset_fd = inputs.dataset.fd();
    if (is_made) job.reference_fd = reference->fd();
    run_reference(peers, job, inputs);
    peers.store().share(kReferenceKey, "made");
  } else {
    peers.await_made(kReferenceKey);
  }
  if (is_made && peers.is_first() && receivers > 0) {
    send_pieces(*peers.store().get(), kReferenceKey, reference->memory(), receivers,
                {.timeout_s = inputs.limit_s});
  }
  if (is_made && !peers.is_first()) {
    receive_pieces(*peers.store().get(), kReferenceKey, reference->memory(), receivers,
                   {.timeout_s = inputs.limit_s});
  }
  peers.store().share(key, is_made ? reference->handle() : "");
  return reference;
}

}  // namespace ddpbench::bench
