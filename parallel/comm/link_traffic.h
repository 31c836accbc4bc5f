// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// LinkTraffic: the messages and bytes that ranks send each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddpbench::comm {

// A message is what one rank sends one other in one step of an algorithm: a chunk, a part, a whole
// buffer. The pieces into which a backend cuts it are not counted, nor is a message without bytes.
struct Traffic {
  std::uint64_t messages = 0, bytes = 0;

  void add_message(std::uint64_t message_bytes) {
    messages += message_bytes > 0 ? 1 : 0;
    bytes += message_bytes;
  }
  Traffic& operator+=(const Traffic& other) {
    messages += other.messages;
    bytes += other.bytes;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

class LinkTraffic {
 public:
  explicit LinkTraffic(int ranks)
      : ranks_(ranks), links_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

  int ranks() const noexcept { return ranks_; }
  Traffic& between(int from, int to) { return links_.at(index(from, to)); }
  const Traffic& between(int from, int to) const { return links_.at(index(from, to)); }
  Traffic total() const {
    Traffic sum;
    for (const Traffic& link : links_) sum += link;
    return sum;
  }
  Traffic sent(int rank) const {
    Traffic sum;
    for (int to = 0; to < ranks_; ++to) sum += between(rank, to);
    return sum;
  }
  Traffic received(int rank) const {
    Traffic sum;
    for (int from = 0; from < ranks_; ++from) sum += between(from, rank);
    return sum;
  }

 private:
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(to);
  }

  int ranks_;
  std::vector<Traffic> links_;  // [from][to]
};

}  // namespace ddpbench::comm
