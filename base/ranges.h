// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lists, texts and figures made of the elements of a range.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddpbench {

// What `value_of`, a function or a member, gives for each element of `range`, in its order.
template <typename Range, typename Value>
auto mapped(Range&& range, Value value_of) {
  using Element = std::ranges::range_reference_t<Range>;
  std::vector<std::remove_cvref_t<std::invoke_result_t<Value&, Element>>> values;
  if constexpr (std::ranges::sized_range<Range>) values.reserve(std::ranges::size(range));
  for (auto&& element : range) values.push_back(std::invoke(value_of, element));
  return values;
}

// The elements of `range`, or what `words_of` gives for each, with `between` them: "1, 3, 7".
template <typename Range>
std::string joined(Range&& range, std::string_view between) {
  return fmt::format("{}", fmt::join(range, between));
}
template <typename Range, typename Words>
std::string joined(Range&& range, std::string_view between, Words words_of) {
  return joined(mapped(range, words_of), between);
}

// The largest of `least` and of what `value_of` gives for the elements of `range`.
template <typename Range, typename T, typename Value>
T largest(Range&& range, T least, Value value_of) {
  for (auto&& element : range) least = std::max<T>(least, std::invoke(value_of, element));
  return least;
}

// The elements with what `key_of` gives for them, those of one key together, in the order of the
// first of each.
template <typename Range, typename KeyOf>
auto grouped(Range&& range, KeyOf key_of) {
  using Element = std::ranges::range_value_t<Range>;
  using Key = std::decay_t<std::invoke_result_t<KeyOf, const Element&>>;
  std::vector<std::pair<Key, std::vector<Element>>> groups;
  std::map<Key, std::size_t> places;
  for (const Element& element : range) {
    const auto [place, added] = places.try_emplace(std::invoke(key_of, element), groups.size());
    if (added) groups.emplace_back(place->first, 0);
    groups[place->second].second.push_back(element);
  }
  return groups;
}

}  // namespace ddpbench
