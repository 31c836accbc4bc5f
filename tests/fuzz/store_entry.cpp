// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm/store/tcp_store_protocol.h"
#include "tests/fuzz/entries.h"

namespace ddpbench::fuzz {
namespace {

using comm::Request;

// Does what the server does with a request. Returns whether it would be answered with success.
bool execute(const comm::StoreRequest& request, comm::StoreMap& map) {
  switch (request.kind) {
    case Request::set:
      map.set(request.key, request.argument);
      return true;
    case Request::stream:
    case Request::clock:
      return true;
    case Request::get:
      return map.find(request.key) != nullptr;
    case Request::add:
      try {
        map.add(request.key, comm::decode_integer(request.argument));
      } catch (const CommError&) {
        return false;
      }
      ensure(map.find(request.key) != nullptr, "a counter is gone");
      return true;
  }
  throw InternalError("a request of no kind");
}

void check_request(const comm::StoreRequest& request, const std::string& payload) {
  ensure(!request.key.empty() && request.key.size() <= comm::kMaxKeyBytes, "a key of {} bytes",
         request.key.size());
  ensure(request.argument.size() <= comm::kMaxValueBytes, "an argument of {} bytes",
         request.argument.size());
  ensure(comm::encode(request) == comm::frame(payload), "encoded again it differs");
}

}  // namespace

bool store_entry(const std::string& input) {
  if (input.empty()) return false;
  // The first byte says in what pieces the rest arrives.
  const std::size_t piece = 1 + static_cast<unsigned char>(input[0]);
  comm::FrameReader reader;
  comm::StoreMap map;
  bool answered = false;
  try {
    for (std::size_t at = 1; at < input.size(); at += piece) {
      reader.append(std::string_view(input).substr(at, piece));
      while (const auto payload = reader.next(comm::kMaxFrameBytes)) {
        const auto request = comm::decode_request(*payload);
        if (!request) return false;  // the server closes the connection
        check_request(*request, *payload);
        answered = execute(*request, map) || answered;
        ensure(comm::equal_in_constant_time(*payload, request->key) == (*payload == request->key),
               "the comparison in constant time differs from the plain one");
      }
    }
  } catch (const CommError&) {
    return false;  // a frame over the limit
  }
  return answered;
}

}  // namespace ddpbench::fuzz
