// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "bench/host/terminal.h"
#include "bench/plan/run_plan.h"
#include "bench/rank/rank_result.h"
#include "bench/run/launch_run.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

// A piece is its hash and its bytes. It stays in the store until all receivers have taken it.

namespace {

std::string piece_key(const std::string& key, std::size_t i) {
  return fmt::format("{}/{}", key, i);
}
std::string taken_key(const std::string& key, std::size_t i) {
  return piece_key(key, i) + "/taken";
}

// The pieces' hashes follow from each other, so none can be in another's place.
std::uint64_t hash_of(std::span<const std::byte> piece, std::uint64_t before) {
  return hash_bytes(piece.data(), piece.size(), before);
}

}  // namespace

void send_pieces(comm::Store& store, const std::string& key, std::span<const std::byte> bytes,
                 int receivers, const PieceOptions& options) {
  const std::size_t pieces = (bytes.size() + options.piece_bytes - 1) / options.piece_bytes;
  const auto await = [&](std::size_t i) {
    store.get(taken_key(key, i), options.timeout_s);
    store.set(piece_key(key, i), "");
  };
  store.set(key + "/bytes", std::to_string(bytes.size()));
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < pieces && receivers > 0; ++i) {
    if (i >= options.ahead) await(i - options.ahead);
    const std::size_t at = i * options.piece_bytes;
    const auto piece = bytes.subspan(at, std::min(options.piece_bytes, bytes.size() - at));
    hash = hash_of(piece, hash);
    std::string value(reinterpret_cast<const char*>(&hash), sizeof hash);
    value.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    store.set(piece_key(key, i), value);
  }
  for (std::size_t i = pieces - std::min(pieces, options.ahead); i < pieces && receivers > 0; ++i) {
    await(i);
  }
}

void receive_pieces(comm::Store& store, const std::string& key, std::span<std::byte> bytes,
                    int receivers, const PieceOptions& options) {
  const std::string sent = store.get(key + "/bytes", options.timeout_s);
  if (sent != std::to_string(bytes.size())) {
    throw CommError(
        fmt::format("{}: {} bytes are sent where {} are expected", key, sent, bytes.size()));
  }
  std::uint64_t hash = 0;
  for (std::size_t i = 0, at = 0; at < bytes.size(); ++i) {
    const auto piece = bytes.subspan(at, std::min(options.piece_bytes, bytes.size() - at));
    const std::string value = store.get(piece_key(key, i), options.timeout_s);
    if (value.size() == sizeof hash + piece.size()) {
      std::memcpy(piece.data(), value.data() + sizeof hash, piece.size());
    }
    hash = hash_of(piece, hash);
    if (value.size() != sizeof hash + piece.size() ||
        std::memcmp(value.data(), &hash, sizeof hash) != 0) {
      throw CommError(
          fmt::format("{}: piece {} of {} bytes arrived damaged", key, i, piece.size()));
    }
    at += piece.size();
    if (store.add(piece_key(key, i) + "/count", 1) == receivers) store.set(taken_key(key, i), "1");
  }
}

namespace {

constexpr const char* kDatasetKey = "joined/dataset";
constexpr const char* kReferenceKey = "joined/reference";

// Files of the same form may have other content.
void compare_data(JoinedPeers& peers, const data::DatasetInfo& info, const SharedMemory& dataset) {
  if (!peers.hosts().are_several()) return;
  const BufferView view = dataset.view();
  const std::string own =
      fmt::format("{:016x}", hash_bytes(view.data, data::content_bytes(info, view.bytes)));
  const std::string key = std::string(kDatasetKey) + "/hash";
  if (peers.is_first()) return peers.store().share(key, own);
  const std::string first = peers.await_made(key);
  if (own == first) return;
  throw ConfigError(fmt::format(
      "the data set on the host of {} is not that of {}: its content has hash {}, not {}; give all "
      "hosts the same files",
      peers.hosts().words(peers.rank()), peers.hosts().words(0), own, first));
}

[[noreturn]] void throw_reference_failure(const launch::RankError& error) {
  const std::string message = "the reference to verify against failed: " + error.message;
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
  if (result.failure) throw_reference_failure(result.failure->error);
}

}  // namespace

SharedMemory share_dataset(JoinedPeers& peers, data::DatasetSource& source, Progress& progress) {
  const std::string key = peers.host_key(kDatasetKey);
  if (!peers.makes_for_host()) return SharedMemory::open_sealed(peers.await_made(key));
  source.open_decoded([&](auto done, auto of, const std::string& path) {
    peers.check();
    progress.show_decoding(done, of, path);
  });
  SharedMemory memory =
      SharedMemory::create("ddpbench-dataset", source.info().decoded_bytes(), true);
  source.decode(memory.view().as<std::byte>());
  memory.seal();
  compare_data(peers, source.info(), memory);
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
