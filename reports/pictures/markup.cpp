// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/markup.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace ddpbench::report::pictures {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The UTF-8 character at the front of a text; length 0 if its bytes are not valid.
struct Character {
  std::size_t length = 0;
  std::uint32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms are not valid
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  std::uint32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  if (code < kLeast[length] || code > 0x10FFFF) return {};
  return {length, code};
}

// First and last of the ranges of characters that XML does not allow or that change the direction
// of text. U+xFFFE and U+xFFFF are none, either.
constexpr std::uint32_t kForbidden[][2] = {{0, 0x08},        {0x0B, 0x1F},     {0x7F, 0x9F},
                                           {0x200E, 0x200F}, {0x202A, 0x202E}, {0x2066, 0x2069},
                                           {0xD800, 0xDFFF}};

bool is_allowed(std::uint32_t code) {
  return (code & 0xFFFE) != 0xFFFE && std::ranges::none_of(kForbidden, [code](const auto& range) {
           return code >= range[0] && code <= range[1];
         });
}

constexpr std::pair<char, std::string_view> kEscapes[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const auto* const escape =
        std::ranges::find(kEscapes, text[0], [](const auto& e) { return e.first; });
    if (character.length == 0 || !is_allowed(character.code)) {
      result += kReplacement;
    } else if (escape != std::end(kEscapes)) {
      result += escape->second;
    } else {
      result += text.substr(0, character.length);
    }
    text.remove_prefix(std::max<std::size_t>(character.length, 1));
  }
  return result;
}

void Markup::begin(std::string_view tag, Attributes attributes) {
  text_ += '<';
  text_ += tag;
  for (const Attribute& attribute : attributes) {
    if (attribute.name.empty()) continue;
    text_ += ' ';
    text_ += attribute.name;
    text_ += "=\"" + escaped(attribute.value) + '"';
  }
}

Markup& Markup::open(std::string_view tag, Attributes attributes) {
  begin(tag, attributes);
  text_ += '>';
  open_.emplace_back(tag);
  return *this;
}

Markup& Markup::close() {
  if (open_.empty()) throw InternalError("the page closes an element that is not open");
  text_ += "</" + open_.back() + '>';
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  text_ += escaped(text);
  return *this;
}

Markup& Markup::leaf(std::string_view tag, Attributes attributes, std::string_view content) {
  return open(tag, attributes).text(content).close();
}

Markup& Markup::empty(std::string_view tag, Attributes attributes) {
  begin(tag, attributes);
  text_ += "/>";
  return *this;
}

Markup& Markup::trusted(std::string_view text) {
  text_ += text;
  return *this;
}

std::string Markup::take() {
  if (!open_.empty()) {
    throw InternalError("the page ends within the element " + open_.back());
  }
  return std::exchange(text_, {});
}

}  // namespace ddpbench::report::pictures
