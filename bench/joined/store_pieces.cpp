// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A piece is its hash and its bytes. It stays in the store until all receivers have taken it.
#include "bench/joined/store_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace ddpbench::bench {
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

}  // namespace ddpbench::bench
